//! Tables that fit: numbers and words stay whole, ids shrink to what tells them apart, names are cut last.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, presets};

use super::Tone;
use super::prose::plain;

/// The characters between columns.
const GAP: u16 = 2;
/// The characters that an id keeps at the least: for ours, the time it was made.
const ID_CHARS_MIN: usize = 13;

/// What a column holds, and so how it gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Ids: each can be named by its beginning.
    Id,
    /// Text that may be cut.
    Text,
    /// Words that stay whole.
    Word,
    /// Figures: whole, and to the right.
    Figure,
}

/// A table on its way to people.
pub struct Table {
    columns: Vec<(Column, &'static str)>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
}

impl Table {
    /// A table with these columns and no row yet.
    pub fn new(columns: &[(Column, &'static str)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. Whoever wrote what stands in it, it does nothing to the terminal.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| (plain(&cell), None)).collect());
    }

    /// Sets the tone of a cell of the last row.
    pub fn tone(&mut self, column: usize, tone: Tone) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.1 = Some(tone);
        }
    }

    /// Leaves out a column in which no row says anything.
    pub fn without_empty(mut self, title: &str) -> Self {
        let Some(at) = self.columns.iter().position(|(_, known)| *known == title) else { return self };
        if self.rows.iter().all(|row| row.get(at).is_none_or(|cell| cell.0.is_empty())) {
            self.columns.remove(at);
            for row in self.rows.iter_mut().filter(|row| row.len() > at) {
                row.remove(at);
            }
        }
        self
    }

    pub(super) fn render(&self, width: Option<u16>, color: bool) -> String {
        let mut table = self.build(color, false);
        if let Some(width) = width
            && natural_width(&table) > width
        {
            table = self.build(color, true);
            if natural_width(&table) > width {
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        lines.concat()
    }

    fn build(&self, color: bool, short_ids: bool) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.style_text_only();
        let title = |(_, title): &(Column, &'static str)| Cell::new(title).add_attribute(Attribute::Bold);
        table.set_header(self.columns.iter().map(title).collect::<Vec<_>>());
        let shortened: Vec<usize> = (0..self.columns.len()).map(|at| self.id_chars(at)).collect();
        for cells in &self.rows {
            let mut row = Row::new();
            for (at, (text, tone)) in cells.iter().enumerate() {
                let is_id = self.columns.get(at).is_some_and(|(column, _)| *column == Column::Id);
                let shown = if short_ids && is_id { beginning(text, shortened[at]) } else { text };
                row.add_cell(toned(Cell::new(shown), *tone));
            }
            row.max_height(1);
            table.add_row(row);
        }
        let last = self.columns.len().saturating_sub(1);
        for (at, (kind, _)) in self.columns.iter().enumerate() {
            let Some(column) = table.column_mut(at) else { continue };
            column.set_padding((0, if at == last { 0 } else { GAP }));
            if *kind == Column::Figure {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if *kind != Column::Text {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }

    /// How many characters of the ids in a column tell all of them apart.
    fn id_chars(&self, column: usize) -> usize {
        let mut ids: Vec<&str> = self.rows.iter().filter_map(|row| Some(row.get(column)?.0.as_str())).collect();
        ids.sort_unstable();
        let alike = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let needed = ids.windows(2).map(|pair| alike(pair[0], pair[1]) + 1).max().unwrap_or_default();
        needed.max(ID_CHARS_MIN)
    }
}

fn beginning(id: &str, chars: usize) -> &str {
    id.get(..chars).unwrap_or(id)
}

fn natural_width(table: &comfy_table::Table) -> u16 {
    let widths = table.column_max_content_widths();
    let gaps = GAP.saturating_mul(u16::try_from(widths.len().saturating_sub(1)).unwrap_or(u16::MAX));
    widths.into_iter().fold(gaps, u16::saturating_add)
}

fn toned(cell: Cell, tone: Option<Tone>) -> Cell {
    match tone {
        None | Some(Tone::Strong) => cell,
        Some(Tone::Good) => cell.fg(Color::Green),
        Some(Tone::Worth) => cell.fg(Color::Yellow),
        Some(Tone::Bad) => cell.fg(Color::Red),
        Some(Tone::Faint) => cell.fg(Color::DarkGrey),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[(Column::Id, "ID"), (Column::Text, "NAME"), (Column::Figure, "EVENTS")]);
        table.row(vec!["01936400-0000-7000-8000-00000000000a".into(), "a name that goes on".into(), "7".into()]);
        table.row(vec!["01936400-0001-7000-8000-00000000000b".into(), "日本".into(), "1,200".into()]);
        table
    }

    #[test]
    fn nothing_is_cut_where_there_is_room() {
        for width in [None, Some(120)] {
            let text = table().render(width, false);
            assert!(text.contains("01936400-0000-7000-8000-00000000000a  a name that goes on"), "{text}");
        }
    }

    #[test]
    fn ids_give_way_first_and_names_next_but_figures_never() {
        let text = table().render(Some(50), false);
        assert!(text.contains("01936400-0000  a name that goes on"), "{text}");
        let text = table().render(Some(32), false);
        assert!(text.contains('…') && text.contains("1,200") && text.contains("01936400-0001"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 32), "{text}");
    }

    #[test]
    fn a_column_that_says_nothing_is_left_out() {
        let mut table = Table::new(&[(Column::Word, "A"), (Column::Word, "B")]);
        table.row(vec!["x".into(), String::new()]);
        assert_eq!(table.without_empty("B").render(None, false), "A\nx\n");
    }
}
