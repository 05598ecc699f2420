//! The numbered steps of the schema, and which versions may be written and read (I8).
//!
//! Steps only add. Each has a text for either engine, side by side, and a test compares the two schemas.

use crate::error::{Error, Result};

/// The lineage in `schema_meta`.
pub(crate) const LINEAGE: &str = "duolog";

/// The version that the first step makes. Lower numbers are those of development schemas, which cannot be opened.
pub(crate) const FIRST_VERSION: u32 = 100;

/// One step, as each engine takes it.
pub(crate) struct Step {
    pub(crate) sqlite: &'static str,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no server is migrated"))]
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

/// Step `n` of the list makes version `FIRST_VERSION + n`.
const STEPS: &[Step] = &[step!("0001_foundation")];

/// The version this program works with.
pub fn known_version() -> u32 {
    FIRST_VERSION + u32::try_from(STEPS.len()).unwrap_or(u32::MAX - FIRST_VERSION) - 1
}

/// The steps that a database of this version lacks, each with the version it makes.
pub(crate) fn steps_after(found: u32) -> impl Iterator<Item = (u32, &'static Step)> {
    (FIRST_VERSION..).zip(STEPS).skip_while(move |(version, _)| *version <= found)
}

/// Checks the version that a database of ours has. Returns an error if it is that of a development schema.
pub(crate) fn check_found(found: u32, place: &str) -> Result<u32> {
    if found < FIRST_VERSION { Err(Error::Development { place: place.to_owned(), found }) } else { Ok(found) }
}

/// Returns an error if a database of this version may not be written, or not be migrated and must be.
pub(crate) fn may_write(found: u32, may_migrate: bool) -> Result<()> {
    let known = known_version();
    match found {
        _ if found > known => Err(Error::Newer { found, known }),
        _ if found < known && !may_migrate => Err(Error::NeedsMigration { found, known }),
        _ => Ok(()),
    }
}

/// Returns an error if a database of this version may not be read. A newer one may: migrations only add.
pub(crate) fn may_read(found: u32) -> Result<()> {
    let known = known_version();
    if found < known { Err(Error::NeedsMigration { found, known }) } else { Ok(()) }
}

/// Removes comments and indentation from a step. SQLite stores the text of each `CREATE` and parses it at every opening.
pub(crate) fn compact(step: &str) -> String {
    let lines = step.lines().map(|line| line.split("--").next().unwrap_or(""));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_only_add() {
        for step in STEPS.iter().flat_map(|step| [step.sqlite, step.postgres]) {
            let plain = compact(step).to_ascii_uppercase();
            for word in ["DROP", "RENAME", "DELETE FROM", "UPDATE "] {
                assert!(!plain.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn a_step_is_stored_without_comments_and_indentation() {
        let step = "-- why\nCREATE TABLE a (\n    b TEXT CHECK (\n        b IN ('x', 'y')), -- what\n    c  TEXT\n);\n";
        assert_eq!(compact(step), "CREATE TABLE a (b TEXT CHECK (b IN ('x', 'y')), c TEXT);");
    }

    #[test]
    fn every_missing_step_comes_with_its_version() {
        assert_eq!(steps_after(0).map(|(version, _)| version).last(), Some(known_version()));
        assert_eq!(steps_after(known_version()).count(), 0);
        assert_eq!(steps_after(0).count(), STEPS.len());
    }
}
