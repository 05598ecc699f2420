//! Syncs many logs at once: their files in parallel, and each directory above them once.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::Result;
use crate::reader::Reader;
use crate::sync::{SyncError, Synced};

/// Number of logs per thread: with fewer, another thread gains nothing.
const LOGS_PER_THREAD: usize = 16;
/// Maximum number of threads. Most of the time they wait for the device.
const THREADS_MAX: usize = 8;

/// A log to sync.
#[derive(Clone, Copy)]
pub struct SyncLog<'r> {
    /// The log.
    pub reader: &'r Reader,
    /// True if its directory entry may not be durable yet: a row is about to name the log for the first time.
    pub with_name: bool,
}

/// Syncs these logs, and returns for each how far it is synced.
///
/// The logs must be on one disk. A failed sync closes its log to appends (R8) and affects no other log; but a directory
/// that cannot be synced affects every log in it whose directory entry was to be synced.
pub fn sync_logs(logs: &[SyncLog<'_>], timeout: Duration) -> Vec<Result<Synced>> {
    let ends: Vec<Result<Position>> = logs.iter().map(|log| log.reader.stable_end(timeout)).collect();
    let synced = sync_files(logs, &ends);
    // Every file was opened before, so a sync of the directory from here on covers its entry.
    let mut names = Names::default();
    let mut concluded = Vec::with_capacity(logs.len());
    for ((log, end), synced) in logs.iter().zip(ends).zip(synced) {
        let synced = synced.and_then(|()| if log.with_name { names.sync(log.reader) } else { Ok(()) });
        concluded.push(end.and_then(|end| log.reader.conclude_sync(end, synced, timeout)));
    }
    concluded
}

/// Syncs the files whose end is known.
fn sync_files(logs: &[SyncLog<'_>], ends: &[Result<Position>]) -> Vec<std::result::Result<(), SyncError>> {
    let per_thread = logs.len().div_ceil(THREADS_MAX).max(LOGS_PER_THREAD);
    let parts = || logs.chunks(per_thread).zip(ends.chunks(per_thread));
    if logs.len() <= per_thread {
        return parts().flat_map(sync_part).collect();
    }
    thread::scope(|scope| {
        let start = |part| (part, thread::Builder::new().spawn_scoped(scope, move || sync_part(part)));
        let started: Vec<_> = parts().map(start).collect();
        let mut synced = Vec::with_capacity(logs.len());
        for (part, thread) in started {
            synced.extend(match thread {
                // A thread that panicked made nothing durable that a caller may rely on.
                Ok(thread) => thread.join().unwrap_or_else(|_| part.0.iter().map(|_| Err(SyncError::Failed)).collect()),
                Err(_) => sync_part(part),
            });
        }
        synced
    })
}

/// Some logs, and the end of each before the sync.
type Part<'p, 'r> = (&'p [SyncLog<'r>], &'p [Result<Position>]);

fn sync_part((logs, ends): Part<'_, '_>) -> Vec<std::result::Result<(), SyncError>> {
    let sync =
        |(log, end): (&SyncLog<'_>, &Result<Position>)| if end.is_ok() { log.reader.sync_file() } else { Ok(()) };
    logs.iter().zip(ends).map(sync).collect()
}

/// The directories that were synced, each with the result.
#[derive(Default)]
struct Names<'r>(BTreeMap<&'r Path, std::result::Result<(), SyncError>>);

impl<'r> Names<'r> {
    fn sync(&mut self, reader: &'r Reader) -> std::result::Result<(), SyncError> {
        if mutant::is(Mutant::NoLogSync) || mutant::is(Mutant::PointerBeforeSync) {
            return Ok(());
        }
        let mut directory = reader.path().parent();
        while let Some(at) = directory {
            let sync = || reader.disk().sync_dir(at).map_err(SyncError::of_directory);
            self.0.entry(at).or_insert_with(sync).as_ref().map_err(SyncError::again)?;
            directory = at.parent();
        }
        Ok(())
    }
}
