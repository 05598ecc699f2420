//! The durability of an acknowledged write.

use std::fmt;

/// What an acknowledged write survives (I10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Survives a crash of the process: the operating system has the bytes. A power failure may lose the newest ones.
    #[default]
    Process,
    /// Survives a power failure: the bytes are synced to the device before the call returns.
    Power,
}

impl Durability {
    /// Returns the word used on the command line and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Power => "power",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
