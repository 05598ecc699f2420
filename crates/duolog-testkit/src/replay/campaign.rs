//! Pauses and kills at every step of every command, or at a random sample.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::home::Binary;
use super::shim::Shim;
use super::stopped::{self, Case};
use super::targets::{Prepared, meanwhile, targets};
use super::{killed, steps};
use crate::postgres::Access;
use crate::random::{Random, mix};

/// The cases to run.
#[derive(Clone, Debug)]
pub struct Cases {
    /// The real binary.
    pub binary: PathBuf,
    /// The seed of the sample.
    pub seed: u64,
    /// The size of the sample; none: all cases.
    pub cases: Option<usize>,
    /// Only the command of this name.
    pub only: Option<String>,
    /// A server on which every case gets its own database; none: the state is in SQLite.
    pub store: Option<Access>,
}

/// Stops commands at their steps while others run. Returns the number of cases.
pub fn pauses(cases: &Cases) -> Result<usize, String> {
    let binary = binary(cases);
    let prepared = Prepared::make(&binary, cases.store.as_ref())?;
    let others = meanwhile(&prepared.places(Path::new(""))).len();
    let mut all = Vec::new();
    for (target, steps) in steps_of_all(&binary, &prepared, cases)? {
        for other in 0..others {
            all.extend((1..=steps).map(|step| Case { target, other, step }));
        }
    }
    try_all(&sample(all, cases.cases, cases.seed), |case| stopped::run(&binary, &prepared, *case))
}

/// Kills commands at their steps and repeats them. Returns the number of cases.
pub fn kills(cases: &Cases) -> Result<usize, String> {
    let binary = binary(cases);
    let prepared = Prepared::make(&binary, cases.store.as_ref())?;
    let mut all = Vec::new();
    for (target, steps) in steps_of_all(&binary, &prepared, cases)? {
        all.extend((1..=steps).map(|step| (target, step)));
    }
    try_all(&sample(all, cases.cases, cases.seed), |(target, step)| killed::run(&binary, &prepared, *target, *step))
}

pub(super) fn binary(cases: &Cases) -> Binary {
    Binary { path: cases.binary.clone(), shim: Arc::new(Shim::build()) }
}

/// Counts the steps of each selected command.
fn steps_of_all(binary: &Binary, prepared: &Prepared, cases: &Cases) -> Result<Vec<(usize, u32)>, String> {
    let meant = |name: &str| cases.only.as_ref().is_none_or(|only| name == only);
    let names: Vec<&str> = targets(&prepared.places(Path::new(""))).iter().map(|target| target.0).collect();
    let mut counted = Vec::new();
    for target in (0..names.len()).filter(|at| meant(names[*at])) {
        let copied = prepared.copy(binary)?;
        let order = targets(&prepared.places(copied.scratch.path())).swap_remove(target).1;
        let words: Vec<&str> = order.arguments.iter().map(String::as_str).collect();
        let (_, steps) = steps::of(&copied.home, &words, None);
        if steps.is_empty() {
            return Err("the shim sees no step of a command: the binary does not use the C library".to_owned());
        }
        counted.push((target, u32::try_from(steps.len()).expect("a small number")));
    }
    Ok(counted)
}

/// Returns all, or a random sample of `count`.
pub(super) fn sample<T>(mut all: Vec<T>, count: Option<usize>, seed: u64) -> Vec<T> {
    let Some(count) = count else { return all };
    let mut random = Random::new(mix(seed));
    let mut some = Vec::new();
    while some.len() < count && !all.is_empty() {
        let at = usize::try_from(random.below(all.len() as u64)).unwrap_or_default();
        some.push(all.swap_remove(at));
    }
    some
}

/// Runs the cases on two threads until one fails. Returns the number of cases.
pub(super) fn try_all<T: Sync>(cases: &[T], run: impl Fn(&T) -> Result<bool, String> + Sync) -> Result<usize, String> {
    let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let broken: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run(case) {
                        Ok(hit) => drop(tried.fetch_add(usize::from(hit), Ordering::Relaxed)),
                        Err(why) => drop(broken.lock().expect("no thread panicked").get_or_insert(why).len()),
                    }
                    if broken.lock().expect("no thread panicked").is_some() {
                        return;
                    }
                }
            });
        }
    });
    broken.into_inner().expect("no thread panicked").map_or(Ok(tried.into_inner()), Err)
}
