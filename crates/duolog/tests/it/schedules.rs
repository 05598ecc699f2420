use std::sync::{Arc, Barrier};

use duolog::config::Config;
use duolog::doctor::{Depth, Status};
use duolog::errors::Conflict;
use duolog::runs::{Attribution, End, NewRun};
use duolog::schedules::{BaseSchedule, CatchUp, Due, Fired, FiringResult, FiringStatus, Origin, ScheduleChange, fire};
use duolog::{CronOutcome, Durability, Error, ErrorKind, OperationId, RunId, Store, Timestamp, TriggerType};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;

on_both_engines!(
    what_is_said_over_a_schedule_goes_before_the_configuration,
    a_time_is_fired_once_and_leaves_a_trace,
    what_was_missed_is_made_up_for_as_the_configuration_says,
    a_schedule_that_was_switched_off_misses_nothing,
    whoever_dies_firing_leaves_a_lost_time_that_is_not_fired_again,
    many_stores_fire_a_time_once,
    a_retry_fires_what_died_and_nothing_twice,
    failures_one_after_another_are_counted,
    a_corrected_clock_loses_no_time,
    a_change_of_a_schedule_records_the_times_that_it_skips,
    a_change_that_changes_no_time_skips_none,
    each_missed_time_has_a_run_of_its_own,
    an_error_half_way_returns_what_was_fired_and_leaves_the_rest_due,
    an_instant_that_has_passed_moves_nothing_back,
    a_page_of_firings_goes_on_where_the_last_one_ended,
    a_time_starts_a_run_unless_one_goes_on_or_its_workflow_is_off
);

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn named(name: &str, cron: &str) -> BaseSchedule {
    BaseSchedule {
        name: name.to_owned(),
        cron: cron.to_owned(),
        zone: "UTC".to_owned(),
        enabled: true,
        workflow: Some("review".to_owned()),
        context: Some("{\"repo\":\"a/b\"}".to_owned()),
        catch_up: CatchUp::Latest,
        description: None,
        line: 1,
    }
}

/// A store with these schedules and a clock at this time.
fn open(apart: &Apart, schedules: Vec<BaseSchedule>, now: &str) -> (Store, FixedClock) {
    let clock = FixedClock::at(at(now).as_micros());
    let mut options = apart.options();
    options.schedules = schedules;
    options.clock = Arc::new(clock.clone());
    (Store::open(options).expect("opens"), clock)
}

/// Both if the process died before the run was started and after.
fn a_retry_fires_what_died_and_nothing_twice(place: &Place) {
    for is_started in [false, true] {
        let apart = Apart::of(place);
        let name = format!("died-{is_started}");
        let operation = OperationId::parse(&name).expect("an id");
        let both = vec![named(&format!("first-{name}"), "0 * * * *"), named(&name, "0 * * * *")];
        let (store, _) = open(&apart, both, "2026-01-01T12:30:00Z");
        tick(&store, "2026-01-01T10:30:00Z");
        let once = || store.once("tick", &operation, &name).expect("a handle").schedules();
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            once().tick(at("2026-01-01T11:30:00Z"), |store, due| {
                let outcome = if due.name == name && !is_started { FiringResult::done() } else { fire(store, due) };
                assert!(due.name != name, "it dies here");
                outcome
            })
        }));
        assert!(died.is_err());
        let row = store.schedules().runs(Some(&name), None, 1).expect("listed").runs.remove(0);
        // A run that was started is on record with it.
        assert_eq!((row.finished_at.is_some(), row.workflow_run_id.is_some()), (is_started, is_started));
        for _ in 0..2 {
            let ticked = once().tick(at("2026-01-01T12:30:00Z"), fire).expect("ticks");
            let fired: Vec<_> = ticked.fired.iter().map(|one| (one.outcome.outcome, one.due.due_at)).collect();
            assert_eq!(fired, [(CronOutcome::Ok, at("2026-01-01T11:00:00Z")); 2], "{is_started}");
            for one in &ticked.fired {
                let run = one.outcome.workflow_run_id.as_deref().expect("a run");
                let run = store.runs().summary(&RunId::parse(run).expect("an id")).expect("there");
                assert_eq!(run.trigger_id, one.due.name);
            }
        }
        let runs = place.open().read(|tx| {
            let sql = "SELECT COUNT(*) FROM workflow_runs WHERE trigger_id = ?1";
            tx.find(sql, duolog_state::params![name.as_str()], |row| row.get::<u64>(0))
        });
        assert_eq!(runs.expect("counted"), Some(1), "{is_started}");
    }
}

