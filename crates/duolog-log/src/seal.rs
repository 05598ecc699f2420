//! Hashes over log bytes: of a line, of a range, and the chain that seals are.

use duolog_types::Position;

use crate::error::Result;
use crate::reader::Reader;

/// BLAKE3 of one line, without its newline.
pub type LineHash = [u8; 32];
/// One link of the chain.
pub type SealHash = [u8; 32];

/// The hash of a line.
pub fn hash_line(line: &[u8]) -> LineHash {
    blake3::hash(line).into()
}

/// The next link: BLAKE3(link before ‖ BLAKE3(bytes since)). The first link has nothing before it.
pub fn chain(before: Option<&SealHash>, bytes_since: &[u8; 32]) -> SealHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.map_or(&[][..], |hash| &hash[..]));
    hasher.update(bytes_since);
    hasher.finalize().into()
}

/// Hashes `[from, to)`, telling the hash so far at each position of `stops` that it passes. Memory is one buffer.
pub fn hash_range(
    reader: &Reader,
    from: Position,
    to: Position,
    stops: &[Position],
) -> Result<(Vec<[u8; 32]>, [u8; 32])> {
    let mut hasher = blake3::Hasher::new();
    let mut at = from;
    let mut so_far = Vec::with_capacity(stops.len() + 1);
    for end in stops.iter().copied().filter(|stop| (from..=to).contains(stop)).chain([to]) {
        reader.each_chunk(at, end, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        at = end;
        so_far.push(hasher.finalize().into());
    }
    let whole = so_far.pop().unwrap_or_else(|| hasher.finalize().into());
    Ok((so_far, whole))
}
