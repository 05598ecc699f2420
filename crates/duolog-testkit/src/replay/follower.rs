//! A reader that comes back again and again, each time with the cursor that it was given last.

use super::check::{Held, told};
use super::home::Home;

/// See the module.
#[derive(Debug)]
pub(crate) struct Follower {
    session: String,
    cursor: String,
    /// All bytes that it was given, as a log from its beginning: after a reset what is below the new position stays.
    view: Vec<u8>,
    resets: usize,
    gone: bool,
}

impl Follower {
    pub(crate) fn new(session: &str) -> Self {
        // A position without an epoch: a log need not begin with epoch 0.
        let (session, cursor) = (session.to_owned(), "0".to_owned());
        Self { session, cursor, view: Vec::new(), resets: 0, gone: false }
    }

    /// Reads on from the last cursor.
    pub(crate) fn resume(&mut self, home: &Home) -> Held {
        let answer = home.run(&["log", "tail", &self.session, "--from", &self.cursor, "--show-cursor"], None);
        match answer.code {
            Some(0) => {}
            // Busy, or no connection within the short timeout: it comes back later. Not found: the session is gone.
            Some(3) => return Ok(()),
            Some(5) if answer.errors.contains("cannot reach") => return Ok(()),
            Some(1) => {
                self.gone = true;
                return Ok(());
            }
            _ => return Err(format!("reading on from {}: {}", self.cursor, told(&answer))),
        }
        let cursors = |line: &str| line.split_whitespace().rev().find_map(cursor_of);
        for line in answer.errors.lines().filter(|line| line.contains("reset")) {
            let to = cursors(line).ok_or_else(|| format!("a reset without a cursor: {line}"))?;
            self.resets += 1;
            self.view.truncate(to.1);
        }
        self.view.extend_from_slice(answer.output.as_bytes());
        let last = answer.errors.lines().filter(|line| line.contains("cursor")).find_map(cursors);
        let (epoch, position) = last.ok_or_else(|| format!("no cursor: {}", told(&answer)))?;
        self.cursor = format!("{epoch}:{position}");
        if self.view.len() != position {
            let length = self.view.len();
            return Err(format!("the cursor {} follows {length} bytes that were read; {}", self.cursor, told(&answer)));
        }
        Ok(())
    }

    /// Holds what it was given to what the log holds. `cleared`: the log was deleted on the way, so everything is new.
    pub(crate) fn compare(&self, home: &Home, changed: bool, cleared: bool) -> Held {
        if self.gone {
            return Ok(());
        }
        let cat = home.run(&["log", "cat", &self.session], None);
        if !cat.ok() {
            return Ok(());
        }
        if cat.output.as_bytes() != self.view {
            let view = String::from_utf8_lossy(&self.view);
            return Err(format!("a follower was given\n{view}the log of {} holds\n{}", self.session, cat.output));
        }
        if cleared && self.resets == 0 {
            return Err(format!("the log of {} was deleted, and a follower was not told", self.session));
        }
        if !changed && self.resets > 0 {
            return Err(format!("a follower of {} was reset, though nothing was taken away", self.session));
        }
        Ok(())
    }
}

fn cursor_of(word: &str) -> Option<(u64, usize)> {
    let (epoch, position) = word.trim_matches(|c: char| !c.is_ascii_digit()).split_once(':')?;
    Some((epoch.parse().ok()?, position.parse().ok()?))
}
