//! The usage fold: counts each response once, and can be stored and resumed.
//!
//! The fold keeps the sums by model, and the sums by quarter hour of the open turn only. All other sums by quarter hour
//! are rows, whose number grows with the log; the fold returns the changes to them, up or down.

use std::collections::{BTreeMap, VecDeque};

use duolog_types::limits::{
    USAGE_MODELS_MAX, USAGE_OPEN_MAX, USAGE_RECENT_MAX, USAGE_SEEN_MAX, USAGE_THREADS_MAX, USAGE_TURN_MAX,
};
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
    /// The kind of charge.
    pub charge: Charge,
    /// The usage to add.
    pub added: Used,
    /// The usage to subtract, because a later line corrected it.
    pub removed: Used,
}

/// A quarter hour and a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Cell {
    quarter: String,
    model: String,
}

/// The usage to add to a cell and to subtract from it.
#[derive(Clone, Debug, Default)]
struct CellChange {
    added: UsageSum,
    removed: UsageSum,
}

type PerModel = BTreeMap<String, UsageSum>;

/// The model of usage without a model name.
const UNNAMED: &str = "";
/// The model name under which models beyond the limit are counted.
const OTHERS: &str = "(other)";
/// The length of a quarter hour in microseconds.
const QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;
/// The length of a timestamp in characters. A timestamp of another length is out of the range of a row.
const INSTANT_CHARS: usize = 27;

/// Usage that the end of the turn may correct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    /// The session of the agent that the lines name.
    stream: Option<u64>,
    cell: Cell,
    counted: UsageSum,
}

/// The end of a turn.
struct TurnEnd {
    ending: Ending,
    is_stream: bool,
    stream: Option<u64>,
    at: Option<i64>,
}

/// A response of the open turn of a stream, counted here or in another log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Told {
    stream: u64,
    key: u64,
}

/// A response that a later line may still correct.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recent {
    key: u64,
    message: u64,
    stream: Option<u64>,
    cell: Cell,
    at: Option<i64>,
    sidechain: bool,
    counted: UsageSum,
}

/// Counts each response once, line by line. It can be stored and resumed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UsageFold {
    /// The usage counted so far, by model.
    totals: PerModel,
    /// The part of `totals` that the end of the turn may correct, oldest first.
    open: Vec<Open>,
    /// The responses that the result of their stream will replace, oldest first.
    turn: VecDeque<Told>,
    /// The changes since the fold was created or restored.
    #[serde(skip)]
    moved: BTreeMap<Cell, CellChange>,
    /// The quarter hour of the last line that has a timestamp.
    quarter: String,
    recent: VecDeque<Recent>,
    #[serde(skip)]
    seen: VecDeque<u64>,
    last_model: Option<String>,
    repeated: u64,
    /// The number of lines with responses that another log counts.
    #[serde(default)]
    shared: u64,
    /// The responses counted since the fold was created or restored: the key and the largest weight of each.
    #[serde(skip)]
    claimed: BTreeMap<u64, u64>,
    running: Option<Tokens>,
    /// The thread of `codex exec` that the running totals belong to.
    #[serde(default)]
    thread: Option<u64>,
    /// The totals of earlier threads, oldest first.
    threads: VecDeque<(u64, Tokens)>,
    /// The totals of the last result of a stream.
    #[serde(default)]
    stream: Option<StreamTotal>,
    lineage: Lineage,
}

/// The version of the format of [`UsageFold::to_bytes`].
const FORMAT_VERSION: u8 = 7;

impl UsageFold {
    /// Counts the next line of a log that shares no response with another log.
    pub fn line(&mut self, line: &str) {
        if let Some(fact) = fact(line) {
            self.fact(fact, |_| false);
        }
    }

