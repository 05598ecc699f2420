//! Reads a blob and checks its content on the way.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{BUFFER, BlobId};
use crate::error::{Error, Result};
use crate::fs::DiskFile;

/// Reads a blob. The last bytes are returned only after all bytes were found to match the id.
pub struct BlobReader {
    file: Arc<dyn DiskFile>,
    id: BlobId,
    path: PathBuf,
    len: u64,
    at: u64,
    state: State,
}

enum State {
    Reading(Sha256),
    /// All bytes match the id.
    Verified,
    /// They do not match; this is final.
    Bad,
}

impl BlobReader {
    pub(super) fn over(file: Arc<dyn DiskFile>, id: BlobId, path: PathBuf) -> Result<Self> {
        let len = file.stat().map_err(Error::io("examine", &path))?.len;
        Ok(Self { file, id, path, len, at: 0, state: State::Reading(Sha256::new()) })
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the rest and checks the content.
    ///
    /// # Errors
    ///
    /// [`Error::BadBlob`] if the content does not match the id.
    pub fn verify(&mut self) -> Result<()> {
        let mut buffer = vec![0; BUFFER];
        while self.next(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Reads the next bytes; 0 at an end that was checked.
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if matches!(self.state, State::Bad) {
            return Err(Error::BadBlob(self.id));
        }
        if buffer.is_empty() || matches!(self.state, State::Verified) {
            return Ok(0);
        }
        let read = match self.file.read_at(buffer, self.at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.next(buffer),
            other => other.map_err(Error::io("read", &self.path))?,
        };
        self.at += read as u64;
        if let State::Reading(hasher) = &mut self.state {
            hasher.update(&buffer[..read]);
        }
        if read == 0 || self.at >= self.len {
            self.check_end()?;
        }
        Ok(read)
    }

    fn check_end(&mut self) -> Result<()> {
        let grown = self.file.read_at(&mut [0], self.at).map_err(Error::io("read", &self.path))?;
        let is_match = match std::mem::replace(&mut self.state, State::Bad) {
            State::Reading(hasher) => grown == 0 && BlobId::of(hasher) == self.id,
            State::Verified | State::Bad => false,
        };
        if !is_match {
            return Err(Error::BadBlob(self.id));
        }
        self.state = State::Verified;
        Ok(())
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|error| match error {
            Error::BadBlob(_) => io::Error::new(io::ErrorKind::InvalidData, error),
            error => io::Error::other(error),
        })
    }
}
