//! The blobs of a home and the number of references to each.

use duolog_join::{BlobCount, BlobScan, PrunedBlobs};

use crate::error::Result;
use crate::store::Store;

/// The result of [`State::count_blobs`](super::State::count_blobs). It owns a clone of its store.
pub struct CountedBlobs {
    scan: BlobScan,
    /// Keeps the store open.
    _store: Store,
}

impl CountedBlobs {
    pub(super) fn new(store: &Store, scan: BlobScan) -> Self {
        Self { scan, _store: store.clone() }
    }

    /// Iterates over the blobs in the order of their ids.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobCount> {
        self.scan.blobs()
    }

    /// Returns true if all blobs were counted; false if there are more than the limit.
    pub fn is_whole(&self) -> bool {
        self.scan.is_complete()
    }

    /// Removes the blobs that no log refers to, except for recent ones.
    ///
    /// # Errors
    ///
    /// Returns an error if the home is read-only, another state uses it, or a log cannot be read. No blob is removed
    /// then.
    pub fn prune(self) -> Result<PrunedBlobs> {
        Ok(self.scan.prune()?)
    }
}
