//! A block of a pack: so many embeddings with as many numbers each, by number, and what they come out at.
//!
//! ```text
//! head     64 bytes: how many, of how many numbers (two little-endian u32), 24 zeros, the chain up to here (32)
//! seqs     8 bytes each, little-endian
//! lengths  4 bytes each: the length of the embedding, a little-endian f32; then zeros up to a multiple of 64
//! numbers  4 bytes each, little-endian f32, embedding by embedding; then zeros up to a multiple of 64
//! ```

use duolog_types::limits::{EMBEDDING_BYTES_MAX, PACK_BLOCK_BYTES, PACK_BLOCK_RECORDS_MAX};

use super::Chain;

/// What everything in a pack is a multiple of.
const UNIT: usize = 64;
/// The bytes of a block's head.
pub(super) const HEAD: usize = UNIT;

/// How many embeddings of so many numbers a block holds.
pub fn records_of(dimension: usize) -> usize {
    (PACK_BLOCK_BYTES / (dimension * 4).max(1)).clamp(1, PACK_BLOCK_RECORDS_MAX)
}

/// How many embeddings a block has, and of how many numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    records: u32,
    dimension: u32,
}

impl Shape {
    /// Of what may stand in a block; nothing else.
    pub(super) fn of(records: usize, dimension: usize) -> Option<Self> {
        let may_be =
            (1..=EMBEDDING_BYTES_MAX / 4).contains(&dimension) && (1..=records_of(dimension)).contains(&records);
        let (records, dimension) = (u32::try_from(records).ok()?, u32::try_from(dimension).ok()?);
        may_be.then_some(Self { records, dimension })
    }

    pub(super) const fn records(self) -> usize {
        self.records as usize
    }

    const fn dimension(self) -> usize {
        self.dimension as usize
    }

    fn numbers_at(self) -> usize {
        (self.records() * 12).next_multiple_of(UNIT)
    }

    /// The bytes behind the head.
    pub(super) fn body_bytes(self) -> usize {
        self.numbers_at() + (self.records() * self.dimension() * 4).next_multiple_of(UNIT)
    }

    /// What the head of a block says: its shape, and what the pack comes out at behind it.
    pub(super) fn read(head: &[u8; HEAD]) -> Option<(Self, Chain)> {
        let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
        let chain = head.last_chunk::<32>()?;
        Some((Self::of(number(0)?, number(4)?)?, *chain))
    }

