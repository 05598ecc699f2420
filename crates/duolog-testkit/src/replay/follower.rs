//! A reader that resumes again and again from its last cursor.

use super::check::{CheckResult, describe};
use super::home::Home;

/// A reader of one session; see the module.
#[derive(Debug)]
pub(crate) struct Follower {
    session: String,
    cursor: String,
    /// The log as the reader received it; a reset keeps the bytes before its position.
    view: Vec<u8>,
    resets: usize,
    gone: bool,
}

impl Follower {
    pub(crate) fn new(session: &str) -> Self {
        // A position without an epoch: the first epoch of a log need not be 0.
        let (session, cursor) = (session.to_owned(), "0".to_owned());
        Self { session, cursor, view: Vec::new(), resets: 0, gone: false }
    }

    /// Reads from the last cursor.
    pub(crate) fn resume(&mut self, home: &Home) -> CheckResult {
        let answer = home.run(&["log", "tail", &self.session, "--from", &self.cursor, "--show-cursor"], None);
        match answer.code {
            Some(0) => {}
            // Busy, or no connection within the short timeout: it retries later. Not found: the session was deleted.
            Some(3) => return Ok(()),
            Some(5) if answer.errors.contains("cannot reach") => return Ok(()),
            Some(1) => {
                self.gone = true;
                return Ok(());
            }
            _ => return Err(format!("reading from {}: {}", self.cursor, describe(&answer))),
        }
        let cursors = |line: &str| line.split_whitespace().rev().find_map(cursor_of);
        for line in answer.errors.lines().filter(|line| line.contains("reset")) {
            let to = cursors(line).ok_or_else(|| format!("a reset without a cursor: {line}"))?;
            self.resets += 1;
            self.view.truncate(to.1);
        }
        self.view.extend_from_slice(answer.output.as_bytes());
        let last = answer.errors.lines().filter(|line| line.contains("cursor")).find_map(cursors);
        let (epoch, position) = last.ok_or_else(|| format!("no cursor: {}", describe(&answer)))?;
        self.cursor = format!("{epoch}:{position}");
        if self.view.len() != position {
            let length = self.view.len();
            return Err(format!(
                "the cursor {} follows {length} bytes that were read; {}",
                self.cursor,
                describe(&answer)
            ));
        }
        Ok(())
    }

    /// Compares the received bytes with the log. `cleared`: the log was deleted meanwhile, so all bytes are new.
    pub(crate) fn compare(&self, home: &Home, changed: bool, cleared: bool) -> CheckResult {
        if self.gone {
            return Ok(());
        }
        let cat = home.run(&["log", "cat", &self.session], None);
        if !cat.ok() {
            return Ok(());
        }
        if cat.output.as_bytes() != self.view {
            let view = String::from_utf8_lossy(&self.view);
            return Err(format!("a follower received\n{view}the log of {} has\n{}", self.session, cat.output));
        }
        if cleared && self.resets == 0 {
            return Err(format!("the log of {} was deleted, and a follower got no reset", self.session));
        }
        if !changed && self.resets > 0 {
            return Err(format!("a follower of {} was reset although no byte was removed", self.session));
        }
        Ok(())
    }
}

fn cursor_of(word: &str) -> Option<(u64, usize)> {
    let (epoch, position) = word.trim_matches(|c: char| !c.is_ascii_digit()).split_once(':')?;
    Some((epoch.parse().ok()?, position.parse().ok()?))
}
