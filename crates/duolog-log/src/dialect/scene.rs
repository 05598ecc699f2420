//! The memory of a reader from line to line. It is bounded.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::timeline::{Boundary, ItemKind, TimelineItem};

/// Maximum number of remembered open tool calls.
const CALLS_MAX: usize = 256;
/// Maximum number of items that are remembered to find repetitions.
const ITEMS_MAX: usize = 64;
/// Maximum length of a remembered tool name or id in bytes.
const NAME_BYTES_MAX: usize = 512;

/// The channel of a Codex rollout that contains an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// Items for the model.
    Model,
    /// Items for the person.
    Person,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scene {
    /// Tool calls without a result yet, oldest first: id and name.
    calls: VecDeque<(String, String)>,
    /// Items that only one channel contains so far, oldest first.
    told: VecDeque<(Channel, ItemKind, u64)>,
    /// True while a turn is open.
    #[serde(default)]
    in_turn: bool,
    /// Indexes of the rendered items of this line that are repetitions.
    #[serde(skip)]
    repeated: Vec<usize>,
}

impl Scene {
    /// Remembers the tool of a call, so that its result can be shown with the name.
    pub(crate) fn remember_call(&mut self, item: &TimelineItem) {
        let (Some(id), Some(tool)) = (&item.call_id, &item.tool) else { return };
        if id.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX {
            return;
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((id.clone(), tool.clone()));
    }

    /// Returns the tool of the call with this id, and forgets the call.
    pub(crate) fn take_call(&mut self, call_id: &str) -> Option<String> {
        let at = self.calls.iter().rposition(|(id, _)| id == call_id)?;
        self.calls.remove(at).map(|(_, tool)| tool)
    }

    /// Returns true while a turn is open.
    pub(crate) const fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// Updates the turn by the items of a line.
    pub(crate) fn track_turn(&mut self, items: &[TimelineItem]) {
        for item in items {
            match item.boundary {
                Boundary::Opens => self.in_turn = true,
                Boundary::Closes => self.in_turn = false,
                Boundary::Within => {}
            }
        }
    }

    /// Marks the item at this index as a repetition, to be removed after it was numbered.
    pub(crate) fn mark_repeated(&mut self, at: usize) {
        self.repeated.push(at);
    }

    /// Returns the indexes of the repetitions, last first.
    pub(crate) fn take_repeated(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.repeated).into_iter().rev()
    }

    /// Returns true if the other channel contained this item before; each occurrence is matched once.
    pub(crate) fn is_repeated(&mut self, channel: Channel, item: &TimelineItem) -> bool {
        let hash = short_hash(item.text.trim().as_bytes());
        let twin =
            |(other, kind, text): &(Channel, ItemKind, u64)| *other != channel && *kind == item.kind && *text == hash;
        if let Some(at) = self.told.iter().position(twin) {
            self.told.remove(at);
            return true;
        }
        if self.told.len() == ITEMS_MAX {
            self.told.pop_front();
        }
        self.told.push_back((channel, item.kind, hash));
        false
    }
}

/// Eight bytes of BLAKE3: the same on every machine and in every release.
pub(crate) fn short_hash(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}
