//! The next steps of a run: a sentence, and the command that does it.

use std::time::Duration;

use duolog::approvals::Approval;
use duolog::runs::Run;
use duolog::{ApprovalKind, RunStatus, Timestamp};
use duolog_wire::NextStep;

use crate::commands::approvals;
use crate::figures;

/// A run and the other facts that decide its next steps.
pub(super) struct RunSituation<'a> {
    /// The run.
    pub run: &'a Run,
    /// The gate that the run waits at, and the gates whose answers are not acknowledged.
    pub gates: &'a [Approval],
    /// True if an execution of the run is in flight.
    pub is_in_flight: bool,
    /// The number of queued runs before it; `None` if unknown.
    pub before: Option<u32>,
    /// True if its workflow is enabled.
    pub is_enabled: bool,
    /// The time after which a queued run is cancelled.
    pub queue_wait: Duration,
    /// The current time.
    pub now: Timestamp,
}

fn next(text: impl Into<String>, command: impl Into<Option<String>>) -> NextStep {
    NextStep { text: text.into(), command: command.into() }
}

/// Returns the next steps of a run.
pub(super) fn of(standing: &RunSituation<'_>) -> Vec<NextStep> {
    let id = &standing.run.summary.id;
    match standing.run.summary.status {
        RunStatus::Queued => vec![queued(standing)],
        RunStatus::Running => {
            let mut all = vec![running(standing)];
            all.extend(unconsumed(standing));
            all
        }
        RunStatus::Paused => vec![paused(standing)],
        RunStatus::Succeeded => vec![next("nothing: the run succeeded", None)],
        RunStatus::Failed | RunStatus::Cancelled if !standing.is_enabled => {
            let workflow = &standing.run.summary.workflow_name;
            vec![next(format!("the run can be retried once workflow {workflow} is enabled"), enable(workflow))]
        }
        RunStatus::Failed | RunStatus::Cancelled => {
            vec![next(
                "the run can be retried; phases that succeeded are not run again",
                format!("duolog runs retry {id}"),
            )]
        }
    }
}

fn queued(standing: &RunSituation<'_>) -> NextStep {
    let workflow = &standing.run.summary.workflow_name;
    if !standing.is_enabled {
        let text = format!("queued until workflow {workflow} is enabled");
        return next(text, enable(workflow));
    }
    let waited = standing.run.queued_at.map_or(0, |at| standing.now.as_micros().saturating_sub(at.as_micros()));
    let is_over = u128::try_from(waited).is_ok_and(|waited| waited >= standing.queue_wait.as_micros());
    if is_over && !standing.run.is_resumed {
        return next("queued for longer than runs.queue_wait: the next duolog runs admit cancels it", command("admit"));
    }
    let before = match standing.before {
        Some(0) => "queued; it is the next to start when a slot is free".to_owned(),
        Some(before) => format!("queued, {before} before it; it starts when a slot is free"),
        None => "queued; it starts when a slot is free".to_owned(),
    };
    next(before, command("admit --owner NAME"))
}

fn running(standing: &RunSituation<'_>) -> NextStep {
    let Run { summary, restart_cap, .. } = standing.run;
    let (id, lease_expires_at, now) = (&summary.id, summary.lease_expires_at, standing.now);
    let is_over = lease_expires_at.is_none_or(|until| until <= now);
    let (restart, cap) = (summary.restart_count + 1, *restart_cap);
    // A takeover is counted if the run had an owner, or has an execution in flight.
    let is_counted = summary.lease_owner.is_some() || standing.is_in_flight;
    let what = match (restart > cap, is_counted) {
        (true, true) => format!("would fail the run: {cap} of {cap} restarts are used"),
        (false, true) => format!("would resume the run, restart {restart} of {cap}"),
        (_, false) => "would claim the run".to_owned(),
    };
    match (&summary.lease_owner, lease_expires_at) {
        (Some(owner), Some(until)) if !is_over => next(
            format!("claimed by {owner}; the lease expires {} unless it is renewed", figures::ahead(until, now)),
            format!("duolog runs wait {id}"),
        ),
        (Some(_), Some(until)) => next(
            format!("the owner's lease expired {}: duolog runs recover {what}", figures::age(until, now)),
            command("recover --owner NAME"),
        ),
        (_, Some(until)) if is_over => next(
            format!(
                "not claimed in time; the deadline passed {}: duolog runs recover {what}",
                figures::age(until, now)
            ),
            command("recover --owner NAME"),
        ),
        _ => next("ready to claim", format!("duolog runs claim {id} --owner NAME")),
    }
}

