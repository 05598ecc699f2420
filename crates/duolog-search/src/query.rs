//! The query, and the predicate that decides whether a text matches it.

use std::fmt::Write as _;
use std::ops::Range;

use memchr::memmem::Finder;

use crate::fold::{fold, unfold};
use crate::words::{self, is_joined, is_part};

/// Maximum length of a query in bytes.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of terms of a query.
pub const TERMS_MAX: usize = 64;
/// Maximum number of words of a term in an index query; the predicate compares all of them.
const INDEX_WORDS_MAX: usize = 32;
/// Maximum number of reported places of a term in a text.
const PLACES_MAX: usize = 64;

/// A byte range of a text.
pub type Span = Range<usize>;

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuery {
    /// It has no term.
    #[error("the query is empty")]
    Empty,
    /// It has only excluded terms.
    #[error("the query has only excluded terms")]
    OnlyExcludes,
    /// It is too long.
    #[error("the query is {bytes} bytes long, over the limit of {QUERY_BYTES_MAX}")]
    TooLong {
        /// The length of the query.
        bytes: usize,
    },
    /// It has too many terms.
    #[error("the query has {terms} terms, over the limit of {TERMS_MAX}")]
    TooManyTerms {
        /// The number of terms.
        terms: usize,
    },
}

/// A query: terms that a text must all contain, in any order, and terms that it must not contain.
#[derive(Clone, Debug)]
pub struct Query {
    terms: Vec<Term>,
}

/// A term: folded text that must start and end at word boundaries.
#[derive(Clone, Debug)]
struct Term {
    needle: String,
    finder: Finder<'static>,
    /// True if the last word may continue.
    is_prefix: bool,
    is_excluded: bool,
}

impl Query {
    /// Returns a text that is equal for queries with the same terms in the same order.
    pub fn canonical(&self) -> String {
        let term = |term: &Term| format!("{:?}{}{}", term.needle, u8::from(term.is_prefix), u8::from(term.is_excluded));
        self.terms.iter().map(term).collect()
    }

    /// Parses a query: words, `"phrases"`, `prefix*`, and `-` before an excluded term.
    ///
    /// Other characters in a term are literal: `std::fs`, `--flag`, `a*b`.
    pub fn parse(text: &str) -> Result<Self, BadQuery> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(BadQuery::TooLong { bytes: text.len() });
        }
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, left) = Term::parse(rest);
            terms.extend(term);
            rest = left.trim_start();
        }
        match terms.len() {
            0 => Err(BadQuery::Empty),
            terms @ TERMS_MAX.. if terms > TERMS_MAX => Err(BadQuery::TooManyTerms { terms }),
            _ if terms.iter().all(|term| term.is_excluded) => Err(BadQuery::OnlyExcludes),
            _ => Ok(Self { terms }),
        }
    }

    /// Returns the matches in a text, in order and without overlaps; `None` if the text does not match.
    ///
    /// Use a [`Matcher`] for many texts.
    pub fn matches(&self, text: &str) -> Option<Vec<Span>> {
        Matcher::new(self).matches(text)
    }

    /// Returns true if the index can be queried: without a word in the query every text may match.
    pub fn has_words(&self) -> bool {
        self.expression().is_some()
    }

    /// Returns the FTS5 expression; `None` if no term has a word.
    ///
    /// Every matching text passes: it contains the words of each needle consecutively. Excluded terms are not in the
    /// expression, because the index knows only where a term may occur.
    pub(crate) fn expression(&self) -> Option<String> {
        let mut expression = String::new();
        for term in self.terms.iter().filter(|term| !term.is_excluded) {
            let mut words = words::words(&term.needle);
            let has_all_words = words.len() <= INDEX_WORDS_MAX;
            words.truncate(INDEX_WORDS_MAX);
            if words.is_empty() {
                continue;
            }
            let and = if expression.is_empty() { "" } else { " AND " };
            let star = if term.is_prefix && has_all_words { "*" } else { "" };
            // Words are letters and digits, so they cannot close the quotes. Writing to a string cannot fail.
            let _ = write!(expression, "{and}\"{}\"{star}", words.join(" "));
        }
        (!expression.is_empty()).then_some(expression)
    }
}

