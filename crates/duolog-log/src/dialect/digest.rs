//! What derived rows say of a log, beyond its size: dialect, title, model and usage. A fold that can stop after any line
//! and go on from a few kilobytes, with the same outcome however often it stopped.
//!
//! Each line is rendered by itself, without what a reader of the whole log remembers: titles and models do not depend on
//! that, and what a tool was called two hundred lines ago would have to be kept.

use std::borrow::Cow;

use duolog_types::Position;
use duolog_types::limits::DIGEST_BYTES_MAX;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::detect::Detector;
use super::summary::{TitleBy, title};
use super::usage::fact::is_model;
use super::usage::{Claim, UsageFact, UsageFold, UsageMove, fact};
use super::{Dialect, Interpreter};

/// What a line must hold to change the title of a session that has one, or its model.
const TELLING: [&[u8]; 4] = [b"\"model\"", b"-title", b"duolog.title", b"summary"];

/// What derived rows say of a log.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    heading: Heading,
    usage: UsageFold,
    /// What lines said of usage, until it is known which responses another log counts.
    unsettled: Vec<UsageFact>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Heading {
    detector: Detector,
    title: Option<String>,
    title_by: TitleBy,
    model: Option<String>,
}

impl Digest {
    /// Which way of digesting this is. What an older one made is made anew from the log.
    pub const VERSION: u32 = 6;

    /// Takes the next line, newline left out; what is not UTF-8 is replaced.
    pub fn line(&mut self, line: &[u8]) {
        let text: Cow<'_, str> = String::from_utf8_lossy(line);
        self.heading.line(&text);
        self.unsettled.extend(fact(&text));
    }

    /// How many lines wait to be settled.
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// The keys of the responses that wait to be settled. One may stand there twice.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        let mut lineage = self.usage.lineage().clone();
        let is_ending = self.unsettled.iter().any(|fact| matches!(fact, UsageFact::Ending { .. }));
        let raised = self.usage.turn().filter(move |_| is_ending);
        self.unsettled.iter().filter_map(move |fact| lineage.claim(fact)).map(|claim| claim.key).chain(raised)
    }

    /// Counts what waits, but for the responses that another log counts. To be done before anything is asked about usage.
    pub fn settle(&mut self, mut is_elsewhere: impl FnMut(Claim) -> bool) {
        for fact in self.unsettled.drain(..) {
            self.usage.fact(fact, &mut is_elsewhere);
        }
    }

    /// The claims of the responses counted since the digest was made or read back, by key.
    pub fn claimed(&self) -> impl Iterator<Item = Claim> {
        self.usage.claimed()
    }

    /// How many lines tell of responses that another log counts.
    pub fn shared(&self) -> u64 {
        self.usage.shared()
    }

    /// The dialect that the first lines are in, if any.
    pub fn dialect(&self) -> Option<Dialect> {
        self.heading.detector.dialect()
    }

    /// What the session is called: as a person named it, as a model did, or how its first prompt begins.
    pub fn title(&self) -> Option<&str> {
        self.heading.title.as_deref()
    }

    /// The model that was named last.
    pub fn model(&self) -> Option<&str> {
        self.heading.model.as_deref()
    }

    /// How far the sums of usage moved since the digest was made or read back.
    pub fn moves(&self) -> Vec<UsageMove> {
        self.usage.moves()
    }

    /// The digest as bytes, to go on from later: at most [`DIGEST_BYTES_MAX`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(&self.heading).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.usage.to_bytes());
        bytes
    }

    /// Goes on from bytes; none if they are not from [`Digest::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > DIGEST_BYTES_MAX {
            return None;
        }
        let (heading, usage) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
        let (heading, usage) = (serde_json::from_slice(heading).ok()?, UsageFold::from_bytes(&usage[1..])?);
        Some(Self { heading, usage, unsettled: Vec::new() })
    }
}

impl Heading {
    fn line(&mut self, line: &str) {
        self.detector.line(line);
        let telling = || TELLING.iter().any(|word| memmem::find(line.as_bytes(), word).is_some());
        if self.title_by != TitleBy::Nobody && !telling() {
            return;
        }
        let dialect = self.detector.dialect().unwrap_or(Dialect::Envelope);
        let mut items = Vec::new();
        Interpreter::new(dialect).line(Position::ZERO, line, &mut items);
        for item in items {
            if let Some((title, by)) = title(&item, self.title_by) {
                (self.title, self.title_by) = (Some(title), by);
            }
            self.model = item.model.filter(|model| is_model(model)).or(self.model.take());
        }
    }
}
