//! The room to work in: a directory on a real file system, and how large a run is.

use std::path::{Path, PathBuf};
use std::process::Command;

use duolog::sessions::Session;
use duolog::{Home, Store, StoreOptions};
use tempfile::TempDir;

/// One run.
pub struct Bench {
    /// Small, once, and no time is judged.
    pub smoke: bool,
    /// The file system it is on.
    pub file_system: String,
    room: TempDir,
    binary: Option<PathBuf>,
}

impl Bench {
    /// Makes a directory for this run in `dir`; it goes when the run ends.
    pub fn new(smoke: bool, dir: Option<&Path>, binary: Option<PathBuf>) -> Result<Self, String> {
        let beside = std::env::current_exe().map_err(|error| format!("this program is nowhere: {error}"))?;
        let dir = dir.or(beside.parent()).unwrap_or(Path::new("."));
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
        let file_system = duolog_state::file_system_of(dir).map_err(|error| told(&error))?.name;
        if matches!(file_system.as_str(), "tmpfs" | "ramfs") {
            return Err(told(&format!("it is on {file_system}, where a sync costs nothing; name another with --dir")));
        }
        if let Some(binary) = binary.as_ref().filter(|binary| !binary.is_file()) {
            return Err(format!("{} is not a file", binary.display()));
        }
        let room = tempfile::Builder::new().prefix("duolog-bench-").tempdir_in(dir).map_err(|error| told(&error))?;
        Ok(Self { smoke, file_system, room, binary })
    }

    /// Where it works.
    pub fn path(&self) -> &Path {
        self.room.path()
    }

    /// A directory for one workload, gone when that is done.
    pub fn room(&self) -> TempDir {
        tempfile::tempdir_in(self.path()).expect("a directory")
    }

    /// How many, or how large: in full, or for smoke.
    pub fn size<N>(&self, full: N, small: N) -> N {
        if self.smoke { small } else { full }
    }

    /// The `duolog` command: the one that was named, or the one beside this program, built first if cargo started us.
    pub fn command(&self) -> Option<PathBuf> {
        if self.binary.is_some() {
            return self.binary.clone();
        }
        let here = std::env::current_exe().expect("this program");
        // A test's program is one folder down.
        let beside = here.ancestors().skip(1).take(2).map(|at| at.join("duolog"));
        let found = || beside.clone().find(|path| path.is_file());
        if let Some(cargo) = std::env::var_os("CARGO").filter(|_| !self.smoke || found().is_none()) {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "-p", "duolog-cli"]).current_dir(env!("CARGO_MANIFEST_DIR"));
            if PROFILE == "release" {
                build.arg("--release");
            }
            if let Some(target) = here.ancestors().find(|at| at.join("CACHEDIR.TAG").is_file()) {
                build.env("CARGO_TARGET_DIR", target);
            }
            assert!(build.status().expect("cargo starts").success(), "duolog-cli does not build");
        }
        found()
    }
}

/// How this program was built.
pub const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

/// A store in a directory of its own, with one session and no thread beside it.
pub fn store_in(directory: &Path) -> (Store, Session) {
    let store = Store::open(options_in(directory).one_shot()).expect("a store");
    let session = store.sessions().open_thread("bench").expect("a session");
    (store, session)
}

/// How to open the store of a directory.
pub fn options_in(directory: &Path) -> StoreOptions {
    StoreOptions::at(Home::beneath(&directory.join("home")))
}

/// The file of a session's log.
pub fn log_file(store: &Store, session: &Session) -> PathBuf {
    store.home().state.join(&session.log_path)
}
