//! The state: what to do next. Small rows, indexed and mutable, in SQL.
//!
//! [`State`] opens the database and runs transactions; table modules hold the statements, one file per table. Tables in
//! [`owned`] are the only record of what they hold; tables in [`derived`] can be folded from the logs anew (I3, I4).
//! Rows are bounded by types and by `CHECK` (I2). What a row *means*, and files other than the database, are not here.

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
pub use maintenance::{CheckpointReport, Counters, Figures, StateStats, WalCheckpoint};
pub use migrate::known_version;
pub use page::{BadPageToken, ListId, Page, PageOrder, PageToken};
pub use state::{Access, CommitHook, Migrate, OpenState, Reading, State};
