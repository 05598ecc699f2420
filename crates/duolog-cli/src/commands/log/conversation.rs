//! Prints a log as a conversation, as text or JSON, live and in replay.

use clap::Args;
use duolog::log::{Full, Replay, ReplayDetail, ReplayEvent, Source};
use duolog::{Error, Line};
use duolog_wire as wire;

use crate::failure::Failure;
use crate::out::{Detail, ItemContext, Out, Timeline};

/// Level of detail.
#[derive(Args)]
pub struct DetailArgs {
    /// Show every step: thinking, tools, notes
    #[arg(long, short)]
    pub verbose: bool,
    /// Show texts in full, and fetch texts that are shortened in their line
    #[arg(long)]
    pub full: bool,
}

impl DetailArgs {
    /// Returns every step if --verbose is given, and `otherwise` if not.
    pub fn view(&self, otherwise: ReplayDetail) -> ReplayDetail {
        if self.verbose { ReplayDetail::All } else { otherwise }
    }

    /// Returns the level of detail for each item.
    pub const fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Folded }
    }
}

/// Finds the whole text by the reference in the line that shortens it.
pub type Find<'f> = &'f dyn Fn(&str) -> Result<Full, Error>;

/// Prints lines as a conversation.
pub struct ConversationPrinter<'f> {
    replay: Replay,
    find: Option<Find<'f>>,
    output: ConversationOutput,
}

/// Output state of a conversation.
pub struct ConversationOutput {
    timeline: Timeline,
    /// Number of whole texts that a line refers to and that are missing or damaged.
    pub lost: u64,
    /// Source of the last printed item, if several logs are printed.
    last_source: Option<Source>,
}

impl<'f> ConversationPrinter<'f> {
    pub fn new(replay: Replay, detail: Detail) -> Self {
        Self { replay, find: None, output: ConversationOutput::new(detail) }
    }

    /// Fetches shortened texts with `find`.
    #[must_use]
    pub fn finding(mut self, find: Find<'f>) -> Self {
        self.find = Some(find);
        self
    }

    /// Prints the items of a line.
    pub fn line(&mut self, out: &mut Out, line: &Line<'_>) -> Result<(), Failure> {
        let Self { replay, find, output } = self;
        replay.line(line, &mut |event| output.print(out, event, *find))
    }

    /// Prints the items that are left at the end. Returns the number of whole texts that are missing or damaged.
    pub fn finish(&mut self, out: &mut Out) -> Result<u64, Failure> {
        let Self { replay, find, output } = self;
        replay.finish(&mut |event| output.print(out, event, *find))?;
        Ok(output.lost)
    }
}

impl ConversationOutput {
    pub const fn new(detail: Detail) -> Self {
        Self { timeline: Timeline::new(detail), lost: 0, last_source: None }
    }

    /// Prints an event of a single log.
    fn print(&mut self, out: &mut Out, event: ReplayEvent<'_>, find: Option<Find<'_>>) -> Result<(), Failure> {
        self.print_event(out, event, find, None)
    }

    /// Prints an event of one of several logs, with a heading when the source changes.
    pub fn print_with_source(
        &mut self,
        out: &mut Out,
        source: &Source,
        event: ReplayEvent<'_>,
        find: Option<Find<'_>>,
    ) -> Result<(), Failure> {
        if self.last_source.as_ref() != Some(source) {
            self.last_source = Some(source.clone());
            out.part_of(|text| self.timeline.source(text, &label(source)))?;
        }
        self.print_event(out, event, find, Some(wire::Source::from(source)))
    }

    fn print_event(
        &mut self,
        out: &mut Out,
        event: ReplayEvent<'_>,
        find: Option<Find<'_>>,
        source: Option<wire::Source>,
    ) -> Result<(), Failure> {
        match event {
            ReplayEvent::Item { item, turn, ending, repeats } => {
                let full = match (&item.full, find) {
                    (Some(reference), Some(find)) => Some(find(reference)?),
                    _ => None,
                };
                self.lost += u64::from(matches!(full, Some(Full::Missing | Full::Damaged)));
                let entry = wire::TimelineItem::of(item, turn, ending.as_ref(), full.as_ref());
                let shown = ItemContext { item, turn, ending, repeats, full: full.as_ref() };
                match source {
                    Some(source) => {
                        out.piece(&wire::Sourced { source, entry }, |text| self.timeline.item(text, &shown))
                    }
                    None => out.piece(&entry, |text| self.timeline.item(text, &shown)),
                }
            }
            ReplayEvent::TurnEnd(end) => {
                let entry = wire::TurnEnd::from(&end);
                match source {
                    Some(source) => {
                        out.piece(&wire::Sourced { source, entry }, |text| self.timeline.turn_end(text, &end))
                    }
                    None => out.piece(&entry, |text| self.timeline.turn_end(text, &end)),
                }
            }
        }
    }
}

/// Returns the label of a log: the name or id of its session, or its path.
pub fn label(source: &Source) -> String {
    match (&source.session, &source.name, &source.user_id) {
        (Some(_), Some(name), Some(user)) => format!("{name} · {user}"),
        (Some(_), Some(name), None) => name.clone(),
        (Some(id), None, _) => id.to_string(),
        (None, ..) => source.path.display().to_string(),
    }
}
