//! A session as one portable document: written from one home, given back equal in another.
//!
//! `document` is what stands in it, `reading` takes it apart entry by entry, `export` writes it, `import` gives it back.
//! Neither keeps more than an entry in memory. What belongs to a home stays there: where the log is, seals, repairs,
//! operation ids, inboxes, and which process runs the session.

mod document;
mod export;
mod import;
mod reading;

pub use export::Exported;
pub(crate) use export::write_mapped;
pub use import::ImportedSession;
