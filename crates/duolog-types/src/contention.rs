//! Waiting for a lock and finding its holder. No system calls: the stores make them.

use std::time::{Duration, Instant};

/// The pauses of a writer that waits for an advisory lock: short at first, bounded, and up to a deadline.
///
/// `flock` has no timeout, and a blocked call cannot be cancelled. Repeated attempts with short pauses can.
#[derive(Debug)]
pub struct Wait {
    deadline: Instant,
    next: Duration,
}

impl Wait {
    /// Starts to wait, up to `timeout`.
    pub fn at_most(timeout: Duration) -> Self {
        Self { deadline: Instant::now() + timeout, next: Duration::from_micros(20) }
    }

    /// Returns the pause before the next attempt; `None` after the deadline.
    pub fn pause(&mut self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let pause = self.next.min(left);
        self.next = (self.next * 2).min(Duration::from_millis(2));
        Some(pause)
    }
}

/// Reads `/proc/locks` until it names the holder of a file's lock, up to a few times.
///
/// The kernel generates the text for each read call, so an entry can be missed between two small reads. The buffer is
/// therefore large, and one attempt is not enough.
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

/// Returns the process that holds a `flock` on a file, from the text of `/proc/locks`. Waiters (`->`) are not holders.
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
