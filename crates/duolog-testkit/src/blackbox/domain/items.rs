//! A conversation: its branches, their items and their summaries.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::{OPERATION, Worker};
use super::json::{elements, member, word};
use super::linear::Object;

/// The default branch, which has no name.
const MAIN: &str = "";

/// One branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    /// Every item, as it was added.
    items: Vec<String>,
    /// What the model is shown: summaries in place of items.
    shown: Vec<String>,
    /// The active summaries, oldest first: text, and the item before which it ends. No command shows them.
    summaries: Summaries,
}

/// Summaries of the first items.
#[derive(Clone, Debug, Default)]
struct Summaries(Vec<(String, usize)>);

impl PartialEq for Summaries {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A conversation that only one worker changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    session: String,
    branches: BTreeMap<String, Branch>,
    operations: Operations,
}

/// The items that were added with an operation id. No command shows them.
#[derive(Clone, Debug, Default)]
struct Operations(BTreeMap<String, (String, Vec<String>)>);

impl PartialEq for Operations {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A change of the conversation.
#[derive(Clone, Debug)]
pub enum Command {
    /// Adds items, with or without an operation id.
    Add { branch: String, items: Vec<String>, operation: Option<String> },
    /// Removes the last item.
    Pop { branch: String },
    /// Removes every item.
    Clear { branch: String },
    /// Creates a branch.
    Fork { branch: String, at: usize, name: String },
    /// Replaces the first items by a summary.
    Compact { branch: String, to: usize, summary: String },
    /// Undoes the last summary.
    Undo { branch: String },
}

impl Branch {
    /// Removes the summaries of removed items, and updates `shown`.
    fn settle(&mut self) {
        let length = self.items.len();
        self.summaries.0.retain(|(_, to)| *to <= length);
        let (summary, to) = self.summaries.0.last().map_or((None, 0), |(text, to)| (Some(text.clone()), *to));
        self.shown = summary.into_iter().chain(self.items.iter().skip(to).cloned()).collect();
    }
}

impl Object for Conversation {
    type Command = Command;
    const HIDDEN: bool = true;

    fn name(&self) -> String {
        self.session.clone()
    }

    fn call(&self, command: &Command) -> Call {
        let on = |words: &[&str], branch: &str| {
            let call = Call::new(words);
            if branch == MAIN { call } else { call.word("--branch").word(branch) }
        };
        let session = self.session.as_str();
        match command {
            Command::Add { branch, items, operation } => {
                let mut call = on(&["sessions", "add", "--session", session], branch);
                for item in items {
                    call = call.word("--item").word(item);
                }
                operation.iter().fold(call, |call, id| call.word(OPERATION).word(id))
            }
            Command::Pop { branch } => on(&["sessions", "pop", session], branch),
            Command::Clear { branch } => on(&["sessions", "clear", session, "--yes"], branch),
            Command::Fork { branch, at, name } => {
                on(&["sessions", "fork", session, "--at", &at.to_string(), "--name", name], branch)
            }
            Command::Compact { branch, to, summary } => {
                let words = ["sessions", "compact", session, "--summary-file", "-", "--to", &to.to_string()];
                on(&words, branch).input(summary.clone())
            }
            Command::Undo { branch } => on(&["sessions", "compact", session, "--undo"], branch),
        }
    }

    fn apply(&self, command: &Command, answer: Option<&Value>) -> Vec<Self> {
        let mut next = self.clone();
        let (Command::Add { branch: name, .. }
        | Command::Pop { branch: name }
        | Command::Clear { branch: name }
        | Command::Fork { branch: name, .. }
        | Command::Compact { branch: name, .. }
        | Command::Undo { branch: name }) = command;
        let Some(branch) = next.branches.get_mut(name) else { return Vec::new() };
        let legal = match command {
            Command::Add { items, operation, .. } => {
                let request = (name.clone(), items.clone());
                if let Some(id) = operation {
                    match self.operations.0.get(id) {
                        // A repeated request changes nothing; other content with the same id is refused.
                        Some(before) if *before == request => return vec![next],
                        Some(_) => return Vec::new(),
                        None => _ = next.operations.0.insert(id.clone(), request),
                    }
                }
                branch.items.extend(items.iter().cloned());
                items.iter().all(|item| !item.starts_with("{bad"))
            }
            Command::Pop { .. } => {
                let popped = branch.items.pop();
                let mark = popped.as_ref().and_then(|item| super::json::lenient(item));
                let is_shown = answer.is_none_or(|answer| Some(&answer["item"]) == mark.as_ref());
                popped.is_some() && is_shown
            }
            Command::Clear { .. } => {
                let count = std::mem::take(&mut branch.items).len() as u64;
                answer.is_none_or(|answer| answer["cleared"] == count)
            }
            Command::Fork { at, name, .. } => {
                let mut forked = branch.clone();
                let is_valid = *at <= forked.items.len() && !self.branches.contains_key(name);
                forked.items.truncate(*at);
                forked.settle();
                next.branches.insert(name.clone(), forked);
                is_valid
            }
            Command::Compact { to, summary, .. } => {
                let last = branch.summaries.0.last().map_or(0, |(_, to)| *to);
                branch.summaries.0.push((summary.clone(), *to));
                *to > 0 && *to >= last && *to <= branch.items.len()
            }
            Command::Undo { .. } => branch.summaries.0.pop().is_some(),
        };
        next.branches.values_mut().for_each(Branch::settle);
        if legal { vec![next] } else { Vec::new() }
    }

