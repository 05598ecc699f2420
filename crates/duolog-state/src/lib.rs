//! The state: small, indexed, mutable rows in SQL that record what to do next.
//!
//! [`State`] opens the database and runs transactions. Table modules hold the statements, one file per table. Tables in
//! [`owned`] are the only record of their data; tables in [`derived`] can be rebuilt from the logs (I3, I4). Rows are
//! bounded by types and by `CHECK` (I2). The meaning of a row and files other than the database belong to other crates.

mod address;
mod engine;
mod error;
mod filesystem;
mod maintenance;
mod migrate;
mod page;
mod state;

pub mod derived;
pub mod owned;

pub use address::{Address, Server, StoreAddress};
pub use engine::{Column, Foreign, FromColumn, Row, Sql, Tx, Value};
pub use error::{Cause, ConstraintKind, Error, Result};
pub use filesystem::{FileSystem, file_system_of, judge};
pub use maintenance::{CheckpointReport, Counters, EngineStats, StateStats, WalCheckpoint};
pub use migrate::known_version;
pub use page::{BadPageToken, ListId, Page, PageOrder, PageToken};
pub use state::{Access, CommitHook, Migrate, OpenState, Reading, State};
