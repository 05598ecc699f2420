use duolog_state::owned::workflow_runs::{self, QueuePlace, RunFilter, RunRow, RunsOf};
use duolog_state::{ConstraintKind, Error, Sql, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{RunId, RunStatus, Timestamp, TriggerType};

use super::{is_constraint, run, run_id, run_with_status, with_run, with_session};
use crate::{at, id};

on_both_engines!(
    a_run_reads_back_as_inserted,
    a_run_changes_only_from_the_expected_row,
    a_trigger_has_one_active_run,
    inconsistent_runs_are_refused,
    runs_are_listed_by_each_index,
    every_list_is_read_from_its_index_in_order,
    the_queue_and_the_expired_are_found,
    a_view_has_a_complete_run_in_one_row
);

fn a_run_reads_back_as_inserted(place: &Place) {
    with_session(place, |tx| {
        let full = RunRow {
            trigger_type: TriggerType::Webhook,
            owner: Some("o".to_owned()),
            repo: Some("r".to_owned()),
            issue_number: Some(7),
            current_phase: "plan".to_owned(),
            session_id: Some(id("s")),
            lease_owner: Some("w".to_owned()),
            fence: 4,
            restart_count: 3,
            retry_count: 2,
            triggered_by: Some("ada".to_owned()),
            actor: Some("bob".to_owned()),
            phases: 1,
            phases_bytes: 2,
            scratch_bytes: 3,
            nodes_bytes: 4,
            cost_picos: Some(5),
            tokens: Some(6),
            ..run("full", 1)
        };
        workflow_runs::insert(tx, &full)?;
        assert_eq!(workflow_runs::find(tx, &full.id)?, Some(full.clone()));
        assert_eq!(workflow_runs::enter(tx, &full.id)?, Some(full.clone()));
        assert_eq!(workflow_runs::enter(tx, &run_id("none"))?, None);
        assert_eq!(workflow_runs::find(tx, &run_id("none"))?, None);
        assert_eq!(workflow_runs::starting_with(tx, "fu", 9)?, [full.id]);
        assert_eq!(workflow_runs::starting_with(tx, "%", 9)?, []);
        Ok(())
    });
}

fn a_run_changes_only_from_the_expected_row(place: &Place) {
    with_run(place, |tx| {
        let before = run("r", 1);
        let noted = RunRow {
            current_phase: "plan".to_owned(),
            lease_owner: Some("w".to_owned()),
            fence: 1,
            updated_at: at(5),
            ..before.clone()
        };
        assert!(workflow_runs::put(tx, &before, &noted)?);
        assert!(!workflow_runs::put(tx, &before, &noted)?, "it has another claim");
        assert_eq!(workflow_runs::find(tx, &before.id)?, Some(noted.clone()));
        let paused = RunRow { status: RunStatus::Paused, lease_owner: None, lease_expires_at: None, ..noted.clone() };
        assert!(workflow_runs::put(tx, &noted, &paused)?);
        assert!(!workflow_runs::put(tx, &noted, &paused)?, "it is not running any more");
        let failed = RunRow { status: RunStatus::Failed, finished_at: Some(at(6)), ..paused.clone() };
        assert!(workflow_runs::put(tx, &paused, &failed)?);
        let queued = RunRow {
            status: RunStatus::Queued,
            queued: Some(QueuePlace { is_resumed: true, ord: 9, at: at(7) }),
            finished_at: None,
            ..failed.clone()
        };
        assert!(workflow_runs::put(tx, &failed, &queued)?);
        assert_eq!(workflow_runs::find(tx, &before.id)?, Some(queued));
        Ok(())
    });
}

fn a_trigger_has_one_active_run(place: &Place) {
    with_run(place, |tx| {
        let again = RunRow { id: run_id("again"), ..run("r", 2) };
        let refused = tx.savepoint(|tx| workflow_runs::insert(tx, &again));
        assert!(is_constraint(&refused, ConstraintKind::Unique));
        assert_eq!(workflow_runs::find_active(tx, "build", "r")?.map(|row| row.id), Some(run_id("r")));
        let other = RunRow { workflow_name: "other".to_owned(), ..again.clone() };
        workflow_runs::insert(tx, &other)?;
        let ended =
            RunRow { id: run_id("ended"), trigger_id: "r".to_owned(), ..run_with_status(RunStatus::Failed, "x", 1) };
        workflow_runs::insert(tx, &ended)?;
        assert_eq!(workflow_runs::find_active(tx, "build", "none")?, None);
        assert_eq!(workflow_runs::names(tx, "", 9)?, ["build", "other"]);
        assert_eq!(workflow_runs::names(tx, "build", 9)?, ["other"]);
        assert_eq!(workflow_runs::names(tx, "", 1)?, ["build"]);
        Ok(())
    });
}

fn inconsistent_runs_are_refused(place: &Place) {
    with_run(place, |tx| {
        let fresh = |status| run_with_status(status, "new", 1);
        let wrong = [
            RunRow { restart_count: 4, ..fresh(RunStatus::Running) },
            RunRow { queued: None, ..fresh(RunStatus::Queued) },
            RunRow { lease_expires_at: None, ..fresh(RunStatus::Running) },
            RunRow { lease_owner: Some("w".to_owned()), ..fresh(RunStatus::Paused) },
            RunRow { finished_at: None, ..fresh(RunStatus::Succeeded) },
            RunRow { scratch_bytes: (1 << 20) + 1, ..fresh(RunStatus::Running) },
            RunRow { workflow_name: "x".repeat(257), ..fresh(RunStatus::Running) },
        ];
        for row in wrong {
            let refused = tx.savepoint(|tx| workflow_runs::insert(tx, &row));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{row:?}");
        }
        Ok(())
    });
}

fn fill(tx: &mut Tx<'_>) -> Result<(), Error> {
    for number in 0..12_i64 {
        // Pairs share a timestamp: the id decides, and no row is shown twice or left out.
        let status = RunStatus::ALL[usize::try_from(number).expect("small") % 6];
        let row = RunRow {
            workflow_name: if number % 2 == 0 { "even" } else { "odd" }.to_owned(),
            owner: (number % 4 == 0).then(|| "o".to_owned()),
            repo: (number % 2 == 0).then(|| "p".to_owned()),
            ..run_with_status(status, &format!("r{number:02}"), number / 2)
        };
        workflow_runs::insert(tx, &row)?;
    }
    Ok(())
}

fn walk(tx: &mut Tx<'_>, of: &RunsOf, since: Option<Timestamp>) -> Result<String, Error> {
    let (mut seen, mut after): (Vec<String>, Option<(Timestamp, RunId)>) = (Vec::new(), None);
    loop {
        let rows = workflow_runs::list(tx, of, since, after.as_ref().map(|(at, id)| (*at, id)), 2)?;
        let Some(last) = rows.last() else { return Ok(seen.join(" ")) };
        after = Some((last.started_at, last.id.clone()));
        seen.extend(rows.into_iter().map(|row| row.id.to_string()));
    }
}

fn runs_are_listed_by_each_index(place: &Place) {
    with_session(place, |tx| {
        fill(tx)?;
        assert_eq!(walk(tx, &RunsOf::All, None)?, "r11 r10 r09 r08 r07 r06 r05 r04 r03 r02 r01 r00");
        assert_eq!(walk(tx, &RunsOf::All, Some(at(4)))?, "r11 r10 r09 r08");
        assert_eq!(walk(tx, &RunsOf::Status(RunStatus::Paused), None)?, "r08 r02");
        assert_eq!(walk(tx, &RunsOf::Workflow("odd".to_owned()), None)?, "r11 r09 r07 r05 r03 r01");
        assert_eq!(walk(tx, &RunsOf::Repo(Some("o".to_owned()), "p".to_owned()), None)?, "r08 r04 r00");
        assert_eq!(walk(tx, &RunsOf::Repo(None, "p".to_owned()), None)?, "r10 r08 r06 r04 r02 r00");
        assert_eq!(walk(tx, &RunsOf::Trigger("r05".to_owned()), None)?, "r05");
        let count = |tx: &mut Tx<'_>, filter: RunFilter| workflow_runs::count(tx, &filter);
        assert_eq!(count(tx, RunFilter::default())?, 12);
        let statuses = vec![RunStatus::Paused, RunStatus::Queued];
        assert_eq!(count(tx, RunFilter { statuses: statuses.clone(), ..RunFilter::default() })?, 4);
        let all = RunFilter {
            statuses,
            workflow_name: Some("even".to_owned()),
            repo: Some((None, "p".to_owned())),
            trigger_id: Some("r06".to_owned()),
            since: Some(at(3)),
        };
        assert_eq!(count(tx, all)?, 1);
        assert_eq!(workflow_runs::count_running(tx)?, 2);
        let counts = workflow_runs::count_by_status(tx)?;
        assert!(counts.len() == 6 && counts.iter().all(|(_, count)| *count == 2), "{counts:?}");
        Ok(())
    });
}

fn every_list_is_read_from_its_index_in_order(place: &Place) {
    let state = place.open();
    for (of, index) in [
        (RunsOf::All, "workflow_runs_started_at"),
        (RunsOf::Status(RunStatus::Failed), "workflow_runs_by_status"),
        (RunsOf::Workflow("w".to_owned()), "workflow_runs_by_name"),
        (RunsOf::Repo(Some("o".to_owned()), "p".to_owned()), "workflow_runs_by_repo"),
        (RunsOf::Repo(None, "p".to_owned()), "workflow_runs_by_bare_repo"),
        (RunsOf::Trigger("t".to_owned()), "workflow_runs_by_trigger"),
    ] {
        for (since, after) in [(None, None), (Some(at(1)), None), (Some(at(1)), Some(at(5))), (None, Some(at(5)))] {
            let after_id = run_id("r");
            let explain = |tx: &mut Tx<'_>| {
                // An empty table may be scanned and sorted.
                for way in ["enable_seqscan", "enable_bitmapscan"] {
                    let off = format!("SELECT set_config('{way}', 'off', true)");
                    tx.find(Sql::each("SELECT 1", &off), &[], |_| Ok(()))?;
                }
                workflow_runs::explain_list(tx, &of, since, after.map(|at| (at, &after_id)))
            };
            let plan = state.read(explain).expect("explains").join("\n");
            assert!(
                plan.to_lowercase().contains(&format!("using {index}"))
                    || plan.contains(&format!("USING INDEX {index}")),
                "{of:?}: {plan}"
            );
            let is_whole = of == RunsOf::All && since.is_none() && after.is_none();
            assert!(is_whole || !plan.contains("SCAN workflow_runs"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("Sort") && !plan.contains("Seq"), "{plan}");
        }
    }
}

fn the_queue_and_the_expired_are_found(place: &Place) {
    with_session(place, |tx| {
        fill(tx)?;
        let ids = |rows: Vec<RunRow>| rows.into_iter().map(|row| row.id.to_string()).collect::<Vec<_>>().join(" ");
        let queue = workflow_runs::queued(tx, None, 9)?;
        let (first, second) = (queue[0].queued, queue[1].clone());
        assert_eq!(ids(queue), "r00 r06");
        assert_eq!(ids(workflow_runs::queued(tx, first, 9)?), "r06");
        // A resumed run comes first, whenever it was queued.
        let resumed = QueuePlace { is_resumed: true, ord: 99, at: at(9) };
        assert!(workflow_runs::put(tx, &second, &RunRow { queued: Some(resumed), ..second.clone() })?);
        assert_eq!(ids(workflow_runs::queued(tx, None, 9)?), "r06 r00");
        assert_eq!(ids(workflow_runs::queued(tx, Some(resumed), 9)?), "r00");
        assert_eq!(workflow_runs::restart_wait(tx, &second.workflow_name, at(500))?, 2);
        let waits = workflow_runs::find(tx, &second.id)?.and_then(|row| row.queued);
        assert_eq!(waits, Some(QueuePlace { at: at(500), ..resumed }), "it keeps its position");
        let mut expired = |now, after: Option<&_>, limit| workflow_runs::expired(tx, now, after, limit).expect("reads");
        let ids = |rows: &[workflow_runs::ClaimableRun]| rows.iter().map(|(_, id, _)| id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&expired(at(62), None, 9)), [run_id("r01")]);
        assert_eq!(ids(&expired(at(63), None, 9)), [run_id("r07"), run_id("r01")]);
        let first = expired(at(63), None, 1);
        assert_eq!(ids(&first), [run_id("r07")]);
        let after = first.first().map(|(at, id, _)| (*at, id.clone()));
        assert_eq!(ids(&expired(at(63), after.as_ref(), 9)), [run_id("r01")]);
        let mut claimable = |now, after: Option<&_>| workflow_runs::claimable(tx, now, after, 9).expect("reads");
        assert_eq!(ids(&claimable(at(63), None)), [run_id("r01"), run_id("r07")], "oldest first");
        assert_eq!(ids(&claimable(at(63), after.as_ref())), []);
        assert_eq!(ids(&claimable(at(62), None)), [run_id("r01"), run_id("r07")], "r07 has no claim");
        Ok(())
    });
}

