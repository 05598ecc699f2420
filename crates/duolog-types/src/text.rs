//! Values that are written as text in JSON and on the command line.

/// Implements `Serialize` and `Deserialize` with `Display` and `FromStr`.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_as_text {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Returns an error with its causes on one line; a cause that is already at the end of the text is not repeated.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let why = cause.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::{Cursor, Epoch, HomeId, Position, RunId, RunStatus, Timestamp};

    fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, expected: &str) {
        let json = serde_json::to_string(value).expect("JSON");
        assert_eq!(json, expected);
        assert_eq!(&serde_json::from_str::<T>(&json).expect("read back"), value);
    }

    #[test]
    fn what_is_written_as_text_reads_back() {
        reads_back(&RunId::parse("run-1").expect("an id"), "\"run-1\"");
        reads_back(&RunStatus::Paused, "\"paused\"");
        reads_back(&Timestamp::from_micros(1), "\"1970-01-01T00:00:00.000001Z\"");
        reads_back(&Cursor { epoch: Epoch(3), position: Position(12) }, "\"3:12\"");
        let home = HomeId::new();
        reads_back(&home, &format!("\"{home}\""));
        assert!(serde_json::from_str::<RunStatus>("\"done\"").is_err());
        assert!(serde_json::from_str::<RunId>("\"a b\"").is_err());
    }
}
