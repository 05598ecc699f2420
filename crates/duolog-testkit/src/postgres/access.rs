//! Access to a running server as its superuser: addresses, databases, roles, SQL.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::binaries::Binaries;
use super::error::{Error, Result};
use super::shared::SHARED_ENV;

/// The address and the login of a server's superuser.
#[derive(Clone, Debug)]
pub struct Access {
    binaries: Binaries,
    login: Login,
    /// `host:port`, with brackets around an IPv6 address.
    address: String,
    database: String,
    /// The part after the `?` of the URL.
    parameters: String,
    /// The tablespace of new databases; none: the server's default.
    tablespace: Option<&'static str>,
}

/// A name and a password, percent-encoded as in a URL.
#[derive(Clone, Debug)]
struct Login {
    user: String,
    password: String,
}

impl Access {
    pub(super) fn local(binaries: &Binaries, port: u16, password: &str) -> Self {
        Self {
            binaries: binaries.clone(),
            login: Login { user: "postgres".to_owned(), password: password.to_owned() },
            address: format!("127.0.0.1:{port}"),
            database: "postgres".to_owned(),
            parameters: "sslmode=disable".to_owned(),
            tablespace: None,
        }
    }

    /// Parses a URL as [`Access::url`] returns it.
    pub fn parse(url: &str) -> Result<Self> {
        let binaries = Binaries::find()?;
        let parsed = || {
            let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"))?;
            let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
            let (login, rest) = rest.rsplit_once('@')?;
            let (user, password) = login.split_once(':')?;
            let (address, database) = rest.split_once('/')?;
            let login = Login { user: user.to_owned(), password: password.to_owned() };
            let [address, database, parameters] = [address, database, parameters].map(str::to_owned);
            Some(Self { binaries, login, address, database, parameters, tablespace: None })
        };
        parsed().ok_or(Error::BadUrl { variable: SHARED_ENV })
    }

    pub(super) fn put_databases_in(&mut self, tablespace: &'static str) {
        self.tablespace = Some(tablespace);
    }

    /// Returns `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of the superuser's own database.
    pub fn admin_url(&self) -> String {
        self.url(&self.database)
    }

    /// Returns the URL of a database, with the superuser's name and password.
    pub fn url(&self, database: &str) -> String {
        self.url_for(&self.login, database)
    }

    /// Creates an empty database that is dropped with its guard.
    pub fn create_database(&self) -> Result<Database> {
        self.create_owned(None)
    }

    /// Creates an empty database that belongs to `role`.
    pub fn create_database_for(&self, role: &Role) -> Result<Database> {
        self.create_owned(Some(role))
    }

    /// Creates a role that can log in and is dropped with its guard.
    pub fn create_role(&self, new: &NewRole) -> Result<Role> {
        let (name, password) = (fresh_name()?, random_word()?);
        let mut sql = format!("CREATE ROLE {name} LOGIN PASSWORD '{password}' {}", new.attributes);
        if let Some(limit) = new.connections {
            let _ = write!(sql, " CONNECTION LIMIT {limit}");
        }
        self.run_sql(&self.database, &sql)?;
        Ok(Role { access: self.clone(), login: Login { user: name, password } })
    }

    /// Runs statements in a database until the first error, each in its own transaction unless they contain BEGIN.
    /// Returns the rows, one per line, with columns separated by `|`.
    pub fn run_sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = self.psql(database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = command.spawn().map_err(|cause| Error::program("psql", &cause))?;
        let stdin = psql.stdin.take();
        let output = std::thread::scope(|scope| {
            // On a separate thread: psql writes output before it has read all input, and the pipes could fill up.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(sql.as_bytes())));
            psql.wait_with_output()
        });
        let output = output.map_err(|cause| Error::program("psql", &cause))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let message = text(&output.stderr);
        Err(Error::Sql { sqlstate: sqlstate(&message), message })
    }

    /// The password goes through the environment, because other users can read a command line.
    fn psql(&self, database: &str) -> Command {
        let bare = Login { user: self.login.user.clone(), password: String::new() };
        let mut command = Command::new(self.binaries.psql());
        command.env_clear().env("LC_ALL", "C").env("PGPASSWORD", decoded(&self.login.password));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
        command.arg("-d").arg(self.url_for(&bare, database)).current_dir(Path::new("/"));
        command
    }

    fn url_for(&self, login: &Login, database: &str) -> String {
        let Login { user, password } = login;
        let secret = if password.is_empty() { String::new() } else { format!(":{password}") };
        let query = if self.parameters.is_empty() { String::new() } else { format!("?{}", self.parameters) };
        format!("postgresql://{user}{secret}@{}/{database}{query}", self.address)
    }

