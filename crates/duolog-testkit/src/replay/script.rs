//! Random commands for the real binary: mostly equal lines, reused names, logs that are created and deleted.

use super::ledger::{Effect, Session, Stage};
use crate::random::{Random, mix};

/// A command to run.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) arguments: Vec<String>,
    pub(crate) input: Option<String>,
    pub(crate) effect: Effect,
}

/// A session that exists, as the script knows it.
#[derive(Clone, Debug)]
struct LiveSession {
    id: String,
    name: String,
}

#[derive(Clone, Debug)]
struct Run {
    id: String,
    next: Option<Stage>,
    fence: String,
    execution: String,
}

/// Generates one command after the other from the outcomes so far.
pub(crate) struct Script {
    random: Random,
    live: Vec<LiveSession>,
    runs: Vec<Run>,
    /// Exported sessions: the file, the session and its content.
    documents: Vec<(String, LiveSession, Session)>,
    outside: String,
    counter: u32,
    /// Names that a command of unknown outcome may have taken or freed.
    unknown: Vec<String>,
    /// False for a state on a server, which `state backup` does not copy.
    pub(crate) backups: bool,
}

const SAME: &str = "{\"type\":\"user\",\"text\":\"same\"}";
const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

impl Script {
    /// `outside` is a directory that is not watched, for exported documents.
    pub(crate) fn new(seed: u64, outside: &str) -> Self {
        Self {
            random: Random::new(mix(seed)),
            live: Vec::new(),
            runs: Vec::new(),
            documents: Vec::new(),
            outside: outside.to_owned(),
            counter: 0,
            unknown: Vec::new(),
            backups: true,
        }
    }

    /// Returns the next command. `now` returns a session if its state is certain.
    pub(crate) fn next(&mut self, now: impl Fn(&str) -> Option<Session>) -> Step {
        if self.live.len() < 2 {
            return self.create();
        }
        match self.random.below(100) {
            0..48 => self.append(),
            48..55 => self.rename(),
            55..61 => self.delete(),
            61..67 => self.delete_log(),
            67..71 => self.export(now),
            71..76 => self.import(),
            76..90 => self.run(),
            90..93 if self.live.len() < 3 => self.create(),
            93..96 => step(&["sessions", "list", "--json"], Effect::None),
            96..98 => step(&["state", "checkpoint"], Effect::None),
            98 if self.backups => {
                let number = self.number();
                let to = format!("{}/copy-{number}", self.outside);
                step(&["state", "backup", &to], Effect::None)
            }
            _ => {
                let id = self.any().id;
                step(&["log", "repair", &id], Effect::None)
            }
        }
    }

    /// Records the output of a command, so that later commands can refer to it.
    pub(crate) fn answered(&mut self, step: &Step, ok: bool, output: &str) {
        match &step.effect {
            Effect::Run { run, stage } => {
                let Some(run) = self.runs.iter_mut().find(|of| of.id == *run) else { return };
                match stage {
                    Stage::Claim | Stage::ClaimAgain => output.trim().clone_into(&mut run.fence),
                    Stage::Begin => output.trim().clone_into(&mut run.execution),
                    _ => {}
                }
                run.next = if ok { after(*stage) } else { None };
            }
            // The subject of a command of unknown outcome is not used again.
            Effect::Create { session, name } if !ok => self.forget(session, name),
            Effect::Import { session, was } if !ok => self.forget(session, &was.name),
            Effect::Delete { session } | Effect::DeleteLog { session } | Effect::Rename { session, .. } if !ok => {
                let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
                self.unknown.extend(names);
                self.forget(session, "");
            }
            _ => {}
        }
    }

    fn forget(&mut self, session: &str, name: &str) {
        self.live.retain(|live| live.id != session);
        self.documents.retain(|(_, live, _)| live.id != session && live.name != name);
        self.unknown.push(name.to_owned());
    }