/// Ticks, and returns the times that were fired.
fn tick(store: &Store, now: &str) -> Vec<(String, String)> {
    let ticked = store.schedules().tick(at(now), |_, _| FiringResult::done()).expect("ticks");
    let told = |one: &Fired| (one.due.name.clone(), one.due.due_at.to_string()[..16].to_owned());
    ticked.fired.iter().map(told).collect()
}

fn fired(name: &str, due: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), due.to_owned())]
}

fn what_is_said_over_a_schedule_goes_before_the_configuration(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart, vec![named("nightly", "0 3 * * *")], "2026-03-28T12:00:00Z");
    let schedules = store.schedules().by(Some("ada".to_owned()));
    let now = at("2026-03-28T12:00:00Z");
    let base = schedules.get("nightly", now).expect("there");
    assert_eq!((base.cron.from, base.zone.from, base.enabled.from), (Origin::Base, Origin::Base, Origin::Base));
    assert_eq!(base.next.len(), 5);
    let set = |change: ScheduleChange| schedules.set("nightly", &change, Durability::Process);
    let cron = |text: &str| ScheduleChange { cron: Some(Some(text.to_owned())), ..ScheduleChange::default() };
    let zone = |text: &str| ScheduleChange { zone: Some(Some(text.to_owned())), ..ScheduleChange::default() };
    set(cron("30 2 * * *")).expect("set");
    let both = set(zone("Europe/Berlin")).expect("set");
    assert_eq!(
        (both.cron.value.as_str(), both.cron.from),
        ("30 2 * * *", Origin::Override),
        "other overrides are kept"
    );
    assert_eq!((both.zone.from, both.enabled.from), (Origin::Override, Origin::Base));
    let local: Vec<&str> = both.next.iter().map(|time| time.local.as_str()).collect();
    assert_eq!(local[..2], ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    assert_eq!(both.overridden, Some((now, Some("ada".to_owned()))));
    let off = set(ScheduleChange { enabled: Some(Some(false)), ..ScheduleChange::default() }).expect("set");
    assert!(!off.enabled.value && off.next.is_empty() && off.cron.from == Origin::Override);
    let cleared = set(ScheduleChange { cron: Some(None), zone: Some(None), ..ScheduleChange::default() }).expect("set");
    assert_eq!(
        (cleared.cron.from, cleared.zone.from, cleared.enabled.from),
        (Origin::Base, Origin::Base, Origin::Override)
    );
    // An override without any field is deleted.
    let none = set(ScheduleChange { enabled: Some(None), ..ScheduleChange::default() }).expect("set");
    assert_eq!((none.overridden, none.enabled.value), (None, true));
    assert!(!schedules.clear("nightly", Durability::Process).expect("asked"), "there is no override");
    for (change, what) in [(cron("61 * * * *"), "minute"), (zone("Berlin"), "Europe/Berlin")] {
        let refused = set(change).expect_err("it is not valid");
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains(what), "{refused}");
    }
    assert_eq!(schedules.get("nightly", now).expect("there").overridden, None, "nothing was stored");
    let unknown = schedules.get("nightl", now).expect_err("no such schedule");
    assert_eq!((unknown.kind(), unknown.hint().as_deref()), (ErrorKind::NotFound, Some("did you mean nightly?")));
    set(cron("0 4 * * *")).expect("set");
    // Another home on the same state has the same override, and a home without the schedule lists its name.
    let elsewhere = Apart::of(place);
    let (other, _) = open(&elsewhere, vec![named("nightly", "0 3 * * *")], "2026-03-28T12:00:00Z");
    assert_eq!(other.schedules().get("nightly", now).expect("there").cron.value, "0 4 * * *");
    let without = Apart::of(place);
    let (without, _) = open(&without, Vec::new(), "2026-03-28T12:00:00Z");
    assert_eq!(without.schedules().list(now).expect("lists").elsewhere, ["nightly"]);
    assert!(without.schedules().clear("nightly", Durability::Process).expect("cleared"));
    assert_eq!(schedules.get("nightly", now).expect("there").cron.from, Origin::Base);
}

