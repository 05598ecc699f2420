//! Checks whether SQLite's write-ahead log is safe on a directory's file system, before the first open.
//!
//! The index of the write-ahead log is shared memory. On a network or FUSE file system, processes may see different
//! contents of it, and commits are lost.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};

/// The file system of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name.
    pub name: String,
    /// The kind of file system, if the write-ahead log is not safe on it.
    pub danger: Option<String>,
}

/// Returns the file system of a directory. For a directory that does not exist, its nearest existing ancestor decides.
pub fn file_system_of(dir: &Path) -> Result<FileSystem> {
    let (existing, magic) = number_of(dir)?;
    let device = existing.metadata().map_err(|error| Error::io("examine", existing, error))?.dev();
    // Without /proc the magic number alone decides.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounted_as(&mounts, rustix::fs::major(device), rustix::fs::minor(device));
    Ok(FileSystem {
        name: mounted.map_or_else(|| format!("file system {magic:#x}"), str::to_owned),
        danger: judge(magic, mounted),
    })
}

/// Returns an error if the write-ahead log is not safe on the directory's file system.
pub fn check(dir: &Path) -> Result<()> {
    // Reading the mounts takes longer than the rest of this check, and these magic numbers are unambiguous.
    if is_known_safe(number_of(dir)?.1) {
        return Ok(());
    }
    match file_system_of(dir)?.danger {
        None => Ok(()),
        Some(kind) => Err(Error::FileSystem { path: dir.to_owned(), kind }),
    }
}

/// Returns the nearest existing directory and the magic number of its file system.
fn number_of(dir: &Path) -> Result<(&Path, u64)> {
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let statfs = rustix::fs::statfs(existing).map_err(|error| Error::io("examine", existing, error.into()))?;
    Ok((existing, u64::try_from(statfs.f_type).unwrap_or_default()))
}

/// Returns true if the magic number belongs to a local file system and to no unsafe one.
fn is_known_safe(f_type: u64) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const TMPFS: u64 = 0x0102_1994;
    matches!(f_type, EXT4 | XFS | BTRFS | TMPFS)
}

/// Returns the kind of the file system if the write-ahead log is not safe on it.
///
/// `f_type` is the magic number of `statfs`, `mountinfo_fs_type` the type in mountinfo. Both are needed: virtiofs has
/// FUSE's magic number.
pub fn judge(f_type: u64, mountinfo_fs_type: Option<&str>) -> Option<String> {
    let by_word = mountinfo_fs_type.filter(|word| {
        matches!(
            *word,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "virtiofs" | "fuse" | "fuseblk" | "afs" | "ceph"
        ) || word.starts_with("fuse.")
    });
    let by_number = match f_type {
        0x6969 => Some("nfs"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("smb"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("fuse"),
        0x5346_414f | 0x6b41_4653 => Some("afs"),
        0x00c3_6400 => Some("ceph"),
        _ => None,
    };
    by_word.or(by_number).map(str::to_owned)
}

/// Returns the type of the file system with this device number, from the text of mountinfo.
fn mounted_as(mountinfo: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    mountinfo.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then(|| source.split(' ').next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_fuse_are_refused_by_number_or_by_word() {
        for (f_type, word, kind) in [
            (0x6969, None, "nfs"),
            (0xef53, Some("nfs4"), "nfs4"),
            (0xff53_4d42, None, "smb"),
            (0xfe53_4d42, Some("cifs"), "cifs"),
            (0x0102_1997, Some("9p"), "9p"),
            (0x6573_5546, Some("virtiofs"), "virtiofs"),
            (0x6573_5546, Some("fuse.sshfs"), "fuse.sshfs"),
            (0x6573_5546, None, "fuse"),
        ] {
            assert_eq!(judge(f_type, word).as_deref(), Some(kind));
            assert!(f_type == 0xef53 || !is_known_safe(f_type), "{kind}");
        }
        for (f_type, word) in [(0xef53, Some("ext4")), (0x0102_1994, Some("tmpfs")), (0x9123_683e, None), (0, None)] {
            assert_eq!(judge(f_type, word), None);
        }
    }

    #[test]
    fn the_mount_is_found_by_its_device() {
        let text = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                    27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    30 27 0:44 / /mnt/with\\040space rw master:2 - virtiofs tag rw\n";
        assert_eq!(mounted_as(text, 254, 0), Some("ext4"));
        assert_eq!(mounted_as(text, 0, 44), Some("virtiofs"));
        assert_eq!(mounted_as(text, 9, 9), None);
        assert_eq!(mounted_as("garbage\n - \n", 1, 1), None);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_judged_by_its_parent() {
        assert!(check(Path::new("/tmp/no/such/directory")).is_ok());
    }
}
