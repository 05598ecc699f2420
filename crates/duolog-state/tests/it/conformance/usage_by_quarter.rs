use duolog_state::derived::usage_by_quarter::{
    self, Grouping, UsageChange, UsageFilter, UsageGroup, UsageRow, UsageSum, UsedRow,
};
use duolog_state::owned::sessions;
use duolog_state::{Error, PageOrder, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Charge, SessionId};

use super::{log_of, remove_session, with_session};
use crate::{at, id, session};

on_both_engines!(
    rows_change_and_are_deleted_at_zero,
    counts_are_clamped_to_their_columns,
    pages_of_groups_add_up_to_the_total,
    deleted_sessions_are_not_counted
);

fn used(input: u64, cost_picos: u128) -> UsedRow {
    UsedRow {
        responses: 1,
        input,
        output: 2,
        cache_read: 3,
        cache_write_5m: 4,
        cache_write_1h: 5,
        reasoning: 1,
        cost_picos,
    }
}

/// Returns the first quarter hour of a day.
fn quarter(day: &str) -> String {
    if day.is_empty() { String::new() } else { format!("{day}T00:00:00.000000Z") }
}

fn add(day: &str, model: &str, charge: Charge, added: UsedRow) -> UsageChange {
    UsageChange { quarter: quarter(day), model: model.to_owned(), charge, added, removed: UsedRow::default() }
}

fn rows_change_and_are_deleted_at_zero(place: &Place) {
    with_session(place, |tx| {
        let up = add("2026-01-01", "m", Charge::Stated, used(10, 1_500_000));
        usage_by_quarter::change(tx, &id("s"), &[up.clone(), up.clone()])?;
        let both = UsedRow {
            responses: 2,
            input: 20,
            output: 4,
            cache_read: 6,
            cache_write_5m: 8,
            cache_write_1h: 10,
            reasoning: 2,
            cost_picos: 3_000_000,
        };
        let row = UsageRow {
            session_id: id("s"),
            quarter: quarter("2026-01-01"),
            model: "m".to_owned(),
            charge: Charge::Stated,
            used: both,
        };
        assert_eq!(usage_by_quarter::dump(tx)?, [row]);
        let down = UsageChange { added: UsedRow::default(), removed: used(10, 1_500_000), ..up.clone() };
        usage_by_quarter::change(tx, &id("s"), std::slice::from_ref(&down))?;
        assert_eq!(usage_by_quarter::dump(tx)?[0].used, used(10, 1_500_000));
        usage_by_quarter::change(tx, &id("s"), &[down.clone(), down])?;
        assert_eq!(usage_by_quarter::dump(tx)?, [], "never below zero");
        usage_by_quarter::change(tx, &id("s"), &[up])?;
        usage_by_quarter::forget(tx, &id("s"))?;
        assert_eq!(usage_by_quarter::dump(tx)?, []);
        Ok(())
    });
}

fn counts_are_clamped_to_their_columns(place: &Place) {
    with_session(place, |tx| {
        let most = UsedRow { input: u64::MAX, cost_picos: u128::MAX, ..UsedRow::default() };
        usage_by_quarter::change(tx, &id("s"), &[add("", "", Charge::Bare, most)])?;
        let kept = usage_by_quarter::dump(tx)?[0].used;
        assert_eq!(kept.input, i64::MAX.cast_unsigned());
        assert!(kept.cost_picos > 1 << 80);
        Ok(())
    });
}

/// Inserts two users, three days, two models and two agents.
fn fill(tx: &mut Tx<'_>) -> Result<(), Error> {
    for (name, user, agent, second) in
        [("a", "ada", Some("coder"), 30), ("b", "bob", Some("coder"), 20), ("c", "ada", None, 10)]
    {
        let mut row = session(name);
        row.user_id = Some(user.to_owned());
        row.agent_name = agent.map(str::to_owned);
        // The sessions that were created last changed first.
        (row.created_at, row.updated_at) = (at(9 - second / 10), at(second));
        sessions::insert(tx, &row)?;
    }
    let bare = |day: &str, model: &str, input| add(day, model, Charge::Bare, used(input, 0));
    usage_by_quarter::change(tx, &id("a"), &[bare("2026-01-01", "m", 1), bare("2026-01-02", "n", 2)])?;
    usage_by_quarter::change(tx, &id("b"), &[bare("2026-01-02", "m", 4), bare("2026-01-03", "m", 8)])?;
    usage_by_quarter::change(tx, &id("c"), &[bare("", "", 16), add("2026-01-03", "n", Charge::Stated, used(32, 7))])
}

