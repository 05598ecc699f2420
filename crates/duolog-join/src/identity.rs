//! The identity of a process: its PID, its start time, and the boot of its machine. A PID alone may be reused.
//!
//! The time since its last sign of life proves nothing: a quiet process is not a dead one.

use std::fs;

use crate::store::Join;

/// A process on any machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The PID.
    pub pid: u32,
    /// When it started, in the system's own units.
    pub started: Option<String>,
    /// The host name.
    pub host: Option<String>,
    /// The id of the machine's boot.
    pub boot: Option<String>,
}

/// The liveness of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is running.
    Alive,
    /// It ended, or its machine was rebooted.
    Dead,
    /// It is on another machine, and only that machine knows.
    Elsewhere,
    /// The system does not tell.
    Unknown,
}

impl Join {
    /// Returns the identity of the process with this PID on this machine.
    pub fn identify(&self, pid: u32) -> Identity {
        let non_empty = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Identity {
            pid,
            started: started(pid),
            host: host.and_then(|host| non_empty(&host)),
            boot: non_empty(&self.boot),
        }
    }

    /// Returns whether a process is alive.
    pub fn liveness(&self, of: &Identity) -> Liveness {
        judge(of, &self.identify(of.pid))
    }
}

/// Compares a process with the one that has its PID here now.
fn judge(of: &Identity, here: &Identity) -> Liveness {
    if of.host.is_none() || of.boot.is_none() || here.host.is_none() || here.boot.is_none() {
        return Liveness::Unknown;
    }
    if of.host != here.host {
        return Liveness::Elsewhere;
    }
    let is_same = of.boot == here.boot && here.started.is_some() && of.started == here.started;
    if is_same { Liveness::Alive } else { Liveness::Dead }
}

/// Returns when a process started. `None` if it does not exist, or is a zombie.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may contain parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_running = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    fields.nth(18).filter(|_| is_running).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(started: &str, host: &str, boot: &str) -> Identity {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Identity { pid: 7, started: some(started), host: some(host), boot: some(boot) }
    }

    #[test]
    fn a_pid_alone_does_not_identify_a_process() {
        let of = process("1", "here", "a");
        assert_eq!(judge(&of, &of), Liveness::Alive);
        assert_eq!(judge(&of, &process("2", "here", "a")), Liveness::Dead, "the PID was reused");
        assert_eq!(judge(&of, &process("", "here", "a")), Liveness::Dead);
        assert_eq!(judge(&of, &process("1", "here", "b")), Liveness::Dead, "another boot");
        assert_eq!(judge(&of, &process("1", "there", "a")), Liveness::Elsewhere);
        assert_eq!(judge(&of, &process("1", "", "a")), Liveness::Unknown);
        assert_eq!(judge(&process("1", "here", ""), &of), Liveness::Unknown);
    }
}
