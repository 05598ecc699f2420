//! The steps on the branches of a session, and a simple model in memory of their expected result.

use std::collections::BTreeSet;
use std::ops::Range;

use duolog::errors::{Conflict, Invalid, NotFound, Stale};
use duolog::sessions::{AddOptions, BranchRef, HistoryView, ItemList, NewFork};
use duolog::{Durability, Error, SessionId, Store};
use proptest::prelude::*;
use serde_json::Value;

const DURABILITY: Durability = Durability::Process;
/// More items than any history here has.
const ALL: usize = 100_000;

/// A step on one branch. Numbers are clamped to their range.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Add(usize),
    Pop,
    Clear,
    Replace {
        taken: usize,
        put: usize,
    },
    ReplaceOther,
    /// Appends an item of another branch.
    Share {
        from: usize,
        nth: usize,
    },
    Fork(usize),
    Compact(usize, usize),
    Undo,
}

/// A branch and a step.
pub(super) fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        6 => (1..6_usize).prop_map(Step::Add),
        3 => Just(Step::Pop),
        1 => Just(Step::Clear),
        2 => (0..5_usize, 0..4_usize).prop_map(|(taken, put)| Step::Replace { taken, put }),
        1 => Just(Step::ReplaceOther),
        3 => (0..8_usize, 0..30_usize).prop_map(|(from, nth)| Step::Share { from, nth }),
        3 => (0..30_usize).prop_map(Step::Fork),
        4 => (0..30_usize, 1..30_usize).prop_map(|(from, len)| Step::Compact(from, len)),
        2 => Just(Step::Undo),
    ];
    (0..8_usize, step)
}

/// The outcome of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The old and the new end of the history.
    Added(u64, u64),
    Popped(Option<String>),
    Cleared(u64),
    Replaced,
    OtherSuffix,
    /// The ordinal of the item.
    Shared(Option<u64>),
    /// The number of items that the fork shares.
    Forked(u64),
    Compacted,
    PastEnd,
    RangeCrosses,
    /// The range of the summary.
    Undone(Range<u64>),
    NothingToUndo,
}

#[derive(Clone, Debug)]
struct Summary {
    range: Range<usize>,
    text: String,
    holds: bool,
}

/// A branch as a plain list: shared items are copied.
#[derive(Clone, Debug, Default)]
struct Branch {
    items: Vec<String>,
    summaries: Vec<Summary>,
}

impl Branch {
    /// Returns the summaries that no later one covers, newest first.
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

    fn crosses(&self, range: &Range<usize>) -> bool {
        self.shown().into_iter().any(|one| {
            let other = &self.summaries[one].range;
            let around = range.start <= other.start && other.end <= range.end;
            !around && other.start < range.end && range.start < other.end
        })
    }

    fn cut(&mut self, to: usize) {
        self.items.truncate(to);
        for one in self.summaries.iter_mut().filter(|one| one.range.end > to) {
            one.holds = false;
        }
    }
}

/// The branches of a session. Each is named by its number, except for the first.
#[derive(Clone, Debug)]
pub(super) struct Model {
    branches: Vec<Branch>,
    said: usize,
    /// All items that were added to the session, in order, kept or not.
    came: Vec<String>,
    /// All summaries that were created, undone or not.
    made: BTreeSet<String>,
}

/// The view of a branch: every item, and the input of the model.
pub(super) type Shown = (Vec<String>, Vec<String>);

impl Default for Model {
    fn default() -> Self {
        Self { branches: vec![Branch::default()], said: 0, came: Vec::new(), made: BTreeSet::new() }
    }
}

fn which(at: usize) -> BranchRef {
    if at == 0 { BranchRef::Default } else { BranchRef::Text(format!("b-{at}")) }
}

