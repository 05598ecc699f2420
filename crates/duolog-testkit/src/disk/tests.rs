//! Tests of the simulated disk itself.

use super::*;

const LOG: &str = "dir/log";

/// Creates a disk with `dir/log`, whose name is synced, open for appending.
fn disk() -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    Disk::create_dir(&disk, Path::new("dir")).unwrap();
    let file = disk.open(Path::new(LOG), Open::Create).unwrap();
    for directory in ["dir", ""] {
        disk.sync_dir(Path::new(directory)).unwrap();
    }
    (disk, file)
}

fn after(disk: &SimDisk, loss: Loss) -> Option<Vec<u8>> {
    disk.crash(Crash::Power(loss)).read(LOG)
}

#[test]
fn a_power_loss_loses_unsynced_bytes_and_a_process_crash_does_not() {
    let (disk, file) = disk();
    assert_eq!(file.append(b"one").unwrap(), 3);
    file.sync().unwrap();
    file.append(b"two").unwrap();
    assert_eq!(disk.crash(Crash::Process).read(LOG).unwrap(), b"onetwo");
    assert_eq!(after(&disk, Loss::DropUnsynced).unwrap(), b"one");
    assert_eq!(after(&disk, Loss::KeepAll).unwrap(), b"onetwo");
    assert_eq!(after(&disk, Loss::LostNames).unwrap(), b"onetwo");
    assert_eq!(after(&disk, Loss::ZeroExtended).unwrap(), b"one\0\0\0");
    let torn: Vec<_> = (0..40).map(|seed| after(&disk, Loss::Torn { seed }).unwrap()).collect();
    assert!(torn.iter().all(|bytes| b"onetwo".starts_with(bytes) && bytes.len() >= 3), "{torn:?}");
    assert!((3..=6).all(|len| torn.iter().any(|bytes| bytes.len() == len)), "each length occurs");
    assert_eq!(after(&disk, Loss::Torn { seed: 5 }), after(&disk, Loss::Torn { seed: 5 }));
    assert_eq!(disk.read(LOG).unwrap(), b"onetwo", "the disk itself is unchanged");
}

#[test]
fn a_process_that_dies_does_not_make_bytes_durable() {
    let (disk, file) = disk();
    file.append(b"one").unwrap();
    assert_eq!(after(&disk.crash(Crash::Process), Loss::DropUnsynced).unwrap(), b"");
}

#[test]
fn an_unsynced_name_is_lost_although_its_bytes_were_synced() {
    let disk = SimDisk::new();
    Disk::create_dir(&disk, Path::new("dir")).unwrap();
    let file = disk.open(Path::new(LOG), Open::Create).unwrap();
    file.append(b"one").unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("dir")).unwrap();
    assert_eq!(after(&disk, Loss::DropUnsynced), None, "the directory's own name is not synced yet");
    assert_eq!(after(&disk, Loss::LostNames), None);
    assert_eq!(after(&disk, Loss::KeepAll).unwrap(), b"one");
    disk.sync_dir(Path::new("")).unwrap();
    assert_eq!(after(&disk, Loss::DropUnsynced).unwrap(), b"one");
}

#[test]
fn an_unsynced_rename_or_unlink_is_undone() {
    let (disk, file) = disk();
    file.append(b"old").unwrap();
    file.sync().unwrap();
    let new = disk.open(Path::new("dir/new"), Open::Create).unwrap();
    new.append(b"new").unwrap();
    new.sync().unwrap();
    disk.rename(Path::new("dir/new"), Path::new(LOG)).unwrap();
    assert_eq!(disk.read(LOG).unwrap(), b"new");
    assert_eq!(after(&disk, Loss::LostNames).unwrap(), b"old");
    disk.sync_dir(Path::new("dir")).unwrap();
    assert_eq!(after(&disk, Loss::LostNames).unwrap(), b"new");
    disk.unlink(Path::new(LOG)).unwrap();
    assert_eq!(after(&disk, Loss::DropUnsynced).unwrap(), b"new");
    assert_eq!(disk.read(LOG), None);
}

#[test]
fn an_unsynced_truncation_may_be_undone() {
    let (disk, file) = disk();
    file.append(b"onetwo").unwrap();
    file.sync().unwrap();
    file.set_len(3).unwrap();
    assert_eq!(after(&disk, Loss::DropUnsynced).unwrap(), b"onetwo");
    assert_eq!(after(&disk, Loss::KeepAll).unwrap(), b"one");
    let torn: Vec<_> = (0..20).map(|seed| after(&disk, Loss::Torn { seed }).unwrap()).collect();
    assert!(torn.iter().any(|bytes| bytes == b"one") && torn.iter().any(|bytes| bytes == b"onetwo"));
    file.append(b"X").unwrap();
    assert_eq!(after(&disk, Loss::ZeroExtended).unwrap(), b"one\0");
}

#[test]
fn a_failed_sync_loses_bytes_although_the_next_one_succeeds() {
    let (disk, file) = disk();
    file.append(b"one").unwrap();
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(EIO));
    file.append(b"two").unwrap();
    file.sync().unwrap();
    assert_eq!(disk.read(LOG).unwrap(), b"onetwo", "they can still be read");
    assert_eq!(after(&disk, Loss::DropUnsynced).unwrap(), b"\0\0\0two");
}