fn a_time_is_fired_once_and_leaves_a_trace(place: &Place) {
    let apart = Apart::of(place);
    let bases = vec![named("hourly", "0 * * * *"), named("daily", "30 12 * * *")];
    let (store, _) = open(&apart, bases, "2026-01-01T12:00:00Z");
    assert_eq!(tick(&store, "2026-01-01T12:15:00Z"), [], "times before the first tick are not missed");
    assert_eq!(tick(&store, "2026-01-01T12:29:59Z"), []);
    assert_eq!(tick(&store, "2026-01-01T12:30:00Z"), fired("daily", "2026-01-01T12:30"));
    assert_eq!(tick(&store, "2026-01-01T12:30:00Z"), [], "once");
    let mut seen: Vec<Due> = Vec::new();
    let ticked = store.schedules().by(Some("ada".to_owned())).tick(at("2026-01-01T13:00:20Z"), |_, due| {
        seen.push(due.clone());
        FiringResult::started("run-1")
    });
    assert_eq!(ticked.expect("ticks").fired.len(), 1);
    assert_eq!((seen[0].name.as_str(), seen[0].due_at, seen[0].missed), ("hourly", at("2026-01-01T13:00:00Z"), 0));
    assert_eq!((seen[0].workflow.as_deref(), seen[0].context.as_deref()), (Some("review"), Some("{\"repo\":\"a/b\"}")));
    let run = store.schedules().run(seen[0].id).expect("reads").expect("a trace");
    assert_eq!(run.standing, FiringStatus::Ended(CronOutcome::Ok));
    assert_eq!((run.actor.as_deref(), run.workflow_run_id.as_deref()), (Some("ada"), Some("run-1")));
    assert_eq!((run.home_id, run.started_at), (store.home_id(), at("2026-01-01T12:00:00Z")), "by the clock");
    assert!(run.finished_at.is_some());
    // Another home does not fire it again.
    let elsewhere = Apart::of(place);
    let (other, _) = open(&elsewhere, vec![named("hourly", "0 * * * *")], "2026-01-01T13:00:00Z");
    assert_eq!(tick(&other, "2026-01-01T13:00:30Z"), []);
}

fn what_was_missed_is_made_up_for_as_the_configuration_says(place: &Place) {
    let apart = Apart::of(place);
    let with = |name: &str, catch_up| BaseSchedule { catch_up, ..named(name, "0 * * * *") };
    let bases = vec![with("all", CatchUp::All), with("latest", CatchUp::Latest), with("none", CatchUp::None)];
    let (store, _) = open(&apart, bases, "2026-01-01T12:00:00Z");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    let told: Vec<String> =
        tick(&store, "2026-01-01T03:30:00Z").into_iter().map(|(name, at)| name + &at[10..]).collect();
    assert_eq!(
        told,
        ["allT01:00", "allT02:00", "allT03:00", "latestT03:00", "noneT03:00"],
        "a skipped time is reported"
    );
    let latest = store.schedules().runs(Some("latest"), None, 9).expect("lists").runs;
    assert_eq!((latest.len(), latest[0].detail.as_deref()), (1, Some("2 earlier times were missed")));
    let none = store.schedules().runs(Some("none"), None, 9).expect("lists").runs;
    assert_eq!((none.len(), none[0].standing), (1, FiringStatus::Ended(CronOutcome::Skipped)), "it is recorded");
    assert!(none[0].finished_at.is_some());
    // Within the grace period it is fired.
    let told = tick(&store, "2026-01-01T04:04:00Z");
    assert_eq!(told.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["all", "latest", "none"]);
    // The number is bounded, however long no process ticked.
    assert_eq!(tick(&store, "2036-01-01T00:00:00Z").len(), 101 + 1 + 1);
}

