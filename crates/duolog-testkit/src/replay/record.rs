//! The file system calls of the real binary, as the shim wrote them down.

use std::path::Path;

const MAGIC: u32 = 0x3152_4c44;
const HEADER: usize = 48;

/// One call that changed something, in the order of effect over all processes.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) path: String,
    pub(crate) what: What,
    /// Where its bytes end in the file of records.
    pub(crate) end: u64,
}

/// What a call did. Files and directories are known by their inode: a path can be used again.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Create {
        inode: u64,
        mode: u32,
    },
    Write {
        inode: u64,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        inode: u64,
        size: u64,
    },
    Rename {
        to: String,
    },
    Unlink,
    Mkdir {
        inode: u64,
        mode: u32,
    },
    Rmdir,
    Link {
        to: String,
    },
    Chmod {
        inode: u64,
        mode: u32,
    },
    Sync {
        inode: u64,
        failed: bool,
        data_only: bool,
    },
    /// Bytes that a process wrote to its standard output.
    Said,
}

impl Record {
    /// The kind of the call, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.what {
            What::Create { .. } => "create",
            What::Write { .. } => "write",
            What::Truncate { .. } => "truncate",
            What::Rename { .. } => "rename",
            What::Unlink => "unlink",
            What::Mkdir { .. } => "mkdir",
            What::Rmdir => "rmdir",
            What::Link { .. } => "link",
            What::Chmod { .. } => "chmod",
            What::Sync { failed: false, .. } => "sync",
            What::Sync { failed: true, .. } => "failed sync",
            What::Said => "output",
        }
    }
}

/// Reads every whole record of the file. A process that was killed from outside may leave half of one at the end.
/// SQLite's shared memory is left out: it is made anew after a crash.
pub(crate) fn read(log: &Path) -> Vec<Record> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let (mut at, mut records) = (0, Vec::new());
    while let Some((record, next)) = parse(&bytes, at) {
        records.push(record);
        at = next;
    }
    records.retain(|record| !record.path.ends_with("-shm"));
    records
}

fn parse(bytes: &[u8], at: usize) -> Option<(Record, usize)> {
    let header = bytes.get(at..at + HEADER)?;
    let u16_at = |i: usize| usize::from(u16::from_le_bytes([header[i], header[i + 1]]));
    let u32_at = |i: usize| u32::from_le_bytes(header[i..i + 4].try_into().expect("four bytes"));
    let u64_at = |i: usize| u64::from_le_bytes(header[i..i + 8].try_into().expect("eight bytes"));
    assert_eq!(u32_at(0), MAGIC, "the records are garbled at byte {at}");
    let (kind, flags) = (header[4], header[5]);
    let (path_len, second_len, data_len) = (u16_at(6), u16_at(8), u32_at(16) as usize);
    let (inode, offset, arg) = (u64_at(24), u64_at(32), u64_at(40));
    let end = at + HEADER + path_len + second_len + data_len;
    let rest = bytes.get(at + HEADER..end)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (path, to) = (text(&rest[..path_len]), text(&rest[path_len..path_len + second_len]));
    let data = rest[path_len + second_len..].to_vec();
    let mode = u32::try_from(arg & 0o7777).unwrap_or_default();
    let what = match kind {
        1 => What::Create { inode, mode },
        2 => What::Write { inode, offset, data },
        3 => What::Truncate { inode, size: arg },
        4 => What::Rename { to },
        5 => What::Unlink,
        6 => What::Mkdir { inode, mode },
        7 => What::Rmdir,
        8 => What::Link { to },
        9 => What::Chmod { inode, mode },
        10 => What::Sync { inode, failed: flags & 1 != 0, data_only: flags & 2 != 0 },
        11 => What::Said,
        _ => panic!("a call of kind {kind} on {path} {to} cannot be replayed"),
    };
    Some((Record { pid: u32_at(12), path, what, end: end as u64 }, end))
}
