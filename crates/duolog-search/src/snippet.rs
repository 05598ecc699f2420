//! A line of text around the first match, for people and programs.

use std::ops::Range;

use crate::query::Span;

/// Maximum number of characters before the first match, and in total.
const BEFORE_CHARS: usize = 48;
const CHARS_MAX: usize = 160;

/// An excerpt of a text on one line, and the matches in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The excerpt. White space and control characters become a space; omitted text at an end is `…`.
    pub text: String,
    /// The matches as byte ranges of `text`, in order.
    pub matches: Vec<Range<usize>>,
}

impl Snippet {
    /// Returns the excerpt around the first of these ordered places.
    pub fn around(text: &str, places: &[Span]) -> Self {
        let first = places.first().map_or(0, |place| place.start);
        let start = begin(text, first);
        let mut snippet = Self::default();
        if !text[..start].trim().is_empty() {
            snippet.text.push('…');
        }
        let mut places = places.iter().peekable();
        let (mut chars, mut is_cut) = (0, false);
        for (at, letter) in text[start..].char_indices() {
            let at = start + at;
            while places.peek().is_some_and(|place| place.end <= at) {
                places.next();
            }
            let is_match = places.peek().is_some_and(|place| place.contains(&at));
            if is_match || !is_blank(letter) {
                if chars >= CHARS_MAX {
                    is_cut = true;
                    break;
                }
                snippet.push(letter, is_match, places.peek().is_some_and(|place| place.start == at));
                chars += 1;
            } else if !snippet.text.is_empty() && !snippet.text.ends_with(' ') {
                snippet.text.push(' ');
                chars += 1;
            }
        }
        if is_cut {
            snippet.text.push('…');
        } else {
            snippet.text.truncate(snippet.text.trim_end().len().max(snippet.matches.last().map_or(0, |last| last.end)));
        }
        snippet
    }

    fn push(&mut self, letter: char, is_match: bool, is_first: bool) {
        let from = self.text.len();
        self.text.push(if is_blank(letter) { ' ' } else { letter });
        let to = self.text.len();
        match self.matches.last_mut() {
            Some(last) if is_match && !is_first && last.end == from => last.end = to,
            _ if is_match => self.matches.push(from..to),
            _ => {}
        }
    }
}

/// Returns the start of the excerpt, with some context before the match: at a word if one starts nearby.
fn begin(text: &str, first: usize) -> usize {
    let back = text[..first].char_indices().rev().nth(BEFORE_CHARS).map_or(0, |(at, _)| at);
    if back == 0 {
        return 0;
    }
    let word = text[back..first].find(char::is_whitespace).filter(|at| *at < (first - back) / 2);
    back + word.unwrap_or(0)
}

/// Returns true if a character is shown as a space: white space, and terminal or direction controls.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace()
        || letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;

    fn shown(query: &str, text: &str) -> String {
        let places = Query::parse(query).expect("a query").matches(text).expect("a match");
        let snippet = Snippet::around(text, &places);
        let mut shown = snippet.text.clone();
        for place in snippet.matches.iter().rev() {
            shown.insert(place.end, '>');
            shown.insert(place.start, '<');
        }
        shown
    }

    #[test]
    fn matches_are_shown_on_one_line_with_context() {
        assert_eq!(shown("plan", "the\n\n  plan\tis\u{1b}\u{7}red\u{202e}\n"), "the <plan> is red");
        assert_eq!(shown("a b", "a b"), "<a> <b>");
        assert_eq!(shown("\"a\nb\"", "x a\nb\n"), "x <a b>");
        let long = format!("{} needle {}", "before ".repeat(40), "after ".repeat(40));
        let line = shown("needle", &long);
        assert!(line.starts_with("… before") && line.ends_with('…'), "{line}");
        assert!(line.contains(" <needle> after") && line.chars().count() <= CHARS_MAX + 4, "{line}");
        let unbroken = "x".repeat(500) + " é";
        assert!(shown("é", &unbroken).starts_with("…xxx"));
    }

    #[test]
    fn a_match_longer_than_the_line_is_cut() {
        let long = "y".repeat(400);
        assert_eq!(shown(&long, &long), format!("<{}>…", "y".repeat(CHARS_MAX)));
    }
}