    fn with_known(self, model: &Self) -> Self {
        model.clone()
    }
}

impl Worker {
    /// Runs one step with this worker's conversation.
    pub fn items_step(&mut self) {
        let kept = self.owned.conversation.take();
        let kept =
            kept.filter(|known| known.branches.len() < 4 && known.branches.values().all(|one| one.items.len() < 20));
        let Some(conversation) = kept.or_else(|| self.new_conversation()) else { return };
        let count = if self.chance(40) { 2 + self.below(3) } else { 1 };
        let again = self.unique("again");
        let commands = (0..count).map(|_| self.items_command(&conversation, &again)).collect();
        let known = conversation.clone();
        self.owned.conversation = self.attempt(&conversation, commands, |worker| worker.read_conversation(&known));
    }

    fn new_conversation(&mut self) -> Option<Conversation> {
        let session = self.unique("conv");
        let item = self.item();
        self.run_clean(&Call::new(&["sessions", "new", "--id", &session]));
        let done = self.run_clean(&Call::new(&["sessions", "add", "--session", &session, "--item", &item]));
        let branch = Branch { items: vec![item.clone()], shown: vec![item], ..Branch::default() };
        (done.ran.code == Some(0)).then(|| {
            // If the first command was refused, the second created a session of that name with another id.
            let id = done.ran.answer().and_then(|answer| Some(answer["session_id"].as_str()?.to_owned()));
            self.exists("sessions", id.as_deref().unwrap_or(&session));
            Conversation { session, branches: [(MAIN.to_owned(), branch)].into(), ..Conversation::default() }
        })
    }

    fn item(&mut self) -> String {
        let mark = self.unique("item");
        match self.below(5) {
            0 => format!("{{\"m\":\"{mark}\",\"v\":\"\\ud800\"}}"),
            1 => format!("[\"{mark}\",1e999]"),
            2 => format!("\"{mark}\""),
            3 => format!("{{\"m\":\"{mark}\",\"z\":1.0,\"a\":-0.0}}"),
            _ => format!("{{\"role\":\"user\",\"content\":\"{mark}\"}}"),
        }
    }

    fn items_command(&mut self, known: &Conversation, again: &str) -> Command {
        let names: Vec<&String> = known.branches.keys().collect();
        let branch = names[self.below(names.len())].clone();
        let length = known.branches[&branch].items.len();
        match self.below(20) {
            0..4 => Command::Pop { branch },
            4 => Command::Clear { branch },
            5..7 => {
                // A name that another process uses at the same time, one that a branch has, or a new one.
                let name = match self.below(4) {
                    0 => again.replacen("again", "branch", 1),
                    1 => names[self.below(names.len())].clone(),
                    _ => String::new(),
                };
                let name = if name == MAIN { self.unique("branch") } else { name };
                Command::Fork { branch, at: self.below(length + 2), name }
            }
            7..9 => Command::Compact { branch, to: length, summary: self.item() },
            9 => Command::Undo { branch },
            10..12 => {
                let used = known.operations.0.iter().nth(self.below(known.operations.0.len().max(1)));
                let used = used.map(|(id, (branch, items))| (id.clone(), branch.clone(), items.clone()));
                let Some((id, branch, mut items)) = used else { return Command::Pop { branch } };
                if self.chance(30) {
                    items.push(self.item());
                }
                Command::Add { branch, items, operation: Some(id) }
            }
            kind => {
                let mut items: Vec<String> = (0..=self.below(2)).map(|_| self.item()).collect();
                if self.chance(8) {
                    items.push("{bad".to_owned());
                }
                let operation = match kind {
                    12..15 => Some(self.unique("add")),
                    15 => Some(again.to_owned()),
                    _ => None,
                };
                Command::Add { branch, items, operation }
            }
        }
    }

    fn read_conversation(&mut self, known: &Conversation) -> Option<Conversation> {
        let session = known.session.clone();
        let listed = self.run_clean(&Call::new(&["sessions", "branches", &session]));
        let answer = listed.ran.answer().filter(|_| listed.ran.code == Some(0))?;
        let mut branches = BTreeMap::new();
        for row in answer["branches"].as_array()? {
            let (id, name) = (word(row, "id"), word(row, "name"));
            let mut items = |full: bool| {
                let call = Call::new(&["sessions", "items", &session, "--branch", &id]);
                let done = self.run_clean(&if full { call.word("--full") } else { call });
                member(&done.ran.text(), &["items"]).and_then(|text| elements(&text))
            };
            let branch = Branch { items: items(true)?, shown: items(false)?, ..Branch::default() };
            branches.insert(name, branch);
        }
        Some(Conversation { session, branches, ..Conversation::default() })
    }
}
