//! A thread that checkpoints the write-ahead log while writers run.
//!
//! If the writer ran the checkpoints itself, some commits would wait for two syncs and thousands of small reads and
//! writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::connection::{Place, is_failed_sync, open_checkpointer};
use super::lock::{Doubt, StateLock};
use crate::engine::Tally;

/// The handle of the thread. Dropping it ends the thread.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. Every checkpoint holds the mutex `checkpointing`.
    pub(super) fn start(
        place: Place,
        state_lock: Arc<StateLock>,
        checkpointing: Arc<Mutex<()>>,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = sync_channel(1);
        let name = "duolog-checkpoint".to_owned();
        let work = move || work(&place, &state_lock, &receiver, &checkpointing, &tally);
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Requests a checkpoint. Returns false if the thread has ended.
    pub(super) fn ask(&self) -> bool {
        // A full channel has a pending request, which covers these pages too.
        self.requests
            .as_ref()
            .is_some_and(|requests| matches!(requests.try_send(()), Ok(()) | Err(TrySendError::Full(()))))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The loop of the thread. It has its own connection, because the writer's is in use and SQLite allows both at once.
fn work(place: &Place, state_lock: &StateLock, requests: &Receiver<()>, checkpointing: &Mutex<()>, tally: &Tally) {
    let mut connection = None;
    while requests.recv().is_ok() {
        if connection.is_none() {
            connection = open_checkpointer(place).ok();
        }
        match &connection {
            Some(connection) => {
                let _turn = checkpointing.lock();
                checkpoint_passively(connection, state_lock, tally);
            }
            None => drop(tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Checkpoints as many pages as the readers allow. Blocks no reader and no writer. A failure is counted and loses
/// nothing: the pages stay in the log, and the next request tries again.
///
/// After a failed sync it does nothing until a writer has synced the files again.
pub(super) fn checkpoint_passively(connection: &Connection, state_lock: &StateLock, tally: &Tally) {
    if state_lock.doubt().has(Doubt::ALL) {
        tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
        return;
    }
    match connection.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE) {
        Ok((log, moved)) if log >= 0 && moved >= 0 => tally.checkpoints.fetch_add(1, Ordering::Relaxed),
        // Another process is running a checkpoint.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => 0,
        Ok(_) => tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed),
        Err(error) => {
            if is_failed_sync(&error) {
                // SQLite does not tell whether the log or the database failed.
                state_lock.mark(Doubt::ALL);
            }
            tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed)
        }
    };
}
