//! What was asked of the real binary, what it acknowledged, and what may be there after a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::Loss;
use super::record::{Record, What};

/// What a command changes, once.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Nothing that is promised: it reads, folds, checkpoints, repairs.
    None,
    Create {
        session: String,
        name: String,
    },
    Append {
        session: String,
        lines: Vec<String>,
        operation: Option<String>,
        power: bool,
    },
    Rename {
        session: String,
        name: String,
    },
    Delete {
        session: String,
    },
    DeleteLog {
        session: String,
    },
    /// The session comes back as it was when it was exported.
    Import {
        session: String,
        was: Session,
    },
    Run {
        run: String,
        stage: Stage,
    },
}

/// What happens to a run, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Start,
    Claim,
    Begin,
    End,
    Gate,
    Approve,
    ClaimAgain,
    Acknowledge,
    Finish,
}

/// A command that was given, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) arguments: Vec<String>,
    pub(crate) input: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) pid: u32,
    /// How long the file of records was before it began and after it ended.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Played {
    /// Where its acknowledgement stands among the records, if it gave one: its first output, or its end.
    pub(crate) fn acknowledged(&self, records: &[Record]) -> Option<u64> {
        let said = |record: &&Record| record.pid == self.pid && matches!(record.what, What::Said);
        self.agreed().then(|| records.iter().find(said).map_or(self.ended, |record| record.end))
    }

    /// It says that it was done, now or before.
    pub(crate) fn agreed(&self) -> bool {
        matches!(self.code, Some(0 | 6))
    }

    /// It says that nothing was changed: not found, wrong usage, busy, overtaken.
    pub(crate) fn refused(&self) -> bool {
        matches!(self.code, Some(1 | 2 | 3 | 7))
    }

    fn operation(&self) -> Option<&str> {
        match &self.effect {
            Effect::Append { operation, .. } => operation.as_deref(),
            _ => None,
        }
    }
}

/// How many times a line may be in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// How many were acknowledged on any level.
    acknowledged: usize,
}

/// A session as it may be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) lines: BTreeMap<String, Count>,
    /// Names whose line must be in the log, once.
    pub(crate) renamed: BTreeSet<String>,
}

/// Everything as it may be found.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) sessions: BTreeMap<String, Session>,
    /// Stages of runs that must have happened, and that may have.
    pub(crate) runs: BTreeMap<String, (BTreeSet<Stage>, BTreeSet<Stage>)>,
}

/// How sure it is that a command had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sure {
    Yes,
    /// It was not acknowledged, or only against the death of the process.
    Perhaps {
        acknowledged: bool,
    },
}

/// When and how the crash came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// How many bytes of the records had their effect.
    pub(crate) at: u64,
    pub(crate) loss: Loss,
    /// A sync failed on the way: what was not acknowledged with `power` has no cover from later syncs.
    pub(crate) faulty: bool,
    /// Every operation was asked again since.
    pub(crate) retried: bool,
}

/// The commands of a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) played: Vec<Played>,
}

impl Ledger {
    /// The worlds that may be found: more than one while something is undecided, none if the answers contradict.
    pub(crate) fn worlds(&self, records: &[Record], moment: Moment) -> Vec<World> {
        let mut worlds = vec![World::default()];
        let begun: Vec<&Played> = self.played.iter().filter(|played| played.begun < moment.at).collect();
        let agreed = |played: &Played| played.acknowledged(records).is_some_and(|at| at <= moment.at);
        let (mut operations, mut undecided) = (BTreeSet::new(), Vec::new());
        for played in &begun {
            // Asked again under the same id, it is the same append.
            let same = |other: &&&Played| played.operation().is_some() && other.operation() == played.operation();
            if played.operation().is_some_and(|id| !operations.insert(id)) {
                continue;
            }
            let acknowledged = agreed(played) || begun.iter().filter(same).any(|other| agreed(other));
            if !acknowledged && played.refused() && played.ended <= moment.at {
                continue;
            }
            let survives = moment.loss == Loss::None || !matches!(played.effect, Effect::Append { power: false, .. });
            let sure = if acknowledged && survives { Sure::Yes } else { Sure::Perhaps { acknowledged } };
            worlds = worlds.iter().flat_map(|world| world.with(&played.effect, sure, moment)).collect();
            match &played.effect {
                Effect::Append { session, lines, operation: Some(_), .. } if sure != Sure::Yes => {
                    undecided.push((session, lines));
                }
                // An operation of which nothing was kept appends to the log that begins now, when it is asked again.
                Effect::DeleteLog { session } if moment.retried => {
                    for (_, lines) in undecided.iter().filter(|(of, _)| *of == session) {
                        worlds
                            .iter_mut()
                            .filter_map(|world| world.sessions.get_mut(session))
                            .for_each(|of| of.allow(lines));
                    }
                }
                _ => {}
            }
        }
        worlds
    }

