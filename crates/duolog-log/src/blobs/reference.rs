//! The id of a blob: `blob:` and 64 hexadecimal digits, never a path.

use std::fmt;
use std::str::FromStr;

use duolog_types::Position;
use memchr::memmem;
use sha2::{Digest as _, Sha256};

use crate::error::Result as LogResult;
use crate::reader::Reader;

/// The prefix of a reference.
const SCHEME: &str = "blob:";
/// The member of a line that names the full text of a shortened one.
const MEMBER: &str = "\"fullOutput\"";
/// Number of digits of an id.
const DIGITS: usize = 64;

/// The id of a blob: the SHA-256 of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

/// The error for text that is not a blob id.
#[derive(Debug, thiserror::Error)]
#[error("not a blob id: expected 64 lower-case hexadecimal digits, in a line with \"blob:\" before them")]
pub struct NotABlobId;

impl BlobId {
    pub(super) fn of(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Returns the id of a blob with this content.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(super) fn first_byte(&self) -> u8 {
        self.0[0]
    }

    /// Returns the text that names the blob in a line.
    pub fn reference(&self) -> String {
        format!("{SCHEME}{self}")
    }

    /// Parses a reference; the text must be a reference and nothing else.
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

/// Returns the blobs that a line may name, in order and with repetitions.
///
/// For deciding which blobs to keep, so it accepts a reference anywhere in the line; the line is not parsed. A
/// reference with JSON escapes is not found: a writer must write plain digits.
pub fn references(line: &[u8]) -> impl Iterator<Item = BlobId> {
    memmem::find_iter(line, SCHEME).filter_map(|at| {
        let digits = at + SCHEME.len();
        BlobId::from_digits(line.get(digits..digits + DIGITS)?)
    })
}

/// Returns the blobs with the full text of what a line shortened, in order: the values of its members `fullOutput`.
///
/// The line is not parsed. Quotes are escaped within a JSON string, so these bytes occur only at a member: a text that
/// mentions a blob does not count.
pub fn full_outputs(line: &[u8]) -> impl Iterator<Item = BlobId> {
    memmem::find_iter(line, MEMBER).filter_map(|at| {
        let rest = line[at + MEMBER.len()..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = rest.strip_prefix(b"\"")?.strip_prefix(SCHEME.as_bytes())?;
        if digits.get(DIGITS) != Some(&b'"') {
            return None;
        }
        BlobId::from_digits(digits.get(..DIGITS)?)
    })
}

/// Calls `each` with the blobs that a range of a log may name, as [`references`] finds them, in lines of any length.
pub fn each_reference(log: &Reader, from: Position, to: Position, mut each: impl FnMut(BlobId)) -> LogResult<()> {
    // A reference across two chunks is found in the end of one and the beginning of the next.
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

/// Returns the value of a digit. Upper case is refused: it would be a second name of the same blob.
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
    fn an_id_is_the_sha256_of_the_content_in_lower_case() {
        assert_eq!(abc().to_string(), ABC);
        assert_eq!(ABC.parse::<BlobId>().unwrap(), abc());
        assert_eq!(BlobId::from_reference(&abc().reference()).unwrap(), abc());
    }

    #[test]
    fn only_a_complete_reference_is_accepted() {
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
    fn references_are_found_anywhere_in_a_line() {
        let line =
            format!(r#"{{"a":"blob:{ABC}","b":["blob:","blob:blob:{ABC}","xblob:{ABC}0"],"c":"blob:{}"}}"#, &ABC[1..]);
        assert_eq!(references(line.as_bytes()).collect::<Vec<_>>(), [abc(); 3]);
        assert_eq!(references(format!("blob:{}", &ABC[..63]).as_bytes()).count(), 0);
        assert_eq!(references(b"").count(), 0);
    }

    #[test]
    fn only_a_member_names_the_full_output() {
        let found = |line: &str| full_outputs(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            found(&format!(r#"{{"a":[{{"fullOutput":"blob:{ABC}"}}],"fullOutput" : "blob:{ABC}"}}"#)),
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
            assert_eq!(found(&other), [], "{other}");
        }
    }
}
