//! The directory of a round: on a real disk, in memory, or on a small disk that fills up.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

const BALLAST: &str = "ballast";
/// The final size of a small disk, so that everything on it can be read.
const LARGE_BYTES: u64 = 256 << 20;

/// The kind of disk that a round runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The real file system.
    Real,
    /// A file system in memory.
    Memory,
    /// A file system of this many bytes.
    Small(u64),
}

/// The directory of one round; removed with it unless it is kept.
#[derive(Debug)]
pub struct RoundDirectory {
    root: TempDir,
    mounted: bool,
    filled: AtomicU64,
}

impl RoundDirectory {
    /// Creates the directory. If a small disk cannot be mounted, it is in memory.
    pub fn make(base: &Path, disk: Disk) -> (Self, Disk) {
        let memory = Path::new("/dev/shm");
        let base = if disk != Disk::Real && memory.is_dir() { memory } else { base };
        let root = tempfile::Builder::new().prefix("duolog-blackbox-").tempdir_in(base).expect("a directory");
        for part in ["scratch", "disk"] {
            fs::create_dir(root.path().join(part)).expect("a directory");
        }
        let mounted = matches!(disk, Disk::Small(bytes) if mount(&root.path().join("disk"), bytes));
        let disk = if matches!(disk, Disk::Small(_)) && !mounted { Disk::Memory } else { disk };
        (Self { root, mounted, filled: AtomicU64::new(0) }, disk)
    }

    /// Returns the home.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("disk/home")
    }

    /// Returns a directory next to the home that never fills up.
    pub fn scratch(&self) -> PathBuf {
        self.root.path().join("scratch")
    }

    /// Returns true if the disk is small.
    pub fn is_small(&self) -> bool {
        self.mounted
    }

    /// Returns how often the disk was filled.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Fills a small disk to the last byte.
    pub fn fill(&self) {
        if !self.mounted {
            return;
        }
        self.filled.fetch_add(1, Ordering::Relaxed);
        let path = self.root.path().join("disk").join(BALLAST);
        // There may be no space for the file itself.
        let Ok(mut file) = File::options().create(true).append(true).open(path) else { return };
        for size in [65_536, 4096, 1] {
            let block = vec![0; size];
            while file.write_all(&block).is_ok() {}
        }
    }

    /// Frees the space that [`RoundDirectory::fill`] took.
    pub fn free(&self) {
        let _ = fs::remove_file(self.root.path().join("disk").join(BALLAST));
    }

    /// Enlarges a small disk, so that no command fails because it is full.
    pub fn enlarge(&self) {
        self.free();
        if self.mounted {
            let options = format!("remount,size={LARGE_BYTES}");
            let _ = Command::new("mount").args(["-o", &options]).arg(self.root.path().join("disk")).output();
        }
    }

    /// Copies everything to `base` and returns the path.
    pub fn keep(&self, base: &Path) -> io::Result<PathBuf> {
        self.free();
        let kept = tempfile::Builder::new().prefix("duolog-blackbox-kept-").tempdir_in(base)?.keep();
        let copied = Command::new("cp").arg("-a").arg(self.root.path().join("disk/.")).arg(&kept).status()?;
        if copied.success() { Ok(kept) } else { Err(io::Error::other("cp failed")) }
    }
}

impl Drop for RoundDirectory {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.root.path().join("disk")).output();
        }
    }
}

fn mount(directory: &Path, bytes: u64) -> bool {
    let options = format!("size={bytes},mode=700");
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &options, "duolog-small-disk"]).arg(directory);
    command.output().is_ok_and(|output| output.status.success())
}