    /// The appends under an operation id that began before the moment, to a session that is not known to be deleted since.
    pub(crate) fn operations(&self, records: &[Record], moment: Moment) -> Vec<(&Played, &str)> {
        let mut once: Vec<(&Played, &str)> = Vec::new();
        for played in self.played.iter().filter(|played| played.begun < moment.at) {
            match &played.effect {
                Effect::Append { session, operation: Some(_), .. } => once.push((played, session)),
                Effect::Delete { session } | Effect::Create { session, .. } | Effect::Import { session, .. }
                    if played.acknowledged(records).is_some_and(|at| at <= moment.at) =>
                {
                    once.retain(|(_, of)| of != session);
                }
                _ => {}
            }
        }
        once
    }
}

/// How a session is known whose id the harness did not choose.
pub(crate) fn unknown(name: &str) -> String {
    format!("the one named {name}")
}

impl World {
    fn with(&self, effect: &Effect, sure: Sure, moment: Moment) -> Vec<Self> {
        let perhaps = matches!(sure, Sure::Perhaps { .. });
        let after = match effect {
            Effect::None => Some(self.clone()),
            Effect::Append { session, lines, operation, power } => {
                let mut after = self.clone();
                let there = after.sessions.contains_key(session);
                // An append that names no session makes one of that name.
                let session = after
                    .sessions
                    .entry(if there { session.clone() } else { unknown(session) })
                    .or_insert_with(|| Session { name: session.clone(), ..Session::default() });
                let retried = moment.retried && operation.is_some();
                session.append(lines, if retried { Sure::Yes } else { sure }, *power && !perhaps && !moment.faulty);
                // What is durable only against the death of the process may leave its lines and lose its id.
                if retried && perhaps && moment.loss != Loss::None && !power {
                    session.allow(lines);
                }
                // Whether it was done is in the counts, unless it made the session.
                return if perhaps && !there { vec![self.clone(), after] } else { vec![after] };
            }
            Effect::Run { run, stage } => {
                let mut after = self.clone();
                let (must, may) = after.runs.entry(run.clone()).or_default();
                may.insert(*stage);
                if !perhaps {
                    must.insert(*stage);
                }
                return vec![after];
            }
            other => self.changed(other),
        };
        match (after, perhaps) {
            (Some(after), true) => vec![self.clone(), after],
            (Some(after), false) => vec![after],
            (None, true) => vec![self.clone()],
            (None, false) => Vec::new(),
        }
    }

    /// The world after a change of a session; none if it cannot be made here.
    fn changed(&self, effect: &Effect) -> Option<Self> {
        let mut after = self.clone();
        let there = |id: &str| self.sessions.contains_key(id);
        let named = |name: &str| self.sessions.values().any(|session| session.name == name);
        match effect {
            Effect::Create { session, name } if !there(session) && !named(name) => {
                after.sessions.insert(session.clone(), Session { name: name.clone(), ..Session::default() });
            }
            Effect::Import { session, was } if !there(session) && !named(&was.name) => {
                after.sessions.insert(session.clone(), was.clone());
            }
            Effect::Rename { session, name }
                if !named(name) || self.sessions.get(session).is_some_and(|of| of.name == *name) =>
            {
                let session = after.sessions.get_mut(session)?;
                session.name.clone_from(name);
                session.renamed.insert(name.clone());
            }
            // Of two that delete at once, both may say so.
            Effect::Delete { session } => drop(after.sessions.remove(session)),
            Effect::DeleteLog { session } => {
                let session = after.sessions.get_mut(session)?;
                session.lines.clear();
                session.renamed.clear();
            }
            _ => return None,
        }
        Some(after)
    }
}

impl Session {
    fn append(&mut self, lines: &[String], sure: Sure, covers: bool) {
        for line in lines {
            let count = self.lines.entry(line.clone()).or_default();
            count.most += 1;
            match sure {
                Sure::Yes => (count.least, count.acknowledged) = (count.least + 1, count.acknowledged + 1),
                Sure::Perhaps { acknowledged: true } => count.acknowledged += 1,
                Sure::Perhaps { acknowledged: false } => {}
            }
        }
        // One sync stores all that is in the file.
        if covers {
            for count in self.lines.values_mut() {
                count.least = count.acknowledged;
            }
        }
    }

    fn allow(&mut self, lines: &[String]) {
        for line in lines {
            self.lines.entry(line.clone()).or_default().most += 1;
        }
    }

    /// One more line, acknowledged.
    pub(crate) fn add(&mut self, line: &str) {
        let count = self.lines.entry(line.to_owned()).or_default();
        (count.least, count.most) = (count.least + 1, count.most + 1);
    }
}
