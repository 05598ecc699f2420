//! The join: neither store names something that the other does not have.
//!
//! Two directions, one rule each. A row that points at the log is written after the bytes that it names are synced
//! (I1). A line about a row is inserted into the outbox in the transaction of that row, and is appended to the log
//! after the commit, once. Both hold after a crash at any call; the crash harness proves it.
//!
//! The meaning of runs, gates and messages belongs to other crates.

mod adopt;
mod append;
mod background;
mod backup;
mod blobs;
mod catch_up;
mod copies;
mod error;
mod feed;
mod fold;
mod follow;
mod foreign;
mod home;
mod identity;
mod inspect;
mod life;
mod line_order;
mod loss;
mod marks;
mod note;
mod open_log;
mod operation;
mod outbox;
mod pass;
mod process;
mod project;
mod rebuild;
mod recover;
mod repair;
mod rows;
mod seal;
mod states;
mod step;
mod store;
mod transact;
mod verify;

pub use append::Committed;
pub use background::Folder;
pub use backup::BackedUp;
pub use blobs::{BlobCount, BlobScan, PrunedBlobs};
pub use catch_up::{CatchingUp, CaughtUp, FoldBound};
pub use error::{Error, Leftover, Result};
pub use feed::{Feed, Subscription};
pub use fold::Folded;
pub use follow::{Follow, Seen};
pub use foreign::{ForeignRows, fold_foreign};
pub use home::{HomeError, Prepared, discard_copy, finish_copy, may_write, prepare, prepare_copy, prepare_read_only};
pub use identity::{Identity, Liveness};
pub use inspect::LogStanding;
pub use life::{Conversations, Deleted, NewLog, PlannedLog, RemovedLog, Stem};
pub use loss::{Loss, ReadLog, RecordedLoss};
pub use operation::keep_operations_of_name;
pub use outbox::{OutboxLine, tell, tell_if_there};
pub use process::ProcessState;
pub use rebuild::Rebuilt;
pub use repair::Repaired;
pub use store::{Join, OpenJoin};
pub use transact::{IdempotencyKey, TxClock, Write};
pub use verify::{Damage, DamageKind, SealMismatch, Severity, Verified};
