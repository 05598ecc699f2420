//! Tables that fit the terminal. If a table is too wide, ids shrink to a unique prefix, text is shortened, and columns are
//! dropped in a given order. If that is not enough, each row is shown as a block. Ids always stay unique.
//!
//! Headers are the names of the JSON fields in capitals; `--columns` takes the same names.

use std::collections::BTreeSet;

use super::prose::{columns, one_line, plain};
use super::{Text, Tone};
use crate::failure::Failure;

/// The gap between two cells, in columns.
const GAP: usize = 2;
/// The minimum length of an id prefix: the timestamp of a UUIDv7.
const ID_CHARS_MIN: usize = 13;
/// The minimum width of shortened text.
const TEXT_COLUMNS_MIN: usize = 12;

/// The kind of a column, which decides how it shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Ids; they shrink to a unique prefix.
    Id,
    /// Text; it may be cut.
    Text,
    /// Words and names; they are never cut.
    Word,
    /// Numbers; never cut, aligned to the right.
    Figure,
}

/// The table layout from the command line.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Show all columns in full.
    pub is_wide: bool,
    /// Show only these columns, in this order.
    pub columns: Option<Vec<String>>,
}

/// A table.
pub struct Table {
    columns: Vec<(Column, &'static str)>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
    /// The columns that may be dropped, in order.
    drops: Vec<&'static str>,
    /// The columns that are hidden if no row has a value.
    optional: BTreeSet<&'static str>,
}

/// The visible columns of a table and their widths.
struct Fit {
    shown: Vec<usize>,
    widths: Vec<usize>,
    dropped: Vec<&'static str>,
    is_stacked: bool,
}

impl Table {
    /// Creates an empty table with these columns.
    pub fn new(columns: &[(Column, &'static str)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), drops: Vec::new(), optional: BTreeSet::new() }
    }

    /// Sets the columns that are dropped if the table is too wide, in order.
    #[must_use]
    pub fn dropping(mut self, titles: &[&'static str]) -> Self {
        self.drops = titles.to_vec();
        self
    }

    /// Adds a row. Control characters in its text are replaced.
    pub fn row(&mut self, cells: Vec<String>) {
        let cell = |cell: String| (plain(&cell).replace('\n', " "), None);
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// Sets the tone of a cell of the last row.
    pub fn tone(&mut self, column: usize, tone: Tone) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.1 = Some(tone);
        }
    }

    /// Hides a column if no row has a value, unless `--columns` names it.
    #[must_use]
    pub fn without_empty(mut self, title: &'static str) -> Self {
        self.optional.insert(title);
        self
    }

    /// Draws the table. An unknown column in `--columns` sets the failure of the text.
    pub(super) fn draw(&self, text: &mut Text) {
        let fit = match self.fit(text.width.map(usize::from), &text.layout) {
            Ok(fit) => fit,
            Err(failure) => {
                text.failure = Some(failure);
                return;
            }
        };
        if fit.is_stacked {
            self.draw_stacked(text, &fit);
        } else {
            self.draw_rows(text, &fit);
        }
        text.dropped.extend(fit.dropped.iter().map(|title| title.to_ascii_lowercase()));
    }

    fn draw_rows(&self, text: &mut Text, fit: &Fit) {
        let header = fit.shown.iter().map(|at| (self.columns[*at].1, Some(Tone::Strong)));
        self.draw_row(text, fit, header);
        for row in &self.rows {
            let cells = fit.shown.iter().map(|at| row.get(*at).map_or(("", None), |(cell, tone)| (&**cell, *tone)));
            self.draw_row(text, fit, cells);
        }
    }

    fn draw_row<'c>(&self, text: &mut Text, fit: &Fit, cells: impl Iterator<Item = (&'c str, Option<Tone>)>) {
        let mut line = String::new();
        let last = fit.shown.len().saturating_sub(1);
        for (place, (cell, tone)) in cells.enumerate() {
            let (kind, _) = self.columns[fit.shown[place]];
            let width = fit.widths[place];
            let cell = match kind {
                Column::Id => cell.chars().take(width).collect(),
                _ if columns(cell) > width => one_line(cell, width),
                _ => cell.to_owned(),
            };
            let room = " ".repeat(width.saturating_sub(columns(&cell)));
            let cell = tone.map_or_else(|| cell.clone(), |tone| text.tone(tone, &cell));
            let gap = if place == last { "" } else { &"  "[..GAP] };
            match kind {
                Column::Figure => line.extend([room.as_str(), &cell, gap]),
                _ if place == last => line.push_str(&cell),
                _ => line.extend([cell.as_str(), &room, gap]),
            }
        }
        text.line(line.trim_end());
    }

