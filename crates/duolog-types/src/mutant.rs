//! Mutants: rules that the crash harness and the black-box tester remove one at a time, to prove that they detect it.
//!
//! Without the feature `mutants` (every build except tests) [`is`] is the constant `false`, and this code is compiled out.
//! With it, a test sets a mutant in its own process, or starts the real binary with its name in `DUOLOG_TEST_MUTANT`.

/// A removed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// The outbox is drained without a check whether its line is already in the log.
    NoFloorScan = 1,
    /// Followers deliver up to the file size, even while a writer is appending.
    NoStableEnd,
    /// A follower keeps the bytes of an incomplete line and continues after them.
    PartialBytesKept,
    /// A fold deletes the marks of live processes.
    MarksClearedByOthers,
    /// An append does not check that its file is still at the path.
    NoLinkCheck,
    /// A log that lost bytes keeps its epoch.
    NoEpoch,
    /// The log is reported as synced without a sync.
    NoLogSync,
    /// The state commits with `synchronous=NORMAL` and reports `power`.
    NormalSync,
    /// A row that points at the log is committed before those bytes are synced.
    PointerBeforeSync,
    /// The line of a transition is appended after the commit, without an outbox row.
    NoOutbox,
    /// A torn tail is left in place, and the next append joins it.
    TornTailKept,
    /// The mode of a log does not record that the end of the log was claimed.
    NoClaimMode,
    /// A forked process appends with inherited handles.
    ForkedAppend,
    /// A log is removed before its epoch is raised.
    EpochAfterUnlink,
    /// The deletion of a log does not record that its file is still to be unlinked.
    UnlinkForgotten,
    /// A new log begins with epoch 0, even after a deletion.
    EpochsRestart,
    /// A follower that finds another file keeps its first epoch.
    FollowerKeepsEpoch,
    /// A backup copies each log to its end, beyond what the copied state knows.
    BackupUncut,
    /// Lines of a change are not written until the home is opened again.
    LinesLeftWaiting,
    /// An operation treats equal lines at the end of the log as its own.
    OperationByContent,
    /// After a failed sync of the state, the next commit is acknowledged as `power` on top of what was not synced.
    PowerAfterFailedSync,
    /// An ended execution accepts another end and output.
    ClosedExecutionsChange,
    /// The output of an execution is written in a separate transaction, before its end is decided.
    EndInTwoTransactions,
    /// A loop's state that is not an object is replaced by an empty one.
    LoopStateReplaced,
    /// A resumed run starts even if no slot is free.
    ResumeWithoutSlot,
    /// A page of gates is filled before it is filtered by status.
    GatesFilteredAfterPage,
    /// A list of runs in start order is paged by status.
    StartsPagedByStatus,
}

impl Mutant {
    /// All mutants of the crash harness. [`Self::PowerAfterFailedSync`] is missing: it is visible only in SQLite's
    /// files, where a test of the state checks it.
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

    /// All mutants of the black-box tester: rules of runs, gates and lists.
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

    /// No mutant is set yet, and the environment was not read.
    const UNREAD: u8 = u8::MAX;
    static ACTIVE: AtomicU8 = AtomicU8::new(UNREAD);

    /// Removes a rule in this process, or restores all rules with `None`.
    pub fn set(mutant: Option<Mutant>) {
        ACTIVE.store(mutant.map_or(0, |m| m as u8), Ordering::SeqCst);
    }

    /// Returns true if this rule is removed.
    #[inline]
    pub fn is(mutant: Mutant) -> bool {
        match ACTIVE.load(Ordering::Relaxed) {
            UNREAD => from_environment() == mutant as u8,
            active => active == mutant as u8,
        }
    }

    /// Reads the removed rule from the environment, once.
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

/// Returns false: this build has no mutants.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}
