//! The server address of a build without the feature `postgres`: a type without values.

use std::convert::Infallible;
use std::fmt;

use crate::error::{Error, Result};

/// A database on a PostgreSQL server. This build has no values of it: the feature `postgres` is off.
#[derive(Clone, PartialEq)]
pub struct Server(pub(crate) Infallible);

impl Server {
    pub(super) fn parse(_: &str) -> Result<Self> {
        Err(Error::NoPostgres)
    }

    /// Sets the password if the address has none.
    #[must_use]
    pub fn or_password(self, _: impl AsRef<[u8]>) -> Self {
        match self.0 {}
    }

    /// Returns true if the address has a password.
    pub fn has_password(&self) -> bool {
        match self.0 {}
    }
}

impl fmt::Display for Server {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
