//! The text rendering of a conversation, live and in replay, for every dialect.

use duolog::Timestamp;
use duolog::log::{Boundary, Call, CallLine, Ending, Full, ItemKind, TimelineItem, TurnAt, TurnEnd, call, readable};

use super::prose::{columns, one_line, one_line_end, wrapped};
use super::{Text, Tone};
use crate::figures;

/// The maximum number of lines of a tool result and of an error.
const ANSWER_LINES: usize = 4;
const ERROR_LINES: usize = 12;
/// The maximum number of lines of an edit.
const DIFF_LINES: usize = 12;
/// The maximum width of text: longer lines are hard to read.
const WIDTH_MAX: usize = 100;
/// The maximum length of a reference to a full text, in characters.
const REFERENCE_CHARS: usize = 80;
/// The start of the line that names the source log.
const SOURCE_RULE: &str = "━━";
/// The indentation of text below its speaker.
const INDENT: &str = "  ";
/// The prefix of the subtypes of lines that Duolog writes.
const OWN: &str = "duolog.";

/// The detail of each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first lines of long text.
    Folded,
    /// The full text.
    Full,
}

/// An item and its context.
pub struct ItemContext<'a> {
    /// The item.
    pub item: &'a TimelineItem,
    /// Its turn.
    pub turn: Option<TurnAt>,
    /// The usage of its turn, if the item reports it.
    pub ending: Option<Ending>,
    /// True if its text repeats the previous item.
    pub repeats: bool,
    /// The lookup of its full text, if there was one.
    pub full: Option<&'a Full>,
}

/// Draws items in order.
pub struct Timeline {
    detail: Detail,
    /// The turn of the current item.
    turn: Option<TurnAt>,
    is_first: bool,
}

impl Timeline {
    /// Creates an empty timeline.
    pub const fn new(detail: Detail) -> Self {
        Self { detail, turn: None, is_first: true }
    }

    /// Draws the name of the log that the next items are from.
    pub fn source(&mut self, text: &mut Text, label: &str) {
        if !self.is_first {
            text.line("");
        }
        self.is_first = true;
        // The end of a path is more useful than its beginning.
        let label = one_line_end(label, text.room().saturating_sub(columns(SOURCE_RULE) + 4));
        let title = format!("{SOURCE_RULE} {label} ");
        let rest = text.width.map_or(2, |_| text.room().saturating_sub(columns(&title)));
        text.line(text.tone(Tone::Strong, &format!("{title}{}", "━".repeat(rest))));
    }

    /// Draws one item.
    pub fn item(&mut self, text: &mut Text, shown: &ItemContext<'_>) {
        let item = shown.item;
        self.turn = shown.turn;
        if item.boundary == Boundary::Opens {
            self.rule(text, item);
        }
        if item.kind == ItemKind::Assistant && !self.is_first {
            text.line("");
        }
        self.is_first = false;
        match item.kind {
            ItemKind::User => self.message(text, item, Tone::Worth, None),
            ItemKind::Assistant => self.message(text, item, Tone::Good, None),
            ItemKind::Thinking => self.message(text, item, Tone::Faint, Some(Tone::Faint)),
            ItemKind::ToolCall => self.call(text, item),
            ItemKind::ToolResult => self.answer(text, shown),
            ItemKind::Result => self.result(text, shown),
            ItemKind::Error => self.error(text, item),
            ItemKind::Note => self.note(text, item),
        }
    }

    /// Draws the end of a turn, if items are hidden or the turn is incomplete.
    pub fn turn_end(&mut self, text: &mut Text, end: &TurnEnd) {
        let before = text.lines.len();
        let mut facts = Vec::new();
        if end.turn.tool_calls > 0 {
            facts.push(figures::things(end.turn.tool_calls, "tool call"));
        }
        if end.left_out > end.progress {
            facts.push(format!("{} not shown (--verbose)", figures::things(end.left_out - end.progress, "step")));
        }
        if end.progress > 0 {
            facts.push(format!("{} not shown", figures::things(end.progress, "progress line")));
        }
        if !facts.is_empty() && end.left_out > 0 {
            text.line(text.tone(Tone::Faint, &facts.join(" · ")));
        }
        if end.is_cut {
            let why =
                if end.is_last { "the turn has not ended yet" } else { "the next turn began before this one ended" };
            text.line(format_args!("{}: {why}", text.tone(Tone::Worth, "incomplete")));
        }
        self.is_first &= text.lines.len() == before;
    }

    /// Draws the line between turns: number, time and position in the log.
    fn rule(&self, text: &mut Text, item: &TimelineItem) {
        let number = self.turn.and_then(|turn| turn.number);
        let mut title = number.map_or_else(|| "turn".to_owned(), |number| format!("turn {}", figures::count(number)));
        if let Some(at) = item.at {
            title = format!("{title} · {}", instant(at));
        }
        title = one_line(&format!("── {title} · at {}", item.position), text.room());
        // Without a terminal a long rule is only noise.
        let rest = text.width.map_or(2, |_| text.room().saturating_sub(columns(&title) + 1));
        if !self.is_first {
            text.line("");
        }
        let title = format!("{title} {}", "─".repeat(rest));
        text.line(text.tone(Tone::Faint, title.trim_end()));
    }

