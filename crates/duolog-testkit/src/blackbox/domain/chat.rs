//! The chats of one person at one place: a message is stored once, however often the platform delivers it.

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::Worker;
use super::json::word;
use super::linear::Object;

/// A message: role, text and the platform's id.
type Message = (String, String, Option<String>);

/// The chats of one person in one channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chats {
    platform: String,
    thread: bool,
    /// Each chat with its messages and whether it is active, in the order of their first messages.
    all: Vec<(Vec<Message>, bool)>,
    /// True if clocks jump: then a chat may end because it was idle.
    jumps: bool,
}

/// A change of the chats.
#[derive(Clone, Debug)]
pub enum Command {
    /// Adds a message.
    Add(Message),
    /// Ends the chat.
    Reset,
}

impl Object for Chats {
    type Command = Command;

    fn name(&self) -> String {
        self.platform.clone()
    }

    fn call(&self, command: &Command) -> Call {
        let place = ["--platform", &self.platform, "--channel", "C1", "--user", "U1"];
        let verb = if matches!(command, Command::Reset) { "reset" } else { "add" };
        let mut call = place.iter().fold(Call::new(&["chats", verb]), |call, word| call.word(*word));
        if self.thread {
            call = call.word("--thread").word("17.5");
        }
        let Command::Add((role, text, id)) = command else { return call };
        let call = call.word("--role").word(role).word(text);
        id.iter().fold(call, |call, id| call.word("--platform-message-id").word(id))
    }

    fn apply(&self, command: &Command, answer: Option<&Value>) -> Vec<Self> {
        let mut next = self.clone();
        let active = next.all.iter().position(|(_, active)| *active);
        let Command::Add(message) = command else {
            let Some(active) = active else {
                // The command is killed between its answer that no chat was active and its exit code.
                let is_none = answer.is_some_and(|answer| answer["ended_chat_id"].is_null());
                return if is_none { vec![next] } else { Vec::new() };
            };
            if answer.is_some_and(|answer| answer["ended_chat_id"].is_null()) {
                return Vec::new();
            }
            next.all[active].1 = false;
            return vec![next];
        };
        let known =
            |id: &String| self.all.iter().flat_map(|(messages, _)| messages).any(|one| one.2.as_ref() == Some(id));
        let repeated = message.2.as_ref().is_some_and(known);
        if answer.is_some_and(|answer| answer["existed"] != repeated) {
            return Vec::new();
        }
        if repeated {
            return vec![next];
        }
        let mut begun = self.clone();
        begun.all.iter_mut().for_each(|(_, active)| *active = false);
        begun.all.push((vec![message.clone()], true));
        begun.sort();
        match active {
            None => vec![begun],
            Some(active) => {
                next.all[active].0.push(message.clone());
                if self.jumps { vec![next, begun] } else { vec![next] }
            }
        }
    }
}

impl Chats {
    fn sort(&mut self) {
        self.all.sort_by(|one, other| one.0.first().cmp(&other.0.first()));
    }
}

impl Worker {
    /// Runs one step with this worker's chats.
    pub fn chat_step(&mut self) {
        let chats = self.owned.chat.take().filter(|chats| chats.all.len() < 6);
        let chats = chats.unwrap_or_else(|| Chats {
            platform: self.unique("chat"),
            thread: self.chance(50),
            jumps: self.round.jumps,
            ..Chats::default()
        });
        let count = if self.chance(40) { 2 + self.below(3) } else { 1 };
        let again = self.unique("message");
        let commands = (0..count).map(|_| self.chat_command(&chats, &again)).collect();
        let known = chats.clone();
        self.owned.chat = self.attempt(&chats, commands, |worker| worker.read_chats(&known));
    }

    fn chat_command(&mut self, chats: &Chats, again: &str) -> Command {
        if self.chance(15) {
            return Command::Reset;
        }
        let ids: Vec<&String> =
            chats.all.iter().flat_map(|(messages, _)| messages).filter_map(|one| one.2.as_ref()).collect();
        let id = match self.below(4) {
            0 => None,
            1 => Some(again.to_owned()),
            2 => ids.get(self.below(ids.len().max(1))).map(|id| (*id).clone()),
            _ => Some(self.unique("message")),
        };
        let role = if self.chance(70) { "user" } else { "assistant" };
        Command::Add((role.to_owned(), self.unique("text"), id))
    }

    fn read_chats(&mut self, known: &Chats) -> Option<Chats> {
        let listed = self.run_clean(&Call::new(&["chats", "list", "--platform", &known.platform, "--limit", "200"]));
        let answer = listed.ran.answer().filter(|_| listed.ran.code == Some(0))?;
        let mut chats = Chats { all: Vec::new(), ..known.clone() };
        for chat in answer["chats"].as_array()? {
            let id = word(chat, "id");
            let history = self.run_clean(&Call::new(&["chats", "history", &id, "--limit", "200"]));
            let history = history.ran.answer()?;
            let messages = history["messages"].as_array()?.iter();
            let messages: Vec<Message> = messages
                .map(|one| {
                    (word(one, "role"), word(one, "content"), one["platform_message_id"].as_str().map(str::to_owned))
                })
                .collect();
            if chat["message_count"].as_u64() != Some(messages.len() as u64) {
                let what = format!("{id} counts {} messages and has {}", chat["message_count"], messages.len());
                self.violation("present once", what, &listed, Some(&known.platform));
            }
            self.exists("chats", &id);
            chats.all.push((messages, chat["active"] == true));
        }
        chats.sort();
        Some(chats)
    }
}
