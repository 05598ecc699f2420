use duolog_log::dialect::money::Money;
use duolog_log::dialect::prices::{LongContextRates, Price, Prices, Rates};
use duolog_log::dialect::usage::{Claim, Tokens, Usage, UsageFact, UsageFold, fact};
use duolog_testkit::transcripts::{self, GeneratedLog};
use proptest::prelude::*;

fn fold(lines: &[String]) -> UsageFold {
    let mut fold = UsageFold::default();
    for line in lines {
        fold.line(line);
    }
    fold
}

fn used(lines: &[String]) -> Usage {
    fold(lines).report(&Prices::builtin())
}

fn counted_once(made: &GeneratedLog) {
    let usage = used(&made.lines);
    assert_eq!(usage.models.len(), 1);
    let model = &usage.models[0];
    assert_eq!(model.model.as_deref(), Some(made.model.as_str()));
    assert_eq!((model.responses, model.tokens), (made.responses, made.tokens));
}

fn response(id: &str, request: &str, model: &str, usage: &str, extra: &str) -> String {
    format!(
        r#"{{"type":"assistant","requestId":"{request}","timestamp":"2026-01-01T00:00:00Z","message":{{"id":"{id}","model":"{model}","content":[],"usage":{usage}}}{extra}}}"#
    )
}

