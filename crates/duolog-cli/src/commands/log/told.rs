//! What is told of a log as a conversation: for people and for programs, live and in replay.

use clap::Args;
use duolog::log::{Full, Replay, ReplayDetail, ReplayEvent, Source};
use duolog::{Error, Line};
use duolog_wire as wire;

use crate::failure::Failure;
use crate::out::{Detail, Out, Shown, Timeline};

/// How much is told.
#[derive(Args)]
pub struct Depth {
    /// Every step: thinking, tools, notes
    #[arg(long, short)]
    pub verbose: bool,
    /// Nothing is folded, and what was shortened in its line is fetched whole
    #[arg(long)]
    pub full: bool,
}

impl Depth {
    /// Every step, or what `otherwise` says.
    pub fn view(&self, otherwise: ReplayDetail) -> ReplayDetail {
        if self.verbose { ReplayDetail::Every } else { otherwise }
    }

    /// How much of each item is shown.
    pub const fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Folded }
    }
}

/// Finds the whole of a shortened text by what its line calls it.
pub type Find<'f> = &'f dyn Fn(&str) -> Result<Full, Error>;

/// Tells lines as a conversation.
pub struct Teller<'f> {
    replay: Replay,
    find: Option<Find<'f>>,
    voice: Voice,
}

/// How it is told.
pub struct Voice {
    timeline: Timeline,
    /// Whole texts that a line names and that are not as they were put.
    pub lost: u64,
    /// Whose log was told last, where there are several.
    speaker: Option<Source>,
}

impl<'f> Teller<'f> {
    pub fn new(replay: Replay, detail: Detail) -> Self {
        Self { replay, find: None, voice: Voice::new(detail) }
    }

    /// Shows what was shortened whole.
    #[must_use]
    pub fn finding(mut self, find: Find<'f>) -> Self {
        self.find = Some(find);
        self
    }

    /// Tells what a line adds.
    pub fn line(&mut self, out: &mut Out, line: &Line<'_>) -> Result<(), Failure> {
        let Self { replay, find, voice } = self;
        replay.line(line, &mut |told| voice.tell(out, told, *find))
    }

    /// Tells what is left at the end. Says how many whole texts are missing or damaged.
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

    /// Tells a piece of the only log there is.
    fn tell(&mut self, out: &mut Out, told: ReplayEvent<'_>, find: Option<Find<'_>>) -> Result<(), Failure> {
        self.tell_as(out, told, find, None)
    }

    /// Tells a piece of one log among several.
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

/// What people call a log: by its session, or by where it is.
pub fn label(source: &Source) -> String {
    match (&source.session, &source.name, &source.user_id) {
        (Some(_), Some(name), Some(user)) => format!("{name} · {user}"),
        (Some(_), Some(name), None) => name.clone(),
        (Some(id), None, _) => id.to_string(),
        (None, ..) => source.path.display().to_string(),
    }
}
