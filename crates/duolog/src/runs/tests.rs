use duolog_types::RunId;
use duolog_types::RunStatus::{self, Cancelled, Failed, Paused, Queued, Running, Succeeded};
use proptest::prelude::*;

use super::rules::{self, Event, PhaseLabel, PhaseTurn, may_become, next};
use super::{NewRun, dollars};
use crate::error::{Conflict, Error, Invalid};

#[test]
fn the_state_machine_is_complete() {
    let legal = [
        (Queued, vec![Running, Cancelled]),
        (Running, vec![Queued, Paused, Succeeded, Failed, Cancelled]),
        (Paused, vec![Queued, Running, Failed, Cancelled]),
        (Succeeded, vec![]),
        (Failed, vec![Queued, Running]),
        (Cancelled, vec![Queued, Running]),
    ];
    for (from, to) in legal {
        assert_eq!(may_become(from), to, "{from}");
    }
}

#[test]
fn a_refusal_names_the_status_and_the_possible_changes() {
    let run = RunId::parse("r1").expect("an id");
    let error = rules::decide(&run, Paused, Event::Succeed).expect_err("illegal").to_string();
    assert_eq!(error, "cannot finish run r1: it is paused; a paused run can be resumed, failed or cancelled");
    let error = rules::decide(&run, Succeeded, Event::Retry).expect_err("illegal").to_string();
    assert_eq!(error, "cannot retry run r1: it is succeeded, which is final");
    let error = rules::decide(&run, Failed, Event::Resume).expect_err("illegal").to_string();
    assert_eq!(error, "cannot resume run r1: it is failed; a failed run can only be retried");
    assert!(matches!(rules::decide(&run, Cancelled, Event::Cancel), Ok(None)), "it is cancelled already");
    assert!(matches!(rules::decide(&run, Running, Event::Retry), Ok(None)), "another was faster");
    assert!(matches!(rules::decide(&run, Queued, Event::Resume), Ok(None)), "it is resumed when a slot is free");
}

/// A refusal never lists the refused change as possible.
#[test]
fn a_refusal_never_contradicts_itself() {
    let run = RunId::parse("r1").expect("an id");
    for status in RunStatus::ALL {
        for event in Event::ALL {
            let Err(error) = rules::decide(&run, *status, *event) else { continue };
            let possible = error.to_string().split_once(';').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            if let Some((_, done)) = event.verb() {
                assert!(!possible.contains(&format!(" {done}")), "{error}");
            }
        }
    }
}

