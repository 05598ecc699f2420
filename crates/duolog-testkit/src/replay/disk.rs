//! A simulated disk that applies recorded calls: what programs read, and what a power loss leaves.
//!
//! Files are pages of 4 KiB. A write makes a page dirty; a sync makes dirty pages durable, with the size. A failed sync
//! makes them clean without storing them, as Linux does: programs read their content until the power is lost, and no
//! later sync stores it. A name is durable after a sync of its directory.

use std::collections::{BTreeMap, HashMap};

use super::record::{Change, Record};
use super::tree::{Node, Tree};
use crate::random::Random;

#[cfg(test)]
mod tests;

const PAGE: usize = 4096;

/// What a crash leaves of unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Everything is kept: the processes were killed, the machine was not.
    None,
    /// Everything is lost.
    All,
    /// Files keep their new size, with NUL bytes in pages that were not stored; names are kept.
    Extended,
    /// File content is kept; unsynced names are lost.
    Names,
    /// Each file keeps all, none or some pages, each in any version; names are kept up to a random change.
    Pages,
}

impl Loss {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::All, Self::Extended, Self::Names, Self::Pages];
}

#[derive(Clone, Debug, Default)]
struct File {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Versions of pages since the last sync, oldest first.
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Sizes since the last sync, oldest first.
    sizes: Vec<usize>,
    mode: u32,
    durable_mode: u32,
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug, Default)]
struct Directory {
    seen: Names,
    durable: Names,
    /// The names after each change since the last sync, with the number of the change.
    pending: Vec<(u64, Names)>,
    mode: u32,
}

#[derive(Clone, Debug)]
enum Object {
    File(File),
    Directory(Directory),
}

/// The disk; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    objects: Vec<Object>,
    by_inode: HashMap<u64, usize>,
    /// Counts the changes of names.
    changes: u64,
}

impl Disk {
    /// Creates an empty directory with this inode.
    pub(crate) fn empty(root: u64) -> Self {
        let objects = vec![Object::Directory(Directory { mode: 0o700, ..Directory::default() })];
        Self { objects, by_inode: HashMap::from([(root, 0)]), changes: 0 }
    }

    /// Applies a recorded call.
    pub(crate) fn apply(&mut self, record: &Record) {
        match &record.change {
            Change::Create { inode, mode } => {
                let file = File { mode: *mode, durable_mode: *mode, ..File::default() };
                self.make(&record.path, *inode, Object::File(file));
            }
            Change::Mkdir { inode, mode } => {
                let directory = Directory { mode: *mode, ..Directory::default() };
                self.make(&record.path, *inode, Object::Directory(directory));
            }
            Change::Write { inode, offset, data } => self.file(*inode, record).write(*offset, data),
            Change::Truncate { inode, size } => self.file(*inode, record).truncate(*size),
            Change::Chmod { inode, mode } => match self.object(*inode, record) {
                Object::File(file) => file.mode = *mode,
                Object::Directory(directory) => directory.mode = *mode,
            },
            Change::Sync { inode, failed, data_only } => match self.object(*inode, record) {
                Object::File(file) => file.sync(*failed, *data_only),
                Object::Directory(directory) if !failed => {
                    directory.durable.clone_from(&directory.seen);
                    directory.pending.clear();
                }
                Object::Directory(_) => {}
            },
            Change::Unlink | Change::Rmdir => {
                self.change_names(&record.path, |names, name| {
                    names.remove(name);
                });
            }
            Change::Link { to } => {
                let object = self.find(&record.path);
                self.change_names(to, |names, name| {
                    names.insert(name.to_owned(), object);
                });
            }
            Change::Rename { to } => self.rename(&record.path, to),
            Change::Output => {}
        }
    }

    /// Applies the first half of a write, for a process that died inside it.
    pub(crate) fn apply_half(&mut self, record: &Record) {
        if let Change::Write { inode, offset, data } = &record.change {
            self.file(*inode, record).write(*offset, &data[..data.len() / 2]);
        }
    }

    /// Returns what a crash now leaves.
    pub(crate) fn after(&self, loss: Loss, random: &mut Random) -> Tree {
        // A journal keeps name changes in order: a prefix of them survives.
        let last = match loss {
            Loss::None | Loss::Extended => u64::MAX,
            Loss::All | Loss::Names => 0,
            Loss::Pages => random.below(self.changes + 2),
        };
        let mut tree = Tree::default();
        self.collect(0, "", loss, last, random, &mut tree);
        tree
    }

