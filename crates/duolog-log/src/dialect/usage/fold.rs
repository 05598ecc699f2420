//! Counts each response once, and can stop and go on.
//!
//! It keeps the sums by model, and of quarter hours only those of the open turn: sums by quarter are rows, and grow with the log. What
//! it gives them is how far each moved, up or down.

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

/// How far the sum of a quarter hour, a model and a charge moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageMove {
    /// The start of the quarter hour in UTC; empty where the log names no instant.
    pub quarter: String,
    /// The model; empty where the log names none.
    pub model: String,
    /// How it is paid for.
    pub charge: Charge,
    /// What came to it.
    pub added: Used,
    /// What was taken from it, because a later line knew better.
    pub removed: Used,
}

/// A quarter hour and a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Cell {
    quarter: String,
    model: String,
}

/// What came to a cell, and what was taken from it.
#[derive(Clone, Debug, Default)]
struct CellChange {
    added: UsageSum,
    removed: UsageSum,
}

type PerModel = BTreeMap<String, UsageSum>;

/// The model of what names none.
const UNNAMED: &str = "";
/// Where the models beyond the limit are counted.
const OTHERS: &str = "(other)";
/// The microseconds of a quarter hour.
const QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;
/// The characters of an instant; one of another length is in no year that a row can hold.
const INSTANT_CHARS: usize = 27;

/// What the end of a turn may correct.
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

/// Counts each response once, line by line; can stop and go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UsageFold {
    /// All that was counted.
    totals: PerModel,
    /// Of it, what the end of the turn may correct, oldest first.
    open: Vec<Open>,
    /// The responses that the result of their stream will stand for, oldest first.
    turn: VecDeque<Told>,
    /// What moved since the fold was made or read back.
    #[serde(skip)]
    moved: BTreeMap<Cell, CellChange>,
    /// The quarter hour that a line named last.
    quarter: String,
    recent: VecDeque<Recent>,
    #[serde(skip)]
    seen: VecDeque<u64>,
    last_model: Option<String>,
    repeated: u64,
    /// The lines that tell of responses which another log counts.
    #[serde(default)]
    shared: u64,
    /// The responses counted since the fold was made or read back, by key, with the largest weight of each.
    #[serde(skip)]
    claimed: BTreeMap<u64, u64>,
    running: Option<Tokens>,
    /// The thread of `codex exec` that the totals are of.
    #[serde(default)]
    thread: Option<u64>,
    /// The totals of the threads before it, the last one last.
    threads: VecDeque<(u64, Tokens)>,
    /// What the last result of a stream said in all.
    #[serde(default)]
    stream: Option<StreamTotal>,
    lineage: Lineage,
}

/// The form of [`UsageFold::to_bytes`].
const FORMAT_VERSION: u8 = 7;

impl UsageFold {
    /// Takes the next line of a log that shares no response with another.
    pub fn line(&mut self, line: &str) {
        if let Some(fact) = fact(line) {
            self.fact(fact, |_| false);
        }
    }

    /// Takes what a line says. `is_elsewhere` tells of a claim whether another log counts the response.
    pub fn fact(&mut self, fact: UsageFact, mut is_elsewhere: impl FnMut(Claim) -> bool) {
        let claim = self.lineage.claim(&fact);
        // What was claimed a few lines ago stays here: the commit of that claim decides whether it holds.
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
            UsageFact::Running { total, last, model, at, .. } => {
                self.last_model = model.or_else(|| self.last_model.take());
                self.running(total, last, at.map(Timestamp::as_micros), claim, is_shared);
            }
            UsageFact::Model(model) => self.last_model = Some(model),
            UsageFact::Started { stream, model } => {
                // A process that was stopped reported no result: what its responses said holds.
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

    /// Goes on with the totals of a thread of `codex exec`.
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

    /// Claims a result, and with it the responses of its turn: the log that counts the result counts them.
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

    /// The responses whose claims the result of their stream will raise.
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
                // A larger count weighs more, and a replay has a key of its own, by which a copy of this log may know it.
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

    /// The main conversation holds against a side one, then the larger count, then the first.
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
        // A replay has a key of its own, by which it may be reported once more.
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

    /// Keeps of a response only that it was counted.
    fn forget(&mut self, key: u64) {
        if self.seen.len() == USAGE_SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(key);
    }

    /// The end of a turn says what the turn took; what its responses said is the better answer only where the end says
    /// nothing, or the same in all. Where another log counts the end, it counts the whole turn.
    fn ending(&mut self, mut end: TurnEnd, is_shared: bool) {
        for key in std::mem::take(&mut self.recent).into_iter().map(|old| old.key) {
            self.forget(key);
        }
        // What does not name its session is of whichever turn ends.
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

    /// What a turn took, by its end and by what its responses reported.
    fn corrected(&mut self, end: &TurnEnd, open: &[Open], reported: &Tokens, last_model: &str) -> Vec<Open> {
        let TurnEnd { ending, is_stream, stream, at } = end;
        let tokens = ending.tokens();
        let mut turn = open.to_vec();
        // What a stream without counts by model says leaves subagents out; their messages tell more.
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

    /// What a turn took as its end tells it. The sum over a turn says nothing of single contexts: it is charged as short
    /// ones.
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

    fn running(
        &mut self,
        total: Option<Tokens>,
        last: Option<Tokens>,
        at: Option<i64>,
        claim: Option<Claim>,
        is_shared: bool,
    ) {
        let before = self.running;
        // Where only the last response is reported, the total moved by it: the next total holds it too.
        self.running = total.or_else(|| Some(before?.plus(&last.unwrap_or_default())));
        let tokens = match (before, total) {
            (Some(before), Some(total)) if total == before => {
                self.repeated += 1;
                return;
            }
            (Some(before), Some(total)) if before.plus(&total.less(&before)) == total => total.less(&before),
            // A total that fell back began anew, and a first total may hold what another session took.
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

    /// Where something is counted: a line without an instant is of the quarter hour that was named last.
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

    /// How far sums moved since the fold was made or read back, by quarter hour, model and charge.
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

    /// The claims of the responses counted since the fold was made or read back, by key.
    pub fn claimed(&self) -> impl Iterator<Item = Claim> {
        self.claimed.iter().map(|(key, weight)| Claim { key: *key, weight: *weight })
    }

    /// The tree of forks that the lines so far tell of.
    pub(in crate::dialect) const fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// How many lines tell of responses that another log counts.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// What was counted so far, by model.
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

    /// The fold as bytes, to go on from later: bounded, some tens of kilobytes at most.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&head);
        self.seen.iter().for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
        bytes
    }

    /// Goes on from bytes; none if they are not from [`UsageFold::to_bytes`] of this form.
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
