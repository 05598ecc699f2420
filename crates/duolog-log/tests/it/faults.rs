use duolog_log::{Error, Writer};
use duolog_testkit::disk::{EIO, ENOSPC};
use duolog_testkit::{CallKind, Crash, Fault, Loss, SimDisk};
use duolog_types::Durability;

use crate::kit::{self, LOG, POWER, PROCESS, batch, open, put, raw, reopen, rewrite_log, writer};

/// An attempted batch and its outcome.
struct Attempt {
    text: String,
    durability: Durability,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The batch is in the log.
    Acknowledged,
    /// No line of it is in the log.
    Refused,
    /// The process died during the append, or the sync failed: some complete lines may be in the log.
    Unknown,
}

/// A program that opens a log, appends, meets a fragment and a poisoned log, and handles errors as a store does.
#[derive(Default)]
struct Script {
    attempts: Vec<Attempt>,
    fragment: Vec<u8>,
}

const FRAGMENT: &str = "{\"torn\":\"é";

impl Script {
    fn run(disk: &SimDisk) -> Self {
        let mut script = Self::default();
        let mut log = None;
        script.append(disk, &mut log, 2, Durability::Process);
        script.append(disk, &mut log, 2, Durability::Power);
        script.append(disk, &mut log, 1, Durability::Process);
        script.leave_fragment(disk);
        script.append(disk, &mut log, 2, Durability::Power);
        script.append(disk, &mut log, 1, Durability::Process);
        if let Ok(file) = raw(disk) {
            let _ = file.set_mode(0o400);
        }
        script.append(disk, &mut log, 1, Durability::Process);
        script.append(disk, &mut log, 2, Durability::Process);
        script.append(disk, &mut log, 1, Durability::Power);
        script.append(disk, &mut log, 2, Durability::Process);
        script
    }

    fn append(&mut self, disk: &SimDisk, log: &mut Option<Writer>, lines: usize, durability: Durability) {
        let number = self.attempts.len();
        let text = (0..lines).map(|line| format!("{{\"n\":\"{number}.{line} é\"}}\n")).collect::<Vec<_>>().concat();
        let outcome = match log.take().map_or_else(|| Self::open(disk), Ok) {
            Err(_) => Outcome::Refused,
            Ok(writer) => {
                let how = if durability == Durability::Power { &POWER } else { &PROCESS };
                match writer.append(&batch(&text), how) {
                    Ok(_) => {
                        *log = Some(writer);
                        Outcome::Acknowledged
                    }
                    Err(error) if kit::is_process_stopped(&error) || matches!(error, Error::Poisoned(_)) => {
                        Outcome::Unknown
                    }
                    Err(Error::Replaced(_) | Error::Shrunk { .. }) => Outcome::Refused,
                    Err(_) => {
                        *log = Some(writer);
                        Outcome::Refused
                    }
                }
            }
        };
        self.attempts.push(Attempt { text, durability, outcome });
    }

    fn open(disk: &SimDisk) -> duolog_log::Result<Writer> {
        match open(disk) {
            Err(Error::Poisoned(_)) => {
                rewrite_log(disk)?;
                Ok(open(disk)?.0)
            }
            other => Ok(other?.0),
        }
    }

    fn leave_fragment(&mut self, disk: &SimDisk) {
        let before = disk.read(LOG).unwrap_or_default();
        if let Ok(file) = raw(disk) {
            let _ = file.append(FRAGMENT.as_bytes());
        }
        self.fragment = disk.read(LOG).unwrap_or_default()[before.len()..].to_vec();
    }

    /// Checks the log after a crash. `must` returns true for the acknowledgements that must be kept.
    fn check(&self, image: &SimDisk, what: &str, must: impl Fn(usize) -> bool, cut_at_end: bool) {
        drop(reopen(image));
        let found = kit::read(image);
        let mut rest = found.as_str();
        let mut ended = false;
        for (number, attempt) in self.attempts.iter().enumerate() {
            let lines: Vec<&str> = attempt.text.split_inclusive('\n').collect();
            let mut there = 0;
            while there < lines.len() && rest.starts_with(lines[there]) {
                rest = &rest[lines[there].len()..];
                there += 1;
            }
            let complete = there == lines.len();
            if must(number) {
                assert!(complete, "{what}: batch {number} was acknowledged and is not there:\n{found}");
            } else if !cut_at_end {
                assert!(
                    attempt.outcome != Outcome::Refused || there == 0,
                    "{what}: batch {number} was refused:\n{found}"
                );
            }
            assert!(there == 0 || !ended, "{what}: a hole before batch {number}:\n{found}");
            ended |= attempt.outcome == Outcome::Acknowledged && !complete;
        }
        assert_eq!(rest, "", "{what}: bytes that were never appended, or are there twice:\n{found}");

        let before = image.snapshot();
        drop(reopen(image));
        assert_eq!(image.snapshot(), before, "{what}: recovering twice changes no byte");
        put(&writer(image), "{\"next\":1}");
        assert_eq!(kit::read(image), format!("{found}{{\"next\":1}}\n"), "{what}");
    }

