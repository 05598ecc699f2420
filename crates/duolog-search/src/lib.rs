//! The search index: which text of which log may hold the words that are looked for.
//!
//! One predicate decides what a match is: [`Query::matches`], over decoded text. The index never decides. It is a filter
//! in front of the predicate that lets every match through ([`words`] says why) and most other texts not, so a search
//! with an index and one without give the same answer, and an index can be thrown away at any time.
//!
//! [`Wanted`] says how near two embeddings are.
//!
//! Not here: what a line means, which text it holds, and what belongs to a session. Nothing here opens a log.

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
    Batch, Candidate, Doc, Examined, Filter, Index, IndexProgress, IndexedTo, Indexing, Key, NotAKey, Snapshot,
    SourceId,
};
pub use nearness::{Metric, Wanted};
pub use query::{BadQuery, Matcher, QUERY_BYTES_MAX, Query, Span, TERMS_MAX};
pub use snippet::Snippet;
