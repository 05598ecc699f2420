//! Text to search: passages of this project's code and prose, with rare words as frequent as in published code: two new
//! ones per thousand bytes.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

/// The sizes of texts, in turns: most are short, a few are the output of a tool.
const SIZES: [usize; 16] = [120, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000];

/// The number of different rare words; a few of them are frequent, as in any language.
const RARE: u64 = 400_000;

/// The size of a passage after which a rare line follows.
const PASSAGE_BYTES: usize = 600;

/// Generates texts, the same in every run on the same sources.
pub struct Corpus {
    files: Vec<String>,
    state: u64,
    count: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: Message<'a>,
    timestamp: String,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

impl Corpus {
    pub fn new() -> Self {
        let mut files = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["crates", "docs"] {
            read_below(&root.join(folder), &mut files);
        }
        assert!(files.len() > 100, "the sources are where this program was built");
        Self { files, state: 0x9e37_79b9_7f4a_7c15, count: 0 }
    }

    /// Returns the next text: a passage of one file.
    pub fn text(&mut self) -> String {
        let size = SIZES[self.count % SIZES.len()];
        self.count += 1;
        let file = self.below(self.files.len() as u64) as usize;
        let from = self.below(self.files[file].len() as u64) as usize;
        let mut text = String::with_capacity(size + 128);
        let mut at = self.files[file].floor_char_boundary(from);
        while text.len() < size {
            let take = PASSAGE_BYTES.min(size - text.len());
            let passage = &self.files[file][at..];
            let end = passage.floor_char_boundary(take.min(passage.len()));
            text.push_str(&passage[..end]);
            at = if end < passage.len() { at + end } else { 0 };
            if text.len() < size || self.count.is_multiple_of(2) {
                self.push_rare(&mut text);
            }
        }
        text
    }

    /// Returns the text as a line of a log.
    pub fn line(&self, text: &str) -> Vec<u8> {
        let role = if self.count.is_multiple_of(2) { "user" } else { "assistant" };
        let since = i64::try_from(self.count).expect("few texts") * 1_500_000;
        let timestamp = duolog::Timestamp::from_micros(1_790_000_000_000_000 + since).to_string();
        let line = Line { kind: role, message: Message { role, content: text }, timestamp };
        serde_json::to_vec(&line).expect("JSON")
    }

    /// Appends a path, a name and a number, as tools print them.
    fn push_rare(&mut self, text: &mut String) {
        let rank = self.below(RARE).min(self.below(RARE));
        let (word, line, hash) = (syllables(rank), self.below(2_000), self.below(u64::MAX) >> 32);
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{word}/{}.rs:{line}: {hash:08x} ", syllables(rank / 7));
    }

    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Reads the text files below a folder, sorted by name.
fn read_below(folder: &Path, files: &mut Vec<String>) {
    let mut entries: Vec<_> = folder.read_dir().expect("a folder").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read_below(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
            let text = std::fs::read_to_string(&path).expect("text");
            files.extend(Some(text).filter(|text| !text.is_empty()));
        }
    }
}

/// Returns a unique word for each number.
fn syllables(mut number: u64) -> String {
    const PARTS: [&str; 16] =
        ["ka", "lo", "mir", "tan", "sel", "vor", "din", "pu", "zer", "gol", "hin", "fra", "bex", "jum", "qui", "wyn"];
    let mut word = String::new();
    loop {
        word.push_str(PARTS[(number % 16) as usize]);
        number /= 16;
        if number == 0 {
            return word;
        }
    }
}