fn keys(groups: &[UsageGroup]) -> Vec<&str> {
    groups.iter().map(|group| group.key.as_str()).collect()
}

fn inputs(sums: &[UsageSum]) -> Vec<(&str, &str, u64)> {
    sums.iter().map(|sum| (sum.key.as_str(), sum.model.as_str(), sum.used.input)).collect()
}

fn pages_of_groups_add_up_to_the_total(place: &Place) {
    with_session(place, |tx| {
        fill(tx)?;
        let all = UsageFilter::default();
        let expected: [(Grouping, &[&str]); 4] = [
            (Grouping::Session(PageOrder::Updated), &["a", "b", "c"]),
            (Grouping::Session(PageOrder::Created), &["c", "b", "a"]),
            (Grouping::Model, &["", "m", "n"]),
            (Grouping::Workflow, &["", "coder"]),
        ];
        for (by, expected) in expected {
            let whole = usage_by_quarter::groups(tx, by, &all, None, 9)?;
            assert_eq!(keys(&whole), expected, "{by:?}");
            let mut paged = Vec::new();
            while let [group] = &usage_by_quarter::groups(
                tx,
                by,
                &all,
                paged.last().map(|last: &UsageGroup| last.order.as_str()),
                1,
            )?[..]
            {
                paged.push(group.clone());
            }
            assert_eq!(paged, whole, "{by:?}");
            let sum: u64 = usage_by_quarter::sums(tx, by, &all, &whole)?.iter().map(|sum| sum.used.input).sum();
            assert_eq!(sum, 63, "{by:?}");
            assert_eq!(usage_by_quarter::sums(tx, by, &all, &[])?, []);
        }
        let quarters = usage_by_quarter::quarters(tx, &all, Some(&quarter("2026-01-03")))?;
        let (first, second) = (quarter("2026-01-01"), quarter("2026-01-02"));
        assert_eq!(inputs(&quarters), [(&*second, "m", 4), (&*second, "n", 2), (&*first, "m", 1), ("", "", 16)]);
        assert_eq!(usage_by_quarter::quarters(tx, &all, None)?.iter().map(|sum| sum.used.input).sum::<u64>(), 63);
        let total = usage_by_quarter::total(tx, &all)?;
        assert_eq!(inputs(&total), [("", "", 16), ("", "m", 13), ("", "n", 2), ("", "n", 32)]);
        assert_eq!(total[3].used.cost_picos, 7);
        let some = UsageFilter {
            user_id: Some("ada".to_owned()),
            since: Some(quarter("2026-01-02")),
            until: Some(quarter("2026-01-03")),
        };
        assert_eq!(inputs(&usage_by_quarter::total(tx, &some)?), [("", "n", 2)]);
        assert_eq!(keys(&usage_by_quarter::groups(tx, Grouping::Session(PageOrder::Updated), &some, None, 9)?), ["a"]);
        let until = UsageFilter { until: Some(quarter("2026-01-02")), ..UsageFilter::default() };
        assert_eq!(
            inputs(&usage_by_quarter::total(tx, &until)?),
            [("", "m", 1)],
            "usage without a timestamp is not before any"
        );
        Ok(())
    });
}

fn deleted_sessions_are_not_counted(place: &Place) {
    with_session(place, |tx| {
        fill(tx)?;
        let left = |tx: &mut Tx<'_>, session: &SessionId| {
            sessions::tombstone(tx, session, &log_of(session), at(40))?;
            let total = usage_by_quarter::total(tx, &UsageFilter::default())?;
            Ok::<_, Error>(total.iter().map(|sum| sum.used.input).sum::<u64>())
        };
        assert_eq!(left(tx, &id("b"))?, 51);
        assert_eq!(
            keys(&usage_by_quarter::groups(
                tx,
                Grouping::Session(PageOrder::Updated),
                &UsageFilter::default(),
                None,
                9
            )?),
            ["a", "c"]
        );
        remove_session(tx, &id("a"))?;
        assert!(
            usage_by_quarter::dump(tx)?.iter().all(|row| row.session_id != id("a")),
            "rows are deleted with their session"
        );
        Ok(())
    });
}