fn a_schedule_that_was_switched_off_misses_nothing(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T00:30:00Z");
    let enabled = |yes| ScheduleChange { enabled: Some(Some(yes)), ..ScheduleChange::default() };
    let hours = |number: i64| number * 3_600_000_000;
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    store.schedules().set("hourly", &enabled(false), Durability::Process).expect("set");
    assert_eq!(tick(&store, "2026-01-01T02:30:00Z"), []);
    clock.advance(hours(3));
    store.schedules().set("hourly", &enabled(true), Durability::Process).expect("set");
    assert_eq!(tick(&store, "2026-01-01T03:40:00Z"), [], "times while it was disabled are not missed");
    assert_eq!(tick(&store, "2026-01-01T04:10:00Z"), fired("hourly", "2026-01-01T04:00"));
    // No process ticks for a while; then a change skips the earlier times, and so does removing it.
    clock.advance(hours(4));
    let often = ScheduleChange { cron: Some(Some("*/5 * * * *".to_owned())), ..ScheduleChange::default() };
    store.schedules().set("hourly", &often, Durability::Process).expect("set");
    assert_eq!(tick(&store, "2026-01-01T07:30:00Z"), []);
    clock.advance(hours(4));
    assert!(store.schedules().clear("hourly", Durability::Process).expect("cleared"));
    assert_eq!(tick(&store, "2026-01-01T11:30:00Z"), []);
    assert_eq!(tick(&store, "2026-01-01T12:00:00Z"), fired("hourly", "2026-01-01T12:00"));
}

fn whoever_dies_firing_leaves_a_lost_time_that_is_not_fired_again(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T01:00:00Z");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.schedules().tick(at("2026-01-01T01:00:00Z"), |_, _| panic!("on purpose"))
    }));
    assert!(died.is_err());
    drop(store);
    let (store, _) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T01:05:00Z");
    assert_eq!(tick(&store, "2026-01-01T01:05:00Z"), [], "it may be running");
    let standing = |store: &Store| store.schedules().runs(None, None, 9).expect("lists").runs[0].standing;
    assert_eq!(standing(&store), FiringStatus::Running);
    drop(store);
    let (store, _) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T01:30:00Z");
    assert_eq!(standing(&store), FiringStatus::Lost);
    assert_eq!(tick(&store, "2026-01-01T01:30:00Z"), [], "it is never fired again");
    let schedule = store.schedules().get("hourly", at("2026-01-01T01:30:00Z")).expect("there");
    assert_eq!((schedule.failures, schedule.latest.map(|run| run.standing)), (1, Some(FiringStatus::Lost)));
}

/// Eight stores, each in its own home, tick at once.
fn many_stores_fire_a_time_once(place: &Place) {
    let homes: Vec<Apart> = (0..8).map(|_| Apart::of(place)).collect();
    let bases =
        || vec![named("often", "*/5 * * * *"), BaseSchedule { catch_up: CatchUp::All, ..named("all", "* * * * *") }];
    let stores: Vec<Store> = homes.iter().map(|apart| open(apart, bases(), "2026-01-01T00:00:30Z").0).collect();
    assert_eq!(tick(&stores[0], "2026-01-01T00:00:30Z"), []);
    let start = Barrier::new(stores.len());
    let mut all: Vec<(String, String)> = std::thread::scope(|scope| {
        let tickers: Vec<_> = stores
            .iter()
            .map(|store| {
                let start = &start;
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for minute in [5, 7, 10, 11] {
                        start.wait();
                        told.extend(tick(store, &format!("2026-01-01T00:{minute:02}:10Z")));
                    }
                    told
                })
            })
            .collect();
        tickers.into_iter().flat_map(|ticker| ticker.join().expect("ticks")).collect()
    });
    all.sort();
    let minutes = (1..=11).map(|minute| ("all".to_owned(), format!("2026-01-01T00:{minute:02}")));
    let often = [5, 10].map(|minute| ("often".to_owned(), format!("2026-01-01T00:{minute:02}")));
    assert_eq!(all, minutes.chain(often).collect::<Vec<_>>());
    assert_eq!(stores[3].schedules().runs(None, None, 200).expect("lists").runs.len(), 13);
}