fn total(total: [u64; 3], last: Option<[u64; 3]>, at: &str) -> String {
    let usage = |[input, cached, output]: [u64; 3]| {
        format!(
            r#"{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":{output},"reasoning_output_tokens":0}}"#
        )
    };
    let last = last.map(|last| format!(r#","last_token_usage":{}"#, usage(last))).unwrap_or_default();
    format!(
        r#"{{"timestamp":"{at}","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{}{last}}}}}}}"#,
        usage(total)
    )
}

#[test]
fn a_response_with_several_lines_is_counted_once() {
    for seed in 0..8 {
        counted_once(&transcripts::claude(seed, 9));
    }
}

#[test]
fn cumulative_totals_are_counted_by_difference() {
    for seed in 0..8 {
        counted_once(&transcripts::codex(seed, 6, false));
        counted_once(&transcripts::codex(seed, 6, true));
    }
}

#[test]
fn a_result_stands_for_the_messages_before_it() {
    let made = transcripts::envelope(3, 6);
    counted_once(&made);
    // Without a result the messages of the last turn count.
    let usage = used(&made.lines[..made.lines.len() - 1]);
    assert_eq!(usage.tokens(), made.tokens);
}

#[test]
fn the_largest_count_of_a_response_holds() {
    let line = |output| {
        response("m", "r", "claude-opus-4-8", &format!(r#"{{"input_tokens":10,"output_tokens":{output}}}"#), "")
    };
    let usage = used(&[line(5), line(90), line(90), line(7)]);
    assert_eq!((usage.tokens().input, usage.tokens().output, usage.repeated), (10, 90, 3));
}

#[test]
fn the_main_conversation_holds_against_a_side_one() {
    let side = response("m", "r2", "claude-opus-4-8", r#"{"input_tokens":999}"#, r#","isSidechain":true"#);
    let main = response("m", "r1", "claude-opus-4-8", r#"{"input_tokens":10}"#, r#","isSidechain":false"#);
    for lines in [[side.clone(), main.clone()], [main, side]] {
        assert_eq!(used(&lines).tokens().input, 10);
    }
}

#[test]
fn different_requests_are_different_responses() {
    let line = |request| response("m", request, "claude-opus-4-8", r#"{"input_tokens":10}"#, "");
    assert_eq!(used(&[line("r1"), line("r2")]).tokens().input, 20);
}

#[test]
fn a_copy_from_another_session_counts_where_that_is_absent() {
    let fork = r#","forkedFrom":{"sessionId":"s","messageUuid":"u"}"#;
    let copied = response("m", "r", "claude-opus-4-8", r#"{"input_tokens":10}"#, fork);
    assert_eq!(used(std::slice::from_ref(&copied)).tokens().input, 10);
    let told = fact(&copied).expect("usage");
    let mut beside = UsageFold::default();
    beside.fact(told, |_| true);
    assert_eq!(beside.report(&Prices::builtin()).tokens(), Tokens::default(), "its log counts it");
    let original = response("m", "r", "claude-opus-4-8", r#"{"input_tokens":10}"#, "");
    let key = |line: &str| match fact(line) {
        Some(UsageFact::Response(response)) => response.claim(),
        _ => None,
    };
    assert_eq!(key(&copied), key(&original));
    let nameless = copied.replace(r#""id":"m","#, "");
    assert_eq!(used(&[nameless]).tokens(), Tokens::default(), "it cannot be matched with the original");
}

#[test]
fn what_a_subagent_used_is_counted_once_whoever_tells() {
    let said = response("m", "r", "claude-haiku-4-5", r#"{"input_tokens":10,"output_tokens":5}"#, "");
    let progress = |said: &str| {
        format!(
            r#"{{"type":"progress","timestamp":"2026-01-01T00:00:00Z","data":{{"type":"agent_progress","agentId":"a","message":{said}}}}}"#
        )
    };
    let more = progress(&said.replace(r#""output_tokens":5"#, r#""output_tokens":9"#));
    assert_eq!(used(&[progress(&said)]).tokens().output, 5);
    assert_eq!(used(&[progress(&said), more.clone()]).tokens().output, 9, "the largest count wins");
    assert_eq!(used(&[progress(&said), said.clone()]).tokens().input, 10, "its own log has the same response");
    for silent in
        [progress(&said.replace("assistant", "user")), progress("null"), progress(&said.replace(r#""id":"m","#, ""))]
    {
        assert_eq!(used(&[silent]).tokens(), Tokens::default());
    }
}

#[test]
fn cache_writes_are_counted_even_if_their_parts_do_not_add_up() {
    let written = |parts: &str| {
        let usage = format!(r#"{{"input_tokens":1,"cache_creation_input_tokens":1000{parts}}}"#);
        let tokens = used(&[response("m", "r", "claude-opus-4-8", &usage, "")]).tokens();
        (tokens.cache_write_5m, tokens.cache_write_1h)
    };
    assert_eq!(written(""), (1000, 0));
    assert_eq!(written(r#","cache_creation":{}"#), (1000, 0));
    assert_eq!(written(r#","cache_creation":null"#), (1000, 0));
    let parts = |short: u64, long: u64| {
        format!(r#","cache_creation":{{"ephemeral_5m_input_tokens":{short},"ephemeral_1h_input_tokens":{long}}}"#)
    };
    assert_eq!(written(&parts(0, 0)), (1000, 0));
    assert_eq!(written(&parts(300, 700)), (300, 700));
    assert_eq!(written(&parts(300, 100)), (900, 100), "tokens without a part");
    assert_eq!(written(&parts(900, 300)), (900, 300), "the parts are larger than the total");
    assert_eq!(written(r#","cache_creation":{"ephemeral_1h_input_tokens":1000}"#), (0, 1000));
}

fn meta(id: &str, parent: Option<&str>) -> String {
    let parent = parent.map(|parent| format!(r#","forked_from_id":"{parent}""#)).unwrap_or_default();
    format!(r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{{"id":"{id}"{parent}}}}}"#)
}

/// Returns what a log counts beside logs with these claims, and its own claims.
fn beside(lines: &[String], others: &[Claim]) -> (u64, Vec<Claim>) {
    let mut fold = UsageFold::default();
    for fact in lines.iter().filter_map(|line| fact(line)) {
        fold.fact(fact, |claim| others.iter().any(|other| other.key == claim.key && other.weight > claim.weight));
    }
    (fold.report(&Prices::builtin()).tokens().input, fold.claimed().collect())
}

#[test]
fn a_fork_counts_replayed_responses_only_if_no_other_log_does() {
    let replayed = |at| total([1000, 0, 100], Some([1000, 0, 100]), at);
    let own = total([1100, 0, 110], Some([100, 0, 10]), "2026-01-01T00:01:08Z");
    let parent = [meta("b", None), replayed("2025-12-31T00:00:00Z")];
    let (counted, claims) = beside(&parent, &[]);
    assert_eq!((counted, claims.len()), (1000, 1));
    for at in ["2026-01-01T00:00:00.024Z", "2026-01-01T00:01:00Z"] {
        let fork = [meta("a", Some("b")), replayed(at), own.clone()];
        assert_eq!(beside(&fork, &claims).0, 100, "at any time of the replay");
        assert_eq!(beside(&fork, &[]).0, 1100, "the parent's log is absent");
        // A fork of the fork copies the first lines of both.
        let last = total([1150, 0, 111], Some([50, 0, 1]), "2026-01-01T00:02:00Z");
        let grandchild = [meta("c", Some("a")), fork[0].clone(), parent[0].clone(), replayed(at), own.clone(), last];
        let both = [claims.clone(), beside(&fork, &claims).1].concat();
        assert_eq!(beside(&grandchild, &both).0, 50);
        assert_eq!(beside(&parent, &beside(&fork, &[]).1).0, 1000, "the parent's claim wins");
    }
    let other = [meta("x", None), replayed("2026-01-01T00:00:00Z")];
    assert_eq!(beside(&other, &claims).0, 1000, "equal totals of another tree");
}

#[test]
fn a_subagent_names_its_parent_in_its_source() {
    let spawned = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a","source":{"subagent":{"thread_spawn":{"parent_thread_id":"b","depth":1}}}}}"#;
    let replayed = total([1000, 0, 100], Some([1000, 0, 100]), "2026-01-01T00:00:09Z");
    let claims = beside(&[meta("b", None), replayed.clone()], &[]).1;
    assert_eq!(beside(&[spawned.to_owned(), replayed], &claims).0, 0);
}

#[test]
fn a_session_resumed_by_copying_its_lines_is_not_counted_twice() {
    let made = transcripts::claude(11, 200);
    assert!(made.responses > 300, "more than can be corrected: {}", made.responses);
    let mut lines = made.lines.clone();
    lines.extend(made.lines.clone());
    assert_eq!(used(&lines).tokens(), made.tokens);
}

#[test]
fn a_total_told_again_moves_nothing_and_one_that_fell_back_begins_anew() {
    let at = "2026-01-01T00:00:00Z";
    let lines = [
        r#"{"timestamp":"2026-01-01T00:00:00Z","type":"turn_context","payload":{"model":"gpt-5.2"}}"#.to_owned(),
        total([100, 40, 10], Some([100, 40, 10]), at),
        total([100, 40, 10], Some([100, 40, 10]), at),
        // A line is missing between: the total grows by more than the last response.
        total([400, 140, 30], Some([200, 50, 10]), at),
        total([50, 0, 5], Some([50, 0, 5]), at),
    ];
    let usage = used(&lines);
    assert_eq!((usage.tokens().input, usage.tokens().cache_read, usage.tokens().output), (260 + 50, 140, 35));
    assert_eq!(usage.repeated, 1);
}

#[test]
fn a_response_without_a_total_is_counted_once() {
    let at = "2026-01-01T00:00:00Z";
    let bare = r#"{"timestamp":"2026-01-01T00:00:01Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":null,"last_token_usage":{"input_tokens":50,"output_tokens":0}}}}"#;
    let totals = |all: &[u64]| all.iter().map(|it| total([*it, 0, 0], None, at)).collect::<Vec<_>>();
    let with_bare = |before: &[u64], after: &[u64]| [totals(before), vec![bare.to_owned()], totals(after)].concat();
    assert_eq!(used(&with_bare(&[100], &[150, 200])).tokens().input, 200, "the next total includes it");
    assert_eq!(used(&with_bare(&[100], &[200])).tokens().input, 200, "a later total includes it");
    assert_eq!(used(&with_bare(&[100], &[])).tokens().input, 150);
}

#[test]
fn cache_writes_are_counted_separately_and_an_empty_last_is_ignored() {
    let line = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":30,"output_tokens":5},"last_token_usage":{}}}}"#;
    let tokens = used(&[line.to_owned()]).tokens();
    assert_eq!((tokens.input, tokens.cache_read, tokens.cache_write_5m, tokens.output), (10, 60, 30, 5));
}

#[test]
fn a_fork_that_replays_nothing_counts_from_its_first_response() {
    let meta =
        r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a","forked_from_id":"b"}}"#;
    let first = total([1000, 0, 100], Some([70, 0, 7]), "2026-01-01T00:00:10Z");
    let second = total([1100, 0, 110], Some([100, 0, 10]), "2026-01-01T00:00:30Z");
    let lines: Vec<_> = [meta.to_owned(), first, second].into();
    assert_eq!(used(&lines).tokens().input, 170, "only the first total includes the parent's usage");
    assert_eq!(used(&lines[..2]).tokens().input, 70);
}

#[test]
fn only_the_first_line_about_the_session_counts() {
    let own = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a"}}"#.to_owned();
    let copied = own.replace("\"id\":\"a\"", "\"id\":\"p\",\"forked_from_id\":\"g\"");
    let at = "2026-01-01T00:00:01Z";
    let lines = [own, copied, total([10, 0, 1], None, at), total([20, 0, 2], None, at)];
    assert_eq!(used(&lines).tokens().input, 20);
}

#[test]
fn a_stated_cost_is_used_and_a_missing_price_is_not_zero() {
    let stated = response("m1", "r", "claude-opus-4-8", r#"{"input_tokens":1000000}"#, r#","costUSD":0.125"#);
    let usage = used(std::slice::from_ref(&stated));
    assert_eq!(usage.cost().to_string(), "0.125");
    let unknown = response("m2", "r", "nobody-knows", r#"{"input_tokens":1000000}"#, "");
    let mixed = used(&[stated, unknown.clone()]);
    assert!(mixed.is_unpriced());
    assert_eq!(mixed.models.iter().find(|m| m.model.as_deref() == Some("nobody-knows")).expect("there").cost, None);
    assert_eq!(mixed.cost().to_string(), "0.125");
    let mut prices = Prices::builtin();
    let rates = Rates { input: 1_500_000, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
    prices.set("nobody-knows", Price { rates, long: LongContextRates::Same });
    assert_eq!(fold(&[unknown]).report(&prices).cost().to_string(), "1.5");
}

#[test]
fn a_result_states_the_cost_of_its_turn() {
    let line = |subtype: &str, cost: &str| {
        format!(
            r#"{{"type":"result","subtype":"{subtype}","total_cost_usd":{cost},"total_input_tokens":100,"total_output_tokens":10}}"#
        )
    };
    let asked = response("m", "r", "anthropic/claude-sonnet-4-6", r#"{"input_tokens":90}"#, "");
    let usage = used(&[asked.clone(), line("success", "0.13")]);
    assert_eq!((usage.cost().to_string().as_str(), usage.tokens().input), ("0.13", 100));
    // Writers without prices write 0.
    let usage = used(&[asked, line("success", "0")]);
    assert_eq!(usage.cost().to_string(), "0.00045");
}

#[test]
fn a_result_without_usage_ends_its_turn() {
    let asked =
        |id: &str, input: u64| response(id, "r", "claude-opus-4-8", &format!(r#"{{"input_tokens":{input}}}"#), "");
    let end = |input: u64| {
        format!(r#"{{"type":"result","subtype":"error_sandbox","total_cost_usd":0,"total_input_tokens":{input}}}"#)
    };
    let usage = used(&[asked("m1", 100), end(0), asked("m2", 20), end(25)]);
    assert_eq!(usage.tokens().input, 125, "the second result covers only its own turn");
}

#[test]
fn the_price_of_each_kind_is_exact() {
    let usage = r#"{"input_tokens":3,"output_tokens":7,"cache_read_input_tokens":11,"cache_creation_input_tokens":24,"cache_creation":{"ephemeral_5m_input_tokens":13,"ephemeral_1h_input_tokens":11}}"#;
    let cost = used(&[response("m", "r", "claude-haiku-4-5-20251001", usage, "")]).cost();
    // In micro-dollars: 3·1 + 7·5 + 11·0.1 + 13·1.25 + 11·2.
    assert_eq!(cost.to_string(), "0.00007735");
    assert_eq!(cost, Money::from_picos(77_350_000));
}

#[test]
fn a_million_small_amounts_add_up_exactly() {
    let mut fold = UsageFold::default();
    for _ in 0..10_000 {
        fold.line(r#"{"type":"result","subtype":"success","total_cost_usd":0.1,"total_input_tokens":1}"#);
    }
    assert_eq!(fold.report(&Prices::builtin()).cost().to_string(), "1000");
}

#[test]
fn the_state_is_bounded() {
    let mut fold = UsageFold::default();
    for number in 0..20_000 {
        let model = format!("model-{}-{}", number % 300, "x".repeat(100));
        let usage = r#"{"input_tokens":12345678901,"output_tokens":12345678901,"cache_read_input_tokens":12345678901}"#;
        fold.line(&response(&format!("m{number}"), "r", &model, usage, ""));
    }
    let bytes = fold.to_bytes();
    assert!(bytes.len() < 160 * 1024, "{} bytes", bytes.len());
    let usage = fold.report(&Prices::builtin());
    assert!(usage.models.len() <= 65);
    assert_eq!(usage.tokens().input, 12_345_678_901 * 20_000, "no tokens are lost");
}

#[test]
fn bytes_of_another_format_version_are_refused() {
    let mut bytes = fold(&transcripts::claude(1, 2).lines).to_bytes();
    assert!(UsageFold::from_bytes(&bytes).is_some());
    bytes.push(0);
    assert!(UsageFold::from_bytes(&bytes).is_none(), "half an id");
    bytes[0] = 99;
    assert!(UsageFold::from_bytes(&bytes).is_none(), "another format version");
    assert!(UsageFold::from_bytes(&[]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_fold_resumes_after_any_line(seed in 0_u64..1000, cut in any::<prop::sample::Index>()) {
        for made in [transcripts::claude(seed, 6), transcripts::codex(seed, 4, seed % 2 == 0), transcripts::envelope(seed, 4)] {
            let at = cut.index(made.lines.len() + 1);
            let mut resumed = UsageFold::from_bytes(&fold(&made.lines[..at]).to_bytes()).expect("reads back");
            made.lines[at..].iter().for_each(|line| resumed.line(line));
            prop_assert_eq!(resumed.report(&Prices::builtin()), used(&made.lines));
        }
    }
}
