//! `duolog log stream`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use duolog::Store;
use duolog::limits::Limits;
use duolog::log::{self, Notice, Progress, ReplayDetail, Source, Streamed};
use duolog_wire as wire;

use super::told::{Depth, Voice, label};
use super::{Context, DAMAGE_TOLD};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Ending, Out};

/// How often a home that is not there yet is looked for.
const HOME_PACE: Duration = Duration::from_millis(250);

const AFTER: &str = "\
Examples:
  duolog log stream
  duolog log stream --from end --verbose
  duolog log stream --logs-dir ~/.claude/projects --last 20
  duolog log stream --logs-dir ~/.codex/sessions --no-follow --json | jq -r .text

Exit code: 1 where the directory is not there and is not to be waited for

JSON: one object per item and one after each turn, as log replay gives them, each with
  \"session_id\", \"session_name\", \"path\": from the directory that is followed
  and one for each notice,
  {\"session_id\", \"session_name\", \"path\", \"kind\": \"notice\",
   \"notice\": \"damaged\"|\"reset\"|\"lost\"|\"gone\"|\"skipped\"|\"missing\",
   \"position\", \"end_position\", \"reason\"}
  After a reset, what stands behind position comes again. A turn ends when the next begins.";

/// Show every session at once: what there is, oldest first, and then what comes
///
/// Shows what was asked, every answer, what failed and how each turn ended; --verbose shows every step. Without
/// --logs-dir it is the sessions of the home. Any other directory of JSONL files is read as it stands, without a home:
/// Claude Code, Codex, Last Light, Skillet, AgentryLab. New sessions are shown from their first line. A directory that is
/// not there is waited for. Ctrl-C ends it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Stream {
    /// Follow every *.jsonl beneath this directory instead, and change nothing
    #[arg(long, value_name = "DIR")]
    logs_dir: Option<PathBuf>,
    /// Where to begin in the sessions that there are
    #[arg(long, value_name = "WHERE", default_value = "start")]
    from: From,
    /// Begin with the last N lines of each session
    #[arg(long, value_name = "N", conflicts_with = "from")]
    last: Option<u64>,
    /// End when all that is there was shown
    #[arg(long)]
    no_follow: bool,
    /// Fail where the directory is not there, instead of waiting for it; so does --no-follow
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    depth: Depth,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// With the first line
    Start,
    /// Behind the last
    End,
}

impl Stream {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // From here on Ctrl-C only asks: what is being printed is printed whole.
        let ending = context.out.ending()?;
        let view = self.depth.view(ReplayDetail::Live);
        let start = match (self.last, self.from) {
            (Some(count), _) => log::Start::Last(count),
            (None, From::Start) => log::Start::All,
            (None, From::End) => log::Start::New,
        };
        if let Some(directory) = &self.logs_dir {
            // No home has a say in it.
            let limits = Limits::default();
            let directory = args::here()?.join(directory);
            let stream = log::Stream::of_directory(&directory, start, view, &limits)?;
            let directory = directory.display().to_string();
            return self.show(context.out, stream, &ending, &Place { store: None, directory, limits });
        }
        let Some(store) = self.wait_for_home(context, &ending)? else { return Ok(Ended::Done) };
        let directory = store.home().state.join("sessions").display().to_string();
        let limits = context.config()?.limits();
        self.show(context.out, store.stream(start, view)?, &ending, &Place { store: Some(&store), directory, limits })
    }

    /// The store, once there is one; nothing where the end comes first.
    fn wait_for_home(&self, context: &Context<'_>, ending: &Ending) -> Result<Option<Store>, Failure> {
        let mut is_told = false;
        while !ending.has_come() {
            if self.no_wait || self.no_follow {
                return context.open_to_read().map(Some);
            }
            if let Some(store) = context.open_if_there()? {
                return Ok(Some(store));
            }
            if !std::mem::replace(&mut is_told, true) {
                context.out.note("there is no home yet; waiting for its first session (Ctrl-C ends it)");
            }
            ending.wait(HOME_PACE);
        }
        Ok(None)
    }

    fn show(&self, out: &mut Out, mut stream: log::Stream, ending: &Ending, place: &Place<'_>) -> CommandResult {
        ending.rings(stream.bell());
        let mut shown =
            Showing { stream: self, place, voice: Voice::new(self.depth.detail()), damaged: 0, is_lost: false };
        let mut held_since = None;
        let mut ended = Ended::Done;
        while !ending.has_come() {
            let mut result = Ok(());
            let progress = stream.poll(&mut |streamed| {
                if result.is_ok() {
                    result = shown.piece(out, streamed);
                }
            });
            result?;
            let progress = progress?;
            out.flush()?;
            if progress == Progress::Delivered {
                held_since = None;
                continue;
            }
            if self.no_follow {
                if !stream.is_held_up() {
                    break;
                }
                // A writer is inside for a moment; one that stays keeps its lines to itself.
                if held_since.get_or_insert_with(Instant::now).elapsed() > place.limits.busy_timeout {
                    out.alert("a writer stays inside a log: its last lines are not shown");
                    ended = Ended::Busy;
                    break;
                }
            }
            stream.wait(Duration::MAX);
        }
        shown.finish(out, ended)
    }
}

