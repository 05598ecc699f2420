//! Counts each response once, and can stop and resume.
//!
//! It keeps the sums by model, and sums by quarter hour only for the open turn: those are rows, which grow with the
//! log. The fold returns how much each row changes, up or down.

use std::collections::{BTreeMap, VecDeque};

use duolog_types::limits::{USAGE_MODELS_MAX, USAGE_OPEN_MAX, USAGE_RECENT_MAX, USAGE_SEEN_MAX};
use duolog_types::{Charge, Timestamp};
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Lineage};
use super::counted::{UsageSum, Used};
use super::fact::{Response, UsageFact, fact};
use super::result::{Ending, StreamTotal};
use super::tokens::{Tiers, Tokens};
use super::{ModelUsage, Usage};
use crate::dialect::money::Money;
use crate::dialect::prices::Prices;
use crate::dialect::scene::short_hash;

/// The change of the sum of a quarter hour, a model and a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageMove {
    /// The start of the quarter hour in UTC; empty if the log has no timestamp.
    pub quarter: String,
    /// The model; empty if the log names none.
    pub model: String,
    /// The charge.
    pub charge: Charge,
    /// Usage that was added.
    pub added: Used,
    /// Usage that was removed, because a later line corrected it.
    pub removed: Used,
}

/// A quarter hour and a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Cell {
    quarter: String,
    model: String,
}

/// The change of a cell.
#[derive(Clone, Debug, Default)]
struct CellChange {
    added: UsageSum,
    removed: UsageSum,
}

type PerModel = BTreeMap<String, UsageSum>;

/// The model name for usage without a model.
const UNNAMED: &str = "";
/// The model name for models beyond the limit.
const OTHERS: &str = "(other)";
/// Microseconds in a quarter hour.
const QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;
/// Length of a timestamp; one of another length is in a year that no row can hold.
const INSTANT_CHARS: usize = 27;

/// A response that a later line may still correct.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recent {
    key: u64,
    message: u64,
    cell: Cell,
    at: Option<i64>,
    sidechain: bool,
    counted: UsageSum,
}

/// Counts each response once, line by line; can stop and resume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UsageFold {
    /// The sums by model.
    totals: PerModel,
    /// The part of the sums that the end of the turn may correct, oldest first.
    open: Vec<(Cell, UsageSum)>,
    /// The changes since the fold was created or read.
    #[serde(skip)]
    moved: BTreeMap<Cell, CellChange>,
    /// The quarter hour of the last line with a timestamp.
    quarter: String,
    recent: VecDeque<Recent>,
    #[serde(skip)]
    seen: VecDeque<u64>,
    last_model: Option<String>,
    repeated: u64,
    /// Number of lines about responses that another log counts.
    #[serde(default)]
    shared: u64,
    /// The responses counted since the fold was created or read, by key, with the largest weight of each.
    #[serde(skip)]
    claimed: BTreeMap<u64, u64>,
    running: Option<Tokens>,
    /// The thread of `codex exec` that the totals belong to.
    #[serde(default)]
    thread: Option<u64>,
    /// The totals of the stream's last result.
    #[serde(default)]
    stream: Option<StreamTotal>,
    lineage: Lineage,
}

/// The format version of [`UsageFold::to_bytes`].
const FORMAT_VERSION: u8 = 6;

impl UsageFold {
    /// Adds the next line of a log that shares no response with another log.
    pub fn line(&mut self, line: &str) {
        if let Some(fact) = fact(line) {
            self.fact(fact, |_| false);
        }
    }

