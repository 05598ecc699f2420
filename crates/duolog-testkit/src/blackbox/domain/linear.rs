//! One object against a sequential model: what several processes did at once must be explained by one order.
//!
//! Every acknowledged command takes part in that order, a refused one never does, and a command with an unknown end may.
//! The model of an object says what a command makes of it; what is read back must be the last state of such an order.

use std::fmt::Debug;

use serde_json::Value;

use super::super::command::{Call, Outcome};
use super::super::worker::{Done, Worker};

/// A state that the commands of one worker change and nobody else does.
pub trait Object: Clone + PartialEq + Debug {
    /// What can be done to it.
    type Command: Clone + Debug;

    /// Returns true if the model knows what no command shows: a command with an unknown end makes that uncertain.
    const HIDDEN: bool = false;

    /// The command line.
    fn call(&self, command: &Self::Command) -> Call;

    /// The states that the command may lead to, none if it cannot be acknowledged in this state. The answer is given if
    /// there was one: a model may refuse an answer that does not fit.
    fn apply(&self, command: &Self::Command, answer: Option<&Value>) -> Vec<Self>;

    /// What it is called in a report.
    fn name(&self) -> String;

    /// What was read back, with what only the model knows.
    #[must_use]
    fn with_known(self, _: &Self) -> Self {
        self
    }
}

/// A command that was tried.
pub struct Tried<C> {
    /// The command.
    pub command: C,
    /// What became of it.
    pub done: Done,
}

impl<C> Tried<C> {
    fn answer(&self) -> Option<Value> {
        self.done.ran.answer()
    }
}

impl Worker {
    /// Runs commands at once, reads the object back and looks for an order that explains it. Returns what is there now.
    pub fn attempt<O: Object>(
        &mut self,
        before: &O,
        commands: Vec<O::Command>,
        read: impl Fn(&mut Self) -> Option<O>,
    ) -> Option<O> {
        let calls = commands.iter().map(|command| before.call(command)).collect();
        let done = self.volley(calls);
        let after = read(self);
        let tried: Vec<Tried<O::Command>> =
            commands.into_iter().zip(done).map(|(command, done)| Tried { command, done }).collect();
        let Some(after) = after else {
            if !self.round.ground.is_small() {
                let what = format!("{} cannot be read", before.name());
                self.violated("acknowledged is done", what, &tried, &before.name());
            }
            return None;
        };
        if let Some(known) = explained(before, &tried, &after) {
            let uncertain = O::HIDDEN && tried.iter().any(|tried| tried.done.outcome() == Outcome::Unknown);
            return (!uncertain).then(|| after.with_known(&known));
        }
        let what = format!("{}\n{}", why(&tried), differences(before, &after));
        self.violated(rule(before, &tried), what, &tried, &before.name());
        // The model knows nothing more of it: the next step begins with another object.
        None
    }

    fn violated<C>(&self, rule: &'static str, what: String, tried: &[Tried<C>], name: &str) {
        let steps = tried.iter().map(|tried| tried.done.step).collect();
        let session = Some(name.to_owned());
        self.round.history.events().violations.push(super::super::history::Violation { rule, what, steps, session });
    }
}

fn why<C: Debug>(tried: &[Tried<C>]) -> String {
    let mut words: Vec<String> =
        tried.iter().map(|tried| format!("{:?} of {:?}", tried.done.outcome(), tried.command)).collect();
    words.insert(0, "no order explains what is there:".to_owned());
    words.join("\n      ")
}

/// What is there now and was not, and the other way round.
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

/// The rule that is broken where nothing explains the state.
fn rule<O: Object>(before: &O, tried: &[Tried<O::Command>]) -> &'static str {
    let done = |tried: &&Tried<O::Command>| tried.done.outcome() == Outcome::Done;
    match tried {
        [] => "nobody else's data",
        [one] => match one.done.outcome() {
            Outcome::Done if before.apply(&one.command, None).is_empty() => "what is wrong is refused",
            Outcome::Done => "acknowledged is done",
            Outcome::Refused => "refused changes nothing",
            Outcome::Unknown => "all or none",
        },
        many if many.iter().all(|tried| tried.done.outcome() == Outcome::Refused) => "refused changes nothing",
        many if !many.iter().any(|tried| done(&tried)) => "all or none",
        _ => "one after the other",
    }
}

/// Looks for an order: depth first, every acknowledged command once, any of the unknown ones.
pub fn explained<O: Object>(state: &O, tried: &[Tried<O::Command>], after: &O) -> Option<O> {
    let open: Vec<&Tried<O::Command>> = tried.iter().filter(|tried| tried.done.outcome() != Outcome::Refused).collect();
    search(state, &open, after)
}

fn search<O: Object>(state: &O, open: &[&Tried<O::Command>], after: &O) -> Option<O> {
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