#[test]
fn members_are_set_and_all_others_keep_their_text() {
    let set = [("iteration", "2".to_owned()), ("last", "\"e\"".to_owned())];
    let with = |before: Option<&str>| rules::with_members("k", before, &set);
    for (before, after) in [
        (None, r#"{"iteration":2,"last":"e"}"#),
        (Some(" null "), r#"{"iteration":2,"last":"e"}"#),
        (Some("{}"), r#"{"iteration":2,"last":"e"}"#),
        (Some(r#"{"z":"\ud800","a": 1e999,"iteration":1}"#), r#"{"z":"\ud800","a":1e999,"iteration":2,"last":"e"}"#),
        (Some(r#"{"b\udfff":[1, 2],"\u0069teration":7}"#), r#"{"b\udfff":[1, 2],"iteration":2,"last":"e"}"#),
    ] {
        assert_eq!(with(before).expect("merged"), after, "{before:?}");
    }
    for bad in ["[1]", "\"text\"", "7", "true"] {
        assert!(matches!(with(Some(bad)), Err(Error::Invalid(Invalid::Value { what: "loop key", .. }))), "{bad}");
    }
}

#[test]
fn labels_are_parsed_by_their_grammar() {
    let label = |text: &str| PhaseLabel::parse(text).map(|label| (label.name, label.turn));
    let known = [
        ("plan", "plan", None),
        ("plan_iter_3", "plan", Some(PhaseTurn::Iteration(3))),
        ("plan_iter_3_retry", "plan", Some(PhaseTurn::IterationRetry(3))),
        ("code_fix_2", "code", Some(PhaseTurn::Fix(2))),
        ("code_recheck_10", "code", Some(PhaseTurn::Recheck(10))),
        ("waiting_approval", "waiting_approval", None),
        ("a_iter_b", "a_iter_b", None),
        ("_iter_1", "_iter_1", None),
        ("fix_2_retry", "fix_2_retry", None),
        ("a_iter_99999999999", "a_iter_99999999999", None),
    ];
    for (text, name, turn) in known {
        assert_eq!(label(text).expect(text), (name.to_owned(), turn), "{text}");
    }
    for bad in ["", "a b", "a:b", "ü", "a\n", &"x".repeat(129)] {
        assert!(matches!(label(bad), Err(Error::Invalid(Invalid::Value { what: "phase", .. }))), "{bad:?}");
    }
}

#[test]
fn a_cost_is_a_number_from_zero_on() {
    for bad in [f64::NAN, f64::INFINITY, -0.01, f64::NEG_INFINITY] {
        assert!(matches!(dollars(bad), Err(Error::Invalid(Invalid::Value { what: "cost_usd", .. }))), "{bad}");
    }
    assert_eq!(dollars(0.13).expect("a cost").to_string(), "0.13");
    assert_eq!(dollars(0.0).expect("a cost").picos(), 0);
    assert_eq!(dollars(1e-7).expect("a cost").picos(), 100_000);
}

#[test]
fn a_repository_may_name_its_owner() {
    let split = |owner, repo| {
        let (owner, repo) = rules::split_repo(owner, repo);
        (owner.unwrap_or_default(), repo.unwrap_or_default())
    };
    let pair = |owner: &str, repo: &str| (owner.to_owned(), repo.to_owned());
    assert_eq!(split(None, Some("o/r")), pair("o", "r"));
    assert_eq!(split(Some("x"), Some("o/r")), pair("x", "r"));
    assert_eq!(split(None, Some("r")), pair("", "r"));
    assert_eq!(split(None, Some("/r")), pair("", "/r"));
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!((rules::clip("aéb", 2), rules::tail("aéb", 2)), ("a", "b"));
    assert_eq!((rules::clip("aéb", 9), rules::tail("aéb", 9)), ("aéb", "aéb"));
    assert_eq!(rules::tail("aéb", 3), "éb");
}

#[test]
fn a_patch_keeps_values_as_written() {
    let patch = rules::patch(r#"{"a": 1.50 , "b":{"x":[ 1]}}"#).expect("a patch");
    assert_eq!(patch.into_values().collect::<Vec<_>>(), ["1.50", "{\"x\":[ 1]}"]);
    let large = format!("{{\"k\":\"{}\"}}", "x".repeat(64 << 10));
    let error = rules::patch(&large).expect_err("too large").to_string();
    assert!(error.contains("output_text"), "{error}");
    for bad in ["[]", "1", "{", "{\"a\":NaN}", "{\"a\\ud800\":1}"] {
        assert!(rules::patch(bad).is_err(), "{bad}");
    }
}

proptest! {
    /// A run changes only as the state machine allows. Only a retry leaves a final status, and never `succeeded`.
    #[test]
    fn no_run_leaves_the_state_machine(events in prop::collection::vec(0_usize..Event::ALL.len(), 0..60)) {
        let run = RunId::parse("r").expect("an id");
        let mut status = Queued;
        for event in events.into_iter().map(|at| Event::ALL[at]) {
            let decided = rules::decide(&run, status, event);
            if let Some(to) = next(status, event) {
                prop_assert!(matches!(decided, Ok(Some(decided)) if decided == to));
                prop_assert_eq!(to, event.target());
                prop_assert!(may_become(status).contains(&to));
                prop_assert!(!status.is_terminal() || matches!(event, Event::Retry | Event::RetryLater));
                prop_assert!(status != Succeeded);
                status = to;
                continue;
            }
            let so_already = matches!(decided, Ok(None));
            let refused = matches!(&decided, Err(Error::Conflict(Conflict::RunCannot { status: from, event: asked, .. }))
                if *from == status && *asked == event);
            prop_assert!(so_already || refused);
        }
    }

    #[test]
    fn no_label_or_patch_panics(text in ".{0,200}") {
        let _ = PhaseLabel::parse(&text);
        let _ = rules::patch(&text);
    }
}

#[test]
fn a_new_run_needs_few_fields() {
    let new = NewRun::new("build", duolog_types::TriggerType::Cli, "t");
    assert!(new.context.is_none() && new.session_id.is_none() && new.claimed_by.is_none());
    assert_eq!(RunStatus::ALL.len(), 6);
}
