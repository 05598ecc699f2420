//! The states that use a home. Blobs are in the home, and rows of any of its states may reference them.
//!
//! The state next to the logs is known by its file. Every other state leaves a record when it is opened for writing: a
//! file in `states/`, named by the hash of its address, that contains the address.
//!
//! Two states of one home never choose the same path for a log. The first state that creates a session has plain file
//! names: the state next to the logs, or another one, which leaves an empty file `states/plain-HASH`. Any other state
//! adds its hash to each file name.

use std::path::{Path, PathBuf};

use duolog_log::{Error as LogError, Open};
use duolog_state::Address;

use crate::error::Result;
use crate::store::Join;

const RECORDS: &str = "states";
const BESIDE: &str = "state.db";
/// The prefix of the record of the state with plain file names.
const PLAIN: &str = "plain-";
/// The number of hexadecimal digits of a state's hash in a file name.
const SUFFIX_CHARS: usize = 12;
/// The maximum length of an address in a record.
const ADDRESS_BYTES_MAX: usize = 8192;

impl Join {
    /// Records that this state uses the home.
    pub(crate) fn record_state(&self) -> Result<()> {
        if self.is_beside() {
            return Ok(());
        }
        let address = self.state.place();
        let path = record_path(&address);
        let io = |call| LogError::io(call, &path);
        if self.disk.stat(&path).map_err(io("examine"))?.is_some_and(|stat| stat.len == address.len() as u64) {
            return Ok(());
        }
        self.disk.create_dir(Path::new(RECORDS)).map_err(io("create the directory of"))?;
        let file = match self.disk.open(&path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A crash cut it short, or another process is writing the same text now.
                let file = self.disk.open(&path, Open::Append).map_err(io("open"))?;
                file.set_len(0).map_err(io("cut"))?;
                file
            }
            other => other.map_err(io("create"))?,
        };
        file.append(address.as_bytes()).map_err(io("write"))?;
        file.sync().map_err(io("sync"))?;
        for directory in [Path::new(RECORDS), Path::new("")] {
            self.disk.sync_dir(directory).map_err(LogError::io("sync", directory))?;
        }
        Ok(())
    }

    /// Returns the addresses of the other states that use this home.
    pub(crate) fn other_states(&self) -> Result<Vec<String>> {
        let mut others = Vec::new();
        let beside = Path::new(BESIDE);
        if !self.is_beside() && self.disk.stat(beside).map_err(LogError::io("examine", beside))?.is_some() {
            others.push(BESIDE.to_owned());
        }
        let own = record_of(&self.state.place());
        let records = self.disk.list(Path::new(RECORDS)).map_err(LogError::io("list", Path::new(RECORDS)))?;
        for (name, _) in records.iter().filter(|(name, _)| *name != own && !name.starts_with(PLAIN)) {
            let path = Path::new(RECORDS).join(name);
            let file = self.disk.open(&path, Open::Read).map_err(LogError::io("open", &path))?;
            let mut bytes = vec![0; ADDRESS_BYTES_MAX];
            let read = file.read_at(&mut bytes, 0).map_err(LogError::io("read", &path))?;
            let address = String::from_utf8_lossy(&bytes[..read]).into_owned();
            others.push(format!("{address} (recorded in {})", path.display()));
        }
        Ok(others)
    }

    /// Returns the suffix of this state for the file names of new logs, so that no other state of the home chooses the
    /// same names.
    pub(crate) fn file_suffix(&self) -> Result<String> {
        let own = record_of(&self.state.place());
        // No safe file name contains a plus sign.
        let suffix = || format!("+{}", &own[..SUFFIX_CHARS]);
        let is_beside = self.is_beside();
        if self.is_plain_taken(is_beside, &own)? {
            return Ok(suffix());
        }
        if !is_beside && self.claim_plain(&own)? && self.is_plain_taken(is_beside, &own)? {
            // Another state claimed at the same time.
            return Ok(suffix());
        }
        Ok(String::new())
    }

    /// Returns true if another state of this home may have plain file names.
    fn is_plain_taken(&self, is_beside: bool, own: &str) -> Result<bool> {
        let beside = Path::new(BESIDE);
        if !is_beside && self.disk.stat(beside).map_err(LogError::io("examine", beside))?.is_some() {
            return Ok(true);
        }
        let records = self.disk.list(Path::new(RECORDS)).map_err(LogError::io("list", Path::new(RECORDS)))?;
        let is_others = |name: &str| name.strip_prefix(PLAIN).is_some_and(|state| is_beside || state != own);
        Ok(records.iter().any(|(name, _)| is_others(name)))
    }

    /// Records that this state has plain file names. Returns false if the record exists.
    fn claim_plain(&self, own: &str) -> Result<bool> {
        let path = Path::new(RECORDS).join(format!("{PLAIN}{own}"));
        if self.disk.stat(&path).map_err(LogError::io("examine", &path))?.is_some() {
            return Ok(false);
        }
        self.disk.create_dir(Path::new(RECORDS)).map_err(LogError::io("create the directory of", &path))?;
        match self.disk.open(&path, Open::Create) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(LogError::io("create", &path)(error).into());
            }
            _ => {}
        }
        for directory in [Path::new(RECORDS), Path::new("")] {
            self.disk.sync_dir(directory).map_err(LogError::io("sync", directory))?;
        }
        Ok(true)
    }

    /// Returns true if this state is the file next to the logs.
    fn is_beside(&self) -> bool {
        match (self.state.address(), self.disk.local_root()) {
            (Address::Directory(directory), Some(root)) => match (directory.canonicalize(), root.canonicalize()) {
                (Ok(directory), Ok(root)) => directory == root,
                _ => directory == root,
            },
            (Address::Directory(_), None) => true,
            (Address::Server(_), _) => false,
        }
    }
}

/// Returns the path of a home's record for the state at an address.
pub(crate) fn record_path(address: &str) -> PathBuf {
    Path::new(RECORDS).join(record_of(address))
}

fn record_of(address: &str) -> String {
    blake3::hash(address.as_bytes()).to_hex()[..32].to_owned()
}