fn unconsumed<'a>(standing: &'a RunSituation<'_>) -> impl Iterator<Item = NextStep> + 'a {
    let (id, fence) = (&standing.run.summary.id, standing.run.fence);
    let is_claimed = standing.run.summary.lease_owner.is_some();
    let waiting = standing.gates.iter().filter(|gate| standing.run.unconsumed.contains(&gate.id));
    waiting.map(move |gate| {
        let fence = if is_claimed { fence.to_string() } else { "N".to_owned() };
        next(
            format!("the answer to gate {} is not acknowledged yet; the owner must acknowledge it", gate.gate),
            format!("duolog runs acknowledge {id} {} --fence {fence}", gate.id),
        )
    })
}

fn paused(standing: &RunSituation<'_>) -> NextStep {
    let run = standing.run;
    let gate = standing.gates.iter().find(|gate| Some(&gate.id) == run.pending.as_ref());
    let Some(gate) = gate else {
        let by = run.actor.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        return next(format!("paused{by} until it is resumed"), format!("duolog runs resume {}", run.summary.id));
    };
    if let Some(at) = gate.expires_at.filter(|at| *at <= standing.now) {
        let text = format!("gate {} expired at {at}; the next duolog runs expire fails the run", gate.gate);
        return next(text, command("expire"));
    }
    let waits = match gate.kind {
        ApprovalKind::Approve => format!("waits for approval of gate {} (approve or reject)", gate.gate),
        ApprovalKind::Reply => format!("waits for a reply to gate {}", gate.gate),
    };
    let until = gate.expires_at.map(|at| format!("; it expires {}", figures::ahead(at, standing.now)));
    let text = waits + until.as_deref().unwrap_or_default();
    next(text, approvals::to_answer(gate))
}

/// Returns the command that enables a workflow, with the name quoted for a shell.
fn enable(workflow: &str) -> String {
    format!("duolog workflows enable {}", approvals::word(workflow))
}

fn command(rest: &str) -> String {
    format!("duolog runs {rest}")
}

#[cfg(test)]
mod tests {
    use duolog::runs::{Fence, RunSummary};
    use duolog::{ApprovalId, ApprovalStatus, RunId, TriggerType};

    use super::*;

