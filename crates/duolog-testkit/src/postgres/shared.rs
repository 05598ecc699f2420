//! One server for all the tests of a run.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::access::Access;
use super::error::Result;
use super::{Error, Server};

/// The variable by which `duolog-postgres run` tells the command it runs where the server is.
pub const SHARED_ENV: &str = "DUOLOG_TEST_POSTGRES";

/// The server that tests have in common; each makes a database of its own in it.
#[derive(Debug)]
pub enum Shared {
    /// Somebody else keeps it.
    Given(Access),
    /// This process keeps it, until the process ends.
    Kept(Server),
}

impl Shared {
    /// Lends the server that [`SHARED_ENV`] names, or else one that this process starts once, at the first call.
    pub fn get() -> Result<&'static Access> {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        static OPENING: Mutex<()> = Mutex::new(());
        // Tests on many threads ask at once; one starts the server, and the others wait for it.
        let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = SHARED.get() {
            return Ok(shared.access());
        }
        let shared = Self::open()?;
        Ok(SHARED.get_or_init(|| shared).access())
    }

    fn open() -> Result<Self> {
        match std::env::var(SHARED_ENV) {
            Ok(url) => Access::parse(&url).map(Self::Given),
            Err(std::env::VarError::NotPresent) => Server::start().map(Self::Kept),
            Err(std::env::VarError::NotUnicode(_)) => Err(Error::BadUrl { variable: SHARED_ENV }),
        }
    }

    fn access(&self) -> &Access {
        match self {
            Self::Given(access) => access,
            Self::Kept(server) => server,
        }
    }
}
