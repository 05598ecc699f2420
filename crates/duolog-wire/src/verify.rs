//! What verifying and repairing logs found.

use duolog::log::RecordedRepair;
use duolog::{Damage, DamageKind, SealMismatch, SessionId, Severity, Verified};
use schemars::JsonSchema;
use serde::Serialize;

/// What verifying logs found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogsVerified {
    /// One for each log.
    pub results: Vec<LogVerified>,
    /// How many of them are damaged.
    pub damaged_logs: u64,
}

/// What verifying a log found. Counts are null if it could not be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogVerified {
    /// The session.
    pub session_id: String,
    /// Status; `failed` if it could not be read.
    #[schemars(extend("enum" = ["ok", "warning", "damaged", "failed"]))]
    pub status: &'static str,
    /// The epoch of the log.
    pub epoch: Option<u32>,
    /// The end of the log.
    pub position: Option<u64>,
    /// Its events.
    pub events: Option<u64>,
    /// Number of seals.
    pub seals: Option<u64>,
    /// The end of what is sealed.
    pub sealed_position: Option<u64>,
    /// Bytes of a torn last line.
    pub torn_bytes: Option<u64>,
    /// Places where sealed bytes changed or are missing.
    pub damaged_places: Option<u64>,
    /// Places that power loss left unreadable before they were sealed.
    pub unsynced_places: Option<u64>,
    /// Blobs that its lines name and that are missing or damaged.
    pub lost_blobs: Option<u64>,
    /// The first of these places.
    pub places: Vec<DamagedPlace>,
    /// The newest losses on record.
    pub losses: Vec<Repair>,
    /// Why it could not be read.
    pub error_message: Option<String>,
}

impl LogVerified {
    /// The result for a log that was read.
    pub fn of(session: &SessionId, verified: &Verified) -> Self {
        let status = match verified {
            Verified { damaged: 1.., .. } | Verified { blobs_lost: 1.., .. } => "damaged",
            Verified { unsynced: 1.., .. } | Verified { torn_bytes: 1.., .. } => "warning",
            Verified { losses, .. } if !losses.is_empty() => "warning",
            _ => "ok",
        };
        Self {
            session_id: session.to_string(),
            status,
            epoch: Some(verified.epoch.0),
            position: Some(verified.end.0),
            events: Some(verified.events),
            seals: Some(verified.seals),
            sealed_position: Some(verified.sealed_to.0),
            torn_bytes: Some(verified.torn_bytes),
            damaged_places: Some(verified.damaged),
            unsynced_places: Some(verified.unsynced),
            lost_blobs: Some(verified.blobs_lost),
            places: verified.places.iter().map(DamagedPlace::from).collect(),
            losses: verified.losses.iter().map(Repair::from).collect(),
            error_message: None,
        }
    }

    /// The result for a log that could not be read, with its status and why.
    pub fn unread(session: &SessionId, status: &'static str, why: String) -> Self {
        Self {
            session_id: session.to_string(),
            status,
            epoch: None,
            position: None,
            events: None,
            seals: None,
            sealed_position: None,
            torn_bytes: None,
            damaged_places: None,
            unsynced_places: None,
            lost_blobs: None,
            places: Vec::new(),
            losses: Vec::new(),
            error_message: Some(why),
        }
    }
}

/// A place in a log that is not as it was sealed, or cannot be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DamagedPlace {
    /// What is there.
    #[schemars(extend("enum" = ["line", "seal", "missing", "blob"]))]
    pub kind: &'static str,
    /// Where it begins, counted as the log was when it was sealed.
    pub position: u64,
    /// Where it ends.
    pub end_position: u64,
    /// The end of the block with the first changed byte.
    pub first_end_position: u64,
    /// What became of the bytes behind it.
    #[schemars(extend("enum" = ["in_place", "removed", "inserted", "cut", "unclear", null]))]
    pub change: Option<&'static str>,
    /// How many bytes were removed, inserted or cut.
    pub bytes: Option<u64>,
    /// The number of the first line, from 1.
    pub line: u64,
    /// Where that line begins.
    pub line_position: u64,
    /// The number of the last line.
    pub last_line: u64,
    /// Where the bytes begin that cannot be checked.
    pub unchecked_position: Option<u64>,
    /// True if it is below the last seal.
    pub sealed: bool,
    /// `damage` if sealed bytes changed or are gone; `unsynced_loss` if it could not be read when it was sealed, or is
    /// not sealed.
    #[schemars(extend("enum" = ["damage", "unsynced_loss"]))]
    pub severity: &'static str,
    /// Errors.
    pub reason: String,
}

