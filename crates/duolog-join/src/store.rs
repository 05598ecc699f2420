//! The two stores of a home: open, look up, close.

use std::sync::Arc;

use duolog_log::{Disk, Error as LogError, Hints, Place, Reader, Recent, Stat, Watermark};
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::seals::{self, SealRow};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{Access, OpenState, State, Tx};
use duolog_types::limits::{LINE_BYTES_READ_MAX, Limits};
use duolog_types::{Clock, Durability, HomeId, Position, ProcessId, SessionId};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::line_order::LineOrder;
use crate::marks::Marks;
use crate::open_log::OpenLog;
use crate::process::Process;

/// The options for opening the two stores of a home.
pub struct OpenJoin {
    /// The state store.
    pub state: OpenState,
    /// The disk with the logs, rooted in the state directory.
    pub disk: Arc<dyn Disk>,
    /// The id of the home.
    pub home: HomeId,
    /// The limits.
    pub limits: Limits,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The id of the machine's boot: after another boot, marks may be missing.
    pub boot: String,
}

/// The two stores of a home, kept consistent.
pub struct Join {
    pub(crate) state: State,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) home: HomeId,
    /// The limits, with the fixed limit of a line for reading.
    pub(crate) limits: Limits,
    /// The limits, with the configured limit of a line for appending.
    appending: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    pub(crate) open: Arc<Recent<SessionId, OpenLog>>,
    pub(crate) feed: Arc<Feed>,
    /// Starts file notification when the first follower waits.
    pub(crate) hints: Hints,
    pub(crate) marks: Marks,
    pub(crate) boot: String,
    pub(crate) line_order: Arc<LineOrder>,
    /// True if every log was marked since the machine booted. `None` until it is checked.
    pub(crate) marked_after_boot: Mutex<Option<bool>>,
}

/// What the state has recorded of one log.
pub(crate) struct Known {
    pub(crate) row: SessionRow,
    pub(crate) catalog: Option<CatalogRow>,
    /// The last seal.
    pub(crate) seal: Option<SealRow>,
    pub(crate) watermark: Watermark,
}

impl Known {
    pub(crate) fn place(&self) -> Place {
        place_of(&self.row)
    }

    /// Opens the log for reading. `None` if it has no file, or one that a deletion has yet to unlink.
    pub(crate) fn reader(&self, disk: &Arc<dyn Disk>) -> Result<Option<Reader>> {
        if self.row.unlink_due {
            return Ok(None);
        }
        Ok(Reader::open(disk, &self.place())?)
    }

    /// Returns the stat of the log's file. `None` as for [`Self::reader`].
    pub(crate) fn stat(&self, disk: &Arc<dyn Disk>) -> Result<Option<Stat>> {
        let path = self.place().path;
        let stat = disk.stat(&path).map_err(LogError::io("examine", &path))?;
        Ok(stat.filter(|_| !self.row.unlink_due))
    }
}

pub(crate) fn place_of(row: &SessionRow) -> Place {
    Place { path: row.log_path.clone().into(), base: row.log_base, sealed: Vec::new() }
}

/// Reads what the state has recorded of a session's log, in the caller's transaction.
pub(crate) fn known(tx: &mut Tx<'_>, session: &SessionId) -> Result<Known> {
    let row = sessions::find(tx, session)?.ok_or_else(|| Error::NoSession(session.clone()))?;
    if row.deleted_at.is_some() {
        return Err(Error::Deleted(session.clone()));
    }
    // Rows of an older epoch describe bytes that are no longer there.
    let catalog = catalog::get(tx, session)?.filter(|catalog| catalog.epoch == row.log_epoch);
    let seal = seals::last(tx, session, row.log_epoch)?;
    let sealed_to = seal.as_ref().map_or(Position::ZERO, |seal| seal.to_position);
    let folded = catalog.as_ref().and_then(|catalog| Some((catalog.position, catalog.line_hash?)));
    let folded_to = catalog.as_ref().map_or(Position::ZERO, |catalog| catalog.position);
    let watermark = Watermark { sealed_to, recorded_to: sealed_to.max(folded_to), claimed_to: Position::ZERO, folded };
    Ok(Known { row, catalog, seal, watermark })
}

impl Join {
    /// Opens the stores and recovers from a crash.
    ///
    /// Nothing that takes long happens here: derived rows are folded by the next reader, or in the background.
    pub fn open(options: OpenJoin) -> Result<Arc<Self>> {
        let state = State::open(options.state)?;
        let join = Arc::new(Self {
            state,
            process: Process::new(&options.disk),
            disk: options.disk,
            home: options.home,
            open: Arc::new(Recent::new(options.limits.open_logs_max)),
            // All processes read with the same limit, whatever their configuration.
            limits: Limits { line_bytes_max: LINE_BYTES_READ_MAX, ..options.limits },
            appending: options.limits,
            clock: options.clock,
            feed: Arc::default(),
            hints: Hints::new(),
            marks: Marks::default(),
            boot: options.boot,
            line_order: Arc::default(),
            marked_after_boot: Mutex::new(None),
        });
        if join.is_writable() {
            join.check_copies()?;
            join.record_state()?;
            join.recover()?;
        }
        Ok(join)
    }

    /// Returns the state store, for reads and for rows without a log.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the id of the home.
    pub fn home(&self) -> HomeId {
        self.home
    }

    /// Returns the id of this process, among those that share the home.
    pub fn process(&self) -> ProcessId {
        self.process.id()
    }

    /// Returns the limits. The limit of a line is that of reading, which no configuration changes.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the limits for appending, with the configured limit of a line.
    pub fn append_limits(&self) -> &Limits {
        &self.appending
    }

    /// Returns the clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the disk with the logs.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns the feed that wakes the followers in this process.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Returns the file notification of this process.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Returns true if this home may be written.
    pub fn is_writable(&self) -> bool {
        self.state.access() == Access::ReadWrite
    }

    /// Opens a session's log for reading. `None` if it has no file yet.
    pub fn reader(&self, session: &SessionId) -> Result<Option<Reader>> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        known.reader(&self.disk)
    }

    pub(crate) fn known(&self, session: &SessionId) -> Result<Known> {
        self.state.read(|tx| known(tx, session))
    }

    /// Returns an error if the log belongs to another home (R9).
    pub(crate) fn own(&self, row: &SessionRow) -> Result<()> {
        if row.home_id == self.home {
            return Ok(());
        }
        Err(Error::OtherHome { session: row.id.clone(), owner: row.home_id, here: self.home })
    }

    /// Leaves the home: folds at most `budget` bytes within a short time, and leaves the rest to the next reader.
    ///
    /// If many sessions are marked, it folds the first ones and stops at the time limit of a list.
    pub fn leave(&self, budget: u64) -> Result<()> {
        if self.process.is_forked() {
            // What was appended, marked and locked belongs to the parent process.
            return Ok(());
        }
        let result =
            if self.is_writable() { self.fold_before_leaving(budget).and_then(|()| self.hand_over()) } else { Ok(()) };
        self.process.leave();
        result
    }

    /// Writes rows of the join itself.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        self.state.write(durability, f)
    }
}
