//! The directory and the user of a server, and the cleanup after processes that died.
//!
//! Every user has one directory of servers, with a lock. A process creates a directory for its server in there and
//! locks it; it does both under the first lock, and so does the cleanup. A directory that can be locked has no owner.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};
use tempfile::TempDir;

use super::error::{Error, Result};
use super::small;

const PREFIX: &str = "server-";
/// Others may pass through but not list: if this process is root, the server has another user.
const PASSABLE: u32 = 0o711;

/// File systems in memory, where a sync has no effect.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory for one server, removed on drop together with the server's processes.
#[derive(Debug)]
pub(super) struct Place {
    root: TempDir,
    user: Option<User>,
    /// The lock on the directory: its owner is alive. Dropped last, when the directory is removed.
    _lock: File,
}

impl Place {
    /// Cleans up after dead processes and creates a directory.
    pub(super) fn take() -> Result<Self> {
        let user = User::choose()?;
        let servers = servers(user.as_ref())?;
        let path = servers.join("lock");
        let all = File::create(&path).map_err(|cause| Error::io("create", &path, cause))?;
        all.lock().map_err(|cause| Error::io("lock", &path, cause))?;
        sweep(&servers);
        let root = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&servers);
        let root = root.map_err(|cause| Error::io("create a directory in", &servers, cause))?;
        make_passable(root.path()).map_err(|cause| Error::io("change the mode of", root.path(), cause))?;
        let lock = File::open(root.path()).and_then(|directory| directory.lock().map(|()| directory));
        let lock = lock.map_err(|cause| Error::io("lock", root.path(), cause))?;
        let place = Self { root, user, _lock: lock };
        let data = place.data();
        std::fs::DirBuilder::new().mode(0o700).create(&data).map_err(|cause| Error::io("create", &data, cause))?;
        place.give(&data)?;
        Ok(place)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Mounts a separate file system on a directory of this server.
    pub(super) fn mount(&self, directory: &Path, bytes: u64) -> Result<()> {
        std::fs::create_dir_all(directory).map_err(|cause| Error::io("create", directory, cause))?;
        let owner = self.user.as_ref().map_or((geteuid().as_raw(), getegid().as_raw()), |user| (user.uid, user.gid));
        small::mount(directory, bytes, owner)
    }

    /// Writes a file that only the server's user can read.
    pub(super) fn hand_over(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.root.path().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes()))
            .map_err(|cause| Error::io("write", &path, cause))?;
        self.give(&path)?;
        Ok(path)
    }

    /// Prepares a program to run as the server's user, without the environment variables that PostgreSQL reads.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").current_dir(self.root.path()).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    fn give(&self, path: &Path) -> Result<()> {
        let Some(user) = &self.user else { return Ok(()) };
        chown(path, Some(user.uid), Some(user.gid)).map_err(|cause| Error::io("change the owner of", path, cause))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        clear(self.root());
    }
}

/// The user of the server if this process is root, as which PostgreSQL refuses to run.
#[derive(Debug)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
}

impl User {
    fn choose() -> Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let path = Path::new("/etc/passwd");
        let users = std::fs::read_to_string(path).map_err(|cause| Error::io("read", path, cause))?;
        let chosen = ["postgres", "nobody"].iter().find_map(|name| Self::find(&users, name));
        chosen.map(Some).ok_or(Error::NoUser)
    }

    fn find(users: &str, name: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next()? == name;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then(|| Self { name: name.to_owned(), uid, gid })
        })
    }
}

/// Returns the directory of servers: in cargo's target directory if suitable, else in the temporary directory.
fn servers(user: Option<&User>) -> Result<PathBuf> {
    let name = format!("duolog-postgres-{}", geteuid().as_raw());
    let mut tried = Vec::new();
    for parent in target_tmp().into_iter().chain([std::env::temp_dir(), PathBuf::from("/var/tmp")]) {
        match fit(&parent, &name, user) {
            Ok(servers) => return Ok(servers),
            Err(why) => tried.push(format!("{} ({why})", parent.display())),
        }
    }
    let user = user.map_or("of this process", |user| &user.name).to_owned();
    Err(Error::NoPlace { user, tried: tried.join(", ") })
}

