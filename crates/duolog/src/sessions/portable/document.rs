//! The parts of a document: a JSON object whose members have a fixed order. Most members are lists.

use std::fmt;

use duolog_state::owned::branches::{BranchRow, ForkPoint};
use duolog_state::owned::compactions::{CompactionEntry, CompactionRow};
use duolog_state::owned::messages::MessageRow;
use duolog_state::owned::progressions::ProgressionRow;
use duolog_state::owned::sessions::SessionRow;
use duolog_state::owned::status_transitions::StatusTransitionRow;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::super::messages::unpacked;

/// The version of the format. A document of a later version is refused.
pub(super) const VERSION: u64 = 1;

/// The members of a document, in their order.
pub(super) const VERSION_KEY: &str = "duolog_export";
pub(super) const SESSION: &str = "session";
pub(super) const STATUSES: &str = "statuses";
pub(super) const PROGRESSIONS: &str = "progressions";
pub(super) const MESSAGES: &str = "messages";
pub(super) const ITEMS: &str = "items";
pub(super) const BRANCHES: &str = "branches";
pub(super) const COMPACTIONS: &str = "compactions";
pub(super) const LOG: &str = "log";
pub(super) const BLOBS: &str = "blobs";
/// The last member, only of a log that lost bytes.
pub(super) const LOST_BYTES: &str = "lost_bytes";

/// A JSON text in a document: as a value, or as text if the value would not preserve every byte.
type EncodedJson = (Option<Box<RawValue>>, Option<String>);

/// Encodes a JSON text. A value loses the spaces around it, and `null` means that there is no text.
fn encode_json(text: Option<String>) -> EncodedJson {
    let Some(text) = text else { return (None, None) };
    let is_whole = serde_json::from_str::<&RawValue>(&text).is_ok_and(|raw| raw.get().len() == text.len());
    if !is_whole || text == "null" {
        return (None, Some(text));
    }
    match RawValue::from_string(text) {
        Ok(raw) => (Some(raw), None),
        Err(_) => (None, None),
    }
}

/// Decodes a JSON text.
///
/// # Errors
///
/// Returns an error if it is given both as a value and as text.
pub(super) fn decode_json(value: Option<Box<RawValue>>, text: Option<String>) -> Result<Option<String>, GivenTwice> {
    match (value, text) {
        (Some(_), Some(_)) => Err(GivenTwice),
        (value, text) => Ok(value.map(|value| Box::<str>::from(value).into_string()).or(text)),
    }
}

/// The error for a text that is given both as a value and as text.
#[derive(Debug, PartialEq)]
pub(super) struct GivenTwice;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionPart {
    pub(super) id: String,
    pub(super) user_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) addressed: bool,
    pub(super) created_at: String,
    pub(super) started_at: Option<String>,
    pub(super) updated_at: String,
    pub(super) ended_at: Option<String>,
    pub(super) status: Option<String>,
    pub(super) source_kind: String,
    pub(super) invocation_kind: Option<String>,
    pub(super) agent_name: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) playbook_name: Option<String>,
    pub(super) show_topic: Option<String>,
    pub(super) show_play_name: Option<String>,
    pub(super) artifacts_path: Option<String>,
    pub(super) log_epoch: u32,
    pub(super) progression_id: Option<String>,
    pub(super) first_msg_id: Option<String>,
    pub(super) last_msg_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata_text: Option<String>,
}

