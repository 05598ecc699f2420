//! The address of a state: a directory on this machine, or a database on a server. No output of this module contains a
//! password.

/// The stand-in of a build without the feature `postgres`, compiled here for its test.
#[cfg(all(test, feature = "postgres"))]
#[allow(dead_code)]
#[path = "address/no_server.rs"]
mod no_server;
#[cfg(feature = "postgres")]
mod server;
#[cfg(not(feature = "postgres"))]
#[path = "address/no_server.rs"]
mod server;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use server::Server;
#[cfg(feature = "postgres")]
pub(crate) use server::Trust;

use crate::error::{Error, Result};

/// The name of the database file in its directory.
pub(crate) const DATABASE: &str = "state.db";

/// The address of a state.
#[derive(Clone, PartialEq)]
pub enum Address {
    /// SQLite, in `state.db` of this directory.
    Directory(PathBuf),
    /// PostgreSQL.
    Server(Server),
}

/// A parsed address: the home's own database, or an explicit address.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreAddress {
    /// `sqlite:`: the database in the home.
    Home,
    /// An explicit address.
    At(Address),
}

impl StoreAddress {
    /// Returns the address; a home has its own database in `directory`.
    pub fn or_in(self, directory: &Path) -> Address {
        match self {
            Self::Home => Address::Directory(directory.to_owned()),
            Self::At(address) => address,
        }
    }
}

impl FromStr for StoreAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Server::parse(text).map(|server| Self::At(Address::Server(server)));
        }
        let path = match text.strip_prefix("sqlite:") {
            Some("") => return Ok(Self::Home),
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            // A mistyped server address must not become a directory name. The error does not repeat the text, because a
            // part of it may be a password.
            None if !text.starts_with(['/', '.']) && text.contains([':', '@', '=']) => {
                return Err(bad("it is neither a path nor sqlite:PATH nor postgres://USER@HOST/DATABASE".to_owned()));
            }
            None => text,
        };
        directory(path).map(|directory| Self::At(Address::Directory(directory)))
    }
}

fn directory(text: &str) -> Result<PathBuf> {
    let path = Path::new(text);
    if path.as_os_str().is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    if path.file_name().is_some_and(|name| name == DATABASE) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        return Ok(parent.unwrap_or(Path::new(".")).to_owned());
    }
    if path.extension().is_some_and(|extension| extension == "db") {
        return Err(bad(format!("the database file must be named {DATABASE}: give its directory")));
    }
    Ok(path.to_owned())
}

fn bad(detail: String) -> Error {
    Error::BadAddress { detail }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.join(DATABASE).display().fmt(f),
            Self::Server(server) => server.fmt(f),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_postgres_refuses_a_server_and_names_the_feature() {
        let refused = no_server::Server::parse("postgres://ada:s3cret@h/d").map(drop).expect_err("refused");
        assert!(matches!(refused, Error::NoPostgres), "{refused:?}");
        assert!(refused.to_string().contains("the cargo feature \"postgres\""), "{refused}");
    }

    fn parse(text: &str) -> Result<StoreAddress> {
        text.parse()
    }

    fn at(text: &str) -> Address {
        parse(text).expect(text).or_in(Path::new("/home/state"))
    }

    #[test]
    fn a_path_is_sqlite() {
        for (text, directory) in [
            ("sqlite:", "/home/state"),
            ("/srv/duolog", "/srv/duolog"),
            ("sqlite:/srv/duolog", "/srv/duolog"),
            ("sqlite:///srv/duolog", "/srv/duolog"),
            ("relative/state.db", "relative"),
            ("state.db", "."),
        ] {
            assert_eq!(at(text), Address::Directory(directory.into()), "{text}");
        }
        let slips = ["ada:s3cret@h/d", "postgres:/ada:s3cret@h/d", "host=h password=s3cret", "ada:s3cret@x://"];
        for text in slips {
            let error = parse(text).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        for text in ["", "mysql://x/y", "/srv/other.db"] {
            assert!(matches!(parse(text), Err(Error::BadAddress { .. })), "{text}");
        }
    }
}
