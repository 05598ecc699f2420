//! Group commit: threads whose durable transactions share their syncs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use duolog::HomeId;
use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{OpenState, Page, State};
use duolog_types::Durability;

use super::rows;
use crate::bench::Bench;
use crate::measure::{Figure, Target, in_turns};

const THREADS: usize = 16;

/// Sixteen threads against one: how many syncs they need, and how much they get done.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let room = bench.room();
    let state = State::open(OpenState::at(room.path())).expect("a state");
    rows::fill(&state, HomeId::new(), THREADS);
    let each = bench.size(50, 4);
    // Instants only go forward, so every touch changes its row.
    let instant = Arc::new(AtomicUsize::new(THREADS));
    let work = |thread: usize, count: usize| {
        for _ in 0..count {
            let at = rows::updated_at(instant.fetch_add(1, Relaxed));
            let id = rows::id_of(thread);
            state.write(Durability::Power, move |tx| sessions::touch(tx, &id, at)).expect("committed");
        }
    };
    let together = || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let work = &work;
                scope.spawn(move || work(thread, each));
            }
        });
    };
    let (mut syncs, mut transactions) = (0, 0);
    let pairs = in_turns(
        bench.size(31, 1),
        (THREADS * each, each),
        || {
            let before = state.counters();
            together();
            let after = state.counters();
            syncs += after.power_commits - before.power_commits;
            transactions += after.transactions - before.transactions;
        },
        || work(0, each),
    );
    assert_eq!(transactions as usize, THREADS * each * (bench.size(31, 1) + 1), "each ran once");
    let latest = state.read(|tx| sessions::list(tx, &SessionFilter::default(), &Page::default())).expect("rows");
    assert!(latest.len() == THREADS && latest.iter().all(|row| row.updated_at >= rows::updated_at(THREADS)));
    vec![
        Figure::counted(
            "group/syncs",
            "synced commits of 16 threads / their durable transactions",
            syncs as f64,
            transactions as f64,
            Target::AtMost(0.125),
        ),
        pairs.speed(
            "group/throughput",
            "durable transactions of 16 threads / of one (times are for one transaction)",
            Target::AtLeast(5.0),
        ),
    ]
}