    /// Counts the usage of a line. `is_elsewhere` returns true if another log counts the response of a claim.
    pub fn fact(&mut self, fact: UsageFact, mut is_elsewhere: impl FnMut(Claim) -> bool) {
        let claim = self.lineage.claim(&fact);
        // A response that this fold has claimed stays here; the commit decides whether the claim is valid.
        let is_claimed = claim.is_some_and(|claim| self.claimed.contains_key(&claim.key));
        let is_shared = claim.is_some_and(|claim| !is_claimed && is_elsewhere(claim));
        match fact {
            UsageFact::Response(response) => self.response(response, claim, is_shared),
            UsageFact::Ending { tokens, cost, models, is_stream, stream, at, .. } => {
                if claim.is_some_and(|claim| self.seen.contains(&claim.key)) {
                    self.repeated += 1;
                    self.turn.retain(|reported| Some(reported.stream) != stream);
                    return;
                }
                self.claim_turn(stream, claim.filter(|_| !is_shared), is_elsewhere);
                if let Some(claim) = claim {
                    self.forget(claim.key);
                }
                let ending = Ending { tokens, cost, models };
                self.ending(TurnEnd { ending, is_stream, stream, at: at.map(Timestamp::as_micros) }, is_shared);
            }
            UsageFact::Running { total, last, model, is_exec, at } => {
                self.last_model = model.or_else(|| self.last_model.take());
                if is_exec && self.is_older_total(total) {
                    self.repeated += 1;
                    return;
                }
                self.running(total, last, at.map(Timestamp::as_micros), claim, is_shared);
            }
            UsageFact::Model(model) => self.last_model = Some(model),
            UsageFact::Started { stream, model } => {
                // A process that was stopped reported no result: the usage of its responses is final.
                self.open.retain(|open| open.stream.is_none() || open.stream != stream);
                self.turn.retain(|reported| Some(reported.stream) != stream);
                self.last_model = model.or_else(|| self.last_model.take());
            }
            UsageFact::Thread { id, model } => {
                self.go_on_with(short_hash(id.as_bytes()));
                self.last_model = model.or_else(|| self.last_model.take());
            }
            UsageFact::Began { .. } => {}
        }
    }

    /// Switches to the totals of a thread of `codex exec`.
    fn go_on_with(&mut self, id: u64) {
        if self.thread == Some(id) {
            return;
        }
        let before = self.threads.iter().position(|(thread, _)| *thread == id);
        let total = before.and_then(|place| self.threads.remove(place)).map(|(_, total)| total);
        if let Some((thread, total)) = self.thread.zip(self.running) {
            if self.threads.len() == USAGE_THREADS_MAX {
                self.threads.pop_front();
            }
            self.threads.push_back((thread, total));
        }
        (self.thread, self.running) = (Some(id), total);
    }

    /// Claims a result and the responses of its turn: the log that counts the result also counts them.
    fn claim_turn(&mut self, stream: Option<u64>, result: Option<Claim>, mut is_elsewhere: impl FnMut(Claim) -> bool) {
        let turn = std::mem::take(&mut self.turn);
        for reported in turn {
            if Some(reported.stream) != stream {
                self.turn.push_back(reported);
            } else if let Some(Claim { weight, .. }) = result
                && !is_elsewhere(Claim { key: reported.key, weight })
            {
                self.claim(Claim { key: reported.key, weight });
            }
        }
        if let Some(claim) = result {
            self.claim(claim);
        }
    }

    /// Returns the keys of the responses whose claims the result of their stream will raise.
    pub(in crate::dialect) fn turn(&self) -> impl Iterator<Item = u64> {
        self.turn.iter().map(|reported| reported.key)
    }

    fn claim(&mut self, claim: Claim) {
        let weight = self.claimed.entry(claim.key).or_default();
        *weight = claim.weight.max(*weight);
    }

    fn response(&mut self, response: Response, claim: Option<Claim>, is_shared: bool) {
        let model = response.model.unwrap_or_default();
        if !model.is_empty() {
            self.last_model = Some(model.clone());
        }
        let at = response.at.map(Timestamp::as_micros);
        let cell = self.cell(at, model);
        let counted = UsageSum::of_response(response.tokens, response.cost);
        let stream = response.stream;
        let (Some(id), Some(claim)) = (&response.response_id, claim) else {
            self.add(stream, &cell, &counted);
            return;
        };
        let key = claim.key;
        if let Some(stream) = stream.filter(|_| self.turn.iter().all(|reported| reported.key != key)) {
            if self.turn.len() == USAGE_TURN_MAX {
                self.turn.pop_front();
            }
            self.turn.push_back(Told { stream, key });
        }
        if is_shared {
            self.shared += 1;
            return;
        }
        let message = short_hash(id.as_bytes());
        let new = Recent { key, message, stream, cell, at, sidechain: response.sidechain, counted };
        let replayed =
            |old: &Recent| old.message == message && old.at == at && at.is_some() && (old.sidechain || new.sidechain);
        let found = self.recent.iter().position(|old| old.key == key);
        match found.or_else(|| self.recent.iter().position(replayed)) {
            Some(place) => {
                self.repeated += 1;
                // A larger count has a larger weight. A replay has its own key, which a copy of this log may contain.
                self.claim(claim);
                self.correct(place, new);
            }
            None if self.seen.contains(&key) => self.repeated += 1,
            None => {
                self.add(new.stream, &new.cell, &new.counted);
                self.claim(claim);
                self.remember(new);
            }
        }
    }

