//! Converting the values of a row: imported unchanged, truncated to their column, or left out with a note.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use duolog_types::json::{JsonFault, check_object, check_value};
use duolog_types::limits::{NAME_BYTES_MAX, PHASE_ENTRY_BYTES_MAX, PHASES_BYTES_MAX, USAGE_COST_MAX, WORD_BYTES_MAX};
use duolog_types::{SessionId, Timestamp};
use serde_json::value::RawValue;

use super::model::NoteList;
use super::source::Raw;
use crate::Money;
use crate::runs::{dollars, rules as runs};

/// A row that is being converted. Values that are not imported unchanged are noted.
pub(super) struct Taking<'t> {
    pub(super) unit: String,
    pub(super) notes: &'t mut NoteList,
}

impl<'t> Taking<'t> {
    pub(super) fn of(kind: &str, id: &Raw, notes: &'t mut NoteList) -> Self {
        let id = id.text().map_or("without an id", |id| runs::clip(id, WORD_BYTES_MAX));
        Self { unit: format!("{kind} {id}"), notes }
    }

    pub(super) fn note(&mut self, why: impl Into<String>) {
        self.notes.note(&self.unit, why);
    }

    /// Returns a name, which is imported unchanged or refused.
    pub(super) fn name(what: &str, raw: &Raw, max: usize) -> Result<String, String> {
        let Some(text) = raw.text() else { return Err(format!("its {what} is {}", raw.kind())) };
        match text.len() {
            0 => Err(format!("its {what} is empty")),
            bytes if bytes > max => Err(format!("its {what} is {bytes} bytes, over the limit of {max}")),
            _ if text.contains('\0') => Err(format!("its {what} contains a NUL byte")),
            _ => Ok(text.to_owned()),
        }
    }

    pub(super) fn id<T>(what: &str, raw: &Raw, parse: fn(&str) -> Result<T, duolog_types::BadId>) -> Result<T, String> {
        let text = Self::name(what, raw, NAME_BYTES_MAX)?;
        parse(&text).map_err(|error| error.to_string())
    }

    pub(super) fn word<T: FromStr<Err: ToString>>(what: &str, raw: &Raw) -> Result<T, String> {
        Self::name(what, raw, NAME_BYTES_MAX)?.parse().map_err(|error: T::Err| error.to_string())
    }

    /// Returns a text, truncated to its limit. An empty text counts as absent.
    pub(super) fn text(&mut self, what: &str, raw: &Raw, max: usize) -> Option<String> {
        let text = match raw {
            Raw::Null => return None,
            Raw::Text(text) => text,
            other => {
                self.note(format!("{what} is {}, and is left out", other.kind()));
                return None;
            }
        };
        let mut text = Cow::Borrowed(text.as_str());
        if text.contains('\0') {
            self.note(format!("{what} contains NUL bytes, which are left out"));
            text = text.replace('\0', "").into();
        }
        if text.len() > max {
            self.note(format!("{what} is {} bytes, and is cut to {max}", text.len()));
            text = runs::clip(&text, max).to_owned().into();
        }
        Some(text.into_owned()).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&mut self, what: &str, raw: &Raw, max: u64) -> Option<u64> {
        match raw {
            Raw::Null => None,
            Raw::Int(number) if u64::try_from(*number).is_ok_and(|number| number <= max) => u64::try_from(*number).ok(),
            Raw::Int(number) => {
                self.note(format!("{what} is {number}, which is not valid, and is left out"));
                None
            }
            other => {
                self.note(format!("{what} is {} instead of an integer, and is left out", other.kind()));
                None
            }
        }
    }

    pub(super) fn cost(&mut self, raw: &Raw) -> Option<u64> {
        #[allow(clippy::cast_precision_loss)]
        let number = match raw {
            Raw::Null => return None,
            Raw::Int(number) => *number as f64,
            Raw::Real(number) => *number,
            other => {
                self.note(format!("cost_usd is {} instead of a number, and is left out", other.kind()));
                return None;
            }
        };
        match dollars(number) {
            Ok(cost) if cost <= Money::from_dollars(USAGE_COST_MAX) => Some(runs::picos(cost)),
            _ => {
                self.note(format!("cost_usd is {number}, which is not valid, and is left out"));
                None
            }
        }
    }

    pub(super) fn moment(&mut self, what: &str, raw: &Raw) -> Option<Timestamp> {
        let found = raw.text().and_then(instant);
        match (raw, found) {
            (Raw::Null, _) | (_, Some(_)) => found,
            (Raw::Text(text), None) => {
                self.note(format!("{what} is {:?}, which is not a timestamp", runs::clip(text, 64)));
                None
            }
            (other, None) => {
                self.note(format!("{what} is {} instead of a timestamp", other.kind()));
                None
            }
        }
    }

