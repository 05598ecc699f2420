use duolog::config::Config;
use duolog::runs::{Begun, Finish};
use duolog::sessions::NewSession;
use duolog::usage::{UsageFilter, UsageReport};
use duolog::{Batch, Durability, ErrorKind, Money, Store, Tokens};
use duolog_log::dialect::prices::Prices;
use duolog_log::dialect::usage::UsageFold;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, GeneratedLog};

use super::Apart;
use super::runs::claimed;

on_both_engines!(
    executions_and_logs_are_one_ledger,
    days_are_those_of_a_zone,
    reports_add_up_to_what_the_logs_say,
    pages_follow_each_other,
    a_model_without_a_price_is_named_until_it_has_one
);

fn append(store: &Store, user: &str, agent: Option<&str>, lines: &[String]) -> duolog::SessionId {
    let new =
        NewSession { user_id: Some(user.to_owned()), agent_name: agent.map(str::to_owned), ..NewSession::default() };
    let session = store.sessions().create(&new).expect("made");
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line.as_bytes()).expect("a line");
    }
    store.log(&session.id).append(&batch, Durability::Process).expect("appended");
    session.id
}

/// The cost of a log, computed by folding all of it.
fn cost(made: &GeneratedLog) -> Money {
    let mut fold = UsageFold::default();
    for line in &made.lines {
        fold.line(line);
    }
    fold.report(&Prices::builtin()).cost()
}

fn corpus() -> Vec<(&'static str, Option<&'static str>, GeneratedLog)> {
    vec![
        ("ada", Some("coder"), transcripts::claude(0, 9)),
        ("ada", Some("coder"), transcripts::claude(1, 7)),
        ("bob", Some("planner"), transcripts::codex(2, 6, false)),
        ("bob", None, transcripts::codex(3, 6, true)),
        ("bob", None, transcripts::envelope(4, 6)),
    ]
}

fn sums(report: &UsageReport) -> (u64, Tokens, Money) {
    let lines = report.lines.iter().map(|line| &line.used);
    lines.fold((0, Tokens::default(), Money::ZERO), |(responses, tokens, cost), used| {
        (responses + used.responses, tokens.plus(&used.tokens), cost + used.cost.unwrap_or_default())
    })
}