    fn number(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn pick(&mut self, n: usize) -> usize {
        usize::try_from(self.random.below(n as u64)).unwrap_or_default()
    }

    fn any(&mut self) -> LiveSession {
        let at = self.pick(self.live.len());
        self.live[at].clone()
    }

    fn create(&mut self) -> Step {
        let id = format!("s{}", self.number());
        let taken = |name: &str| {
            self.live.iter().any(|live| live.name == name) || self.unknown.iter().any(|unknown| unknown == name)
        };
        // Prefers one of the three names: a deleted or renamed session leaves its name to another.
        let name = NAMES.iter().find(|name| !taken(name)).map_or_else(|| id.clone(), |name| (*name).to_owned());
        self.live.push(LiveSession { id: id.clone(), name: name.clone() });
        let effect = Effect::Create { session: id.clone(), name: name.clone() };
        step(&["sessions", "new", "--id", &id, "--name", &name, "--json"], effect)
    }

    fn line(&mut self) -> String {
        match self.random.below(20) {
            0 => format!("{{\"n\":{}}}", self.number()),
            // Longer than a page, so that a hole can be inside.
            1 => format!("{{\"type\":\"user\",\"text\":\"{}\"}}", "long ".repeat(1200)),
            _ => SAME.to_owned(),
        }
    }

    fn append(&mut self) -> Step {
        let (session, power) = (self.any().id, self.random.below(2) == 0);
        let lines: Vec<String> = (0..=self.random.below(3)).map(|_| self.line()).collect();
        let operation = (self.random.below(2) == 0).then(|| format!("op-{}", self.number()));
        let durability = if power { "power" } else { "process" };
        let mut step = step(
            &["log", "append", "--session", &session, "--durability", durability, "--json"],
            Effect::Append { session: session.clone(), lines: lines.clone(), operation: operation.clone(), power },
        );
        if let Some(operation) = operation {
            step.arguments.extend(["--operation-id".to_owned(), operation]);
        }
        step.input = Some(lines.join("\n") + "\n");
        step
    }

    fn rename(&mut self) -> Step {
        let (at, number) = (self.pick(self.live.len()), self.number());
        let name = format!("renamed-{number}");
        let live = &mut self.live[at];
        live.name.clone_from(&name);
        let (id, operation) = (live.id.clone(), format!("op-{number}"));
        let arguments = ["sessions", "rename", &id, &name, "--operation-id", &operation, "--json"];
        step(&arguments, Effect::Rename { session: id.clone(), name: name.clone() })
    }

    fn delete(&mut self) -> Step {
        let at = self.pick(self.live.len());
        let id = self.live.remove(at).id;
        step(&["sessions", "delete", &id, "--yes", "--json"], Effect::Delete { session: id.clone() })
    }

    fn delete_log(&mut self) -> Step {
        let id = self.any().id;
        step(&["sessions", "delete", &id, "--log", "--yes", "--json"], Effect::DeleteLog { session: id.clone() })
    }

    fn export(&mut self, now: impl Fn(&str) -> Option<Session>) -> Step {
        let live = self.any();
        let Some(was) = now(&live.id) else { return self.append() };
        let number = self.number();
        let file = format!("{}/document-{number}.json", self.outside);
        let step = step(&["sessions", "export", &live.id, "--output", &file], Effect::None);
        self.documents.push((file, live, was));
        step
    }

    /// Imports a session that was exported and then deleted.
    fn import(&mut self) -> Step {
        let there = |of: &LiveSession| self.live.iter().any(|live| live.id == of.id || live.name == of.name);
        let Some(at) = self.documents.iter().position(|(_, live, _)| !there(live)) else { return self.append() };
        let (file, live, was) = self.documents.remove(at);
        self.live.push(live.clone());
        step(&["sessions", "import", &file, "--json"], Effect::Import { session: live.id, was })
    }

    fn run(&mut self) -> Step {
        let going: Vec<usize> = (0..self.runs.len()).filter(|at| self.runs[*at].next.is_some()).collect();
        if going.is_empty() || (going.len() < 2 && self.random.below(6) == 0) {
            let id = format!("run-{}", self.number());
            let run = Run { id: id.clone(), next: None, fence: String::new(), execution: String::new() };
            self.runs.push(run);
            return self.stage(self.runs.len() - 1, Stage::Start);
        }
        let at = going[self.pick(going.len())];
        let stage = self.runs[at].next.unwrap_or(Stage::Start);
        self.stage(at, stage)
    }

    fn stage(&self, at: usize, stage: Stage) -> Step {
        let Run { id, fence, execution, .. } = &self.runs[at];
        let gate = format!("gate-{id}");
        let arguments: Vec<&str> = match stage {
            Stage::Start => vec!["runs", "start", "build", "--trigger", id, "--id", id, "--by", "script"],
            Stage::Claim | Stage::ClaimAgain => vec!["runs", "claim", id, "--owner", "worker", "--lease", "1h"],
            Stage::Begin => vec!["runs", "phase", "begin", id, "compile", "--fence", fence],
            Stage::End => vec!["runs", "phase", "end", id, execution, "--fence", fence],
            Stage::Gate => vec!["runs", "gate", id, "ship", "--summary", "ship it?", "--id", &gate, "--fence", fence],
            Stage::Approve => vec!["approvals", "approve", &gate, "--by", "ada"],
            Stage::Acknowledge => vec!["runs", "acknowledge", id, &gate, "--fence", fence],
            Stage::Finish => vec!["runs", "finish", id, "--fence", fence],
        };
        step(&arguments, Effect::Run { run: id.clone(), stage })
    }
}

fn after(stage: Stage) -> Option<Stage> {
    Some(match stage {
        Stage::Start => Stage::Claim,
        Stage::Claim => Stage::Begin,
        Stage::Begin => Stage::End,
        Stage::End => Stage::Gate,
        Stage::Gate => Stage::Approve,
        Stage::Approve => Stage::ClaimAgain,
        Stage::ClaimAgain => Stage::Acknowledge,
        Stage::Acknowledge => Stage::Finish,
        Stage::Finish => return None,
    })
}

fn step(arguments: &[&str], effect: Effect) -> Step {
    Step { arguments: arguments.iter().map(|word| (*word).to_owned()).collect(), input: None, effect }
}
