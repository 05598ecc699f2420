//! The search index: which texts of which logs may match a query.
//!
//! One predicate decides what matches: [`Query::matches`], over decoded text. The index is only a filter in front of
//! it: it passes every match (see `words`) and few other texts. So a search returns the same result with and without
//! an index, and an index can be deleted at any time.
//!
//! [`Wanted`] computes the similarity of embeddings.
//!
//! Not here: the meaning of a line, its texts, and its session. This crate opens no log.

mod error;
mod fold;
mod index;
mod lock;
mod nearness;
mod query;
mod snippet;
mod words;

pub use error::{Error, Result};
pub use index::{
    Batch, Candidate, Doc, Filter, Index, IndexProgress, IndexReport, IndexedTo, Indexing, Key, NotAKey, Snapshot,
    SourceId,
};
pub use nearness::{Metric, Wanted};
pub use query::{BadQuery, Matcher, QUERY_BYTES_MAX, Query, Span, TERMS_MAX};
pub use snippet::Snippet;