    fn check_all(&self, disk: &SimDisk, what: &str) {
        let image = disk.crash(Crash::Process);
        self.check(&image, what, |n| self.attempts[n].outcome == Outcome::Acknowledged, false);
        let saved = image.read(kit::torn()).unwrap_or_default();
        let fragment = &self.fragment[..];
        let is_saved = fragment.is_empty() || saved.windows(fragment.len()).any(|at| at == fragment);
        assert!(is_saved, "{what}: every removed byte is in the .torn file");

        // A sync covers all bytes that were written before it, by any process.
        let synced =
            self.attempts.iter().rposition(|t| t.outcome == Outcome::Acknowledged && t.durability == Durability::Power);
        let must = |n: usize| Some(n) <= synced && self.attempts[n].outcome == Outcome::Acknowledged;
        for loss in Loss::all(4) {
            let image = disk.crash(Crash::Power(loss));
            self.check(&image, &format!("{what}, then {loss:?}"), must, true);
        }
    }
}

/// Returns the calls of a run without a fault.
fn calls() -> Vec<duolog_testkit::Call> {
    let disk = SimDisk::new();
    let script = Script::run(&disk);
    script.check_all(&disk, "no fault");
    let refused: Vec<_> =
        (0..).zip(&script.attempts).filter(|(_, t)| t.outcome != Outcome::Acknowledged).map(|(n, _)| n).collect();
    assert_eq!(refused, [5], "only the append to the poisoned log");
    disk.calls()
}

#[test]
fn an_error_at_any_call_loses_nothing_that_was_acknowledged() {
    for call in calls() {
        for errno in [EIO, ENOSPC] {
            let disk = SimDisk::new();
            disk.fail_at(call.index, Fault::Error(errno));
            Script::run(&disk).check_all(&disk, &format!("error {errno} at {call:?}"));
        }
    }
}

#[test]
fn a_disk_that_fails_from_any_call_on_loses_nothing_that_was_acknowledged() {
    use CallKind::{Append, Create, CreateDir, Rename, SetLen, SetMode, Sync, SyncDir};
    for call in calls() {
        for errno in [EIO, ENOSPC] {
            let disk = SimDisk::new();
            let of = disk.clone();
            disk.on_call(std::sync::Arc::new(move |now| {
                if now.index + 1 == call.index {
                    for kind in [Append, Create, CreateDir, Rename, SetLen, SetMode, Sync, SyncDir] {
                        of.fail_every(kind, Fault::Error(errno));
                    }
                }
            }));
            Script::run(&disk).check_all(&disk, &format!("error {errno} from {} on", call.index));
        }
    }
}

#[test]
fn a_process_that_dies_at_any_call_and_any_byte_loses_nothing_that_was_acknowledged() {
    for call in calls() {
        let bytes = if call.kind == CallKind::Append { usize::try_from(call.len).unwrap() } else { 0 };
        for after_bytes in std::iter::once(None).chain((1..=bytes).map(Some)) {
            let disk = SimDisk::new();
            disk.fail_at(call.index, Fault::Stop { after_bytes });
            let script = Script::run(&disk);
            assert!(disk.has_stopped());
            script.check_all(&disk, &format!("stopped after {after_bytes:?} bytes of {call:?}"));
        }
    }
}

#[test]
fn a_write_that_comes_up_short_at_any_byte_is_taken_back() {
    for call in calls().into_iter().filter(|call| call.kind == CallKind::Append) {
        for bytes in 0..usize::try_from(call.len).unwrap() {
            let disk = SimDisk::new();
            disk.fail_at(call.index, Fault::Short(bytes));
            Script::run(&disk).check_all(&disk, &format!("{bytes} bytes of {call:?}"));
        }
    }
}
