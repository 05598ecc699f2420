use duolog_state::owned::cron_runs::{self, CronEnd, CronRunRow};
use duolog_state::{ConstraintKind, Error};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{CronOutcome, CronRunId, Durability, ProcessId};

use super::is_constraint;
use crate::{at, home};

on_both_engines!(a_due_time_is_claimed_once_and_finished_once, firings_are_listed_by_due_time);

fn run(name: &str, due: i64) -> CronRunRow {
    CronRunRow {
        id: CronRunId::new(),
        name: name.to_owned(),
        workflow: Some("review".to_owned()),
        due_at: at(due),
        started_at: at(due + 1),
        finished_at: None,
        outcome: None,
        error: None,
        detail: Some("2 earlier times were missed".to_owned()),
        workflow_run_id: None,
        home_id: home(),
        process_id: ProcessId::new(),
        actor: Some("ada".to_owned()),
    }
}

fn a_due_time_is_claimed_once_and_finished_once(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let row = run("nightly", 10);
        assert!(cron_runs::claim(tx, &row)?);
        assert!(!cron_runs::claim(tx, &run("nightly", 10))?, "it is claimed already");
        assert!(cron_runs::claim(tx, &run("other", 10))?);
        assert_eq!(cron_runs::find(tx, row.id)?.as_ref(), Some(&row));
        assert_eq!(cron_runs::find(tx, CronRunId::new())?, None);
        let end = CronEnd {
            finished_at: at(12),
            outcome: CronOutcome::Failed,
            error: Some("it broke".to_owned()),
            detail: None,
            workflow_run_id: Some("r".to_owned()),
        };
        assert!(cron_runs::finish(tx, row.id, &end)?);
        assert!(!cron_runs::finish(tx, row.id, &end)?, "it has ended already");
        let ended = CronRunRow {
            finished_at: Some(at(12)),
            outcome: Some(CronOutcome::Failed),
            error: end.error.clone(),
            workflow_run_id: end.workflow_run_id.clone(),
            ..row
        };
        assert_eq!(cron_runs::find(tx, ended.id)?, Some(ended), "an unset detail keeps the earlier one");
        let open = run("open", 1);
        cron_runs::claim(tx, &open)?;
        let large = CronEnd { error: Some("x".repeat(REASON_BYTES_MAX + 1)), ..end };
        let refused = tx.savepoint(|tx| cron_runs::finish(tx, open.id, &large));
        assert!(is_constraint(&refused, ConstraintKind::Check), "{refused:?}");
        let half = CronRunRow { finished_at: Some(at(3)), ..run("half", 1) };
        let refused = tx.savepoint(|tx| cron_runs::claim(tx, &half));
        assert!(is_constraint(&refused, ConstraintKind::Check), "an end has an outcome: {refused:?}");
        Ok::<_, Error>(())
    });
    done.expect("writes");
}

fn firings_are_listed_by_due_time(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let rows = [run("b", 10), run("a", 10), run("a", 20), run("a", 30)];
        for row in &rows {
            assert!(cron_runs::claim(tx, row)?);
        }
        let [b10, a10, a20, a30] = rows;
        assert_eq!(cron_runs::newest_of(tx, "a", None, 9)?, [a30.clone(), a20.clone(), a10.clone()]);
        assert_eq!(cron_runs::newest_of(tx, "a", Some(at(30)), 1)?, std::slice::from_ref(&a20));
        assert_eq!(cron_runs::last_outcomes(tx, "a", 2)?, [(at(31), None), (at(21), None)]);
        assert_eq!(cron_runs::newest(tx, None, 9)?, [a30.clone(), a20, b10.clone(), a10.clone()]);
        assert_eq!(cron_runs::newest(tx, Some((at(10), "b")), 9)?, [a10]);
        assert_eq!(cron_runs::newest(tx, Some((at(20), "a")), 1)?, [b10]);
        assert_eq!(cron_runs::newest(tx, None, 1)?, [a30]);
        Ok::<_, Error>(())
    });
    done.expect("writes");
}
