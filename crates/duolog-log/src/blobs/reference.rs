//! How a blob is named: `blob:` and 64 hexadecimal digits, never a path.

use std::fmt;
use std::str::FromStr;

use duolog_types::Position;
use memchr::memmem;
use sha2::{Digest as _, Sha256};

use crate::error::Result as LogResult;
use crate::reader::Reader;

/// What a reference begins with.
const SCHEME: &str = "blob:";
/// The member by which a line names the whole of what it shortened.
const MEMBER: &str = "\"fullOutput\"";
/// The digits of a name.
const DIGITS: usize = 64;

/// The name of a blob: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

/// Text that names no blob.
#[derive(Debug, thiserror::Error)]
#[error("not the name of a blob: expected 64 lower-case hexadecimal digits, in a line with \"blob:\" before them")]
pub struct NotABlobId;

impl BlobId {
    pub(super) fn of(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// The name that these bytes have as a blob.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(super) fn first_byte(&self) -> u8 {
        self.0[0]
    }

    /// The text by which a line names the blob.
    pub fn reference(&self) -> String {
        format!("{SCHEME}{self}")
    }

    /// The blob that a reference names; nothing but a whole reference will do.
    pub fn from_reference(text: &str) -> Result<Self, NotABlobId> {
        text.strip_prefix(SCHEME).ok_or(NotABlobId)?.parse()
    }

    fn from_digits(digits: &[u8]) -> Option<Self> {
        let digits: &[u8; DIGITS] = digits.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Self(bytes))
    }
}

/// The blobs that a line may name, in order, a blob as often as it is named.
///
/// It is meant for keeping what is named, so it takes a reference wherever one stands, whatever is around it; the line is
/// not parsed. A reference that is written with JSON escapes is not seen: whoever names a blob writes plain digits.
pub fn references(line: &[u8]) -> impl Iterator<Item = BlobId> {
    memmem::find_iter(line, SCHEME).filter_map(|at| {
        let digits = at + SCHEME.len();
        BlobId::from_digits(line.get(digits..digits + DIGITS)?)
    })
}

/// The blobs that hold the whole of what a line shortened, in order: the values of its members `fullOutput`.
///
/// The line is not parsed. Within a JSON string quotes are escaped, so these bytes stand nowhere but around a member:
/// what a text says of a blob is not taken for one that the line needs.
pub fn wholes(line: &[u8]) -> impl Iterator<Item = BlobId> {
    memmem::find_iter(line, MEMBER).filter_map(|at| {
        let rest = line[at + MEMBER.len()..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = rest.strip_prefix(b"\"")?.strip_prefix(SCHEME.as_bytes())?;
        if digits.get(DIGITS) != Some(&b'"') {
            return None;
        }
        BlobId::from_digits(digits.get(..DIGITS)?)
    })
}

/// The blobs that a stretch of a log may name, as [`references`] finds them; a line of any length is looked at.
pub fn each_reference(log: &Reader, from: Position, to: Position, mut each: impl FnMut(BlobId)) -> LogResult<()> {
    // What stands across two buffers is found in the end of one and the beginning of the next.
    const ACROSS: usize = SCHEME.len() + DIGITS - 1;
    let mut across = Vec::with_capacity(2 * ACROSS);
    log.each_chunk(from, to, |bytes| {
        across.extend_from_slice(&bytes[..bytes.len().min(ACROSS)]);
        references(&across).for_each(&mut each);
        references(bytes).for_each(&mut each);
        if bytes.len() >= ACROSS {
            across.clear();
            across.extend_from_slice(&bytes[bytes.len() - ACROSS..]);
        } else {
            across.drain(..across.len().saturating_sub(ACROSS));
        }
        Ok(())
    })
}

/// The value of a digit. Upper case would be a second name for the same blob.
fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl FromStr for BlobId {
    type Err = NotABlobId;

    fn from_str(digits: &str) -> Result<Self, NotABlobId> {
        Self::from_digits(digits.as_bytes()).ok_or(NotABlobId)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn abc() -> BlobId {
        BlobId::of(Sha256::new_with_prefix("abc"))
    }

    #[test]
    fn a_name_is_the_sha256_of_the_bytes_in_lower_case() {
        assert_eq!(abc().to_string(), ABC);
        assert_eq!(ABC.parse::<BlobId>().unwrap(), abc());
        assert_eq!(BlobId::from_reference(&abc().reference()).unwrap(), abc());
    }

    #[test]
    fn nothing_but_a_whole_reference_is_one() {
        let upper = ABC.to_uppercase();
        for digits in ["", &ABC[1..], &format!("{ABC}0"), &upper, &format!("../{}", &ABC[3..]), &"g".repeat(64)] {
            assert!(digits.parse::<BlobId>().is_err(), "{digits}");
            assert!(BlobId::from_reference(&format!("blob:{digits}")).is_err(), "{digits}");
        }
        for text in [ABC.to_owned(), format!("Blob:{ABC}"), format!(" blob:{ABC}"), format!("blob:{ABC}\n")] {
            assert!(BlobId::from_reference(&text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn references_are_found_wherever_they_stand() {
        let line =
            format!(r#"{{"a":"blob:{ABC}","b":["blob:","blob:blob:{ABC}","xblob:{ABC}0"],"c":"blob:{}"}}"#, &ABC[1..]);
        assert_eq!(references(line.as_bytes()).collect::<Vec<_>>(), [abc(); 3]);
        assert_eq!(references(format!("blob:{}", &ABC[..63]).as_bytes()).count(), 0);
        assert_eq!(references(b"").count(), 0);
    }

    #[test]
    fn only_a_member_says_where_the_whole_is() {
        let whole = |line: &str| wholes(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            whole(&format!(r#"{{"a":[{{"fullOutput":"blob:{ABC}"}}],"fullOutput" : "blob:{ABC}"}}"#)),
            [abc(); 2]
        );
        for other in [
            format!(r#"{{"text":"\"fullOutput\":\"blob:{ABC}\""}}"#),
            format!(r#"{{"full":"blob:{ABC}"}}"#),
            format!(r#"{{"fullOutput":"blob:{ABC}0"}}"#),
            format!(r#"{{"fullOutput":"{ABC}"}}"#),
            format!(r#"{{"fullOutput":"blob:{ABC}"#),
            r#"{"fullOutput""#.to_owned(),
        ] {
            assert_eq!(whole(&other), [], "{other}");
        }
    }
}
