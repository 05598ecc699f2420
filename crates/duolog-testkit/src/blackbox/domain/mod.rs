//! Everything but the log: runs and their gates, the queue, schedules, chats, inboxes and items.
//!
//! An object that only one worker changes is checked against a sequential model ([`linear`]): the worker runs one
//! command, or several at the same time, and reads the object back through the binary. What all workers share (the
//! number of running runs, the due times of schedules, the pages of lists) has its own rules ([`shared`]).

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

/// A group of nouns for a profile.
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
    /// Sessions whose logs have usage.
    spending: Vec<String>,
}

impl Worker {
    /// Runs one step with the nouns of a group.
    pub fn domain_step(&mut self, group: Group) {
        // With few run slots every worker changes the queue, and no run belongs to one worker.
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

    /// Chooses a random group.
    pub fn choose_group(&mut self) -> Group {
        match self.round.profile {
            // Some workers must write while others read.
            Profile::Only(Group::Pages) => [Group::Pages, Group::Runs, Group::Chats, Group::Items][self.below(4)],
            Profile::Only(group) => group,
            _ => Group::ALL[self.below(Group::ALL.len())].1,
        }
    }

    /// Returns a unique text.
    pub fn unique(&mut self, what: &str) -> String {
        self.operation_id().replacen("op", what, 1)
    }
}
