//! A process by what tells it from another with its number: when it started, and on which boot of which machine.
//!
//! How long ago something was heard of it says nothing: a quiet process is not a dead one.

use std::fs;

use crate::store::Join;

/// A process, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// When it started, as its system counts.
    pub started: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// Which boot of the machine.
    pub boot: Option<String>,
}

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is.
    Alive,
    /// It ended, or its machine did.
    Dead,
    /// It is on another machine, which alone can tell.
    Elsewhere,
    /// The system does not tell.
    Unknown,
}

impl Join {
    /// The process with this number on this machine.
    pub fn identify(&self, pid: u32) -> Identity {
        let told = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Identity { pid, started: started(pid), host: host.and_then(|host| told(&host)), boot: told(&self.boot) }
    }

    /// Whether a process is there.
    pub fn liveness(&self, of: &Identity) -> Liveness {
        judge(of, &self.identify(of.pid))
    }
}

/// Whether a process is the one that has its number here now.
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

/// When a process started; nothing where there is none, or it has ended and only its parent has not noticed.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may hold any of them itself.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_there = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    fields.nth(18).filter(|_| is_there).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(started: &str, host: &str, boot: &str) -> Identity {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Identity { pid: 7, started: some(started), host: some(host), boot: some(boot) }
    }

    #[test]
    fn a_number_alone_names_no_process() {
        let of = process("1", "here", "a");
        assert_eq!(judge(&of, &of), Liveness::Alive);
        assert_eq!(judge(&of, &process("2", "here", "a")), Liveness::Dead, "the number was given again");
        assert_eq!(judge(&of, &process("", "here", "a")), Liveness::Dead);
        assert_eq!(judge(&of, &process("1", "here", "b")), Liveness::Dead, "another boot");
        assert_eq!(judge(&of, &process("1", "there", "a")), Liveness::Elsewhere);
        assert_eq!(judge(&of, &process("1", "", "a")), Liveness::Unknown);
        assert_eq!(judge(&process("1", "here", ""), &of), Liveness::Unknown);
    }
}
