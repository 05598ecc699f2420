//! The two stores, held together: opening, looking up, closing.

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
use crate::marks::Marks;
use crate::open_log::OpenLog;
use crate::process::Process;
use crate::telling::Telling;

/// How to open the two stores of a home.
pub struct OpenJoin {
    /// The state store.
    pub state: OpenState,
    /// The disk that the logs are on, rooted where the state store is.
    pub disk: Arc<dyn Disk>,
    /// Which home this is.
    pub home: HomeId,
    /// Limits.
    pub limits: Limits,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Which boot of the machine this is: after another one, marks may be missing.
    pub boot: String,
}

/// The two stores of a home and what holds them together.
pub struct Join {
    pub(crate) state: State,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) home: HomeId,
    /// The limits in force, with the fixed bound of a line that is read.
    pub(crate) limits: Limits,
    /// The limits in force, with the configured bound of a line that is appended.
    appending: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    pub(crate) open: Arc<Recent<SessionId, OpenLog>>,
    pub(crate) feed: Arc<Feed>,
    /// Asked of the system only once somebody waits.
    pub(crate) hints: Hints,
    pub(crate) marks: Marks,
    pub(crate) boot: String,
    pub(crate) telling: Arc<Telling>,
    /// True if every log was marked since the machine booted; `None` until it is asked.
    pub(crate) marked_after_boot: Mutex<Option<bool>>,
}

/// What the state knows of one log.
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

    /// Opens the log for reading; `None` if it has no file, or one that a deletion has still to unlink.
    pub(crate) fn reader(&self, disk: &Arc<dyn Disk>) -> Result<Option<Reader>> {
        if self.row.unlink_due {
            return Ok(None);
        }
        Ok(Reader::open(disk, &self.place())?)
    }

    /// Looks at the file of the log; `None` as for [`Self::reader`].
    pub(crate) fn stat(&self, disk: &Arc<dyn Disk>) -> Result<Option<Stat>> {
        let path = self.place().path;
        let stat = disk.stat(&path).map_err(LogError::io("examine", &path))?;
        Ok(stat.filter(|_| !self.row.unlink_due))
    }
}

pub(crate) fn place_of(row: &SessionRow) -> Place {
    Place { path: row.log_path.clone().into(), base: row.log_base, sealed: Vec::new() }
}

/// Reads what is known of a session's log, in the caller's transaction.
pub(crate) fn known(tx: &mut Tx<'_>, session: &SessionId) -> Result<Known> {
    let row = sessions::find(tx, session)?.ok_or_else(|| Error::NoSession(session.clone()))?;
    if row.deleted_at.is_some() {
        return Err(Error::Deleted(session.clone()));
    }
    // Rows of an older epoch speak of bytes that are no longer there.
    let catalog = catalog::get(tx, session)?.filter(|catalog| catalog.epoch == row.log_epoch);
    let seal = seals::last(tx, session, row.log_epoch)?;
    let sealed_to = seal.as_ref().map_or(Position::ZERO, |seal| seal.to_position);
    let folded = catalog.as_ref().and_then(|catalog| Some((catalog.position, catalog.line_hash?)));
    let folded_to = catalog.as_ref().map_or(Position::ZERO, |catalog| catalog.position);
    let watermark = Watermark { sealed_to, recorded_to: sealed_to.max(folded_to), claimed_to: Position::ZERO, folded };
    Ok(Known { row, catalog, seal, watermark })
}

impl Join {
    /// Opens the stores and mends what a crash left.
    ///
    /// What takes long does not happen here: derived rows are folded by whoever reads them, or in the background.
    pub fn open(options: OpenJoin) -> Result<Arc<Self>> {
        let state = State::open(options.state)?;
        let join = Arc::new(Self {
            state,
            process: Process::new(&options.disk),
            disk: options.disk,
            home: options.home,
            open: Arc::new(Recent::new(options.limits.open_logs_max)),
            // Whoever reads a log in this process reads it as any other does.
            limits: Limits { line_bytes_max: LINE_BYTES_READ_MAX, ..options.limits },
            appending: options.limits,
            clock: options.clock,
            feed: Arc::default(),
            hints: Hints::new(),
            marks: Marks::default(),
            boot: options.boot,
            telling: Arc::default(),
            marked_after_boot: Mutex::new(None),
        });
        if join.is_writable() {
            join.check_copies()?;
            join.record_state()?;
            join.recover()?;
        }
        Ok(join)
    }

    /// The state store, for reads and for what has no log.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Which home this is.
    pub fn home(&self) -> HomeId {
        self.home
    }

    /// Which process this is, among those that share the home.
    pub fn process(&self) -> ProcessId {
        self.process.id()
    }

    /// The limits in force. The bound of a line is that of reading, which no configuration changes.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The limits in force for what is appended, with the configured bound of a line.
    pub fn append_limits(&self) -> &Limits {
        &self.appending
    }

    /// Where the time comes from.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The disk that the logs are on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// What wakes the followers in this process.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// The system's notices of changes, for everyone in this process who waits for files.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Whether this home may be written.
    pub fn is_writable(&self) -> bool {
        self.state.access() == Access::ReadWrite
    }

    /// Opens a session's log for reading; nothing where it has no file yet.
    pub fn reader(&self, session: &SessionId) -> Result<Option<Reader>> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        known.reader(&self.disk)
    }

    pub(crate) fn known(&self, session: &SessionId) -> Result<Known> {
        self.state.read(|tx| known(tx, session))
    }

    /// Refuses what another home owns (R9).
    pub(crate) fn own(&self, row: &SessionRow) -> Result<()> {
        if row.home_id == self.home {
            return Ok(());
        }
        Err(Error::OtherHome { session: row.id.clone(), owner: row.home_id, here: self.home })
    }

    /// Leaves the home: folds what does not take long, at most `budget` bytes, and leaves the rest to the next reader.
    ///
    /// Of many sessions that wait it folds the first ones, and stops as a list does.
    pub fn leave(&self, budget: u64) -> Result<()> {
        if self.process.is_forked() {
            // What was appended, marked and locked is the other process's to put in order.
            return Ok(());
        }
        let left =
            if self.is_writable() { self.fold_before_leaving(budget).and_then(|()| self.hand_over()) } else { Ok(()) };
        self.process.leave();
        left
    }

    /// Writes rows that are the join's own.
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