    /// Draws the speaker and the time.
    fn head(&self, text: &mut Text, label: &str, tone: Tone, item: &TimelineItem) {
        let mut line = text.tone(tone, label);
        let mut room = text.room().saturating_sub(columns(label));
        let facts = [self.offset(item), item.model.clone().filter(|_| item.kind == ItemKind::Assistant), mark(item)];
        for fact in facts.into_iter().flatten() {
            let fact = one_line(&fact, room.saturating_sub(1));
            if fact != "…" {
                room -= columns(&fact) + 1;
                line = format!("{line} {}", text.tone(Tone::Faint, &fact));
            }
        }
        text.line(line);
    }

    fn message(&self, text: &mut Text, item: &TimelineItem, tone: Tone, body: Option<Tone>) {
        self.head(text, &speaker(item), tone, item);
        let words = if item.text.is_empty() { item.what.as_deref().unwrap_or_default() } else { &item.text };
        text.prose(words, body, usize::MAX);
    }

    fn call(&self, text: &mut Text, item: &TimelineItem) {
        if self.detail == Detail::Full {
            self.head(text, &named("call", item), Tone::Strong, item);
            text.prose(&item.text, None, usize::MAX);
            return;
        }
        let facts = [self.offset(item), mark(item)].into_iter().flatten().map(|fact| format!("  {fact}"));
        let facts: String = facts.collect();
        let call = call(item).unwrap_or_else(|| Call { title: named("call", item), body: Vec::new() });
        let room = text.room().saturating_sub(columns(&facts));
        let title = one_line(&call.title, room);
        text.line(format_args!("{}{}", text.tone(Tone::Strong, &title), text.tone(Tone::Faint, &facts)));
        let room = text.room().saturating_sub(INDENT.len() + 2);
        for line in call.body.iter().take(DIFF_LINES) {
            let (sign, tone, words) = match line {
                CallLine::Plain(words) => (" ", Tone::Faint, words),
                CallLine::Removed(words) => ("-", Tone::Bad, words),
                CallLine::Added(words) => ("+", Tone::Good, words),
            };
            let mut pieces = wrapped(words, Some(room.saturating_sub(1)));
            let (first, is_cut) = (pieces.next().unwrap_or_default(), pieces.next().is_some());
            let first = if is_cut { format!("{sign} {first}…") } else { format!("{sign} {first}") };
            text.line(format_args!("{INDENT}{}", text.tone(tone, first.trim_end())));
        }
        let more = call.body.len().saturating_sub(DIFF_LINES);
        if more > 0 {
            let note = format!("… {} more line{}", figures::count(more as u64), if more == 1 { "" } else { "s" });
            text.line(format_args!("{INDENT}{}", text.tone(Tone::Faint, &note)));
        }
    }

    fn answer(&self, text: &mut Text, shown: &ItemContext<'_>) {
        let item = shown.item;
        let label = named("answer", item);
        self.head(text, &label, if item.failed { Tone::Bad } else { Tone::Strong }, item);
        let most = if self.detail == Detail::Full { usize::MAX } else { ANSWER_LINES };
        match shown.full {
            Some(Full::Found(whole)) => text.prose(whole, None, most),
            // Newlines in JSON strings are shown as line breaks.
            _ => text.prose(&readable(item), None, most),
        }
        if let Some(reference) = &item.full {
            // Never wrapped, so that it can be copied.
            let reference = one_line(reference, REFERENCE_CHARS);
            let state = match shown.full {
                Some(Full::Found(_)) => "full text from:",
                Some(Full::Missing) => "shortened; the full text is missing:",
                Some(Full::Damaged) => "shortened; the full text is damaged:",
                Some(Full::TooLarge(_)) => "shortened; the full text is too large to show:",
                Some(Full::Elsewhere) | None => "shortened; full text:",
            };
            let tone = if matches!(shown.full, Some(Full::Missing | Full::Damaged)) { Tone::Bad } else { Tone::Faint };
            text.prose(state, Some(tone), usize::MAX);
            text.line(format_args!("{INDENT}{}", text.tone(tone, &reference)));
        }
    }

    fn result(&self, text: &mut Text, shown: &ItemContext<'_>) {
        let item = shown.item;
        let what = one_line(item.what.as_deref().unwrap_or_default(), text.room());
        // The common names of results are not shown.
        let what =
            if matches!(what.as_str(), "" | "result" | "final_result") { String::new() } else { format!(" {what}") };
        let (word, tone) = if item.failed { ("result failed", Tone::Bad) } else { ("result", Tone::Good) };
        let mut facts: Vec<String> = self.offset(item).into_iter().collect();
        facts.extend(shown.ending.as_ref().map(figures_of).unwrap_or_default());
        let (label, facts) = (format!("{word}{what}"), facts.join(" · "));
        if columns(&label) + 1 + columns(&facts) > text.room() {
            text.line(text.tone(tone, &label));
            text.prose(&facts, Some(Tone::Faint), usize::MAX);
        } else {
            let line = format!("{} {}", text.tone(tone, &label), text.tone(Tone::Faint, &facts));
            text.line(if facts.is_empty() { text.tone(tone, &label) } else { line });
        }
        if !shown.repeats && !item.text.trim().is_empty() {
            text.prose(&item.text, None, usize::MAX);
        }
    }