    /// Copies `template0`, which accepts no connections: a connection to the template would make the copy fail.
    fn create_owned(&self, owner: Option<&Role>) -> Result<Database> {
        let owner = owner.map(|role| format!("OWNER {}", role.name())).unwrap_or_default();
        self.create_from("template0", &owner)
    }

    fn create_from(&self, template: &str, owner: &str) -> Result<Database> {
        let name = fresh_name()?;
        let place = self.tablespace.map(|tablespace| format!("TABLESPACE {tablespace}")).unwrap_or_default();
        self.run_sql(&self.database, &format!("CREATE DATABASE {name} TEMPLATE {template} {owner} {place}"))?;
        Ok(Database { access: self.clone(), name })
    }
}

/// A database that is dropped with this guard, even if clients are connected.
#[derive(Debug)]
pub struct Database {
    access: Access,
    name: String,
}

impl Database {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its URL, with the superuser's name and password.
    pub fn url(&self) -> String {
        self.access.url(&self.name)
    }

    /// Returns its URL, with the name and password of `role`.
    pub fn url_as(&self, role: &Role) -> String {
        self.access.url_for(&role.login, &self.name)
    }

    /// Creates a database with the same content. No client may be connected to this one meanwhile.
    pub fn copy(&self) -> Result<Self> {
        self.access.create_from(&self.name, "")
    }

    /// Runs statements in it; see [`Access::run_sql`].
    pub fn run_sql(&self, sql: &str) -> Result<String> {
        self.access.run_sql(&self.name, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // If the server is gone, so is the database.
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let _ = self.access.run_sql(&self.access.database, &sql);
    }
}

/// The options of a new role.
#[derive(Clone, Debug, Default)]
pub struct NewRole {
    /// The maximum number of connections at a time.
    pub connections: Option<u32>,
    /// Further options of `CREATE ROLE`, such as `CREATEDB`.
    pub attributes: String,
}

/// A role that is dropped with this guard. Databases that belong to it must be dropped first.
#[derive(Debug)]
pub struct Role {
    access: Access,
    login: Login,
}

impl Role {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.login.user
    }

    /// Returns its password.
    pub fn password(&self) -> &str {
        &self.login.password
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.access.run_sql(&self.access.database, &format!("DROP ROLE IF EXISTS {}", self.login.user));
    }
}

fn fresh_name() -> Result<String> {
    Ok(format!("duolog_{}", random_word()?))
}

/// Returns 128 random bits as letters and digits.
pub(super) fn random_word() -> Result<String> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|cause| Error::io("read", path, cause))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Finds the code in a message such as `ERROR:  53100: could not extend file …`.
fn sqlstate(message: &str) -> Option<String> {
    let severities = ["ERROR:  ", "FATAL:  ", "PANIC:  "];
    let rest = severities.iter().find_map(|severity| message.split_once(severity))?.1;
    let (code, _) = rest.split_once(':')?;
    (code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then(|| code.to_owned())
}

/// Decodes the `%XX` in a part of a URL. Invalid sequences are kept.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_round_trips() {
        for url in [
            "postgresql://postgres:abc@127.0.0.1:5432/postgres?sslmode=disable",
            "postgresql://a%40b:p%3Aw@[::1]:5432/main",
        ] {
            assert_eq!(Access::parse(url).expect("a URL").admin_url(), url);
        }
        let other = Access::parse("postgres://u:p@h:1/d?x=y").expect("a URL");
        assert_eq!((other.url("e"), other.address()), ("postgresql://u:p@h:1/e?x=y".to_owned(), "h:1"));
    }

    #[test]
    fn an_invalid_url_is_refused() {
        for text in ["", "postgresql://", "host=127.0.0.1", "postgresql://user@host/db", "http://u:p@h/d"] {
            assert!(matches!(Access::parse(text), Err(Error::BadUrl { .. })), "{text}");
        }
    }

    #[test]
    fn percent_sequences_are_decoded_and_invalid_ones_kept() {
        assert_eq!(decoded("p%3Aw%40%2"), "p:w@%2");
        assert_eq!(decoded("100%"), "100%");
    }

    #[test]
    fn the_sqlstate_is_found_if_there_is_one() {
        let message = "psql:<stdin>:1: ERROR:  53100: could not extend file";
        assert_eq!(sqlstate(message).as_deref(), Some("53100"));
        assert_eq!(sqlstate("psql: error: FATAL:  too many connections"), None);
    }
}