fn failures_one_after_another_are_counted(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T09:00:00Z");
    let outcomes = [
        FiringResult::failed("first"),
        FiringResult::nothing("no issues"),
        FiringResult::failed("second"),
        FiringResult::skipped("busy"),
        FiringResult::failed("third"),
    ];
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    let failures = |store: &Store| store.schedules().get("hourly", at("2026-01-01T09:00:00Z")).expect("there").failures;
    let mut counted = Vec::new();
    for (hour, outcome) in outcomes.into_iter().enumerate() {
        let now = at(&format!("2026-01-01T{:02}:00:01Z", hour + 1));
        store.schedules().tick(now, |_, _| outcome.clone()).expect("ticks");
        counted.push(failures(&store));
    }
    assert_eq!(counted, [1, 0, 1, 1, 2]);
    let latest = store.schedules().get("hourly", at("2026-01-01T09:00:00Z")).expect("there").latest.expect("fired");
    assert_eq!(latest.error.as_deref(), Some("third"));
    // Doctor reports schedules that keep failing.
    let examined = || {
        let report = store.doctor().examine(Depth::Deep, |_| {}).expect("examined");
        report.checks.into_iter().find(|check| check.name == "schedules").expect("a check")
    };
    assert_eq!(examined().status, Status::Ok, "two failures are not reported");
    store.schedules().tick(at("2026-01-01T06:00:01Z"), |_, _| FiringResult::failed("fourth")).expect("ticks");
    let check = examined();
    assert_eq!(check.status, Status::Warning);
    let told = "hourly failed 3 times in a row, since 2026-01-01T09:00:00.000000Z: fourth";
    assert_eq!((check.detail.as_str(), failures(&store)), (told, 3));
    assert!(check.hint.is_some_and(|hint| hint.contains("duolog schedules runs \"hourly\"")));
    let off = ScheduleChange { enabled: Some(Some(false)), ..ScheduleChange::default() };
    store.schedules().set("hourly", &off, Durability::Process).expect("set");
    assert_eq!(examined().status, Status::Ok, "it is disabled");
    store.schedules().clear("hourly", Durability::Process).expect("cleared");
    assert_eq!(tick(&store, "2026-01-01T10:00:00Z").len(), 1);
    assert_eq!((failures(&store), examined().status), (0, Status::Ok));
}

fn a_corrected_clock_loses_no_time(place: &Place) {
    let apart = Apart::of(place);
    let with = |name: &str, catch_up| BaseSchedule { catch_up, ..named(name, "0 * * * *") };
    let bases = vec![with("latest", CatchUp::Latest), with("all", CatchUp::All)];
    let (store, _) = open(&apart, bases, "2026-01-01T00:30:00Z");
    let names =
        |now: &str| -> Vec<String> { tick(&store, now).into_iter().map(|(name, at)| name + &at[5..]).collect() };
    assert!(names("2026-01-01T00:30:00Z").is_empty());
    assert_eq!(names("2026-01-01T01:30:00Z"), ["latest01-01T01:00", "all01-01T01:00"]);
    let ahead = names("2027-01-01T00:30:00Z");
    assert_eq!((ahead.len(), ahead[0].as_str()), (1 + 101, "latest01-01T00:00"), "by the wrong clock");
    // The clock is corrected: no process fired the times since the last correct tick.
    let corrected = names("2026-01-01T03:30:00Z");
    assert_eq!(corrected, ["latest01-01T03:00", "all01-01T02:00", "all01-01T03:00"]);
    assert!(names("2026-01-01T03:30:00Z").is_empty(), "once");
    assert_eq!(names("2026-01-01T04:00:00Z"), ["latest01-01T04:00", "all01-01T04:00"]);
    // Clocks of several machines differ a little: nothing is fired twice, and nothing moves back.
    assert!(names("2026-01-01T03:59:58Z").is_empty() && names("2026-01-01T04:00:01Z").is_empty());
    let latest = store.schedules().runs(Some("latest"), None, 9).expect("lists").runs;
    let of = |due: &str| latest.iter().find(|run| run.due_at == at(due)).and_then(|run| run.detail.clone());
    assert_eq!(of("2026-01-01T03:00:00Z").as_deref(), Some("1 earlier time was missed"));
    // A schedule that was first ticked, or changed, by the clock that was ahead starts when the clock is corrected.
    let elsewhere = Apart::of(place);
    let (other, _) = open(&elsewhere, vec![named("young", "0 * * * *")], "2026-01-01T00:30:00Z");
    assert_eq!(tick(&other, "2027-01-01T00:30:00Z"), []);
    assert_eq!(tick(&other, "2026-01-01T05:30:00Z"), []);
    assert_eq!(tick(&other, "2026-01-01T06:30:00Z"), fired("young", "2026-01-01T06:00"));
}

