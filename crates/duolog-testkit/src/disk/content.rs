//! The content of the disk: files and directories, each as it was written and as it was synced.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;

use super::plan::Loss;
use crate::random::mix;

#[derive(Clone)]
pub(super) enum Node {
    File(Content),
    Directory { names: Names, synced: Names },
}

pub(super) type Names = BTreeMap<OsString, u64>;

#[derive(Clone)]
pub(super) struct Content {
    pub(super) written: Vec<u8>,
    /// What the last sync left on the device.
    pub(super) synced: Vec<u8>,
    /// `written` has not changed up to here since that sync.
    pub(super) untouched: usize,
    /// Bytes that a failed sync lost: they can be read, but no later sync stores them.
    pub(super) lost: Vec<Range<usize>>,
    pub(super) mode: u32,
    pub(super) synced_mode: u32,
}

impl Content {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self {
            written: bytes.to_vec(),
            synced: bytes.to_vec(),
            untouched: bytes.len(),
            lost: Vec::new(),
            mode: 0o600,
            synced_mode: 0o600,
        }
    }

    pub(super) fn cut(&mut self, len: usize) {
        self.written.resize(len, 0);
        self.untouched = self.untouched.min(len);
        for range in &mut self.lost {
            range.end = range.end.min(len);
        }
        self.lost.retain(|range| range.start < range.end);
    }

    pub(super) fn sync(&mut self) {
        self.synced.clone_from(&self.written);
        for range in &self.lost {
            self.synced[range.clone()].fill(0);
        }
        self.untouched = self.written.len();
        self.synced_mode = self.mode;
    }

    pub(super) fn fail_sync(&mut self) {
        if self.untouched < self.written.len() {
            self.lost.push(self.untouched..self.written.len());
        }
    }

    /// Returns the file after a power loss.
    pub(super) fn after(&self, loss: Loss, node: u64) -> Self {
        let (bytes, mode) = match loss {
            Loss::DropUnsynced => (self.synced.clone(), self.synced_mode),
            Loss::KeepAll | Loss::LostNames => (self.written.clone(), self.mode),
            Loss::ZeroExtended => {
                let mut bytes = self.written[..self.untouched].to_vec();
                bytes.resize(self.written.len(), 0);
                (bytes, self.mode)
            }
            Loss::Torn { seed } => {
                let random = mix(seed ^ mix(node));
                if self.untouched < self.synced.len() && random & 1 == 0 {
                    (self.synced.clone(), self.synced_mode)
                } else {
                    let unsynced = self.written.len() - self.untouched;
                    let kept = usize::try_from(mix(random) % (unsynced as u64 + 1)).unwrap_or(0);
                    (self.written[..self.untouched + kept].to_vec(), self.mode)
                }
            }
        };
        Self { mode, synced_mode: mode, ..Self::new(&bytes) }
    }
}

impl Node {
    pub(super) fn after(&self, loss: Loss, id: u64) -> Self {
        match self {
            Self::File(content) => Self::File(content.after(loss, id)),
            Self::Directory { names, synced } => {
                let kept = match loss {
                    Loss::DropUnsynced | Loss::LostNames => synced,
                    Loss::KeepAll | Loss::Torn { .. } | Loss::ZeroExtended => names,
                };
                Self::Directory { names: kept.clone(), synced: kept.clone() }
            }
        }
    }
}
