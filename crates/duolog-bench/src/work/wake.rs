//! From an append to a follower in the same process that has the line in hand.

use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use duolog::{Durability, Seen};

use crate::bench::{Bench, store_in};
use crate::events;
use crate::measure::{Figure, Pairs, Target};

/// How long both sides are left alone before a line comes: a follower that waits is what is measured.
const PAUSE: Duration = Duration::from_micros(200);

/// Append and delivery against a bare condition variable.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let rounds = bench.size(2001, 5);
    let room = bench.room();
    let (store, session) = store_in(room.path());
    let log = store.log(&session.id);
    let batches = events::batches(16, 1);
    let bell = (Mutex::new(0_usize), Condvar::new());
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let (delivered, deliveries) = channel();
        let mut follow = log.follow(None).expect("a follower");
        scope.spawn(move || {
            let mut seen = 0;
            while seen < rounds {
                let before = seen;
                let polled = follow.poll(&mut |_| seen += 1).expect("polled");
                if polled == Seen::Idle {
                    follow.wait(Duration::from_secs(5));
                }
                for _ in before..seen {
                    delivered.send(Instant::now()).expect("someone listens");
                }
            }
        });
        let (rang, rings) = channel();
        let (count, changed) = &bell;
        scope.spawn(move || {
            for round in 1..=rounds {
                let mut at = count.lock().expect("locked");
                while *at < round {
                    at = changed.wait(at).expect("locked");
                }
                drop(at);
                rang.send(Instant::now()).expect("someone listens");
            }
        });
        for round in 0..rounds {
            std::thread::sleep(PAUSE);
            let start = Instant::now();
            log.append(&batches[round % batches.len()], Durability::Process).expect("appended");
            ours.push((deliveries.recv().expect("delivered") - start).as_nanos() as f64);
            std::thread::sleep(PAUSE);
            let start = Instant::now();
            *count.lock().expect("locked") += 1;
            changed.notify_all();
            limit.push((rings.recv().expect("rang") - start).as_nanos() as f64);
        }
    });
    let what = "append until a follower has the line / notify until a thread wakes";
    vec![Pairs::of(ours, limit).cost("wake/follower", what, Target::Told)]
}