/// `tick --until` with a time in the past does not mean that the clock was set back.
fn an_instant_that_has_passed_moves_nothing_back(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T05:30:00Z");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    assert_eq!(tick(&store, "2026-01-01T04:30:00Z"), fired("hourly", "2026-01-01T04:00"));
    assert_eq!(tick(&store, "2026-01-01T02:30:00Z"), [], "the earlier times are recorded as missed");
    assert_eq!(tick(&store, "2026-01-01T05:30:00Z"), fired("hourly", "2026-01-01T05:00"));
    let latest = store.schedules().runs(Some("hourly"), None, 9).expect("lists").runs;
    assert_eq!(latest[0].detail, None, "nothing was missed in between");
}

fn a_change_of_a_schedule_records_the_times_that_it_skips(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T00:30:00Z");
    let schedules = store.schedules().by(Some("ada".to_owned()));
    let latest = || schedules.runs(Some("hourly"), None, 1).expect("lists").runs.pop().expect("a record");
    let told = || {
        let run = latest();
        (run.due_at.to_string()[11..16].to_owned(), run.standing, run.detail.unwrap_or_default())
    };
    let skipped = FiringStatus::Ended(CronOutcome::Skipped);
    let why = |more: &str| format!("the schedule was changed before this time was fired{more}");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    clock.advance(3 * 3_600_000_000);
    let off = ScheduleChange { enabled: Some(Some(false)), ..ScheduleChange::default() };
    schedules.set("hourly", &off, Durability::Process).expect("set");
    assert_eq!(told(), ("03:00".to_owned(), skipped, why("; 2 earlier times were missed")));
    assert_eq!(latest().actor.as_deref(), Some("ada"));
    clock.advance(3_600_000_000);
    schedules.clear("hourly", Durability::Process).expect("cleared");
    assert_eq!(told().0, "03:00", "a disabled schedule has no due times");
    clock.advance(3_600_000_000);
    let cron = ScheduleChange { cron: Some(Some("30 12 * * *".to_owned())), ..ScheduleChange::default() };
    schedules.set("hourly", &cron, Durability::Process).expect("set");
    assert_eq!(told(), ("05:00".to_owned(), skipped, why("")));
    assert_eq!(tick(&store, "2026-01-01T05:40:00Z"), []);
    assert_eq!(tick(&store, "2026-01-01T12:40:00Z"), fired("hourly", "2026-01-01T12:30"));
}

fn a_change_that_changes_no_time_skips_none(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart, vec![named("hourly", "0 * * * *")], "2026-01-01T00:30:00Z");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    clock.advance(3_600_000_000);
    let on = ScheduleChange { enabled: Some(Some(true)), ..ScheduleChange::default() };
    let same = ScheduleChange { cron: Some(Some("0 * * * *".to_owned())), ..ScheduleChange::default() };
    for change in [&on, &same, &on] {
        store.schedules().set("hourly", change, Durability::Process).expect("set");
    }
    assert!(store.schedules().clear("hourly", Durability::Process).expect("cleared"));
    assert_eq!(tick(&store, "2026-01-01T01:30:00Z"), fired("hourly", "2026-01-01T01:00"));
    assert_eq!(store.schedules().runs(None, None, 9).expect("lists").runs.len(), 1);
}

