//! Parsing a document entry by entry, with only one entry in memory.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::document::{
    BLOBS, BRANCHES, BlobPart, BranchPart, COMPACTIONS, CompactionPart, ITEMS, ItemPart, LOG, LOST_BYTES, LinePart,
    MESSAGES, MessagePart, PROGRESSIONS, ProgressionPart, SESSION, STATUSES, SessionPart, StatusPart, VERSION,
    VERSION_KEY,
};
use crate::error::{Error, Invalid, Result};

/// Receives the parts of a document, in their order.
pub(super) trait Take {
    fn session(&mut self, part: SessionPart) -> Result<()>;
    fn status(&mut self, part: StatusPart) -> Result<()>;
    fn progression(&mut self, part: ProgressionPart) -> Result<()>;
    fn message(&mut self, part: MessagePart) -> Result<()>;
    fn item(&mut self, part: ItemPart) -> Result<()>;
    fn branch(&mut self, part: BranchPart) -> Result<()>;
    fn compaction(&mut self, part: CompactionPart) -> Result<()>;
    /// A line of the log. A receiver that wants no lines gets neither lines nor blobs.
    fn line(&mut self, part: &LinePart) -> Result<()>;
    fn blob(&mut self, part: BlobPart) -> Result<()>;
    /// How many bytes the log lost before it was exported.
    fn lost(&mut self, bytes: u64) -> Result<()>;
    fn wants_lines(&self) -> bool;
}

/// Reads a document. An error about the document contains the place; an error of the receiver is returned as it is.
pub(super) fn read(input: impl Read, entry_bytes_max: u64, take: &mut impl Take) -> Result<()> {
    let at = At { section: Cell::new(VERSION_KEY), entry: Cell::new(0), left: Cell::new(entry_bytes_max) };
    let failed = RefCell::new(None);
    let skipped = Cell::new(false);
    let limited = Limited { input: BufReader::with_capacity(1 << 16, input), at: &at };
    let mut json = serde_json::Deserializer::from_reader(limited);
    let top = Top { take, at: &at, failed: &failed, skipped: &skipped, entry_bytes_max };
    let read = json.deserialize_map(top).and_then(|()| json.end());
    if let Some(error) = failed.take() {
        return Err(at.place(error));
    }
    match read {
        Err(error) if !skipped.get() => {
            Err(Error::Invalid(Invalid::Document { at: at.told(), why: error.to_string() }))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a receiver about an entry. The place is added later.
pub(super) fn wrong(why: impl Into<String>) -> Error {
    Error::Invalid(Invalid::Document { at: String::new(), why: why.into() })
}

/// The current place in the document, and the bytes that are left for the entry.
struct At {
    section: Cell<&'static str>,
    entry: Cell<u64>,
    left: Cell<u64>,
}

impl At {
    fn told(&self) -> String {
        match self.entry.get() {
            0 => self.section.get().to_owned(),
            entry => format!("{}, entry {entry}", self.section.get()),
        }
    }

    /// Adds the place to an error without one.
    fn place(&self, error: Error) -> Error {
        match error {
            Error::Invalid(Invalid::Document { at, why }) if at.is_empty() => {
                Error::Invalid(Invalid::Document { at: self.told(), why })
            }
            other => other,
        }
    }
}

/// An input that limits the size of each entry.
struct Limited<'a, R> {
    input: R,
    at: &'a At,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let left = self.at.left.get().checked_sub(read as u64);
        self.at.left.set(left.ok_or_else(|| io::Error::other("it is larger than the limit of a message or line"))?);
        Ok(read)
    }
}

struct Top<'a, T> {
    take: &'a mut T,
    at: &'a At,
    failed: &'a RefCell<Option<Error>>,
    skipped: &'a Cell<bool>,
    entry_bytes_max: u64,
}

