//! Servers whose disk is small, and can be made full for real.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};

/// The tablespace that lies on the small disk.
pub(super) const TABLESPACE: &str = "small";
const BALLAST: &str = "ballast";
/// PostgreSQL writes pages of this size.
const PAGE_BYTES: u64 = 8192;

/// What of a server is small, and so what its clients see when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallDisk {
    /// Every database of [`Access::create_database`](super::Access::create_database) lies on a disk of so many bytes; the
    /// server's log of writes does not. Statements fail with 53100, and the server runs on. An empty database takes
    /// about 8 MB. Needs the right to mount.
    Tables(u64),
    /// All that the server writes lies on a disk of so many bytes, at least 48 MB. A table that grows fails with 53100.
    /// When a checkpoint or the log of writes finds no room the server panics: every connection is lost, and what comes
    /// up again may be unable to serve until there is room and somebody restarts it. Needs the right to mount.
    Everything(u64),
    /// No file may grow beyond about so many bytes, at least 2 MB: a table that does fails with 53100, and the server
    /// runs on. This is a limit of the process, not a full disk, and needs no right.
    EachFile(u64),
}

impl SmallDisk {
    /// The limit for [`SmallDisk::EachFile`]: not whole pages, so that the last write is short and not refused. Only a
    /// short write is a full disk to PostgreSQL.
    pub(super) fn file_limit(self) -> Option<u64> {
        match self {
            Self::EachFile(bytes) => Some(bytes / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES / 8),
            Self::Tables(_) | Self::Everything(_) => None,
        }
    }

    /// The directory under a server's root that is a disk of its own, and its size.
    pub(super) fn disk(self, root: &Path) -> Option<(PathBuf, u64)> {
        match self {
            Self::Tables(bytes) => Some((root.join("tables"), bytes)),
            Self::Everything(bytes) => Some((root.join("data"), bytes)),
            Self::EachFile(_) => None,
        }
    }
}

/// Puts a file system of `bytes` on `directory`, as a directory that only `owner` may enter.
pub(super) fn mount(directory: &Path, bytes: u64, (uid, gid): (u32, u32)) -> Result<()> {
    let options = format!("size={bytes},mode=700,uid={uid},gid={gid}");
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &options, "duolog-small-disk"]).arg(directory);
    let output = command.output().map_err(|cause| Error::program("mount", &cause))?;
    if output.status.success() { Ok(()) } else { Err(Error::failed("mount (be root, or have CAP_SYS_ADMIN)", &output)) }
}

/// Takes off whatever [`mount`] put on the directories of a server.
pub(super) fn unmount(root: &Path) {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    for directory in [root.join("tables"), root.join("data")] {
        if device(&directory).is_some_and(|found| Some(found) != device(root)) {
            // Lazily: a process that is just dying may still stand in it.
            let _ = Command::new("umount").arg("-l").arg(&directory).output();
        }
    }
}

/// Writes a file until the disk takes no more.
pub(super) fn fill(directory: &Path) -> Result<()> {
    let path = directory.join(BALLAST);
    let mut file =
        File::options().create(true).append(true).open(&path).map_err(|cause| Error::io("open", &path, cause))?;
    let block = [0; 4096];
    loop {
        match file.write_all(&block) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::StorageFull => return Ok(()),
            Err(cause) => return Err(Error::io("fill the disk with", &path, cause)),
        }
    }
}

/// Removes what [`fill`] wrote.
pub(super) fn free(directory: &Path) -> Result<()> {
    let path = directory.join(BALLAST);
    std::fs::remove_file(&path).map_err(|cause| Error::io("remove", &path, cause))
}
