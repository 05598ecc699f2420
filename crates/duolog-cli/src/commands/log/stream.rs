//! `duolog log stream`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use duolog::Store;
use duolog::limits::Limits;
use duolog::log::{self, Notice, Progress, ReplayDetail, Source, Streamed};
use duolog_wire as wire;

use super::conversation::{ConversationOutput, DetailArgs, label};
use super::{Context, DAMAGE_SHOWN_MAX};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Ending, Out};

/// Interval of the checks for a home that does not exist yet.
const HOME_PACE: Duration = Duration::from_millis(250);

const AFTER: &str = "\
Examples:
  duolog log stream
  duolog log stream --from end --verbose
  duolog log stream --logs-dir ~/.claude/projects --last 20
  duolog log stream --logs-dir ~/.codex/sessions --no-follow --json | jq -r .text

Exit code: 1 if the directory does not exist and --no-wait or --no-follow is given

JSON: one object per item and one after each turn, as in log replay, each with
  \"session_id\", \"session_name\", \"path\": relative to the directory that is followed
  and one for each notice,
  {\"session_id\", \"session_name\", \"path\", \"kind\": \"notice\",
   \"notice\": \"damaged\"|\"reset\"|\"lost\"|\"gone\"|\"skipped\"|\"missing\",
   \"position\", \"end_position\", \"reason\"}
  After a reset, the items after position are repeated. A turn ends when the next turn starts.";

/// Follow the conversations of all sessions
///
/// Shows the existing items, oldest first, and then new items as they arrive. Shows prompts, answers, errors and the
/// result of each turn; --verbose shows every step. New sessions are shown from their first line. Press Ctrl-C to stop.
///
/// Without --logs-dir the sessions of the home are followed. With --logs-dir a directory of JSONL files is followed,
/// without a home: Claude Code, Codex, Last Light, Skillet, AgentryLab. If the directory does not exist, the command
/// waits for it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Stream {
    /// Directory to follow instead of the home: every *.jsonl file below it; no file is changed
    #[arg(long, value_name = "DIR")]
    logs_dir: Option<PathBuf>,
    /// Start position in existing sessions
    #[arg(long, value_name = "WHERE", default_value = "start")]
    from: StartAt,
    /// Number of lines from the end of each session
    #[arg(long, value_name = "N", conflicts_with = "from")]
    last: Option<u64>,
    /// Exit when all existing items are shown
    #[arg(long)]
    no_follow: bool,
    /// Fail if the directory does not exist, instead of waiting for it; implied by --no-follow
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    depth: DetailArgs,
}

/// Start of the stream in existing sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartAt {
    /// At the first line
    Start,
    /// After the last line
    End,
}

impl Stream {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // From here on, Ctrl-C sets a flag: the current output is completed first.
        let ending = context.out.ending()?;
        let view = self.depth.view(ReplayDetail::Live);
        let start = match (self.last, self.from) {
            (Some(count), _) => log::Start::Last(count),
            (None, StartAt::Start) => log::Start::All,
            (None, StartAt::End) => log::Start::New,
        };
        if let Some(directory) = &self.logs_dir {
            // A directory is read without a home and its configuration.
            let limits = Limits::default();
            let directory = args::here()?.join(directory);
            let stream = log::Stream::of_directory(&directory, start, view, &limits)?;
            let directory = directory.display().to_string();
            return self.show(context.out, stream, &ending, &FollowedDirectory { store: None, directory, limits });
        }
        let Some(store) = self.wait_for_home(context, &ending)? else { return Ok(Ended::Done) };
        let directory = store.home().state.join("sessions").display().to_string();
        let limits = context.config()?.limits();
        self.show(
            context.out,
            store.stream(start, view)?,
            &ending,
            &FollowedDirectory { store: Some(&store), directory, limits },
        )
    }

    /// Waits until the store exists and opens it. `None` if the command is stopped first.
    fn wait_for_home(&self, context: &Context<'_>, ending: &Ending) -> Result<Option<Store>, Failure> {
        let mut is_noted = false;
        while !ending.has_come() {
            if self.no_wait || self.no_follow {
                return context.open_to_read().map(Some);
            }
            if let Some(store) = context.open_if_there()? {
                return Ok(Some(store));
            }
            if !std::mem::replace(&mut is_noted, true) {
                context.out.note("there is no home yet; waiting for its first session (press Ctrl-C to stop)");
            }
            ending.wait(HOME_PACE);
        }
        Ok(None)
    }

    fn show(
        &self,
        out: &mut Out,
        mut stream: log::Stream,
        ending: &Ending,
        place: &FollowedDirectory<'_>,
    ) -> CommandResult {
        ending.rings(stream.bell());
        let mut shown = StreamPrinter {
            stream: self,
            place,
            conversation: ConversationOutput::new(self.depth.detail()),
            damaged: 0,
            is_lost: false,
        };
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
                // A writer usually holds the log for a moment. Stop waiting after the busy timeout.
                if held_since.get_or_insert_with(Instant::now).elapsed() > place.limits.busy_timeout {
                    out.alert("a writer still holds a log: its last lines are not shown");
                    ended = Ended::Busy;
                    break;
                }
            }
            stream.wait(Duration::MAX);
        }
        shown.finish(out, ended)
    }
}