fn each_missed_time_has_a_run_of_its_own(place: &Place) {
    let apart = Apart::of(place);
    let all = BaseSchedule { catch_up: CatchUp::All, ..named("report", "0 * * * *") };
    let (store, _) = open(&apart, vec![all], "2026-01-01T04:30:00Z");
    let fire_all = |now: &str| store.schedules().tick(at(now), fire).expect("ticks").fired;
    assert!(fire_all("2026-01-01T00:30:00Z").is_empty());
    let fired = fire_all("2026-01-01T04:30:00Z");
    assert_eq!(fired.iter().map(|one| one.outcome.outcome).collect::<Vec<_>>(), [CronOutcome::Ok; 4]);
    let ids: std::collections::BTreeSet<_> = fired.iter().map(|one| one.outcome.workflow_run_id.clone()).collect();
    assert_eq!(ids.len(), 4, "four missed hours are four runs");
    for one in &fired {
        let id = RunId::parse(one.outcome.workflow_run_id.as_deref().expect("a run")).expect("an id");
        let trigger = store.runs().get(&id).expect("there").summary.trigger_id;
        assert_eq!(trigger, format!("report@{}", one.due.due_at));
    }
    // Times beyond the limit are recorded, with the reason.
    let many = fire_all("2026-01-09T00:30:00Z");
    assert_eq!(many.len(), 101);
    let (first, rest) = many.split_first().expect("some");
    assert_eq!(first.outcome.outcome, CronOutcome::Skipped);
    assert!(first.outcome.detail.as_deref().is_some_and(|why| why.contains("100 missed times at most")), "{first:?}");
    assert!(rest.iter().all(|one| one.outcome.outcome == CronOutcome::Ok));
    let run = store.schedules().run(first.due.id).expect("reads").expect("a record");
    assert_eq!((run.standing, run.detail), (FiringStatus::Ended(CronOutcome::Skipped), first.outcome.detail.clone()));
}

/// Another schedule's row is damaged, or the state is no longer writable: the fired times are returned, and times that
/// were not tried are fired by the next tick and never recorded as lost.
fn an_error_half_way_returns_what_was_fired_and_leaves_the_rest_due(place: &Place) {
    let apart = Apart::of(place);
    let all = BaseSchedule { catch_up: CatchUp::All, ..named("all", "0 * * * *") };
    let (store, _) = open(&apart, vec![all, named("later", "0 * * * *")], "2026-01-01T04:30:00Z");
    assert_eq!(tick(&store, "2026-01-01T00:30:00Z"), []);
    // The second firing returns a result that does not fit its row.
    let too_long = FiringResult { workflow_run_id: Some("r".repeat(4096)), ..FiringResult::done() };
    let mut fires = 0;
    let interrupted = store
        .schedules()
        .tick(at("2026-01-01T04:30:00Z"), |_, _| {
            fires += 1;
            if fires == 2 { too_long.clone() } else { FiringResult::done() }
        })
        .expect_err("the state refuses");
    let told: Vec<_> =
        interrupted.ticked.fired.iter().map(|one| one.due.due_at.to_string()[11..13].to_owned()).collect();
    assert_eq!((fires, told), (2, vec!["01".to_owned(), "02".to_owned()]), "{interrupted}");
    let runs = store.schedules().runs(None, None, 9).expect("lists").runs;
    assert_eq!(runs.len(), 2, "times that were not tried have no row");
    let rest: Vec<_> = tick(&store, "2026-01-01T04:31:00Z").into_iter().map(|(name, at)| name + &at[10..]).collect();
    assert_eq!(rest, ["allT03:00", "allT04:00", "laterT04:00"]);
    let lost = |run: &&duolog::schedules::CronRun| !matches!(run.standing, FiringStatus::Ended(_));
    let runs = store.schedules().runs(None, None, 9).expect("lists").runs;
    let open: Vec<_> = runs.iter().filter(lost).map(|run| run.due_at.to_string()[11..13].to_owned()).collect();
    assert_eq!(open, ["02"], "only the firing whose end could not be recorded");
}

