//! The fold of a log has the same result however often it stopped, and stays within its limits.

use duolog_log::dialect::digest::Digest;
use duolog_types::limits::{DIGEST_BYTES_MAX, MODEL_BYTES_MAX, TITLE_BYTES_MAX};

use super::{choice, lines_in};

pub(super) fn target(input: &[u8]) {
    let lines = lines_in(input);
    let whole = folded(Digest::default(), &lines);
    let (first, second) = lines.split_at(choice(input, 1) % (lines.len() + 1));
    let stopped = folded(Digest::default(), first).to_bytes();
    assert!(stopped.len() <= DIGEST_BYTES_MAX);
    let resumed = folded(Digest::from_bytes(&stopped).expect("reads back"), second);
    assert_eq!(resumed.dialect(), whole.dialect());
    assert_eq!((resumed.title(), resumed.model()), (whole.title(), whole.model()));
    assert_eq!(resumed.to_bytes(), whole.to_bytes(), "resumed after {} lines", first.len());
    assert!(whole.title().is_none_or(|title| title.len() <= TITLE_BYTES_MAX));
    assert!(whole.model().is_none_or(|model| model.len() <= MODEL_BYTES_MAX));
    // Arbitrary bytes are refused or read without a panic.
    if let Some(digest) = Digest::from_bytes(input) {
        let _ = (digest.moves(), digest.to_bytes());
    }
}

fn folded(mut digest: Digest, lines: &[&[u8]]) -> Digest {
    for line in lines {
        digest.line(line);
    }
    digest
}
