//! Detection of two copies of one home on one state. Both have the same id, so each would treat the other's logs as its
//! own and find them cut or replaced. The state records the location of each home, and a second copy is refused.
//!
//! Only a state on a server can be used from two directories. A directory on another machine cannot be checked from
//! here.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use duolog_log::Error as LogError;
use duolog_state::Address;
use duolog_state::owned::homes;
use duolog_types::{Durability, HomeId};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::home::home_id;
use crate::states::record_path;
use crate::store::Join;

/// The directory of a home.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct HomePlace {
    host: Option<String>,
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl HomePlace {
    fn of(path: &Path, host: Option<String>) -> std::io::Result<Self> {
        let (path, stat) = (path.canonicalize()?, path.metadata()?);
        Ok(Self { host, path, device: stat.dev(), inode: stat.ino() })
    }

    /// Returns true if it is the same directory, by whatever path.
    fn is_same_directory(&self, other: &Self) -> bool {
        (&self.host, self.device, self.inode) == (&other.host, other.device, other.inode)
    }

    /// Returns true if the directory exists on this host, belongs to the home, and uses the state at this address.
    fn is_in_use(&self, host: Option<&str>, home: HomeId, address: &str) -> bool {
        self.host.as_deref() == host
            && Self::of(&self.path, self.host.clone()).is_ok_and(|now| now.is_same_directory(self))
            && home_id(&self.path).is_ok_and(|id| id == home)
            && fs::exists(self.path.join(record_path(address))).unwrap_or(false)
    }
}

impl Join {
    /// Records the location of this home in a state that other homes can use. Returns an error if another directory
    /// with the same home uses this state.
    pub(crate) fn check_copies(&self) -> Result<()> {
        let (Address::Server(_), Some(root)) = (self.state.address(), self.disk.local_root()) else { return Ok(()) };
        let home = self.home;
        let host = self.identify(std::process::id()).host;
        let here = HomePlace::of(root, host.clone()).map_err(LogError::io("examine", root))?;
        let recorded = self.state.read(|tx| homes::place(tx, &home))?;
        // A record that cannot be parsed is from a later version, and is ignored.
        let recorded = recorded.and_then(|text| serde_json::from_str::<HomePlace>(&text).ok());
        if recorded.as_ref() == Some(&here) {
            return Ok(());
        }
        if let Some(other) = recorded
            && !other.is_same_directory(&here)
            && other.is_in_use(host.as_deref(), home, &self.state.place())
        {
            return Err(Error::HomeCopied { home, here: here.path, other: other.path });
        }
        let text = serde_json::to_string(&here).map_err(Error::NoJson)?;
        self.write(Durability::Power, move |tx| Ok(homes::put_place(tx, &home, &text)?))
    }
}
