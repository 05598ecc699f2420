//! Which states use a home. Blobs lie in the home, and rows of any of its states may name them.
//!
//! The state beside the logs is known by its file. Every other one leaves a record when it is opened for writing: a file in
//! `states/`, named by the hash of its address, that holds the address.

use std::path::Path;

use duolog_log::{Error as LogError, Open};
use duolog_state::Address;

use crate::error::Result;
use crate::store::Join;

const RECORDS: &str = "states";
const BESIDE: &str = "state.db";
/// The longest address that is read from a record.
const ADDRESS_BYTES_MAX: usize = 8192;

impl Join {
    /// Records that this state uses the home.
    pub(crate) fn record_state(&self) -> Result<()> {
        if self.is_beside() {
            return Ok(());
        }
        let address = self.state.place();
        let path = Path::new(RECORDS).join(record_of(&address));
        let io = |call| LogError::io(call, &path);
        if self.disk.stat(&path).map_err(io("look at"))?.is_some_and(|stat| stat.len == address.len() as u64) {
            return Ok(());
        }
        self.disk.create_dir(Path::new(RECORDS)).map_err(io("make the directory of"))?;
        let file = match self.disk.open(&path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A crash cut it short, or another process writes the same at this moment.
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

    /// The other states that use this home, by their addresses.
    pub(crate) fn other_states(&self) -> Result<Vec<String>> {
        let mut others = Vec::new();
        let beside = Path::new(BESIDE);
        if !self.is_beside() && self.disk.stat(beside).map_err(LogError::io("look at", beside))?.is_some() {
            others.push(BESIDE.to_owned());
        }
        let own = record_of(&self.state.place());
        let records = self.disk.list(Path::new(RECORDS)).map_err(LogError::io("list", Path::new(RECORDS)))?;
        for (name, _) in records.iter().filter(|(name, _)| *name != own) {
            let path = Path::new(RECORDS).join(name);
            let file = self.disk.open(&path, Open::Read).map_err(LogError::io("open", &path))?;
            let mut bytes = vec![0; ADDRESS_BYTES_MAX];
            let read = file.read_at(&mut bytes, 0).map_err(LogError::io("read", &path))?;
            let address = String::from_utf8_lossy(&bytes[..read]).into_owned();
            others.push(format!("{address} (recorded in {})", path.display()));
        }
        Ok(others)
    }

    /// Returns true if this state is the file beside the logs.
    fn is_beside(&self) -> bool {
        match (self.state.address(), self.disk.heard_at()) {
            (Address::Directory(directory), Some(root)) => match (directory.canonicalize(), root.canonicalize()) {
                (Ok(directory), Ok(root)) => directory == root,
                _ => directory == root,
            },
            (Address::Directory(_), None) => true,
            (Address::Server(_), _) => false,
        }
    }
}

fn record_of(address: &str) -> String {
    blake3::hash(address.as_bytes()).to_hex()[..32].to_owned()
}
