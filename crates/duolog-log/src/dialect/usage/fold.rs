//! Counts each response once, and can stop and go on.

use std::collections::{BTreeMap, VecDeque};

use duolog_types::Moment;
use duolog_types::limits::{USAGE_MODELS_MAX, USAGE_RECENT_MAX, USAGE_SEEN_MAX};
use serde::{Deserialize, Serialize};

use super::fact::{Response, UsageFact, fact};
use super::tokens::{Tiers, Tokens};
use super::{ModelUsage, Usage};
use crate::dialect::money::Money;
use crate::dialect::prices::Prices;
use crate::dialect::scene::short_hash;

/// What was counted for one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    responses: u64,
    tokens: Tokens,
    /// Tokens that no stated cost covers.
    bare: Tiers,
    stated: Money,
}

impl Counted {
    fn one(tokens: Tokens, cost: Option<Money>) -> Self {
        let bare = if cost.is_some() { Tiers::default() } else { Tiers::of(tokens) };
        Self { responses: 1, tokens, bare, stated: cost.unwrap_or_default() }
    }

    fn add(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.tokens = self.tokens.plus(&other.tokens);
        self.bare = self.bare.plus(&other.bare);
        self.stated += other.stated;
    }

    fn remove(&mut self, other: &Self) {
        self.responses = self.responses.saturating_sub(other.responses);
        self.tokens = self.tokens.less(&other.tokens);
        self.bare = self.bare.less(&other.bare);
        self.stated = self.stated.less(other.stated);
    }
}

type PerModel = BTreeMap<String, Counted>;

/// The model of what names none.
const UNNAMED: &str = "";
/// Where the models beyond the limit are counted.
const OTHERS: &str = "(other)";

fn add(models: &mut PerModel, model: &str, counted: &Counted) {
    let room = models.len() < USAGE_MODELS_MAX || models.contains_key(model);
    models.entry(if room { model } else { OTHERS }.to_owned()).or_default().add(counted);
}

fn remove(models: &mut PerModel, model: &str, counted: &Counted) {
    let model = if models.contains_key(model) { model } else { OTHERS };
    let Some(found) = models.get_mut(model) else { return };
    found.remove(counted);
    if *found == Counted::default() {
        models.remove(model);
    }
}

/// A response that a later line may still correct.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recent {
    key: u64,
    message: u64,
    model: String,
    at: Option<i64>,
    sidechain: bool,
    counted: Counted,
}

/// How far a fork's replay of its parent is told from its own work.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum Replay {
    /// No fork, or the replay is over.
    #[default]
    Over,
    /// A fork that has told no total yet.
    Expected,
    /// One total, which the next will show to be a replay or not.
    First { model: String, counted: Box<Counted>, at: Option<i64> },
    /// In the burst.
    Within { at: i64 },
}

/// A pause longer than this ends a replay: a burst is written in one go, a model takes longer to answer.
const BURST_PAUSE_MICROS: i64 = 1_000_000;

/// Counts each response once, line by line; can stop and go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UsageFold {
    /// Turns whose end told what they took.
    settled: PerModel,
    /// Responses since.
    open: PerModel,
    recent: VecDeque<Recent>,
    #[serde(skip)]
    seen: VecDeque<u64>,
    last_model: Option<String>,
    repeated: u64,
    running: Option<Tokens>,
    began: bool,
    replay: Replay,
}

/// The form of [`UsageFold::to_bytes`].
const FORM: u8 = 1;

