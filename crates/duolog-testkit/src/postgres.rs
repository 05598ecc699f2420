//! A private PostgreSQL server for tests: real processes on a real disk, removed when the process that started it ends.
//!
//! [`Server`] is one server with a new data directory. [`Shared`] is the server that the tests of a run share.
//! [`Access`] gives both their databases, roles and SQL, as the superuser. [`Proxy`] is a proxy between a client and a
//! server that cuts, stalls or rewrites messages.
//!
//! Durability settings stay on, and the default collation is that of a language, not of bytes, as on most real servers:
//! a test that passes here must not fail there.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

mod access;
mod binaries;
mod error;
mod launch;
mod place;
mod proxy;
mod shared;
mod small;

pub use access::{Access, Database, NewRole, Role};
pub use error::{Error, Result};
pub use proxy::{Act, Moment, Plan, Proxy};
pub use shared::{SHARED_ENV, Shared};
pub use small::SmallDisk;

use binaries::Binaries;
use place::{Place, Postmaster};

/// The settings of every test server. Durability settings keep PostgreSQL's defaults.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("shared_buffers", "32MB"),
    ("max_wal_size", "128MB"),
    ("min_wal_size", "32MB"),
    ("jit", "off"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    // The shared memory of a killed server is in its directory then, and is removed with it.
    ("dynamic_shared_memory_type", "mmap"),
];

/// The write-ahead log must not fill a small disk from the start.
const SMALL_SETTINGS: [(&str, &str); 2] = [("min_wal_size", "2MB"), ("max_wal_size", "8MB")];

/// The time for a server to start or stop on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The maximum number of ports to try if another process takes them first.
const PORTS_MAX: u32 = 10;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    connections: u32,
    settings: Vec<(String, String)>,
    small: Option<SmallDisk>,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections: 100, settings: Vec::new(), small: None }
    }
}

impl Options {
    /// Sets the maximum number of connections; three of them are reserved for the superuser.
    #[must_use]
    pub fn connections(mut self, count: u32) -> Self {
        self.connections = count;
        self
    }

    /// Adds lines to `postgresql.conf`, which override the defaults above.
    #[must_use]
    pub fn settings(mut self, settings: &[(&str, &str)]) -> Self {
        self.settings.extend(settings.iter().copied().map(owned));
        self
    }

    /// Gives the server a small disk.
    #[must_use]
    pub fn small_disk(mut self, small: SmallDisk) -> Self {
        self.small = Some(small);
        self
    }

    /// Creates a data directory and starts a server on it.
    pub fn start(&self) -> Result<Server> {
        self.start_on(free_port)
    }

    /// Tries one port after the other until no other process has taken it.
    fn start_on(&self, mut next_port: impl FnMut() -> Result<u16>) -> Result<Server> {
        let binaries = Binaries::find()?;
        let place = Place::take()?;
        if let Some((directory, bytes)) = self.small.and_then(|small| small.disk(place.root())) {
            place.mount(&directory, bytes)?;
        }
        let password = access::random_word()?;
        self.init(&binaries, &place, &password)?;
        self.configure(&place)?;
        let port = next_port()?;
        let access = Access::local(&binaries, port, &password);
        let mut server = Server { access, place, binaries, port, small: self.small, postmaster: None };
        for _ in 0..PORTS_MAX {
            match server.launch() {
                Err(Error::PortTaken { .. }) => server.move_to(next_port()?, &password),
                other => {
                    other?;
                    server.make_tablespace()?;
                    return Ok(server);
                }
            }
        }
        Err(Error::PortTaken { tries: PORTS_MAX })
    }

    /// Creates the data directory without a sync: only a power loss could lose its files, and it would end the test
    /// too.
    fn init(&self, binaries: &Binaries, place: &Place, password: &str) -> Result<()> {
        let file = place.hand_over("password", password)?;
        let mut initdb: Command = place.command(&binaries.initdb());
        initdb.args(["--no-sync", "--no-instructions", "--username=postgres", "--auth=scram-sha-256"]);
        initdb.args(["--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]);
        if self.small.is_some() {
            initdb.arg("--wal-segsize=1");
        }
        initdb.arg("--pwfile").arg(&file).arg("-D").arg(place.data());
        let output = initdb.output().map_err(|cause| Error::program("initdb", &cause))?;
        std::fs::remove_file(&file).map_err(|cause| Error::io("remove", &file, cause))?;
        if output.status.success() { Ok(()) } else { Err(Error::failed("initdb", &output)) }
    }

    fn configure(&self, place: &Place) -> Result<()> {
        let path = place.data().join("postgresql.conf");
        let connections = ("max_connections".to_owned(), self.connections.to_string());
        let ours = SETTINGS.iter().copied().map(owned);
        let small = self.small.is_some().then(|| SMALL_SETTINGS.map(owned)).into_iter().flatten();
        let mut lines = String::new();
        for (name, value) in ours.chain([connections]).chain(small).chain(self.settings.iter().cloned()) {
            let _ = writeln!(lines, "{name} = '{}'", value.replace('\'', "''"));
        }
        let mut file = File::options().append(true).open(&path).map_err(|cause| Error::io("open", &path, cause))?;
        file.write_all(lines.as_bytes()).map_err(|cause| Error::io("write", &path, cause))
    }
}

/// A running server with its own data directory. Dropping it stops the server and removes the directory.
///
/// If the process that started it dies, even by SIGKILL, the kernel stops the server, and the start of the next server
/// removes the directory.
#[derive(Debug)]
pub struct Server {
    access: Access,
    place: Place,
    binaries: Binaries,
    port: u16,
    small: Option<SmallDisk>,
    postmaster: Option<Child>,
}

/// A server offers databases, roles and SQL directly.
impl Deref for Server {
    type Target = Access;

    fn deref(&self) -> &Access {
        &self.access
    }
}

impl Server {
    /// Starts a server with the default [`Options`].
    pub fn start() -> Result<Self> {
        Options::default().start()
    }

    /// Starts a server with a small disk.
    pub fn start_small(small: SmallDisk) -> Result<Self> {
        Options::default().small_disk(small).start()
    }

    /// Returns the port on 127.0.0.1, which a restart keeps.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process id of the postmaster; `None` if it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Child::id)
    }

    /// Returns the data directory.
    pub fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// Stops the server in order: it disconnects clients and writes a checkpoint.
    pub fn stop(&mut self) -> Result<()> {
        self.end(Signal::INT)
    }

    /// Stops the server at once: it disconnects clients and writes no checkpoint; the next start recovers.
    pub fn stop_immediate(&mut self) -> Result<()> {
        self.end(Signal::QUIT)
    }

    /// Kills every process of the server with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        place::kill_family(pid_of(&postmaster));
        postmaster.wait().map_err(|cause| Error::io("wait for the server in", &self.place.data(), cause))?;
        Ok(())
    }

