//! The environment of a run: its directory and its size.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duolog::sessions::Session;
use duolog::{Home, Store, StoreOptions};
use tempfile::TempDir;

/// The environment of a run.
pub struct Bench {
    /// Small, once, and without verdicts about times.
    pub smoke: bool,
    /// The file system of its directory.
    pub file_system: String,
    directory: TempDir,
    binary: PathBuf,
}

impl Bench {
    /// Creates a directory in `dir` that is removed when the run ends.
    pub fn new(smoke: bool, dir: Option<&Path>, binary: Option<PathBuf>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this binary: {error}"))?;
        let dir = dir.or(program.parent()).unwrap_or(Path::new("."));
        let failed = |error: &dyn std::fmt::Display| format!("cannot work in {}: {error}", dir.display());
        let file_system = file_system(dir).map_err(|error| failed(&error))?;
        if matches!(file_system.as_str(), "tmpfs" | "ramfs") {
            return Err(failed(&format!("it is on {file_system}, where a sync costs nothing; use --dir")));
        }
        let directory =
            tempfile::Builder::new().prefix("duolog-bench-").tempdir_in(dir).map_err(|error| failed(&error))?;
        let binary = binary.unwrap_or_else(|| program.with_file_name("duolog"));
        Ok(Self { smoke, file_system, directory, binary })
    }

    /// Creates a directory, which is removed after the workload.
    pub fn new_dir(&self) -> PathBuf {
        tempfile::tempdir_in(self.directory.path()).expect("a directory").keep()
    }

    /// Removes the directories of a workload.
    pub fn clear(&self) {
        for entry in self.directory.path().read_dir().expect("a directory").flatten() {
            std::fs::remove_dir_all(entry.path()).expect("removed");
        }
    }

    /// Returns the number or size for a full run or for a smoke run.
    pub fn size<N>(&self, full: N, small: N) -> N {
        if self.smoke { small } else { full }
    }

    /// Returns the path of the `duolog` command. Returns an error if it is not built.
    pub fn duolog(&self) -> Result<PathBuf, String> {
        let is_there = self.binary.is_file();
        is_there.then(|| self.binary.clone()).ok_or_else(|| {
            format!("{} is not built: run cargo build --release -p duolog-cli, or use --binary", self.binary.display())
        })
    }
}

/// Returns an error if a program is not installed.
pub fn tool(name: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    is_there.then_some(()).ok_or_else(|| format!("{name} is not installed"))
}

/// Runs a command to its end, without output.
pub fn finish(command: &mut Command) {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    assert!(ended.success(), "{command:?}: {ended}");
}

/// The build profile of this program.
pub const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

/// Opens the store of a directory, without a background thread.
pub fn store_in(directory: &Path) -> Store {
    Store::open(options_in(directory).one_shot()).expect("a store")
}

/// Returns the options that open the store of a directory.
pub fn options_in(directory: &Path) -> StoreOptions {
    StoreOptions::at(Home::beneath(&directory.join("home")))
}

/// Returns the database of a directory's store.
pub fn database_in(directory: &Path) -> PathBuf {
    directory.join("home/state/state.db")
}

/// Returns the file of a session's log.
pub fn log_file(store: &Store, session: &Session) -> PathBuf {
    store.home().state.join(&session.log_path)
}

/// Returns the file system of a directory, by name if it is a common one.
fn file_system(dir: &Path) -> std::io::Result<String> {
    Ok(match rustix::fs::statfs(dir)?.f_type as u32 {
        0x0102_1994 => "tmpfs".to_owned(),
        0x8584_58f6 => "ramfs".to_owned(),
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("file system {other:#x}"),
    })
}
