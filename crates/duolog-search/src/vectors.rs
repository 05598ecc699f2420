//! Embeddings packed one behind the other in a file of a home, `vectors.pack`, so that all of them are looked at as fast as
//! they come from memory. It is derived from the state and can be thrown away.
//!
//! A row of the state says how much of the file counts, and what its contents must come out at: [`Published`]. Nothing
//! else is believed: bytes behind that end are overwritten by whoever packs next, and a file that comes out at something
//! else is as good as none. So a search with a pack, with half of one and without gives the same answer.
//!
//! Not here: the state, which embeddings are still there, and which are meant.

mod block;
mod nearness;
mod pack;
mod packing;

pub use block::{Block, records_of};
pub use nearness::{Metric, Wanted, length_of};
pub use pack::{Pack, Published};
pub use packing::{PackLock, Packing};

/// What the contents of a pack come out at, block by block.
pub type Chain = [u8; 32];
