//! Servers with a small disk, which can be filled.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};

/// The tablespace on the small disk.
pub(super) const TABLESPACE: &str = "small";
const BALLAST: &str = "ballast";
/// PostgreSQL's page size.
const PAGE_BYTES: u64 = 8192;

/// The part of a server that is small, which decides what clients see when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallDisk {
    /// Every database of [`Access::create_database`](super::Access::create_database) is on a disk of this size; the
    /// server's write-ahead log is not. Statements fail with 53100, and the server keeps running. An empty database
    /// takes about 8 MB. Needs the permission to mount.
    Tables(u64),
    /// Everything that the server writes is on a disk of this size, at least 48 MB. A table that grows fails with
    /// 53100. If a checkpoint or the write-ahead log finds no space, the server panics: all connections are lost, and
    /// the server may need free space and a restart before it works again. Needs the permission to mount.
    Everything(u64),
    /// No file may grow beyond about this size, at least 2 MB: a table that does fails with 53100, and the server keeps
    /// running. This is a limit of the process, not a full disk, and needs no permission.
    EachFile(u64),
}

impl SmallDisk {
    /// Returns the limit for [`SmallDisk::EachFile`]: not a multiple of the page size, so that the last write is short
    /// instead of refused. PostgreSQL reports only a short write as a full disk.
    pub(super) fn file_limit(self) -> Option<u64> {
        match self {
            Self::EachFile(bytes) => Some(bytes / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES / 8),
            Self::Tables(_) | Self::Everything(_) => None,
        }
    }

    /// Returns the directory under a server's root that is a separate disk, and its size.
    pub(super) fn disk(self, root: &Path) -> Option<(PathBuf, u64)> {
        match self {
            Self::Tables(bytes) => Some((root.join("tables"), bytes)),
            Self::Everything(bytes) => Some((root.join("data"), bytes)),
            Self::EachFile(_) => None,
        }
    }
}

/// Mounts a file system of `bytes` on `directory`, which only `owner` may enter.
pub(super) fn mount(directory: &Path, bytes: u64, (uid, gid): (u32, u32)) -> Result<()> {
    let options = format!("size={bytes},mode=700,uid={uid},gid={gid}");
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &options, "duolog-small-disk"]).arg(directory);
    let output = command.output().map_err(|cause| Error::program("mount", &cause))?;
    if output.status.success() { Ok(()) } else { Err(Error::failed("mount (needs root or CAP_SYS_ADMIN)", &output)) }
}

/// Unmounts the file systems of a server.
pub(super) fn unmount(root: &Path) {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    for directory in [root.join("tables"), root.join("data")] {
        if device(&directory).is_some_and(|found| Some(found) != device(root)) {
            // Lazily: a process that is about to end may still use it.
            let _ = Command::new("umount").arg("-l").arg(&directory).output();
        }
    }
}

/// Writes a file until the disk is full.
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

/// Removes the file of [`fill`].
pub(super) fn free(directory: &Path) -> Result<()> {
    let path = directory.join(BALLAST);
    std::fs::remove_file(&path).map_err(|cause| Error::io("remove", &path, cause))
}
