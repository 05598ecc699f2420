use std::collections::BTreeSet;

use duolog_log::dialect::Dialect;
use duolog_log::dialect::digest::Digest;
use duolog_log::dialect::usage::{Tokens, UsageMove, Used};
use duolog_testkit::transcripts::{self, Cut, GeneratedLog};
use duolog_types::Charge;
use duolog_types::limits::{DIGEST_BYTES_MAX, TITLE_BYTES_MAX};
use proptest::prelude::*;

fn digest(lines: &[String]) -> Digest {
    let mut digest = Digest::default();
    for line in lines {
        digest.line(line.as_bytes());
    }
    digest.settle(|_| false);
    digest
}

fn made(seed: u64) -> [(Dialect, GeneratedLog); 5] {
    [
        (Dialect::Claude, transcripts::claude(seed, 5)),
        (Dialect::Codex, transcripts::codex(seed, 4, seed.is_multiple_of(2))),
        (Dialect::Envelope, transcripts::envelope(seed, 4)),
        (Dialect::Turns, transcripts::turns(seed, 3, Cut::Nothing)),
        (Dialect::Transcript, transcripts::transcript(seed, 3)),
    ]
}

fn sum(moves: &[UsageMove]) -> (u64, Tokens) {
    let complete = moves.iter().filter(|part| !part.charge.is_part());
    complete.fold((0, Tokens::default()), |(responses, tokens), part| {
        let left = part.added.tokens.less(&part.removed.tokens);
        (responses + part.added.responses - part.removed.responses, tokens.plus(&left))
    })
}

#[test]
fn each_dialect_is_recognised_and_its_tokens_are_counted_once() {
    for (dialect, made) in made(4) {
        let digest = digest(&made.lines);
        assert_eq!(digest.dialect(), Some(dialect));
        assert_eq!(digest.model(), Some(made.model.as_str()), "{dialect}");
        assert_eq!(sum(&digest.moves()), (made.responses, made.tokens), "{dialect}");
    }
}