impl<T> Top<'_, T> {
    /// Returns an error unless the next member is the expected one.
    fn expect<'de, A: MapAccess<'de>>(&self, map: &mut A, name: &'static str) -> Result<(), A::Error> {
        self.at.section.set(name);
        self.at.entry.set(0);
        self.at.left.set(self.entry_bytes_max);
        match map.next_key::<String>()? {
            Some(key) if key == name => Ok(()),
            Some(key) => {
                let key: String = key.chars().take(64).collect();
                Err(A::Error::custom(format!("expected {name:?}, found {key:?}")))
            }
            None => Err(A::Error::custom(format!("the member {name:?} is missing"))),
        }
    }

    /// Passes on the entries of the next member.
    fn each<'de, A: MapAccess<'de>, P: DeserializeOwned>(
        &mut self,
        map: &mut A,
        name: &'static str,
        mut each: impl FnMut(&mut T, P) -> Result<()>,
    ) -> Result<(), A::Error> {
        self.expect(map, name)?;
        let (take, at, failed, entry_bytes_max) = (&mut *self.take, self.at, self.failed, self.entry_bytes_max);
        map.next_value_seed(Each { at, failed, entry_bytes_max, take: |part| each(take, part), of: PhantomData })
    }
}

impl<'de, T: Take> Visitor<'de> for Top<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the document of a session, {\"duolog_export\": 1, …}")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.expect(&mut map, VERSION_KEY)?;
        match map.next_value::<u64>()? {
            VERSION => {}
            0 => return Err(stopped(self.failed, wrong("there is no version 0"))),
            version => {
                let why = format!("version {version} is newer than {VERSION}, the newest that this program supports");
                return Err(stopped(self.failed, wrong(why)));
            }
        }
        self.expect(&mut map, SESSION)?;
        let part = map.next_value()?;
        self.take.session(part).map_err(|error| stopped(self.failed, error))?;
        self.each(&mut map, STATUSES, T::status)?;
        self.each(&mut map, PROGRESSIONS, T::progression)?;
        self.each(&mut map, MESSAGES, T::message)?;
        self.each(&mut map, ITEMS, T::item)?;
        self.each(&mut map, BRANCHES, T::branch)?;
        self.each(&mut map, COMPACTIONS, T::compaction)?;
        if !self.take.wants_lines() {
            self.skipped.set(true);
            return Ok(());
        }
        self.each(&mut map, LOG, |take, part: LinePart| take.line(&part))?;
        self.each(&mut map, BLOBS, T::blob)?;
        let mut last = map.next_key::<String>()?;
        if last.as_deref() == Some(LOST_BYTES) {
            self.at.section.set(LOST_BYTES);
            self.at.entry.set(0);
            let bytes = map.next_value()?;
            self.take.lost(bytes).map_err(|error| stopped(self.failed, error))?;
            last = map.next_key()?;
        }
        match last {
            None => Ok(()),
            Some(key) => {
                let key: String = key.chars().take(64).collect();
                Err(A::Error::custom(format!("unknown member {key:?} at its end")))
            }
        }
    }
}

struct Each<'a, F, P> {
    at: &'a At,
    failed: &'a RefCell<Option<Error>>,
    entry_bytes_max: u64,
    take: F,
    of: PhantomData<P>,
}

impl<'de, P: DeserializeOwned, F: FnMut(P) -> Result<()>> DeserializeSeed<'de> for Each<'_, F, P> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, P: DeserializeOwned, F: FnMut(P) -> Result<()>> Visitor<'de> for Each<'_, F, P> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        loop {
            self.at.entry.set(self.at.entry.get() + 1);
            self.at.left.set(self.entry_bytes_max);
            let Some(part) = list.next_element()? else { return Ok(()) };
            (self.take)(part).map_err(|error| stopped(self.failed, error))?;
        }
    }
}

/// Stores the error of a receiver and ends the parsing.
fn stopped<E: serde::de::Error>(failed: &RefCell<Option<Error>>, error: Error) -> E {
    *failed.borrow_mut() = Some(error);
    E::custom("a part was refused")
}
