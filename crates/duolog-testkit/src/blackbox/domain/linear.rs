//! Checks one object against a sequential model: some order must explain what several processes did at the same time.
//!
//! Every acknowledged command is part of that order, a refused one is not, and one of unknown outcome may be. The model
//! computes the effect of each command; the object, read back, must be the last state of such an order.

use std::fmt::Debug;

use serde_json::Value;

use super::super::command::{Call, Outcome};
use super::super::worker::{CommandRun, Worker};

/// A state that only the commands of one worker change.
pub trait Object: Clone + PartialEq + Debug {
    /// A change of the object.
    type Command: Clone + Debug;

    /// True if the model has state that no command shows: a command of unknown outcome makes that state uncertain.
    const HIDDEN: bool = false;

    /// Returns the command line.
    fn call(&self, command: &Self::Command) -> Call;

    /// Returns the states that the command may lead to; empty if it cannot be acknowledged in this state. `answer` is
    /// the command's answer, if there was one: a model may reject an answer that does not fit.
    fn apply(&self, command: &Self::Command, answer: Option<&Value>) -> Vec<Self>;

    /// Returns the name for reports.
    fn name(&self) -> String;

    /// Returns the object that was read back, with the hidden state of the model.
    #[must_use]
    fn with_known(self, _: &Self) -> Self {
        self
    }
}

/// A command that was run.
pub struct Attempt<C> {
    /// The command.
    pub command: C,
    /// Its result.
    pub done: CommandRun,
}

impl<C> Attempt<C> {
    fn answer(&self) -> Option<Value> {
        self.done.ran.answer()
    }
}

impl Worker {
    /// Runs commands at the same time, reads the object back and looks for an order that explains it. Returns the
    /// object.
    pub fn attempt<O: Object>(
        &mut self,
        before: &O,
        commands: Vec<O::Command>,
        read: impl Fn(&mut Self) -> Option<O>,
    ) -> Option<O> {
        let calls = commands.iter().map(|command| before.call(command)).collect();
        let done = self.volley(calls);
        let after = read(self);
        let tried: Vec<Attempt<O::Command>> =
            commands.into_iter().zip(done).map(|(command, done)| Attempt { command, done }).collect();
        let Some(after) = after else {
            if !self.round.directory.is_small() {
                let what = format!("cannot read {}", before.name());
                self.violated("acknowledged changes take effect", what, &tried, &before.name());
            }
            return None;
        };
        if let Some(known) = explained(before, &tried, &after) {
            let uncertain = O::HIDDEN && tried.iter().any(|tried| tried.done.outcome() == Outcome::Unknown);
            return (!uncertain).then(|| after.with_known(&known));
        }
        let what = format!("{}\n{}", why(&tried), differences(before, &after));
        self.violated(rule(before, &tried), what, &tried, &before.name());
        // The model cannot continue: the next step starts with another object.
        None
    }

    fn violated<C>(&self, rule: &'static str, what: String, tried: &[Attempt<C>], name: &str) {
        let steps = tried.iter().map(|tried| tried.done.step).collect();
        let session = Some(name.to_owned());
        self.round.history.events().violations.push(super::super::history::Violation { rule, what, steps, session });
    }
}

fn why<C: Debug>(tried: &[Attempt<C>]) -> String {
    let mut words: Vec<String> =
        tried.iter().map(|tried| format!("{:?} of {:?}", tried.done.outcome(), tried.command)).collect();
    words.insert(0, "no order explains the state:".to_owned());
    words.join("\n      ")
}

/// Formats the lines that were added and removed.
fn differences<O: Object>(before: &O, after: &O) -> String {
    let parts = |state: &O| format!("{state:#?}").lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let (before, after) = (parts(before), parts(after));
    let only = |mut of: Vec<String>, other: &[String], sign: &str| {
        for line in other {
            if let Some(place) = of.iter().position(|known| known == line) {
                of.remove(place);
            }
        }
        of.iter().map(|line| format!("      {sign} {line}")).collect::<Vec<_>>()
    };
    let mut lines = only(before.clone(), &after, "was");
    lines.extend(only(after, &before, "is "));
    if lines.is_empty() { "      nothing changed".to_owned() } else { lines.join("\n") }
}

/// Returns the rule that is violated if no order explains the state.
fn rule<O: Object>(before: &O, tried: &[Attempt<O::Command>]) -> &'static str {
    let done = |tried: &&Attempt<O::Command>| tried.done.outcome() == Outcome::Done;
    match tried {
        [] => "no unexplained change",
        [one] => match one.done.outcome() {
            Outcome::Done if before.apply(&one.command, None).is_empty() => "invalid commands are refused",
            Outcome::Done => "acknowledged changes take effect",
            Outcome::Refused => "refused commands change nothing",
            Outcome::Unknown => "all or nothing",
        },
        many if many.iter().all(|tried| tried.done.outcome() == Outcome::Refused) => "refused commands change nothing",
        many if !many.iter().any(|tried| done(&tried)) => "all or nothing",
        _ => "one order explains all answers",
    }
}

/// Searches depth first for an order with every acknowledged command once, and any of those of unknown outcome.
pub fn explained<O: Object>(state: &O, tried: &[Attempt<O::Command>], after: &O) -> Option<O> {
    let open: Vec<&Attempt<O::Command>> =
        tried.iter().filter(|tried| tried.done.outcome() != Outcome::Refused).collect();
    search(state, &open, after)
}

fn search<O: Object>(state: &O, open: &[&Attempt<O::Command>], after: &O) -> Option<O> {
    if open.iter().all(|tried| tried.done.outcome() == Outcome::Unknown) && state == after {
        return Some(state.clone());
    }
    (0..open.len()).find_map(|index| {
        let mut rest = open.to_vec();
        let next = rest.remove(index);
        let next_states = state.apply(&next.command, next.answer().as_ref());
        next_states.iter().find_map(|next_state| search(next_state, &rest, after))
    })
}
