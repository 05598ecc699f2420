//! Runs a command with a private PostgreSQL server, which is removed when the command ends.
//!
//! The command *replaces* this process, so its exit code and its signals are its own. A second process, the keeper,
//! owns the server: it waits until the command has ended, in whatever way, and then removes the server.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use duolog_testkit::is_help_requested;
use duolog_testkit::postgres::{SHARED_ENV, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The subcommand of the keeper; internal.
const KEEP: &str = "keep";
/// The prefix of the URL on the keeper's only line of output; any other output is an error message.
const READY: &str = "ready ";
/// The exit code if the command was not started, as with `env` and `timeout`.
const EXIT_OURS: u8 = 125;

const USAGE: &str = "\
duolog-postgres run -- COMMAND [ARGUMENT...]
  Runs a command with a private PostgreSQL server, which is removed when the command ends.
Exit code: that of the command · 2 wrong usage · 125 the command was not started";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if is_help_requested(&arguments) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let error = match arguments.as_slice() {
        ["run", "--", command, rest @ ..] => run(command, rest),
        [KEEP, pid] => match keep(pid) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    eprintln!("duolog-postgres: {error}");
    ExitCode::from(EXIT_OURS)
}

/// Starts the keeper and replaces this process with the command. Returns the error if that fails.
fn run(command: &str, arguments: &[&str]) -> String {
    match start_keeper() {
        Ok(url) => {
            let cause = Command::new(command).args(arguments).env(SHARED_ENV, url).exec();
            format!("cannot run {command}: {cause}")
        }
        Err(error) => error,
    }
}

/// The keeper gets its own session, which protects it from the terminal's signals; the fork keeps it from being a child
/// of the command.
fn start_keeper() -> Result<String, String> {
    let this = std::env::current_exe().map_err(|cause| format!("cannot find this binary: {cause}"))?;
    let mut keeper = Command::new("setsid");
    keeper.arg("--fork").arg(this).args([KEEP, &std::process::id().to_string()]);
    keeper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let cannot = |cause: std::io::Error| format!("cannot run setsid (Debian: util-linux): {cause}");
    let mut keeper = keeper.spawn().map_err(cannot)?;
    let mut output = keeper.stdout.take().map(BufReader::new).ok_or("setsid has no output")?;
    let mut line = String::new();
    output.read_line(&mut line).map_err(cannot)?;
    keeper.wait().map_err(cannot)?;
    if let Some(url) = line.trim_end().strip_prefix(READY) {
        return Ok(url.to_owned());
    }
    output.read_to_string(&mut line).map_err(cannot)?;
    Err(line)
}

/// Keeps a server until the process `pid` ends.
fn keep(pid: &str) -> Result<(), String> {
    let pid = pid.parse().ok().and_then(Pid::from_raw).ok_or("keep needs a process id")?;
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
