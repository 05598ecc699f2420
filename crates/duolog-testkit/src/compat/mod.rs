//! The compatibility suite: reads real files of other programs and compares the result with that of their own readers.
//!
//! It works on copies and never changes the given folder. If their reader is wrong, the check has the right answer, and
//! what their reader loses is listed.

mod agentrylab;
mod conversations;
mod documents;
mod lastlight;
mod mutate;
mod runs;
mod skillet;
mod source;
pub mod usage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duolog_log::dialect::detect::Detector;
use duolog_log::dialect::{Dialect, Interpreter, TimelineItem};
use duolog_log::{Disk, Files, Item, Place, Reader};
use duolog_types::limits::Limits;
use duolog_types::line::check_line;
use duolog_types::{Position, json};
use serde_json::Value;

/// The result of one fixture.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The name of the fixture.
    pub name: String,
    /// What was read, in numbers.
    pub counts: String,
    /// Differences between our result and the right one.
    pub differences: Vec<String>,
    /// What their reader loses or corrupts and ours does not.
    pub reader_losses: Vec<String>,
}

impl Verdict {
    fn of(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: &T, right: &T) {
        if ours != right {
            self.differences.push(format!("{what}: ours {ours:?}, right {right:?}"));
        }
    }
}

/// A log, as our reader and its dialect return it.
struct Log {
    dialect: Option<Dialect>,
    /// Lines that end with a newline.
    lines: u64,
    /// Bytes of a last line that is not a complete object: a torn tail.
    torn_bytes: u64,
    items: Vec<TimelineItem>,
}

impl Log {
    /// Returns the items line by line, without unreadable lines.
    fn by_line(&self) -> impl Iterator<Item = &[TimelineItem]> {
        let readable = |item: &TimelineItem| item.what.as_deref() != Some("unreadable");
        self.items.chunk_by(|a, b| a.position == b.position).filter(move |line| readable(&line[0]))
    }

    fn unreadable(&self) -> usize {
        self.items.iter().filter(|item| item.what.as_deref() == Some("unreadable")).count()
    }
}

/// Reads one log: detects its dialect by its first lines, then reads it in one pass.
fn read(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Log> {
    let other = |error: duolog_log::Error| io::Error::other(error.to_string());
    let mut log = Log { dialect: None, lines: 0, torn_bytes: 0, items: Vec::new() };
    let Some(reader) = Reader::open(disk, &Place::file(path)).map_err(other)? else { return Ok(log) };
    let (end, rest) = reader.stable_end_and_rest(Duration::from_secs(1)).map_err(other)?;
    let line_max = Limits::default().line_bytes_max;
    let mut tail = Vec::new();
    let take = |bytes: &[u8]| {
        tail.extend_from_slice(bytes);
        Ok(())
    };
    reader.each_chunk(end, Position(end.0 + rest), take).map_err(other)?;
    // As in recovery: a last line that only lacks its newline is complete, anything else is torn.
    let whole_tail = check_line(&tail, line_max).is_ok();

    let mut detector = Detector::default();
    let mut lines = reader.lines(Position::ZERO, end, line_max).map_err(other)?;
    while let Some(item) = lines.next().map_err(other)? {
        if let Item::Line(line) = item {
            detector.line(&String::from_utf8_lossy(line.bytes));
        }
    }
    log.dialect = detector.dialect();
    let mut interpreter = Interpreter::new(log.dialect.unwrap_or(Dialect::Envelope));
    let mut lines = reader.lines(Position::ZERO, end, line_max).map_err(other)?;
    while let Some(item) = lines.next().map_err(other)? {
        log.lines += 1;
        if let Item::Line(line) = item {
            interpreter.bytes(line.start, line.bytes, &mut log.items);
        }
    }
    if whole_tail {
        interpreter.bytes(end, &tail, &mut log.items);
    } else {
        log.torn_bytes = rest;
    }
    Ok(log)
}

/// Runs every check that the folder has files for.
pub fn run(fixtures: &Path) -> io::Result<Vec<Verdict>> {
    let before = fingerprint(fixtures)?;
    let mut verdicts = Vec::new();
    let suites: [(&str, Suite); 7] = [
        ("skillet", skillet::check),
        ("skillet", conversations::check_skillet),
        ("lionagi/v4_0.36.0", conversations::check_lionagi),
        ("agentrylab", agentrylab::check),
        ("lastlight/doc-era", lastlight::check),
        ("lastlight/doc-era", runs::check),
        ("lastlight/crash-copy", runs::check_crash_copy),
    ];
    for (folder, check) in suites {
        let source = fixtures.join(folder);
        if !source.is_dir() {
            verdicts.push(Verdict { counts: "not in this folder".to_owned(), ..Verdict::of(folder) });
            continue;
        }
        let copy = tempfile::tempdir()?;
        copy_tree(&source, copy.path())?;
        verdicts.extend(check(copy.path())?);
    }
    verdicts.extend(mutate::check(fixtures)?);
    let mut untouched = Verdict::of("the folder itself");
    untouched.counts = format!("{} files hashed before and after", before.len());
    untouched.same("files", &fingerprint(fixtures)?, &before);
    verdicts.push(untouched);
    Ok(verdicts)
}

type Suite = fn(&Path) -> io::Result<Vec<Verdict>>;

fn disk(root: &Path) -> io::Result<Arc<dyn Disk>> {
    Ok(Arc::new(Files::beneath(root)?))
}

fn expected(root: &Path, file: &str) -> io::Result<Value> {
    let text = std::fs::read(root.join(file))?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

/// Every log of the facts must exist: a check that reads nothing proves nothing.
fn all_there(name: &str, facts: &Value, found: usize) -> Verdict {
    let mut verdict = Verdict::of(format!("{name} logs"));
    let named = facts.as_object().map_or(0, serde_json::Map::len);
    verdict.counts = format!("{found} of {named} logs in the facts");
    verdict.same("logs", &found, &named);
    verdict
}

/// Returns every `.jsonl` file below, relative and sorted.
fn logs(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<_> = files(root)?.into_iter().filter(|path| is_log(path)).collect();
    found.sort();
    Ok(found)
}

fn is_log(path: &Path) -> bool {
    // A file can be called just `.jsonl`, which has no extension: Skillet does that for names without a safe character.
    path.as_os_str().as_encoded_bytes().ends_with(b".jsonl")
}

fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(root.join(&at))? {
            let entry = entry?;
            let path = at.join(entry.file_name());
            match entry.file_type()? {
                kind if kind.is_dir() => open.push(path),
                kind if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    Ok(found)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for path in files(from)? {
        let target = to.join(&path);
        target.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::copy(from.join(&path), target)?;
    }
    Ok(())
}

fn fingerprint(root: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut prints = Vec::new();
    let mut files = files(root)?;
    files.sort();
    for path in files {
        let hash = blake3::hash(&std::fs::read(root.join(&path))?).to_hex().to_string();
        prints.push((path, hash));
    }
    Ok(prints)
}

/// Returns true if a line is an object, by the same check as for appends.
fn is_object(line: &str) -> bool {
    json::check_object(line).is_ok()
}
