//! From names that people choose to names of files: nothing a name says can lead out of its folder.

use std::path::{Path, PathBuf};

use crate::limits::{FILE_STEM_CHARS_MAX, NAME_BYTES_MAX};

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// Nothing to call it by.
    #[error("a {0} cannot be empty")]
    Empty(&'static str),
    /// Too long to keep in a row.
    #[error("a {what} can be {NAME_BYTES_MAX} bytes long, and this one is {bytes}")]
    TooLong {
        /// What was named.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A character that would garble every list it is shown in.
    #[error("a {0} cannot hold NUL or other control characters")]
    Control(&'static str),
}

/// The folder of sessions that have neither a working directory nor a user.
pub const THREADS: &str = "threads";

/// Checks a name as people give it: for a session, a user, a thread.
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

/// The file or folder name for a user, a session name or a thread: every character outside `[a-zA-Z0-9_-]` is `_`.
///
/// Different names may come out alike; [`with_suffix`] tells them apart.
pub fn sanitize(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    fit(name.chars().map(safe).collect(), name)
}

/// The folder name for a working directory, by Claude's rule: every character outside `[A-Za-z0-9]` is `-`.
pub fn project_slug(real_path: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    fit(real_path.chars().map(safe).collect(), real_path)
}

/// The same file name with a short hash of the name it was made from, for when the plain one is taken.
pub fn with_suffix(stem: &str, name: &str) -> String {
    format!("{stem}-{}", short_hash(name))
}

/// Whether Windows gives a file of this name a meaning of its own; such a stem always gets its suffix.
fn is_reserved(stem: &str) -> bool {
    const DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];
    let upper = stem.to_ascii_uppercase();
    let numbered =
        |prefix| upper.strip_prefix(prefix).is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit());
    DEVICES.contains(&upper.as_str()) || numbered("COM") || numbered("LPT")
}

fn fit(mut stem: String, name: &str) -> String {
    if stem.len() > FILE_STEM_CHARS_MAX {
        // Only ASCII is left by now, so any byte is a character boundary.
        stem.truncate(FILE_STEM_CHARS_MAX);
        return with_suffix(&stem, name);
    }
    if is_reserved(&stem) {
        return with_suffix(&stem, name);
    }
    stem
}

/// Eight hex digits of FNV-1a. It tells names apart in a folder; it protects nothing.
fn short_hash(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// The path of a file beside another, with the other's name and this suffix: `state.db` and `-wal` give `state.db-wal`.
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