    /// Draws each row as a block: one line per column, nothing cut.
    fn draw_stacked(&self, text: &mut Text, fit: &Fit) {
        let label = fit.shown.iter().map(|at| columns(self.columns[*at].1)).max().unwrap_or_default();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                text.line("");
            }
            for at in &fit.shown {
                let Some((cell, tone)) = row.get(*at).filter(|(cell, _)| !cell.is_empty()) else { continue };
                let title = text.tone(Tone::Faint, &format!("{:<label$}", self.columns[*at].1));
                let cell = tone.map_or_else(|| cell.clone(), |tone| text.tone(tone, cell));
                text.line(format_args!("{title}  {cell}"));
            }
        }
    }

    fn fit(&self, width: Option<usize>, layout: &Layout) -> Result<Fit, Failure> {
        let mut shown = self.chosen(layout)?;
        let natural = |at: &usize| self.natural(*at);
        let Some(width) = width.filter(|_| !layout.is_wide) else {
            let widths = shown.iter().map(natural).collect();
            return Ok(Fit { shown, widths, dropped: Vec::new(), is_stacked: false });
        };
        let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut dropped = Vec::new();
        // Columns named in `--columns` are never dropped.
        let mut drops = self.drops.iter().filter(|_| layout.columns.is_none());
        loop {
            let whole: Vec<usize> = shown.iter().map(natural).collect();
            if sum(&whole) <= width {
                return Ok(Fit { shown, widths: whole, dropped, is_stacked: false });
            }
            let least: Vec<usize> = shown.iter().map(|at| self.least(*at)).collect();
            if sum(&least) <= width {
                return Ok(Fit { widths: self.shared(&shown, &least, width), shown, dropped, is_stacked: false });
            }
            let Some(title) = drops.next() else { break };
            let before = shown.len();
            shown.retain(|at| self.columns[*at].1 != *title);
            if shown.len() < before {
                dropped.push(*title);
            }
        }
        Ok(Fit { widths: Vec::new(), shown, dropped, is_stacked: true })
    }

    /// Returns the columns to show.
    fn chosen(&self, layout: &Layout) -> Result<Vec<usize>, Failure> {
        let is_empty = |at: usize| self.rows.iter().all(|row| row.get(at).is_none_or(|(cell, _)| cell.is_empty()));
        let Some(names) = &layout.columns else {
            let is_shown = |at: &usize| !(self.optional.contains(self.columns[*at].1) && is_empty(*at));
            return Ok((0..self.columns.len()).filter(is_shown).collect());
        };
        let place = |name: &String| {
            // A duration is formatted with its units: its column is named without the unit of the JSON field.
            let name = name.strip_suffix("_ms").unwrap_or(name);
            let found = self.columns.iter().position(|(_, title)| title.eq_ignore_ascii_case(name));
            found.ok_or_else(|| {
                let known: Vec<_> = self.columns.iter().map(|(_, title)| title.to_ascii_lowercase()).collect();
                Failure::Given {
                    message: format!("cannot show column {name:?}: the list has no such column"),
                    hint: Some(format!("--columns {}", known.join(","))),
                }
            })
        };
        names.iter().map(place).collect()
    }

    /// Divides the width among the columns: the widest text is shortened first.
    fn shared(&self, shown: &[usize], least: &[usize], width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = shown.iter().zip(least).map(|(at, least)| self.preferred(*at, *least)).collect();
        loop {
            let used = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            let widest =
                (0..widths.len()).filter(|place| widths[*place] > least[*place]).max_by_key(|place| widths[*place]);
            match widest {
                Some(place) if used > width => widths[place] -= 1,
                _ => return widths,
            }
        }
    }

    /// Returns the width to start from: the minimum for ids, the full width for other columns.
    fn preferred(&self, at: usize, least: usize) -> usize {
        if self.columns[at].0 == Column::Id { least } else { self.natural(at) }
    }

    fn natural(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(cell, _)| columns(cell));
        cells.max().unwrap_or_default().max(columns(self.columns[at].1))
    }

    fn least(&self, at: usize) -> usize {
        let (kind, title) = self.columns[at];
        match kind {
            Column::Id => self.id_chars(at).max(columns(title)).min(self.natural(at)),
            Column::Text => self.natural(at).min(TEXT_COLUMNS_MIN.max(columns(title))),
            Column::Word | Column::Figure => self.natural(at),
        }
    }

    /// Returns the length of the shortest prefix that keeps all ids in a column unique.
    fn id_chars(&self, column: usize) -> usize {
        let mut ids: Vec<&str> = self.rows.iter().filter_map(|row| Some(row.get(column)?.0.as_str())).collect();
        ids.sort_unstable();
        ids.dedup();
        let alike = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let needed = ids.windows(2).map(|pair| alike(pair[0], pair[1]) + 1).max().unwrap_or_default();
        needed.max(ID_CHARS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns =
            [(Column::Id, "ID"), (Column::Text, "TITLE"), (Column::Word, "STATUS"), (Column::Figure, "EVENTS")];
        let mut table = Table::new(&columns).dropping(&["EVENTS", "STATUS"]);
        let row = |id: &str, title: &str, status: &str, events: &str| [id, title, status, events].map(str::to_owned);
        table.row(row("01936400-0000-7000-8000-00000000000a", "a title that goes on", "failed", "7").to_vec());
        table.row(row("01936400-0001-7000-8000-00000000000b", "日本", "running", "1,200").to_vec());
        table
    }

    fn drawn(table: &Table, width: Option<u16>, layout: Layout) -> Text {
        let mut text = Text { width, ..Text::new(false, None, layout) };
        table.draw(&mut text);
        text
    }

    fn fits(width: u16) -> Text {
        let text = drawn(&table(), Some(width), Layout::default());
        assert!(text.lines.lines().all(|line| columns(line) <= usize::from(width)), "{}", text.lines);
        text
    }

    #[test]
    fn nothing_is_cut_where_there_is_room_or_all_is_asked_for() {
        let wide = Layout { is_wide: true, columns: None };
        for (width, layout) in [(None, Layout::default()), (Some(120), Layout::default()), (Some(20), wide)] {
            let text = drawn(&table(), width, layout).lines;
            assert!(text.contains("01936400-0000-7000-8000-00000000000a  a title that goes on  failed "), "{text}");
            assert!(text.contains("      7\n"), "numbers are to the right: {text}");
        }
    }

    #[test]
    fn ids_give_way_then_text_then_columns_and_ids_stay_unique() {
        assert!(fits(60).lines.contains("01936400-0000  a title that goes on  failed"));
        let cut = fits(46);
        assert!(cut.lines.contains('…') && cut.lines.contains("1,200"), "{}", cut.lines);
        let dropped = fits(40);
        assert_eq!(dropped.dropped, ["events"]);
        assert!(dropped.lines.contains("01936400-0001") && dropped.lines.contains("running"), "{}", dropped.lines);
        assert_eq!(fits(30).dropped, ["events", "status"]);
    }

    #[test]
    fn rows_are_stacked_where_nothing_else_helps() {
        let text = drawn(&table(), Some(20), Layout::default()).lines;
        assert!(
            text.contains("ID     01936400-0000-7000-8000-00000000000a\nTITLE  a title that goes on\n\n"),
            "{text}"
        );
    }

    #[test]
    fn columns_can_be_named_in_any_order() {
        let of = |names: &[&str]| Layout {
            is_wide: false,
            columns: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        let text = drawn(&table(), None, of(&["events", "title"]));
        assert_eq!(text.lines, "EVENTS  TITLE\n     7  a title that goes on\n 1,200  日本\n");
        let unknown = drawn(&table(), None, of(&["nothing"]));
        assert!(unknown.lines.is_empty());
        assert!(unknown.failure.is_some_and(|failure| failure.message().contains("\"nothing\"")));
    }

    #[test]
    fn a_column_without_a_value_is_left_out_unless_it_is_named() {
        let mut table = Table::new(&[(Column::Word, "A"), (Column::Word, "B")]);
        table.row(vec!["x".into(), String::new()]);
        let table = table.without_empty("B");
        assert_eq!(drawn(&table, None, Layout::default()).lines, "A\nx\n");
        let named = Layout { is_wide: false, columns: Some(vec!["b".to_owned()]) };
        assert_eq!(drawn(&table, None, named).lines, "B\n\n");
    }
}
