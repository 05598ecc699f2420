//! Fuzzing without a special compiler: inputs are mutated, rules are checked, and what breaks one is made small.
//!
//! Each target is a function that takes any bytes and panics where a rule is broken. The stored inputs of
//! `corpus/<target>/` and some thousand mutations of them run with the other tests; `duolog-fuzz` runs for as long as
//! one likes. The same seed gives the same inputs.

mod campaign;
mod detect;
mod dialects;
mod digest;
mod lines;
mod minimise;
mod mutate;
mod recorder;
mod recovery;
mod torn;
mod written;

use std::path::{Path, PathBuf};

pub use campaign::{Broken, Campaign, Tally};

use crate::transcripts::{self, Cut};

/// The bytes of an input at most; longer lines do not meet other code.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The reader of lines, forward, backward and in parts.
    Lines,
    /// What a writer makes of whatever it finds in a log.
    Recovery,
    /// The file of torn bytes.
    Torn,
    /// Rendering, in every dialect.
    Dialects,
    /// Which dialect a log is in.
    Detect,
    /// What derived rows say of a log.
    Digest,
    /// A runtime's events on their way to lines.
    Recorder,
    /// Lines that we write, read back.
    Written,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Lines,
        Self::Recovery,
        Self::Torn,
        Self::Dialects,
        Self::Detect,
        Self::Digest,
        Self::Recorder,
        Self::Written,
    ];

    /// Its name, which is also the name of its folder of inputs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Recovery => "recovery",
            Self::Torn => "torn",
            Self::Dialects => "dialects",
            Self::Detect => "detect",
            Self::Digest => "digest",
            Self::Recorder => "recorder",
            Self::Written => "written",
        }
    }

    /// The target of this name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.word() == word)
    }

    /// Checks its rules on one input; panics where one is broken.
    pub fn check(self, input: &[u8]) {
        match self {
            Self::Lines => lines::target(input),
            Self::Recovery => recovery::target(input),
            Self::Torn => torn::target(input),
            Self::Dialects => dialects::target(input),
            Self::Detect => detect::target(input),
            Self::Digest => digest::target(input),
            Self::Recorder => recorder::target(input),
            Self::Written => written::target(input),
        }
    }

    /// The folder of its stored inputs.
    pub fn corpus_dir(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.word())
    }

    /// Its stored inputs, by name.
    pub fn corpus(self) -> Vec<(PathBuf, Vec<u8>)> {
        inputs_in(&self.corpus_dir())
    }

    /// What mutations begin with: the stored inputs, and a made-up log of each dialect.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        let made = [
            transcripts::envelope(1, 2),
            transcripts::turns(2, 2, Cut::LastTurn),
            transcripts::transcript(3, 2),
            transcripts::claude(4, 2),
            transcripts::codex(5, 2, true),
        ];
        let stored = self.corpus().into_iter().map(|(_, input)| input);
        stored.chain(made.iter().map(|made| made.text().into_bytes())).collect()
    }
}

/// A file, or every file of a folder, in the order of their names.
pub fn inputs_in(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = match path.read_dir() {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("an input"))).collect()
}

/// A number that depends on nothing but the input, for a target that needs to choose: on its first line alone, so that an
/// input can be made small without another choice.
fn choice(input: &[u8], salt: u64) -> usize {
    let hash = blake3::hash(lines_in(input)[0]);
    let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"));
    usize::try_from(crate::random::mix(number ^ salt) >> 1).expect("a 64-bit machine")
}

/// The lines of an input, as a log has them: what is behind the last newline is one too.
fn lines_in(input: &[u8]) -> Vec<&[u8]> {
    input.split(|byte| *byte == b'\n').collect()
}
