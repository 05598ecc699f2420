//! What an acknowledgement means.

use std::fmt;

/// What a write survives once it has been acknowledged (I10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Survives the death of the process: the bytes are the operating system's. Power loss may take the newest of them.
    #[default]
    Process,
    /// Survives power loss: synced to the device before the call returns.
    Power,
}

impl Durability {
    /// The word used on the command line and in the configuration.
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