/// What is followed.
struct Place<'s> {
    /// Where whole texts are.
    store: Option<&'s Store>,
    directory: String,
    limits: Limits,
}

/// Pieces on their way out.
struct Showing<'s> {
    stream: &'s Stream,
    place: &'s Place<'s>,
    voice: Voice,
    damaged: u64,
    is_lost: bool,
}

impl Showing<'_> {
    fn piece(&mut self, out: &mut Out, streamed: Streamed<'_>) -> Result<(), Failure> {
        match streamed {
            Streamed::Told { source, told } => {
                let log = self.place.store.zip(source.session.as_ref()).map(|(store, session)| store.log(session));
                let full = |reference: &str| match &log {
                    Some(log) => log.full(reference),
                    None => Ok(log::Full::Elsewhere),
                };
                self.voice.tell_of(out, source, told, self.stream.depth.full.then_some(&full))
            }
            Streamed::Notice { source: Some(source), notice } => self.notice(out, source, &notice),
            Streamed::Notice { source: None, .. } => self.missing(out),
        }
    }

    fn notice(&mut self, out: &mut Out, source: &Source, notice: &Notice) -> Result<(), Failure> {
        let name = label(source);
        let entry = wire::StreamNotice::from(notice);
        let text = match notice {
            Notice::Damaged { start, end, reason } => {
                self.damaged += 1;
                format!("{name}: skipped {start} to {end}: {reason}")
            }
            Notice::Reset { to, .. } => {
                let why = entry.reason.as_deref().unwrap_or_default();
                format!("{name}: reset: lines that were shown are no longer there ({why}); going on from {to}")
            }
            Notice::Lost(loss) => {
                self.is_lost = true;
                format!("{name}: this is not the whole log: {loss}")
            }
            Notice::LostEarlier(loss) => format!("{name}: this is not all that was appended: {loss}"),
            Notice::Gone => format!("{name}: it is no longer there"),
            Notice::Skipped { reason } => format!("{name}: not shown: {reason}"),
            Notice::Missing => return self.missing(out),
        };
        // Many damaged places are counted at the end; programs get each.
        let is_told = !matches!(notice, Notice::Damaged { .. }) || self.damaged <= DAMAGE_TOLD;
        let shape = wire::Sourced { source: source.into(), entry };
        out.notice(&shape, is_told.then_some(&*text))
    }

    fn missing(&mut self, out: &mut Out) -> Result<(), Failure> {
        let place = &self.place.directory;
        if self.place.store.is_some() && self.stream.no_follow && !self.stream.no_wait {
            out.note("there are no sessions yet");
            return Ok(());
        }
        if self.stream.no_wait || self.stream.no_follow {
            return Err(Failure::Absent {
                message: format!("there is no directory {place}"),
                hint: Some("see that the path is right; without --no-wait and --no-follow it is waited for".to_owned()),
            });
        }
        let entry = wire::StreamNotice::from(&Notice::Missing);
        let shape = wire::Sourced { source: wire::Source::default(), entry };
        out.notice(&shape, Some(&format!("there is no directory {place} yet; waiting for it (Ctrl-C ends it)")))
    }

    fn finish(self, out: &mut Out, ended: Ended) -> CommandResult {
        out.flush()?;
        if self.damaged > 0 {
            out.alert(format_args!("{} skipped", figures::things(self.damaged, "damaged place")));
        }
        if self.voice.lost > 0 {
            let texts = figures::things(self.voice.lost, "whole text");
            out.alert(format_args!("{texts} missing or damaged"));
            return Ok(Ended::Damaged);
        }
        Ok(if self.is_lost { Ended::Damaged } else { ended })
    }
}