fn reports_add_up_to_what_the_logs_say(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let corpus = corpus();
    for (user, agent, made) in &corpus {
        append(&store, user, *agent, &made.lines);
    }
    let expected = |which: &dyn Fn(&str) -> bool| {
        let chosen = corpus.iter().filter(|(user, ..)| which(user)).map(|(.., made)| made);
        chosen.fold((0, Tokens::default(), Money::ZERO), |(responses, tokens, sum), made| {
            (responses + made.responses, tokens.plus(&made.tokens), sum + cost(made))
        })
    };
    let (all, usage) = (UsageFilter::default(), store.usage());
    let reports = [usage.daily(&all), usage.session(&all), usage.model(&all), usage.workflow(&all)];
    for report in reports.map(|report| report.expect("reports")) {
        let total = &report.total;
        assert_eq!(sums(&report), (total.responses, total.tokens, total.cost.expect("priced")));
        assert_eq!(sums(&report), expected(&|_| true));
        assert!(total.unpriced.is_empty() && report.next.is_none() && report.behind.bytes_behind == 0);
    }
    let keys = |report: duolog::Result<UsageReport>| {
        let lines = report.expect("reports").lines;
        lines.into_iter().map(|line| line.key.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(keys(usage.workflow(&all)), ["", "coder", "planner"]);
    let models = ["anthropic/claude-sonnet-4-6", "claude-opus-4-8", "claude-sonnet-4-6", "gpt-5.2-codex"];
    assert_eq!(keys(usage.model(&all)), models);
    let days = keys(usage.daily(&all));
    assert!(days.len() >= 5 && days.windows(2).all(|pair| pair[0] > pair[1]), "{days:?}");
    let ada = UsageFilter { user_id: Some("ada".to_owned()), ..UsageFilter::default() };
    assert_eq!(sums(&usage.daily(&ada).expect("reports")), expected(&|user| user == "ada"));
    let day: duolog::usage::Day = days[0].parse().expect("a day");
    let one = UsageFilter { since: Some(day.clone()), until: Some(day), ..UsageFilter::default() };
    assert_eq!(keys(usage.daily(&one)), days[..1]);
}

fn pages_follow_each_other(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    for (user, agent, made) in &corpus() {
        append(&store, user, *agent, &made.lines);
    }
    let whole = store.usage().session(&UsageFilter::default()).expect("reports");
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = UsageFilter { limit: 2, after: after.take(), ..UsageFilter::default() };
        let report = store.usage().session(&page).expect("reports");
        assert_eq!(report.total, whole.total, "the total is of all pages");
        paged.extend(report.lines);
        let Some(next) = report.next else { break };
        let other = store.usage().daily(&UsageFilter { after: Some(next.clone()), ..UsageFilter::default() });
        assert_eq!(other.expect_err("a token of another report").kind(), ErrorKind::Invalid);
        after = Some(next);
    }
    assert_eq!(paged, whole.lines);
}

fn a_model_without_a_price_is_named_until_it_has_one(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let line = |model: &str, extra: &str| {
        format!(
            r#"{{"type":"assistant","timestamp":"2026-01-31T00:00:00Z","message":{{"model":"{model}","usage":{{"input_tokens":1000000}}}}{extra}}}"#
        )
    };
    append(&store, "ada", None, &[line("nobody-knows", "")]);
    let report = store.usage().model(&UsageFilter::default()).expect("reports");
    assert_eq!((report.total.cost, &report.total.unpriced[..]), (None, &[Some("nobody-knows".to_owned())][..]));
    append(&store, "ada", None, &[line("gpt-5", ""), line("nobody-knows", r#","costUSD":0.125"#)]);
    let report = store.usage().model(&UsageFilter::default()).expect("reports");
    assert_eq!(report.total.cost.map(|cost| cost.to_string()).as_deref(), Some("1.375"));
    assert_eq!(report.total.unpriced.len(), 1);
    drop(store);
    let config = Config::parse("[prices.nobody-knows]\ninput = 0.3\noutput = 1").expect("good");
    let options = apart.options();
    let said = options.store.clone();
    let store = Store::open(options.configured(&config).with_store(said)).expect("opens");
    let report = store.usage().daily(&UsageFilter::default()).expect("reports");
    assert_eq!(report.total.cost.map(|cost| cost.to_string()).as_deref(), Some("1.675"));
    assert!(report.total.unpriced.is_empty());
}

/// An execution without a log counts; if its session's log has usage, only the log counts.
fn executions_and_logs_are_one_ledger(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let made = transcripts::claude(4, 2);
    let told = append(&store, "ada", None, &made.lines);
    let silent = append(&store, "ada", None, &[r#"{"type":"user","text":"no usage here"}"#.to_owned()]);
    let (id, fence) = claimed(&store, "t", "w");
    let run = store.runs().open(&id).under(fence);
    let three = Money::from_dollars(3);
    for (phase, session) in [("told", Some(&told)), ("silent", Some(&silent)), ("bare", None)] {
        let Begun::Started(execution) = run.begin(phase, None).expect("begun") else { panic!("in flight") };
        if let Some(session) = session {
            run.set_session(&execution.id, session).expect("noted");
        }
        let finish = Finish { success: true, cost: Some(three), output_tokens: Some(10), ..Finish::default() };
        run.end(&execution.id, &finish).expect("ended");
    }
    let all = UsageFilter::default();
    let expected = cost(&made) + three + three;
    let usage = store.usage();
    for report in [usage.daily(&all), usage.session(&all), usage.model(&all), usage.workflow(&all)] {
        let report = report.expect("reports");
        assert_eq!(report.total.cost, Some(expected), "the log of the first execution wins");
        assert_eq!(sums(&report).2, expected, "the lines add up to the total");
    }
    let sessions = usage.session(&all).expect("reports").lines;
    let of = |key: Option<&str>| sessions.iter().find(|line| line.key.as_deref() == key).map(|line| line.used.cost);
    assert_eq!(of(Some(told.as_str())), Some(Some(cost(&made))));
    assert_eq!(of(Some(silent.as_str())), Some(Some(three)));
    let of_run = store.runs().get(&id).expect("a run").summary.session_id.expect("a session");
    assert_eq!(of(Some(of_run.as_str())), Some(Some(three)), "one without a session is of its run's");
    assert_eq!(of(None), None);
    let workflows = usage.workflow(&all).expect("reports").lines;
    assert_eq!(workflows.len(), 1, "the log counts for the workflow whose execution names it: {workflows:?}");
    let ada = UsageFilter { user_id: Some("ada".to_owned()), ..UsageFilter::default() };
    assert_eq!(usage.daily(&ada).expect("reports").total.cost, Some(cost(&made) + three));
}

fn days_are_those_of_a_zone(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let line = |id: &str, at: &str| {
        format!(
            r#"{{"type":"assistant","requestId":"r","timestamp":"{at}","message":{{"id":"{id}","model":"claude-opus-4-8","usage":{{"output_tokens":5}}}}}}"#
        )
    };
    append(&store, "ada", None, &[line("a", "2026-01-31T22:59:00Z"), line("b", "2026-01-31T23:00:00Z")]);
    let days = |zone: Option<&str>, since: Option<&str>| {
        let since = since.map(|day| day.parse().expect("a day"));
        let filter = UsageFilter { zone: zone.map(str::to_owned), since, ..UsageFilter::default() };
        let lines = store.usage().daily(&filter).expect("reports").lines;
        lines.into_iter().map(|line| (line.key.unwrap_or_default(), line.used.responses)).collect::<Vec<_>>()
    };
    assert_eq!(days(None, None), [("2026-01-31".to_owned(), 2)]);
    let berlin = [("2026-02-01".to_owned(), 1), ("2026-01-31".to_owned(), 1)];
    assert_eq!(days(Some("Europe/Berlin"), None), berlin);
    assert_eq!(days(Some("Europe/Berlin"), Some("2026-02-01")), berlin[..1]);
    let unknown = UsageFilter { zone: Some("Europe/Nowhere".to_owned()), ..UsageFilter::default() };
    assert_eq!(store.usage().daily(&unknown).expect_err("unknown").kind(), ErrorKind::Invalid);
}
