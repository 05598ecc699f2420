//! Untrusted text for a terminal: without control sequences and direction marks, and wrapped at the width.

use unicode_width::UnicodeWidthChar as _;

use super::screen::harmless;

/// The distance between tab stops, in columns.
const TAB: usize = 4;

/// Returns untrusted text without control characters; newlines are kept.
pub fn plain(text: &str) -> String {
    let shown = |letter| match letter {
        '\n' => '\n',
        '\t' => ' ',
        letter => harmless(letter),
    };
    text.chars().map(shown).collect()
}

/// Returns the width of a text in columns.
pub fn columns(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or_default()).sum()
}

/// Returns untrusted text on one line: white space is collapsed, and the end is cut at `width`.
pub fn one_line(text: &str, width: usize) -> String {
    let mut line = String::new();
    let (mut used, mut gap) = (0, false);
    for letter in text.trim().chars() {
        if letter.is_ascii_whitespace() {
            gap = true;
            continue;
        }
        let letter = harmless(letter);
        let needed = usize::from(gap) + letter.width().unwrap_or_default();
        if used + needed > width {
            // Make room for the ellipsis.
            while !line.is_empty() && columns(&line) + 1 > width {
                line.pop();
            }
            line.push('…');
            return line;
        }
        if gap {
            line.push(' ');
            gap = false;
        }
        line.push(letter);
        used += needed;
    }
    line
}

/// Returns untrusted text on one line; if it is too wide, the beginning is cut.
pub fn one_line_end(text: &str, width: usize) -> String {
    let line = one_line(text, usize::MAX);
    let mut over = columns(&line).saturating_sub(width);
    if over == 0 {
        return line;
    }
    // Make room for the ellipsis.
    over += 1;
    let mut rest = line.chars();
    while over > 0 {
        let Some(letter) = rest.next() else { break };
        over = over.saturating_sub(letter.width().unwrap_or_default());
    }
    format!("…{}", rest.as_str())
}

/// Wraps untrusted text at `width`, at spaces if possible.
pub fn wrapped(text: &str, width: Option<usize>) -> impl Iterator<Item = String> {
    let text = text.trim_end();
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    lines.flat_map(move |line| Broken { rest: line, width: width.unwrap_or(usize::MAX).max(2), done: false })
}

/// An iterator over the pieces of one line; a long line is never copied whole.
struct Broken<'t> {
    rest: &'t str,
    width: usize,
    done: bool,
}

impl Iterator for Broken<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.done {
            return None;
        }
        let mut piece = String::new();
        let mut used = 0;
        // The end of the piece and the start of the rest at the last space.
        let mut space: Option<(usize, usize)> = None;
        for (at, letter) in self.rest.char_indices() {
            let tab = letter == '\t';
            let shown = if tab { ' ' } else { harmless(letter) };
            let needed = if tab { TAB - used % TAB } else { shown.width().unwrap_or_default() };
            let fits = used + needed <= self.width;
            if shown == ' ' && piece.len() > leading(&piece) {
                space = Some((piece.len(), at + letter.len_utf8()));
            }
            if !fits {
                let (end, next) = space.unwrap_or((piece.len(), at));
                piece.truncate(end);
                self.rest = &self.rest[next..];
                return Some(piece);
            }
            if tab {
                piece.extend(std::iter::repeat_n(' ', needed));
            } else {
                piece.push(shown);
            }
            used += needed;
        }
        self.done = true;
        Some(piece)
    }
}

/// Returns the number of leading spaces; a line is not broken there.
fn leading(piece: &str) -> usize {
    piece.len() - piece.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, width: usize) -> Vec<String> {
        wrapped(text, Some(width)).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("  fn main() {}", 9), ["  fn", "main() {}"]);
        assert_eq!(lines("日本語", 4), ["日本", "語"]);
        assert_eq!(lines("a\r\n\nb\n\n", 10), ["a", "", "b"]);
        assert_eq!(lines("", 10), [""]);
        assert_eq!(lines("a\tb", 10), ["a   b"]);
        assert_eq!(lines("日", 1), ["日"], "narrower than a letter is not narrow enough to lose it");
    }

    #[test]
    fn no_text_reaches_the_terminal_as_a_command() {
        let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{8}\u{7f}\u{202e}abc\u{200f}\rover\u{0}";
        for shown in [lines(hostile, 80).concat(), one_line(hostile, 80)] {
            let bad = |letter: char| letter.is_control() || ('\u{2028}'..='\u{202e}').contains(&letter);
            assert!(!shown.contains(bad), "{shown:?}");
            assert!(shown.contains("␛[2J") && shown.contains("abc"), "{shown:?}");
        }
    }

    #[test]
    fn one_line_is_one_line_and_fits() {
        assert_eq!(one_line("  a\n  b\t c ", 80), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("日本語日本語", 6), "日本…");
        assert_eq!(one_line("x", 0), "…");
        assert_eq!(one_line_end(" abc\ndef ", 7), "abc def");
        assert_eq!(one_line_end("abcdefg", 6), "…cdefg");
        assert_eq!(one_line_end("日本語日本語", 6), "…本語");
        assert_eq!(one_line_end("x", 0), "…");
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        let text = "The quick brown 狐 jumps over  the\tlazy 犬 ".repeat(40) + &"x".repeat(500);
        for width in [2, 3, 38, 78, 98] {
            let broken = lines(&text, width);
            assert!(broken.iter().all(|line| columns(line) <= width), "{width}");
            let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
            assert_eq!(letters(&broken.concat()), letters(&text), "nothing is lost at {width}");
        }
    }
}