    const NOW: i64 = 1_794_000_000_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(NOW + seconds * 1_000_000)
    }

    fn run(status: RunStatus) -> Run {
        Run {
            summary: RunSummary {
                id: RunId::parse("r").expect("an id"),
                workflow_name: "build".to_owned(),
                trigger_type: TriggerType::Cli,
                trigger_id: "t".to_owned(),
                owner: None,
                repo: None,
                issue_number: None,
                current_phase: String::new(),
                status,
                session_id: None,
                lease_owner: None,
                restart_count: 0,
                retry_count: 0,
                triggered_by: None,
                cost: None,
                tokens: None,
                started_at: at(-100),
                updated_at: at(-100),
                finished_at: None,
                lease_expires_at: None,
            },
            error: None,
            fence: Fence(7),
            restart_cap: 3,
            actor: None,
            queued_at: None,
            is_resumed: false,
            context: None,
            scratch: Vec::new(),
            phase_history: Vec::new(),
            node_statuses: Vec::new(),
            pending: None,
            unconsumed: Vec::new(),
        }
    }

    fn gate(kind: ApprovalKind) -> Approval {
        Approval {
            id: ApprovalId::parse("g").expect("an id"),
            workflow_run_id: RunId::parse("r").expect("an id"),
            gate: "ship".to_owned(),
            summary: String::new(),
            status: ApprovalStatus::Pending,
            kind,
            requested_by: None,
            responded_by: None,
            response: None,
            responded_at: None,
            created_at: at(-5),
            content_hash: None,
            expires_at: None,
            consumed_at: None,
            loop_key: None,
            iteration: None,
            output_execution_id: None,
        }
    }

    fn standing<'a>(run: &'a Run, gates: &'a [Approval]) -> RunSituation<'a> {
        RunSituation {
            run,
            gates,
            is_in_flight: false,
            before: None,
            is_enabled: true,
            queue_wait: Duration::from_hours(1),
            now: at(0),
        }
    }

    fn told(standing: &RunSituation<'_>) -> Vec<(String, String)> {
        of(standing).into_iter().map(|next| (next.text, next.command.unwrap_or_default())).collect()
    }

    fn is(told: &[(String, String)], text: &str, command: &str) {
        assert!(told.iter().any(|one| one.0.contains(text) && one.1 == command), "{text:?}, {command:?}: {told:?}");
    }

    #[test]
    fn one_that_waits_says_what_it_waits_for() {
        let mut queued = run(RunStatus::Queued);
        queued.queued_at = Some(at(-60));
        let mut before = standing(&queued, &[]);
        before.before = Some(2);
        is(&told(&before), "queued, 2 before it", "duolog runs admit --owner NAME");
        before.before = Some(0);
        is(&told(&before), "the next to start", "duolog runs admit --owner NAME");
        before.is_enabled = false;
        is(&told(&before), "queued until workflow build is enabled", "duolog workflows enable build");
        let mut long = run(RunStatus::Queued);
        long.queued_at = Some(at(-3_600));
        is(&told(&standing(&long, &[])), "longer than runs.queue_wait", "duolog runs admit");
        long.is_resumed = true;
        is(&told(&standing(&long, &[])), "when a slot is free", "duolog runs admit --owner NAME");

        let mut paused = run(RunStatus::Paused);
        paused.actor = Some("ada".to_owned());
        is(&told(&standing(&paused, &[])), "paused by ada", "duolog runs resume r");
        let mut gates = [gate(ApprovalKind::Approve)];
        paused.pending = Some(gates[0].id.clone());
        is(&told(&standing(&paused, &gates)), "waits for approval of gate ship", "duolog approvals approve g");
        gates[0].expires_at = Some(at(90));
        is(&told(&standing(&paused, &gates)), "it expires in 1m", "duolog approvals approve g");
        gates[0].expires_at = Some(at(0));
        is(&told(&standing(&paused, &gates)), "gate ship expired at", "duolog runs expire");
        let gates = [gate(ApprovalKind::Reply)];
        is(&told(&standing(&paused, &gates)), "a reply to gate ship", "duolog approvals reply g TEXT");
    }

    #[test]
    fn one_that_runs_says_who_holds_it_and_what_a_recovery_would_do() {
        let mut running = run(RunStatus::Running);
        running.summary.lease_expires_at = Some(at(42));
        is(&told(&standing(&running, &[])), "ready to claim", "duolog runs claim r --owner NAME");
        running.summary.lease_expires_at = Some(at(-180));
        is(
            &told(&standing(&running, &[])),
            "the deadline passed 3m ago: duolog runs recover would claim the run",
            "duolog runs recover --owner NAME",
        );
        let mut left = standing(&running, &[]);
        left.is_in_flight = true;
        is(&told(&left), "would resume the run, restart 1 of 3", "duolog runs recover --owner NAME");

        running.summary.lease_owner = Some("w".to_owned());
        let text = "the owner's lease expired 3m ago: duolog runs recover would resume the run, restart 1 of 3";
        is(&told(&standing(&running, &[])), text, "duolog runs recover --owner NAME");
        running.summary.restart_count = 3;
        is(
            &told(&standing(&running, &[])),
            "would fail the run: 3 of 3 restarts are used",
            "duolog runs recover --owner NAME",
        );
        running.summary.lease_expires_at = Some(at(42));
        is(&told(&standing(&running, &[])), "claimed by w; the lease expires in 42s", "duolog runs wait r");

        let gates = [gate(ApprovalKind::Approve)];
        running.unconsumed = vec![gates[0].id.clone()];
        let text = "the answer to gate ship is not acknowledged yet";
        is(&told(&standing(&running, &gates)), text, "duolog runs acknowledge r g --fence 7");
    }

    #[test]
    fn only_a_retry_leaves_an_end_and_never_a_good_one() {
        is(&told(&standing(&run(RunStatus::Succeeded), &[])), "nothing", "");
        for status in [RunStatus::Failed, RunStatus::Cancelled] {
            let ended = run(status);
            is(&told(&standing(&ended, &[])), "the run can be retried", "duolog runs retry r");
            let mut off = standing(&ended, &[]);
            off.is_enabled = false;
            is(&told(&off), "once workflow build is enabled", "duolog workflows enable build");
        }
        assert_eq!(enable("it's mine"), "duolog workflows enable 'it'\\''s mine'");
    }
}
