//! Searching bytes, in long pieces as fast as the processor can.
//!
//! To know how, `memchr` asks the processor first. In a virtual machine that takes longer than a short command spends on
//! all that it searches, so a short piece is searched in the way that every processor of its kind knows.

#[cfg(target_arch = "x86_64")]
use memchr::arch::x86_64::sse2::memchr::{One, Two};

/// Up to this length the fastest way gains nothing that shows.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 4096;

/// Where a byte stands first.
#[inline]
pub fn first(byte: u8, bytes: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(search) = One::new(byte).filter(|_| bytes.len() <= SHORT) {
        return search.find(bytes);
    }
    memchr::memchr(byte, bytes)
}

/// Where either of two bytes stands first.
#[inline]
pub fn first_of_two(one: u8, other: u8, bytes: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(search) = Two::new(one, other).filter(|_| bytes.len() <= SHORT) {
        return search.find(bytes);
    }
    memchr::memchr2(one, other, bytes)
}

/// Where a byte stands last.
#[inline]
pub fn last(byte: u8, bytes: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(search) = One::new(byte).filter(|_| bytes.len() <= SHORT) {
        return search.rfind(bytes);
    }
    memchr::memrchr(byte, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_pieces_are_searched_alike() {
        for len in [0, 1, 15, 16, 17, 63, 64, 200, 4095, 4096, 4097, 10_000] {
            let blank = vec![b'.'; len];
            assert_eq!((first(b'x', &blank), first_of_two(b'x', b'y', &blank), last(b'x', &blank)), (None, None, None));
            for (from, to) in [(0, len), (len / 3, len - len / 3), (len / 2, len / 2 + 1)] {
                if from >= to || to > len {
                    continue;
                }
                let mut bytes = blank.clone();
                (bytes[from], bytes[to - 1]) = (b'x', b'x');
                assert_eq!((first(b'x', &bytes), last(b'x', &bytes)), (Some(from), Some(to - 1)), "{len}");
                bytes[to - 1] = b'y';
                let expected = if from == to - 1 { to - 1 } else { from };
                assert_eq!(first_of_two(b'y', b'x', &bytes), Some(expected), "{len}");
            }
        }
    }
}
