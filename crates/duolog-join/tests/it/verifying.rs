use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use duolog_join::{Damage, DamageKind, Join, Repaired, SealMismatch, Verified};
use duolog_state::owned::repairs::RepairAction;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{SEAL_BLOCK_BYTES, SEAL_BYTES};
use duolog_types::{Durability, Epoch, Position, SessionId};
use proptest::prelude::*;

use crate::kit::{PROCESS, batch, open, open_at, put, session};

on_both_engines!(a_growing_seal_keeps_its_block_hashes);

const BLOCK: u64 = SEAL_BLOCK_BYTES;
const BLOCK_LEN: usize = 4096;
const SEAL_LEN: usize = 1 << 20;

/// A sealed log that is damaged and verified many times.
struct Sealed {
    join: Arc<Join>,
    id: SessionId,
    path: PathBuf,
    text: Vec<u8>,
    _dir: Option<tempfile::TempDir>,
}

fn line(number: usize) -> String {
    let words = ["milk", "a longer word", "bread and butter, and more of it", ""][number % 4];
    format!("{{\"n\":{number},\"text\":\"{}\"}}", words.repeat(1 + number % 7))
}

/// Returns lines of at least this many bytes in total.
fn lines_of(bytes: usize) -> Vec<String> {
    let (mut lines, mut sum) = (Vec::new(), 0);
    while sum < bytes {
        let line = line(lines.len());
        sum += line.len() + 1;
        lines.push(line);
    }
    lines
}

impl Sealed {
    fn of(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let join = open_at(dir.path());
        let id = session(&join, "s");
        let lines = lines_of(bytes);
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        join.append(&id, &batch(&lines), &PROCESS).unwrap();
        join.catch_up(u64::MAX).unwrap();
        let path = dir.path().join("sessions/threads/s.jsonl");
        let text = std::fs::read(&path).unwrap();
        let sealed = Self { join, id, path, text, _dir: Some(dir) };
        let clean = sealed.verify();
        assert_eq!((BLOCK_LEN as u64, SEAL_LEN as u64), (SEAL_BLOCK_BYTES, SEAL_BYTES));
        assert_eq!((clean.sealed_to.0, clean.damaged), (sealed.text.len() as u64, 0));
        assert_eq!(clean.seals, clean.end.0.div_ceil(SEAL_BYTES));
        sealed
    }

    fn verify(&self) -> Verified {
        self.join.verify(&self.id, |_, _| {}).unwrap()
    }

    /// Verifies other bytes in place of the log, and restores the log afterwards.
    fn with(&self, bytes: &[u8]) -> Verified {
        std::fs::write(&self.path, bytes).unwrap();
        let verified = self.verify();
        std::fs::write(&self.path, &self.text).unwrap();
        verified
    }

    /// Returns the start of each line.
    fn starts(&self) -> Vec<usize> {
        let ends = self.text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        std::iter::once(0).chain(ends).filter(|start| *start < self.text.len()).collect()
    }

    fn flipped(&self, at: usize) -> Vec<u8> {
        let mut bytes = self.text.clone();
        bytes[at] ^= 1;
        bytes
    }

    /// Returns the only place that does not match its seal. It must begin before the first differing byte, in the right
    /// line.
    fn only(&self, bytes: &[u8]) -> Damage {
        let found = self.with(bytes);
        let places = sealed_places(&found);
        assert_eq!(places.len(), 1, "{found:?}");
        self.check(places[0], bytes);
        places[0]
    }

    fn check(&self, place: Damage, bytes: &[u8]) {
        let first = self.text.iter().zip(bytes).position(|(ours, theirs)| ours != theirs);
        let first = first.unwrap_or(bytes.len().min(self.text.len())) as u64;
        assert!(place.from.0 <= first && first < place.first_to.0, "{first} in {place:?}");
        assert!(place.first_to.0 - place.from.0 <= BLOCK, "{place:?}");
        let before = |at: u64| &bytes[..usize::try_from(at).unwrap().min(bytes.len())];
        let line_of = |at: u64| line_number(before(at));
        assert_eq!(place.line, line_of(place.from.0), "{place:?}");
        let start = before(place.from.0).iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        assert_eq!(place.line_start.0, start as u64, "{place:?}");
        assert!((place.line..=place.line_to).contains(&line_of(first)), "{place:?}");
    }
}

