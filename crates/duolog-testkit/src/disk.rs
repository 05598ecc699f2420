//! A simulated disk that keeps written and synced bytes apart, and injects faults.
//!
//! It does the worst that a real disk may do, and no more: a sync makes bytes durable but not their name; a failed sync
//! loses the bytes although they can still be read and although the next sync succeeds; an unsynced truncation may be
//! undone. Locks belong to an open file, as with `flock`, and end with it or with its process.

mod content;
mod plan;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use duolog_log::{Disk, DiskFile, FileKind, Ident, Lock, Open, Stat};

use content::{Content, Names, Node};
pub use plan::{Call, CallKind, Crash, EACCES, EINTR, EIO, ENOSPC, Fault, Loss, is_stopped};
use plan::{errno, stopped};

type Hook = Arc<dyn Fn(&Call) + Send + Sync>;

/// The disk, as one process sees it. Clones are the same process; [`SimDisk::process`] adds another on the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    process: u32,
}

struct State {
    nodes: BTreeMap<u64, Node>,
    next_node: u64,
    next_description: u64,
    processes: u32,
    stopped: Vec<u32>,
    locks: BTreeMap<u64, Vec<Held>>,
    calls: Vec<Call>,
    at_index: BTreeMap<usize, Fault>,
    /// The number of calls of a kind that succeed before one fails.
    at_count: Vec<(CallKind, usize, Fault)>,
    always: BTreeMap<CallKind, Fault>,
    hook: Option<Hook>,
}

struct Held {
    description: u64,
    process: u32,
    lock: Lock,
}