fn a_view_has_a_complete_run_in_one_row(place: &Place) {
    use duolog_state::owned::{execution_bodies, execution_bodies::OutputRow, workflow_run_scratch};
    use duolog_state::owned::{executions, workflow_run_bodies, workflow_run_nodes, workflow_run_phases};

    with_run(place, |tx| {
        let (run, e) = (run_id("r"), super::execution("e", "plan", 1));
        let whole = |tx: &mut Tx<'_>| {
            let sql = "SELECT phase_history, scratch, node_statuses, context FROM workflow_runs_whole WHERE id = 'r'";
            tx.find(sql, &[], |row| {
                Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<String>(2)?, row.get::<Option<String>>(3)?))
            })
        };
        assert_eq!(whole(tx)?, Some(("[]".to_owned(), "{}".to_owned(), "{}".to_owned(), None)));
        workflow_run_bodies::insert(tx, &run, Some("{\"c\":1}"))?;
        workflow_run_scratch::put(tx, &run, "a \"ü\"", "[1]")?;
        workflow_run_scratch::put(tx, &run, "b", "null")?;
        workflow_run_nodes::put(tx, &run, "n", "\"done\"")?;
        workflow_run_phases::insert(tx, &run, 1, "{\"phase\":\"two\"}")?;
        workflow_run_phases::insert(tx, &run, 0, "{\"phase\":\"one\"}")?;
        let expected = (
            "[{\"phase\":\"one\"},{\"phase\":\"two\"}]".to_owned(),
            "{\"a \\\"ü\\\"\":[1],\"b\":null}".to_owned(),
            "{\"n\":\"done\"}".to_owned(),
            Some("{\"c\":1}".to_owned()),
        );
        assert_eq!(whole(tx)?, Some(expected));
        executions::insert(tx, &e)?;
        execution_bodies::put(tx, &e.id, &OutputRow { text: "said".to_owned(), bytes: 4, blob: None })?;
        let sql = "SELECT output_text, cost_usd FROM executions_whole WHERE id = 'e'";
        let told = tx.find(sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<Option<f64>>(1)?)))?;
        assert_eq!(told, Some(("said".to_owned(), None)));
        Ok(())
    });
}
