//! The lock of the single process that creates a derived file or writes to it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::error::{Error, Result};

/// A held lock. It is released when this value is dropped or the process ends.
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another process holds it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(Error::io("open", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file unlocks it as well.
        let _ = self.0.unlock();
    }
}