#[test]
fn the_first_prompt_is_the_title_until_the_session_gets_a_title() {
    let prompt = r#"{"type":"user","message":{"role":"user","content":"Plan\u0000 it\nwell"}}"#.to_owned();
    let later = prompt.replace("Plan", "Do");
    let named = r#"{"type":"custom-title","customTitle":"Ours","sessionId":"s"}"#.to_owned();
    assert_eq!(digest(&[prompt.clone(), later.clone()]).title(), Some("Plan  it"));
    assert_eq!(digest(&[prompt, named, later]).title(), Some("Ours"));
    let long = format!(r#"{{"type":"user","message":{{"role":"user","content":"{}"}}}}"#, "😀".repeat(500));
    assert!(digest(&[long]).title().is_some_and(|title| title.len() <= TITLE_BYTES_MAX));
}

#[test]
fn usage_belongs_to_the_quarter_hour_of_its_line() {
    let line = |id: &str, at: &str, output: u64| {
        format!(
            r#"{{"type":"assistant","requestId":"r","timestamp":"{at}","message":{{"id":"{id}","model":"m","usage":{{"output_tokens":{output}}}}}}}"#
        )
    };
    let lines = [
        line("a", "2026-01-31T23:59:59Z", 5),
        line("b", "2026-01-31T23:30:00-02:00", 7),
        line("c", "", 1),
        // The final usage of the first response.
        line("a", "2026-02-01T00:00:09Z", 6),
    ];
    let days = |lines| {
        let parts = digest(lines).moves().into_iter().map(|part| (part.quarter, part.added.tokens.output));
        parts.collect::<Vec<_>>()
    };
    let (january, february) = ("2026-01-31T23:45:00.000000Z".to_owned(), "2026-02-01T01:30:00.000000Z".to_owned());
    // A line without a timestamp belongs to the last quarter hour.
    assert_eq!(days(&lines[..3]), [(january, 5), (february.clone(), 8)]);
    let midnight = "2026-02-01T00:00:00.000000Z".to_owned();
    assert_eq!(days(&lines), [(midnight, 6), (february, 8)], "the larger count wins, with its quarter hour");
}

#[test]
fn values_that_no_row_can_hold_are_dropped() {
    let lines = [
        r#"{"type":"assistant","message":{"model":"a\u0000b","usage":{"input_tokens":18446744073709551615}}}"#
            .to_owned(),
        r#"{"type":"result","total_cost_usd":1e30,"total_input_tokens":18446744073709551615}"#.to_owned(),
    ];
    let digest = digest(&lines);
    assert_eq!(digest.model(), None);
    for part in digest.moves() {
        assert_eq!((part.model.as_str(), part.charge.is_part() || part.charge == Charge::Bare), ("", true));
        assert!(part.added.tokens.input < 1 << 40, "{part:?}");
    }
}

#[test]
fn a_digest_is_bounded() {
    let mut digest = Digest::default();
    for number in 0..6000_u64 {
        let (model, day) = (format!("{}-{}", number % 300, "x".repeat(120)), 1 + number % 28);
        digest.line(
            format!(
                r#"{{"type":"assistant","requestId":"r","timestamp":"2026-01-{day:02}T00:00:00Z","message":{{"id":"m{number}","model":"{model}","usage":{{"input_tokens":68719476736,"output_tokens":68719476736,"cache_read_input_tokens":68719476736,"cache_creation":{{"ephemeral_5m_input_tokens":68719476736,"ephemeral_1h_input_tokens":68719476736}}}}}}}}"#
            )
            .as_bytes(),
        );
    }
    digest.settle(|_| false);
    let bytes = digest.to_bytes();
    assert!(bytes.len() < DIGEST_BYTES_MAX / 2, "{} bytes", bytes.len());
    assert_eq!(Digest::from_bytes(&bytes).expect("reads back").to_bytes(), bytes);
    assert!(Digest::from_bytes(b"{}\n").is_none() && Digest::from_bytes(b"").is_none());
}

#[test]
fn responses_that_another_log_counts_are_not_counted() {
    let made = transcripts::claude(4, 5);
    let read = || {
        let mut digest = Digest::default();
        made.lines.iter().for_each(|line| digest.line(line.as_bytes()));
        digest
    };
    let mut first = read();
    let keys: BTreeSet<u64> = first.keys().collect();
    first.settle(|_| false);
    let claimed: BTreeSet<u64> = first.claimed().map(|claim| claim.key).collect();
    assert_eq!(claimed, keys, "replays too, with their own key");
    let again = Digest::from_bytes(&first.to_bytes()).expect("reads back");
    assert_eq!((again.claimed().count(), again.shared()), (0, 0), "a claim is reported once");
    let mut copy = read();
    copy.settle(|claim| claimed.contains(&claim.key));
    assert_eq!((copy.moves(), copy.claimed().count(), copy.unsettled()), (Vec::new(), 0, 0));
    let again = Digest::from_bytes(&copy.to_bytes()).expect("reads back");
    assert!(copy.shared() >= made.responses && again.shared() == copy.shared());
    let mut mixed = read();
    let one = mixed.keys().next().expect("a key");
    mixed.settle(|claim| claim.key == one);
    assert_eq!(sum(&mixed.moves()).0, made.responses - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A digest that stops after every few lines reports the same changes and has the same bytes.
    #[test]
    fn a_digest_resumes_after_any_line(seed in 0_u64..1000, step in 1_usize..9) {
        for (dialect, made) in made(seed) {
            let at_once = digest(&made.lines);
            let mut sums = std::collections::BTreeMap::<_, Used>::new();
            let mut bytes = Digest::default().to_bytes();
            for lines in made.lines.chunks(step) {
                let mut part = Digest::from_bytes(&bytes).expect("reads back");
                for line in lines {
                    part.line(line.as_bytes());
                }
                part.settle(|_| false);
                for moved in part.moves() {
                    let sum = sums.entry((moved.quarter, moved.model, moved.charge.as_str())).or_default();
                    sum.responses = sum.responses + moved.added.responses - moved.removed.responses;
                    sum.tokens = sum.tokens.plus(&moved.added.tokens).less(&moved.removed.tokens);
                    sum.stated = (sum.stated + moved.added.stated).less(moved.removed.stated);
                }
                bytes = part.to_bytes();
            }
            sums.retain(|_, sum| *sum != Used::default());
            let expected = at_once.moves().into_iter().map(|moved| {
                let used = Used {
                    responses: moved.added.responses - moved.removed.responses,
                    tokens: moved.added.tokens.less(&moved.removed.tokens),
                    stated: moved.added.stated.less(moved.removed.stated),
                };
                ((moved.quarter, moved.model, moved.charge.as_str()), used)
            });
            prop_assert_eq!(sums, expected.collect(), "{}", dialect);
            prop_assert_eq!(bytes, at_once.to_bytes(), "{}", dialect);
        }
    }
}
