//! Finds the programs of a PostgreSQL that is new enough.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};

/// The oldest supported major version.
pub(super) const OLDEST: u32 = 15;

/// Debian's directory of programs, with a subdirectory per major version, not on the PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A directory with `initdb`, `postgres` and `psql` of one version.
#[derive(Clone, Debug)]
pub(super) struct Binaries(PathBuf);

impl Binaries {
    /// Returns Debian's newest version, or else the first on the PATH.
    pub(super) fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> =
            debian(Path::new(DEBIAN)).into_iter().chain(std::env::split_paths(&path)).collect();
        Self::among(&directories)
    }

    fn among(directories: &[PathBuf]) -> Result<Self> {
        let mut old = Vec::new();
        for found in directories.iter().map(|directory| Self(directory.clone())).filter(Self::is_complete) {
            match major(&found.postgres()) {
                Some(version) if version >= OLDEST => return Ok(found),
                Some(version) => old.push(format!("{version} in {}", found.0.display())),
                None => {}
            }
        }
        Err(Error::NotInstalled { found: if old.is_empty() { "found none".to_owned() } else { old.join(", ") } })
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.0.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.0.join("postgres")
    }

    pub(super) fn psql(&self) -> PathBuf {
        self.0.join("psql")
    }

    fn is_complete(&self) -> bool {
        [self.initdb(), self.postgres(), self.psql()].iter().all(|program| program.is_file())
    }
}

/// Returns the directories under Debian's, newest version first.
fn debian(root: &Path) -> Vec<PathBuf> {
    let entries = root.read_dir().into_iter().flatten().flatten();
    let mut versions: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| root.join(version.to_string()).join("bin")).collect()
}

/// Returns the major version that a server reports: `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn major(postgres: &Path) -> Option<u32> {
    let output = Command::new(postgres).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let digits: String = version.split_once("(PostgreSQL) ")?.1.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn install(root: &Path, version: u32) -> PathBuf {
        let bin = root.join(version.to_string()).join("bin");
        std::fs::create_dir_all(&bin).expect("a directory");
        for program in ["initdb", "postgres", "psql"] {
            let path = bin.join(program);
            std::fs::write(&path, format!("#!/bin/sh\necho \"{program} (PostgreSQL) {version}.4 (Debian)\"\n"))
                .expect("a program");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        bin
    }

    #[test]
    fn the_newest_version_is_used() {
        let root = tempfile::tempdir().expect("a directory");
        for version in [9, 15, 100, 16] {
            install(root.path(), version);
        }
        let found = Binaries::among(&debian(root.path())).expect("binaries");
        assert_eq!(found.psql(), root.path().join("100/bin/psql"));
    }

    #[test]
    fn an_old_version_is_refused_with_its_number() {
        let root = tempfile::tempdir().expect("a directory");
        let bin = install(root.path(), 14);
        let error = Binaries::among(&[PathBuf::from("/nowhere"), bin]).expect_err("too old").to_string();
        assert!(error.contains("14 in ") && error.contains("apt-get install postgresql"), "{error}");
    }
}
