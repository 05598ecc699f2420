use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use duolog_log::{BlobId, Blobs, Disk, Error, FileKind, Files, Place, Reader, each_reference};
use duolog_testkit::disk::{EIO, ENOSPC};
use duolog_testkit::{CallKind, Crash, Fault, Loss, SimDisk};
use duolog_types::Durability::{Power, Process};
use duolog_types::Position;

fn blobs(disk: &SimDisk) -> Blobs {
    Blobs::on(&disk.as_disk())
}

fn content(blobs: &Blobs, id: &BlobId) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    blobs.open(id).map_err(io::Error::other)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn path_of(id: &BlobId) -> String {
    let name = id.to_string();
    format!("blobs/{}/{name}", &name[..2])
}

/// Returns the names of temporary files in the directory of blobs.
fn temporary_files(disk: &SimDisk) -> Vec<String> {
    let names = disk.as_disk().list(Path::new("blobs")).unwrap_or_default();
    names.into_iter().filter(|(_, kind)| *kind == FileKind::File).map(|(name, _)| name).collect()
}

fn count(disk: &SimDisk, kind: CallKind) -> usize {
    disk.calls().iter().filter(|call| call.kind == kind).count()
}

/// A source of `left` bytes that records the largest read.
struct Large {
    left: u64,
    most: usize,
}

impl Read for Large {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.most = self.most.max(buffer.len());
        let take = usize::try_from(self.left).unwrap().min(buffer.len());
        for (index, byte) in buffer[..take].iter_mut().enumerate() {
            *byte = u8::try_from((self.left - index as u64) % 251).unwrap();
        }
        self.left -= take as u64;
        Ok(take)
    }
}

#[test]
fn a_blob_is_stored_found_listed_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(root.path()).unwrap());
    let blobs = Blobs::on(&disk);
    assert_eq!(blobs.list(None, 10).unwrap(), []);
    let abc = blobs.put(&mut &b"abc"[..], Power).unwrap();
    assert_eq!(abc.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let empty = blobs.put(&mut io::empty(), Process).unwrap();
    let mut large = Large { left: 20_000_001, most: 0 };
    let large_id = blobs.put(&mut large, Process).unwrap();
    assert!(large.most <= 256 * 1024, "{} bytes at once", large.most);
    assert_eq!(blobs.len(&large_id).unwrap(), Some(20_000_001));
    assert_eq!((content(&blobs, &abc).unwrap(), content(&blobs, &empty).unwrap()), (b"abc".to_vec(), Vec::new()));
    let mut expected = Vec::new();
    Large { left: 20_000_001, most: 0 }.read_to_end(&mut expected).unwrap();
    assert!(content(&blobs, &large_id).unwrap() == expected);

    let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("blobs"), mode("blobs/ba"), mode(&path_of(&abc))), (0o700, 0o700, 0o600));

    let alone = blobs.lock_for_removal(Duration::ZERO).unwrap();
    assert!(blobs.remove(&alone, &abc).unwrap());
    assert!(!blobs.remove(&alone, &abc).unwrap());
    drop(alone);
    assert!(matches!(blobs.open(&abc), Err(Error::NoBlob(id)) if id == abc));
    assert_eq!(blobs.len(&abc).unwrap(), None);
    assert_eq!(blobs.put(&mut &b"abc"[..], Power).unwrap(), abc);
    assert_eq!(content(&blobs, &abc).unwrap(), b"abc");
}

#[test]
fn pages_list_every_blob_once_in_order() {
    let disk = SimDisk::new();
    let blobs = blobs(&disk);
    let mut ids: Vec<BlobId> =
        (0..300).map(|n| blobs.put(&mut &*n.to_string().into_bytes(), Process).unwrap()).collect();
    ids.sort_unstable();
    disk.write("blobs/aa/none-of-ours", b"x");
    disk.write(format!("blobs/00/{}", ids[299]), b"in the wrong place");
    for limit in [1, 7, 300, 1000] {
        let mut listed: Vec<BlobId> = Vec::new();
        loop {
            let page = blobs.list(listed.last(), limit).unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            listed.extend(page);
        }
        assert_eq!(listed, ids);
    }
}

