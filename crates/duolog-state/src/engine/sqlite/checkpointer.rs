//! Moves pages from the write-ahead log into the database beside those who write, in a thread of its own.
//!
//! A writer that did it itself would wait for two syncs and thousands of small reads and writes, once in a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::connection::{Place, is_failed_sync, open_mover};
use super::lock::{Doubt, StateLock};
use crate::engine::Tally;

/// The thread; it ends when this goes.
pub(super) struct Checkpointer {
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts it. Whoever moves pages holds `moving`.
    pub(super) fn start(
        place: Place,
        state_lock: Arc<StateLock>,
        moving: Arc<Mutex<()>>,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let (asked, asks) = sync_channel(1);
        let name = "duolog-checkpoint".to_owned();
        let work = move || work(&place, &state_lock, &asks, &moving, &tally);
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        Ok(Self { asked: Some(asked), thread: Some(thread) })
    }

    /// Has pages moved soon; false where nobody is there to do it.
    pub(super) fn ask(&self) -> bool {
        // One that was asked already will see these pages too.
        self.asked.as_ref().is_some_and(|asked| matches!(asked.try_send(()), Ok(()) | Err(TrySendError::Full(()))))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection of its own: that of the writer is in use, and the log lets both work at once.
fn work(place: &Place, state_lock: &StateLock, asks: &Receiver<()>, moving: &Mutex<()>, tally: &Tally) {
    let mut connection = None;
    while asks.recv().is_ok() {
        if connection.is_none() {
            connection = open_mover(place).ok();
        }
        match &connection {
            Some(connection) => {
                let _turn = moving.lock();
                move_pages(connection, state_lock, tally);
            }
            None => drop(tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Moves what readers let it move. Readers and writers are not held up. A failure takes nothing back and is counted; the
/// pages stay in the log and the next growth tries again.
///
/// After a failed sync nothing is moved before a writer has made sure of the files.
pub(super) fn move_pages(connection: &Connection, state_lock: &StateLock, tally: &Tally) {
    if state_lock.doubt().has(Doubt::ALL) {
        tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
        return;
    }
    match connection.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE) {
        Ok((log, moved)) if log >= 0 && moved >= 0 => tally.checkpoints.fetch_add(1, Ordering::Relaxed),
        // Another process is moving them.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => 0,
        Ok(_) => tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed),
        Err(error) => {
            if is_failed_sync(&error) {
                // Of the log or of the database: SQLite does not tell.
                state_lock.mark(Doubt::ALL);
            }
            tally.checkpoint_failures.fetch_add(1, Ordering::Relaxed)
        }
    };
}
