//! The log store: append-only JSONL, one log per session; large, ordered, readable with `jq` and `tail -f`.
//!
//! The store does not interpret lines. It guarantees that an acknowledged batch is in the log completely and once (I7,
//! I10), that a torn tail is quarantined and reported (I6), and that no reader sees bytes that a rollback can remove
//! ([`Reader::stable_end`]). Every disk call goes through [`Disk`], so that tests can fail, drop or cut any of them.
//!
//! Not here: which session owns which file, epochs, and rows about repairs. The join keeps those.

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

pub use blobs::{BlobId, BlobReader, Blobs, Hold, NotABlobId, RemovalLock, each_reference, full_outputs, references};
pub use draft::{Draft, sweep as sweep_drafts};
pub use error::{Error, Result};
pub use fs::{Disk, DiskFile, FileKind, Ident, Lock, Open, Stat};
pub use hint::{Bell, Hints};
pub use lock::keep as keep_lock;
pub use medium::files::Files;
pub use reader::{Back, Block, Item, Line, Lines, Place, Reader, Segment, Writers, split_lines};
pub use recent::Recent;
pub use recover::{LogIdentity, Mend, MendKind, Recovery, Watermark, identify};
pub use remove::remove;
pub use rewrite::{Rewritten, rewrite};
pub use root::{Progress, RootEvent, RootFollower, RootOptions, Skip, Start};
pub use seal::{Blocks, Hashed, LineHash, SealHash, chain, hash_blocks, hash_line, hash_range, hash_range_and_blocks};
pub use sync::Synced;
pub use sync_many::{SyncLog, sync_logs};
pub use tail::{Follower, Pace, Polled, ResetReason};
pub use torn::{TornRecord, torn_path, torn_records, write_all};
pub use writer::{Append, Appended, Claim, LogRecord, Writer};
