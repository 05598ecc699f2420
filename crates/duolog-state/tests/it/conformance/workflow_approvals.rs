use duolog_state::ConstraintKind;
use duolog_state::owned::workflow_approvals::{self, Approval};
use duolog_state::owned::workflow_runs;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, ExecutionId};

use super::{is_constraint, run, run_id, with_run};
use crate::at;

on_both_engines!(a_gate_is_resolved_once, gates_are_listed_page_by_page);

fn gate(name: &str, of: &str, kind: ApprovalKind, created: i64) -> Approval {
    Approval {
        id: ApprovalId::parse(name).expect("an approval id"),
        workflow_run_id: run_id(of),
        gate: "post_plan".to_owned(),
        summary: "look".to_owned(),
        status: ApprovalStatus::Pending,
        kind,
        requested_by: None,
        responded_by: None,
        response: None,
        responded_at: None,
        created_at: at(created),
        content_hash: None,
        expires_at: None,
        consumed_at: None,
        loop_key: None,
        iteration: None,
        output_execution_id: None,
    }
}

fn a_gate_is_resolved_once(place: &Place) {
    with_run(place, |tx| {
        let full = Approval {
            requested_by: Some("agent".to_owned()),
            content_hash: Some("abc".to_owned()),
            expires_at: Some(at(99)),
            loop_key: Some("socratic".to_owned()),
            iteration: Some(2),
            output_execution_id: Some(ExecutionId::new()),
            ..gate("a", "r", ApprovalKind::Reply, 1)
        };
        workflow_approvals::insert(tx, &full)?;
        assert_eq!(workflow_approvals::find(tx, &full.id)?, Some(full.clone()));
        assert_eq!(workflow_approvals::pending_of(tx, &run_id("r"))?, Some(full.clone()));
        let second = gate("b", "r", ApprovalKind::Approve, 2);
        let refused = tx.savepoint(|tx| workflow_approvals::insert(tx, &second));
        assert!(is_constraint(&refused, ConstraintKind::Unique), "a run has one pending gate");
        let wrong =
            tx.savepoint(|tx| workflow_approvals::resolve(tx, &full.id, ApprovalStatus::Approved, None, None, at(3)));
        assert!(is_constraint(&wrong, ConstraintKind::Check), "a reply is neither approved nor rejected");
        assert!(!workflow_approvals::consume(tx, &full.id, at(3))?, "there is no response");
        let answer = |tx: &mut _| {
            workflow_approvals::resolve(tx, &full.id, ApprovalStatus::Answered, Some("ada"), Some("blue"), at(3))
        };
        assert!(answer(tx)?);
        assert!(!answer(tx)?, "once");
        assert_eq!(workflow_approvals::pending_of(tx, &run_id("r"))?, None);
        assert_eq!(workflow_approvals::unconsumed_of(tx, &run_id("r"), 9)?, std::slice::from_ref(&full.id));
        assert!(workflow_approvals::consume(tx, &full.id, at(4))?);
        assert!(!workflow_approvals::consume(tx, &full.id, at(5))?);
        assert_eq!(workflow_approvals::unconsumed_of(tx, &run_id("r"), 9)?, []);
        let found = workflow_approvals::last_of(tx, &run_id("r"), "post_plan")?.expect("there");
        assert_eq!((found.response.as_deref(), found.consumed_at), (Some("blue"), Some(at(4))));
        assert_eq!(workflow_approvals::last_of(tx, &run_id("r"), "other")?, None);
        let large = Approval { summary: "x".repeat(REASON_BYTES_MAX + 1), ..second };
        let refused = tx.savepoint(|tx| workflow_approvals::insert(tx, &large));
        assert!(is_constraint(&refused, ConstraintKind::Check));
        Ok(())
    });
}

fn gates_are_listed_page_by_page(place: &Place) {
    with_run(place, |tx| {
        for number in 0..4 {
            let of = format!("r{number}");
            workflow_runs::insert(tx, &run(&of, number))?;
            let expires_at = (number > 1).then(|| at(20 - number));
            let row = Approval { expires_at, ..gate(&format!("g{number}"), &of, ApprovalKind::Approve, number / 2) };
            workflow_approvals::insert(tx, &row)?;
        }
        let g0 = ApprovalId::parse("g0").expect("an id");
        workflow_approvals::resolve(tx, &g0, ApprovalStatus::Rejected, None, None, at(9))?;
        let names = |rows: &[Approval]| rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>().join(" ");
        let first = workflow_approvals::list(tx, None, None, 3)?;
        assert_eq!(names(&first), "g3 g2 g1");
        let last = first.last().expect("three");
        assert_eq!(names(&workflow_approvals::list(tx, None, Some((last.created_at, &last.id)), 3)?), "g0");
        let pending = Some(ApprovalStatus::Pending);
        assert_eq!(names(&workflow_approvals::list(tx, pending, None, 9)?), "g3 g2 g1");
        let rest = workflow_approvals::list(tx, pending, Some((last.created_at, &last.id)), 9)?;
        assert_eq!(names(&rest), "");
        assert_eq!(names(&workflow_approvals::overdue(tx, at(17), 9)?), "g3");
        assert_eq!(names(&workflow_approvals::overdue(tx, at(18), 9)?), "g3 g2");
        assert_eq!(names(&workflow_approvals::of_run(tx, &run_id("r1"), None, None, 9)?), "g1");
        assert_eq!(names(&workflow_approvals::of_run(tx, &run_id("r1"), pending, None, 9)?), "g1");
        assert_eq!(names(&workflow_approvals::of_run(tx, &run_id("r0"), pending, None, 9)?), "");
        let g1 = ApprovalId::parse("g1").expect("an id");
        assert_eq!(names(&workflow_approvals::of_run(tx, &run_id("r1"), None, Some((at(0), &g1)), 9)?), "");
        assert_eq!(workflow_approvals::starting_with(tx, "g", 2)?, [g0, g1]);
        Ok(())
    });
}
