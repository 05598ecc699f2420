use super::*;

fn record(path: &str, change: Change) -> Record {
    Record { pid: 1, path: path.to_owned(), change, end: 0 }
}

fn write(offset: u64, data: &[u8]) -> Record {
    record("a", Change::Write { inode: 2, offset, data: data.to_vec() })
}

fn sync(inode: u64, failed: bool) -> Record {
    record("a", Change::Sync { inode, failed, data_only: true })
}

/// Creates a directory of inode 1 with a file `a` of inode 2, whose name is synced.
fn disk(records: &[Record]) -> Disk {
    let mut disk = Disk::empty(1);
    disk.apply(&record("a", Change::Create { inode: 2, mode: 0o600 }));
    disk.apply(&sync(1, false));
    for record in records {
        disk.apply(record);
    }
    disk
}

fn content(disk: &Disk, loss: Loss) -> Option<Vec<u8>> {
    disk.after(loss, &mut Random::new(1)).file("a")
}

#[test]
fn only_synced_bytes_survive_a_power_loss() {
    let disk = disk(&[write(0, b"one"), sync(2, false), write(3, b"two")]);
    assert_eq!(content(&disk, Loss::None).as_deref(), Some(&b"onetwo"[..]));
    assert_eq!(content(&disk, Loss::All).as_deref(), Some(&b"one"[..]));
    assert_eq!(content(&disk, Loss::Extended).as_deref(), Some(&b"one\0\0\0"[..]));
}

#[test]
fn a_failed_sync_is_not_repaired_by_the_next() {
    let page = vec![b'x'; PAGE];
    let disk = disk(&[write(0, &page), sync(2, true), write(PAGE as u64, b"y"), sync(2, false)]);
    let mut lost = vec![0; PAGE];
    lost.push(b'y');
    assert_eq!(content(&disk, Loss::All), Some(lost), "the page of the failed sync is a hole");
    assert_eq!(content(&disk, Loss::None).map(|bytes| bytes[0]), Some(b'x'), "programs read it until the power loss");
}

#[test]
fn writing_a_page_again_stores_its_lost_bytes() {
    let disk = disk(&[write(0, b"one"), sync(2, true), write(3, b"two"), sync(2, false)]);
    assert_eq!(content(&disk, Loss::All).as_deref(), Some(&b"onetwo"[..]));
}

#[test]
fn a_name_is_lost_unless_its_directory_was_synced() {
    let mut disk = disk(&[write(0, b"one"), sync(2, false), record("a", Change::Rename { to: "b".to_owned() })]);
    assert!(content(&disk, Loss::All).is_some() && content(&disk, Loss::None).is_none());
    disk.apply(&sync(1, false));
    assert!(content(&disk, Loss::All).is_none());
}

#[test]
fn some_pages_returns_one_version_of_each() {
    let disk = disk(&[
        write(0, &vec![b'a'; 2 * PAGE]),
        sync(2, false),
        write(0, &vec![b'b'; 2 * PAGE]),
        write(0, &vec![b'c'; 2 * PAGE]),
    ]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..3000 {
        let bytes = disk.after(Loss::Pages, &mut Random::new(seed * 1000)).file("a").expect("it is there");
        seen.insert((bytes[0], bytes[PAGE]));
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}
