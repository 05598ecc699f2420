//! Disk faults that are injected while commands are recorded.

use crate::random::Random;

/// The call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sync of SQLite's write-ahead log; its pages never reach the disk.
    StateSync,
    /// A sync of a log; its pages never reach the disk.
    LogSync,
    /// The disk is full, or takes only a part of a write.
    Full,
    /// No file descriptor is left to open a directory.
    Descriptors,
    /// Any of these, and syncs of directories.
    Any,
}

const EIO: u32 = 5;
const EMFILE: u32 = 24;
const ENOSPC: u32 = 28;

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::StateSync, Self::LogSync, Self::Full, Self::Descriptors, Self::Any];

    /// Returns a plan for one command, in the shim's syntax.
    pub(crate) fn plan(self, random: &mut Random) -> String {
        let nth = 1 + random.below(4);
        match (self, random.below(4)) {
            (Self::StateSync, _) => format!("fail={EIO} sync -wal {nth} 0"),
            (Self::LogSync, _) => format!("fail={EIO} sync .jsonl {} 0", 1 + nth % 2),
            (Self::Full, 0) => format!("fail={ENOSPC} write .jsonl 1 1"),
            (Self::Full, 1) => format!("short=10 write .jsonl 1 0;fail={ENOSPC} write .jsonl 2 1"),
            (Self::Full, 2) => format!("fail={ENOSPC} write -wal {} 1", nth * 3),
            (Self::Full, _) => format!("fail={ENOSPC} create * {nth} 1"),
            (Self::Descriptors, _) => format!("fail={EMFILE} opendir * {nth} 1"),
            (Self::Any, kind) => match kind {
                0 => format!("fail={EIO} sync * {} 0", 1 + random.below(8)),
                1 => format!("fail={EIO} sync state.db 1 0"),
                2 => Self::ALL[usize::try_from(random.below(4)).unwrap_or_default()].plan(random),
                _ => format!("fail={EIO} change * {} 0", 1 + random.below(30)),
            },
        }
    }

    /// Returns true if the fault may close a log until it is repaired: a write or a sync of the log failed.
    pub(crate) fn closes_logs(self) -> bool {
        !matches!(self, Self::Descriptors | Self::StateSync)
    }

    /// Returns true if lines of durability `process` can be lost although a later sync succeeded.
    pub(crate) fn loses_pages(self) -> bool {
        matches!(self, Self::LogSync | Self::Any)
    }
}
