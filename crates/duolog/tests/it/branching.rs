use std::ops::Range;

use duolog::sessions::{AddOptions, BranchRef, ItemList, NewFork, View};
use duolog::{Durability, Error, SessionId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Apart;

on_both_engines!(any_interleaving_equals_a_model_in_memory, changes_at_once_leave_every_history_whole);

const DURABILITY: Durability = Durability::Process;

/// One thing that is done to one of the branches; numbers are taken as far as they go.
#[derive(Clone, Debug)]
enum Step {
    Add(usize),
    Pop,
    Clear,
    Replace { taken: usize, put: usize },
    ReplaceOther,
    Fork(usize),
    Compact(usize, usize),
    Undo,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..6_usize).prop_map(Step::Add),
        3 => Just(Step::Pop),
        1 => Just(Step::Clear),
        2 => (0..5_usize, 0..4_usize).prop_map(|(taken, put)| Step::Replace { taken, put }),
        1 => Just(Step::ReplaceOther),
        3 => (0..30_usize).prop_map(Step::Fork),
        4 => (0..30_usize, 1..30_usize).prop_map(|(from, len)| Step::Compact(from, len)),
        2 => Just(Step::Undo),
    ]
}

#[derive(Clone, Debug)]
struct Summary {
    range: Range<usize>,
    text: String,
    holds: bool,
}

/// A branch as anyone would write it down: all that it sees is its own.
#[derive(Clone, Debug, Default)]
struct Model {
    branch: BranchRef,
    items: Vec<String>,
    summaries: Vec<Summary>,
}

impl Model {
    /// The summaries that no later one covers, the last first.
    fn shown(&self) -> Vec<usize> {
        let mut shown: Vec<usize> = Vec::new();
        for (at, one) in self.summaries.iter().enumerate().rev().filter(|(_, one)| one.holds) {
            let within = |other: &usize| {
                let other = &self.summaries[*other].range;
                other.start <= one.range.start && one.range.end <= other.end
            };
            if !shown.iter().any(within) {
                shown.push(at);
            }
        }
        shown
    }

    fn context(&self) -> Vec<String> {
        let mut shown: Vec<&Summary> = self.shown().into_iter().map(|at| &self.summaries[at]).collect();
        shown.sort_by_key(|one| one.range.start);
        let (mut context, mut at) = (Vec::new(), 0);
        for one in shown {
            context.extend_from_slice(&self.items[at..one.range.start]);
            context.push(one.text.clone());
            at = one.range.end;
        }
        context.extend_from_slice(&self.items[at..]);
        context
    }

    fn cut(&mut self, to: usize) {
        self.items.truncate(to);
        for one in self.summaries.iter_mut().filter(|one| one.range.end > to) {
            one.holds = false;
        }
    }
}

/// A session, its branches, and what they should be.
struct World<'w> {
    store: &'w Store,
    session: SessionId,
    branches: Vec<Model>,
    said: usize,
    /// The summaries that were made, undone or not.
    made: u64,
}

fn texts(list: &ItemList) -> Vec<&str> {
    assert!(list.broken.is_empty(), "{:?}", list.broken);
    list.items.iter().map(|item| item.content.as_str()).collect()
}

impl World<'_> {
    fn new_items(&mut self, count: usize) -> Vec<String> {
        let items = (self.said..self.said + count).map(|number| format!("{{\"n\": {number}}}")).collect();
        self.said += count;
        items
    }

    fn run(&mut self, at: usize, step: &Step) {
        let at = at % self.branches.len();
        let which = self.branches[at].branch.clone();
        let items = self.store.sessions().items(&self.session).on(which.clone());
        let compaction = self.store.sessions().compaction(&self.session, which.clone());
        let len = self.branches[at].items.len();
        match step {
            Step::Add(count) => {
                let new = self.new_items(*count);
                let given: Vec<&str> = new.iter().map(String::as_str).collect();
                let options = AddOptions { durability: DURABILITY, ..AddOptions::default() };
                let added = items.add(&given, &options).expect("added");
                assert_eq!((added.from_ord, added.end), (len as u64, (len + count) as u64));
                self.branches[at].items.extend(new);
            }
            Step::Pop => {
                let popped = items.pop(DURABILITY).expect("popped").map(|item| item.content);
                assert_eq!(popped.as_ref(), self.branches[at].items.last());
                self.branches[at].cut(len.saturating_sub(1));
            }
            Step::Clear => {
                assert_eq!(items.clear(DURABILITY).expect("cleared"), len as u64);
                self.branches[at].cut(0);
            }
            Step::Replace { taken, put } => {
                let from = len.saturating_sub(*taken);
                let expected: Vec<String> = self.branches[at].items[from..].to_vec();
                let new = self.new_items(*put);
                let given: Vec<&str> = new.iter().map(String::as_str).collect();
                // Spaces do not make another item.
                let expected: Vec<String> = expected.iter().map(|item| item.replace(": ", ":")).collect();
                let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
                items.replace_suffix(&expected, &given, DURABILITY).expect("replaced");
                self.branches[at].cut(from);
                self.branches[at].items.extend(new);
            }
            Step::ReplaceOther => {
                let refused = items.replace_suffix(&["{\"n\": -1}"], &["1"], DURABILITY).expect_err("another");
                assert!(matches!(refused, Error::OtherSuffix { .. }), "{refused}");
            }
            Step::Fork(to) => {
                let to = to.min(&len);
                let new = NewFork { from: which, at: Some(*to as u64), ..NewFork::default() };
                let branch = self.store.sessions().branches(&self.session).fork(new, DURABILITY).expect("forked");
                let mut model = self.branches[at].clone();
                model.branch = (&branch.id).into();
                model.items.truncate(*to);
                model.summaries.retain(|one| one.range.end <= *to);
                self.branches.push(model);
            }
            Step::Compact(from, count) => {
                let range = *from..from + count;
                let text = format!("{{\"summary\": {}}}", self.new_items(1)[0]);
                let made = compaction.compact(Some(range.start as u64..range.end as u64), &text, DURABILITY);
                let model = &mut self.branches[at];
                let crosses = |one: &usize| {
                    let other = &model.summaries[*one].range;
                    let around = range.start <= other.start && other.end <= range.end;
                    !around && other.start < range.end && range.start < other.end
                };
                match made {
                    Err(Error::PastEnd { .. }) => assert!(range.end > len),
                    Err(Error::RangeCrosses { .. }) => assert!(model.shown().iter().any(crosses)),
                    made => {
                        made.expect("made");
                        assert!(range.end <= len && !model.shown().iter().any(crosses));
                        model.summaries.push(Summary { range, text, holds: true });
                        self.made += 1;
                    }
                }
            }
            Step::Undo => match (compaction.undo(DURABILITY), self.branches[at].shown().first()) {
                (Ok(undone), Some(last)) => {
                    let one = &mut self.branches[at].summaries[*last];
                    assert_eq!(undone.range, one.range.start as u64..one.range.end as u64);
                    one.holds = false;
                }
                (Err(Error::NothingToUndo), None) => {}
                (undone, last) => panic!("{undone:?} and {last:?}"),
            },
        }
    }

    /// Every branch, whoever was changed.
    fn check(&self) {
        for model in &self.branches {
            let items = self.store.sessions().items(&self.session).on(model.branch.clone());
            let context = model.context();
            assert_eq!(texts(&items.latest(1000, View::Full).expect("reads")), model.items);
            assert_eq!(texts(&items.latest(1000, View::Context).expect("reads")), context);
            let last = &context[context.len().saturating_sub(3)..];
            assert_eq!(texts(&items.latest(3, View::Context).expect("reads")), last);
            let page: Vec<&String> = model.items.iter().skip(1).take(2).collect();
            assert_eq!(texts(&items.history(1, 2).expect("reads")), page);
        }
    }
}

