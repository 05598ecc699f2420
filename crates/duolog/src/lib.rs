//! Durable state layer for AI agents. It stores what an agent did and what it must do next, and keeps both across
//! crashes.
//!
//! **The log** is an append-only JSONL file per session: every event, in order. **The state** is a SQL database (SQLite or
//! PostgreSQL): sessions, runs, approvals, schedules. **The join** keeps the two consistent: a row never points at log bytes that
//! could still be lost, and every state change that belongs in the log is written there exactly once, even across a crash.
//!
//! ```
//! use duolog::runs::{End, NewRun};
//! use duolog::{Batch, Durability, Home, Store, StoreOptions, TriggerType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let store = Store::open(StoreOptions::at(Home::beneath(path)))?;
//!
//! // The log: the events of a session.
//! let session = store.sessions().open_thread("hello")?;
//! let log = store.log(&session.id);
//! let mut batch = Batch::default();
//! batch.push(br#"{"type":"user","text":"What is the plan?"}"#)?;
//! let committed = log.append(&batch, Durability::Power)?;
//!
//! // The state: a run, claimed by one owner at a time.
//! let run = store.runs().start(&NewRun::new("release", TriggerType::Cli, "v1.0"))?.run;
//! let claim = store.runs().open(&run.id).claim("worker-1", None)?;
//!
//! // The process may die here: the line is kept, and another owner can claim the run when the lease expires.
//! assert_eq!(log.end()?, committed.end);
//! store.runs().open(&run.id).under(claim.fence).finish(&End::Succeeded, None)?;
//! # Ok(())
//! # }
//! ```
//!
//! | call | handle | module |
//! |---|---|---|
//! | `store.sessions()` | sessions, their branches, items, messages, status and summaries | [`sessions`] |
//! | `store.log(&id)` | the log of one session: append, record, read, follow, verify and repair | [`log`] |
//! | `store.stream(…)` | all logs of the home as one stream | [`log`] |
//! | `store.runs()` | runs of workflows, their claims, phases, gates and results | [`runs`] |
//! | `store.approvals()` | gates that runs wait at, and their answers | [`approvals`] |
//! | `store.workflows()` | workflows: list, enable and disable | [`workflows`] |
//! | `store.schedules()` | schedules, their overrides and their history | [`schedules`] |
//! | `store.chats()` | chats with people on platforms | [`chats`] |
//! | `store.search()` | search over all logs | [`search`] |
//! | `store.usage()` | token counts and their cost | [`usage`] |
//! | `store.state()` | the state database: statistics, rebuild, backup and blobs | [`state`] |
//! | `store.doctor()` | health checks | [`doctor`] |
//!
//! Calls block. A [`Store`] and its handles own their data: clone them into threads and tasks. Any number of processes
//! may open the same home. Errors are [`Error`], with a [`kind`](Error::kind) and a [`hint`](Error::hint).
//!
//! Types that several modules share (ids, positions, limits, pages) are at the crate root. The programs in `examples/`
//! show each module in use.

mod catching_up;
mod error;
mod home;
mod options;
mod resolve;
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

pub use catching_up::Wait;
pub use duolog_join::{
    CatchingUp, CaughtUp, Committed, Damage, DamageKind, Loss, Rebuilt, RecordedLoss, Repaired, SealMismatch, Seen,
    Severity, Verified,
};
pub use duolog_log::dialect::money::Money;
pub use duolog_log::dialect::prices::{LongContextRates, Price, Prices, Rates};
pub use duolog_log::dialect::usage::Tokens;
pub use duolog_log::{Bell, BlobId, Item, Line, Pace};
pub use duolog_state::{
    Address, BadPageToken, CheckpointReport, Page, PageOrder, PageToken, Server, StoreAddress, WalCheckpoint,
};
pub use duolog_types::limits;
pub use duolog_types::{
    ApprovalId, ApprovalKind, ApprovalStatus, BadId, Batch, BranchId, ChatId, ChatRole, Clock, CronOutcome, CronRunId,
    Cursor, Durability, Epoch, ExecutionId, HomeId, InvocationKind, MessageId, OperationId, Position, RunId, RunStatus,
    SessionId, SessionStatus, SourceKind, SystemClock, Timestamp, TriggerType, UnknownWord,
};
pub use error::{Error, ErrorKind, Result};
pub use home::{Home, HomeSource, NoHome, Surroundings};
pub use options::{Access, Background, StoreOptions};
pub use store::Store;

/// The details of an error: the types that the variants of [`Error`] carry.
pub mod errors {
    pub use duolog_types::with_causes;

    pub use crate::error::{Busy, Conflict, Damaged, Fault, Invalid, Io, NotFound, Remedy, Stale};
}

/// Compiles the examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
