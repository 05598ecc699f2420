//! The durable state layer for AI agents.
//!
//! The log is what happened; the state is what to do next; the join sees to it that neither names what the other does
//! not have. An agent built on it can be stopped, killed, moved and watched, and nothing is lost, run twice or hidden.
//!
//! ```
//! use duolog::{Batch, Durability, Home, Store, StoreOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let store = Store::open(StoreOptions::at(Home::beneath(path)))?;
//! let session = store.sessions().open_thread("hello")?;
//!
//! let mut batch = Batch::default();
//! batch.push(br#"{"type":"user","text":"What is the plan?"}"#)?;
//! let log = store.log(&session.id);
//! let committed = log.append(&batch, Durability::Power)?;
//!
//! // Here the process may die. The line stands; whoever opens the store next reads on from any position.
//! assert_eq!(log.last(10)?.len(), 1);
//! assert_eq!(committed.end, log.end()?);
//! # Ok(())
//! # }
//! ```
//!
//! Everything is synchronous. A [`Store`] may be shared by threads and opened by any number of processes.

mod error;
mod home;
mod options;
mod store;

pub mod approvals;
pub mod chats;
pub mod config;
pub mod doctor;
pub mod import;
pub mod log;
pub mod runs;
pub mod schedules;
pub mod search;
pub mod sessions;
pub mod state;
pub mod usage;
pub mod workflows;

pub use config::{Config, ConfigError};
pub use duolog_join::{
    CaughtUp, Change, Committed, Damage, DamageKind, Follow, Loss, Rebuilt, Repaired, Seen, Severity, Verified,
};
pub use duolog_log::dialect::money::Money;
pub use duolog_log::dialect::prices::{Long, Price, Prices, Rates};
pub use duolog_log::dialect::usage::Tokens;
pub use duolog_log::{Bell, BlobId, Item, Line, Pace};
pub use duolog_state::owned::repairs::RepairRow;
pub use duolog_state::{Address, Checkpoint, CheckpointReport, Page, PageOrder, PageToken, Said, Server};
pub use duolog_types::limits::{self, Limits};
pub use duolog_types::{
    ApprovalId, ApprovalKind, ApprovalStatus, BadId, Batch, BranchId, ChatId, ChatRole, Clock, CronOutcome, CronRunId,
    Cursor, Durability, Epoch, ExecutionId, HomeId, InvocationKind, MessageId, Moment, OperationId, Position, RunId,
    RunStatus, SessionId, SessionStatus, SourceKind, SystemClock, TriggerType, UnknownWord,
};
pub use error::{Error, Kind, Result};
pub use home::{Home, HomeSource, NoHome, Surroundings};
pub use options::{Access, Background, StoreOptions};
pub use store::Store;

/// Compiles what README.md shows.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
