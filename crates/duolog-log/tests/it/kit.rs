use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duolog_log::{
    Append, Appended, DiskFile, Error, Item, Open, Place, Reader, Recovery, Result, Rewritten, Watermark, Writer,
    rewrite, torn_path,
};
use duolog_testkit::{SimDisk, is_stopped};
use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, Position};

pub const LOG: &str = "scope/session.jsonl";
pub const PROCESS: Append = Append { durability: Durability::Process, if_position: None };
pub const POWER: Append = Append { durability: Durability::Power, if_position: None };

pub fn place() -> Place {
    Place::file(LOG)
}

/// The default limits, with a short lock timeout.
pub fn limits() -> Limits {
    Limits { busy_timeout: Duration::from_millis(30), ..Limits::default() }
}

pub fn torn() -> PathBuf {
    torn_path(LOG.as_ref())
}

pub fn batch(text: impl AsRef<[u8]>) -> Batch {
    let mut batch = Batch::default();
    batch.push_text(text.as_ref()).expect("valid lines");
    batch
}

pub fn open_known(disk: &SimDisk, known: &Watermark) -> Result<(Writer, Recovery)> {
    Writer::open(&disk.as_disk(), &place(), known, &limits())
}

pub fn open(disk: &SimDisk) -> Result<(Writer, Recovery)> {
    open_known(disk, &Watermark::default())
}

pub fn writer(disk: &SimDisk) -> Writer {
    open(disk).expect("opens").0
}

pub fn rewrite_log(disk: &SimDisk) -> Result<Rewritten> {
    rewrite(&disk.as_disk(), &place(), Position::ZERO, &limits(), |_| Ok(()))
}

/// Opens a log after a crash, as the store does: a poisoned log is rewritten first.
pub fn reopen(disk: &SimDisk) -> Writer {
    match open(disk) {
        Err(Error::Poisoned(_)) => {
            rewrite_log(disk).expect("rewrites");
            writer(disk)
        }
        other => other.expect("opens").0,
    }
}

pub fn put(writer: &Writer, text: &str) -> Appended {
    writer.append(&batch(text), &PROCESS).expect("appends")
}

/// Opens the log's file without the rules of a writer.
pub fn raw(disk: &SimDisk) -> std::io::Result<Arc<dyn DiskFile>> {
    disk.as_disk().open(LOG.as_ref(), Open::Append)
}

pub fn reader(disk: &SimDisk) -> Reader {
    Reader::open(&disk.as_disk(), &place()).expect("opens").expect("exists")
}

pub fn read(disk: &SimDisk) -> String {
    String::from_utf8(disk.read(LOG).unwrap_or_default()).expect("text")
}

/// Returns an item in a form that can be kept and compared; `None` for the bytes of a line over the limit.
pub fn owned(item: Item<'_>) -> (u64, u64, Option<Vec<u8>>) {
    match item {
        Item::Line(line) => (line.start.0, line.end.0, Some(line.bytes.to_vec())),
        Item::TooLong { start, end } => (start.0, end.0, None),
    }
}

/// Returns true if the error means that the process was stopped.
pub fn is_process_stopped(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } | Error::Closed { source, .. } if is_stopped(source))
}
