//! Prints a log as a conversation, as text or JSON, live and in replay.

use clap::Args;
use duolog::log::{Full, Replay, ReplayDetail, ReplayEvent, Source};
use duolog::{Error, Line};
use duolog_wire as wire;

use crate::failure::Failure;
use crate::out::{Detail, Out, Shown, Timeline};

/// Level of detail.
#[derive(Args)]
pub struct Depth {
    /// Show every step: thinking, tools, notes
    #[arg(long, short)]
    pub verbose: bool,
    /// Show texts in full, and fetch texts that are shortened in their line
    #[arg(long)]
    pub full: bool,
}

impl Depth {
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
pub struct Teller<'f> {
    replay: Replay,
    find: Option<Find<'f>>,
    voice: Voice,
}

/// Output state of a conversation.
pub struct Voice {
    timeline: Timeline,
    /// Number of whole texts that a line refers to and that are missing or damaged.
    pub lost: u64,
    /// Source of the last printed item, if several logs are printed.
    speaker: Option<Source>,
}

impl<'f> Teller<'f> {
    pub fn new(replay: Replay, detail: Detail) -> Self {
        Self { replay, find: None, voice: Voice::new(detail) }
    }

    /// Fetches shortened texts with `find`.
    #[must_use]
    pub fn finding(mut self, find: Find<'f>) -> Self {
        self.find = Some(find);
        self
    }

    /// Prints the items of a line.
    pub fn line(&mut self, out: &mut Out, line: &Line<'_>) -> Result<(), Failure> {
        let Self { replay, find, voice } = self;
        replay.line(line, &mut |told| voice.tell(out, told, *find))
    }

    /// Prints the items that are left at the end. Returns the number of whole texts that are missing or damaged.
    pub fn finish(&mut self, out: &mut Out) -> Result<u64, Failure> {
        let Self { replay, find, voice } = self;
        replay.finish(&mut |told| voice.tell(out, told, *find))?;
        Ok(voice.lost)
    }
}

impl Voice {
    pub const fn new(detail: Detail) -> Self {
        Self { timeline: Timeline::new(detail), lost: 0, speaker: None }
    }

    /// Prints an event of a single log.
    fn tell(&mut self, out: &mut Out, told: ReplayEvent<'_>, find: Option<Find<'_>>) -> Result<(), Failure> {
        self.tell_as(out, told, find, None)
    }

    /// Prints an event of one of several logs, with a heading when the source changes.
    pub fn tell_of(
        &mut self,
        out: &mut Out,
        source: &Source,
        told: ReplayEvent<'_>,
        find: Option<Find<'_>>,
    ) -> Result<(), Failure> {
        if self.speaker.as_ref() != Some(source) {
            self.speaker = Some(source.clone());
            out.part_of(|text| self.timeline.source(text, &label(source)))?;
        }
        self.tell_as(out, told, find, Some(wire::Source::from(source)))
    }

    fn tell_as(
        &mut self,
        out: &mut Out,
        told: ReplayEvent<'_>,
        find: Option<Find<'_>>,
        source: Option<wire::Source>,
    ) -> Result<(), Failure> {
        match told {
            ReplayEvent::Item { item, turn, ending, repeats } => {
                let full = match (&item.full, find) {
                    (Some(reference), Some(find)) => Some(find(reference)?),
                    _ => None,
                };
                self.lost += u64::from(matches!(full, Some(Full::Missing | Full::Damaged)));
                let entry = wire::TimelineItem::of(item, turn, ending.as_ref(), full.as_ref());
                let shown = Shown { item, turn, ending, repeats, full: full.as_ref() };
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
