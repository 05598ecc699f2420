//! The migration steps of the schema, and the versions that may be read and written (I8).
//!
//! Steps only add. Each has one text per engine, and a test compares the two schemas.

use crate::error::{Error, Result};

/// The lineage in `schema_meta`.
pub(crate) const LINEAGE: &str = "duolog";

/// The version after the first step. Lower versions are development schemas, which cannot be opened.
pub(crate) const FIRST_VERSION: u32 = 100;

/// One migration step: a text per engine.
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

/// Step `n` of the list migrates to version `FIRST_VERSION + n`.
const STEPS: &[Step] = &[step!("0001_foundation")];

/// Returns the schema version of this program.
pub fn known_version() -> u32 {
    FIRST_VERSION + u32::try_from(STEPS.len()).unwrap_or(u32::MAX - FIRST_VERSION) - 1
}

/// Returns the steps that a database of this version lacks, each with its version.
pub(crate) fn steps_after(found: u32) -> impl Iterator<Item = (u32, &'static Step)> {
    (FIRST_VERSION..).zip(STEPS).skip_while(move |(version, _)| *version <= found)
}

/// Returns the version of a Duolog database, or an error if it is a development schema.
pub(crate) fn check_found(found: u32, place: &str) -> Result<u32> {
    if found < FIRST_VERSION { Err(Error::Development { place: place.to_owned(), found }) } else { Ok(found) }
}

/// Returns an error if a database of this version must not be written, or needs a migration that is not allowed.
pub(crate) fn may_write(found: u32, may_migrate: bool) -> Result<()> {
    let known = known_version();
    match found {
        _ if found > known => Err(Error::Newer { found, known }),
        _ if found < known && !may_migrate => Err(Error::NeedsMigration { found, known }),
        _ => Ok(()),
    }
}

/// Returns an error if a database of this version is too old to read. A newer one can be read: migrations only add.
pub(crate) fn may_read(found: u32) -> Result<()> {
    let known = known_version();
    if found < known { Err(Error::NeedsMigration { found, known }) } else { Ok(()) }
}

/// Removes comments and indentation from a step. SQLite stores the text of each `CREATE` and parses it at every open.
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
