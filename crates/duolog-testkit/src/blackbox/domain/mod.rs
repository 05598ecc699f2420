//! What is not the log: runs and their gates, the queue, schedules, chats, inboxes and items.
//!
//! An object that only one worker changes is held against a sequential model ([`linear`]): the worker sends one command
//! or a volley of several at once, and reads the object back through the binary. What all workers share (the number of
//! running runs, the due times of schedules, the pages of lists) is held against rules of its own ([`shared`]).

mod chat;
mod inbox;
mod items;
pub mod json;
mod linear;
mod overrides;
mod queue;
mod run;
mod run_commands;
mod run_rules;
mod runs;
pub mod shared;
#[cfg(test)]
mod tests;

use super::Profile;
use super::worker::Worker;

/// A group of nouns that a profile aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Runs and phases.
    Runs,
    /// Gates and their answers.
    Gates,
    /// The queue and the limit on running runs.
    Queue,
    /// Schedules.
    Schedules,
    /// Chats.
    Chats,
    /// Inboxes.
    Inboxes,
    /// Items of conversations.
    Items,
    /// Lists, page by page.
    Pages,
}

impl Group {
    /// Every group, with its name.
    pub const ALL: [(&'static str, Self); 8] = [
        ("runs", Self::Runs),
        ("gates", Self::Gates),
        ("queue", Self::Queue),
        ("schedules", Self::Schedules),
        ("chats", Self::Chats),
        ("inboxes", Self::Inboxes),
        ("items", Self::Items),
        ("pages", Self::Pages),
    ];
}

/// The objects of one worker.
#[derive(Debug, Default)]
pub struct Owned {
    run: Option<run::Run>,
    conversation: Option<items::Conversation>,
    inbox: Option<inbox::Inbox>,
    chat: Option<chat::Chats>,
    overrides: Option<overrides::Override>,
    /// Sessions whose logs tell of usage.
    spending: Vec<String>,
}

impl Worker {
    /// One step with the nouns of a group.
    pub fn domain_step(&mut self, group: Group) {
        // Where few runs may run at once everybody changes the queue, and no run is one worker's alone.
        let few = self.round.slots < super::MANY_SLOTS;
        match group {
            Group::Runs | Group::Gates | Group::Queue if few => self.queue_step(),
            Group::Runs => self.run_step(false),
            Group::Gates => self.run_step(true),
            Group::Queue => self.start_race(),
            Group::Schedules => self.schedule_step(),
            Group::Chats => self.chat_step(),
            Group::Inboxes => self.inbox_step(),
            Group::Items => self.items_step(),
            Group::Pages => self.pages_step(),
        }
    }

    /// A group by chance.
    pub fn choose_group(&mut self) -> Group {
        match self.round.profile {
            // Somebody must write while others read.
            Profile::Only(Group::Pages) => [Group::Pages, Group::Runs, Group::Chats, Group::Items][self.below(4)],
            Profile::Only(group) => group,
            _ => Group::ALL[self.below(Group::ALL.len())].1,
        }
    }

    /// A text that is nowhere else.
    pub fn unique(&mut self, what: &str) -> String {
        self.operation_id().replacen("op", what, 1)
    }
}
