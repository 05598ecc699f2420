//! One server for all the tests of a run.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::access::Access;
use super::error::Result;
use super::{Error, Server};

/// The variable in which `duolog-postgres run` gives its command the URL of the server.
pub const SHARED_ENV: &str = "DUOLOG_TEST_POSTGRES";

/// The server that tests share; each creates its own database in it.
#[derive(Debug)]
pub enum Shared {
    /// The server of `duolog-postgres run`.
    Given(Access),
    /// A server of this process, stopped when the process ends.
    Kept(Server),
}

impl Shared {
    /// Returns the server of [`SHARED_ENV`], or else one that this process starts once, at the first call.
    pub fn get() -> Result<&'static Access> {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        static OPENING: Mutex<()> = Mutex::new(());
        // Several threads call this at once: one starts the server, and the others wait.
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