    /// Adds the usage of a line. `is_elsewhere` returns true if another log counts the response of a claim.
    pub fn fact(&mut self, fact: UsageFact, is_elsewhere: impl FnOnce(Claim) -> bool) {
        let claim = self.lineage.claim(&fact);
        // A response that this fold claimed is counted here; the commit decides whether the claim is accepted.
        let is_claimed = claim.is_some_and(|claim| self.claimed.contains_key(&claim.key));
        let is_elsewhere = |claim| !is_claimed && is_elsewhere(claim);
        match fact {
            UsageFact::Response(response) => self.response(response, claim, is_elsewhere),
            UsageFact::Ending { tokens, cost, models, is_stream, at } => {
                self.ending(Ending { tokens, cost, models }, is_stream, at.map(Timestamp::as_micros));
            }
            UsageFact::Running { total, last, model, at } => {
                self.last_model = model.or_else(|| self.last_model.take());
                self.running(total, last, at.map(Timestamp::as_micros), claim, is_elsewhere);
            }
            UsageFact::Model(model) => self.last_model = Some(model),
            UsageFact::Thread { id, model } => {
                let id = Some(short_hash(id.as_bytes()));
                if self.thread != id {
                    (self.thread, self.running) = (id, None);
                }
                self.last_model = model.or_else(|| self.last_model.take());
            }
            UsageFact::Began { .. } => {}
        }
    }

    fn claim(&mut self, claim: Claim) {
        let weight = self.claimed.entry(claim.key).or_default();
        *weight = claim.weight.max(*weight);
    }

    fn response(&mut self, response: Response, claim: Option<Claim>, is_elsewhere: impl FnOnce(Claim) -> bool) {
        let model = response.model.unwrap_or_default();
        if !model.is_empty() {
            self.last_model = Some(model.clone());
        }
        let at = response.at.map(Timestamp::as_micros);
        let cell = self.cell(at, model);
        let counted = UsageSum::of_response(response.tokens, response.cost);
        let (Some(id), Some(claim)) = (&response.response_id, claim) else {
            self.add(&cell, &counted);
            return;
        };
        if is_elsewhere(claim) {
            self.shared += 1;
            return;
        }
        let key = claim.key;
        let message = short_hash(id.as_bytes());
        let new = Recent { key, message, cell, at, sidechain: response.sidechain, counted };
        let replayed =
            |old: &Recent| old.message == message && old.at == at && at.is_some() && (old.sidechain || new.sidechain);
        let found = self.recent.iter().position(|old| old.key == key);
        match found.or_else(|| self.recent.iter().position(replayed)) {
            Some(place) => {
                self.repeated += 1;
                // A larger count has more weight, and a replay has its own key, which a copy of this log may contain.
                self.claim(claim);
                self.correct(place, new);
            }
            None if self.seen.contains(&key) => self.repeated += 1,
            None => {
                self.add(&new.cell, &new.counted);
                self.claim(claim);
                self.remember(new);
            }
        }
    }

    /// Keeps the better of two counts: the main conversation before a side one, then the larger count, then the first.
    fn correct(&mut self, place: usize, new: Recent) {
        let old = &self.recent[place];
        let better = if new.sidechain == old.sidechain {
            new.counted.tokens.total() > old.counted.tokens.total()
        } else {
            old.sidechain
        };
        let other_key = if better {
            let (old, counted) = (old.cell.clone(), old.counted);
            self.remove(&old, &counted);
            self.add(&new.cell, &new.counted);
            std::mem::replace(&mut self.recent[place], new).key
        } else {
            new.key
        };
        // A replay has its own key, and may be repeated with it.
        if other_key != self.recent[place].key && !self.seen.contains(&other_key) {
            self.forget(other_key);
        }
    }

    fn remember(&mut self, new: Recent) {
        if self.recent.len() == USAGE_RECENT_MAX
            && let Some(old) = self.recent.pop_front()
        {
            self.forget(old.key);
        }
        self.recent.push_back(new);
    }

    /// Keeps only the key of a counted response.
    fn forget(&mut self, key: u64) {
        if self.seen.len() == USAGE_SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(key);
    }

