//! `duolog-postgres run -- COMMAND [ARGUMENT…]`: runs a command beside a PostgreSQL server that lives as long as it.
//!
//! The command *replaces* this process, so its exit code and every signal are its own. The server is kept by another
//! process, which waits for the end of this one, however it comes, and removes the server then.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use duolog_testkit::postgres::{SHARED_ENV, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The word that makes this binary the keeper of a server.
const KEEP: &str = "keep";
/// Before the URL, on the one line that the keeper writes; anything else is an error.
const READY: &str = "ready ";
/// As with `env` and `timeout`: the trouble is ours, not the command's.
const EXIT_OURS: u8 = 125;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let trouble = match arguments.as_slice() {
        ["run", "--", command, rest @ ..] => run(command, rest),
        [KEEP, pid] => match keep(pid) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(trouble) => {
                println!("{trouble}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            eprintln!("duolog-postgres run -- COMMAND [ARGUMENT...]");
            return ExitCode::from(2);
        }
    };
    eprintln!("duolog-postgres: {trouble}");
    ExitCode::from(EXIT_OURS)
}

/// Starts the keeper and becomes the command. Returns only what went wrong.
fn run(command: &str, arguments: &[&str]) -> String {
    match start_keeper() {
        Ok(url) => {
            let cause = Command::new(command).args(arguments).env(SHARED_ENV, url).exec();
            format!("cannot run {command}: {cause}")
        }
        Err(trouble) => trouble,
    }
}

/// A session of its own shields the keeper from the terminal's signals, and the fork leaves the command no child that
/// it does not know.
fn start_keeper() -> Result<String, String> {
    let this = std::env::current_exe().map_err(|cause| format!("cannot find this binary: {cause}"))?;
    let mut keeper = Command::new("setsid");
    keeper.arg("--fork").arg(this).args([KEEP, &std::process::id().to_string()]);
    keeper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let cannot = |cause: std::io::Error| format!("cannot run setsid (Debian: util-linux): {cause}");
    let mut keeper = keeper.spawn().map_err(cannot)?;
    let mut said = keeper.stdout.take().map(BufReader::new).ok_or("setsid has no output")?;
    let mut line = String::new();
    said.read_line(&mut line).map_err(cannot)?;
    keeper.wait().map_err(cannot)?;
    if let Some(url) = line.trim_end().strip_prefix(READY) {
        return Ok(url.to_owned());
    }
    said.read_to_string(&mut line).map_err(cannot)?;
    Err(line)
}

/// Keeps a server until the process `pid` ends.
fn keep(pid: &str) -> Result<(), String> {
    let pid = pid.parse().ok().and_then(Pid::from_raw).ok_or("keep needs the number of a process")?;
    let watched = pidfd_open(pid, PidfdFlags::empty()).map_err(|cause| format!("cannot watch {pid:?}: {cause}"))?;
    let server = Server::start().map_err(|error| error.to_string())?;
    println!("{READY}{}", server.admin_url());
    loop {
        match poll(&mut [PollFd::new(&watched, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.to_string()),
        }
    }
}
