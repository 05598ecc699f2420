//! Runs a script with the real binary and records its system calls.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use super::check::describe;
use super::disk::Loss;
use super::fault::Fault;
use super::home::{Binary, Home};
use super::ledger::{Attempt, Effect, Ledger, Moment, Session};
use super::record::{self, Record};
use super::script::Script;
use crate::random::{Random, mix};

/// A script that was run: its commands, and every call that they made.
pub(crate) struct Recording {
    pub(crate) ledger: Ledger,
    pub(crate) records: Vec<Record>,
    /// The inode of the watched directory.
    pub(crate) root: u64,
    /// The injected fault.
    pub(crate) fault: Option<Fault>,
}

/// The directories of a script.
pub(crate) struct Stage {
    /// Removed at the end.
    base: tempfile::TempDir,
    pub(crate) home: Home,
}

impl Stage {
    pub(crate) fn new(binary: &Binary) -> Self {
        let base = crate::crash::scratch();
        let watched = base.path().join("watched");
        std::fs::create_dir(&watched).expect("a directory");
        let mut home = Home::new(binary, &watched.join("home"), "first");
        home.watched = Some((watched, Some(base.path().join("records"))));
        Self { base, home }
    }

    /// Returns a directory that is not watched.
    pub(crate) fn outside(&self) -> String {
        self.base.path().display().to_string()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.base.path().join("records")
    }

    fn recorded(&self) -> u64 {
        std::fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    /// Runs one command and records its outcome.
    pub(crate) fn play(
        &self,
        arguments: &[String],
        input: Option<&str>,
        effect: Effect,
        plan: Option<&str>,
    ) -> (Attempt, String) {
        let begun = self.recorded();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answer = self.home.run_with(&words, input, plan);
        let (pid, code, ended) = (answer.pid, answer.code, self.recorded());
        let input = input.map(str::to_owned);
        let text = if answer.ok() { answer.output.clone() } else { describe(&answer) };
        (Attempt { arguments: arguments.to_vec(), input, effect, pid, begun, ended, code }, text)
    }

    pub(crate) fn finish(&self, ledger: Ledger, fault: Option<Fault>) -> Recording {
        let root = std::fs::metadata(self.base.path().join("watched")).expect("the directory").ino();
        Recording { ledger, records: record::read(&self.log()), root, fault }
    }
}

/// Runs `commands` random commands, some of them with a fault.
pub(crate) fn play(binary: &Binary, seed: u64, commands: usize, fault: Option<Fault>) -> Result<Recording, String> {
    let stage = Stage::new(binary);
    let mut script = Script::new(seed, &stage.outside());
    let mut random = Random::new(mix(seed ^ 0xfa17));
    let mut ledger = Ledger::default();
    for number in 0..commands {
        let step = script.next(|id| now(&ledger, id));
        // The first commands create the home.
        let plan = fault.filter(|_| number > 2 && random.below(3) == 0).map(|fault| fault.plan(&mut random));
        let input = step.input.as_deref();
        let (played, text) = stage.play(&step.arguments, input, step.effect.clone(), plan.as_deref());
        let ok = played.code == Some(0);
        if !ok && fault.is_none() {
            return Err(format!("command {number} of seed {seed}, {:?}: {text}", step.arguments));
        }
        script.answered(&step, ok, &text);
        ledger.played.push(played);
        if let (false, Some(fault)) = (ok, fault) {
            mend(&stage, fault, &step.effect, &mut ledger);
        }
    }
    Ok(stage.finish(ledger, fault))
}

/// Repairs the log after a fault that may have closed it.
fn mend(stage: &Stage, fault: Fault, effect: &Effect, ledger: &mut Ledger) {
    let (Effect::Append { session, .. } | Effect::Rename { session, .. }) = effect else { return };
    if fault.closes_logs() {
        let arguments = ["log", "repair", session].map(str::to_owned);
        ledger.played.push(stage.play(&arguments, None, Effect::None, None).0);
    }
}

/// Returns a session as it is now, if that is certain.
fn now(ledger: &Ledger, id: &str) -> Option<Session> {
    let moment = Moment { at: u64::MAX, loss: Loss::None, faulty: false, retried: false };
    let worlds = ledger.worlds(&[], moment);
    let [world] = worlds.as_slice() else { return None };
    let session = world.sessions.get(id)?;
    session.lines.values().all(|count| count.least == count.most).then(|| session.clone())
}
