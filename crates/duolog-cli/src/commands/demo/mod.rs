//! `duolog demo`: kills an agent in the middle of a write, and checks that nothing is lost.
//!
//! Nothing is simulated: the agent is a process that writes with the library, the kill is SIGKILL, and the log is compared
//! byte for byte. `agent.rs` is the agent, `script.rs` its lines, `process.rs` starts and kills it, `compare.rs` compares
//! the log, `workflow.rs` is a run whose `runner.rs` is killed, and `view.rs` prints the story.

mod agent;
mod compare;
mod process;
mod runner;
mod script;
mod view;
mod workflow;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use duolog::config::Config;
use duolog::errors::Conflict;
use duolog::log::Follow;
use duolog::log::{Entry, ReadFrom};
use duolog::sessions::{NewSession, Session};
use duolog::{Error, Home, Item, Store, StoreOptions, Verified};
use duolog_wire::Demo as Answer;
use signal_hook::consts::SIGINT;
use tempfile::TempDir;

pub use agent::DemoAgent;
pub use runner::DemoRunner;

use self::agent::Stage;
use self::compare::compare;
use self::process::{Agent, AgentEnded, AgentMessage, Job};
use self::view::{KillTime, View};
use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog demo
  duolog demo --keep
  duolog --home /tmp/demo demo --fast --json | jq .after_kill

Exit code: 4 if an acknowledged event is missing or another check fails

JSON:
  {\"holds\": true|false, \"home\": path, \"is_home_kept\": true|false, \"session_id\", \"log_path\",
   \"kills\": 1, \"torn_by\": \"kill\"|\"half_line\", \"line_bytes\": 2097500, \"torn_bytes\": 1048576, \"repair_count\": 1,
   \"after_kill\": {\"acknowledged\", \"found\", \"lost\", \"repeated\", \"in_order\", \"unacknowledged\"},
   \"at_end\": {… as after_kill …}, \"events\": 16, \"bytes\": 2099999, \"seals\": 3, \"damaged_places\": 0,
   \"workflow\": {\"holds\", \"workflow_run_id\", \"status\", \"restart_count\": 1,
                \"not_repeated\": [\"plan\", …], \"execution_count\": 4, \"approval_id\"}}
  workflow is null if the home of --home has no free slot for a run";

/// The number of kills to try for a torn line, before the demo writes one itself.
const KILLS_MAX: u32 = 6;
/// The pauses to read an event and a paragraph.
const EVENT_PACE: Duration = Duration::from_millis(280);
const PARAGRAPH_PACE: Duration = Duration::from_millis(1200);
/// The poll interval for the log and the agent.
const LOOK: Duration = Duration::from_millis(10);

/// Kill an agent mid-write and check that nothing is lost
///
/// Then the demo kills the runner of a workflow in the second of three phases. Another runner continues where the first one
/// stopped, and waits at an approval gate.
///
/// The demo runs in a temporary home, which it removes at the end, or in the home of --home. It takes about twenty seconds.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Demo {
    /// Keep the home
    #[arg(long)]
    keep: bool,
    /// Run without pauses
    #[arg(long)]
    fast: bool,
    /// Write the torn line directly, so that the outcome does not depend on timing
    #[arg(long, hide = true)]
    half: bool,
}

/// The home of the demo.
enum DemoHome {
    /// A temporary home, removed at the end.
    Own(TempDir),
    /// A directory that is kept.
    Kept(PathBuf),
}

