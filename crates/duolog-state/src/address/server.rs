//! The address of a database on a PostgreSQL server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_postgres::config::{Host, SslMode};

use super::bad;
use crate::error::Result;

/// A database on a PostgreSQL server.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Shared: a `Config` is large, and an address is cloned often.
    pub(crate) config: Arc<tokio_postgres::Config>,
    pub(crate) trust: Trust,
}

/// How the server's certificate is checked: libpq's `sslmode` and `sslrootcert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Any server is accepted: the connection is encrypted, and no certificate is checked.
    Anyone,
    /// The certificate must be signed by the roots in this file [default: the system's roots]. `name`: its host name
    /// must match too.
    Certified { roots: Option<PathBuf>, name: bool },
}

impl Server {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (text, trust) = take_trust(text)?;
        // The driver's error may repeat parts of the address, and so the password.
        let unreadable = |_| bad("it is not postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…]".to_owned());
        let mut config: tokio_postgres::Config = text.parse().map_err(unreadable)?;
        if config.get_hosts().is_empty() {
            return Err(bad("it names no host: postgres://USER@HOST/DATABASE".to_owned()));
        }
        if config.get_user().is_none_or(str::is_empty) {
            return Err(bad("it names no user: postgres://USER@HOST/DATABASE".to_owned()));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(bad("it names no database: postgres://USER@HOST/DATABASE".to_owned()));
        }
        if matches!(trust, Trust::Certified { .. }) {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_application_name().is_none() {
            config.application_name("duolog");
        }
        Ok(Self { config: Arc::new(config), trust })
    }

    /// Sets the password if the address has none.
    #[must_use]
    pub fn or_password(mut self, password: impl AsRef<[u8]>) -> Self {
        if !self.has_password() {
            Arc::make_mut(&mut self.config).password(password);
        }
        self
    }

    /// Returns true if the address has a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Returns the user name.
    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }
}

/// Removes `sslrootcert` and the verifying values of `sslmode` from the address: the driver does not know them.
fn take_trust(text: &str) -> Result<(String, Trust)> {
    let Some((before, query)) = text.split_once('?') else { return Ok((text.to_owned(), Trust::Anyone)) };
    let (mut roots, mut name, mut left) = (None, None, Vec::new());
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("sslrootcert", "system")) => name = name.or(Some(true)),
            Some(("sslrootcert", path)) => roots = Some(PathBuf::from(decoded(path)?)),
            Some(("sslmode", "verify-ca")) => name = Some(false),
            Some(("sslmode", "verify-full")) => name = Some(true),
            _ => left.push(part),
        }
    }
    let trust = match (name, &roots) {
        (Some(name), _) => Trust::Certified { roots, name },
        (None, Some(_)) => Trust::Certified { roots, name: false },
        (None, None) => Trust::Anyone,
    };
    let text = if left.is_empty() { before.to_owned() } else { format!("{before}?{}", left.join("&")) };
    Ok((text, trust))
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Result<String> {
    let unreadable = || bad("sslrootcert is not a path".to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok()).ok_or_else(unreadable)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| unreadable())?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| unreadable())
}

/// Omits the password and the query.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", self.user())?;
        let ports = self.config.get_ports();
        for (nth, host) in self.config.get_hosts().iter().enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            match host {
                Host::Tcp(name) if name.contains(':') => write!(f, "[{name}]")?,
                Host::Tcp(name) => f.write_str(name)?,
                Host::Unix(path) => f.write_str(&path.to_string_lossy())?,
            }
            match ports.get(nth).or(ports.first()) {
                Some(5432) | None => {}
                Some(port) => write!(f, ":{port}")?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::address::{Address, StoreAddress};

    fn parse(text: &str) -> Result<StoreAddress> {
        text.parse()
    }

    fn at(text: &str) -> Address {
        parse(text).expect(text).or_in(Path::new("/home/state"))
    }

    #[test]
    fn no_form_of_an_address_shows_its_password() {
        let secrets = [
            "postgres://ada:s3cret@db.example:5433/duolog?sslmode=require",
            "postgresql://ada:s3cret@[::1]/duolog",
            "postgres://ada@h/d?password=s3cret",
        ];
        for text in secrets {
            let parsed = parse(text).expect(text);
            let shown = format!("{parsed:?} {}", at(text));
            assert!(!shown.contains("s3cret"), "{shown}");
            assert!(shown.contains("postgres://ada@"), "{shown}");
        }
        assert_eq!(at(secrets[0]).to_string(), "postgres://ada@db.example:5433/duolog");
        let wrong = [
            "postgres://ada:s3cret@",
            "postgres://:s3cret@h/d",
            "postgres://ada:s3cret@h",
            "postgres://ada:s3cret@h:port/d",
            "postgres://ada:s3cret@h/d?s3cret=1",
        ];
        for text in wrong {
            let error = parse(text).expect_err(text);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3"), "{shown}");
        }
    }

    #[test]
    fn the_modes_that_check_a_server_are_understood() {
        let trust = |text: &str| match at(text) {
            Address::Server(server) => server.trust,
            Address::Directory(_) => panic!("{text} is a server"),
        };
        assert_eq!(trust("postgres://a@h/d?sslmode=require"), Trust::Anyone);
        assert_eq!(trust("postgres://a@h/d?sslmode=verify-full"), Trust::Certified { roots: None, name: true });
        let roots = Some(PathBuf::from("/etc/my ca.pem"));
        let text = "postgres://a@h/d?sslrootcert=/etc/my%20ca.pem&connect_timeout=3";
        assert_eq!(trust(text), Trust::Certified { roots, name: false });
    }
}
