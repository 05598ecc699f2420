//! Names chosen by people, and file names made from them, which never leave their directory.

use std::path::{Path, PathBuf};

use crate::limits::{FILE_STEM_CHARS_MAX, NAME_BYTES_MAX};

/// The error of an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The name is empty.
    #[error("a {0} cannot be empty")]
    Empty(&'static str),
    /// The name is too long.
    #[error("a {what} has at most {NAME_BYTES_MAX} bytes; this one has {bytes}")]
    TooLong {
        /// The kind of name.
        what: &'static str,
        /// The length in bytes.
        bytes: usize,
    },
    /// The name has a control character.
    #[error("a {0} cannot contain control characters")]
    Control(&'static str),
}

/// The directory of sessions without a working directory and a user.
pub const THREADS: &str = "threads";

/// Checks the name of a session, a user or a thread.
pub fn check_name(what: &'static str, name: &str) -> Result<(), BadName> {
    if name.trim().is_empty() {
        return Err(BadName::Empty(what));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(BadName::TooLong { what, bytes: name.len() });
    }
    if name.chars().any(char::is_control) {
        return Err(BadName::Control(what));
    }
    Ok(())
}

/// Returns the file or directory name for a name: every character outside `[a-zA-Z0-9_-]` becomes `_`.
///
/// Different names may have the same result; [`with_suffix`] makes them unique.
pub fn sanitize(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    fit(name.chars().map(safe).collect(), name)
}

/// Returns the directory name for a working directory, by Claude's rule: every character outside `[A-Za-z0-9]` becomes `-`.
pub fn project_slug(real_path: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    fit(real_path.chars().map(safe).collect(), real_path)
}

/// Returns the file name for a name with a short hash of the name, for use when the plain file name is taken.
pub fn with_suffix(stem: &str, name: &str) -> String {
    format!("{stem}-{}", short_hash(name))
}

/// Returns true if the name is reserved on Windows; such a stem always gets its suffix.
fn is_reserved(stem: &str) -> bool {
    const DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];
    let upper = stem.to_ascii_uppercase();
    let numbered =
        |prefix| upper.strip_prefix(prefix).is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit());
    DEVICES.contains(&upper.as_str()) || numbered("COM") || numbered("LPT")
}

fn fit(mut stem: String, name: &str) -> String {
    if stem.len() > FILE_STEM_CHARS_MAX {
        // The text is ASCII here, so any byte is a character boundary.
        stem.truncate(FILE_STEM_CHARS_MAX);
        return with_suffix(&stem, name);
    }
    if is_reserved(&stem) {
        return with_suffix(&stem, name);
    }
    stem
}

/// Returns eight hex digits of FNV-1a. It makes names unique in a directory; it is not cryptographic.
fn short_hash(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// Returns a path with a suffix added to the file name: `state.db` and `-wal` give `state.db-wal`.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_safe_segments() {
        assert_eq!(sanitize("john@example.com"), "john_example_com");
        assert_eq!(sanitize("../x"), "___x");
        assert_eq!(sanitize("a/b"), "a_b");
        assert_eq!(sanitize("日本"), "__");
        assert_eq!(project_slug("/home/agent/workspace"), "-home-agent-workspace");
        assert_eq!(project_slug("/a_b.c d"), "-a-b-c-d");
    }

    #[test]
    fn device_names_and_long_names_get_a_suffix() {
        assert!(sanitize("CON").starts_with("CON-"));
        assert!(sanitize("lpt1").starts_with("lpt1-"));
        assert_eq!(sanitize("console"), "console");
        let long = "x".repeat(300);
        assert_eq!(sanitize(&long).len(), FILE_STEM_CHARS_MAX + 9);
        assert_ne!(sanitize(&long), sanitize(&"x".repeat(301)));
    }

    #[test]
    fn names_that_cannot_be_shown_or_kept_are_refused() {
        assert!(matches!(check_name("thread", " "), Err(BadName::Empty(_))));
        assert!(matches!(check_name("thread", "a\0b"), Err(BadName::Control(_))));
        assert!(matches!(check_name("thread", "a\nb"), Err(BadName::Control(_))));
        assert!(matches!(check_name("thread", &"x".repeat(1025)), Err(BadName::TooLong { .. })));
        assert!(check_name("thread", "../x").is_ok(), "it is only a name; sanitize makes the path");
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_folder(name in ".{0,400}") {
            for made in [sanitize(&name), project_slug(&name), with_suffix(&sanitize(&name), &name)] {
                prop_assert!(made.len() <= FILE_STEM_CHARS_MAX + 18);
                prop_assert!(made.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert!(!is_reserved(&made));
            }
        }
    }
}