/// Returns `target/tmp` of the running binary, if cargo built it.
fn target_tmp() -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?;
    let target = binary.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file())?;
    Some(target.join("tmp"))
}

/// Creates `parent/name` and checks that it is suitable for a server. Returns the reason if it is not.
fn fit(parent: &Path, name: &str, user: Option<&User>) -> Result<PathBuf, String> {
    let text = |cause: std::io::Error| cause.to_string();
    std::fs::create_dir_all(parent).map_err(text)?;
    let parent = parent.canonicalize().map_err(text)?;
    let system = rustix::fs::statfs(&parent).map_err(|errno| text(errno.into()))?;
    if IN_MEMORY.contains(&i128::from(system.f_type)) {
        return Err("in memory".to_owned());
    }
    let closed = |directory: &&Path| directory.metadata().is_ok_and(|found| found.mode() & 0o001 == 0);
    if let Some(closed) = parent.ancestors().find(closed).filter(|_| user.is_some()) {
        return Err(format!("{} is not accessible to others", closed.display()));
    }
    let servers = parent.join(name);
    match std::fs::create_dir(&servers) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => return Err(text(cause)),
        _ => {}
    }
    let found = servers.symlink_metadata().map_err(text)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Err(format!("{name} in it belongs to another user or is not a directory"));
    }
    make_passable(&servers).map_err(text)?;
    Ok(servers)
}

/// Sets the mode explicitly, because the umask applies at creation.
fn make_passable(directory: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(directory, Permissions::from_mode(PASSABLE))
}

/// Removes the directories of dead processes. The next cleanup removes what cannot be removed now.
fn sweep(servers: &Path) {
    for entry in servers.read_dir().into_iter().flatten().flatten() {
        let root = entry.path();
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) && is_left(&root) {
            clear(&root);
            let _ = std::fs::remove_dir_all(&root);
        }
    }
}

fn is_left(root: &Path) -> bool {
    File::open(root).is_ok_and(|directory| directory.try_lock().is_ok())
}

/// Ends the processes in `root`, removes the shared memory of a killed postmaster, and unmounts its file systems.
fn clear(root: &Path) {
    let data = root.join("data");
    if let Some(found) = Postmaster::read(&data) {
        if found.runs_in(&data) {
            kill_family(found.pid);
        }
        if let Some(segment) = found.segment {
            let _ = Command::new("ipcrm").args(["-m", &segment]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
    small::unmount(root);
}

/// The content of `postmaster.pid`, which exists from the start of a postmaster until its regular end.
pub(super) struct Postmaster {
    pub(super) pid: Pid,
    pub(super) ready: bool,
    segment: Option<String>,
}

impl Postmaster {
    /// Lines of the file: process id, directory, start, port, socket directory, address, shared memory, status.
    pub(super) fn read(data: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = Pid::from_raw(lines.next()?.trim().parse().ok()?)?;
        let segment = lines.nth(5).and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned);
        let ready = lines.next().is_some_and(|status| status.trim() == "ready");
        Some(Self { pid, ready, segment })
    }

    /// Process ids are reused; a postmaster is identified by its working directory.
    fn runs_in(&self, data: &Path) -> bool {
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", self.pid.as_raw_nonzero()));
        cwd.is_ok_and(|cwd| data.canonicalize().is_ok_and(|data| data == cwd))
    }
}

/// Kills a postmaster and its children. It is stopped first, so that it starts no new children and reaps none.
pub(super) fn kill_family(postmaster: Pid) {
    let _ = kill_process(postmaster, Signal::STOP);
    let raw = postmaster.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{raw}/task/{raw}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?));
    for process in children.chain([postmaster]) {
        let _ = kill_process(process, Signal::KILL);
    }
}