pub(super) fn texts(list: &ItemList) -> Vec<String> {
    assert!(list.broken.is_empty(), "{:?}", list.broken);
    list.items.iter().map(|item| item.content.clone()).collect()
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

impl Model {
    /// Returns the next items to add.
    fn next(&self, count: usize) -> Vec<String> {
        (self.said..self.said + count).map(|number| format!("{{\"n\": {number}}}")).collect()
    }

    fn next_summary(&self) -> String {
        format!("{{\"summary\": {}}}", self.next(1)[0])
    }

    /// Returns the number of forks.
    pub(super) fn forks(&self) -> usize {
        self.branches.len() - 1
    }

    /// Returns the messages that are kept, in the order of their creation: the items of the branches, and the
    /// summaries.
    pub(super) fn messages(&self) -> Vec<String> {
        let mut kept: BTreeSet<&String> = self.branches.iter().flat_map(|branch| &branch.items).collect();
        kept.extend(&self.made);
        self.came.iter().filter(|text| kept.contains(text)).cloned().collect()
    }

    /// Returns the item of another branch to share.
    fn shared(&self, from: usize, nth: usize) -> Option<(usize, usize)> {
        let from = from % self.branches.len();
        let len = self.branches[from].items.len();
        (len > 0).then(|| (from, nth % len))
    }

    /// Runs a step on the store.
    pub(super) fn ask(&self, store: &Store, session: &SessionId, at: usize, step: &Step) -> Outcome {
        let at = at % self.branches.len();
        let (branch, len) = (&self.branches[at], self.branches[at].items.len());
        let items = store.sessions().items(session).on(which(at));
        let compaction = store.sessions().compaction(session, which(at));
        match step {
            Step::Add(count) => {
                let options = AddOptions { durability: DURABILITY, ..AddOptions::default() };
                let added = items.add(&borrowed(&self.next(*count)), &options).expect("added");
                Outcome::Added(added.from_ord, added.end)
            }
            Step::Pop => Outcome::Popped(items.pop(DURABILITY).expect("popped").map(|item| item.content)),
            Step::Clear => Outcome::Cleared(items.clear(DURABILITY).expect("cleared")),
            Step::Replace { taken, put } => {
                let from = len.saturating_sub(*taken);
                // Spaces do not make a different item.
                let expected: Vec<String> = branch.items[from..].iter().map(|item| item.replace(": ", ":")).collect();
                let replaced = items.replace_suffix(&borrowed(&expected), &borrowed(&self.next(*put)), DURABILITY);
                assert_eq!(replaced.expect("replaced").end, (from + put) as u64);
                Outcome::Replaced
            }
            Step::ReplaceOther => match items.replace_suffix(&["{\"n\": -1}"], &["1"], DURABILITY) {
                Err(Error::Stale(Stale::OtherSuffix { .. })) => Outcome::OtherSuffix,
                other => panic!("{other:?}"),
            },
            Step::Share { from, nth } => Outcome::Shared(self.shared(*from, *nth).map(|(from, nth)| {
                let others = store.sessions().items(session).on(which(from));
                let item = others.history(nth as u64, 1).expect("reads").items.pop().expect("an item");
                items.append(&[item.id], DURABILITY).expect("appended")[0]
            })),
            Step::Fork(to) => {
                let name = Some(format!("b-{}", self.branches.len()));
                let new = NewFork { from: which(at), at: Some((*to).min(len) as u64), name, ..NewFork::default() };
                Outcome::Forked(store.sessions().branches(session).fork(new, DURABILITY).expect("forked").items)
            }
            Step::Compact(from, count) => {
                let range = *from as u64..(from + count) as u64;
                match compaction.compact(Some(range), &self.next_summary(), DURABILITY) {
                    Ok(_) => Outcome::Compacted,
                    Err(Error::Invalid(Invalid::PastEnd { .. })) => Outcome::PastEnd,
                    Err(Error::Conflict(Conflict::RangeCrosses { .. })) => Outcome::RangeCrosses,
                    other => panic!("{other:?}"),
                }
            }
            Step::Undo => match compaction.undo(DURABILITY) {
                Ok(undone) => Outcome::Undone(undone.range),
                Err(Error::NotFound(NotFound::Summary)) => Outcome::NothingToUndo,
                other => panic!("{other:?}"),
            },
        }
    }

    /// Runs a step in memory.
    pub(super) fn apply(&mut self, at: usize, step: &Step) -> Outcome {
        let at = at % self.branches.len();
        let len = self.branches[at].items.len();
        match step {
            Step::Add(count) => {
                let new = self.next(*count);
                self.said += count;
                self.came.extend(new.clone());
                self.branches[at].items.extend(new);
                Outcome::Added(len as u64, (len + count) as u64)
            }
            Step::Pop => {
                let popped = self.branches[at].items.last().cloned();
                self.branches[at].cut(len.saturating_sub(1));
                Outcome::Popped(popped)
            }
            Step::Clear => {
                self.branches[at].cut(0);
                Outcome::Cleared(len as u64)
            }
            Step::Replace { taken, put } => {
                let new = self.next(*put);
                self.said += put;
                self.came.extend(new.clone());
                self.branches[at].cut(len.saturating_sub(*taken));
                self.branches[at].items.extend(new);
                Outcome::Replaced
            }
            Step::ReplaceOther => Outcome::OtherSuffix,
            Step::Share { from, nth } => Outcome::Shared(self.shared(*from, *nth).map(|(from, nth)| {
                let text = self.branches[from].items[nth].clone();
                let items = &mut self.branches[at].items;
                let place = items.iter().position(|item| *item == text).unwrap_or_else(|| {
                    items.push(text);
                    len
                });
                place as u64
            })),
            Step::Fork(to) => {
                let to = (*to).min(len);
                let mut fork = self.branches[at].clone();
                fork.items.truncate(to);
                fork.summaries.retain(|one| one.range.end <= to);
                self.branches.push(fork);
                Outcome::Forked(to as u64)
            }
            Step::Compact(from, count) => {
                let (range, text) = (*from..from + count, self.next_summary());
                self.said += 1;
                if range.end > len {
                    return Outcome::PastEnd;
                }
                if self.branches[at].crosses(&range) {
                    return Outcome::RangeCrosses;
                }
                self.came.push(text.clone());
                self.made.insert(text.clone());
                self.branches[at].summaries.push(Summary { range, text, holds: true });
                Outcome::Compacted
            }
            Step::Undo => {
                let Some(last) = self.branches[at].shown().first().copied() else {
                    return Outcome::NothingToUndo;
                };
                let one = &mut self.branches[at].summaries[last];
                one.holds = false;
                Outcome::Undone(one.range.start as u64..one.range.end as u64)
            }
        }
    }

    /// Returns the expected view of every branch.
    pub(super) fn shown(&self) -> Vec<Shown> {
        self.branches.iter().map(|branch| (branch.items.clone(), branch.context())).collect()
    }

    /// Checks that partial reads of every branch match the full read.
    pub(super) fn check_parts(&self, store: &Store, session: &SessionId) {
        for (at, branch) in self.branches.iter().enumerate() {
            let items = store.sessions().items(session).on(which(at));
            let context = branch.context();
            let last = &context[context.len().saturating_sub(3)..];
            assert_eq!(texts(&items.latest(3, HistoryView::Context).expect("reads")), last);
            let page: Vec<String> = branch.items.iter().skip(1).take(2).cloned().collect();
            assert_eq!(texts(&items.history(1, 2).expect("reads")), page);
        }
    }
}

/// Returns the messages of a session in the order of their creation, from its document, which has the ids of the first
/// and the last.
pub(super) fn messages(store: &Store, session: &SessionId) -> Vec<String> {
    let mut document = Vec::new();
    store.sessions().export(session, &mut document).expect("exported");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let messages = document["messages"].as_array().expect("messages");
    let named = |message: Option<&Value>| message.map_or(Value::Null, |message| message["id"].clone());
    let (first, last) = (&document["session"]["first_msg_id"], &document["session"]["last_msg_id"]);
    assert_eq!((first, last), (&named(messages.first()), &named(messages.last())));
    let ords: Vec<u64> = messages.iter().map(|message| message["ord"].as_u64().expect("a place")).collect();
    assert!(ords.is_sorted_by(|one, next| one < next), "{ords:?}");
    // As added, except for spaces.
    let text = |message: &Value| message["content"].to_string().replace(':', ": ");
    messages.iter().map(text).collect()
}

/// Returns the view of every branch of a session.
pub(super) fn shown(store: &Store, session: &SessionId) -> Vec<Shown> {
    let (mut forks, mut after) = (0, None);
    loop {
        let page = store.sessions().branches(session).list(after.as_ref(), 200).expect("lists");
        forks += page.iter().filter(|branch| !branch.is_default).count();
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
    }
    let show = |at| {
        let items = store.sessions().items(session).on(which(at));
        let read = |view| texts(&items.latest(ALL, view).expect("reads"));
        (read(HistoryView::Full), read(HistoryView::Context))
    };
    (0..=forks).map(show).collect()
}
