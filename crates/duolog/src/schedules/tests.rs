use duolog_types::Timestamp;
use duolog_types::limits::CATCH_UP_MAX;
use proptest::prelude::*;

use super::model::{BaseSchedule, CatchUp, FiringStatus};
use super::timetable::Timetable;
use super::{rules, *};

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn table(cron: &str, zone: &str) -> Timetable {
    Timetable::parse(cron, zone).unwrap_or_else(|bad| panic!("{bad:?}"))
}

/// The next times after a timestamp, as local times.
fn after(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let table = table(cron, zone);
    let times = std::iter::successors(table.next(at(from)), |at| table.next(*at));
    let times: Vec<Timestamp> = times.take(count).collect();
    // A backward search returns the same times.
    for time in &times {
        assert_eq!(table.latest(*time), Some(*time), "{cron} {zone}");
        let before = Timestamp::from_micros(time.as_micros() - 1);
        assert!(table.latest(before).is_none_or(|last| last < *time), "{cron} {zone}");
    }
    times.into_iter().map(|at| table.on_the_wall(at)).collect()
}

#[test]
fn expressions_follow_cron() {
    let from = "2026-01-01T00:00:00Z";
    let cases: &[(&str, &[&str])] = &[
        ("30 3 * * *", &["2026-01-01T03:30:00+00:00", "2026-01-02T03:30:00+00:00"]),
        ("*/20 * * * *", &["2026-01-01T00:20:00+00:00", "2026-01-01T00:40:00+00:00"]),
        ("0 9-17/4 * * *", &["2026-01-01T09:00:00+00:00", "2026-01-01T13:00:00+00:00"]),
        ("5,10 0 * * *", &["2026-01-01T00:05:00+00:00", "2026-01-01T00:10:00+00:00"]),
        ("0 0 * * MON", &["2026-01-05T00:00:00+00:00", "2026-01-12T00:00:00+00:00"]),
        ("0 0 * * mon-tue", &["2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"]),
        ("0 0 * * 0", &["2026-01-04T00:00:00+00:00", "2026-01-11T00:00:00+00:00"]),
        ("0 0 * * 7", &["2026-01-04T00:00:00+00:00", "2026-01-11T00:00:00+00:00"]),
        ("0 0 1 FEB *", &["2026-02-01T00:00:00+00:00", "2027-02-01T00:00:00+00:00"]),
        // Both days are restricted: a match of either fires.
        ("0 0 13 * FRI", &["2026-01-02T00:00:00+00:00", "2026-01-09T00:00:00+00:00", "2026-01-13T00:00:00+00:00"]),
        ("0 0 29 2 *", &["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]),
        ("0 0 31 * *", &["2026-01-31T00:00:00+00:00", "2026-03-31T00:00:00+00:00"]),
        ("0 0 L * *", &["2026-01-31T00:00:00+00:00", "2026-02-28T00:00:00+00:00"]),
        ("15 30 3 * * *", &["2026-01-01T03:30:15+00:00", "2026-01-02T03:30:15+00:00"]),
        ("@yearly", &["2027-01-01T00:00:00+00:00"]),
        ("@monthly", &["2026-02-01T00:00:00+00:00"]),
        ("@weekly", &["2026-01-04T00:00:00+00:00"]),
        ("@daily", &["2026-01-02T00:00:00+00:00"]),
        ("@hourly", &["2026-01-01T01:00:00+00:00", "2026-01-01T02:00:00+00:00"]),
    ];
    for (cron, expected) in cases {
        assert_eq!(after(cron, "UTC", from, expected.len()), *expected, "{cron}");
    }
}

/// A time that is skipped when clocks are put forward fires once, right after the gap.
#[test]
fn a_time_in_the_gap_fires_once_right_after_it() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        // Several times in one gap fire once after it, together with a time that is due right then.
        (
            "0,30 2-3 * * *",
            "Europe/Berlin",
            "2026-03-28T23:00:00Z",
            &["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"],
        ),
        (
            "15 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            &["2026-03-08T03:00:00-04:00", "2026-03-09T02:15:00-04:00"],
        ),
        // The gap is half an hour.
        (
            "10 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            &["2026-10-04T02:30:00+11:00", "2026-10-05T02:10:00+11:00"],
        ),
        // The gap begins at midnight.
        (
            "0 0 * * *",
            "Asia/Beirut",
            "2026-03-27T23:00:00Z",
            &["2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"],
        ),
    ];
    for (cron, zone, from, expected) in cases {
        assert_eq!(after(cron, zone, from, expected.len()), *expected, "{cron} {zone}");
    }
}