    fn head(self, chain: &Chain) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&self.records.to_le_bytes());
        head[4..8].copy_from_slice(&self.dimension.to_le_bytes());
        head[HEAD - 32..].copy_from_slice(chain);
        head
    }

    /// What a pack comes out at behind this block.
    pub(super) fn chained(self, before: &Chain, body: &[u8]) -> Chain {
        let mut hasher = blake3::Hasher::new();
        hasher.update(before).update(&self.records.to_le_bytes()).update(&self.dimension.to_le_bytes());
        for sum in sums(body) {
            hasher.update(&sum.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// The numbers that are added up side by side.
const WIDE: usize = UNIT / 4;

/// Sums of all words of a body, plain and weighted by their place, side by side: as fast as it comes from the cache.
///
/// No change of one word goes unnoticed, and of others hardly one in 2⁶⁴: bytes that were lost, torn, moved or of another
/// file. It is no guard against a forger, who may as well write the state.
// By itself: where it is part of another function, the compiler adds word by word and takes three times as long.
#[inline(never)]
fn sums(body: &[u8]) -> [u32; 2 * WIDE] {
    let (mut plain, mut weighted) = ([0_u32; WIDE], [0_u32; WIDE]);
    for words in body.as_chunks::<UNIT>().0 {
        let words = words.as_chunks::<4>().0;
        for at in 0..WIDE {
            plain[at] = plain[at].wrapping_add(u32::from_le_bytes(words[at]));
            weighted[at] = weighted[at].wrapping_add(plain[at]);
        }
    }
    let mut sums = [0; 2 * WIDE];
    sums[..WIDE].copy_from_slice(&plain);
    sums[WIDE..].copy_from_slice(&weighted);
    sums
}

/// The embeddings of a block that came out as they should.
pub struct Block<'b> {
    /// How many numbers each has.
    pub dimension: usize,
    seqs: &'b [[u8; 8]],
    lengths: &'b [[u8; 4]],
    numbers: &'b [[u8; 4]],
}

impl<'b> Block<'b> {
    pub(super) fn new(shape: Shape, body: &'b [u8]) -> Option<Self> {
        let (records, dimension) = (shape.records(), shape.dimension());
        let seqs = body.get(..records * 8)?.as_chunks().0;
        let lengths = body.get(records * 8..records * 12)?.as_chunks().0;
        let numbers = body.get(shape.numbers_at()..)?.get(..records * dimension * 4)?.as_chunks().0;
        Some(Self { dimension, seqs, lengths, numbers })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// The numbers that they have in the state, in order.
    pub fn seqs(&self) -> impl Iterator<Item = i64> + use<'b> {
        self.seqs.iter().map(|bytes| i64::from_le_bytes(*bytes))
    }

    /// Each by its number, with its length and itself, packed.
    pub fn embeddings(&self) -> impl Iterator<Item = (i64, f32, &'b [[u8; 4]])> + use<'b> {
        let lengths = self.lengths.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let both = self.seqs().zip(lengths).zip(self.numbers.chunks_exact(self.dimension));
        both.map(|((seq, length), packed)| (seq, length, packed))
    }
}

/// A block that is being filled.
#[derive(Default)]
pub(super) struct Filling {
    dimension: usize,
    seqs: Vec<u8>,
    lengths: Vec<u8>,
    numbers: Vec<u8>,
}

impl Filling {
    pub(super) fn records(&self) -> usize {
        self.lengths.len() / 4
    }

    /// The number of the last one.
    pub(super) fn last_seq(&self) -> Option<i64> {
        self.seqs.last_chunk().map(|bytes| i64::from_le_bytes(*bytes))
    }

    /// Whether an embedding of so many numbers has to go into another one.
    pub(super) fn is_closed_to(&self, dimension: usize) -> bool {
        self.records() > 0 && (dimension != self.dimension || self.is_full())
    }

    pub(super) fn is_full(&self) -> bool {
        self.records() > 0 && self.records() >= records_of(self.dimension)
    }

    pub(super) fn add(&mut self, seq: i64, embedding: &[u8]) {
        let packed = embedding.as_chunks().0;
        self.dimension = packed.len();
        self.seqs.extend(seq.to_le_bytes());
        self.lengths.extend(super::length_of(packed).to_le_bytes());
        self.numbers.extend(packed.as_flattened());
    }

    /// Writes the block down, head and all, behind a pack that comes out at `before`; empties it. Says what the pack
    /// comes out at then.
    pub(super) fn take(&mut self, before: &Chain, into: &mut Vec<u8>) -> Option<Chain> {
        let shape = Shape::of(self.records(), self.dimension)?;
        into.clear();
        into.resize(HEAD, 0);
        into.append(&mut self.seqs);
        into.append(&mut self.lengths);
        into.resize(HEAD + shape.numbers_at(), 0);
        into.append(&mut self.numbers);
        into.resize(HEAD + shape.body_bytes(), 0);
        let chain = shape.chained(before, into.get(HEAD..)?);
        into[..HEAD].copy_from_slice(&shape.head(&chain));
        Some(chain)
    }
}

/// Room for the body of a block, where lines of the cache begin: reading across them costs more.
#[derive(Default)]
pub(super) struct Room(Vec<u8>);

impl Room {
    pub(super) fn of(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes + UNIT {
            self.0 = vec![0; bytes + UNIT];
        }
        let at = self.0.as_ptr().align_offset(UNIT).min(UNIT);
        &mut self.0[at..at + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_of_a_block_is_noticed() {
        let (mut filling, mut bytes, before) = (Filling::default(), Vec::new(), [7; 32]);
        for seq in 1_u8..=3 {
            filling.add(seq.into(), &[seq; 12]);
        }
        filling.take(&before, &mut bytes).expect("a block");
        let holds = |bytes: &[u8]| {
            let read = bytes.first_chunk().and_then(Shape::read);
            read.is_some_and(|(shape, chain)| {
                bytes.len() == HEAD + shape.body_bytes() && shape.chained(&before, &bytes[HEAD..]) == chain
            })
        };
        assert!(holds(&bytes));
        for at in (0..8).chain(HEAD - 32..bytes.len()) {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(!holds(&bytes), "byte {at}, bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
        // Embeddings that changed places.
        let numbers = HEAD + 64;
        let (one, two) = (bytes[numbers..numbers + 12].to_vec(), bytes[numbers + 12..numbers + 24].to_vec());
        bytes[numbers..numbers + 12].copy_from_slice(&two);
        bytes[numbers + 12..numbers + 24].copy_from_slice(&one);
        assert!(!holds(&bytes));
    }

    /// What a search needs of memory for the largest block is what it needs for any pack.
    #[test]
    fn a_block_is_as_large_as_it_may_be_and_no_larger() {
        assert_eq!((records_of(1), records_of(384), records_of(16_384)), (1024, 170, 4));
        assert_eq!(Shape::of(171, 384), None);
        assert_eq!((Shape::of(0, 384), Shape::of(1, 0), Shape::of(1, 16_385)), (None, None, None));
        let mut room = Room::default();
        for dimension in 1..=EMBEDDING_BYTES_MAX / 4 {
            let shape = Shape::of(records_of(dimension), dimension).expect("a shape");
            assert_eq!(room.of(shape.body_bytes()).len(), shape.body_bytes());
            assert!(room.0.len() <= PACK_BLOCK_BYTES + 12 * PACK_BLOCK_RECORDS_MAX + 3 * UNIT, "{dimension}");
        }
    }
}
