//! The commands of a script, their acknowledgements, and the states that a crash may leave.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::Loss;
use super::record::{Change, Record};

/// The change that a command makes, once.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// No promised change: the command reads, folds, checkpoints or repairs.
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
    /// The session is restored as it was exported.
    Import {
        session: String,
        was: Session,
    },
    Run {
        run: String,
        stage: Stage,
    },
}

/// The steps of a run, in order.
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

/// A command and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) arguments: Vec<String>,
    pub(crate) input: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) pid: u32,
    /// The size of the file of records before its start and after its end.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Its exit code; none if it was ended by a signal.
    pub(crate) code: Option<i32>,
}

impl Attempt {
    /// Returns the position of its acknowledgement in the records: its first output or its end. `None` if it gave none.
    pub(crate) fn acknowledged(&self, records: &[Record]) -> Option<u64> {
        let output = |record: &&Record| record.pid == self.pid && matches!(record.change, Change::Output);
        self.agreed().then(|| records.iter().find(output).map_or(self.ended, |record| record.end))
    }

    /// Returns true if it reports success, now or before.
    pub(crate) fn agreed(&self) -> bool {
        matches!(self.code, Some(0 | 6))
    }

    /// Returns true if it reports that nothing was changed: not found, wrong usage, busy, stale fence.
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

/// The valid number of copies of a line in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The number of acknowledged copies, of any durability.
    acknowledged: usize,
}

/// A possible state of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) lines: BTreeMap<String, Count>,
    /// Names whose rename must have one line in the log.
    pub(crate) renamed: BTreeSet<String>,
}

/// A possible state of the home.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) sessions: BTreeMap<String, Session>,
    /// Stages of runs that must have happened, and stages that may have happened.
    pub(crate) runs: BTreeMap<String, (BTreeSet<Stage>, BTreeSet<Stage>)>,
}

/// The certainty that a command took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Certain,
    /// It was not acknowledged, or only with durability `process`.
    Possible {
        acknowledged: bool,
    },
}

/// The point and the kind of a crash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The size of the records that took effect.
    pub(crate) at: u64,
    pub(crate) loss: Loss,
    /// A sync failed before: a later sync does not cover lines that were not acknowledged with `power`.
    pub(crate) faulty: bool,
    /// Every operation was retried since.
    pub(crate) retried: bool,
}

/// The commands of a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) played: Vec<Attempt>,
}

impl Ledger {
    /// Returns the possible states: several while an outcome is unknown, none if the answers contradict each other.
    pub(crate) fn worlds(&self, records: &[Record], moment: Moment) -> Vec<World> {
        let mut worlds = vec![World::default()];
        let begun: Vec<&Attempt> = self.played.iter().filter(|played| played.begun < moment.at).collect();
        let agreed = |played: &Attempt| played.acknowledged(records).is_some_and(|at| at <= moment.at);
        let (mut operations, mut undecided) = (BTreeSet::new(), Vec::new());
        for played in &begun {
            // A retry with the same id is the same append.
            let same = |other: &&&Attempt| played.operation().is_some() && other.operation() == played.operation();
            if played.operation().is_some_and(|id| !operations.insert(id)) {
                continue;
            }
            let acknowledged = agreed(played) || begun.iter().filter(same).any(|other| agreed(other));
            if !acknowledged && played.refused() && played.ended <= moment.at {
                continue;
            }
            let survives = moment.loss == Loss::None || !matches!(played.effect, Effect::Append { power: false, .. });
            let certainty =
                if acknowledged && survives { Certainty::Certain } else { Certainty::Possible { acknowledged } };
            worlds = worlds.iter().flat_map(|world| world.with(&played.effect, certainty, moment)).collect();
            match &played.effect {
                Effect::Append { session, lines, operation: Some(_), .. } if certainty != Certainty::Certain => {
                    undecided.push((session, lines));
                }
                // A retry of an operation that was lost entirely appends to the log that starts now.
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

    /// Returns the appends with an operation id that started before the crash, to sessions not known to be deleted.
    pub(crate) fn operations(&self, records: &[Record], moment: Moment) -> Vec<(&Attempt, &str)> {
        let mut once: Vec<(&Attempt, &str)> = Vec::new();
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

/// The key of a session with a generated id.
pub(crate) fn unknown(name: &str) -> String {
    format!("the session named {name}")
}

impl World {
    fn with(&self, effect: &Effect, certainty: Certainty, moment: Moment) -> Vec<Self> {
        let perhaps = matches!(certainty, Certainty::Possible { .. });
        let after = match effect {
            Effect::None => Some(self.clone()),
            Effect::Append { session, lines, operation, power } => {
                let mut after = self.clone();
                let there = after.sessions.contains_key(session);
                // An append to an unknown session name creates a session of that name.
                let session = after
                    .sessions
                    .entry(if there { session.clone() } else { unknown(session) })
                    .or_insert_with(|| Session { name: session.clone(), ..Session::default() });
                let retried = moment.retried && operation.is_some();
                session.append(
                    lines,
                    if retried { Certainty::Certain } else { certainty },
                    *power && !perhaps && !moment.faulty,
                );
                // With durability `process`, a power loss may keep the lines and lose the operation id.
                if retried && perhaps && moment.loss != Loss::None && !power {
                    session.allow(lines);
                }
                // The counts allow for both outcomes, unless it created the session.
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

    /// Returns the state after a change of a session; `None` if the change is impossible here.
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
            // Two concurrent deletions may both succeed.
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
    fn append(&mut self, lines: &[String], certainty: Certainty, covers: bool) {
        for line in lines {
            let count = self.lines.entry(line.clone()).or_default();
            count.most += 1;
            match certainty {
                Certainty::Certain => (count.least, count.acknowledged) = (count.least + 1, count.acknowledged + 1),
                Certainty::Possible { acknowledged: true } => count.acknowledged += 1,
                Certainty::Possible { acknowledged: false } => {}
            }
        }
        // One sync stores everything in the file.
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

    /// Adds one acknowledged line.
    pub(crate) fn add(&mut self, line: &str) {
        let count = self.lines.entry(line.to_owned()).or_default();
        (count.least, count.most) = (count.least + 1, count.most + 1);
    }
}
