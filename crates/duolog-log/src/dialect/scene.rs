//! What a reader of one log has to remember from line to line. Bounded, whatever the log holds.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::timeline::{Boundary, ItemKind, TimelineItem};

/// How many open tool calls are remembered by name.
const CALLS_MAX: usize = 256;
/// How many items are remembered to tell a second telling from a second happening.
const TOLD_MAX: usize = 64;
/// The bytes of a tool's name or id worth remembering.
const NAME_BYTES_MAX: usize = 512;

/// Which of two channels of one file tells of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// What the model sees.
    Model,
    /// What the person sees.
    Person,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scene {
    /// Tool calls without an answer yet, oldest first: id and name.
    calls: VecDeque<(String, String)>,
    /// Items that only one channel told of so far, oldest first.
    told: VecDeque<(Channel, ItemKind, u64)>,
    /// A turn began and has no end yet.
    #[serde(default)]
    in_turn: bool,
    /// Which items of the line being read were told before, by their place among all that were rendered.
    #[serde(skip)]
    repeated: Vec<usize>,
}

impl Scene {
    /// Remembers which tool a call is for, so that its answer can be shown with the name.
    pub(crate) fn called(&mut self, item: &TimelineItem) {
        let (Some(id), Some(tool)) = (&item.call_id, &item.tool) else { return };
        if id.len() > NAME_BYTES_MAX || tool.len() > NAME_BYTES_MAX {
            return;
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((id.clone(), tool.clone()));
    }

    /// The tool that this id is an answer of.
    pub(crate) fn answered(&mut self, call_id: &str) -> Option<String> {
        let at = self.calls.iter().rposition(|(id, _)| id == call_id)?;
        self.calls.remove(at).map(|(_, tool)| tool)
    }

    /// Whether a turn began and has no end yet.
    pub(crate) const fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// Notes what the items of a line do to the turn.
    pub(crate) fn passed(&mut self, items: &[TimelineItem]) {
        for item in items {
            match item.boundary {
                Boundary::Opens => self.in_turn = true,
                Boundary::Closes => self.in_turn = false,
                Boundary::Within => {}
            }
        }
    }

    /// Notes that the item at this place was told before, and is to be left out once it was counted.
    pub(crate) fn repeats(&mut self, at: usize) {
        self.repeated.push(at);
    }

    /// Which items were told before, the last first.
    pub(crate) fn take_repeated(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.repeated).into_iter().rev()
    }

    /// Whether the other channel has told of this item already; each telling is matched once.
    pub(crate) fn told_twice(&mut self, channel: Channel, item: &TimelineItem) -> bool {
        let hash = short_hash(item.text.trim().as_bytes());
        let twin =
            |(other, kind, text): &(Channel, ItemKind, u64)| *other != channel && *kind == item.kind && *text == hash;
        if let Some(at) = self.told.iter().position(twin) {
            self.told.remove(at);
            return true;
        }
        if self.told.len() == TOLD_MAX {
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
