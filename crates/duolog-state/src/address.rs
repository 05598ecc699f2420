//! Where a state is: a directory on this machine, or a database on a server. Passwords never leave this module as text.

/// What a build without the feature has, for its test.
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

/// The database's file name in its directory.
pub(crate) const DATABASE: &str = "state.db";

/// Where a state is.
#[derive(Clone, PartialEq)]
pub enum Address {
    /// SQLite, in `state.db` of this directory.
    Directory(PathBuf),
    /// PostgreSQL.
    Server(Server),
}

/// What an address says: a place of its own, or the one that the home has.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreAddress {
    /// `sqlite:`, the database in the home.
    Home,
    /// Another place.
    At(Address),
}

impl StoreAddress {
    /// The address, where the home keeps its own database in `directory`.
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
            // A server's address with a slip in it must not become the name of a directory, and is not repeated: a part
            // of it may be a password.
            None if !text.starts_with(['/', '.']) && text.contains([':', '@', '=']) => {
                return Err(bad("it is no path, no sqlite:PATH and no postgres://USER@HOST/DATABASE".to_owned()));
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
        return Err(bad(format!("the database is called {DATABASE}: name the directory it is in")));
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
