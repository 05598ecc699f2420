//! The recorded file system calls of the real binary.

use std::path::Path;

const MAGIC: u32 = 0x3152_4c44;
const HEADER: usize = 48;

/// One call that changed something, in the order of effect over all processes.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) path: String,
    pub(crate) change: Change,
    /// The offset of its end in the file of records.
    pub(crate) end: u64,
}

/// The effect of a call. Files and directories have their inode, because a path can be reused.
#[derive(Clone, Debug)]
pub(crate) enum Change {
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
    Output,
}

impl Record {
    /// Returns the kind of the call, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.change {
            Change::Create { .. } => "create",
            Change::Write { .. } => "write",
            Change::Truncate { .. } => "truncate",
            Change::Rename { .. } => "rename",
            Change::Unlink => "unlink",
            Change::Mkdir { .. } => "mkdir",
            Change::Rmdir => "rmdir",
            Change::Link { .. } => "link",
            Change::Chmod { .. } => "chmod",
            Change::Sync { failed: false, .. } => "sync",
            Change::Sync { failed: true, .. } => "failed sync",
            Change::Output => "output",
        }
    }
}

/// Reads every complete record of the file. A process that was killed from outside may leave half of one at the end.
/// SQLite's shared memory is skipped: it is rebuilt after a crash.
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
    assert_eq!(u32_at(0), MAGIC, "the records are damaged at byte {at}");
    let (kind, flags) = (header[4], header[5]);
    let (path_len, second_len, data_len) = (u16_at(6), u16_at(8), u32_at(16) as usize);
    let (inode, offset, arg) = (u64_at(24), u64_at(32), u64_at(40));
    let end = at + HEADER + path_len + second_len + data_len;
    let rest = bytes.get(at + HEADER..end)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (path, to) = (text(&rest[..path_len]), text(&rest[path_len..path_len + second_len]));
    let data = rest[path_len + second_len..].to_vec();
    let mode = u32::try_from(arg & 0o7777).unwrap_or_default();
    let change = match kind {
        1 => Change::Create { inode, mode },
        2 => Change::Write { inode, offset, data },
        3 => Change::Truncate { inode, size: arg },
        4 => Change::Rename { to },
        5 => Change::Unlink,
        6 => Change::Mkdir { inode, mode },
        7 => Change::Rmdir,
        8 => Change::Link { to },
        9 => Change::Chmod { inode, mode },
        10 => Change::Sync { inode, failed: flags & 1 != 0, data_only: flags & 2 != 0 },
        11 => Change::Output,
        _ => panic!("cannot replay a call of kind {kind} on {path} {to}"),
    };
    Some((Record { pid: u32_at(12), path, change, end: end as u64 }, end))
}
