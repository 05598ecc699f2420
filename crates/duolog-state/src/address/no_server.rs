//! Stands in for the address of a server in a build without the feature `postgres`: no value of it exists.

use std::convert::Infallible;
use std::fmt;

use crate::error::{Error, Result};

/// A database on a PostgreSQL server. This build has none: it lacks the feature `postgres`.
#[derive(Clone, PartialEq)]
pub struct Server(pub(crate) Infallible);

impl Server {
    pub(super) fn parse(_: &str) -> Result<Self> {
        Err(Error::NoPostgres)
    }

    /// The same with this password, where the address names none.
    #[must_use]
    pub fn or_password(self, _: impl AsRef<[u8]>) -> Self {
        match self.0 {}
    }

    /// Whether the address names a password.
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