/// Returns the number of the line after these bytes.
fn line_number(before: &[u8]) -> u64 {
    before.split(|byte| *byte == b'\n').count() as u64
}

fn sealed_places(found: &Verified) -> Vec<Damage> {
    let places = found.places.iter().copied();
    places.filter(|place| !matches!(place.kind, DamageKind::Line(_))).collect()
}

fn change(place: Damage) -> SealMismatch {
    match place.kind {
        DamageKind::Seal(change) => change,
        other => panic!("{other:?}"),
    }
}

/// One block; several blocks of one seal; several seals, of which the last is not full.
fn logs() -> [Sealed; 3] {
    [700, 22_000, 2_500_000].map(Sealed::of)
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is_in_its_block() {
    for log in logs() {
        let (len, block, seal) = (log.text.len(), BLOCK_LEN, SEAL_LEN);
        let last_block = (len - 1) / block * block;
        let at =
            [0, 1, block / 2, block - 1, block, 2 * block - 1, seal - 1, seal, seal + block, 2 * seal - 1, last_block]
                .into_iter()
                .chain([last_block + 1, len - 40, len - 2, len - 1])
                .filter(|at| *at < len);
        for at in at {
            let place = log.only(&log.flipped(at));
            let from = at / block * block;
            assert_eq!(
                (place.from.0, place.first_to.0),
                (from as u64, (from + block).min(len) as u64),
                "{at} of {len}"
            );
            let last_line = at >= *log.starts().last().unwrap();
            let expected = if last_line { SealMismatch::Unclear } else { SealMismatch::InPlace };
            assert_eq!(change(place), expected, "{at} of {len}");
        }
    }
}

#[test]
fn changes_far_apart_are_separate_places() {
    let log = Sealed::of(2_500_000);
    let mut bytes = log.text.clone();
    for at in [10, 3 * BLOCK_LEN, SEAL_LEN - 1, SEAL_LEN, 2_400_000] {
        bytes[at] ^= 1;
    }
    let found = log.with(&bytes);
    // The last byte of one seal and the first of the next are one place.
    let from: Vec<_> = sealed_places(&found).iter().map(|place| place.from.0).collect();
    assert_eq!(from, [0, 3 * BLOCK, SEAL_BYTES - BLOCK, 2_400_000 / BLOCK * BLOCK]);
    assert!(sealed_places(&found).iter().all(|place| change(*place) == SealMismatch::InPlace));
    assert_eq!(
        found.damaged - found.places.iter().filter(|place| matches!(place.kind, DamageKind::Line(_))).count() as u64,
        4
    );
}

#[test]
fn a_removed_line_is_distinguished_from_a_changed_one() {
    for log in logs() {
        let starts = log.starts();
        for number in [0, 1, starts.len() / 3, starts.len() / 2, starts.len() - 2] {
            let (from, to) = (starts[number], starts[number + 1]);
            let bytes = [&log.text[..from], &log.text[to..]].concat();
            let place = log.only(&bytes);
            assert_eq!(change(place), SealMismatch::Removed { bytes: (to - from) as u64 }, "line {number}");
            assert!(place.to.0 >= to as u64 && place.to.0 - (to as u64) <= BLOCK, "{place:?}");
            // The same with lines that were appended since and are not folded.
            let more = [&bytes[..], b"{\"later\":1}\n{\"later\":2}\n"].concat();
            assert_eq!(change(log.only(&more)), change(place), "line {number}");
        }
    }
}

#[test]
fn an_inserted_line_is_distinguished_from_a_changed_one() {
    for log in logs() {
        let starts = log.starts();
        for number in [0, 1, starts.len() / 2, starts.len() - 1] {
            let (before, after) = log.text.split_at(starts[number]);
            let bytes = [before, b"{\"forged\":true}\n", after].concat();
            let place = log.only(&bytes);
            assert_eq!(change(place), SealMismatch::Inserted { bytes: 16 }, "line {number}");
            assert!(place.to.0 - place.from.0 <= BLOCK, "{place:?}");
        }
    }
}

#[test]
fn swapped_lines_are_changed_or_reordered() {
    for log in logs() {
        let starts = log.starts();
        for number in [0, 1, starts.len() / 2, starts.len() - 4] {
            let (a, b, c) = (starts[number], starts[number + 1], starts[number + 2]);
            let bytes = [&log.text[..a], &log.text[b..c], &log.text[a..b], &log.text[c..]].concat();
            let place = log.only(&bytes);
            assert_eq!(change(place), SealMismatch::InPlace, "lines {number} and the next");
            assert!(place.to_string().starts_with("changed or reordered"), "{place}");
        }
        // The last two: no later bytes show that they have not moved.
        let (a, b) = (starts[starts.len() - 2], starts[starts.len() - 1]);
        let bytes = [&log.text[..a], &log.text[b..], &log.text[a..b]].concat();
        assert_ne!(change(log.only(&bytes)), SealMismatch::InPlace);
    }
}

#[test]
fn a_cut_tail_is_missing_from_where_it_was_cut() {
    for log in logs() {
        let (starts, len) = (log.starts(), log.text.len());
        for cut in [starts[starts.len() - 1], starts[starts.len() / 2], len - 5, len - 1, 3, 0] {
            let found = log.with(&log.text[..cut]);
            let places = sealed_places(&found);
            assert_eq!(places.len(), 1, "cut at {cut}: {found:?}");
            let place = places[0];
            assert_eq!((place.from.0, place.to.0), (cut as u64, len as u64));
            let block = cut as u64 / BLOCK * BLOCK;
            assert_eq!(place.kind, DamageKind::Missing { unchecked_from: Position(block) });
            assert_eq!(place.line, line_number(&log.text[..cut]));
        }
        std::fs::remove_file(&log.path).unwrap();
        let found = log.verify();
        assert_eq!((found.damaged, found.places[0].to.0), (1, len as u64));
    }
}

#[test]
fn a_change_before_a_removed_line_or_a_cut_is_a_separate_place() {
    let log = Sealed::of(22_000);
    let starts = log.starts();
    let (from, to) = (starts[starts.len() - 20], starts[starts.len() - 19]);
    let flipped = log.flipped(5);
    let removed = [&flipped[..from], &flipped[to..]].concat();
    let places = sealed_places(&log.with(&removed));
    let changes: Vec<_> = places.iter().map(|place| change(*place)).collect();
    assert_eq!(changes, [SealMismatch::InPlace, SealMismatch::Removed { bytes: (to - from) as u64 }]);
    let places = sealed_places(&log.with(&flipped[..from]));
    assert_eq!(change(places[0]), SealMismatch::InPlace);
    assert!(matches!(places[1].kind, DamageKind::Missing { .. }) && places.len() == 2);
}

#[test]
fn a_seal_without_block_hashes_is_compared_as_a_whole() {
    let log = Sealed::of(2_500_000);
    let forget = |ord: u64| {
        let sql = "UPDATE seals SET blocks = NULL WHERE ord = ?1";
        log.join.state().write(Durability::Process, move |tx| tx.execute(sql, duolog_state::params![ord])).unwrap();
    };
    forget(1);
    assert_eq!(log.verify().damaged, 0);
    let place = sealed_places(&log.with(&log.flipped(SEAL_LEN + 9)))[0];
    assert_eq!((place.from.0, place.first_to.0), (SEAL_BYTES, 2 * SEAL_BYTES));
    let starts = log.starts();
    let removed = [&log.text[..starts[5]], &log.text[starts[6]..]].concat();
    let bytes = (starts[6] - starts[5]) as u64;
    assert_eq!(change(log.only(&removed)), SealMismatch::Removed { bytes });
    (0..3).for_each(forget);
    let place = sealed_places(&log.with(&removed))[0];
    assert_eq!(change(place), SealMismatch::Removed { bytes });
    assert_eq!(place.to.0, SEAL_BYTES, "the seals after it match, moved");
    // It grows, and has block hashes from then on.
    put(&log.join, &log.id, "{\"more\":1}");
    log.join.catch_up(u64::MAX).unwrap();
    assert_eq!(log.verify().damaged, 0);
    let grown = std::fs::read(&log.path).unwrap();
    let mut flipped = grown.clone();
    flipped[2 * SEAL_LEN + 9] ^= 1;
    std::fs::write(&log.path, &flipped).unwrap();
    let place = sealed_places(&log.verify())[0];
    assert_eq!((place.from.0, place.first_to.0), (2 * SEAL_BYTES, 2 * SEAL_BYTES + BLOCK));
}

fn a_growing_seal_keeps_its_block_hashes(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    // The seal grows by a line at a time, across the ends of blocks.
    for chunk in lines_of(3 * BLOCK_LEN).chunks(3) {
        let chunk: Vec<_> = chunk.iter().map(String::as_str).collect();
        join.append(&id, &batch(&chunk), &PROCESS).unwrap();
        join.catch_up(u64::MAX).unwrap();
    }
    let path = place.home().join("sessions/threads/s.jsonl");
    let text = std::fs::read(&path).unwrap();
    let log = Sealed { join, id, path, text, _dir: None };
    assert_eq!((log.verify().seals, log.verify().damaged), (1, 0));
    for at in [0, BLOCK_LEN - 1, BLOCK_LEN, 3 * BLOCK_LEN - 1] {
        assert_eq!(log.only(&log.flipped(at)).from.0, at as u64 / BLOCK * BLOCK);
    }
}

/// Repairs a log of other bytes.
fn repaired(log: &Sealed, bytes: &[u8]) -> Repaired {
    std::fs::write(&log.path, bytes).unwrap();
    let repaired = log.join.repair(&log.id).unwrap();
    assert_eq!(repaired.left, log.verify());
    assert_eq!(log.join.repair(&log.id).unwrap().done, [], "a second repair does nothing");
    repaired
}

fn actions(repaired: &Repaired) -> Vec<RepairAction> {
    repaired.done.iter().map(|row| row.repair.action).collect()
}

#[test]
fn a_repair_keeps_and_reports_changed_and_swapped_lines() {
    for bytes in [700, 22_000] {
        let log = Sealed::of(bytes);
        let starts = log.starts();
        let swapped = [
            &log.text[..starts[1]],
            &log.text[starts[2]..starts[3]],
            &log.text[starts[1]..starts[2]],
            &log.text[starts[3]..],
        ]
        .concat();
        for damaged in [log.flipped(20), swapped] {
            let repaired = repaired(&log, &damaged);
            assert_eq!((repaired.epoch, actions(&repaired)), (Epoch(0), vec![]));
            assert_eq!(repaired.left, repaired.found);
            assert_eq!(sealed_places(&repaired.left).len(), 1);
            assert_eq!(std::fs::read(&log.path).unwrap(), damaged, "no byte was changed");
        }
    }
}

#[test]
fn a_repair_accepts_removed_and_inserted_lines_and_records_them() {
    for bytes in [700, 22_000] {
        let log = Sealed::of(bytes);
        let starts = log.starts();
        let removed = [&log.text[..starts[3]], &log.text[starts[4]..]].concat();
        let first = repaired(&log, &removed);
        assert_eq!((first.epoch, actions(&first)), (Epoch(1), vec![RepairAction::Shorter]));
        let detail = first.done[0].repair.detail.clone().unwrap();
        assert!(detail.contains(&format!("{} bytes are missing here", starts[4] - starts[3])), "{detail}");
        assert_eq!((first.left.damaged, first.left.sealed_to.0), (0, removed.len() as u64));
        assert_eq!(std::fs::read(&log.path).unwrap(), removed);

        let inserted = [&removed[..starts[2]], b"{\"forged\":true}\n", &removed[starts[2]..]].concat();
        let second = repaired(&log, &inserted);
        assert_eq!((second.epoch, actions(&second)), (Epoch(2), vec![RepairAction::Replaced]));
        let detail = second.done[0].repair.detail.clone().unwrap();
        assert!(detail.contains("16 bytes are too many here"), "{detail}");
        assert_eq!((second.left.damaged, second.left.sealed_to.0), (0, inserted.len() as u64));
        assert_eq!(std::fs::read(&log.path).unwrap(), inserted);
    }
}

#[test]
fn a_repair_of_a_cut_tail_keeps_the_rest() {
    for bytes in [700, 22_000] {
        let log = Sealed::of(bytes);
        let starts = log.starts();
        let at_a_line = &log.text[..starts[starts.len() - 3]];
        let first = repaired(&log, at_a_line);
        assert_eq!((first.epoch, actions(&first)), (Epoch(1), vec![RepairAction::Shorter]));
        assert!(first.done[0].repair.detail.clone().unwrap().contains("cut off"));
        assert_eq!((first.left.damaged, first.left.torn_bytes), (0, 0));
        assert_eq!(std::fs::read(&log.path).unwrap(), at_a_line);

        // Inside a line: it was sealed, so the rest of it stays and gets a newline. The loss is recorded; the new seals
        // cover an unreadable line.
        let inside = &at_a_line[..at_a_line.len() - 4];
        let second = repaired(&log, inside);
        assert_eq!((second.epoch, actions(&second)), (Epoch(2), vec![RepairAction::Shorter, RepairAction::Terminated]));
        assert_eq!(std::fs::read(&log.path).unwrap(), [inside, b"\n"].concat());
        assert_eq!((second.left.damaged, second.left.unsynced, second.left.losses.len()), (0, 1, 2));
        assert!(matches!(second.left.places[..], [Damage { kind: DamageKind::Line(_), .. }]), "{:?}", second.left);
    }
}

#[test]
fn a_changed_last_newline_loses_no_byte() {
    let log = Sealed::of(700);
    let last = *log.starts().last().unwrap();
    let repaired = repaired(&log, &log.flipped(log.text.len() - 1));
    assert_eq!(actions(&repaired), [RepairAction::Replaced, RepairAction::Quarantined]);
    assert_eq!(repaired.left.damaged, 0);
    assert_eq!(std::fs::read(&log.path).unwrap(), &log.text[..last]);
    let torn = std::fs::read(duolog_log::torn_path(&log.path)).unwrap();
    let line = &log.text[last..log.text.len() - 1];
    assert!(torn.windows(line.len()).any(|window| window == line), "the cut bytes are in the .torn file");
}

/// One log for all cases: creating it takes longer than verifying it.
fn shared() -> &'static Sealed {
    static SHARED: OnceLock<Sealed> = OnceLock::new();
    SHARED.get_or_init(|| Sealed::of(50_000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Each case writes the log again, so they run one after the other: proptest has one thread.
    #[test]
    fn any_changed_byte_is_found_within_a_block(at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let log = shared();
        let (at, mut bytes) = (at.index(log.text.len()), log.text.clone());
        bytes[at] ^= by;
        let place = log.only(&bytes);
        prop_assert!(place.from.0 <= at as u64 && (at as u64) < place.first_to.0);
        prop_assert!(place.first_to.0 - place.from.0 <= BLOCK);
    }
}
