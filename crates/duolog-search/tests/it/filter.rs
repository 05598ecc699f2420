use std::collections::HashSet;

use duolog_search::{Filter, Query};
use proptest::prelude::*;

use crate::{add, index_in, positions};

/// Pieces of text with every kind of word boundary.
fn piece() -> impl Strategy<Value = String> {
    let letters = prop::sample::select(vec![
        "a",
        "B",
        "7",
        "_",
        "-",
        ":",
        "*",
        "\"",
        "\\",
        "'",
        " ",
        "\n",
        "\0",
        "é",
        "É",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "\u{212a}",
        "e\u{301}",
        "\u{301}",
        "ς",
        "Σ",
        "日",
        "本",
        "語",
        "カ",
        "ｶ",
        "한",
        "글",
        "ไ",
        "ท",
        "ය",
        "ा",
        "🎉",
        "👩\u{200d}🚀",
        "→",
        "¼",
        "Ⅷ",
        "ﬁ",
        "\u{feff}",
        "\u{10ffff}",
        "NEAR",
        "AND",
        "foo",
        "fooBar",
        "std::fs",
    ]);
    prop_oneof![
        8 => prop::collection::vec(letters, 1..6).prop_map(|pieces| pieces.concat()),
        1 => (1_usize..40).prop_map(|count| "xY9é".repeat(count)),
        1 => "\\PC{1,8}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec((piece(), prop::sample::select(vec![" ", "", "\n", ", "])), 0..8)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(piece, between)| [piece, between.to_owned()]).collect())
}

/// Generated queries, and queries that are a piece of a text.
fn query(texts: Vec<String>) -> impl Strategy<Value = (Vec<String>, String)> {
    let joined = texts.concat();
    let ends: Vec<usize> = joined.char_indices().map(|(at, _)| at).chain([joined.len()]).collect();
    let cut = (0..ends.len(), 0_usize..40).prop_map(move |(from, count)| {
        let to = ends[(from + count).min(ends.len() - 1)];
        joined[ends[from]..to].replace('"', "")
    });
    let term = prop_oneof![piece(), cut.clone(), cut.prop_map(|cut| format!("\"{cut}\""))];
    let decorated = (prop::sample::select(vec!["", "", "", "-"]), term, prop::sample::select(vec!["", "", "*"]));
    let terms =
        prop::collection::vec(decorated.prop_map(|(before, term, after)| format!("{before}{term}{after}")), 1..4);
    terms.prop_map(move |terms| (texts.clone(), terms.join(" ")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// The index returns every match of the predicate.
    #[test]
    fn every_match_passes((texts, query) in prop::collection::vec(text(), 1..12).prop_flat_map(query)) {
        let Ok(parsed) = Query::parse(&query) else { return Ok(()) };
        let directory = tempfile::tempdir().expect("a directory");
        let (mut index, _) = index_in(directory.path());
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        add(&mut index, "s", &all);
        if parsed.has_words() {
            let returned: HashSet<u64> = positions(&index, &query).into_iter().collect();
            for (at, text) in (0..).zip(&texts) {
                if parsed.matches(text).is_some() {
                    prop_assert!(returned.contains(&at), "{query:?} matches {text:?} but the index does not return it");
                }
            }
        }
    }

    /// Places are ordered byte ranges of the text, without overlaps.
    #[test]
    fn places_are_pieces_of_the_text(text in text(), query in piece()) {
        let Ok(query) = Query::parse(&query) else { return Ok(()) };
        let mut end = 0;
        for place in query.matches(&text).unwrap_or_default() {
            prop_assert!(place.start >= end && place.start < place.end, "{place:?} in {text:?}");
            prop_assert!(text.get(place.clone()).is_some(), "{place:?} in {text:?}");
            end = place.end;
        }
    }

    /// No query causes an error of the database.
    #[test]
    fn no_query_fails(query in "\\PC{0,200}|[\"*^:(){}+\\- A-Z]{0,200}") {
        let directory = tempfile::tempdir().expect("a directory");
        let (index, _) = index_in(directory.path());
        if let Ok(query) = Query::parse(&query) {
            let found = index.snapshot().expect("reads").candidates(&query, &Filter::default(), None, 10).expect("asks");
            prop_assert_eq!(found.is_some(), query.has_words());
        }
    }
}

#[test]
fn hostile_queries_are_plain_words() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    add(&mut index, "s", &["body NEAR a b", "other"]);
    let long = "word ".repeat(2_000);
    for query in [
        "NEAR(a b, 5)",
        "body:NEAR",
        "a AND OR NOT",
        "{body}: a",
        "^a",
        "\"a\" \"\" \"",
        "';DROP TABLE docs;--",
        "a\0b",
        "?1 :x @y $z",
        &format!("\"{long}\""),
        &"x".repeat(10_000),
    ] {
        positions(&index, query);
    }
    assert_eq!(positions(&index, "near"), [0]);
    assert_eq!(positions(&index, "body"), [0], "the name of a column is an ordinary word");
}

#[test]
fn a_page_continues_where_the_last_one_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    for name in ["b", "a", "c"] {
        add(&mut index, name, &["word one", "word two", "no"]);
    }
    let query = Query::parse("word").expect("a query");
    let snapshot = index.snapshot().expect("reads");
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = snapshot.candidates(&query, &Filter::default(), after.as_ref(), 2).expect("reads").expect("words");
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        seen.extend(page.into_iter().map(|candidate| (candidate.key.session.to_string(), candidate.key.position.0)));
    }
    let expected = [("a", 1), ("a", 0), ("b", 1), ("b", 0), ("c", 1), ("c", 0)];
    assert_eq!(seen, expected.map(|(session, position)| (session.to_owned(), position)));
}