/// A time that occurs twice when clocks are put back fires the first time.
#[test]
fn a_time_that_occurs_twice_fires_once() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:00:00+01:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            &["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            &["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"],
        ),
    ];
    for (cron, zone, from, expected) in cases {
        assert_eq!(after(cron, zone, from, expected.len()), *expected, "{cron} {zone}");
    }
    // Asked in the second pass, the time of the first pass is in the past.
    let berlin = table("30 2 * * *", "Europe/Berlin");
    let second_pass = at("2026-10-25T01:15:00Z");
    assert_eq!(berlin.latest(second_pass), Some(at("2026-10-25T00:30:00Z")));
    assert_eq!(berlin.next(second_pass), Some(at("2026-10-26T01:30:00Z")));
}

/// If the hours are not restricted, elapsed time counts.
#[test]
fn an_interval_follows_elapsed_time() {
    assert_eq!(
        after("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 4),
        [
            "2026-03-29T01:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:30:00+02:00",
            "2026-03-29T04:00:00+02:00"
        ]
    );
    assert_eq!(
        after("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 4),
        [
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:00:00+01:00"
        ]
    );
    assert_eq!(after("@hourly", "America/New_York", "2026-11-01T04:30:00Z", 3).len(), 3);
    // A time zone with an offset that is not a full hour.
    assert_eq!(
        after("0 * * * *", "Asia/Kathmandu", "2026-06-01T00:00:00Z", 2),
        ["2026-06-01T06:00:00+05:45", "2026-06-01T07:00:00+05:45"]
    );
    assert_eq!(table("0 6 * * *", "Asia/Kathmandu").next(at("2026-06-01T00:00:00Z")), Some(at("2026-06-01T00:15:00Z")));
}

#[test]
fn fractions_of_a_second_count() {
    let table = table("0 3 * * *", "UTC");
    assert_eq!(table.latest(at("2026-01-01T03:00:00.5Z")), Some(at("2026-01-01T03:00:00Z")));
    assert_eq!(table.latest(at("2026-01-01T02:59:59.999999Z")), Some(at("2025-12-31T03:00:00Z")));
    assert_eq!(table.next(at("2026-01-01T02:59:59.5Z")), Some(at("2026-01-01T03:00:00Z")));
    assert_eq!(table.next(at("2026-01-01T03:00:00Z")), Some(at("2026-01-02T03:00:00Z")));
}

#[test]
fn an_invalid_expression_is_refused_with_the_expected_form() {
    let cases = [
        ("61 3 * * *", "UTC", "cron", "minute \"61\""),
        ("0 25 * * *", "UTC", "cron", "hour \"25\""),
        ("0 0 * 13 *", "UTC", "cron", "month \"13\""),
        ("0 0 * * 8", "UTC", "cron", "weekday \"8\""),
        ("x 0 0 * * *", "UTC", "cron", "second \"x\""),
        ("0 3 * *", "UTC", "cron", "4 of 5 or 6 fields"),
        ("0 0 0 1 1 * 2030", "UTC", "cron", "7 of 5 or 6 fields"),
        ("", "UTC", "cron", "0 of 5 or 6 fields"),
        ("@never", "UTC", "cron", "1 of 5 or 6 fields"),
        ("0 0 30 2 *", "UTC", "cron", "no such day exists"),
        ("0 3 * * ÿ", "UTC", "cron", "expected minute hour day month weekday"),
        ("0 3 * * *", "Berlin", "zone", "did you mean \"Europe/Berlin\"?"),
        ("0 3 * * *", "Europe/Berln", "zone", "did you mean \"Europe/Berlin\"?"),
        ("0 3 * * *", "", "zone", "which is not a time zone"),
        ("0 3 * * *", "../../etc/passwd", "zone", "which is not a time zone"),
        ("0 3 * * *", "Mars/Olympus", "zone", "expected a name like \"Europe/Berlin\""),
    ];
    for (cron, zone, key, why) in cases {
        let bad = Timetable::parse(cron, zone).expect_err(cron);
        assert!(bad.key == key && bad.why.contains(why), "{cron:?} {zone:?}: {bad:?}");
    }
}

fn base(catch_up: CatchUp) -> BaseSchedule {
    BaseSchedule {
        name: "n".to_owned(),
        cron: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        enabled: true,
        workflow: None,
        context: None,
        catch_up,
        description: None,
        line: 1,
    }
}

#[test]
fn missed_times_are_handled_by_catch_up() {
    let table = table(&base(CatchUp::Latest).cron, "UTC");
    let due = |since: &str, now: &str, catch_up| rules::due(&table, at(since), at(now), catch_up);
    let (since, now) = ("2026-01-01T00:30:00Z", "2026-01-01T04:30:00Z");
    let latest = due(since, now, CatchUp::Latest);
    assert_eq!(latest.iter().map(|due| (due.at, due.missed)).collect::<Vec<_>>(), [(at("2026-01-01T04:00:00Z"), 3)]);
    let all: Vec<_> =
        due(since, now, CatchUp::All).into_iter().map(|due| due.at.to_string()[11..13].to_owned()).collect();
    assert_eq!(all, ["01", "02", "03", "04"], "in their order");
    let none = due(since, now, CatchUp::None);
    let why = "missed by more than 5 minutes, and catch_up is \"none\"; 3 earlier times were missed";
    assert_eq!((none.len(), none[0].skipped.as_deref()), (1, Some(why)), "it is recorded with the reason");
    let in_time = due(since, "2026-01-01T04:04:59Z", CatchUp::None);
    assert!(in_time.len() == 1 && in_time[0].skipped.is_none());
    for &catch_up in CatchUp::ALL {
        assert_eq!(due("2026-01-01T04:00:00Z", now, catch_up), [], "a time that was ticked is not due");
        assert_eq!(due(now, since, catch_up), [], "a clock that went back");
        // The number is bounded, however long no process ticked.
        assert!(due("1990-01-01T00:00:00Z", now, catch_up).len() <= CATCH_UP_MAX + 1);
    }
    let years = due("1990-01-01T00:00:00Z", now, CatchUp::All);
    let fired = years.iter().filter(|due| due.skipped.is_none()).count();
    assert_eq!((years.len(), fired), (CATCH_UP_MAX + 1, CATCH_UP_MAX));
    assert_eq!(years[CATCH_UP_MAX].at, at("2026-01-01T04:00:00Z"));
    let beyond = years[0].skipped.as_deref().unwrap_or_default();
    assert!(beyond.contains("every earlier one after 1990-01-01") && beyond.contains("100"), "{beyond}");
    assert_eq!(rules::told_missed(99).as_deref(), Some("99 earlier times were missed"));
    assert_eq!(rules::told_missed(100).as_deref(), Some("100 or more earlier times were missed"));
}

#[test]
fn failures_are_counted_back_to_the_last_success() {
    use CronOutcome::{Failed, Nothing, Ok, Skipped};
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    // Each was fired a second before the previous one in the list.
    let count = |standings: &[FiringStatus]| {
        let firings =
            standings.iter().enumerate().map(|(back, one)| (at(100 - i64::try_from(back).expect("few")), *one));
        let (failures, since) = rules::failures(firings);
        (failures, since.map(|since| since.as_micros() / 1_000_000))
    };
    let ended = FiringStatus::Ended;
    assert_eq!(count(&[]), (0, None));
    assert_eq!(count(&[ended(Failed), ended(Failed), ended(Ok), ended(Failed)]), (2, Some(99)));
    assert_eq!(
        count(&[FiringStatus::Running, ended(Failed), ended(Skipped), FiringStatus::Lost, ended(Nothing)]),
        (2, Some(97))
    );
    assert_eq!(count(&[ended(Ok), ended(Failed)]), (0, None));
}

#[test]
fn a_clock_was_ahead_if_it_differs_by_more_than_machines_do() {
    let ticked = at("2026-01-01T12:00:00Z");
    assert!(!rules::was_ahead(ticked, ticked) && !rules::was_ahead(ticked, at("2026-01-01T13:00:00Z")));
    assert!(
        !rules::was_ahead(ticked, at("2026-01-01T11:55:00Z")) && rules::was_ahead(ticked, at("2026-01-01T11:54:59Z"))
    );
}

/// Every schedule that can be configured can start a run.
#[test]
fn a_schedule_that_can_start_no_run_is_refused() {
    let with = |workflow: &str, name: &str, catch_up| BaseSchedule {
        workflow: Some(workflow.to_owned()),
        name: name.to_owned(),
        ..base(catch_up)
    };
    assert!(check_firing(&with("review", "n", CatchUp::All)).is_ok());
    assert!(check_firing(&with("a:b", "n", CatchUp::Latest)).is_err(), "a colon");
    assert!(check_firing(&with(" ", "n", CatchUp::Latest)).is_err(), "nothing");
    assert!(check_firing(&with(&"w".repeat(257), "n", CatchUp::Latest)).is_err(), "too long");
    assert!(check_firing(&with("review", &"n".repeat(1000), CatchUp::All)).is_err(), "no room for the due time");
    assert!(check_firing(&with("review", &"n".repeat(1000), CatchUp::Latest)).is_ok());
    assert!(check_firing(&with("review", &"n".repeat(1020), CatchUp::Latest)).is_err(), "no room for the trigger");
}

#[test]
fn the_detail_of_a_result_fits_its_column() {
    assert_eq!(rules::told(Some("done"), 1).as_deref(), Some("done; 1 earlier time was missed"));
    assert_eq!((rules::told(Some("done"), 0).as_deref(), rules::told(None, 0)), (Some("done"), None));
    assert!(rules::told(Some(&"é".repeat(8192)), 7).is_some_and(|told| told.len() <= 16 * 1024));
    let long = FiringResult::failed("é".repeat(20_000)).error.expect("told");
    assert!(long.len() <= 16 * 1024 && long.starts_with("éé"));
    assert!(FiringResult::nothing("\0".repeat(16 * 1024)).detail.is_some_and(|text| text.len() <= 16 * 1024));
    assert_eq!(FiringResult::skipped("").detail.as_deref(), Some("no reason was given"));
}

proptest! {
    /// Every expression is accepted or refused without a panic.
    #[test]
    fn no_expression_panics(cron in "[-0-9*/,?LW#A-Za-z@+ ]{0,24}|[ -~]{0,40}|(\\S{1,6} ){4}\\S{1,6}", zone in "[ -~]{0,24}") {
        let _ = Timetable::parse(&cron, "UTC");
        let _ = Timetable::parse("0 0 * * *", &zone);
    }

    /// Forward and backward searches return the same times, also around every clock change.
    #[test]
    fn the_last_time_is_the_one_that_came_next(
        zone in prop::sample::select(vec![
            "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Asia/Beirut",
            "Africa/Casablanca", "Antarctica/Troll", "UTC",
        ]),
        cron in prop::sample::select(vec![
            "30 2 * * *", "*/15 * * * *", "0 */2 * * *", "*/20 1-3 * * *", "0 0 * * *", "45 1,2 * * SUN", "7 * * * *",
            "59 59 23 * * *", "@hourly",
        ]),
        second in 1_735_689_600_i64..1_830_297_600,
    ) {
        let table = table(cron, zone);
        let now = Timestamp::from_micros(second * 1_000_000);
        let next = table.next(now).expect("there is always another");
        prop_assert!(next > now);
        prop_assert_eq!(table.latest(next), Some(next));
        let before = Timestamp::from_micros(next.as_micros() - 1);
        let last = table.latest(before).expect("there was one");
        prop_assert!(last <= now, "{} is between {} and {}", last, now, next);
        prop_assert_eq!(table.next(last), Some(next));
    }
}