impl Term {
    /// Parses the first term; `None` if it is empty.
    fn parse(text: &str) -> (Option<Self>, &str) {
        let (is_excluded, text) = match text.strip_prefix('-') {
            Some(rest) if rest.starts_with(|next: char| next == '"' || is_part(next)) => (true, rest),
            _ => (false, text),
        };
        let (literal, star, rest) = if let Some(quoted) = text.strip_prefix('"') {
            let (literal, rest) = unquote(quoted);
            let after = rest.strip_prefix('*');
            (literal, after.is_some(), after.unwrap_or(rest))
        } else {
            let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
            let before = word.strip_suffix('*').filter(|before| before.ends_with(is_part));
            (before.unwrap_or(word).to_owned(), before.is_some(), rest)
        };
        let mut needle = String::new();
        fold(literal.trim(), &mut needle);
        if needle.is_empty() {
            return (None, rest);
        }
        let is_prefix = star && needle.ends_with(is_part);
        let finder = Finder::new(&needle).into_owned();
        (Some(Self { needle, finder, is_prefix, is_excluded }), rest)
    }

    /// Returns the first place of the term in the folded text, from `from` on.
    fn find(&self, folded: &str, mut from: usize) -> Option<Span> {
        loop {
            let start = from + self.finder.find(&folded.as_bytes()[from..])?;
            let end = start + self.needle.len();
            if self.is_at_word_boundaries(folded, start, end) {
                return Some(start..end);
            }
            // A place may overlap a rejected one.
            from = start + folded[start..].chars().next().map_or(1, char::len_utf8);
        }
    }

    /// Returns true if no word continues across the edges of a place.
    fn is_at_word_boundaries(&self, folded: &str, start: usize, end: usize) -> bool {
        let is_cut = |at: usize| {
            let before = folded[..at].chars().next_back();
            before.zip(folded[at..].chars().next()).is_some_and(|(left, right)| is_joined(left, right))
        };
        !is_cut(start) && (self.is_prefix || !is_cut(end))
    }
}

/// Reads up to the closing quote, or to the end if there is none; `\"` is a quote.
fn unquote(text: &str) -> (String, &str) {
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        match before.strip_suffix('\\') {
            Some(before) => {
                literal.push_str(before);
                literal.push('"');
                rest = after;
            }
            None => return (literal + before, after),
        }
    }
    (literal + rest, "")
}

/// Matches texts against a query, and reuses its buffer.
#[derive(Debug)]
pub struct Matcher<'q> {
    query: &'q Query,
    folded: String,
}

impl<'q> Matcher<'q> {
    /// Creates a matcher for a query.
    pub fn new(query: &'q Query) -> Self {
        Self { query, folded: String::new() }
    }