#[test]
fn locks_exclude_and_end_with_their_file_or_process() {
    let (disk, first) = disk();
    let other = disk.process();
    let second = other.open(Path::new(LOG), Open::Append).unwrap();
    assert!(first.try_lock(Lock::Shared).unwrap() && second.try_lock(Lock::Shared).unwrap());
    assert!(!first.try_lock(Lock::Exclusive).unwrap(), "another process shares it");
    assert!(second.try_lock(Lock::Exclusive).unwrap(), "the refused upgrade released the shared lock");
    assert!(!first.try_lock(Lock::Shared).unwrap());
    assert_eq!(disk.holder(&first.stat().unwrap()), Some(other.pid()));
    drop(second);
    assert!(first.try_lock(Lock::Exclusive).unwrap());
    let third = other.open(Path::new(LOG), Open::Append).unwrap();
    assert!(!third.try_lock(Lock::Exclusive).unwrap());
    disk.stop();
    assert!(third.try_lock(Lock::Exclusive).unwrap());
    assert!(is_stopped(&first.unlock().unwrap_err()));
    drop(first);
    assert_eq!(other.holder(&third.stat().unwrap()), Some(other.pid()), "only its own lock was released");
    let image = other.crash(Crash::Process);
    assert!(image.open(Path::new(LOG), Open::Append).unwrap().try_lock(Lock::Exclusive).unwrap());
}

#[test]
fn a_stop_writes_a_part_of_its_append_and_ends_the_process() {
    let (disk, file) = disk();
    file.append(b"one").unwrap();
    disk.fail_at(disk.call_count(), Fault::Stop { after_bytes: Some(2) });
    assert!(is_stopped(&file.append(b"two").unwrap_err()));
    let calls = disk.call_count();
    assert!(is_stopped(&file.append(b"three").unwrap_err()));
    assert!(is_stopped(&disk.stat(Path::new(LOG)).unwrap_err()));
    assert_eq!(disk.call_count(), calls, "a dead process makes no calls");
    assert_eq!(disk.read(LOG).unwrap(), b"onetw");
    assert!(disk.has_stopped() && !disk.process().has_stopped());
    assert_eq!(disk.process().stat(Path::new(LOG)).unwrap().unwrap().len, 5);
}

#[test]
fn a_fault_is_applied_to_the_chosen_call_once() {
    let (disk, file) = disk();
    disk.fail_kind_from(CallKind::Append, 1, Fault::Short(1));
    assert_eq!(file.append(b"abc").unwrap(), 3);
    assert_eq!(file.append(b"def").unwrap(), 1);
    assert_eq!(file.append(b"ghi").unwrap(), 3);
    disk.fail_every(CallKind::Append, Fault::Error(ENOSPC));
    for _ in 0..2 {
        assert_eq!(file.append(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    disk.heal();
    assert_eq!(file.append(b"!").unwrap(), 1);
    assert_eq!(disk.read(LOG).unwrap(), b"abcdghi!");
}

#[test]
fn every_call_is_traced_before_it_takes_effect() {
    use CallKind::{Append, Create, CreateDir, Sync, SyncDir};
    let (disk, file) = disk();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (into, of) = (seen.clone(), disk.clone());
    disk.on_call(Arc::new(move |call| into.lock().unwrap().push((call.kind, of.read(LOG).unwrap().len()))));
    file.append(b"ab").unwrap();
    file.stat().unwrap();
    file.sync().unwrap();
    let told = [(CallKind::Append, 0), (CallKind::Stat, 2), (CallKind::Sync, 2)];
    assert_eq!(*seen.lock().unwrap(), told);
    let calls = disk.calls();
    assert!(calls.iter().enumerate().all(|(index, call)| call.index == index));
    assert_eq!(calls[calls.len() - 3].len, 2);
    let kinds: Vec<_> = disk.mutations().iter().map(|call| call.kind).collect();
    assert_eq!(kinds, [CreateDir, Create, SyncDir, SyncDir, Append, Sync]);
}

#[test]
fn changes_from_outside_are_durable_and_distinguish_edit_from_replacement() {
    let (disk, file) = disk();
    disk.write(LOG, b"edited");
    assert_eq!(file.stat().unwrap().len, 6);
    disk.replace(LOG, b"another");
    assert_eq!(file.stat().unwrap().len, 6, "the open file is the old one");
    disk.write("far/away/file", b"x");
    let files =
        BTreeMap::from([(PathBuf::from(LOG), b"another".to_vec()), (PathBuf::from("far/away/file"), b"x".to_vec())]);
    assert_eq!(disk.snapshot(), files);
    assert_eq!(disk.crash(Crash::Power(Loss::DropUnsynced)).snapshot(), files);
    disk.remove(LOG);
    assert_eq!(disk.read(LOG), None);
}

#[test]
fn invalid_and_missing_paths_are_refused() {
    let (disk, _file) = disk();
    assert_eq!(disk.stat(Path::new("../x")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(disk.stat(Path::new("dir/none")).unwrap(), None);
    assert_eq!(disk.stat(Path::new("dir/log/below")).unwrap(), None);
    let missing = disk.open(Path::new("none/log"), Open::Create).err().unwrap();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let taken = disk.open(Path::new(LOG), Open::Create).err().unwrap();
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    let reader = disk.open(Path::new(LOG), Open::Read).unwrap();
    assert!(reader.append(b"x").is_err() && reader.set_len(0).is_err());
    assert_eq!(disk.list(Path::new("dir")).unwrap(), [("log".to_owned(), FileKind::File)]);
    assert_eq!(disk.list(Path::new("none")).unwrap(), []);
}
