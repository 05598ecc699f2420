//! Which processes are alive: each holds a lock for as long as it has marks, and a lock that can be taken is a dead one's.

use std::path::PathBuf;
use std::sync::Arc;

use duolog_log::{Disk, DiskFile, Error as LogError, Lock, Open};
use duolog_types::ProcessId;
use parking_lot::Mutex;

use crate::error::Result;

const DIRECTORY: &str = "processes";

/// Whether the process that set a mark is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// This one.
    Own,
    /// Another that holds its lock.
    Alive,
    /// It ended, or was ended.
    Dead,
}

/// This process, among those that share the home.
pub(crate) struct Process {
    disk: Arc<dyn Disk>,
    id: ProcessId,
    /// The system's number of the process that opened the home.
    pid: u32,
    lock: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl Process {
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: disk.clone(), id: ProcessId::new(), pid: std::process::id(), lock: Mutex::default() }
    }

    /// Whether this process came from the one that opened the home by a fork: nothing here is its own.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// Takes the lock that says this process is alive; from then on others leave its marks alone.
    pub(crate) fn announce(&self) -> Result<()> {
        let mut lock = self.lock.lock();
        if lock.is_some() {
            return Ok(());
        }
        let path = path_of(self.id);
        let io = |call| LogError::io(call, &path);
        self.disk.create_dir(DIRECTORY.as_ref()).map_err(LogError::io("make", DIRECTORY.as_ref()))?;
        loop {
            let file = match self.disk.open(&path, Open::Create) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(&path, Open::Append),
                other => other,
            };
            let file = file.map_err(io("create"))?;
            // Someone who clears up after the dead may look at the file before it is locked, and take it away.
            let locked = file.try_lock(Lock::Exclusive).map_err(io("lock"))?;
            let ours = file.stat().map_err(io("examine"))?.ident;
            let stat = self.disk.stat(&path).map_err(io("examine"))?;
            if locked && stat.is_some_and(|stat| stat.ident == ours) {
                *lock = Some(file);
                return Ok(());
            }
        }
    }

    /// Leaves. Marks that are still there become a dead process's.
    pub(crate) fn leave(&self) {
        if !self.is_forked() && self.lock.lock().is_some() {
            // A file that stays is unlocked, which says the same; it is removed after the next boot.
            let _ = self.disk.unlink(&path_of(self.id));
        }
    }

    /// Whether a process is there. The file of a dead one is removed by whoever finds it.
    pub(crate) fn state_of(&self, process: ProcessId) -> Result<ProcessState> {
        let state = self.look(process)?;
        if state == ProcessState::Dead {
            // Another may have been faster; one that stays is looked at again.
            let _ = self.disk.unlink(&path_of(process));
        }
        Ok(state)
    }

    /// Removes what processes left that died without a mark.
    pub(crate) fn clear_dead(&self) -> Result<()> {
        let directory = DIRECTORY.as_ref();
        for (name, _) in self.disk.list(directory).map_err(LogError::io("list", directory))? {
            if let Some(Ok(process)) = name.strip_suffix(".lock").map(str::parse) {
                self.state_of(process)?;
            }
        }
        Ok(())
    }

    /// The same, touching nothing.
    pub(crate) fn look(&self, process: ProcessId) -> Result<ProcessState> {
        if process == self.id {
            return Ok(ProcessState::Own);
        }
        let path = path_of(process);
        let file = match self.disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ProcessState::Dead),
            Err(error) => return Err(LogError::io("open", &path)(error).into()),
        };
        // Shared: two who look at once must not take each other for the owner.
        let free = file.try_lock(Lock::Shared).map_err(LogError::io("lock", &path))?;
        Ok(if free { ProcessState::Dead } else { ProcessState::Alive })
    }
}

fn path_of(process: ProcessId) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{process}.lock"))
}
