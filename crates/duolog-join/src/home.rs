//! The directory of a home on its way to being opened: made, checked, and named.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{Disk, Files};
use duolog_types::HomeId;

/// Why a directory cannot be a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Something else stands there.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Others could put files there, and we would trust them.
    #[error("{} can be written by other users (mode {mode:o})", path.display())]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is no home, and nothing is to be made.
    #[error("there is no home at {}", .0.display())]
    Missing(PathBuf),
    /// The file that names the home does not.
    #[error("{} does not hold a home id", .0.display())]
    BadId(PathBuf),
    /// A file operation failed.
    #[error("cannot {call} {}", path.display())]
    Io {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// A home's directory, ready to be opened.
pub struct Prepared {
    /// Its id.
    pub id: HomeId,
    /// The disk that its logs are on.
    pub disk: Arc<dyn Disk>,
    /// Which boot of the machine this is.
    pub boot: String,
    /// The user who owns it, where that is another than this process's.
    pub foreign_owner: Option<u32>,
}

const ID: &str = "home_id";

/// Whether this process may write in a directory, or make it.
pub fn may_write(state: &Path) -> bool {
    let existing = state.ancestors().find(|at| at.exists()).unwrap_or(state);
    rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Makes the directory where it is absent (for its owner only), checks it, and gives it an id.
pub fn prepare(state: &Path) -> Result<Prepared, HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: state.to_owned(), source };
    let new: Vec<&Path> = state.ancestors().take_while(|at| !at.exists()).collect();
    match DirBuilder::new().recursive(true).mode(0o700).create(state) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) => {
            return Err(not_a_directory(state));
        }
        Err(error) => return Err(io("make")(error)),
    }
    let foreign_owner = check(state)?;
    let path = state.join(ID);
    if !path.exists() {
        make_id(state, &path).map_err(io("name the home in"))?;
        sync_dir(state).map_err(io("sync"))?;
    }
    // Without this a new home can vanish after power loss, and all that was synced inside it.
    for made in new {
        sync_dir(made.parent().unwrap_or(Path::new("/"))).map_err(io("sync the directory of"))?;
    }
    finish(state, foreign_owner)
}

/// Checks a directory that is only to be read.
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

/// Makes an empty directory for a copy of a home, with the same id: it is the same home, elsewhere.
pub fn prepare_copy(copy: &Path, of: &Path) -> Result<Prepared, HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: copy.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(copy).map_err(io("make"))?;
    if copy.read_dir().map_err(io("list"))?.next().is_some() {
        return Err(io("copy to")(io::ErrorKind::AlreadyExists.into()));
    }
    std::fs::copy(of.join(ID), copy.join(ID)).map_err(io("copy the home id to"))?;
    finish(copy, check(copy)?)
}

/// Syncs a copy that is whole, in one call for all its files, and gives it the name by which it is a home, durably.
pub fn finish_copy(partial: &Path, copy: &Path) -> Result<(), HomeError> {
    let io = |call| move |source| HomeError::Io { call, path: copy.to_owned(), source };
    let synced = File::open(partial).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    synced.map_err(io("sync"))?;
    std::fs::rename(partial, copy).map_err(io("name the copy"))?;
    copy.ancestors().skip(1).take(2).try_for_each(sync_dir).map_err(io("sync the directory of"))
}

/// Removes a copy that failed, and the directory around it where that was made for it.
///
/// What cannot be removed opens as no home, and the next copy to this place is refused for it.
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
    // Empty where the system does not tell: then every log is compared with its checkpoint each time.
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

/// The outermost thing on the way that is not a directory.
fn not_a_directory(state: &Path) -> HomeError {
    let culprit = state.ancestors().find(|at| at.exists() && !at.is_dir()).unwrap_or(state);
    HomeError::NotADirectory(culprit.to_owned())
}

/// Writes the id aside and links it into place, so that of several who try one wins and nobody reads half of it.
fn make_id(state: &Path, path: &Path) -> io::Result<()> {
    let id = HomeId::new();
    let aside = state.join(format!("{ID}.{id}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&aside, path);
    std::fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