impl From<SessionRow> for SessionPart {
    fn from(row: SessionRow) -> Self {
        let (node_metadata, node_metadata_text) = encode_json(row.node_metadata);
        Self {
            id: row.id.to_string(),
            user_id: row.user_id,
            name: row.name,
            addressed: row.addressed,
            created_at: row.created_at.to_string(),
            started_at: row.started_at.map(|at| at.to_string()),
            updated_at: row.updated_at.to_string(),
            ended_at: row.ended_at.map(|at| at.to_string()),
            status: row.status.map(|status| status.to_string()),
            source_kind: row.source_kind.to_string(),
            invocation_kind: row.invocation_kind.map(|kind| kind.to_string()),
            agent_name: row.agent_name,
            cwd: row.cwd,
            playbook_name: row.playbook_name,
            show_topic: row.show_topic,
            show_play_name: row.show_play_name,
            artifacts_path: row.artifacts_path,
            log_epoch: row.log_epoch.0,
            progression_id: row.progression_id,
            first_msg_id: row.first_msg_id,
            last_msg_id: row.last_msg_id,
            node_metadata,
            node_metadata_text,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusPart {
    pub(super) previous_status: Option<String>,
    pub(super) status: String,
    pub(super) reason_code: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) evidence_text: Option<String>,
    pub(super) created_at: String,
}

impl From<StatusTransitionRow> for StatusPart {
    fn from(row: StatusTransitionRow) -> Self {
        let (evidence, evidence_text) = encode_json(row.evidence);
        Self {
            previous_status: row.previous_status.map(|status| status.to_string()),
            status: row.status.to_string(),
            reason_code: row.reason_code,
            reason: row.reason,
            actor: row.actor,
            evidence,
            evidence_text,
            created_at: row.created_at.to_string(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgressionPart {
    pub(super) id: String,
    pub(super) created_at: String,
    pub(super) parent_id: Option<String>,
    pub(super) base_ord: u64,
}

impl From<&ProgressionRow> for ProgressionPart {
    fn from(row: &ProgressionRow) -> Self {
        let parent_id = row.parent_id.as_ref().map(ToString::to_string);
        Self { id: row.id.to_string(), created_at: row.created_at.to_string(), parent_id, base_ord: row.base_ord }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagePart {
    pub(super) id: String,
    /// The ordinal among all messages of the session.
    pub(super) ord: u64,
    pub(super) created_at: String,
    pub(super) role: String,
    pub(super) lion_class: Option<String>,
    pub(super) compactable: bool,
    pub(super) sender: Option<String>,
    pub(super) recipient: Option<String>,
    pub(super) channel: Option<String>,
    /// Numbers as written: parsing them as a wider type first would round some of them differently.
    pub(super) embedding: Option<Vec<Box<RawValue>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) content_text: Option<String>,
}

impl MessagePart {
    /// Returns the part for a message with its content and the name of its class.
    pub(super) fn of(row: MessageRow, ord: u64, text: String, lion_class: Option<String>) -> Self {
        let (node_metadata, node_metadata_text) = encode_json(row.node_metadata);
        let (content, content_text) = encode_json(Some(text));
        let number = |number: &f32| serde_json::value::to_raw_value(number).ok();
        Self {
            id: row.id.to_string(),
            ord,
            created_at: row.created_at.to_string(),
            role: row.role,
            lion_class,
            compactable: row.compactable,
            sender: row.sender,
            recipient: row.recipient,
            channel: row.channel,
            embedding: row.embedding.map(|bytes| unpacked(&bytes).iter().filter_map(number).collect()),
            node_metadata,
            node_metadata_text,
            content,
            content_text,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemPart {
    pub(super) progression_id: String,
    pub(super) ord: u64,
    pub(super) message_id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchPart {
    pub(super) id: String,
    pub(super) created_at: String,
    pub(super) user_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) default: bool,
    pub(super) progression_id: String,
    pub(super) system_msg_id: Option<String>,
    pub(super) forked: Option<ForkedPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node_metadata_text: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkedPart {
    pub(super) parent_branch_id: String,
    pub(super) at_ord: u64,
    pub(super) at_seq: u64,
}

impl From<BranchRow> for BranchPart {
    fn from(row: BranchRow) -> Self {
        let (node_metadata, node_metadata_text) = encode_json(row.node_metadata);
        let forked = row.forked.map(|ForkPoint { parent, at_ord, at_seq }| ForkedPart {
            parent_branch_id: parent.to_string(),
            at_ord,
            at_seq,
        });
        Self {
            id: row.id.to_string(),
            created_at: row.created_at.to_string(),
            user_id: row.user_id,
            name: row.name,
            default: row.is_default,
            progression_id: row.progression_id.to_string(),
            system_msg_id: row.system_msg_id.map(|id| id.to_string()),
            forked,
            node_metadata,
            node_metadata_text,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactionPart {
    pub(super) branch_id: String,
    pub(super) seq: u64,
    pub(super) from_ord: u64,
    pub(super) to_ord: u64,
    pub(super) summary_msg_id: Option<String>,
    pub(super) covers_all: bool,
    pub(super) undoes: Option<UndoesPart>,
    pub(super) created_at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoesPart {
    pub(super) branch_id: String,
    pub(super) seq: u64,
}

impl From<CompactionRow> for CompactionPart {
    fn from(row: CompactionRow) -> Self {
        let (summary_msg_id, covers_all, undoes) = match row.entry {
            CompactionEntry::Summary { message, covers_all } => (Some(message.to_string()), covers_all, None),
            CompactionEntry::Undone { branch, seq } => {
                (None, false, Some(UndoesPart { branch_id: branch.to_string(), seq }))
            }
        };
        Self {
            branch_id: row.branch_id.to_string(),
            seq: row.seq,
            from_ord: row.from_ord,
            to_ord: row.to_ord,
            summary_msg_id,
            covers_all,
            undoes,
            created_at: row.created_at.to_string(),
        }
    }
}

/// A line of the log without its newline, or a blob: text, or `{"hex": …}` if the bytes are not UTF-8.
pub(super) enum LinePart {
    Text(String),
    Bytes(Vec<u8>),
}

impl LinePart {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A blob that a line of the log refers to.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlobPart {
    pub(super) id: String,
    pub(super) bytes: LinePart,
}

impl Serialize for LinePart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => {
                let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
                let hex: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("hex", &hex)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for LinePart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = LinePart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line as text, or {\"hex\": digits}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<LinePart, E> {
        Ok(LinePart::Text(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<LinePart, E> {
        Ok(LinePart::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LinePart, A::Error> {
        let entry: Option<(String, String)> = map.next_entry()?;
        let hex = entry.filter(|(key, _)| key == "hex").map(|(_, hex)| hex);
        let bytes = hex.as_deref().and_then(bytes_of).ok_or_else(|| A::Error::custom("not {\"hex\": digits}"))?;
        match map.next_key::<String>()? {
            None => Ok(LinePart::Bytes(bytes)),
            Some(key) => Err(A::Error::custom(format!("unknown member {key:?}"))),
        }
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_preserved_to_the_byte() {
        for text in ["{\"a\" :\n 1}", " 1", "1 ", "null", "\"\\ud83d\"", "[1e400]", "not json", ""] {
            let (value, kept) = encode_json(Some(text.to_owned()));
            assert_eq!(decode_json(value, kept), Ok(Some(text.to_owned())));
        }
        assert_eq!(decode_json(encode_json(None).0, encode_json(None).1), Ok(None));
        let twice = decode_json(encode_json(Some("1".to_owned())).0, Some("1".to_owned()));
        assert_eq!(twice, Err(GivenTwice));
    }

    #[test]
    fn a_line_is_preserved_to_the_byte() {
        for line in [&b"{}"[..], b"", b"\xff\x00a", "\u{2028}\r".as_bytes(), b"\x01\"\\"] {
            let text = serde_json::to_string(&LinePart::of(line.to_vec())).expect("written");
            assert_eq!(serde_json::from_str::<LinePart>(&text).expect("read").bytes(), line, "{text}");
        }
        for bad in ["{\"hex\":\"f\"}", "{\"hex\":\"zz\"}", "{\"hex\":\"00\",\"a\":1}", "{}", "1", "{\"text\":\"00\"}"] {
            assert!(serde_json::from_str::<LinePart>(bad).is_err(), "{bad}");
        }
    }
}
