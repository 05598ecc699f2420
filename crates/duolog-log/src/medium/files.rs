//! The real disk: files under a directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_types::contention;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fs::{Disk, DiskFile, FileKind, Ident, Lock, MODE_LOG, Open, Stat};

/// An open directory. Paths beneath it are resolved from its descriptor, and never through a link.
#[derive(Debug)]
pub struct Files {
    root: OwnedFd,
    at: PathBuf,
}

impl Files {
    /// Opens the directory at `root`, which must exist.
    pub fn beneath(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())?, at: root.to_owned() })
    }

    /// Returns the path that the directory was opened by.
    pub fn root(&self) -> &Path {
        &self.at
    }

    /// Opens a path beneath the root without following links: in one system call, if the kernel supports that.
    fn open_beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        if path.components().any(|component| !matches!(component, Component::Normal(_))) {
            return Err(outside_of_root(path));
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.root, path, flags, mode, resolve) {
            // Older kernels lack `openat2`, and some containers forbid system calls that they do not know.
            Err(Errno::NOSYS | Errno::PERM) => {
                let (parent, name) = self.parent(path)?;
                Ok(rustix::fs::openat(&parent, name, flags, mode)?)
            }
            other => Ok(other?),
        }
    }

    /// Returns the identity of the directory.
    pub(crate) fn ident(&self) -> io::Result<Ident> {
        Ok(from_raw(&rustix::fs::fstat(&self.root)?).ident)
    }

    /// Returns the metadata and the modification time of a path; `None` if nothing is there. Links are not followed.
    pub(crate) fn look(&self, path: &Path) -> io::Result<Option<(Stat, SystemTime)>> {
        if path.components().any(|component| !matches!(component, Component::Normal(_))) {
            return Err(outside_of_root(path));
        }
        match rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((from_raw(&stat), changed_at(&stat)))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(&self.root, ".", flags, Mode::empty())?;
        for component in path.components() {
            let Component::Normal(name) = component else { return Err(outside_of_root(path)) };
            at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
        }
        Ok(at)
    }

    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or_else(|| outside_of_root(path))?;
        Ok((self.directory(path.parent().unwrap_or(Path::new("")))?, name))
    }
}

fn outside_of_root(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("path {} is outside of its root directory", path.display()))
}

impl Disk for Files {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        // NONBLOCK: a pipe at the path of a log must not block its reader.
        let common = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = match how {
            Open::Read => common | OFlags::RDONLY,
            Open::Append => common | OFlags::RDWR | OFlags::APPEND,
            Open::Create => common | OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
        };
        let mode = if how == Open::Create { Mode::from_raw_mode(MODE_LOG) } else { Mode::empty() };
        Ok(Arc::new(OpenFile(File::from(self.open_beneath(path, flags, mode)?))))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        Ok(self.look(path)?.map(|(stat, _)| stat))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.directory(path)?)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        Ok(rustix::fs::renameat(&from_dir, from_name, &to_dir, to_name)?)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let directory = match self.directory(path) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            // Duolog never creates a name that is not UTF-8.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !matches!(name, "." | "..") {
                names.push((name.to_owned(), kind_of(entry.file_type())));
            }
        }
        Ok(names)
    }

    fn holder(&self, of: &Stat) -> Option<u32> {
        let device = of.ident.device;
        let read = |locks: &mut String| File::open("/proc/locks")?.read_to_string(locks);
        contention::find_holder(read, (rustix::fs::major(device), rustix::fs::minor(device)), of.ident.inode)
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        Ok(self.look(path)?.map(|(_, changed_at)| changed_at))
    }

    fn local_root(&self) -> Option<&Path> {
        Some(&self.at)
    }
}

struct OpenFile(File);

impl DiskFile for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(from_raw(&rustix::fs::fstat(self.0.as_fd())?))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        // The system call refuses an offset that no file can have; here it is after the end.
        if i64::try_from(offset).is_err() {
            return Ok(0);
        }
        self.0.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(self.0.as_fd(), bytes))?)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self.0.as_fd(), Mode::from_raw_mode(mode))?)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let taken = match lock {
            Lock::Shared => self.0.try_lock_shared(),
            Lock::Exclusive => self.0.try_lock(),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    }
}

fn from_raw(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        ident: Ident { device: stat.st_dev, inode: stat.st_ino },
        len: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
    }
}

/// Returns the modification time. A time before 1970 counts as 1970: it is only used for order and for changes.
fn changed_at(stat: &rustix::fs::Stat) -> SystemTime {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds.min(u64::from(u32::MAX) << 3), nanoseconds % 1_000_000_000)
}
