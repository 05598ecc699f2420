use duolog_state::ConstraintKind;
use duolog_state::owned::executions::{self, EndRow, ExecutionRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{ExecutionId, TriggerType};

use super::{execution, is_constraint, run_id, with_run};
use crate::{at, id};

on_both_engines!(
    an_execution_reads_back_as_inserted,
    standing_returns_the_execution_of_a_phase,
    executions_are_listed_page_by_page
);

fn end(success: bool, error: Option<&str>) -> EndRow {
    EndRow {
        finished_at: at(50),
        success,
        error: error.map(str::to_owned),
        turns: Some(1),
        duration_ms: Some(2),
        cost_picos: Some(3),
        input_tokens: Some(4),
        cache_creation_input_tokens: Some(5),
        cache_read_input_tokens: Some(6),
        output_tokens: Some(7),
        api_duration_ms: Some(8),
        stop_reason: Some("success".to_owned()),
    }
}

fn an_execution_reads_back_as_inserted(place: &Place) {
    with_run(place, |tx| {
        let full = ExecutionRow {
            owner: Some("o".to_owned()),
            repo: Some("r".to_owned()),
            issue_number: Some(7),
            triggered_by: Some("ada".to_owned()),
            session_id: Some(id("s")),
            ..execution("e", "plan", 1)
        };
        executions::insert(tx, &full)?;
        assert_eq!(executions::find(tx, &full.id)?, Some(full.clone()));
        assert_eq!(executions::find(tx, &ExecutionId::new())?, None);
        assert_eq!(executions::starting_with(tx, "e", 9)?, std::slice::from_ref(&full.id));
        assert_eq!(executions::starting_with(tx, "%", 9)?, []);
        assert!(executions::set_session(tx, &full.id, &id("other"))?);
        assert!(executions::finish(tx, &full.id, &end(true, None))?);
        assert!(!executions::finish(tx, &full.id, &end(false, Some("late")))?, "it ended");
        let ended = ExecutionRow { session_id: Some(id("other")), end: Some(end(true, None)), ..full.clone() };
        assert_eq!(executions::find(tx, &full.id)?, Some(ended.clone()));
        let whole = ExecutionRow { id: ExecutionId::new(), ..ended };
        executions::insert(tx, &whole)?;
        assert_eq!(executions::find(tx, &whole.id)?, Some(whole.clone()));
        let long = end(false, Some(&"x".repeat(REASON_BYTES_MAX + 1)));
        let long = ExecutionRow { id: ExecutionId::new(), end: Some(long), ..whole.clone() };
        assert!(is_constraint(&tx.savepoint(|tx| executions::insert(tx, &long)), ConstraintKind::Check));
        let orphan = ExecutionRow { id: ExecutionId::new(), workflow_run_id: Some(run_id("none")), ..whole };
        assert!(is_constraint(&tx.savepoint(|tx| executions::insert(tx, &orphan)), ConstraintKind::ForeignKey));
        Ok(())
    });
}

fn standing_returns_the_execution_of_a_phase(place: &Place) {
    with_run(place, |tx| {
        let (run, skill) = (run_id("r"), "build:plan");
        assert_eq!(executions::standing(tx, &run, skill)?, None);
        let first = execution("e1", "plan", 1);
        executions::insert(tx, &first)?;
        assert_eq!(executions::standing(tx, &run, skill)?, Some((first.id.clone(), true)));
        let second = tx.savepoint(|tx| executions::insert(tx, &execution("e2", "plan", 2)));
        assert!(is_constraint(&second, ConstraintKind::Unique), "a phase has one execution in flight");
        executions::finish(tx, &first.id, &end(false, Some("it broke")))?;
        assert_eq!(executions::standing(tx, &run, skill)?, None, "a failed phase must run again");
        let second = execution("e2", "plan", 2);
        executions::insert(tx, &second)?;
        assert_eq!(executions::in_flight(tx, &run, "", 9)?, std::slice::from_ref(&second));
        executions::finish(tx, &second.id, &end(true, None))?;
        assert_eq!(executions::standing(tx, &run, skill)?, Some((second.id, false)));
        assert_eq!(executions::in_flight(tx, &run, "", 9)?, []);
        let chat = ExecutionRow { workflow_run_id: None, skill: "chat".to_owned(), ..execution("c1", "x", 1) };
        executions::insert(tx, &chat)?;
        executions::insert(tx, &ExecutionRow { id: ExecutionId::new(), ..chat })?;
        Ok(())
    });
}

fn executions_are_listed_page_by_page(place: &Place) {
    with_run(place, |tx| {
        for (name, phase, started) in [("e1", "b", 1), ("e2", "a", 2), ("e3", "b", 3), ("e4", "a", 2)] {
            let row = ExecutionRow { end: Some(end(false, Some(name))), ..execution(name, phase, started) };
            executions::insert(tx, &row)?;
        }
        let names = |rows: &[ExecutionRow]| rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>().join(" ");
        let first = executions::of_run(tx, &run_id("r"), None, 3)?;
        assert_eq!(names(&first), "e2 e4 e1");
        assert_eq!(names(&executions::of_run(tx, &run_id("r"), first.last(), 3)?), "e3");
        assert_eq!(names(&executions::of_trigger(tx, TriggerType::Cli, "r", None, 3)?), "e3 e4 e2");
        let behind = Some((at(3), &ExecutionId::parse("e3").expect("an id")));
        assert_eq!(names(&executions::of_trigger(tx, TriggerType::Cli, "r", behind, 9)?), "e4 e2 e1");
        assert_eq!(executions::of_trigger(tx, TriggerType::Api, "r", None, 3)?, []);
        let newest = executions::with_error(tx, None, 2)?;
        assert_eq!(names(&newest), "e3 e4");
        let last = newest.last().expect("two");
        let rest = executions::with_error(tx, Some((last.started_at, &last.id)), 9)?;
        assert_eq!(names(&rest), "e2 e1");
        Ok(())
    });
}
