//! Pauses and kills over every command and every step, or over some of them by chance.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::home::Binary;
use super::killed;
use super::shim::Shim;
use super::stopped::{self, Case};
use super::targets::{Places, Template, ask_with, meanwhile, targets};
use crate::random::{Random, mix};

/// Which cases are tried.
#[derive(Clone, Debug)]
pub struct Cases {
    /// The real binary.
    pub binary: PathBuf,
    /// What chance is made from.
    pub seed: u64,
    /// How many cases by chance; none: all.
    pub cases: Option<usize>,
    /// Only commands and doings of others whose name has this in it.
    pub only: Option<String>,
}

/// Stops commands at their steps while others work. Returns how many cases were tried.
pub fn pauses(cases: &Cases) -> Result<usize, String> {
    let (binary, template) = (binary(cases), template(cases)?);
    let mut all = Vec::new();
    for (target, steps) in steps_of_all(&binary, &template, cases)? {
        for other in 0..names(&template, cases).1 {
            all.extend((1..=steps).map(|step| Case { target, other, step }));
        }
    }
    try_all(&chosen(all, cases), |case| stopped::run(&binary, &template, *case, None))
}

/// Kills commands at their steps and gives them again. Returns how many cases were tried.
pub fn kills(cases: &Cases) -> Result<usize, String> {
    let (binary, template) = (binary(cases), template(cases)?);
    let mut all = Vec::new();
    for (target, steps) in steps_of_all(&binary, &template, cases)? {
        all.extend((1..=steps).map(|step| (target, step)));
    }
    try_all(&chosen(all, cases), |(target, step)| killed::run(&binary, &template, *target, *step, None))
}

fn binary(cases: &Cases) -> Binary {
    Binary { path: cases.binary.clone(), shim: Arc::new(Shim::build()) }
}

fn template(cases: &Cases) -> Result<Template, String> {
    Template::make(&binary(cases), None)
}

/// The numbers of the commands that are meant, and how many doings of others there are.
fn names(template: &Template, cases: &Cases) -> (Vec<usize>, usize) {
    let document = template.document();
    let places = Places { document: &document, scratch: &document };
    let meant = |name: &str| cases.only.as_ref().is_none_or(|only| name == only);
    let all = targets(&places);
    let numbers = (0..all.len()).filter(|at| meant(all[*at].0)).collect();
    (numbers, meanwhile(&places).len())
}

/// How many steps each command has: a kill at a later one does not come.
fn steps_of_all(binary: &Binary, template: &Template, cases: &Cases) -> Result<Vec<(usize, u32)>, String> {
    let document = template.document();
    let mut counted = Vec::new();
    for target in names(template, cases).0 {
        let has = |step: u32| {
            let scratch = crate::crash::scratch();
            template.copy_to(scratch.path());
            let places = Places { document: &document, scratch: scratch.path() };
            let home = stopped::home(binary, scratch.path(), None);
            let order = targets(&places).swap_remove(target).1;
            ask_with(&home, &order, Some(&format!("kill step * {step} 0"))).code.is_none()
        };
        let (mut least, mut beyond) = (0, 1);
        while has(beyond) {
            (least, beyond) = (beyond, beyond * 2);
        }
        while least + 1 < beyond {
            let middle = u32::midpoint(least, beyond);
            if has(middle) { least = middle } else { beyond = middle }
        }
        if least == 0 {
            return Err("the shim sees no step of a command: the binary does not go through the C library".to_owned());
        }
        counted.push((target, least));
    }
    Ok(counted)
}

/// All, or some by chance.
fn chosen<T>(mut all: Vec<T>, cases: &Cases) -> Vec<T> {
    let Some(count) = cases.cases else { return all };
    let mut random = Random::new(mix(cases.seed));
    let mut some = Vec::new();
    while some.len() < count && !all.is_empty() {
        let at = usize::try_from(random.below(all.len() as u64)).unwrap_or_default();
        some.push(all.swap_remove(at));
    }
    some
}

/// Two threads try one case after the other until one does not hold.
fn try_all<T: Sync>(cases: &[T], run: impl Fn(&T) -> Result<bool, String> + Sync) -> Result<usize, String> {
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