impl DemoHome {
    fn path(&self) -> &Path {
        match self {
            Self::Own(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// The result of the kill.
struct KillResult {
    kills: u32,
    line_bytes: u64,
    torn_bytes: u64,
    torn_by: &'static str,
}

impl Demo {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if context.global.store.is_some() {
            return Err(Failure::Given {
                message: "cannot use --store with demo: the demo keeps its state in its home".to_owned(),
                hint: Some("remove --store; use --home to set the home".to_owned()),
            });
        }
        let place = self.place(context.global.home.as_deref())?;
        let home = Home::beneath(place.path());
        // Ignore DUOLOG_STORE: the demo must not write to a shared state.
        let config = context.global.config(&home)?.with_store(Some(OsStr::new(process::STORE)))?;
        let is_ended = Arc::new(AtomicBool::new(false));
        // Ctrl-C ends the demo after its files are removed.
        signal_hook::flag::register(SIGINT, Arc::clone(&is_ended))
            .map_err(Failure::file("listen for", Path::new("Ctrl-C")))?;
        let when = if self.half { KillTime::BeforeWrite } else { KillTime::MidWrite };
        let is_paced = !self.fast && context.out.is_watched();
        let view = View::new(context.out, if is_paced { PARAGRAPH_PACE } else { Duration::ZERO }, is_ended);
        let after_batch = if is_paced { EVENT_PACE } else { Duration::ZERO };
        Play { view, home, config, after_batch, place: &place, acknowledged: Vec::new() }.run(when)
    }

    fn place(&self, home: Option<&Path>) -> Result<DemoHome, Failure> {
        if let Some(home) = home {
            return Ok(DemoHome::Kept(args::here()?.join(home)));
        }
        let made = tempfile::Builder::new().prefix("duolog-demo-").tempdir();
        let made = made.map_err(Failure::file("create a directory in", &std::env::temp_dir()))?;
        Ok(if self.keep { DemoHome::Kept(made.keep()) } else { DemoHome::Own(made) })
    }
}

/// A running demo.
struct Play<'a> {
    view: View<'a>,
    home: Home,
    config: Config,
    after_batch: Duration,
    place: &'a DemoHome,
    /// The lines that were acknowledged to the agent.
    acknowledged: Vec<Vec<u8>>,
}

impl Play<'_> {
    fn run(mut self, when: KillTime) -> CommandResult {
        self.view.introduce(self.place)?;
        let store = self.open()?;
        let session = new_session(&store)?;
        let log = self.home.state.join(&session.log_path);
        let repairs = repairs(&store)?;

        let killed = self.kill(&store, &session, &log, when)?;
        drop(store);

        let begun = Instant::now();
        let store = self.open()?;
        let took = begun.elapsed();
        let after_kill = compare(&self.acknowledged, &lines(&store, &session)?);
        let repairs = repairs_since(&store, repairs)?;
        self.view.found(&after_kill, &killed, repairs, took)?;

        self.go_on(&store, &session, &log)?;
        drop(store);

        let store = self.open()?;
        // Fold to the end of the log, which syncs and seals it; a list stops after 50 ms.
        store.catch_up(|_| {})?;
        let at_end = compare(&self.acknowledged, &lines(&store, &session)?);
        let verified = store.log(&session.id).verify(|_, _| {})?;
        self.view.verified(&at_end, &verified)?;
        let workflow = self.workflow(&store)?;
        // Move the write-ahead log into the database, so that its file size is right.
        store.state().checkpoint()?;

        let holds = compare::holds(&after_kill)
            && compare::holds(&at_end)
            && killed.torn_bytes > 0
            && repairs > 0
            && is_sound(&verified)
            && workflow.as_ref().is_none_or(|workflow| workflow.holds);
        self.view.conclude(holds, self.place, &session)?;
        let answer = Answer {
            holds,
            home: self.place.path().to_string_lossy().into_owned(),
            is_home_kept: self.place.is_kept(),
            session_id: session.id.to_string(),
            log_path: session.log_path.clone(),
            kills: killed.kills,
            torn_by: killed.torn_by,
            line_bytes: killed.line_bytes,
            torn_bytes: killed.torn_bytes,
            repair_count: repairs,
            after_kill,
            at_end,
            events: verified.events,
            bytes: verified.end.0,
            seals: verified.seals,
            damaged_places: verified.damaged,
            workflow,
        };
        self.view.out.answer(&answer, |_| {})?;
        Ok(if holds { Ended::Done } else { Ended::Damaged })
    }

    /// Starts the agent and kills it in the middle of a write. Tries again if the write was faster.
    fn kill(&mut self, store: &Store, session: &Session, log: &Path, when: KillTime) -> Result<KillResult, Failure> {
        let mut follow = store.log(&session.id).follow(None)?;
        let mut killed = KillResult { kills: 0, line_bytes: 0, torn_bytes: 0, torn_by: "kill" };
        while killed.torn_bytes == 0 && killed.kills < KILLS_MAX {
            let stage = if killed.kills == 0 { Stage::Begin } else { Stage::Again };
            let mut agent = self.start(session, log, stage)?;
            if stage == Stage::Begin {
                self.view.works(agent.id())?;
            }
            killed.line_bytes = self.follow_to_large(&mut follow, &agent, stage)?;
            if stage == Stage::Begin {
                self.view.kills(agent.id(), killed.line_bytes, when)?;
            }
            let at = Path::new("the agent of the demo");
            let outcome = match when {
                KillTime::BeforeWrite => agent.kill(),
                KillTime::MidWrite => agent.kill_in_mid_write(log),
            };
            outcome.map_err(Failure::file("kill", at))?;
            killed.kills += 1;
            // Read the messages that the agent sent before it died.
            while let Ok(Some(message)) = agent.wait_for_word() {
                self.hear(message);
            }
            killed.torn_bytes = store.log(&session.id).verify(|_, _| {})?.torn_bytes;
            if when == KillTime::BeforeWrite {
                break;
            }
            if killed.torn_bytes == 0 && killed.kills == 1 {
                self.view.too_late()?;
            }
        }
        if killed.torn_bytes == 0 {
            self.tear(session, log)?;
            killed.torn_by = "half_line";
            killed.torn_bytes = store.log(&session.id).verify(|_, _| {})?.torn_bytes;
        }
        self.view.torn(&killed)?;
        Ok(killed)
    }

    /// Starts a process that writes half a line to the log, and kills it.
    fn tear(&mut self, session: &Session, log: &Path) -> Result<(), Failure> {
        let mut agent = self.start(session, log, Stage::Half)?;
        match agent.wait_for_word() {
            Ok(Some(AgentMessage::Half)) => {
                agent.kill().map_err(Failure::file("kill", Path::new("the agent of the demo")))
            }
            _ => Err(self.ended_early()),
        }
    }

    /// Starts a new agent in the same session and shows its events.
    fn go_on(&mut self, store: &Store, session: &Session, log: &Path) -> Result<(), Failure> {
        let mut follow = store.log(&session.id).follow(None)?;
        // Skip the events that were already shown.
        while follow.poll(&mut |_| {})? != duolog::Seen::Idle {}
        let last = store.log(&session.id).last(1)?;
        let mut agent = self.start(session, log, Stage::Finish)?;
        self.view.goes_on(agent.id(), last.last().map(Vec::as_slice))?;
        loop {
            let message = agent.next(LOOK);
            self.show_new(&mut follow)?;
            match message {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => self.view.check()?,
                Err(AgentEnded) => break,
            }
        }
        let well = agent.ended_well().map_err(Failure::file("wait for", Path::new("the agent of the demo")))?;
        self.show_new(&mut follow)?;
        if well { Ok(()) } else { Err(self.ended_early()) }
    }

    /// Shows the events up to the large line, and returns the size of that line. Only the events of the first agent are shown:
    /// the others repeat them.
    fn follow_to_large(&mut self, follow: &mut Follow, agent: &Agent, stage: Stage) -> Result<u64, Failure> {
        loop {
            let message = agent.next(LOOK);
            if stage == Stage::Begin {
                self.show_new(follow)?;
            }
            match message {
                Ok(Some(AgentMessage::Large(bytes))) => return Ok(bytes),
                Ok(Some(message)) => self.hear(message),
                Ok(None) => self.view.check()?,
                Err(AgentEnded) => return Err(self.ended_early()),
            }
        }
    }

    fn show_new(&mut self, follow: &mut Follow) -> Result<(), Failure> {
        loop {
            let mut events = Vec::new();
            let seen = follow.poll(&mut |item| {
                if let Item::Line(line) = item {
                    events.push(script::describe(line.bytes));
                }
            });
            if seen? == duolog::Seen::Idle {
                return Ok(());
            }
            events.iter().try_for_each(|(kind, text)| self.view.event(kind, text))?;
        }
    }

    fn hear(&mut self, message: AgentMessage) {
        if let AgentMessage::Acknowledged(lines) = message {
            self.acknowledged.extend(lines);
        }
    }

    fn start(&self, session: &Session, log: &Path, stage: Stage) -> Result<Agent, Failure> {
        let home = self.place.path();
        Agent::start(&Job { home, session: &session.id, stage, pace: self.after_batch, log })
    }

    /// Returns the error for an agent that ended early. Ctrl-C ends both processes, so it is checked first.
    fn ended_early(&self) -> Failure {
        let source = std::io::Error::other("its process ended early");
        let died = Failure::File { call: "finish", path: "the agent of the demo".into(), source };
        self.view.check().err().unwrap_or(died)
    }

    fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(StoreOptions::at(self.home.clone()).configured(&self.config).one_shot())?)
    }
}