/// Directory that is followed.
struct FollowedDirectory<'s> {
    /// Store with the whole texts; `None` if the directory is not a home.
    store: Option<&'s Store>,
    directory: String,
    limits: Limits,
}

/// Prints the items and notices of a stream.
struct StreamPrinter<'s> {
    stream: &'s Stream,
    place: &'s FollowedDirectory<'s>,
    conversation: ConversationOutput,
    damaged: u64,
    is_lost: bool,
}

impl StreamPrinter<'_> {
    fn piece(&mut self, out: &mut Out, streamed: Streamed<'_>) -> Result<(), Failure> {
        match streamed {
            Streamed::Event { source, event } => {
                let log = self.place.store.zip(source.session.as_ref()).map(|(store, session)| store.log(session));
                let full = |reference: &str| match &log {
                    Some(log) => log.full(reference),
                    None => Ok(log::Full::Elsewhere),
                };
                self.conversation.print_with_source(out, source, event, self.stream.depth.full.then_some(&full))
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
                format!("{name}: reset: lines that were shown no longer exist ({why}); continuing from {to}")
            }
            Notice::Lost(loss) => {
                self.is_lost = true;
                format!("{name}: the log is incomplete: {loss}")
            }
            Notice::LostEarlier(loss) => format!("{name}: the log does not contain all appended lines: {loss}"),
            Notice::Gone => format!("{name}: the log no longer exists"),
            Notice::Skipped { reason } => format!("{name}: not shown: {reason}"),
            Notice::Missing => return self.missing(out),
        };
        // Text output reports the first damaged places and a total at the end; JSON output reports each.
        let is_printed = !matches!(notice, Notice::Damaged { .. }) || self.damaged <= DAMAGE_SHOWN_MAX;
        let shape = wire::Sourced { source: source.into(), entry };
        out.notice(&shape, is_printed.then_some(&*text))
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
                hint: Some("check the path, or remove --no-wait and --no-follow to wait for it".to_owned()),
            });
        }
        let entry = wire::StreamNotice::from(&Notice::Missing);
        let shape = wire::Sourced { source: wire::Source::default(), entry };
        out.notice(&shape, Some(&format!("there is no directory {place} yet; waiting for it (press Ctrl-C to stop)")))
    }

    fn finish(self, out: &mut Out, ended: Ended) -> CommandResult {
        out.flush()?;
        if self.damaged > 0 {
            out.alert(format_args!("{} skipped", figures::things(self.damaged, "damaged place")));
        }
        if self.conversation.lost > 0 {
            let texts = figures::things(self.conversation.lost, "whole text");
            out.alert(format_args!("{texts} missing or damaged"));
            return Ok(Ended::Damaged);
        }
        Ok(if self.is_lost { Ended::Damaged } else { ended })
    }
}
