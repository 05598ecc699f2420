//! The log: what happened. Append-only JSONL, one log per session; large, ordered, readable with `jq` and `tail -f`.
//!
//! A log does not care what its lines mean. It promises that an acknowledged batch stands whole and once (I7, I10), that
//! a torn tail is set aside and reported (I6), and that nobody is shown bytes that may still be taken away
//! ([`Reader::stable_end`]). Every disk call goes through [`Disk`], so that tests can fail, drop and cut any of them.
//!
//! Not here: which session owns which file, epochs and repairs as rows (the join keeps those).

mod blobs;
pub mod dialect;
mod draft;
mod error;
mod fs;
mod hint;
mod lock;
pub mod medium;
mod reader;
mod recent;
mod recover;
mod remove;
mod rewrite;
mod root;
mod seal;
mod sync;
mod sync_many;
mod tail;
mod torn;
mod trail;
mod writer;

pub use blobs::{Alone, BlobId, BlobReader, Blobs, Hold, NotABlobId, each_reference, references, wholes};
pub use draft::{Draft, sweep as sweep_drafts};
pub use error::{Error, Result};
pub use fs::{Disk, DiskFile, FileKind, Ident, Lock, Open, Stat};
pub use hint::{Bell, Hints};
pub use lock::keep as keep_lock;
pub use medium::files::Files;
pub use reader::{Back, Block, Item, Line, Lines, Place, Reader, Segment, Writers, split_lines};
pub use recent::Recent;
pub use recover::{LogIdentity, Mend, MendKind, Recovery, Watermark, standing};
pub use remove::remove;
pub use rewrite::{Rewritten, rewrite};
pub use root::{Progress, RootEvent, RootFollower, RootOptions, Skip, Start};
pub use seal::{Blocks, Hashed, LineHash, SealHash, chain, hash_blocks, hash_line, hash_range, hash_range_and_blocks};
pub use sync::Synced;
pub use sync_many::{SyncLog, sync_logs};
pub use tail::{Follower, Pace, Polled, ResetReason};
pub use torn::{TornRecord, torn_path, torn_records, write_all};
pub use writer::{Append, Appended, Claim, LogRecord, Writer};
