//! The text of the demo, up to 80 columns wide.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use duolog::sessions::Session;
use duolog::{Home, RunId, Verified};
use duolog_wire::DemoComparison;

use super::compare::holds;
use super::{DemoHome, KillResult, script};
use crate::failure::Failure;
use crate::figures;
use crate::out::{Out, Text, Tone};

/// The maximum width of an event's text: the whole line fits 80 columns.
const TEXT_COLUMNS: usize = 62;

/// When the agent is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTime {
    /// Before it writes the large line.
    BeforeWrite,
    /// While it does.
    MidWrite,
}

/// Prints the demo at a pace for reading.
pub struct View<'a> {
    pub out: &'a mut Out,
    pace: Duration,
    is_ended: Arc<AtomicBool>,
}

impl<'a> View<'a> {
    pub fn new(out: &'a mut Out, pace: Duration, is_ended: Arc<AtomicBool>) -> Self {
        Self { out, pace, is_ended }
    }

    /// Returns an error after Ctrl-C.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_ended.load(Ordering::Relaxed) {
            let source = io::Error::from(io::ErrorKind::Interrupted);
            return Err(Failure::File { call: "finish", path: "the demo".into(), source });
        }
        Ok(())
    }

    pub fn introduce(&mut self, place: &DemoHome) -> Result<(), Failure> {
        self.out.part(|text| {
            text.line(text.tone(Tone::Strong, "Duolog: an agent is killed in the middle of a write"));
            text.line("We start an agent, kill it while it writes, look at what is left, and let it go");
            text.line("on. The agent is a real process, and the kill is a real one (SIGKILL).");
            let stays = if place.is_kept() { "stays" } else { "removed at the end; --keep keeps it" };
            text.line(text.tone(Tone::Faint, &format!("home: {} ({stays})", place.path().display())));
        })?;
        self.rest()
    }

    pub fn works(&mut self, agent: u32) -> Result<(), Failure> {
        self.heading(1, &format!("The agent works (process {agent}); we follow its log"))
    }

    /// Prints an event on one line.
    pub fn event(&mut self, kind: &str, said: &str) -> Result<(), Failure> {
        self.check()?;
        let tone = match kind {
            "user" => Tone::Strong,
            "tool call" => Tone::Worth,
            "assistant" => Tone::Good,
            _ => Tone::Faint,
        };
        let shown = shortened(said);
        self.out.part(|text| text.line(format_args!("   {} {shown}", text.tone(tone, &format!("{kind:<10}")))))
    }

    pub fn kills(&mut self, agent: u32, line_bytes: u64, when: KillTime) -> Result<(), Failure> {
        self.rest()?;
        self.heading(2, "It is killed while it writes")?;
        let size = figures::size(line_bytes);
        self.out.part(|text| {
            let kill = text.tone(Tone::Bad, &format!("kill -9 {agent}"));
            match when {
                KillTime::MidWrite => {
                    text.line(format_args!(
                        "   The answer to its last call is one line of {size}. As soon as the first"
                    ));
                    text.line(format_args!("   bytes of it are in the file: {kill}"));
                }
                KillTime::BeforeWrite => {
                    text.line(format_args!("   The answer to its last call is one line of {size}. Just before it is"));
                    text.line(format_args!("   written: {kill}"));
                }
            }
        })
    }

    /// Prints that the line was written before the kill. Called for the first kill only.
    pub fn too_late(&mut self) -> Result<(), Failure> {
        self.out.part(|text| text.line("   The line was written whole before the kill came. We try again."))
    }

    pub fn torn(&mut self, killed: &KillResult) -> Result<(), Failure> {
        let (torn, whole) = (figures::size(killed.torn_bytes), figures::size(killed.line_bytes));
        let kills = killed.kills;
        self.out.part(|text| {
            if killed.torn_by == "half_line" {
                if kills > 1 {
                    text.line(format_args!("   So it went {kills} times: this system is too fast for us."));
                }
                text.line("   Then another process writes half of such a line to the file and is killed:");
                text.line("   what a process leaves that dies half-way through a line.");
            } else if kills > 1 {
                text.line(format_args!("   Kill number {kills} came in time."));
            }
            let torn = text.tone(Tone::Worth, &torn);
            text.line(format_args!("   The log now ends in {torn} of a line of {whole}, without a newline."));
        })?;
        self.rest()
    }

    pub fn found(
        &mut self,
        compared: &DemoComparison,
        killed: &KillResult,
        repairs: u64,
        took: Duration,
    ) -> Result<(), Failure> {
        self.heading(3, &format!("We open the store again ({} ms)", took.as_millis()))?;
        self.out.part(|text| {
            let told = figures::things(compared.acknowledged, "event");
            field(text, "acknowledged", &format!("{told} reported to the agent as safe"));
            field(text, "found", &verdict(text, compared));
            if compared.unacknowledged > 0 {
                let more = figures::things(compared.unacknowledged, "whole line");
                field(text, "and", &format!("{more}, written but not acknowledged"));
            }
            field(
                text,
                "torn line",
                &format!("{}, cut off and kept in the .torn file", figures::size(killed.torn_bytes)),
            );
            field(text, "on record", &figures::things(repairs, "repair"));
        })?;
        self.rest()
    }

    pub fn goes_on(&mut self, agent: u32, last_line: Option<&[u8]>) -> Result<(), Failure> {
        self.heading(4, &format!("A new agent (process {agent}) goes on in the same session"))?;
        let reads = if last_line.is_some_and(script::is_call) {
            "   It reads its log, finds a call without an answer, and makes it again."
        } else {
            "   It reads its log, and goes on after the last answer."
        };
        self.out.part(|text| text.line(reads))
    }

    pub fn verified(&mut self, compared: &DemoComparison, verified: &Verified) -> Result<(), Failure> {
        self.rest()?;
        self.heading(5, "We check every byte")?;
        self.out.part(|text| {
            let told = figures::things(compared.acknowledged, "event");
            field(text, "acknowledged", &format!("{told} in all"));
            field(text, "found", &verdict(text, compared));
            let (sealed, end) = (figures::size(verified.sealed_to.0), figures::size(verified.end.0));
            let seals = figures::count(verified.seals);
            field(text, "seals", &format!("{seals} checked, over {sealed} of {end}"));
            let tone = if verified.damaged == 0 { Tone::Good } else { Tone::Bad };
            field(text, "damaged", &text.tone(tone, &figures::things(verified.damaged, "place")));
        })?;
        self.rest()
    }

    pub fn works_through(&mut self) -> Result<(), Failure> {
        self.heading(6, "A workflow of three phases; its runner is killed in the second")
    }

    /// Prints that the home has no free slot for a run.
    pub fn no_place(&mut self) -> Result<(), Failure> {
        self.out.part(|text| text.line("   This home has no free slot for a run now: the workflow is skipped."))
    }

    pub fn run(&mut self, run: &RunId) -> Result<(), Failure> {
        self.out.part(|text| {
            text.line("   A run is a row of the state, and each execution is recorded in a ledger.");
            text.line(format_args!("   {} {run}", text.tone(Tone::Faint, &format!("{:<10}", "run"))));
        })
    }

    pub fn kills_runner(&mut self, runner: u32, phase: &str) -> Result<(), Failure> {
        self.rest()?;
        self.out.part(|text| {
            let kill = text.tone(Tone::Bad, &format!("kill -9 {runner}"));
            text.line(format_args!("   In the middle of {phase}: {kill}"));
        })
    }

    pub fn another_terminal(&mut self) -> Result<(), Failure> {
        self.rest()?;
        self.out.part(|text| text.line("   No process waits now, only a row. From another terminal:"))
    }

    /// Prints a command and its output.
    pub fn command(&mut self, command: &str, said: &str) -> Result<(), Failure> {
        self.check()?;
        self.out.part(|text| {
            text.line(format_args!("   {}", text.tone(Tone::Strong, &format!("$ {command}"))));
            for line in said.lines() {
                text.line(format!("     {line}").trim_end());
            }
        })
    }

    pub fn conclude(&mut self, holds: bool, place: &DemoHome, session: &Session) -> Result<(), Failure> {
        let home = Home::beneath(place.path());
        self.heading(7, "Plain files that common tools can read")?;
        let size =
            |path: &str| home.state.join(path).metadata().map_or_else(|_| "-".to_owned(), |at| figures::size(at.len()));
        let (log, torn) = (session.log_path.clone(), format!("{}.torn", session.log_path));
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let folder = log.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        self.out.part(|text| {
            text.line(format_args!("   {}", home.state.display()));
            let rows = [
                ("├─ ", "state.db".to_owned(), size("state.db"), "what to do next: SQLite"),
                ("└─ ", format!("{folder}/"), String::new(), ""),
                ("   ├─ ", name(&log), size(&log), "what happened: a JSON object per line"),
                ("   └─ ", name(&torn), size(&torn), "the torn line, kept"),
            ];
            for (branch, file, size, what) in rows {
                let what = text.tone(Tone::Faint, what);
                let row = format!("   {:<28} {size:>8}  {what}", format!("{branch}{file}"));
                text.line(row.trim_end());
            }
            text.line("");
            if place.is_kept() {
                text.line("   Look:");
                text.line(format_args!("     cd {}", home.state.display()));
            } else {
                text.line("   Look (duolog demo --keep keeps the files; then, in that directory):");
            }
            text.line(format_args!("     jq -r '.message.content[0].text // empty' {log}"));
            text.line(format_args!("     tail -n 1 {log}"));
            text.line("     sqlite3 state.db 'SELECT action, position, bytes FROM repairs'");
            text.line("     duolog --home .. log replay demo");
            text.line("     duolog --home .. log search port");
            text.line("     duolog --home .. runs list");
            text.line("     duolog --home .. doctor");
            text.line("   Next:");
            text.line("     duolog init                              create a home in this directory");
            text.line("     my-agent | duolog log append --session NAME --each");
            text.line("     duolog log stream                        follow every session");
            text.line("     duolog usage daily                       token usage and cost");
            text.line("     duolog runs start WORKFLOW --trigger ID  a run that survives its runners");
            text.line("");
            let kept = if place.is_kept() { "the files stay" } else { "the files are removed now" };
            text.line(if holds {
                format!(
                    "{}: every acknowledged event is there, once. {}",
                    text.tone(Tone::Good, "It holds"),
                    sentence(kept)
                )
            } else {
                format!(
                    "{}: something is not as it should be. {}",
                    text.tone(Tone::Bad, "It does not hold"),
                    sentence(kept)
                )
            });
        })
    }

    fn heading(&mut self, number: u32, title: &str) -> Result<(), Failure> {
        self.out.part(|text| {
            text.line("");
            text.line(text.tone(Tone::Strong, &format!("{number}  {title}")));
        })
    }

    /// Pauses for reading.
    pub fn rest(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + self.pace;
        while Instant::now() < until {
            self.check()?;
            sleep(Duration::from_millis(20));
        }
        self.check()
    }
}

fn field(text: &mut Text, label: &str, value: &str) {
    let label = text.tone(Tone::Faint, &format!("{label:<13}"));
    text.line(format_args!("   {label} {value}"));
}

fn verdict(text: &Text, compared: &DemoComparison) -> String {
    let DemoComparison { acknowledged, found, lost, repeated, .. } = compared;
    if holds(compared) {
        let all = text.tone(Tone::Good, &format!("{found} of {acknowledged}"));
        return format!("{all}, each once, in order, byte for byte");
    }
    let order = if compared.in_order { "" } else { ", out of order" };
    text.tone(Tone::Bad, &format!("{found} of {acknowledged}; {lost} missing, {repeated} repeated{order}"))
}

/// Returns the first line of a text, cut to fit, with the size of a long text.
fn shortened(said: &str) -> String {
    let size = if said.len() > 1000 { format!("{}: ", figures::size(said.len() as u64)) } else { String::new() };
    let line = size + said.lines().next().unwrap_or_default();
    // Collapse spaces that align columns.
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= TEXT_COLUMNS {
        return line;
    }
    line.chars().take(TEXT_COLUMNS - 1).collect::<String>() + "…"
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>() + ".").unwrap_or_default()
}