impl UsageFold {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        if let Some(fact) = fact(line) {
            self.fact(fact);
        }
    }

    /// Takes what a line says.
    pub fn fact(&mut self, fact: UsageFact) {
        match fact {
            UsageFact::Response(response) => self.response(response),
            UsageFact::Ending { tokens, cost } => self.ending(tokens, cost),
            UsageFact::Running { total, last, at } => self.running(total, last, at.map(Moment::as_micros)),
            UsageFact::Model(model) => self.last_model = Some(model),
            // Later ones can be copies of the parent's; only the first tells of this session.
            UsageFact::Began { forked } if !self.began => {
                self.began = true;
                self.replay = if forked { Replay::Expected } else { Replay::Over };
            }
            UsageFact::Began { .. } => {}
        }
    }

    fn response(&mut self, response: Response) {
        let model = response.model.unwrap_or_default();
        if !model.is_empty() {
            self.last_model = Some(model.clone());
        }
        let counted = Counted::one(response.tokens, response.cost);
        let Some(id) = &response.response_id else {
            add(&mut self.open, &model, &counted);
            return;
        };
        let message = short_hash(id.as_bytes());
        let key = short_hash(format!("{id}\0{}", response.request_id.as_deref().unwrap_or_default()).as_bytes());
        let at = response.at.map(Moment::as_micros);
        let new = Recent { key, message, model, at, sidechain: response.sidechain, counted };
        let replayed =
            |old: &Recent| old.message == message && old.at == at && at.is_some() && (old.sidechain || new.sidechain);
        let found = self.recent.iter().position(|old| old.key == key);
        match found.or_else(|| self.recent.iter().position(replayed)) {
            Some(place) => {
                self.repeated += 1;
                self.correct(place, new);
            }
            None if self.seen.contains(&key) => self.repeated += 1,
            None => {
                add(&mut self.open, &new.model, &new.counted);
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
            remove(&mut self.open, &old.model, &old.counted);
            add(&mut self.open, &new.model, &new.counted);
            std::mem::replace(&mut self.recent[place], new).key
        } else {
            new.key
        };
        // A replay has a key of its own, by which it may be told once more.
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
    /// nothing, or the same by model.
    fn ending(&mut self, tokens: Tokens, cost: Option<Money>) {
        let mut turn = std::mem::take(&mut self.open);
        for key in std::mem::take(&mut self.recent).into_iter().map(|old| old.key) {
            self.forget(key);
        }
        let told = turn.values().fold(Tokens::default(), |sum, counted| sum.plus(&counted.tokens));
        let model = self.last_model.clone().unwrap_or_default();
        if tokens != Tokens::default() && (tokens.total(), tokens.context()) != (told.total(), told.context()) {
            let responses = turn.values().map(|counted| counted.responses).sum::<u64>().max(1);
            // The sum over a turn says nothing of single contexts: it is charged as short ones.
            let bare = Tiers { all: tokens, ..Tiers::default() };
            turn = PerModel::from([(model.clone(), Counted { responses, tokens, bare, stated: Money::ZERO })]);
        }
        if let Some(cost) = cost {
            for counted in turn.values_mut() {
                (counted.bare, counted.stated) = (Tiers::default(), Money::ZERO);
            }
            let stated = Counted { stated: cost, ..Counted::default() };
            add(&mut turn, &model, &stated);
        }
        for (model, counted) in &turn {
            add(&mut self.settled, model, counted);
        }
    }

    fn running(&mut self, total: Option<Tokens>, last: Option<Tokens>, at: Option<i64>) {
        let before = self.running;
        self.running = total.or(before);
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
        self.own(model, Counted::one(tokens, None), at);
    }

    /// Counts what a Codex session took itself, and not what it replays.
    fn own(&mut self, model: String, counted: Counted, at: Option<i64>) {
        let soon = |before: i64| at.is_some_and(|at| (0..=BURST_PAUSE_MICROS).contains(&(at - before)));
        match std::mem::take(&mut self.replay) {
            Replay::Expected => self.replay = Replay::First { model, counted: Box::new(counted), at },
            Replay::First { at: Some(before), .. } | Replay::Within { at: before } if soon(before) => {
                self.repeated += 1;
                self.replay = Replay::Within { at: at.unwrap_or(before) };
            }
            Replay::First { model: first_model, counted: first, .. } => {
                add(&mut self.open, &first_model, &first);
                add(&mut self.open, &model, &counted);
            }
            Replay::Over | Replay::Within { .. } => add(&mut self.open, &model, &counted),
        }
    }

    /// What was counted so far, by model.
    pub fn report(&self, prices: &Prices) -> Usage {
        let mut models = self.settled.clone();
        for (model, counted) in &self.open {
            add(&mut models, model, counted);
        }
        if let Replay::First { model, counted, .. } = &self.replay {
            add(&mut models, model, counted);
        }
        let models = models.into_iter().map(|(model, counted)| {
            let bare = if counted.bare.all == Tokens::default() {
                Some(Money::ZERO)
            } else {
                prices.get(&model).map(|price| price.cost(&counted.bare))
            };
            ModelUsage {
                model: (model != UNNAMED).then_some(model),
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
        let mut bytes = vec![FORM];
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
        if *form != FORM || seen.len() % 8 != 0 {
            return None;
        }
        let mut fold: Self = serde_json::from_slice(head).ok()?;
        fold.seen = seen.chunks_exact(8).filter_map(|key| key.try_into().ok().map(u64::from_le_bytes)).collect();
        let within = fold.seen.len() <= USAGE_SEEN_MAX && fold.recent.len() <= USAGE_RECENT_MAX;
        within.then_some(fold)
    }
}
