//! Ids: newtypes, so that one cannot stand where another is meant.

use std::fmt;
use std::str::FromStr;

use uuid::{NoContext, Timestamp, Uuid};

use crate::clock::{Clock as _, SystemClock};
use crate::limits;
use crate::serde_as_text;

/// The text cannot be the id it was given for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {} {what}: {rule}", article(what))]
pub struct BadId {
    what: &'static str,
    text: String,
    rule: &'static str,
}

/// A new UUIDv7. A clock before 1970 has no time prefix to give; the rest of the id is random all the same.
fn minted() -> Uuid {
    if SystemClock.is_usable() { Uuid::now_v7() } else { Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)) }
}

fn article(what: &str) -> &'static str {
    if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

macro_rules! minted_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// Makes a new one. Its time prefix is for people; order comes from positions and ordinals.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(minted())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Uuid::parse_str(text)
                    .map(Self)
                    .map_err(|_| BadId { what: $what, text: shortened(text), rule: "it must be a UUID" })
            }
        }

        serde_as_text!($name);
    };
}

minted_id!(
    /// Names a home: the one place whose process may append to the logs in it.
    HomeId, "home id");
impl HomeId {
    /// Its bytes, as a file holds them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

minted_id!(
    /// Names one opening of a store by one process, for as long as it holds its lock.
    ProcessId, "process id");
impl ProcessId {
    /// Nobody: the owner of what processes that ended in good order left to be done.
    pub const NOBODY: Self = Self(Uuid::nil());
}

minted_id!(
    /// Names one line that waits to be copied to a log; it is the line's `uuid`.
    OutboxId, "outbox id");

minted_id!(
    /// Names one firing of a schedule.
    CronRunId, "cron run id");

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks the text and takes it.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                let ok: fn(&str) -> bool = $ok;
                if ok(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadId { what: $what, text: shortened(text), rule: $rule })
                }
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::parse(text)
            }
        }

        serde_as_text!($name);
    };
}

text_id!(
    /// The key that joins the two stores.
    ///
    /// It may name a log file, so it is one safe path segment. Ours are UUIDv7; imported ones keep their own text.
    SessionId,
    "session id",
    "1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot or a dash",
    |text| {
        !text.is_empty()
            && text.len() <= limits::SESSION_ID_BYTES_MAX
            && !text.starts_with(['.', '-'])
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    }
);

impl SessionId {
    /// Makes a new one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(minted().to_string().into())
    }
}

text_id!(
    /// Names an attempt, so that a retry of an unknown outcome does nothing the second time.
    OperationId,
    "operation id",
    "1 to 128 printable ASCII characters without spaces",
    |text| {
        !text.is_empty()
            && text.len() <= limits::OPERATION_ID_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_graphic())
    }
);

/// Ids of ours are UUIDv7; imported ones keep their own text.
macro_rules! message_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        text_id!($(#[$doc])* $name, $what, "1 to 128 printable ASCII characters without spaces", |text| {
            !text.is_empty()
                && text.len() <= limits::MESSAGE_ID_BYTES_MAX
                && text.bytes().all(|b| b.is_ascii_graphic())
        });

        impl $name {
            /// Makes a new one.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(minted().to_string().into())
            }
        }
    };
}

message_id!(
    /// Names a message, wherever it stands.
    MessageId, "message id");

impl MessageId {
    /// Makes new ones, each the next of the one before: the system is asked for random numbers once.
    pub fn batch(many: usize) -> impl Iterator<Item = Self> {
        // What follows the variant is a random number, and counts on from there.
        const RANDOM: u128 = (1 << 62) - 1;
        let first = minted().as_u128();
        (0..many as u128).map(move |next| {
            let id = (first & !RANDOM) | (first.wrapping_add(next) & RANDOM);
            let mut text = Uuid::encode_buffer();
            Self((&*Uuid::from_u128(id).hyphenated().encode_lower(&mut text)).into())
        })
    }
}

message_id!(
    /// Names a branch of a session.
    BranchId, "branch id");
message_id!(
    /// Names a sequence of messages.
    ProgressionId, "progression id");
message_id!(
    /// Names a chat: what was said on a platform until it was silent for long, or begun anew.
    ChatId, "chat id");
message_id!(
    /// Names a run of a workflow.
    RunId, "run id");
message_id!(
    /// Names one execution: of a phase of a run, or of a turn of a chat.
    ExecutionId, "execution id");
message_id!(
    /// Names a gate that a run waits at, and what was answered there.
    ApprovalId, "approval id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_one_safe_path_segment() {
        for good in ["a", "A.b_c-1", "019363f0-0000-7000-8000-000000000000", &"x".repeat(128)] {
            assert!(SessionId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "-flag", "a/b", "a\\b", "a b", "ü", "a\0", &"x".repeat(129)] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn minted_ids_read_back() {
        let id = HomeId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("not-a-uuid".parse::<HomeId>().is_err());
        assert!(SessionId::parse(SessionId::new().as_str()).is_ok());
        assert!(MessageId::parse(MessageId::new().as_str()).is_ok());
        assert!(BranchId::parse("a b").is_err() && ProgressionId::parse(&"x".repeat(129)).is_err());
    }

    #[test]
    fn ids_of_a_batch_follow_each_other() {
        let ids: Vec<MessageId> = MessageId::batch(300).collect();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
        for id in &ids {
            let uuid: Uuid = id.as_str().parse().expect("a uuid");
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122));
        }
        assert_ne!(MessageId::batch(1).next(), MessageId::batch(1).next());
        assert_eq!(MessageId::batch(0).count(), 0);
    }
}
