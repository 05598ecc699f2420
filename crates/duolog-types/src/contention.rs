//! Waiting for a lock that someone else holds, and saying who that is. Pure parts; the stores do the system calls.

use std::time::{Duration, Instant};

/// The pauses of a writer that waits for an advisory lock: short at first, never long, over at the deadline.
///
/// `flock` has no time-out, and a blocked call cannot be withdrawn; trying again with small pauses can.
#[derive(Debug)]
pub struct Wait {
    deadline: Instant,
    next: Duration,
}

impl Wait {
    /// Starts waiting, for at most `timeout`.
    pub fn at_most(timeout: Duration) -> Self {
        Self { deadline: Instant::now() + timeout, next: Duration::from_micros(20) }
    }

    /// How long to pause before the next try, or nothing once the deadline has passed.
    pub fn pause(&mut self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let pause = self.next.min(left);
        self.next = (self.next * 2).min(Duration::from_millis(2));
        Some(pause)
    }
}

/// Asks for the text of `/proc/locks` until it names the holder of a file's lock, a few times at most.
///
/// The kernel composes the text anew for each read call, so an entry can slip by between two small ones: the buffer is
/// large, and once is not enough.
pub fn find_holder(
    mut read: impl FnMut(&mut String) -> std::io::Result<usize>,
    (major, minor): (u32, u32),
    inode: u64,
) -> Option<u32> {
    let mut locks = String::with_capacity(64 * 1024);
    (0..3).find_map(|_| {
        locks.clear();
        read(&mut locks).ok()?;
        holder(&locks, major, minor, inode)
    })
}

/// Finds in the text of `/proc/locks` the process that holds a `flock` on a file; waiters (`->`) are not holders.
pub fn holder(proc_locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    proc_locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (kind, _advisory, _mode, pid) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let pid: u32 = (kind == "FLOCK" && words.next()? == file).then(|| pid.parse().ok())??;
        (pid > 0).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_named_and_the_waiter_is_not() {
        let text = "1: POSIX  ADVISORY  WRITE 7 fe:00:10 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 2110 fe:00:10010638 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 2111 fe:00:10010638 0 EOF\n";
        assert_eq!(holder(text, 0xfe, 0, 10_010_638), Some(2110));
        assert_eq!(holder(text, 0xfe, 0, 10), None, "a POSIX lock is not ours");
        assert_eq!(holder("garbage\n\n1:", 0, 0, 1), None);
    }

    #[test]
    fn waiting_ends() {
        assert_eq!(Wait::at_most(Duration::ZERO).pause(), None);
        assert!(Wait::at_most(Duration::from_mins(1)).pause().is_some());
    }
}