    /// Returns a required timestamp.
    pub(super) fn beginning(what: &str, raw: &Raw) -> Result<Timestamp, String> {
        let text = Self::name(what, raw, WORD_BYTES_MAX)?;
        instant(&text).ok_or_else(|| format!("its {what} is {text:?}, which is not a timestamp"))
    }

    /// Returns the id of an agent session, wherever its log is.
    pub(super) fn session(&mut self, what: &str, raw: &Raw) -> Option<SessionId> {
        let text = self.text(what, raw, NAME_BYTES_MAX)?;
        match SessionId::parse(&text) {
            Ok(id) => Some(id),
            Err(error) => {
                self.note(format!("{what} is left out: {error}"));
                None
            }
        }
    }

    pub(super) fn yes(&mut self, what: &str, raw: &Raw) -> Option<bool> {
        match raw {
            Raw::Null => None,
            Raw::Int(0) => Some(false),
            Raw::Int(1) => Some(true),
            _ => {
                self.note(format!("{what} is neither 0 nor 1, and is left out"));
                None
            }
        }
    }

    /// Returns JSON as written, if it is valid and fits its column.
    pub(super) fn json<'r>(&mut self, what: &str, raw: &'r Raw, max: usize) -> Option<&'r str> {
        let text = match raw {
            Raw::Null => return None,
            Raw::Text(text) => text.as_str(),
            other => {
                self.note(format!("{what} is {}, and is left out", other.kind()));
                return None;
            }
        };
        if text.len() > max {
            self.note(format!("{what} is {} bytes, over the limit of {max}, and is left out", text.len()));
            return None;
        }
        if let Err(fault) = check_value(text) {
            self.note(format!("{what} is left out: {}", broken(fault)));
            return None;
        }
        Some(text)
    }

    /// Returns the members of a JSON object as written; members that do not fit are left out.
    pub(super) fn members(&mut self, what: &str, raw: &Raw, value_max: usize, max: u64) -> BTreeMap<String, String> {
        // Members that do not fit are noted one by one.
        let Some(text) = self.json(what, raw, usize::MAX) else { return BTreeMap::new() };
        let members: BTreeMap<String, Box<RawValue>> = match serde_json::from_str(text) {
            Ok(members) => members,
            Err(error) => {
                self.note(format!("{what} is left out: it is not an object with keys that can be read ({error})"));
                return BTreeMap::new();
            }
        };
        let (mut taken, mut bytes) = (BTreeMap::new(), 0);
        for (key, value) in members {
            let value = value.get().trim();
            let grown = bytes + (key.len() + value.len()) as u64;
            let name = runs::clip(&key, 64).to_owned();
            if key.is_empty() || key.len() > NAME_BYTES_MAX || key.contains('\0') {
                self.note(format!("{what} has a key {name:?} that is not valid: it is left out"));
            } else if value.len() > value_max {
                self.note(format!(
                    "{what}.{name} is {} bytes, over the limit of {value_max}, and is left out",
                    value.len()
                ));
            } else if grown > max {
                self.note(format!("{what}.{name} is left out: the total is over the limit of {max} bytes"));
            } else {
                bytes = grown;
                taken.insert(key, value.to_owned());
            }
        }
        taken
    }

    /// Returns the entries of a history as written.
    pub(super) fn phases(&mut self, raw: &Raw) -> Vec<String> {
        let what = "phase_history";
        let Some(text) = self.json(what, raw, usize::MAX) else { return Vec::new() };
        let Ok(entries) = serde_json::from_str::<Vec<Box<RawValue>>>(text) else {
            self.note(format!("{what} is left out: it is not a list"));
            return Vec::new();
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for (number, entry) in entries.iter().enumerate() {
            let entry = entry.get().trim();
            let grown = bytes + entry.len() as u64;
            if check_object(entry).is_err() {
                self.note(format!("entry {number} of {what} is not an object, and is left out"));
            } else if entry.len() > PHASE_ENTRY_BYTES_MAX {
                let bytes = entry.len();
                self.note(format!(
                    "entry {number} of {what} is {bytes} bytes, over the limit of {PHASE_ENTRY_BYTES_MAX}"
                ));
            } else if grown > PHASES_BYTES_MAX {
                self.note(format!(
                    "entry {number} of {what} is left out: the total is over the limit of {PHASES_BYTES_MAX} bytes"
                ));
            } else {
                bytes = grown;
                taken.push(entry.to_owned());
            }
        }
        taken
    }
}

/// Parses a timestamp. Without a time zone, it is in UTC, as all timestamps of Last Light are.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

fn broken(fault: JsonFault) -> String {
    match fault {
        JsonFault::NotAnObject => "it is not an object".to_owned(),
        JsonFault::Syntax(at) => format!("it is not JSON, from byte {at} on"),
        JsonFault::TooDeep(at) => format!("it nests too deep, at byte {at}"),
    }
}
