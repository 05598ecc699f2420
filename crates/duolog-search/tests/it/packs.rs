use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use duolog_search::Error;
use duolog_search::vectors::{Pack, PackLock, Packing, Published};
use duolog_types::HomeId;

/// Embeddings by number.
type Held = BTreeMap<i64, Vec<u8>>;

/// So many numbers each; where that changes, a block ends.
fn embedding(seq: i64) -> Vec<u8> {
    let numbers: u8 = if seq % 5 < 3 { 2 } else { 3 };
    (0..numbers).flat_map(|at| (f32::from(u16::try_from(seq).expect("small")) + f32::from(at)).to_le_bytes()).collect()
}

/// Packs numbers behind what was published; says what may be published then.
fn pack(state: &Path, home: HomeId, published: Option<Published>, seqs: std::ops::Range<i64>) -> Option<Published> {
    let lock = PackLock::take(state).expect("opens").expect("nobody else");
    let mut packing = Packing::begin(lock, home, published).expect("begins");
    for seq in seqs {
        assert!(packing.last_seq() < seq);
        packing.add(seq, &embedding(seq)).expect("added");
    }
    packing.finish().expect("finished")
}

fn read(state: &Path, home: HomeId, published: Published) -> Result<Held, Error> {
    let mut held = Held::new();
    Pack::open(state, home, published)?.scan(|block| {
        for (seq, length, packed) in block.embeddings() {
            assert_eq!(packed.len(), block.dimension);
            let squares: f32 = packed.iter().map(|four| f32::from_le_bytes(*four).powi(2)).sum();
            assert!((length - squares.sqrt()).abs() < 1e-3, "{seq}");
            held.insert(seq, packed.as_flattened().to_vec());
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(held)
}

fn expected(seqs: std::ops::RangeInclusive<i64>) -> Held {
    seqs.map(|seq| (seq, embedding(seq))).collect()
}

fn room() -> (tempfile::TempDir, HomeId) {
    (tempfile::tempdir().expect("a directory"), HomeId::new())
}

#[test]
fn what_is_packed_is_read_in_whole_blocks() {
    let (room, home) = room();
    let first = pack(room.path(), home, None, 1..12).expect("blocks");
    assert_eq!((first.last_seq, first.records), (9, 9), "the last two fill no block");
    assert_eq!(read(room.path(), home, first).expect("reads"), expected(1..=9));
    let second = pack(room.path(), home, Some(first), 10..18).expect("blocks");
    assert_eq!((second.pack, second.last_seq, second.records), (first.pack, 14, 14));
    assert_eq!(read(room.path(), home, second).expect("reads"), expected(1..=14));
    // Whoever still sees the state as it was reads what counted then.
    assert_eq!(read(room.path(), home, first).expect("reads"), expected(1..=9));
    assert_eq!(pack(room.path(), home, Some(second), 15..16), None, "no block is full");
    assert_eq!(read(room.path(), home, second).expect("reads"), expected(1..=14));
}

/// Whatever bit changes and wherever it is cut: it is noticed, or nothing that is read is another.
#[test]
fn nothing_else_is_read_than_what_was_packed() {
    let (room, home) = room();
    let published = pack(room.path(), home, None, 1..20).expect("blocks");
    let (path, held) = (Pack::path_in(room.path()), expected(1..=published.last_seq));
    let bytes = fs::read(&path).expect("a file");
    let mut unnoticed = 0;
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            fs::write(&path, &changed).expect("written");
            match read(room.path(), home, published) {
                Ok(found) => {
                    assert_eq!(found, held, "byte {at}");
                    unnoticed += 1;
                }
                Err(Error::Unusable { .. }) => {}
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        fs::write(&path, &bytes[..at]).expect("written");
        let cut = read(room.path(), home, published).expect_err("it is cut");
        assert!(matches!(cut, Error::Unusable { .. }), "{at}: {cut}");
    }
    assert!(unnoticed < bytes.len() / 2, "only where nothing is said: {unnoticed} of {}", 2 * bytes.len());
    fs::write(&path, &bytes).expect("written");
    for other in [
        Published { chain: [0; 32], ..published },
        Published { records: published.records + 1, ..published },
        Published { bytes: published.bytes - 64, ..published },
        Published { pack: duolog_types::PackId::new(), ..published },
    ] {
        assert!(matches!(read(room.path(), home, other), Err(Error::Unusable { .. })), "{other:?}");
    }
    assert!(matches!(read(room.path(), HomeId::new(), published), Err(Error::Unusable { .. })));
    fs::remove_file(&path).expect("deleted");
    assert!(matches!(read(room.path(), home, published), Err(Error::Missing(_))));
}

#[test]
fn what_is_not_finished_or_not_published_is_taken_back() {
    let (room, home) = room();
    let path = Pack::path_in(room.path());
    let begin = |published| {
        let lock = PackLock::take(room.path()).expect("opens").expect("nobody else");
        let mut packing = Packing::begin(lock, home, published).expect("begins");
        for seq in packing.last_seq() + 1..packing.last_seq() + 12 {
            packing.add(seq, &embedding(seq)).expect("added");
        }
        assert!(packing.added_bytes() > 0);
        packing
    };
    drop(begin(None));
    assert!(!path.exists() && !room.path().join("vectors.new").exists());
    let first = pack(room.path(), home, None, 1..12).expect("blocks");
    drop(begin(Some(first)));
    assert_eq!(fs::metadata(&path).expect("a file").len(), first.bytes);
    // Finished, and then never published: the next one goes on from what was.
    let lost = pack(room.path(), home, Some(first), 10..25).expect("blocks");
    let second = pack(room.path(), home, Some(first), 11..19).expect("blocks");
    assert!(matches!(read(room.path(), home, lost), Err(Error::Unusable { .. })));
    let mut without = expected(1..=second.last_seq);
    without.remove(&10);
    assert_eq!(read(room.path(), home, second).expect("reads"), without);
    // Who goes on from what was lost, where something else stands by now, packs what nobody believes.
    pack(room.path(), home, Some(first), 11..45).expect("blocks");
    let mixed = pack(room.path(), home, Some(lost), 23..50).expect("blocks");
    assert_eq!(mixed.pack, first.pack);
    assert!(matches!(read(room.path(), home, mixed), Err(Error::Unusable { .. })));
    // What is shorter is made anew.
    fs::write(&path, &fs::read(&path).expect("a file")[..100]).expect("cut");
    let anew = pack(room.path(), home, Some(mixed), 1..12).expect("blocks");
    assert_ne!(anew.pack, first.pack);
    assert_eq!(read(room.path(), home, anew).expect("reads"), expected(1..=9));
}

#[test]
fn one_packs_at_a_time_and_throws_away_only_what_was_read() {
    let (room, home) = room();
    let first = pack(room.path(), home, None, 1..12).expect("blocks");
    let old = Pack::open(room.path(), home, first).expect("opens");
    let lock = PackLock::take(room.path()).expect("opens").expect("nobody else");
    assert!(PackLock::take(room.path()).expect("opens").is_none());
    drop(lock);
    let second = pack(room.path(), home, None, 1..12).expect("blocks");
    let lock = PackLock::take(room.path()).expect("opens").expect("nobody else");
    lock.throw_away(&old).expect("looks");
    assert_eq!(read(room.path(), home, second).expect("still there"), expected(1..=9));
    assert_eq!(old.published(), &first);
    lock.throw_away(&Pack::open(room.path(), home, second).expect("opens")).expect("thrown away");
    assert!(!Pack::path_in(room.path()).exists());
}
