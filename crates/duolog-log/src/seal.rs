//! Hashes of log bytes: of a line, of a range, of its blocks, and the hash chain of seals.

use duolog_types::Position;
use duolog_types::limits::{SEAL_BLOCK_BYTES, SEAL_BLOCK_HASH_BYTES};

use crate::error::Result;
use crate::reader::Reader;

/// BLAKE3 of one line, without its newline.
pub type LineHash = [u8; 32];
/// One link of the chain.
pub type SealHash = [u8; 32];

/// Returns the hash of a line.
pub fn hash_line(line: &[u8]) -> LineHash {
    blake3::hash(line).into()
}

/// Returns the next link: BLAKE3(previous link ‖ BLAKE3(bytes since)). The first link has no previous link.
pub fn chain(previous: Option<&SealHash>, bytes_since: &[u8; 32]) -> SealHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.map_or(&[][..], |hash| &hash[..]));
    hasher.update(bytes_since);
    hasher.finalize().into()
}

/// Hashes `[from, to)`. Returns the hash up to each position of `stops` in the range, and the hash of the range. Memory
/// is one buffer.
pub fn hash_range(
    reader: &Reader,
    from: Position,
    to: Position,
    stops: &[Position],
) -> Result<(Vec<[u8; 32]>, [u8; 32])> {
    hash_range_and(reader, from, to, stops, |_| {})
}

/// The hashes of a range, computed in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The hash up to each stop.
    pub so_far: Vec<[u8; 32]>,
    /// The hash of the range.
    pub whole: [u8; 32],
    /// The short hashes of its blocks; see [`Blocks`].
    pub blocks: Vec<u8>,
}

/// Hashes a range like [`hash_range`], and its blocks in the same pass.
pub fn hash_range_and_blocks(
    reader: &Reader,
    from: Position,
    to: Position,
    stops: &[Position],
    mut blocks: Blocks,
) -> Result<Hashed> {
    let (so_far, whole) = hash_range_and(reader, from, to, stops, |bytes| blocks.update(bytes))?;
    Ok(Hashed { so_far, whole, blocks: blocks.finish() })
}

/// Hashes only the blocks of `[from, to)`.
pub fn hash_blocks(reader: &Reader, from: Position, to: Position) -> Result<Vec<u8>> {
    let mut blocks = Blocks::default();
    reader.each_chunk(from, to, |bytes| {
        blocks.update(bytes);
        Ok(())
    })?;
    Ok(blocks.finish())
}

fn hash_range_and(
    reader: &Reader,
    from: Position,
    to: Position,
    stops: &[Position],
    mut each: impl FnMut(&[u8]),
) -> Result<(Vec<[u8; 32]>, [u8; 32])> {
    let mut hasher = blake3::Hasher::new();
    let mut at = from;
    let mut so_far = Vec::with_capacity(stops.len() + 1);
    for end in stops.iter().copied().filter(|stop| (from..=to).contains(stop)).chain([to]) {
        reader.each_chunk(at, end, |bytes| {
            hasher.update(bytes);
            each(bytes);
            Ok(())
        })?;
        at = end;
        so_far.push(hasher.finalize().into());
    }
    let whole = so_far.pop().unwrap_or_else(|| hasher.finalize().into());
    Ok((so_far, whole))
}

/// Short hashes of the blocks of a range: the first bytes of the BLAKE3 of each, concatenated. The last block may be
/// partial.
///
/// They only help to find a change; the hash of the range proves that there is none.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Number of coming bytes whose blocks are hashed already.
    known: u64,
    hasher: blake3::Hasher,
    filled: u64,
    hashes: Vec<u8>,
}

impl Blocks {
    /// Resumes after a range of `len` bytes, and keeps the hashes of its complete blocks. The caller must know that
    /// those bytes are unchanged.
    pub fn resume(hashes: &[u8], len: u64) -> Self {
        let count = usize::try_from(len / SEAL_BLOCK_BYTES).unwrap_or(usize::MAX);
        match hashes.get(..count.saturating_mul(SEAL_BLOCK_HASH_BYTES)) {
            Some(whole) => Self { known: len - len % SEAL_BLOCK_BYTES, hashes: whole.to_vec(), ..Self::default() },
            None => Self::default(),
        }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        let passed = usize::try_from(self.known).unwrap_or(usize::MAX).min(bytes.len());
        self.known -= passed as u64;
        bytes = &bytes[passed..];
        while !bytes.is_empty() {
            let room = usize::try_from(SEAL_BLOCK_BYTES - self.filled).unwrap_or(usize::MAX).min(bytes.len());
            let (block, rest) = bytes.split_at(room);
            self.hasher.update(block);
            self.filled += room as u64;
            if self.filled == SEAL_BLOCK_BYTES {
                self.close();
            }
            bytes = rest;
        }
    }

    fn close(&mut self) {
        self.hashes.extend_from_slice(&self.hasher.finalize().as_bytes()[..SEAL_BLOCK_HASH_BYTES]);
        self.hasher.reset();
        self.filled = 0;
    }

    fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.close();
        }
        self.hashes
    }
}
