use std::fs::File;
use std::path::{Path, PathBuf};

use duolog_testkit::postgres::Access;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A proxy that cuts, stalls and rewrites.
mod proxy;
/// The command that runs another with a server.
mod run;
/// One server: start, stop, databases and roles.
mod server;
/// Full disks.
mod small;

/// Returns the data directory of a server, as the server reports it.
fn data_of(access: &Access) -> PathBuf {
    PathBuf::from(access.run_sql("postgres", "SHOW data_directory").expect("an answer"))
}

fn postmaster_of(data: &Path) -> i32 {
    let file = std::fs::read_to_string(data.join("postmaster.pid")).expect("a running server");
    file.lines().next().expect("a line").parse().expect("a process id")
}

/// Waits for the end of a process that is not a child of this one.
fn wait_end(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process id");
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return,
        other => other.expect("a process"),
    };
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).expect("its end");
}

/// Waits until the process that started the server on `data` has released its directory.
fn wait_released(data: &Path) {
    if let Ok(directory) = File::open(data.parent().expect("a parent")) {
        directory.lock().expect("the lock");
    }
}