const ROOT: u64 = 1;

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        let root = Node::Directory { names: Names::new(), synced: Names::new() };
        Self::over(BTreeMap::from([(ROOT, root)]), ROOT + 1)
    }

    fn over(nodes: BTreeMap<u64, Node>, next_node: u64) -> Self {
        let state = State {
            nodes,
            next_node,
            next_description: 0,
            processes: 1,
            stopped: Vec::new(),
            locks: BTreeMap::new(),
            calls: Vec::new(),
            at_index: BTreeMap::new(),
            at_count: Vec::new(),
            always: BTreeMap::new(),
            hook: None,
        };
        Self { state: Arc::new(Mutex::new(state)), process: 1 }
    }

    /// Returns this disk for the code under test.
    pub fn as_disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Adds another process on the same disk, which continues when this one is stopped.
    #[must_use]
    pub fn process(&self) -> Self {
        let mut state = self.lock();
        state.processes += 1;
        Self { state: self.state.clone(), process: state.processes }
    }

    /// Returns the id of this process, as [`Disk::holder`] returns it.
    pub fn pid(&self) -> u32 {
        self.process
    }

    /// Ends this process between two calls.
    pub fn stop(&self) {
        self.lock().stop(self.process);
    }

    /// Returns true if this process was stopped.
    pub fn has_stopped(&self) -> bool {
        self.lock().stopped.contains(&self.process)
    }

    /// Returns every call so far, of all processes. A stopped process makes no calls.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Returns the number of calls so far, which is the index of the next one.
    pub fn call_count(&self) -> usize {
        self.lock().calls.len()
    }

    /// Returns the calls that changed or synced something.
    pub fn mutations(&self) -> Vec<Call> {
        self.lock().calls.iter().filter(|call| call.kind.is_mutation()).cloned().collect()
    }

    /// Makes the call with this index fail.
    pub fn fail_at(&self, index: usize, fault: Fault) {
        self.lock().at_index.insert(index, fault);
    }

    /// Makes the `nth` call of a kind from now on fail; 0 is the next one.
    pub fn fail_kind_from(&self, kind: CallKind, nth: usize, fault: Fault) {
        self.lock().at_count.push((kind, nth, fault));
    }

    /// Makes every call of a kind fail until [`SimDisk::heal`].
    pub fn fail_every(&self, kind: CallKind, fault: Fault) {
        self.lock().always.insert(kind, fault);
    }

    /// Removes all pending faults.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.at_index.clear();
        state.at_count.clear();
        state.always.clear();
    }

    /// Calls `hook` before each call, on the same thread; the hook may use the disk.
    pub fn on_call(&self, hook: Hook) {
        self.lock().hook = Some(hook);
    }

    /// Returns the disk that a crash leaves now. This one is not changed.
    ///
    /// Faults, hook and trace stay here. After a power loss everything that is left counts as synced.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Self {
        let state = self.lock();
        let nodes = match crash {
            Crash::Process => state.nodes.clone(),
            Crash::Power(loss) => state.nodes.iter().map(|(id, node)| (*id, node.after(loss, *id))).collect(),
        };
        Self::over(nodes, state.next_node)
    }

    /// Returns the bytes of a file as a reader sees them now.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.content(path.as_ref(), |content| content.written.clone())
    }

    /// Returns the permission bits of a file.
    pub fn mode(&self, path: impl AsRef<Path>) -> Option<u32> {
        self.content(path.as_ref(), |content| content.mode)
    }

    fn content<T>(&self, path: &Path, get: impl FnOnce(&Content) -> T) -> Option<T> {
        let state = self.lock();
        match state.nodes.get(&state.find(path).ok()??)? {
            Node::File(content) => Some(get(content)),
            Node::Directory { .. } => None,
        }
    }

    /// Replaces the bytes of a file as an editor does that writes in place: the same file, and durable.
    ///
    /// This and the other changes from outside are not calls: they are not traced and cannot fail.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut state = self.lock();
        match state.find(path.as_ref()).expect("a path beneath the root") {
            Some(node) => match state.nodes.get_mut(&node) {
                Some(Node::File(content)) => {
                    let mode = content.mode;
                    *content = Content { mode, synced_mode: mode, ..Content::new(bytes) };
                }
                _ => panic!("{} is a directory", path.as_ref().display()),
            },
            None => state.put(path.as_ref(), Some(bytes)),
        }
    }

    /// Replaces a file with a new one that has these bytes, durably.
    pub fn replace(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.lock().put(path.as_ref(), Some(bytes));
    }

    /// Removes a name, durably.
    pub fn remove(&self, path: impl AsRef<Path>) {
        self.lock().put(path.as_ref(), None);
    }

    /// Returns every file by path.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let mut files = BTreeMap::new();
        let mut left = vec![(PathBuf::new(), ROOT)];
        while let Some((path, id)) = left.pop() {
            match &state.nodes[&id] {
                Node::File(content) => {
                    files.insert(path, content.written.clone());
                }
                Node::Directory { names, .. } => {
                    left.extend(names.iter().map(|(name, node)| (path.join(name), *node)));
                }
            }
        }
        files
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, calls the hook, and returns the fault to apply.
    fn begin(&self, kind: CallKind, path: &Path, len: u64) -> io::Result<Option<Fault>> {
        let (call, hook, fault) = {
            let mut state = self.lock();
            if state.stopped.contains(&self.process) {
                return Err(stopped());
            }
            let call = Call { index: state.calls.len(), kind, path: path.to_owned(), len, process: self.process };
            state.calls.push(call.clone());
            (call, state.hook.clone(), state.fault_at(kind))
        };
        if let Some(hook) = hook {
            hook(&call);
        }
        if self.has_stopped() {
            return Err(stopped());
        }
        match fault {
            Some(Fault::Stop { after_bytes }) if kind != CallKind::Append || after_bytes.is_none() => {
                self.stop();
                Err(stopped())
            }
            // A failed sync has its own effect, which the caller applies.
            Some(Fault::Error(number)) if kind != CallKind::Sync => Err(errno(number)),
            other => Ok(other),
        }
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("process", &self.process).finish_non_exhaustive()
    }
}

impl State {
    fn stop(&mut self, process: u32) {
        self.stopped.push(process);
        for held in self.locks.values_mut() {
            held.retain(|held| held.process != process);
        }
    }

    fn fault_at(&mut self, kind: CallKind) -> Option<Fault> {
        let index = self.calls.len() - 1;
        let mut struck = self.at_index.remove(&index);
        self.at_count.retain_mut(|(of, left, fault)| match (*of == kind, *left) {
            (true, 0) => {
                struck.get_or_insert(*fault);
                false
            }
            (true, _) => {
                *left -= 1;
                true
            }
            (false, _) => true,
        });
        struck.or_else(|| self.always.get(&kind).copied())
    }