    /// Returns the matches in a text, in order and without overlaps; `None` if the text does not match.
    pub fn matches(&mut self, text: &str) -> Option<Vec<Span>> {
        fold(text, &mut self.folded);
        let folded = self.folded.as_str();
        let is_match = self.query.terms.iter().all(|term| term.find(folded, 0).is_some() != term.is_excluded);
        if !is_match {
            return None;
        }
        let mut places = Vec::new();
        for term in self.query.terms.iter().filter(|term| !term.is_excluded) {
            let mut from = 0;
            for _ in 0..PLACES_MAX {
                let Some(place) = term.find(folded, from) else { break };
                from = place.end;
                places.push(place);
            }
        }
        places.sort_by_key(|place| (place.start, place.end));
        let mut merged: Vec<Span> = Vec::new();
        for place in places {
            match merged.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => merged.push(place),
            }
        }
        if !text.is_ascii() {
            unfold(text, &mut merged);
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(query: &str, text: &'t str) -> Option<Vec<&'t str>> {
        let spans = Query::parse(query).expect("a query").matches(text)?;
        Some(spans.into_iter().map(|span| &text[span]).collect())
    }

    #[test]
    fn every_term_must_match_complete_words() {
        assert_eq!(found("plan Agent", "The agent has a PLAN."), Some(vec!["agent", "PLAN"]));
        assert_eq!(found("plan", "planning"), None);
        assert_eq!(found("plan*", "planning"), Some(vec!["plan"]));
        assert_eq!(found("plan agent", "a plan"), None);
        assert_eq!(found("plan -agent", "a plan"), Some(vec!["plan"]));
        assert_eq!(found("plan -agent", "a plan of an agent"), None);
        assert_eq!(found("plan -agent", "a plan of agents"), Some(vec!["plan"]));
        assert_eq!(found("plan -agent*", "a plan of agents"), None);
    }

    #[test]
    fn other_characters_are_literal() {
        assert_eq!(found("std::fs", "use std::fs;"), Some(vec!["std::fs"]));
        assert_eq!(found("std::fs", "use std.fs; std fs"), None);
        assert_eq!(found("foo_bar", "foo_bar_baz"), Some(vec!["foo_bar"]));
        assert_eq!(found("foo_bar", "a_foo_barn"), None);
        assert_eq!(found("--no-index", "run --no-index now"), Some(vec!["--no-index"]));
        assert_eq!(found("->", "a -> b"), Some(vec!["->"]));
        assert_eq!(found("a*b", "a*b"), Some(vec!["a*b"]));
        assert_eq!(found("*", "2 * 3"), Some(vec!["*"]));
        assert_eq!(found("🎉", "done 🎉!"), Some(vec!["🎉"]));
        assert_eq!(found("NEAR(a b)", "near(a b)"), Some(vec!["near(a", "b)"]));
    }

    #[test]
    fn quotes_make_a_phrase() {
        assert_eq!(found("\"to be or\"", "To be or not"), Some(vec!["To be or"]));
        assert_eq!(found("\"to be or\"", "to be  or"), None);
        assert_eq!(found("\"to be o\"", "to be or"), None);
        assert_eq!(found("\"to be o\"*", "to be or"), Some(vec!["to be o"]));
        assert_eq!(found("\"say \\\"hi\\\"\"", "they say \"hi\" now"), Some(vec!["say \"hi\""]));
        assert_eq!(found("\"open ended", "is open ended"), Some(vec!["open ended"]));
        assert_eq!(found("a -\"b c\"", "a c b"), Some(vec!["a"]));
        assert_eq!(found("{\"type\":\"x\"}", "{\"type\":\"x\"}"), Some(vec!["{\"type\":\"x\"}"]));
    }

    #[test]
    fn scripts_without_spaces_match_within_a_text() {
        assert_eq!(found("本語", "日本語です"), Some(vec!["本語"]));
        assert_eq!(found("rust", "Rustで"), Some(vec!["Rust"]));
        assert_eq!(found("학교", "학교에서"), Some(vec!["학교"]));
    }

    #[test]
    fn places_refer_to_the_text_and_not_to_its_folded_form() {
        assert_eq!(found("x", "İİ x İ"), Some(vec!["x"]));
        assert_eq!(found("i", "İx"), Some(vec!["İ"]));
        assert_eq!(found("größe", "Die GRÖSSE: GRÖẞE"), Some(vec!["GRÖSSE", "GRÖẞE"]));
        assert_eq!(found("σοφος", "ΣΟΦΟΣ σοφος σοφοσ"), Some(vec!["ΣΟΦΟΣ", "σοφος", "σοφοσ"]));
        assert_eq!(found("café", "ein cafe\u{301}!"), Some(vec!["cafe\u{301}"]));
        assert_eq!(found("cafe\u{301}", "ein CAFÉ!"), Some(vec!["CAFÉ"]));
        assert_eq!(found("duolog", "ＤＵＯＬＯＧ ﬁx"), Some(vec!["ＤＵＯＬＯＧ"]));
        assert_eq!(found("fix", "ＤＵＯＬＯＧ ﬁx"), Some(vec!["ﬁx"]));
        assert_eq!(found("ガ", "ｱｶﾞｲ"), Some(vec!["ｶﾞ"]));
        assert_eq!(found("cafe", "café"), None);
        assert_eq!(found("kelvin", "300 \u{212a}elvin"), Some(vec!["\u{212a}elvin"]));
        assert_eq!(found("é a", "aé é a"), Some(vec!["é", "a"]));
    }

    #[test]
    fn places_that_overlap_a_rejected_one_are_found() {
        assert_eq!(found("a-a", "xa-a-a"), Some(vec!["a-a"]));
        assert_eq!(found("ab \"b c\"", "ab b c"), Some(vec!["ab", "b c"]));
        assert_eq!(found("\"ab c\" c-d", "ab c-d"), Some(vec!["ab c-d"]));
    }

    #[test]
    fn a_query_needs_a_term_that_is_not_excluded() {
        for (query, expected) in [
            ("", BadQuery::Empty),
            ("  \t", BadQuery::Empty),
            ("\"\" \"  \"", BadQuery::Empty),
            ("-a -\"b c\"", BadQuery::OnlyExcludes),
            (&"x ".repeat(65), BadQuery::TooManyTerms { terms: 65 }),
            (&"x".repeat(QUERY_BYTES_MAX + 1), BadQuery::TooLong { bytes: QUERY_BYTES_MAX + 1 }),
        ] {
            assert_eq!(Query::parse(query).map(|_| ()), Err(expected), "{query:.20}");
        }
    }

    #[test]
    fn the_index_expression_has_words_in_quotes() {
        let expression = |query: &str| Query::parse(query).expect("a query").expression();
        assert_eq!(expression("foo_Bar std::fs*").as_deref(), Some("\"foo bar\" AND \"std fs\"*"));
        assert_eq!(expression("a -b \"c d\"").as_deref(), Some("\"a\" AND \"c d\""));
        assert_eq!(expression("NOT NEAR(\"x").as_deref(), Some("\"not\" AND \"near x\""));
        assert_eq!(expression("日本").as_deref(), Some("\"日 本\""));
        assert_eq!(expression("!= 🎉"), None);
    }
}
