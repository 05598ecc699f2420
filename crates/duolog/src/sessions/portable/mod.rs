//! A session as one portable document, exported from one home and imported into another.
//!
//! `document` has the parts, `reading` parses them one by one, `export` writes them and `import` inserts them. Only one
//! entry at a time is in memory. What belongs to a home is not exported: the path of the log, seals, repairs, operation
//! ids, inboxes, and the process that runs the session.

mod document;
mod export;
mod import;
mod reading;

pub use export::Exported;
pub(crate) use export::write_mapped;
pub use import::ImportedSession;
