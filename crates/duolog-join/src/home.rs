//! The directory of a home: creates it, checks it, and gives it an id.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{Disk, Files};
use duolog_types::HomeId;

/// The reason why a directory cannot be a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// It is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Other users can write files into it, which Duolog would trust.
    #[error("{} can be written by other users (mode {mode:o})", path.display())]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is no home, and none may be created.
    #[error("there is no home at {}", .0.display())]
    Missing(PathBuf),
    /// The file `home_id` does not contain a home id.
    #[error("{} does not contain a home id", .0.display())]
    BadId(PathBuf),
    /// A file operation failed.
    #[error("cannot {call} {}", path.display())]
    Io {
        /// The operation.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// A checked directory of a home.
pub struct Prepared {
    /// Its id.
    pub id: HomeId,
    /// The disk with its logs.
    pub disk: Arc<dyn Disk>,
    /// The id of the machine's boot.
    pub boot: String,
    /// The user who owns it, if it is not the user of this process.
    pub foreign_owner: Option<u32>,
}

const ID: &str = "home_id";

/// Returns true if this process may write in a directory, or create it.
pub fn may_write(state: &Path) -> bool {
    let existing = state.ancestors().find(|at| at.exists()).unwrap_or(state);
    rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Creates the directory if it does not exist (mode 0700), checks it, and gives it an id.
pub fn prepare(state: &Path) -> Result<Prepared, HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: state.to_owned(), source };
    let new: Vec<&Path> = state.ancestors().take_while(|at| !at.exists()).collect();
    match DirBuilder::new().recursive(true).mode(0o700).create(state) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) => {
            return Err(not_a_directory(state));
        }
        Err(error) => return Err(io("create")(error)),
    }
    let foreign_owner = check(state)?;
    let path = state.join(ID);
    if !path.exists() {
        make_id(state, &path).map_err(io("write the home id in"))?;
        sync_dir(state).map_err(io("sync"))?;
    }
    // Without this, a power failure can remove a new home and everything that was synced inside it.
    for created in new {
        sync_dir(created.parent().unwrap_or(Path::new("/"))).map_err(io("sync the directory of"))?;
    }
    finish(state, foreign_owner)
}

/// Checks a directory that will only be read.
pub fn prepare_read_only(state: &Path) -> Result<Prepared, HomeError> {
    if !state.exists() {
        let blocked = state.ancestors().any(|at| at.exists() && !at.is_dir());
        return Err(if blocked { not_a_directory(state) } else { HomeError::Missing(state.to_owned()) });
    }
    let foreign_owner = check(state)?;
    if !state.join(ID).exists() {
        return Err(HomeError::Missing(state.to_owned()));
    }
    finish(state, foreign_owner)
}

/// Creates an empty directory for a copy of a home, with the same id: a copy is the same home at another place.
pub fn prepare_copy(copy: &Path, of: &Path) -> Result<Prepared, HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: copy.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(copy).map_err(io("create"))?;
    if copy.read_dir().map_err(io("list"))?.next().is_some() {
        return Err(io("copy to")(io::ErrorKind::AlreadyExists.into()));
    }
    std::fs::copy(of.join(ID), copy.join(ID)).map_err(io("copy the home id to"))?;
    finish(copy, check(copy)?)
}

/// Syncs a complete copy, with one call for all its files, and renames it durably to its final name.
pub fn finish_copy(partial: &Path, copy: &Path) -> Result<(), HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: copy.to_owned(), source };
    let synced = File::open(partial).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    synced.map_err(io("sync"))?;
    std::fs::rename(partial, copy).map_err(io("rename the copy to"))?;
    copy.ancestors().skip(1).take(2).try_for_each(sync_dir).map_err(io("sync the directory of"))
}

/// Removes a failed copy, and its parent directory if that was created for it.
///
/// If it cannot be removed, it still does not open as a home, and the next copy to this place is refused.
pub fn discard_copy(partial: &Path, with_parent: bool) {
    let _ = std::fs::remove_dir_all(partial);
    if let Some(parent) = partial.parent().filter(|_| with_parent) {
        let _ = std::fs::remove_dir(parent);
    }
}

fn finish(state: &Path, foreign_owner: Option<u32>) -> Result<Prepared, HomeError> {
    let io = |call, path: &Path| {
        let path = path.to_owned();
        move |source| HomeError::Io { call, path, source }
    };
    let id = home_id(state)?;
    let disk = Arc::new(Files::beneath(state).map_err(io("open", state))?);
    // Empty if the system does not tell: then every log is compared with its checkpoint each time.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
    Ok(Prepared { id, disk, boot, foreign_owner })
}

/// Reads the id of the home in a directory.
pub(crate) fn home_id(state: &Path) -> Result<HomeId, HomeError> {
    let (path, mut text) = (state.join(ID), String::new());
    let read = OpenOptions::new().read(true).open(&path).and_then(|file| file.take(64).read_to_string(&mut text));
    read.map_err(|source| HomeError::Io { call: "read", path: path.clone(), source })?;
    text.trim().parse().map_err(|_| HomeError::BadId(path))
}

fn sync_dir(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

fn check(state: &Path) -> Result<Option<u32>, HomeError> {
    let stat = state.metadata().map_err(|source| HomeError::Io { call: "examine", path: state.to_owned(), source })?;
    if !stat.is_dir() {
        return Err(HomeError::NotADirectory(state.to_owned()));
    }
    let mode = stat.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(HomeError::OpenToOthers { path: state.to_owned(), mode });
    }
    let owner = stat.uid();
    Ok((owner != rustix::process::geteuid().as_raw()).then_some(owner))
}

/// Returns the error for the outermost path component that is not a directory.
fn not_a_directory(state: &Path) -> HomeError {
    let culprit = state.ancestors().find(|at| at.exists() && !at.is_dir()).unwrap_or(state);
    HomeError::NotADirectory(culprit.to_owned())
}

/// Writes the id to a temporary file and links it into place, so that one of several processes wins and none reads a
/// part of it.
fn make_id(state: &Path, path: &Path) -> io::Result<()> {
    let id = HomeId::new();
    let temporary = state.join(format!("{ID}.{id}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&temporary, path);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
