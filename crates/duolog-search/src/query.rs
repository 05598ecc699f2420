//! What is looked for, and the one predicate that says whether a text holds it.

use std::fmt::Write as _;
use std::ops::Range;

use memchr::memmem::Finder;

use crate::fold::{fold, unfold};
use crate::words::{self, is_joined, is_part};

/// The bytes of a query.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;
/// The terms of a query.
pub const TERMS_MAX: usize = 64;
/// The words of one term that the index is asked for; the predicate looks at all of them.
const WORDS_ASKED_MAX: usize = 32;
/// The places of one term in a text that are told.
const PLACES_MAX: usize = 64;

/// A piece of a text, in bytes.
pub type Span = Range<usize>;

/// Why a query cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuery {
    /// There is nothing in it.
    #[error("the query is empty")]
    Empty,
    /// It only says what shall not be there.
    #[error("the query only says what to leave out")]
    OnlyExcludes,
    /// It is too long.
    #[error("the query is {bytes} bytes long, over the limit of {QUERY_BYTES_MAX}")]
    TooLong {
        /// How long.
        bytes: usize,
    },
    /// It has too many terms.
    #[error("the query has {terms} terms, over the limit of {TERMS_MAX}")]
    TooManyTerms {
        /// How many.
        terms: usize,
    },
}

/// What is looked for: terms that a text must all hold, in any order, and terms that it must not.
#[derive(Clone, Debug)]
pub struct Query {
    terms: Vec<Term>,
}

/// One term: a piece of folded text that begins and ends where words do.
#[derive(Clone, Debug)]
struct Term {
    needle: String,
    finder: Finder<'static>,
    /// The last word may go on.
    is_prefix: bool,
    is_excluded: bool,
}

impl Query {
    /// The same text for queries that look for the same terms in the same order.
    pub fn canonical(&self) -> String {
        let term = |term: &Term| format!("{:?}{}{}", term.needle, u8::from(term.is_prefix), u8::from(term.is_excluded));
        self.terms.iter().map(term).collect()
    }

    /// Understands a query: words, `"phrases"`, `prefix*`, and `-` before what to leave out.
    ///
    /// Whatever else stands in a term is taken as it is: `std::fs`, `--flag`, `a*b`.
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

    /// Where a text holds what is looked for, in order and apart from each other; nothing where it does not match.
    ///
    /// Whoever looks at many texts uses a [`Matcher`].
    pub fn matches(&self, text: &str) -> Option<Vec<Span>> {
        Matcher::new(self).matches(text)
    }

    /// Whether the index can be asked: without a word in it every text may match.
    pub fn has_words(&self) -> bool {
        self.expression().is_some()
    }

    /// What the index is asked for; nothing where no term has a word that it could know.
    ///
    /// Every text that matches passes: the words of each needle stand in it, one after the other. What is to be left out
    /// is not asked for, because the index only knows where something may be.
    pub(crate) fn expression(&self) -> Option<String> {
        let mut expression = String::new();
        for term in self.terms.iter().filter(|term| !term.is_excluded) {
            let mut words = words::words(&term.needle);
            let is_whole = words.len() <= WORDS_ASKED_MAX;
            words.truncate(WORDS_ASKED_MAX);
            if words.is_empty() {
                continue;
            }
            let and = if expression.is_empty() { "" } else { " AND " };
            let star = if term.is_prefix && is_whole { "*" } else { "" };
            // Words are letters and digits, so nothing in them can end the quotes. Writing to a string cannot fail.
            let _ = write!(expression, "{and}\"{}\"{star}", words.join(" "));
        }
        (!expression.is_empty()).then_some(expression)
    }
}

impl Term {
    /// Takes the first term off; none where there is nothing in it.
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

    /// The first place from `from` on where the folded text holds the term.
    fn find(&self, folded: &str, mut from: usize) -> Option<Span> {
        loop {
            let start = from + self.finder.find(&folded.as_bytes()[from..])?;
            let end = start + self.needle.len();
            if self.stands_free(folded, start, end) {
                return Some(start..end);
            }
            // Places that overlap one that does not count are looked at too.
            from = start + folded[start..].chars().next().map_or(1, char::len_utf8);
        }
    }

    /// Whether no word goes on over the edges of a place.
    fn stands_free(&self, folded: &str, start: usize, end: usize) -> bool {
        let is_cut = |at: usize| {
            let before = folded[..at].chars().next_back();
            before.zip(folded[at..].chars().next()).is_some_and(|(left, right)| is_joined(left, right))
        };
        !is_cut(start) && (self.is_prefix || !is_cut(end))
    }
}

/// Reads up to the closing quote, or to the end where there is none; `\"` is a quote.
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

/// Looks at text after text.
#[derive(Debug)]
pub struct Matcher<'q> {
    query: &'q Query,
    folded: String,
}

impl<'q> Matcher<'q> {
    /// A matcher for this query.
    pub fn new(query: &'q Query) -> Self {
        Self { query, folded: String::new() }
    }

    /// Where a text holds what is looked for, in order and apart from each other; nothing where it does not match.
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
        let mut apart: Vec<Span> = Vec::new();
        for place in places {
            match apart.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => apart.push(place),
            }
        }
        if !text.is_ascii() {
            unfold(text, &mut apart);
        }
        Some(apart)
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
    fn every_term_must_be_there_as_a_whole_word() {
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
    fn what_is_no_word_is_taken_as_it_is() {
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
    fn quotes_hold_a_phrase_together() {
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
    fn scripts_without_spaces_are_found_within() {
        assert_eq!(found("本語", "日本語です"), Some(vec!["本語"]));
        assert_eq!(found("rust", "Rustで"), Some(vec!["Rust"]));
        assert_eq!(found("학교", "학교에서"), Some(vec!["학교"]));
    }

    #[test]
    fn places_are_those_of_the_text_and_not_of_what_it_folds_to() {
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
    fn places_that_overlap_one_that_does_not_count_are_found() {
        assert_eq!(found("a-a", "xa-a-a"), Some(vec!["a-a"]));
        assert_eq!(found("ab \"b c\"", "ab b c"), Some(vec!["ab", "b c"]));
        assert_eq!(found("\"ab c\" c-d", "ab c-d"), Some(vec!["ab c-d"]));
    }

    #[test]
    fn a_query_must_say_what_to_look_for() {
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
    fn the_index_is_asked_for_words_in_quotes() {
        let asked = |query: &str| Query::parse(query).expect("a query").expression();
        assert_eq!(asked("foo_Bar std::fs*").as_deref(), Some("\"foo bar\" AND \"std fs\"*"));
        assert_eq!(asked("a -b \"c d\"").as_deref(), Some("\"a\" AND \"c d\""));
        assert_eq!(asked("NOT NEAR(\"x").as_deref(), Some("\"not\" AND \"near x\""));
        assert_eq!(asked("日本").as_deref(), Some("\"日 本\""));
        assert_eq!(asked("!= 🎉"), None);
    }
}