    fn error(&self, text: &mut Text, item: &TimelineItem) {
        let author = item.author.as_ref().map(|author| format!(" {}", one_line(author, 40))).unwrap_or_default();
        self.head(text, &format!("error{author}"), Tone::Bad, item);
        text.prose(&item.text, None, if self.detail == Detail::Full { usize::MAX } else { ERROR_LINES });
    }

    fn note(&self, text: &mut Text, item: &TimelineItem) {
        let failed = if item.failed { " failed" } else { "" };
        let what = one_line(item.what.as_deref().or(item.role.as_deref()).unwrap_or_default(), 40);
        // The lines of Duolog are sentences; their subtype is not shown.
        let label = if what.starts_with(OWN) { "·".to_owned() } else { format!("note{failed} {what}") };
        if self.detail == Detail::Full {
            self.head(text, &label, Tone::Faint, item);
            text.prose(&item.text, Some(Tone::Faint), usize::MAX);
            return;
        }
        let shortened = one_line(&item.text, text.room().saturating_sub(columns(&label) + 1));
        text.line(text.tone(Tone::Faint, format!("{label} {shortened}").trim_end()));
    }

    /// Returns the time since the start of the turn, or the timestamp if the start is unknown.
    fn offset(&self, item: &TimelineItem) -> Option<String> {
        let at = item.at?;
        if item.boundary == Boundary::Opens {
            return None;
        }
        let Some(started_at) = self.turn.and_then(|turn| turn.started_at) else { return Some(instant(at)) };
        let millis = u64::try_from((at.as_micros() - started_at.as_micros()) / 1000).ok()?;
        Some(format!("+{}", figures::duration(millis)))
    }
}

impl Text {
    /// Returns the maximum width of text.
    fn room(&self) -> usize {
        usize::from(self.width.unwrap_or(u16::MAX)).min(WIDTH_MAX)
    }

    /// Adds untrusted text, indented and wrapped: the first `most` lines and the number of hidden lines.
    fn prose(&mut self, words: &str, tone: Option<Tone>, most: usize) {
        // Without a terminal, wrap only if the number of lines is limited.
        let width = (self.width.is_some() || most < usize::MAX).then(|| self.room().saturating_sub(INDENT.len()));
        let mut lines = wrapped(words, width);
        for line in lines.by_ref().take(most) {
            if line.is_empty() {
                self.line("");
            } else {
                self.line(format_args!("{INDENT}{}", tone.map_or_else(|| line.clone(), |tone| self.tone(tone, &line))));
            }
        }
        let more = lines.count();
        if more > 0 {
            let note = format!("… {} more line{}", figures::count(more as u64), if more == 1 { "" } else { "s" });
            self.line(format_args!("{INDENT}{}", self.tone(Tone::Faint, &note)));
        }
    }
}

/// Returns the speaker: the role or kind of the item, and the agent.
fn speaker(item: &TimelineItem) -> String {
    let role = one_line(item.role.as_deref().unwrap_or(item.kind.word()), 40);
    match item.author.as_deref() {
        Some(author) if author != role => format!("{role} {}", one_line(author, 40)),
        _ => role,
    }
}

fn named(word: &str, item: &TimelineItem) -> String {
    let failed = if item.failed { " failed" } else { "" };
    let tool = item.tool.as_deref().or(item.call_id.as_deref()).unwrap_or_default();
    format!("{word}{failed} {}", one_line(tool, 60)).trim_end().to_owned()
}

fn mark(item: &TimelineItem) -> Option<String> {
    let round = item.round.map(|round| format!("round {round}"));
    let side = item.sidechain.then(|| "side conversation".to_owned());
    match (round, side) {
        (Some(round), Some(side)) => Some(format!("{round} {side}")),
        (round, side) => round.or(side),
    }
}

fn figures_of(ending: &Ending) -> Vec<String> {
    let tokens = &ending.tokens;
    let mut facts: Vec<String> = ending.responses.map(|turns| figures::things(turns, "turn")).into_iter().collect();
    facts.extend(ending.cost.map(|cost| format!("${cost}")));
    if tokens.total() > 0 {
        let (context, output) = (figures::count(tokens.context()), figures::count(tokens.output));
        facts.push(format!("{context} tokens in, {output} out"));
    }
    facts.extend(ending.duration_ms.map(|millis| format!("took {}", figures::duration(millis))));
    facts
}

/// Formats a timestamp to the second.
fn instant(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(..19).map_or_else(|| text.clone(), |seconds| format!("{seconds}Z"))
}