/// Creates a session named `demo`, or `demo-2` and so on if the name is taken.
fn new_session(store: &Store) -> Result<Session, Failure> {
    let mut number = 1;
    loop {
        let name = if number == 1 { "demo".to_owned() } else { format!("demo-{number}") };
        let new = NewSession { name: Some(name), agent_name: Some("demo".to_owned()), ..NewSession::default() };
        match store.sessions().create(&new) {
            Err(Error::Conflict(Conflict::NameTaken(_))) => number += 1,
            other => return Ok(other?),
        }
    }
}

fn lines(store: &Store, session: &Session) -> Result<Vec<Vec<u8>>, Failure> {
    let mut lines = Vec::new();
    store.log(&session.id).read(ReadFrom::Start, |entry| {
        if let Entry::Line(line) = entry {
            lines.push(line.bytes.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(lines)
}

/// Returns the number of recorded repairs.
fn repairs(store: &Store) -> Result<u64, Failure> {
    let rows = store.state().stats_within(duolog::Wait::Briefly)?.state.rows;
    Ok(rows.into_iter().find(|(table, _)| table == "repairs").map_or(0, |(_, rows)| rows))
}

fn repairs_since(store: &Store, before: u64) -> Result<u64, Failure> {
    Ok(repairs(store)?.saturating_sub(before))
}

/// Returns true if a log is sealed to its end and every seal is valid.
fn is_sound(verified: &Verified) -> bool {
    let Verified { end, seals, sealed_to, torn_bytes, damaged, unsynced, .. } = verified;
    *seals > 0 && sealed_to == end && (*torn_bytes, *damaged, *unsynced) == (0, 0, 0)
}
