//! Ids as newtypes, so that one kind cannot be used for another.

use std::fmt;
use std::str::FromStr;

use uuid::{NoContext, Timestamp, Uuid};

use crate::clock::{Clock as _, SystemClock};
use crate::limits;
use crate::serde_as_text;

/// The error of a text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {} {what}: {rule}", article(what))]
pub struct BadId {
    what: &'static str,
    text: String,
    rule: &'static str,
}

/// Returns a new UUIDv7. If the clock is before 1970, the time prefix is zero; the rest is still random.
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
            /// Creates a new id. Its time prefix is informative; order comes from positions and ordinals.
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
    /// The id of a home. Only processes of that home may append to its logs.
    HomeId, "home id");
impl HomeId {
    /// Returns the bytes, as stored in a file.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

minted_id!(
    /// The id of one opening of a store by one process, valid while it holds its lock.
    ProcessId, "process id");
impl ProcessId {
    /// No process: the owner of work left by processes that ended normally.
    pub const NOBODY: Self = Self(Uuid::nil());
}

minted_id!(
    /// The id of a line in the outbox; it is the line's `uuid`.
    OutboxId, "outbox id");

minted_id!(
    /// The id of a schedule run.
    CronRunId, "cron run id");

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Creates an id. Returns an error if the text is not valid.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                let ok: fn(&str) -> bool = $ok;
                if ok(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadId { what: $what, text: shortened(text), rule: $rule })
                }
            }

            /// Returns the text.
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
    /// It may name a log file, so it is one safe path segment. New ids are UUIDv7; imported ids keep their text.
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
    /// Creates a new id.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(minted().to_string().into())
    }
}

text_id!(
    /// The id of an operation, so that a retry after an unknown outcome has no second effect.
    OperationId,
    "operation id",
    "1 to 128 printable ASCII characters without spaces",
    |text| {
        !text.is_empty()
            && text.len() <= limits::OPERATION_ID_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_graphic())
    }
);

/// New ids are UUIDv7; imported ids keep their text.
macro_rules! message_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        text_id!($(#[$doc])* $name, $what, "1 to 128 printable ASCII characters without spaces", |text| {
            !text.is_empty()
                && text.len() <= limits::MESSAGE_ID_BYTES_MAX
                && text.bytes().all(|b| b.is_ascii_graphic())
        });

        impl $name {
            /// Creates a new id.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(minted().to_string().into())
            }
        }
    };
}

message_id!(
    /// The id of a message.
    MessageId, "message id");

impl MessageId {
    /// Creates consecutive ids with one request for random numbers.
    pub fn batch(many: usize) -> impl Iterator<Item = Self> {
        // The bits after the variant are a random number; the next ids count up from it.
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
    /// The id of a branch of a session.
    BranchId, "branch id");
message_id!(
    /// The id of a progression: a sequence of messages.
    ProgressionId, "progression id");
message_id!(
    /// The id of a chat: messages on a platform until it is idle for long or reset.
    ChatId, "chat id");
message_id!(
    /// The id of a workflow run.
    RunId, "run id");
message_id!(
    /// The id of an execution: of a phase of a run, or of a chat turn.
    ExecutionId, "execution id");
message_id!(
    /// The id of a gate and its answer.
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