impl From<&Damage> for DamagedPlace {
    fn from(damage: &Damage) -> Self {
        let (kind, change, bytes) = match damage.kind {
            DamageKind::Line(_) => ("line", None, None),
            DamageKind::Seal(SealMismatch::InPlace) => ("seal", Some("in_place"), None),
            DamageKind::Seal(SealMismatch::Removed { bytes }) => ("seal", Some("removed"), Some(bytes)),
            DamageKind::Seal(SealMismatch::Inserted { bytes }) => ("seal", Some("inserted"), Some(bytes)),
            DamageKind::Seal(SealMismatch::Unclear) => ("seal", Some("unclear"), None),
            DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => ("blob", None, None),
            DamageKind::Missing { .. } => ("missing", Some("cut"), Some(damage.to.0 - damage.from.0)),
        };
        let unchecked_position = match damage.kind {
            DamageKind::Missing { unchecked_from } => Some(unchecked_from.0),
            _ => None,
        };
        Self {
            kind,
            position: damage.from.0,
            end_position: damage.to.0,
            first_end_position: damage.first_to.0,
            change,
            bytes,
            line: damage.line,
            line_position: damage.line_start.0,
            last_line: damage.line_to,
            unchecked_position,
            sealed: damage.sealed,
            severity: match damage.severity {
                Severity::Damage => "damage",
                Severity::UnsyncedLoss => "unsynced_loss",
            },
            reason: damage.to_string(),
        }
    }
}

/// A repair that is on record.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Repair {
    /// What was done or found.
    #[schemars(extend("enum" = ["completed", "quarantined", "terminated", "shorter", "replaced", "missing", "rewritten", "unsealed"]))]
    pub action: &'static str,
    /// The epoch of the log.
    pub epoch: u32,
    /// Where.
    pub position: u64,
    /// How many bytes.
    pub bytes: u64,
    /// When.
    pub repaired_at: String,
    /// Where sealed bytes had changed.
    pub detail: Option<String>,
}

impl From<&RecordedRepair> for Repair {
    fn from(row: &RecordedRepair) -> Self {
        let repair = &row.repair;
        Self {
            action: repair.action.as_str(),
            epoch: repair.epoch.0,
            position: repair.position.0,
            bytes: repair.bytes,
            repaired_at: repair.repaired_at.to_string(),
            detail: repair.detail.clone(),
        }
    }
}

/// A log that was repaired.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogRepaired {
    /// The session.
    pub session_id: String,
    /// The end of the log.
    pub position: u64,
    /// The end of the log, with its epoch.
    pub cursor: String,
    /// What was done.
    pub repairs: Vec<Repair>,
    /// What verifying finds afterwards.
    pub remaining: LogRemaining,
}

/// What a repair leaves as it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogRemaining {
    /// Places where sealed bytes changed or are missing.
    pub damaged_places: u64,
    /// Places that power loss left unreadable before they were sealed.
    pub unsynced_places: u64,
    /// The first of these places.
    pub places: Vec<DamagedPlace>,
}

impl From<&Verified> for LogRemaining {
    fn from(verified: &Verified) -> Self {
        Self {
            damaged_places: verified.damaged,
            unsynced_places: verified.unsynced,
            places: verified.places.iter().map(DamagedPlace::from).collect(),
        }
    }
}