fn a_page_of_firings_goes_on_where_the_last_one_ended(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart, vec![named("a", "0 * * * *"), named("b", "0 * * * *")], "2026-01-01T09:00:00Z");
    for hour in 0..4 {
        tick(&store, &format!("2026-01-01T{hour:02}:30:00Z"));
    }
    let mut after = None;
    let mut told = String::new();
    loop {
        let page = store.schedules().runs(None, after.as_ref(), 4).expect("lists");
        assert!(page.runs.len() <= 4);
        told.extend(page.runs.iter().map(|run| format!("{}{} ", run.name, &run.due_at.to_string()[12..13])));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(told, "b3 a3 b2 a2 b1 a1 ");
    assert_eq!(
        store.schedules().runs(Some("a"), None, 2).expect("lists").next.expect("more").to_string().chars().last(),
        Some('a')
    );
}

fn a_time_starts_a_run_unless_one_goes_on_or_its_workflow_is_off(place: &Place) {
    let apart = Apart::of(place);
    let mut options = apart.options();
    let clock = FixedClock::at(at("2026-03-28T12:00:00Z").as_micros());
    options.schedules = vec![named("hourly", "0 * * * *")];
    options.clock = Arc::new(clock.clone());
    let config = Config::parse("[workflows.review]\n[workflows.off]\nenabled = false\n").expect("good");
    options.workflows = config.workflows().to_vec();
    let store = Store::open(options).expect("opens");
    let tick = |now: &str| {
        let ticked = store.schedules().tick(at(now), fire).expect("ticks");
        ticked.fired.into_iter().map(|one| one.outcome).collect::<Vec<_>>()
    };
    assert!(tick("2026-03-28T12:30:00Z").is_empty(), "the first tick fires nothing");
    let [first] = &tick("2026-03-28T13:00:10Z")[..] else { panic!("one time") };
    assert_eq!(first.outcome, CronOutcome::Ok);
    let id = RunId::parse(first.workflow_run_id.as_deref().expect("a run")).expect("an id");
    let run = store.runs().get(&id).expect("there");
    assert_eq!((run.summary.workflow_name.as_str(), run.summary.trigger_type), ("review", TriggerType::Cron));
    assert_eq!((run.summary.trigger_id.as_str(), run.context.as_deref()), ("hourly", Some("{\"repo\":\"a/b\"}")));
    let [second] = &tick("2026-03-28T14:00:10Z")[..] else { panic!("one time") };
    assert_eq!((second.outcome, &second.workflow_run_id), (CronOutcome::Skipped, &Some(id.to_string())));
    store.runs().open(&id).finish(&End::Succeeded, None).expect("ended");
    let [third] = &tick("2026-03-28T15:00:10Z")[..] else { panic!("one time") };
    assert!(third.outcome == CronOutcome::Ok && third.workflow_run_id != Some(id.to_string()), "{third:?}");

    // A workflow that the configuration disables can be enabled by an override, and the other way round.
    let workflows = store.workflows();
    let start = |workflow: &str| store.runs().start(&NewRun::new(workflow, TriggerType::Cli, "t"));
    assert!(matches!(start("off"), Err(Error::Conflict(Conflict::WorkflowDisabled { .. }))));
    assert!(!workflows.is_enabled("off").expect("known") && workflows.is_enabled("any").expect("known"));
    assert!(workflows.enable("off", Some("ada")).expect("said"));
    start("off").expect("started");
    assert!(workflows.clear("off").expect("taken back") && !workflows.is_enabled("off").expect("known"));
    let listed = workflows.list(None, 9).expect("listed");
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.enabled, one.has_runs)).collect();
    assert_eq!(listed, [("off", false, true), ("review", true, true)]);
    workflows.disable("review", None).expect("said");
    store
        .runs()
        .open(&RunId::parse(third.workflow_run_id.as_deref().expect("a run")).expect("an id"))
        .cancel(&Attribution::default())
        .expect("ended");
    let [fourth] = &tick("2026-03-28T16:00:10Z")[..] else { panic!("one time") };
    assert!(fourth.outcome == CronOutcome::Skipped && fourth.workflow_run_id.is_none(), "{fourth:?}");
}
