use duolog::config::Config;
use duolog::sessions::NewSession;
use duolog::usage::{UsageFilter, UsageReport};
use duolog::{Batch, Durability, ErrorKind, Money, Store, Tokens};
use duolog_log::dialect::prices::Prices;
use duolog_log::dialect::usage::UsageFold;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, Made};

use super::Apart;

on_both_engines!(
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

/// What a log costs, as the fold of all of it says.
fn cost(made: &Made) -> Money {
    let mut fold = UsageFold::default();
    for line in &made.lines {
        fold.line(line);
    }
    fold.report(&Prices::builtin()).cost()
}

fn corpus() -> Vec<(&'static str, Option<&'static str>, Made)> {
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
