//! Liveness of processes: each holds a lock while it has marks. If the lock can be taken, the process is dead.

use std::path::PathBuf;
use std::sync::Arc;

use duolog_log::{Disk, DiskFile, Error as LogError, Lock, Open};
use duolog_types::ProcessId;
use parking_lot::Mutex;

use crate::error::Result;

const DIRECTORY: &str = "processes";

/// The state of the process that set a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// This process.
    Own,
    /// Another process, which holds its lock.
    Alive,
    /// It ended or was killed.
    Dead,
}

/// This process, among those that share the home.
pub(crate) struct Process {
    disk: Arc<dyn Disk>,
    id: ProcessId,
    /// The PID of the process that opened the home.
    pid: u32,
    lock: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl Process {
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: disk.clone(), id: ProcessId::new(), pid: std::process::id(), lock: Mutex::default() }
    }

    /// Returns true in a forked child of the process that opened the home: nothing here belongs to it.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// Takes the lock that shows that this process is alive. From then on other processes leave its marks alone.
    pub(crate) fn announce(&self) -> Result<()> {
        let mut lock = self.lock.lock();
        if lock.is_some() {
            return Ok(());
        }
        let path = path_of(self.id);
        let io = |call| LogError::io(call, &path);
        self.disk.create_dir(DIRECTORY.as_ref()).map_err(LogError::io("create", DIRECTORY.as_ref()))?;
        loop {
            let file = match self.disk.open(&path, Open::Create) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(&path, Open::Append),
                other => other,
            };
            let file = file.map_err(io("create"))?;
            // Another process that clears up may examine the file before it is locked, and remove it.
            let locked = file.try_lock(Lock::Exclusive).map_err(io("lock"))?;
            let ours = file.stat().map_err(io("examine"))?.ident;
            let stat = self.disk.stat(&path).map_err(io("examine"))?;
            if locked && stat.is_some_and(|stat| stat.ident == ours) {
                *lock = Some(file);
                return Ok(());
            }
        }
    }

    /// Removes the lock file. Marks that remain become those of a dead process.
    pub(crate) fn leave(&self) {
        if !self.is_forked() && self.lock.lock().is_some() {
            // A file that remains is unlocked, which means the same; it is removed after the next boot.
            let _ = self.disk.unlink(&path_of(self.id));
        }
    }

    /// Returns the state of a process. Removes the file of a dead one.
    pub(crate) fn state_of(&self, process: ProcessId) -> Result<ProcessState> {
        let state = self.look(process)?;
        if state == ProcessState::Dead {
            // Another process may have been faster; a file that remains is checked again.
            let _ = self.disk.unlink(&path_of(process));
        }
        Ok(state)
    }

    /// Removes the files of processes that died without a mark.
    pub(crate) fn clear_dead(&self) -> Result<()> {
        let directory = DIRECTORY.as_ref();
        for (name, _) in self.disk.list(directory).map_err(LogError::io("list", directory))? {
            if let Some(Ok(process)) = name.strip_suffix(".lock").map(str::parse) {
                self.state_of(process)?;
            }
        }
        Ok(())
    }

    /// Returns the state of a process without removing anything.
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
        // Shared: two checks at once must not take each other for the owner.
        let free = file.try_lock(Lock::Shared).map_err(LogError::io("lock", &path))?;
        Ok(if free { ProcessState::Dead } else { ProcessState::Alive })
    }
}

fn path_of(process: ProcessId) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{process}.lock"))
}