#[test]
fn the_same_bytes_are_one_file_and_one_sync() {
    let disk = SimDisk::new();
    let first = blobs(&disk);
    let id = first.put(&mut &b"bytes"[..], Power).unwrap();
    let syncs = count(&disk, CallKind::Sync);
    assert_eq!(
        (first.put(&mut &b"bytes"[..], Power).unwrap(), first.put(&mut &b"bytes"[..], Process).unwrap()),
        (id, id)
    );
    assert_eq!((syncs, count(&disk, CallKind::Sync)), (1, 1));
    assert_eq!(first.list(None, 10).unwrap(), [id]);
    assert_eq!(temporary_files(&disk), [""; 0]);

    // Another process does not know that the blob was synced, and replaces it only with a synced one.
    let second = blobs(&disk.process());
    second.put(&mut &b"bytes"[..], Process).unwrap();
    assert_eq!((count(&disk, CallKind::Sync), count(&disk, CallKind::Rename)), (1, 1));
    second.put(&mut &b"bytes"[..], Power).unwrap();
    assert_eq!((count(&disk, CallKind::Sync), count(&disk, CallKind::Rename)), (2, 2));
    for loss in [Loss::DropUnsynced, Loss::KeepAll] {
        let after = disk.crash(Crash::Power(loss));
        assert_eq!(content(&blobs(&after), &id).unwrap(), b"bytes");
    }
}

/// If any byte is changed, missing or added, the last bytes are not returned, and a new put repairs the blob.
#[test]
fn a_changed_blob_is_an_error_before_its_end() {
    let text = b"what a tool said";
    let disk = SimDisk::new();
    let blobs = blobs(&disk);
    let id = blobs.put(&mut &text[..], Power).unwrap();
    let mut changed: Vec<Vec<u8>> = (0..text.len()).map(|cut| text[..cut].to_vec()).collect();
    changed.push([&text[..], b"!"].concat());
    for at in 0..text.len() {
        let mut bytes = text.to_vec();
        bytes[at] ^= 1;
        changed.push(bytes);
    }
    for bytes in changed {
        disk.write(path_of(&id), &bytes);
        // In one read, and byte by byte: the last byte is never returned.
        let mut read = blobs.open(&id).unwrap();
        let error = read.read_exact(&mut vec![0; bytes.len().max(1)]).unwrap_err();
        assert!(error.to_string().contains(&id.to_string()), "{error}");
        let given = io::BufReader::with_capacity(1, blobs.open(&id).unwrap()).bytes().take_while(Result::is_ok).count();
        assert!(given < bytes.len().max(1), "{given} of {}", bytes.len());
        assert!(matches!(blobs.open(&id).unwrap().verify(), Err(Error::BadBlob(bad)) if bad == id));
        for durability in [Process, Power] {
            disk.write(path_of(&id), &bytes);
            assert_eq!(blobs.put(&mut &text[..], durability).unwrap(), id);
            assert_eq!(content(&blobs, &id).unwrap(), text);
        }
    }
}

/// The process dies at every call of a put: an acknowledged blob exists, and a sweep deletes the rest.
#[test]
fn a_sweep_deletes_everything_that_a_killed_put_leaves() {
    let text = vec![7; 300_000];
    for durability in [Process, Power] {
        let calls = {
            let disk = SimDisk::new();
            blobs(&disk).put(&mut &*text, durability).unwrap();
            disk.call_count()
        };
        let id = blobs(&SimDisk::new()).put(&mut &*text, Process).unwrap();
        let mut left_behind = 0;
        for index in 0..=calls {
            for after_bytes in [None, Some(0), Some(1000)] {
                let disk = SimDisk::new();
                disk.fail_at(index, Fault::Stop { after_bytes });
                let acknowledged = blobs(&disk).put(&mut &*text, durability).is_ok();
                let crashes = Loss::all(2).into_iter().map(Crash::Power).chain([Crash::Process]);
                for crash in crashes {
                    let after = disk.crash(crash);
                    let blobs = blobs(&after);
                    let survives = durability == Power || matches!(crash, Crash::Process);
                    match content(&blobs, &id) {
                        Ok(bytes) => assert!(bytes == text, "stopped at {index}"),
                        // A blob without its bytes is possible only if it was not acknowledged as durable.
                        Err(_) => assert!(!(acknowledged && survives), "stopped at {index}, {crash:?}"),
                    }
                    left_behind += temporary_files(&after).len();
                    blobs.sweep().unwrap();
                    assert_eq!(temporary_files(&after), [""; 0]);
                    assert_eq!(blobs.put(&mut &*text, Power).unwrap(), id);
                    let later = after.crash(Crash::Power(Loss::DropUnsynced));
                    assert!(content(&Blobs::on(&later.as_disk()), &id).unwrap() == text, "stopped at {index}");
                }
            }
        }
        assert!(left_behind > 0, "some of these puts left a temporary file");
    }
}