    fn collect(&self, at: usize, path: &str, loss: Loss, last: u64, random: &mut Random, tree: &mut Tree) {
        match &self.objects[at] {
            Object::File(file) => tree.push(path, file.after(loss, random)),
            Object::Directory(directory) => {
                if !path.is_empty() {
                    tree.push(path, Node::Directory { mode: directory.mode });
                }
                for (name, object) in directory.after(last) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                    self.collect(*object, &below, loss, last, random, tree);
                }
            }
        }
    }

    fn make(&mut self, path: &str, inode: u64, object: Object) {
        self.objects.push(object);
        let made = self.objects.len() - 1;
        self.by_inode.insert(inode, made);
        self.change_names(path, |names, name| {
            names.insert(name.to_owned(), made);
        });
    }

    fn rename(&mut self, from: &str, to: &str) {
        let object = self.find(from);
        let (parent, name) = split(from);
        if parent == split(to).0 {
            self.change_names(to, |names, new| {
                names.remove(name);
                names.insert(new.to_owned(), object);
            });
        } else {
            // One change of two directories: both are kept or neither, unless only one of them is synced.
            self.change_names(to, |names, new| {
                names.insert(new.to_owned(), object);
            });
            self.changes -= 1;
            self.change_names(from, |names, name| {
                names.remove(name);
            });
        }
    }

    fn change_names(&mut self, path: &str, change: impl FnOnce(&mut Names, &str)) {
        self.changes += 1;
        let (number, (parent, name)) = (self.changes, split(path));
        let parent = self.find(parent);
        let Object::Directory(directory) = &mut self.objects[parent] else { panic!("{path} is below a file") };
        change(&mut directory.seen, name);
        directory.pending.push((number, directory.seen.clone()));
    }

    fn find(&self, path: &str) -> usize {
        path.split('/').filter(|part| !part.is_empty()).fold(0, |at, part| match &self.objects[at] {
            Object::Directory(directory) => *directory.seen.get(part).unwrap_or_else(|| panic!("no {part} of {path}")),
            Object::File(_) => panic!("{path} is below a file"),
        })
    }

    fn object(&mut self, inode: u64, record: &Record) -> &mut Object {
        let at = self.by_inode.get(&inode).unwrap_or_else(|| panic!("{record:?} names an unknown inode"));
        &mut self.objects[*at]
    }

    fn file(&mut self, inode: u64, record: &Record) -> &mut File {
        match self.object(inode, record) {
            Object::File(file) => file,
            Object::Directory(_) => panic!("{record:?} is about a directory"),
        }
    }
}

impl Directory {
    fn after(&self, last: u64) -> &Names {
        self.pending.iter().rev().find(|(number, _)| *number <= last).map_or(&self.durable, |(_, names)| names)
    }
}

impl File {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let from = usize::try_from(offset).expect("a small file");
        let to = from + data.len();
        if self.seen.len() < to {
            self.seen.resize(to, 0);
            self.sizes.push(to);
        }
        self.seen[from..to].copy_from_slice(data);
        self.touch(from, to);
    }

    fn truncate(&mut self, size: u64) {
        let (size, before) = (usize::try_from(size).expect("a small file"), self.seen.len());
        self.seen.resize(size, 0);
        self.sizes.push(size);
        if size < before {
            // The removed bytes read as NUL bytes if the file grows again.
            let full = self.seen.clone();
            self.seen.resize(before, 0);
            self.touch(size, before);
            self.seen = full;
        }
    }

    fn touch(&mut self, from: usize, to: usize) {
        for page in from / PAGE..to.div_ceil(PAGE) {
            self.dirty.entry(page).or_default().push(page_of(&self.seen, page));
        }
    }

    fn sync(&mut self, failed: bool, data_only: bool) {
        if !failed {
            self.durable.resize(self.seen.len(), 0);
            for page in self.dirty.keys() {
                put_page(&mut self.durable, *page, &page_of(&self.seen, *page));
            }
            if !data_only {
                self.durable_mode = self.mode;
            }
        }
        self.dirty.clear();
        self.sizes.clear();
    }

    fn after(&self, loss: Loss, random: &mut Random) -> Node {
        let loss = match (loss, random.below(4)) {
            (Loss::Pages, 0) => Loss::None,
            (Loss::Pages, 1) => Loss::All,
            _ => loss,
        };
        match loss {
            Loss::None | Loss::Names => Node::File { mode: self.mode, bytes: self.seen.clone() },
            Loss::All => Node::File { mode: self.durable_mode, bytes: self.durable.clone() },
            Loss::Extended => {
                let mut bytes = self.durable.clone();
                bytes.resize(self.seen.len().max(self.durable.len()), 0);
                Node::File { mode: self.mode, bytes }
            }
            Loss::Pages => {
                let mode = if random.below(2) == 0 { self.mode } else { self.durable_mode };
                Node::File { mode, bytes: self.some_pages(random) }
            }
        }
    }

    /// Returns a random size, and for each dirty page a random version or its synced content.
    fn some_pages(&self, random: &mut Random) -> Vec<u8> {
        let pick = |random: &mut Random, n: usize| match random.below(3) {
            0 => 0,
            1 => n,
            _ => usize::try_from(random.below(n as u64 + 1)).unwrap_or_default(),
        };
        let size = match pick(random, self.sizes.len()) {
            0 => self.durable.len(),
            n => self.sizes[n - 1],
        };
        let mut bytes = self.durable.clone();
        bytes.resize(size, 0);
        for (page, versions) in &self.dirty {
            if let Some(version) = pick(random, versions.len()).checked_sub(1) {
                put_page(&mut bytes, *page, &versions[version]);
            }
        }
        bytes
    }
}

fn page_of(bytes: &[u8], page: usize) -> Vec<u8> {
    let start = (page * PAGE).min(bytes.len());
    bytes[start..(start + PAGE).min(bytes.len())].to_vec()
}

/// Copies a page into the file as far as it fits; bytes beyond the version are NUL.
fn put_page(bytes: &mut [u8], page: usize, version: &[u8]) {
    let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(bytes.len()));
    if start < end {
        bytes[start..end].fill(0);
        let n = version.len().min(end - start);
        bytes[start..start + n].copy_from_slice(&version[..n]);
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
