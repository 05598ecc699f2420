//! The race of append, delete and create on the same few names.

use super::command::Call;
use super::reads::lines_of;
use super::worker::Worker;

impl Worker {
    /// Runs one step of the race.
    pub fn race(&mut self) {
        let name = format!("race-{}", self.below(2));
        match self.below(10) {
            0..7 => {
                let session = self.append_power(&name);
                if let Some(session) = session.filter(|_| self.chance(40)) {
                    self.look_back(&session);
                }
            }
            7..9 => self.delete(&name, true),
            _ => self.create(&["--name", &name], None, Some(name.clone())),
        }
    }

    /// Reads the log after an append: it may be missing only if its session was deleted.
    fn look_back(&mut self, session: &str) {
        let done = self.run(Call::new(&["log", "cat", session]));
        match done.ran.code {
            Some(0) => self.note_look(&done, done.span, session, "log cat", lines_of(&done.ran.stdout)),
            Some(1) => self.note_look(&done, done.span, session, "log cat, which finds no session,", Vec::new()),
            _ => {}
        }
    }
}