fn rows_of(store: &Store, table: &str) -> u64 {
    let rows = store.state().stats().expect("figures").state.rows;
    rows.into_iter().find(|(name, _)| name == table).expect("a table").1
}

fn any_interleaving_equals_a_model_in_memory(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let cases = if place.database().is_some() { 16 } else { 400 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec((0..8_usize, step()), 1..40);
    let ran = runner.run(&steps, |steps| {
        let session = store.sessions().create(&duolog::sessions::NewSession::default()).expect("made").id;
        let mut world = World { store: &store, session, branches: vec![Model::default()], said: 0, made: 0 };
        for (at, step) in &steps {
            world.run(*at, step);
            world.check();
        }
        // What no branch sees is gone; summaries stay, as what was said of a range.
        let mut seen: Vec<&String> = world.branches.iter().flat_map(|model| &model.items).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(rows_of(&store, "messages"), seen.len() as u64 + world.made);
        store.sessions().delete(&world.session).expect("deleted");
        for table in ["messages", "progressions", "progression_items", "branches", "compactions"] {
            assert_eq!(rows_of(&store, table), 0, "{table}");
        }
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

/// Forks while others add, cut and summarise: whoever comes second sees what the first did.
fn changes_at_once_leave_every_history_whole(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&duolog::sessions::NewSession::default()).expect("made").id;
    let add = |branch: &BranchRef, item: &str| {
        let options = AddOptions { durability: DURABILITY, ..AddOptions::default() };
        store.sessions().items(&session).on(branch.clone()).add(&[item, item, item], &options).expect("added");
    };
    add(&BranchRef::Default, "0");
    let work = |number: usize| {
        let sessions = store.sessions();
        let mut branch = BranchRef::Default;
        for round in 0..12 {
            let items = sessions.items(&session).on(branch.clone());
            match (number + round) % 4 {
                0 => add(&branch, &format!("[{number},{round}]")),
                1 => drop(items.pop(DURABILITY).expect("popped")),
                2 => {
                    let new = NewFork { from: branch.clone(), ..NewFork::default() };
                    let forked = sessions.branches(&session).fork(new, DURABILITY).expect("forked").id;
                    branch = if round % 3 == 0 { BranchRef::Default } else { (&forked).into() };
                }
                _ => {
                    // Another may have cut or summarised what was there when the range was chosen.
                    let made = sessions.compaction(&session, branch.clone()).compact(Some(0..2), "\"s\"", DURABILITY);
                    let is_refused = matches!(made, Err(Error::PastEnd { .. } | Error::RangeCrosses { .. }));
                    assert!(made.is_ok() || is_refused, "{made:?}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || work(number));
        }
    });
    let branches = store.sessions().branches(&session).list(None, 200).expect("lists");
    assert!(branches.len() > 8, "{}", branches.len());
    for branch in branches {
        let items = store.sessions().items(&session).on((&branch.id).into());
        let list = items.latest(1000, View::Full).expect("reads");
        assert!(list.broken.is_empty(), "{:?}", list.broken);
        let ords: Vec<u64> = list.items.iter().filter_map(|item| item.ord).collect();
        assert_eq!(ords, (0..branch.items).collect::<Vec<_>>(), "places are dense");
        assert!(items.latest(1000, View::Context).expect("reads").broken.is_empty());
    }
    store.sessions().delete(&session).expect("deleted");
    assert_eq!((rows_of(&store, "messages"), rows_of(&store, "progressions")), (0, 0));
}