    /// Applies the end of a turn. Its usage replaces that of the responses, unless it has none or the sums are equal.
    fn ending(&mut self, ending: Ending, is_stream: bool, at: Option<i64>) {
        for key in std::mem::take(&mut self.recent).into_iter().map(|old| old.key) {
            self.forget(key);
        }
        let open = std::mem::take(&mut self.open);
        let reported = open.iter().fold(Tokens::default(), |sum, (_, counted)| sum.plus(&counted.tokens));
        let last_model = self.last_model.clone().unwrap_or_default();
        let ending = if is_stream {
            let total = StreamTotal::of(ending, &last_model);
            let turn = total.since(self.stream.as_ref(), &reported);
            self.stream = Some(total);
            turn
        } else {
            ending
        };
        let tokens = ending.tokens();
        let mut turn = open.clone();
        // A stream's result without counts by model excludes subagents; their messages include them.
        let is_part = is_stream && ending.models.len() < 2 && tokens.context() < reported.context();
        if tokens != Tokens::default()
            && !is_part
            && (tokens.total(), tokens.context()) != (reported.total(), reported.context())
        {
            turn = self.by_model(&ending, &open, at, &last_model);
        }
        if let Some(cost) = ending.cost {
            for (_, counted) in &mut turn {
                *counted = UsageSum { responses: counted.responses, tokens: counted.tokens, ..UsageSum::default() };
                counted.covered = counted.responses;
            }
            for (model, cost) in ending.costs(cost, &last_model) {
                turn.push((self.cell(at, model), UsageSum { stated: cost, ..UsageSum::default() }));
            }
        }
        if turn != open {
            for (cell, counted) in &open {
                self.remove(cell, counted);
            }
            for (cell, counted) in &turn {
                self.add(cell, counted);
            }
            self.open.clear();
        }
    }

    /// Returns the usage of a turn from its end. The sum of a turn does not show single contexts: it is priced as short
    /// contexts.
    fn by_model(
        &mut self,
        ending: &Ending,
        open: &[(Cell, UsageSum)],
        at: Option<i64>,
        last_model: &str,
    ) -> Vec<(Cell, UsageSum)> {
        let count = |tokens: Tokens, responses: u64| {
            let bare = Tiers { all: tokens, ..Tiers::default() };
            UsageSum { responses: responses.max(1), tokens, bare, ..UsageSum::default() }
        };
        let responses = |is: &dyn Fn(&str) -> bool| {
            open.iter().filter(|(cell, _)| is(&cell.model)).map(|(_, it)| it.responses).sum()
        };
        if ending.models.is_empty() {
            let cell = self.cell(at, last_model.to_owned());
            return vec![(cell, count(ending.tokens, responses(&|_| true)))];
        }
        let used = ending.models.iter().filter(|total| total.tokens != Tokens::default());
        used.map(|total| {
            let responses = responses(&|model| model == total.model);
            (self.cell(at, total.model.clone()), count(total.tokens, responses))
        })
        .collect()
    }

    fn running(
        &mut self,
        total: Option<Tokens>,
        last: Option<Tokens>,
        at: Option<i64>,
        claim: Option<Claim>,
        is_elsewhere: impl FnOnce(Claim) -> bool,
    ) {
        let before = self.running;
        // If only the last response is given, the total grows by it: the next total includes it.
        self.running = total.or_else(|| Some(before?.plus(&last.unwrap_or_default())));
        let tokens = match (before, total) {
            (Some(before), Some(total)) if total == before => {
                self.repeated += 1;
                return;
            }
            (Some(before), Some(total)) if before.plus(&total.less(&before)) == total => total.less(&before),
            // A smaller total restarts the count, and a first total may include the usage of another session.
            (_, Some(total)) => last.unwrap_or(total),
            (_, None) => last.unwrap_or_default(),
        };
        if tokens == Tokens::default() {
            return;
        }
        let model = self.last_model.clone().unwrap_or_default();
        let cell = self.cell(at, model);
        if let Some(claim) = claim {
            if is_elsewhere(claim) {
                self.shared += 1;
                return;
            }
            self.claim(claim);
        }
        self.add(&cell, &UsageSum::of_response(tokens, None));
    }

