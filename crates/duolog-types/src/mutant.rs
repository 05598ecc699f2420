//! Rules that the crash harness and the black-box tester remove one at a time, to show that they would notice.
//!
//! Without the feature `mutants` (every build but the tests') [`is`] is a constant `false` and nothing of this remains.
//! With it, a test sets a mutant in its own process, or starts the real binary with its name in `DUOLOG_TEST_MUTANT`.

/// One rule, removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// The outbox is drained without looking whether its line is in the log already.
    NoFloorScan = 1,
    /// Followers deliver up to the file's size, whether or not a writer is inside.
    NoStableEnd,
    /// A follower keeps the bytes of an incomplete line and goes on behind them.
    PartialBytesKept,
    /// Whoever folds deletes the marks of processes that are alive.
    MarksClearedByOthers,
    /// An append does not check that its file is still the one at the path.
    NoLinkCheck,
    /// A log that lost bytes keeps its epoch.
    NoEpoch,
    /// The log is not synced, yet called synced.
    NoLogSync,
    /// The state commits with `synchronous=NORMAL`, yet calls it `power`.
    NormalSync,
    /// A row that points at the log is committed before the bytes it names are synced.
    PointerBeforeSync,
    /// A line that tells of a transition is appended after the commit, without an outbox row.
    NoOutbox,
    /// A torn tail is left where it is, and the next append fuses with it.
    TornTailKept,
    /// The mode of a log does not say that a place was claimed.
    NoClaimMode,
    /// A process that came from another by a fork appends through what it inherited.
    ForkedAppend,
    /// A log is taken away before its epoch is raised.
    EpochAfterUnlink,
    /// A deletion of a log does not note that its file is still to be unlinked.
    UnlinkForgotten,
    /// A new log begins with epoch 0, whatever was deleted before.
    EpochsRestart,
    /// A follower that meets another file keeps the epoch that it began with.
    FollowerKeepsEpoch,
    /// A backup copies each log to its end, past what the copy of the state knows.
    BackupUncut,
    /// Lines about a change are written by nobody until the home is opened again.
    LinesLeftWaiting,
    /// An operation takes equal lines at the end of the log for its own.
    OperationByContent,
    /// After a failed sync of the state, the next commit is acknowledged as `power` on top of what was not synced.
    PowerAfterFailedSync,
    /// An execution that has ended takes another end and another output.
    ClosedExecutionsChange,
    /// The output of an execution is written in a transaction of its own, before its end is decided.
    EndInTwoTransactions,
    /// A loop's state that is not an object is replaced by an empty one.
    LoopStateReplaced,
    /// A resumed run is running at once, whether a slot is free or not.
    ResumeWithoutSlot,
    /// A page of gates is filled before it is filtered by status.
    GatesFilteredAfterPage,
    /// A list of runs in the order of their starts is paged by status.
    StartsPagedByStatus,
}

impl Mutant {
    /// Every mutant that the crash harness hunts. [`Self::PowerAfterFailedSync`] is missing: it shows only in SQLite's own
    /// files, and a test of the state hunts it there.
    pub const ALL: &'static [Self] = &[
        Self::NoFloorScan,
        Self::NoStableEnd,
        Self::PartialBytesKept,
        Self::MarksClearedByOthers,
        Self::NoLinkCheck,
        Self::NoEpoch,
        Self::NoLogSync,
        Self::NormalSync,
        Self::PointerBeforeSync,
        Self::NoOutbox,
        Self::TornTailKept,
        Self::NoClaimMode,
        Self::ForkedAppend,
        Self::EpochAfterUnlink,
        Self::UnlinkForgotten,
        Self::EpochsRestart,
        Self::FollowerKeepsEpoch,
        Self::BackupUncut,
        Self::LinesLeftWaiting,
        Self::OperationByContent,
    ];

    /// Every mutant that the black-box tester hunts: rules of runs, gates and lists.
    pub const DOMAIN: &'static [Self] = &[
        Self::ClosedExecutionsChange,
        Self::EndInTwoTransactions,
        Self::LoopStateReplaced,
        Self::ResumeWithoutSlot,
        Self::GatesFilteredAfterPage,
        Self::StartsPagedByStatus,
    ];
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mutant;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// Nobody has set a mutant yet, and the environment was not read.
    const UNREAD: u8 = u8::MAX;
    static ACTIVE: AtomicU8 = AtomicU8::new(UNREAD);

    /// Removes a rule in this process, or puts all back with `None`.
    pub fn set(mutant: Option<Mutant>) {
        ACTIVE.store(mutant.map_or(0, |m| m as u8), Ordering::SeqCst);
    }

    /// Whether this rule is removed.
    #[inline]
    pub fn is(mutant: Mutant) -> bool {
        match ACTIVE.load(Ordering::Relaxed) {
            UNREAD => from_environment() == mutant as u8,
            active => active == mutant as u8,
        }
    }

    /// Reads once which rule is removed in this process, as whoever started it says.
    #[cold]
    fn from_environment() -> u8 {
        let name = std::env::var("DUOLOG_TEST_MUTANT").unwrap_or_default();
        let all = Mutant::ALL.iter().chain(Mutant::DOMAIN).chain([&Mutant::PowerAfterFailedSync]);
        let active = all.copied().find(|mutant| format!("{mutant:?}") == name).map_or(0, |mutant| mutant as u8);
        ACTIVE.store(active, Ordering::SeqCst);
        active
    }
}

#[cfg(feature = "mutants")]
pub use switch::{is, set};

/// Whether this rule is removed: never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}