    /// Starts the server again on the same data directory and port, and stops it first if it is running.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.launch() {
                // Meanwhile the kernel may have given the port to a client for the duration of its connection.
                Err(Error::PortTaken { .. }) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                other => return other,
            }
        }
    }

    /// Waits until the server accepts connections.
    pub fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let data = self.place.data();
        while let Some(postmaster) = &mut self.postmaster {
            if Postmaster::read(&data).is_some_and(|found| found.ready && found.pid == pid_of(postmaster)) {
                return Ok(());
            }
            let ended = postmaster.try_wait().map_err(|cause| Error::io("check the server in", &data, cause))?;
            if ended.is_some() {
                self.postmaster = None;
            } else if Instant::now() > deadline {
                return Err(Error::NotReady { log: self.log_tail() });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let log = self.log_tail();
        if log.contains("could not bind") { Err(Error::PortTaken { tries: 1 }) } else { Err(Error::NotReady { log }) }
    }

    /// Fills the small disk. A page with free space still takes rows: the next write must need a new page.
    pub fn fill_disk(&self) -> Result<()> {
        self.small.and_then(|small| small.disk(self.place.root())).map_or(Ok(()), |(disk, _)| small::fill(&disk))
    }

    /// Frees the space that [`Server::fill_disk`] took.
    pub fn free_disk(&self) -> Result<()> {
        self.small.and_then(|small| small.disk(self.place.root())).map_or(Ok(()), |(disk, _)| small::free(&disk))
    }

    /// Returns the end of the server's log since its last start.
    pub fn log_tail(&self) -> String {
        tail(&self.place.log()).unwrap_or_default()
    }

    fn move_to(&mut self, port: u16, password: &str) {
        self.port = port;
        self.access = Access::local(&self.binaries, port, password);
    }

    /// Creates the tablespace for databases on the small disk.
    fn make_tablespace(&mut self) -> Result<()> {
        let Some(SmallDisk::Tables(_)) = self.small else { return Ok(()) };
        let directory = self.place.root().join("tables").display().to_string().replace('\'', "''");
        self.run_sql("postgres", &format!("CREATE TABLESPACE {} LOCATION '{directory}'", small::TABLESPACE))?;
        self.access.put_databases_in(small::TABLESPACE);
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let path = self.place.log();
        let log = File::create(&path).map_err(|cause| Error::io("create", &path, cause))?;
        let errors = log.try_clone().map_err(|cause| Error::io("open", &path, cause))?;
        // SIGQUIT and not SIGKILL: the postmaster then ends all its processes and removes its shared memory.
        let limit = self.small.and_then(SmallDisk::file_limit);
        let mut command = self.place.command(Path::new("setpriv"));
        command.args(["--pdeathsig", "QUIT"]);
        command.args(limit.into_iter().flat_map(|bytes| ["prlimit".to_owned(), format!("--fsize={bytes}")]));
        command.arg(self.binaries.postgres());
        command.arg("-D").arg(self.place.data()).args(["-p", &self.port.to_string()]);
        // A separate process group, so that Ctrl-C in a terminal does not reach it.
        command.stdout(log).stderr(errors).process_group(0);
        self.postmaster = Some(launch::spawn(command).map_err(|cause| Error::program("setpriv", &cause))?);
        self.wait_ready()
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        // The process may have ended by itself.
        let _ = kill_process(pid_of(&postmaster), signal);
        let data = self.place.data();
        while postmaster.try_wait().map_err(|cause| Error::io("wait for the server in", &data, cause))?.is_none() {
            if Instant::now() > deadline {
                self.postmaster = Some(postmaster);
                return Err(Error::NotReady { log: self.log_tail() });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The directory is removed too, so an immediate stop is enough.
        if self.stop_immediate().is_err() {
            let _ = self.kill();
        }
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Returns a port that was free at the time of the call.
fn free_port() -> Result<u16> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|cause| Error::io("bind a port on", Path::new("127.0.0.1"), cause))
}

fn tail(path: &Path) -> std::io::Result<String> {
    const TAIL_BYTES: u64 = 16 * 1024;
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_skipped_a_limited_number_of_times() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let taken = other.local_addr().expect("an address").port();
        let mut ports = [taken, taken].into_iter();
        let server = Options::default().start_on(|| ports.next().map_or_else(free_port, Ok)).expect("a server");
        assert_ne!(server.port(), taken);
        assert_eq!(server.run_sql("postgres", "SHOW port").expect("an answer"), server.port().to_string());
        let error = Options::default().start_on(|| Ok(taken)).expect_err("never free");
        assert!(matches!(error, Error::PortTaken { tries: PORTS_MAX }), "{error}");
    }
}