    /// Returns the cell of a line: without a timestamp it belongs to the quarter hour of the line before.
    fn cell(&mut self, at: Option<i64>, model: String) -> Cell {
        if let Some(at) = at {
            self.quarter = Timestamp::from_micros(at.div_euclid(QUARTER_MICROS) * QUARTER_MICROS).to_string();
            if self.quarter.len() != INSTANT_CHARS {
                self.quarter.clear();
            }
        }
        let room = self.totals.len() < USAGE_MODELS_MAX || self.totals.contains_key(&model);
        Cell { quarter: self.quarter.clone(), model: if room { model } else { OTHERS.to_owned() } }
    }

    fn add(&mut self, cell: &Cell, counted: &UsageSum) {
        self.totals.entry(cell.model.clone()).or_default().add(counted);
        self.moved.entry(cell.clone()).or_default().added.add(counted);
        if let Some((_, open)) = self.open.iter_mut().find(|(open, _)| open == cell) {
            open.add(counted);
            return;
        }
        if self.open.len() == USAGE_OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((cell.clone(), *counted));
    }

    fn remove(&mut self, cell: &Cell, counted: &UsageSum) {
        self.moved.entry(cell.clone()).or_default().removed.add(counted);
        if let Some(total) = self.totals.get_mut(&cell.model) {
            total.remove(counted);
        }
        if let Some((_, open)) = self.open.iter_mut().find(|(open, _)| open == cell) {
            open.remove(counted);
        }
    }

    /// Returns the changes of sums since the fold was created or read, by quarter hour, model and charge.
    pub fn moves(&self) -> Vec<UsageMove> {
        let parts = self.moved.iter().flat_map(|(cell, moved)| {
            Charge::ALL.iter().map(|charge| UsageMove {
                quarter: cell.quarter.clone(),
                model: cell.model.clone(),
                charge: *charge,
                added: moved.added.used(*charge),
                removed: moved.removed.used(*charge),
            })
        });
        parts.filter(|part| part.added != part.removed).collect()
    }

    /// Returns the claims of the responses counted since the fold was created or read, by key.
    pub fn claimed(&self) -> impl Iterator<Item = Claim> {
        self.claimed.iter().map(|(key, weight)| Claim { key: *key, weight: *weight })
    }

    /// Returns the tree of forks of the lines so far.
    pub(in crate::dialect) const fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Returns the number of lines about responses that another log counts.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Returns the usage so far, by model.
    pub fn report(&self, prices: &Prices) -> Usage {
        let counted = self.totals.iter().filter(|(_, counted)| **counted != UsageSum::default());
        let models = counted.map(|(model, counted)| {
            let bare = if counted.bare.all == Tokens::default() {
                Some(Money::ZERO)
            } else {
                prices.get(model).map(|price| price.cost(&counted.bare))
            };
            ModelUsage {
                model: (model != UNNAMED).then(|| model.clone()),
                responses: counted.responses,
                tokens: counted.tokens,
                cost: bare.map(|bare| bare + counted.stated),
            }
        });
        Usage { models: models.collect(), repeated: self.repeated }
    }

    /// Returns the fold as bytes, to resume later: bounded, at most some tens of kilobytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&head);
        self.seen.iter().for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
        bytes
    }

    /// Resumes from bytes; `None` if they are not from [`UsageFold::to_bytes`] of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (head, seen) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        if *version != FORMAT_VERSION || seen.len() % 8 != 0 {
            return None;
        }
        let mut fold: Self = serde_json::from_slice(head).ok()?;
        fold.seen = seen.chunks_exact(8).filter_map(|key| key.try_into().ok().map(u64::from_le_bytes)).collect();
        let within = fold.seen.len() <= USAGE_SEEN_MAX
            && fold.recent.len() <= USAGE_RECENT_MAX
            && fold.open.len() <= USAGE_OPEN_MAX
            && fold.totals.len() <= USAGE_MODELS_MAX + 1;
        within.then_some(fold)
    }
}
