use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use duolog_log::{Draft, Place, Recent, Watermark, Writer, sweep_drafts};
use duolog_testkit::{CallKind, Crash, Loss, SimDisk};
use duolog_types::limits::Limits;

use crate::kit::{self, LOG, POWER, PROCESS, batch, place, put};

const THREADS: usize = 16;
const EACH: usize = 50;

/// The first sync waits until every thread has written, so that the next sync is shared.
#[test]
fn one_sync_covers_exactly_the_callers_that_had_written() {
    let disk = SimDisk::new();
    let (log, _) = Writer::open(&disk.as_disk(), &place(), &Watermark::default(), &Limits::default()).unwrap();
    let appends = Arc::new((Mutex::new(0_usize), Condvar::new()));
    disk.on_call(Arc::new(move |call| {
        let (count, grown) = &*appends;
        match call.kind {
            CallKind::Append => {
                *count.lock().unwrap() += 1;
                grown.notify_all();
            }
            CallKind::Sync => {
                drop(grown.wait_while(count.lock().unwrap(), |count| *count < THREADS).unwrap());
            }
            _ => {}
        }
    }));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, disk) = (&log, &disk);
            scope.spawn(move || {
                for number in 0..EACH {
                    let line = format!("{{\"thread\":{thread},\"n\":{number}}}\n");
                    let done = log.append(&batch(&line), &POWER).expect("appends");
                    assert!(done.synced.expect("asked for").position() >= done.end);
                    // A power cut checks the acknowledgement.
                    let device = disk.crash(Crash::Power(Loss::DropUnsynced)).read(LOG).expect("its name is synced");
                    let (start, end) = (usize::try_from(done.start.0).unwrap(), usize::try_from(done.end.0).unwrap());
                    assert_eq!(device.get(start..end), Some(line.as_bytes()));
                }
            });
        }
    });
    let count = |kind| disk.calls().iter().filter(|call| call.kind == kind).count();
    let (appends, syncs) = (count(CallKind::Append), count(CallKind::Sync));
    assert_eq!(appends, THREADS * EACH);
    assert!(syncs <= appends - (THREADS - 3), "{syncs} syncs for {appends} appends: the first round is shared");
    let text = kit::read(&disk);
    for thread in 0..THREADS {
        let prefix = format!("{{\"thread\":{thread},\"n\":");
        let numbers: Vec<usize> =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix('}')?.parse().ok()).collect();
        assert!(numbers.iter().copied().eq(0..EACH), "thread {thread}: {numbers:?}");
    }
}

#[test]
fn the_number_of_open_logs_is_limited() {
    let disk = SimDisk::new();
    let writers = Recent::new(2);
    let paths: Vec<PathBuf> = (0..4).map(|n| PathBuf::from(format!("scope/{n}.jsonl"))).collect();
    let open = |path: &PathBuf| {
        let known = Watermark::default();
        let writer = Writer::open(&disk.as_disk(), &Place::file(path), &known, &kit::limits()).unwrap().0;
        writers.trim(1);
        writers.keep(path.clone(), writer)
    };
    let first = open(&paths[0]);
    put(&first, "{\"a\":1}");
    for path in &paths[1..] {
        put(&open(path), "{}");
        assert_eq!(writers.all().len(), 2);
    }
    assert!(Arc::ptr_eq(&writers.get(&paths[0]).unwrap(), &first), "a writer in use stays");
    assert!(writers.get(&paths[1]).is_none() && writers.get(&paths[3]).is_some());

    // A released writer that is in use still works beside its successor.
    writers.let_go(&paths[0], &first);
    let again = open(&paths[0]);
    assert!(!Arc::ptr_eq(&again, &first));
    for _ in 0..2 {
        first.append(&batch("{\"old\":1}"), &PROCESS).unwrap();
        again.append(&batch("{\"new\":1}"), &PROCESS).unwrap();
    }
    let text = String::from_utf8(disk.read(&paths[0]).unwrap()).unwrap();
    assert_eq!(text, "{\"a\":1}\n{\"old\":1}\n{\"new\":1}\n{\"old\":1}\n{\"new\":1}\n");
    writers.let_go(&paths[0], &first);
    assert!(Arc::ptr_eq(&writers.get(&paths[0]).unwrap(), &again), "only the given writer is released");
}

/// A sweep checks a draft between its creation and its lock, with either order of the locks.
#[test]
fn a_draft_that_is_swept_before_its_lock_is_created_again() {
    for kind in [CallKind::Lock, CallKind::Stat] {
        let disk = SimDisk::new();
        let (other, swept) = (disk.process().as_disk(), AtomicBool::new(false));
        disk.on_call(Arc::new(move |call| {
            let of_draft = call.path.to_string_lossy().contains(".import-");
            if of_draft && call.kind == kind && !swept.swap(true, Ordering::SeqCst) {
                sweep_drafts(&*other).unwrap();
            }
        }));
        let mut draft = Draft::new(&disk.as_disk(), "one", Duration::from_secs(20));
        draft.line(b"{}").unwrap();
        draft.sync().unwrap();
        draft.rename_to("sessions/threads/one.jsonl".as_ref()).unwrap();
        draft.keep();
        assert_eq!(disk.read("sessions/threads/one.jsonl").as_deref(), Some(&b"{}\n"[..]), "swept before {kind:?}");
    }
}
