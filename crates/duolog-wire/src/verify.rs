//! The results of verifying and repairing logs.

use duolog::log::RecordedRepair;
use duolog::{Damage, DamageKind, SealMismatch, SessionId, Severity, Verified};
use schemars::JsonSchema;
use serde::Serialize;

/// The result of verifying logs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogsVerified {
    /// One result per log.
    pub results: Vec<LogVerified>,
    /// Number of damaged logs.
    pub damaged_logs: u64,
}

/// The result of verifying a log. Counts are null if the log could not be read.
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
    /// Events.
    pub events: Option<u64>,
    /// Number of seals.
    pub seals: Option<u64>,
    /// End of the sealed bytes.
    pub sealed_position: Option<u64>,
    /// Bytes of a torn last line.
    pub torn_bytes: Option<u64>,
    /// Places where sealed bytes changed or are missing.
    pub damaged_places: Option<u64>,
    /// Places that a power failure made unreadable before they were sealed.
    pub unsynced_places: Option<u64>,
    /// Blobs referenced by its lines that are missing or damaged.
    pub lost_blobs: Option<u64>,
    /// The first places.
    pub places: Vec<DamagedPlace>,
    /// The latest recorded losses.
    pub losses: Vec<Repair>,
    /// Reason why it could not be read.
    pub error_message: Option<String>,
}

impl LogVerified {
    /// Creates the result for a log.
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

    /// Creates the result for a log that could not be read.
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

/// A place in a log that was changed after sealing or cannot be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DamagedPlace {
    /// Kind of the place.
    #[schemars(extend("enum" = ["line", "seal", "missing", "blob"]))]
    pub kind: &'static str,
    /// Start position in the log as it was when sealed.
    pub position: u64,
    /// End position.
    pub end_position: u64,
    /// End of the block with the first changed byte.
    pub first_end_position: u64,
    /// Change of the bytes after the place.
    #[schemars(extend("enum" = ["in_place", "removed", "inserted", "cut", "unclear", null]))]
    pub change: Option<&'static str>,
    /// Number of removed, inserted or cut bytes.
    pub bytes: Option<u64>,
    /// The number of the first line, from 1.
    pub line: u64,
    /// Position of that line.
    pub line_position: u64,
    /// The number of the last line.
    pub last_line: u64,
    /// Start of the bytes that cannot be checked.
    pub unchecked_position: Option<u64>,
    /// True if the place is below the last seal.
    pub sealed: bool,
    /// `damage` if sealed bytes changed or are missing; `unsynced_loss` if it was unreadable when it was sealed, or is
    /// not sealed.
    #[schemars(extend("enum" = ["damage", "unsynced_loss"]))]
    pub severity: &'static str,
    /// Reason.
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

/// A recorded repair.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Repair {
    /// Action or finding.
    #[schemars(extend("enum" = ["completed", "quarantined", "terminated", "shorter", "replaced", "missing", "rewritten", "unsealed"]))]
    pub action: &'static str,
    /// The epoch of the log.
    pub epoch: u32,
    /// Position.
    pub position: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Time of the repair.
    pub repaired_at: String,
    /// Places where sealed bytes had changed.
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

/// A repaired log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogRepaired {
    /// The session.
    pub session_id: String,
    /// The end of the log.
    pub position: u64,
    /// The end of the log, with its epoch.
    pub cursor: String,
    /// Repairs.
    pub repairs: Vec<Repair>,
    /// Result of verifying after the repair.
    pub remaining: LogRemaining,
}

/// The problems that remain after a repair.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogRemaining {
    /// Places where sealed bytes changed or are missing.
    pub damaged_places: u64,
    /// Places that a power failure made unreadable before they were sealed.
    pub unsynced_places: u64,
    /// The first places.
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