    /// Keeps one of two reports of a response: the main conversation before a side one, then the larger count, then
    /// the first.
    fn correct(&mut self, place: usize, new: Recent) {
        let old = &self.recent[place];
        let better = if new.sidechain == old.sidechain {
            new.counted.tokens.total() > old.counted.tokens.total()
        } else {
            old.sidechain
        };
        let other_key = if better {
            let old = old.clone();
            self.remove(old.stream, &old.cell, &old.counted);
            self.add(new.stream, &new.cell, &new.counted);
            std::mem::replace(&mut self.recent[place], new).key
        } else {
            new.key
        };
        // A replay has its own key, under which it may be reported again.
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

    /// Remembers only that a response was counted.
    fn forget(&mut self, key: u64) {
        if self.seen.len() == USAGE_SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(key);
    }

    /// Counts the end of a turn. The usage in the end replaces that of the responses, unless the end has none or has
    /// the same sum. If another log counts the end, that log counts the whole turn.
    fn ending(&mut self, mut end: TurnEnd, is_shared: bool) {
        for key in std::mem::take(&mut self.recent).into_iter().map(|old| old.key) {
            self.forget(key);
        }
        // Usage without a session belongs to the turn that ends next.
        let is_of_turn = |open: &Open| end.stream.is_none() || open.stream.is_none() || open.stream == end.stream;
        let (open, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(is_of_turn);
        let reported = open.iter().fold(Tokens::default(), |sum, open| sum.plus(&open.counted.tokens));
        let last_model = self.last_model.clone().unwrap_or_default();
        if end.is_stream {
            let total = StreamTotal::of(end.ending, end.stream, &last_model);
            end.ending = total.since(self.stream.as_ref(), &reported);
            self.stream = Some(total);
        }
        let turn = if is_shared {
            self.shared += 1;
            Vec::new()
        } else {
            self.corrected(&end, &open, &reported, &last_model)
        };
        if turn != open {
            for Open { stream, cell, counted } in &open {
                self.remove(*stream, cell, counted);
            }
            for Open { stream, cell, counted } in &turn {
                self.add(*stream, cell, counted);
            }
        }
        self.open = others;
    }

    /// Returns the usage of a turn from its end and from the reports of its responses.
    fn corrected(&mut self, end: &TurnEnd, open: &[Open], reported: &Tokens, last_model: &str) -> Vec<Open> {
        let TurnEnd { ending, is_stream, stream, at } = end;
        let tokens = ending.tokens();
        let mut turn = open.to_vec();
        // The totals of a stream without counts by model leave out subagents; the messages include them.
        let is_part = *is_stream && ending.models.len() < 2 && tokens.context() < reported.context();
        if tokens != Tokens::default()
            && !is_part
            && (tokens.total(), tokens.context()) != (reported.total(), reported.context())
        {
            turn = self.by_model(end, open, last_model);
        }
        if let Some(cost) = ending.cost {
            for Open { counted, .. } in &mut turn {
                *counted = UsageSum { responses: counted.responses, tokens: counted.tokens, ..UsageSum::default() };
                counted.covered = counted.responses;
            }
            for (model, cost) in ending.costs(cost, last_model) {
                let counted = UsageSum { stated: cost, ..UsageSum::default() };
                turn.push(Open { stream: *stream, cell: self.cell(*at, model), counted });
            }
        }
        turn
    }

    /// Returns the usage of a turn from its end. The sum of a turn does not show the size of single contexts, so it is
    /// charged as short contexts.
    fn by_model(&mut self, end: &TurnEnd, open: &[Open], last_model: &str) -> Vec<Open> {
        let TurnEnd { ending, stream, at, .. } = end;
        let count = |tokens: Tokens, responses: u64| {
            let bare = Tiers { all: tokens, ..Tiers::default() };
            UsageSum { responses: responses.max(1), tokens, bare, ..UsageSum::default() }
        };
        let responses = |is: &dyn Fn(&str) -> bool| {
            open.iter().filter(|open| is(&open.cell.model)).map(|open| open.counted.responses).sum()
        };
        if ending.models.is_empty() {
            let cell = self.cell(*at, last_model.to_owned());
            return vec![Open { stream: *stream, cell, counted: count(ending.tokens, responses(&|_| true)) }];
        }
        let used = ending.models.iter().filter(|total| total.tokens != Tokens::default());
        used.map(|total| {
            let counted = count(total.tokens, responses(&|model| model == total.model));
            Open { stream: *stream, cell: self.cell(*at, total.model.clone()), counted }
        })
        .collect()
    }

    /// Returns true if a total of a thread is below one that was counted before. The totals of a thread only increase,
    /// so an earlier part of its output was recorded again.
    fn is_older_total(&self, total: Option<Tokens>) -> bool {
        self.running.zip(total).is_some_and(|(before, total)| total.total() < before.total())
    }

    fn running(
        &mut self,
        total: Option<Tokens>,
        last: Option<Tokens>,
        at: Option<i64>,
        claim: Option<Claim>,
        is_shared: bool,
    ) {
        let before = self.running;
        // If only the last response is reported, it is added to the total: the next total includes it too.
        self.running = total.or_else(|| Some(before?.plus(&last.unwrap_or_default())));
        let tokens = match (before, total) {
            (Some(before), Some(total)) if total == before => {
                self.repeated += 1;
                return;
            }
            (Some(before), Some(total)) if before.plus(&total.less(&before)) == total => total.less(&before),
            // A total that decreased was reset, and a first total may include the usage of another session.
            (_, Some(total)) => last.unwrap_or(total),
            (_, None) => last.unwrap_or_default(),
        };
        if tokens == Tokens::default() {
            return;
        }
        let model = self.last_model.clone().unwrap_or_default();
        let cell = self.cell(at, model);
        if is_shared {
            self.shared += 1;
            return;
        }
        if let Some(claim) = claim {
            self.claim(claim);
        }
        self.add(None, &cell, &UsageSum::of_response(tokens, None));
    }

    /// Returns the cell of a line. A line without a timestamp belongs to the last quarter hour that a line named.
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

    fn add(&mut self, stream: Option<u64>, cell: &Cell, counted: &UsageSum) {
        self.totals.entry(cell.model.clone()).or_default().add(counted);
        self.moved.entry(cell.clone()).or_default().added.add(counted);
        if let Some(open) = self.open_mut(stream, cell) {
            open.add(counted);
            return;
        }
        if self.open.len() == USAGE_OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(Open { stream, cell: cell.clone(), counted: *counted });
    }

    fn remove(&mut self, stream: Option<u64>, cell: &Cell, counted: &UsageSum) {
        self.moved.entry(cell.clone()).or_default().removed.add(counted);
        if let Some(total) = self.totals.get_mut(&cell.model) {
            total.remove(counted);
        }
        if let Some(open) = self.open_mut(stream, cell) {
            open.remove(counted);
        }
    }

    fn open_mut(&mut self, stream: Option<u64>, cell: &Cell) -> Option<&mut UsageSum> {
        let found = self.open.iter_mut().find(|open| open.stream == stream && open.cell == *cell);
        found.map(|open| &mut open.counted)
    }

    /// Returns the changes since the fold was created or restored, by quarter hour, model and charge.
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

    /// Returns the claims of the responses counted since the fold was created or restored, by key.
    pub fn claimed(&self) -> impl Iterator<Item = Claim> {
        self.claimed.iter().map(|(key, weight)| Claim { key: *key, weight: *weight })
    }

    /// Returns the lineage of the log, as far as its lines were read.
    pub(in crate::dialect) const fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Returns the number of lines with responses that another log counts.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Returns the usage counted so far, by model.
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

    /// Serializes the fold, to resume later. The size is limited to some tens of kilobytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&head);
        self.seen.iter().for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
        bytes
    }

    /// Restores a fold; `None` if the bytes are not from [`UsageFold::to_bytes`] of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (form, rest) = bytes.split_first()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (head, seen) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        if *form != FORMAT_VERSION || seen.len() % 8 != 0 {
            return None;
        }
        let mut fold: Self = serde_json::from_slice(head).ok()?;
        fold.seen = seen.chunks_exact(8).filter_map(|key| key.try_into().ok().map(u64::from_le_bytes)).collect();
        let within = fold.seen.len() <= USAGE_SEEN_MAX
            && fold.recent.len() <= USAGE_RECENT_MAX
            && fold.open.len() <= USAGE_OPEN_MAX
            && fold.turn.len() <= USAGE_TURN_MAX
            && fold.threads.len() <= USAGE_THREADS_MAX
            && fold.totals.len() <= USAGE_MODELS_MAX + 1;
        within.then_some(fold)
    }
}
