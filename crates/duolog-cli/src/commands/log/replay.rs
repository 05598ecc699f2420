//! `duolog log replay`.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use duolog::limits::Limits;
use duolog::log::{self, Dialect, Entry, Foreign, ReadFrom, ReplayDetail, Replayable};

use super::conversation::{ConversationPrinter, DetailArgs, Find};
use super::{Context, Printer, cursor_of};
use crate::args::{self, Start, Which};
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog log replay demo
  duolog log replay demo --verbose --last 1
  duolog log replay demo --from 1234 --json | jq -r 'select(.kind == \"user\").text'
  duolog log replay --file ~/.claude/projects/-srv-app/0a1b.jsonl

Exit code: 4 if the log lacks recorded bytes; the remaining lines are shown.
  After log repair has recorded the loss: 0, with a warning

JSON: one object per item,
  {\"kind\": \"user\", \"assistant\", \"thinking\", \"tool_call\", \"tool_result\", \"result\", \"error\" or \"note\",
   \"position\", \"part\", \"turn_position\": position of its first line, \"boundary\": \"opens\" or \"closes\",
   \"occurred_at\", \"role\", \"author\", \"model\", \"tool\", \"call_id\", \"subtype\", \"text\",
   \"full_text_ref\": \"blob:<sha256>\", \"full_text_status\": with --full \"found\", \"missing\", \"damaged\",
   \"too_large\" or \"foreign\", \"round\", \"is_sidechain\", \"is_error\",
   \"result\": {\"turns\", \"cost_usd\", \"duration_ms\", \"input_tokens\", \"cache_creation_input_tokens\",
   \"cache_read_input_tokens\", \"output_tokens\"}}
  and one after each turn,
  {\"kind\": \"turn_end\", \"turn_position\", \"end_position\", \"is_ended\", \"is_cut\", \"is_last\",
   \"item_count\", \"tool_call_count\", \"hidden_item_count\",
   \"progress_item_count\"}";

/// Show a log as a conversation
///
/// Shows the prompt, the last answer, the errors and the result of each turn; --verbose shows every step. Tool calls
/// are shown in readable form: a command, a file name, an edit as a diff. A turn without an end is marked. Progress
/// lines are counted but not shown.
///
/// --file reads a file of another program: Claude Code sessions and stream-json, Codex rollouts and exec --json, Last
/// Light, Skillet, AgentryLab. The file is not changed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Replay {
    #[command(flatten)]
    which: Which,
    /// File to read instead of a session; it is not changed
    #[arg(long, value_name = "PATH", conflicts_with_all = ["reference", "session", "user_email", "session_name"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    depth: DetailArgs,
    /// Number of turns from the end of the log
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Start cursor (0:1234) or position (1234)
    #[arg(long, value_name = "CURSOR", value_parser = args::start, conflicts_with = "last")]
    from: Option<Start>,
    /// Dialect of the lines [default: detected]
    #[arg(long, value_parser = args::dialect())]
    dialect: Option<Dialect>,
}

impl Replay {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if let Some(path) = &self.file {
            // A file is read without a home and its configuration.
            let file = Foreign::open(path, &Limits::default())?;
            let from = match self.from {
                Some(Start::Position(position)) => Some(position),
                Some(Start::Cursor(cursor)) => Some(cursor.position),
                None => None,
            };
            return self.show(context, &file, from.map(ReadFrom::Position), None);
        }
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let log = store.log(&session.id);
        let from = match self.from {
            Some(start) => Some(ReadFrom::Position(cursor_of(context.out, &store, &session, start)?.position)),
            None => None,
        };
        self.show(context, &log, from, Some(&|reference| log.full(reference)))
    }

    fn show(
        &self,
        context: &mut Context<'_>,
        log: &dyn Replayable,
        from: Option<ReadFrom>,
        find: Option<Find<'_>>,
    ) -> CommandResult {
        let dialect = match self.dialect {
            Some(dialect) => Some(dialect),
            None => log.dialect()?,
        };
        let from = match (from, self.last) {
            (Some(from), _) => from,
            (None, Some(count)) => log.start_of_turns(count, dialect.unwrap_or(Dialect::Envelope))?,
            (None, None) => ReadFrom::Start,
        };
        draw(context, log, dialect, from, &self.depth, find)
    }
}

/// Draws the whole conversation of a log, without the single steps.
pub(in super::super) fn redraw(context: &mut Context<'_>, log: &dyn Replayable) -> CommandResult {
    let depth = DetailArgs { verbose: false, full: false };
    draw(context, log, log.dialect()?, ReadFrom::Start, &depth, None)
}

fn draw(
    context: &mut Context<'_>,
    log: &dyn Replayable,
    dialect: Option<Dialect>,
    from: ReadFrom,
    depth: &DetailArgs,
    find: Option<Find<'_>>,
) -> CommandResult {
    let replay = log::Replay::new(dialect, depth.view(ReplayDetail::Conversation));
    let replay = if from == ReadFrom::Start { replay } else { replay.from_within() };
    let mut conversation = ConversationPrinter::new(replay, depth.detail());
    if let Some(find) = find.filter(|_| depth.full) {
        conversation = conversation.finding(find);
    }
    let mut printer = Printer::conversation(context.out, conversation);
    let mut result = Ok(());
    log.entries(from, &mut |entry: Entry<'_>| {
        result = printer.print(entry);
        if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    result?;
    let (is_empty, is_lost) = (printer.lines == 0, printer.is_lost);
    let lost = printer.finish()?;
    if is_empty {
        context.out.note("the log has no lines");
    }
    if lost > 0 {
        let texts = figures::things(lost, "whole text");
        context.out.alert(format_args!("{texts} missing or damaged"));
        return Ok(Ended::Damaged);
    }
    Ok(Printer::ended(is_lost))
}