/// Every call fails once: an acknowledged blob survives a power cut, and a second put succeeds.
#[test]
fn a_put_that_fails_at_any_call_can_be_retried() {
    let text = vec![7; 300_000];
    let id = blobs(&SimDisk::new()).put(&mut &*text, Process).unwrap();
    let mut failed = 0;
    for errno in [EIO, ENOSPC] {
        let mut index = 0;
        loop {
            let disk = SimDisk::new();
            disk.fail_at(index, Fault::Error(errno));
            let blobs = blobs(&disk);
            let first = blobs.put(&mut &*text, Power);
            failed += usize::from(first.is_err());
            let has_struck = disk.call_count() > index;
            disk.heal();
            let survives = || {
                let after = disk.crash(Crash::Power(Loss::DropUnsynced));
                content(&Blobs::on(&after.as_disk()), &id).is_ok_and(|bytes| bytes == text)
            };
            assert!(first.is_err() || survives(), "an error at {index}");
            assert_eq!(blobs.put(&mut &*text, Power).unwrap(), id);
            assert!(survives(), "an error at {index}");
            blobs.sweep().unwrap();
            assert_eq!(temporary_files(&disk), [""; 0]);
            if !has_struck {
                break;
            }
            index += 1;
        }
    }
    assert!(failed > 8, "{failed}");
}

/// A sweep runs at every call of a put.
#[test]
fn a_sweep_does_not_delete_a_file_that_is_being_written() {
    let disk = SimDisk::new();
    let sweeper = disk.process();
    let pid = disk.pid();
    let locks = AtomicUsize::new(0);
    disk.on_call(Arc::new(move |call| {
        // Between creation and lock only once: a sweep that always runs there would block the put for ever.
        let is_first_lock = || call.kind != CallKind::Lock || locks.fetch_add(1, Relaxed) == 0;
        if call.process == pid && is_first_lock() {
            blobs(&sweeper).sweep().expect("sweeps");
        }
    }));
    let blobs = blobs(&disk);
    let mut large = Large { left: 1_000_000, most: 0 };
    // The file that the sweep deleted before its lock is created again with the next name.
    let id = blobs.put(&mut large, Power).unwrap();
    assert_eq!(blobs.len(&id).unwrap(), Some(1_000_000));
    blobs.open(&id).unwrap().verify().unwrap();
}

#[test]
fn a_source_that_fails_leaves_nothing() {
    struct Fails(usize);
    impl Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => Err(io::ErrorKind::Interrupted.into()),
                2 => {
                    buffer[0] = 1;
                    Ok(1)
                }
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
    let disk = SimDisk::new();
    let blobs = blobs(&disk);
    assert!(matches!(blobs.put(&mut Fails(0), Power), Err(Error::Source(_))));
    assert_eq!(temporary_files(&disk), [""; 0]);
    assert_eq!(blobs.list(None, 10).unwrap(), []);
}

/// A reference is found once at any place, even across two reads.
#[test]
fn references_are_found_across_reads() {
    let disk = SimDisk::new();
    let id = blobs(&disk).put(&mut &b"abc"[..], Process).unwrap();
    let (reference, chunk) = (id.reference(), 256 * 1024);
    for before in (chunk - 80..chunk + 10).chain([0, 1, 2 * chunk - 30]) {
        for behind in [0, 1, 30, 67, 68, 69, 200] {
            let text = format!("{}{reference}{}", "x".repeat(before), "y".repeat(behind));
            disk.write("one.jsonl", text.as_bytes());
            let log = Reader::open(&disk.as_disk(), &Place::file("one.jsonl")).unwrap().unwrap();
            let mut found = Vec::new();
            each_reference(&log, Position::ZERO, Position(text.len() as u64), |id| found.push(id)).unwrap();
            assert_eq!(found, [id], "{before} before and {behind} behind");
        }
    }
}

#[test]
fn whoever_removes_waits_for_whoever_is_between_a_blob_and_its_line() {
    let root = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(root.path()).unwrap());
    let (writer, remover) = (Blobs::on(&disk), Blobs::on(&disk));
    let (first, second) = (writer.hold(Duration::ZERO).unwrap(), writer.hold(Duration::ZERO).unwrap());
    drop(first);
    assert!(matches!(remover.lock_for_removal(Duration::ZERO), Err(Error::Busy { .. })));
    drop(second);
    let alone = remover.lock_for_removal(Duration::ZERO).unwrap();
    assert!(matches!(writer.hold(Duration::ZERO), Err(Error::Busy { .. })));
    assert!(matches!(remover.lock_for_removal(Duration::ZERO), Err(Error::Busy { .. })));
    drop(alone);
    drop(writer.hold(Duration::ZERO).unwrap());
}
