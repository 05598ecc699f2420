//! An inbox: a sent message is there once for every reader, also after its session was renamed.

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::Worker;
use super::json::{elements, member, members};
use super::linear::Object;
use super::run::GeneratedId;

/// The inbox of a session, and the conversation of that session, which sends to itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbox {
    /// The session.
    session: String,
    /// Its name.
    title: String,
    /// All messages in order: content and id.
    messages: Vec<(String, GeneratedId)>,
    /// The number of messages that the reader has acknowledged.
    acknowledged: usize,
    /// The items of the conversation.
    items: Vec<String>,
}

/// A change of the inbox.
#[derive(Clone, Debug)]
pub enum Command {
    /// Sends a message to the id or the name of the session, with or without an id and a sender.
    Send { id: Option<String>, content: String, by_name: bool, from: bool },
    /// Acknowledges the next messages.
    Ack { limit: usize },
    /// Renames the session.
    Rename { title: String },
}

impl Object for Inbox {
    type Command = Command;

    fn name(&self) -> String {
        self.session.clone()
    }

    fn call(&self, command: &Command) -> Call {
        match command {
            Command::Send { id, content, by_name, from } => {
                let to = if *by_name { &self.title } else { &self.session };
                let mut call = Call::new(&["sessions", "send", "--to", to, "--content", content]);
                if let Some(id) = id {
                    call = call.word("--id").word(id);
                }
                if *from { call.word("--from").word(&self.session) } else { call }
            }
            Command::Ack { limit } => {
                Call::new(&["sessions", "inbox", &self.session, "--ack", "--limit", &limit.to_string()])
            }
            Command::Rename { title } => Call::new(&["sessions", "rename", &self.session, title]),
        }
    }

    fn apply(&self, command: &Command, answer: Option<&Value>) -> Vec<Self> {
        let mut next = self.clone();
        match command {
            Command::Send { id, content, from, .. } => {
                let known = id.as_ref().and_then(|id| self.messages.iter().find(|(_, known)| known.0 == *id));
                match known {
                    // A repeated message changes nothing; other content with the same id is refused.
                    Some((before, _)) if before == content => return vec![next],
                    Some(_) => return Vec::new(),
                    None => {}
                }
                let generated = answer.map(|answer| answer["message_id"].as_str().unwrap_or_default().to_owned());
                next.messages.push((content.clone(), GeneratedId(id.clone().or(generated).unwrap_or_default())));
                if *from {
                    next.items.push(content.clone());
                }
            }
            Command::Ack { limit } => {
                let all = (self.acknowledged + limit).min(self.messages.len());
                let Some(shown) = answer.and_then(|answer| answer["messages"].as_array()) else {
                    next.acknowledged = all;
                    return vec![next];
                };
                // Delivery is at least once: two concurrent readers may get the same messages, and each acknowledges
                // those that it got. No message is skipped.
                let place = |id: &str| self.messages.iter().position(|(_, known)| known.0 == id);
                let last = shown.last().map(|last| place(last["id"].as_str().unwrap_or_default()));
                let end = match last {
                    None if all == self.acknowledged => self.acknowledged,
                    Some(Some(last)) => last + 1,
                    _ => return Vec::new(),
                };
                if shown.len() > *limit || end > self.acknowledged + shown.len() {
                    return Vec::new();
                }
                next.acknowledged = self.acknowledged.max(end);
                // A command that is killed after its output has shown messages without acknowledging them.
                return vec![next, self.clone()];
            }
            Command::Rename { title } => next.title.clone_from(title),
        }
        vec![next]
    }
}

impl Worker {
    /// Runs one step with this worker's inbox.
    pub fn inbox_step(&mut self) {
        let inbox = match self.owned.inbox.take() {
            Some(inbox) if inbox.messages.len() < 14 => inbox,
            _ => {
                let (session, title) = (self.unique("mail"), self.unique("title"));
                let made = self.run_clean(&Call::new(&["sessions", "new", "--id", &session, "--name", &title]));
                if made.ran.code != Some(0) {
                    return;
                }
                self.exists("sessions", &session);
                Inbox { session, title, ..Inbox::default() }
            }
        };
        let count = if self.chance(40) { 2 + self.below(3) } else { 1 };
        let again = self.unique("id");
        let commands = (0..count).map(|_| self.inbox_command(&inbox, &again, count == 1)).collect();
        let known = inbox.clone();
        self.owned.inbox = self.attempt(&inbox, commands, |worker| worker.read_inbox(&known));
    }

    fn inbox_command(&mut self, inbox: &Inbox, again: &str, alone: bool) -> Command {
        match self.below(10) {
            0..2 => return Command::Ack { limit: 1 + self.below(3) },
            2 if alone => return Command::Rename { title: self.unique("title") },
            _ => {}
        }
        let known = inbox.messages.get(self.below(inbox.messages.len().max(1))).cloned();
        let content = format!("{{\"m\":\"{}\",\"v\":\"\\ud800\"}}", self.unique("content"));
        let (id, content) = match (self.below(5), known) {
            (0, _) => (Some(again.to_owned()), content),
            (1, Some((_, id))) => (Some(id.0), content),
            (2, Some((before, id))) => (Some(id.0), before),
            (3, _) => (Some(self.unique("id")), content),
            _ => (None, content),
        };
        Command::Send { id, content, by_name: self.chance(30), from: self.chance(30) }
    }

    fn read_inbox(&mut self, known: &Inbox) -> Option<Inbox> {
        let session = known.session.clone();
        let shown = self.run_clean(&Call::new(&["sessions", "show", &session]));
        let title = shown.ran.answer()?["session"]["name"].as_str().unwrap_or_default().to_owned();
        let messages = self.messages(&session, "witness")?;
        let unread = self.messages(&session, &session)?.len();
        let by_name = self.messages(&title, "witness")?;
        if by_name != messages {
            let what = format!("by its id {session} has {} messages, by its name {}", messages.len(), by_name.len());
            self.violation("one inbox by id and by name", what, &shown, Some(&session));
        }
        let done = self.run_clean(&Call::new(&["sessions", "items", &session, "--full"]));
        let items = member(&done.ran.text(), &["items"]).and_then(|text| elements(&text))?;
        let acknowledged = messages.len().saturating_sub(unread);
        Some(Inbox { session, title, messages, acknowledged, items })
    }

    /// Returns the messages that a reader has not acknowledged.
    fn messages(&mut self, recipient: &str, reader: &str) -> Option<Vec<(String, GeneratedId)>> {
        let done = self.run_clean(&Call::new(&["sessions", "inbox", recipient, "--reader", reader, "--limit", "200"]));
        let messages = member(&done.ran.text(), &["messages"]).and_then(|text| elements(&text))?;
        let message = |text: &String| {
            let mut message = members(text)?;
            let id = message.remove("id")?.trim_matches('"').to_owned();
            Some((message.remove("content")?, GeneratedId(id)))
        };
        messages.iter().map(message).collect()
    }
}