    /// Returns the node at a path; `None` if the last name or one of its parents does not exist.
    fn find(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut at = ROOT;
        for component in path.components() {
            let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
            match self.nodes.get(&at) {
                Some(Node::Directory { names, .. }) => match names.get(name) {
                    Some(next) => at = *next,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the parent directory of a path, and its last name.
    fn parent(&self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.find(path.parent().unwrap_or(Path::new("")))?.ok_or(io::ErrorKind::NotFound)?;
        Ok((parent, name.to_owned()))
    }

    fn names(&mut self, directory: u64) -> io::Result<&mut Names> {
        match self.nodes.get_mut(&directory) {
            Some(Node::Directory { names, .. }) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&mut self, node: u64) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(content)) => Ok(content),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn add(&mut self, node: Node) -> u64 {
        let id = self.next_node;
        self.next_node += 1;
        self.nodes.insert(id, node);
        id
    }

    /// Changes a file from outside: creates missing directories, and the name is durable at once.
    fn put(&mut self, path: &Path, bytes: Option<&[u8]>) {
        let mut at = ROOT;
        let name = path.file_name().expect("a path beneath the root");
        for component in path.parent().into_iter().flat_map(Path::components) {
            let existing = self.names(at).expect("a directory").get(component.as_os_str()).copied();
            let next =
                existing.unwrap_or_else(|| self.add(Node::Directory { names: Names::new(), synced: Names::new() }));
            self.set_name(at, component.as_os_str(), Some(next));
            at = next;
        }
        let file = bytes.map(|bytes| self.add(Node::File(Content::new(bytes))));
        self.set_name(at, name, file);
    }

    fn set_name(&mut self, directory: u64, name: &OsStr, node: Option<u64>) {
        let Some(Node::Directory { names, synced }) = self.nodes.get_mut(&directory) else { panic!("not a directory") };
        for names in [names, synced] {
            match node {
                Some(node) => names.insert(name.to_owned(), node),
                None => names.remove(name),
            };
        }
    }

    fn stat(&self, node: u64) -> Stat {
        let ident = Ident { device: 1, inode: node };
        match &self.nodes[&node] {
            Node::File(content) => {
                Stat { ident, len: content.written.len() as u64, mode: content.mode, kind: FileKind::File }
            }
            Node::Directory { .. } => Stat { ident, len: 0, mode: 0o700, kind: FileKind::Directory },
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let kind = if how == Open::Create { CallKind::Create } else { CallKind::Open };
        self.begin(kind, path, 0)?;
        let mut state = self.lock();
        let node = match (state.find(path)?, how) {
            (Some(_), Open::Create) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, Open::Create) => {
                let (parent, name) = state.parent(path)?;
                state.names(parent)?;
                // The device has a new file as an empty one, if it has its name.
                let node = state.add(Node::File(Content::new(b"")));
                state.names(parent)?.insert(name, node);
                node
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
            (Some(node), Open::Append) => {
                if state.file(node)?.mode & 0o200 == 0 {
                    return Err(errno(EACCES));
                }
                node
            }
            (Some(node), Open::Read) => node,
        };
        let description = state.next_description;
        state.next_description += 1;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            path: path.to_owned(),
            node,
            description,
            writes: how != Open::Read,
        }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.begin(CallKind::Stat, path, 0)?;
        let state = self.lock();
        Ok(state.find(path)?.map(|node| state.stat(node)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.begin(CallKind::CreateDir, path, 0)?;
        let mut state = self.lock();
        let (parent, name) = state.parent(path)?;
        if !state.names(parent)?.contains_key(&name) {
            let node = state.add(Node::Directory { names: Names::new(), synced: Names::new() });
            state.names(parent)?.insert(name, node);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.begin(CallKind::SyncDir, path, 0)?;
        let mut state = self.lock();
        let node = state.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        match state.nodes.get_mut(&node) {
            Some(Node::Directory { names, synced }) => {
                synced.clone_from(names);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.begin(CallKind::Rename, from, 0)?;
        let mut state = self.lock();
        let node = state.find(from)?.ok_or(io::ErrorKind::NotFound)?;
        let (from_dir, from_name) = state.parent(from)?;
        let (to_dir, to_name) = state.parent(to)?;
        state.names(to_dir)?.insert(to_name, node);
        state.names(from_dir)?.remove(&from_name);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.begin(CallKind::Unlink, path, 0)?;
        let mut state = self.lock();
        let node = state.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        state.file(node)?;
        let (parent, name) = state.parent(path)?;
        state.names(parent)?.remove(&name);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.begin(CallKind::List, path, 0)?;
        let mut state = self.lock();
        let Some(node) = state.find(path)? else { return Ok(Vec::new()) };
        let names = state.names(node)?.clone();
        Ok(names.iter().map(|(name, node)| (name.to_string_lossy().into_owned(), state.stat(*node).kind)).collect())
    }

    fn holder(&self, of: &Stat) -> Option<u32> {
        self.lock().locks.get(&of.ident.inode)?.first().map(|held| held.process)
    }

    /// Returns the oldest time: there is no clock here, and no rule about age may protect a file.
    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        Ok(self.stat(path)?.map(|_| SystemTime::UNIX_EPOCH))
    }

    fn local_root(&self) -> Option<&Path> {
        None
    }
}

struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    node: u64,
    /// The id of this open file; locks belong to it.
    description: u64,
    writes: bool,
}

impl SimFile {
    fn begin(&self, kind: CallKind, len: u64) -> io::Result<Option<Fault>> {
        self.disk.begin(kind, &self.path, len)
    }

    fn may_write(&self) -> io::Result<()> {
        // EBADF, as the system returns it.
        if self.writes { Ok(()) } else { Err(errno(9)) }
    }

    fn give_lock_back(&self) {
        if let Some(held) = self.disk.lock().locks.get_mut(&self.node) {
            held.retain(|held| held.description != self.description);
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.give_lock_back();
    }
}

impl DiskFile for SimFile {
    fn stat(&self) -> io::Result<Stat> {
        self.begin(CallKind::Stat, 0)?;
        Ok(self.disk.lock().stat(self.node))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.begin(CallKind::Read, buffer.len() as u64)?;
        let mut state = self.disk.lock();
        let bytes = &state.file(self.node)?.written;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let take = buffer.len().min(bytes.len() - from);
        buffer[..take].copy_from_slice(&bytes[from..from + take]);
        Ok(take)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.begin(CallKind::Append, bytes.len() as u64)?;
        self.may_write()?;
        let take = match fault {
            Some(Fault::Short(n) | Fault::Stop { after_bytes: Some(n) }) => n.min(bytes.len()),
            _ => bytes.len(),
        };
        let mut state = self.disk.lock();
        state.file(self.node)?.written.extend_from_slice(&bytes[..take]);
        if let Some(Fault::Stop { .. }) = fault {
            state.stop(self.disk.process);
            return Err(stopped());
        }
        Ok(take)
    }

    fn sync(&self) -> io::Result<()> {
        let fault = self.begin(CallKind::Sync, 0)?;
        let mut state = self.disk.lock();
        let content = state.file(self.node)?;
        if let Some(Fault::Error(number)) = fault {
            content.fail_sync();
            return Err(errno(number));
        }
        content.sync();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.begin(CallKind::SetLen, len)?;
        self.may_write()?;
        self.disk.lock().file(self.node)?.cut(usize::try_from(len).map_err(|_| errno(EIO))?);
        Ok(())
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.begin(CallKind::SetMode, 0)?;
        self.disk.lock().file(self.node)?.mode = mode;
        Ok(())
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.begin(CallKind::Lock, 0)?;
        let mut state = self.disk.lock();
        let held = state.locks.entry(self.node).or_default();
        // As with `flock`: a lock that is changed is released first, and lost if the new one is not available.
        held.retain(|held| held.description != self.description);
        if held.iter().any(|held| lock == Lock::Exclusive || held.lock == Lock::Exclusive) {
            return Ok(false);
        }
        held.push(Held { description: self.description, process: self.disk.process, lock });
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        self.begin(CallKind::Unlock, 0)?;
        self.give_lock_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
