//! The numbered steps that make a schema current, and which versions may be written and read (I8).
//!
//! Steps only add, but for indexes and rows that move to another table. Each has a text for either engine, side by side, and a test holds the two schemas equal.

use crate::error::{Error, Result};

/// What `schema_meta` calls us.
pub(crate) const LINEAGE: &str = "duolog";

/// One step, as each engine takes it.
pub(crate) struct Step {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

macro_rules! step {
    ($name:literal) => {
        Step {
            sqlite: include_str!(concat!("../sql/migrations/", $name, "/sqlite.sql")),
            postgres: include_str!(concat!("../sql/migrations/", $name, "/postgres.sql")),
        }
    };
}

/// Step `n` of the list makes version `n + 1`.
const STEPS: &[Step] = &[
    step!("0001_foundation"),
    step!("0002_transitions"),
    step!("0003_usage"),
    step!("0004_seal_blocks"),
    step!("0005_conversations"),
    step!("0006_switches"),
    step!("0007_session_items"),
    step!("0008_embeddings"),
    step!("0009_runs"),
    step!("0010_outbox_lines"),
    step!("0011_packs"),
    step!("0012_lists"),
    step!("0013_pool_segments"),
    step!("0014_promise"),
    step!("0015_unlink_due"),
    step!("0016_chats_by_creation"),
    step!("0017_mailboxes"),
];

/// The version this program works with.
pub fn known_version() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// The steps that a database of this version lacks.
pub(crate) fn steps_after(found: u32) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX))
}

/// Whether a database of this version may be written, or migrated where that is allowed.
pub(crate) fn may_write(found: u32, may_migrate: bool) -> Result<()> {
    let known = known_version();
    match found {
        _ if found > known => Err(Error::Newer { found, known }),
        _ if found < known && !may_migrate => Err(Error::NeedsMigration { found, known }),
        _ => Ok(()),
    }
}

/// Whether a database of this version may be read. A newer one may: migrations only add.
pub(crate) fn may_read(found: u32) -> Result<()> {
    let known = known_version();
    if found < known { Err(Error::NeedsMigration { found, known }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_only_add() {
        for step in STEPS.iter().flat_map(|step| [step.sqlite, step.postgres]) {
            let words = step.to_ascii_uppercase();
            let plain: String = words.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
            // Indexes hold nothing, and these rows were copied by the same step.
            let plain = plain.replace("DROP INDEX ", "").replace("DELETE FROM INBOX", "");
            for word in ["DROP", "RENAME", "DELETE FROM", "UPDATE "] {
                assert!(!plain.contains(word), "{word}");
            }
        }
    }
}
