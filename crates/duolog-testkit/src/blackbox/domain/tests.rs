use std::time::Duration;

use super::super::command::{CommandOutput, Outcome};
use super::super::history::Span;
use super::super::worker::CommandRun;
use super::json::{elements, lenient, member};
use super::linear::{Attempt, explained};
use super::run::{Execution, GeneratedId, Run};
use super::run_commands::{Command, LoopAt};

fn tried(command: Command, outcome: Outcome) -> Attempt<Command> {
    let ran = CommandOutput {
        outcome,
        code: Some(i32::from(outcome != Outcome::Done)),
        stdout: Vec::new(),
        stderr: String::new(),
        crashed: false,
        took: Duration::ZERO,
    };
    Attempt { command, done: CommandRun { step: 0, span: Span { start: 0, end: 1 }, ran } }
}

fn running() -> Run {
    let execution = Execution { phase: "build".to_owned(), outcome: "in_flight".to_owned(), ..Execution::default() };
    let execution = Execution { id: GeneratedId("e".to_owned()), ..execution };
    Run { status: "running".to_owned(), executions: vec![execution], ..Run::default() }
}

fn end(mark: &str) -> Command {
    let text = Some(mark.to_owned());
    Command::End {
        execution: "e".to_owned(),
        fence: None,
        error: false,
        output: text.clone(),
        summary: text,
        cost: "0.25".to_owned(),
    }
}

fn ended(output: &str, summaries: &[&str]) -> Run {
    let mut run = running();
    run.executions[0].outcome = "succeeded".to_owned();
    run.executions[0].cost = 250_000;
    run.executions[0].output = Some(output.to_owned());
    run.cost = 250_000;
    run.history = summaries.iter().map(|summary| ("build".to_owned(), true, (*summary).to_owned())).collect();
    run
}

#[test]
fn one_of_two_ends_explains_the_state() {
    let both = [tried(end("a"), Outcome::Done), tried(end("b"), Outcome::Refused)];
    assert!(explained(&running(), &both, &ended("a", &["a"])).is_some());
    assert!(explained(&running(), &both, &ended("b", &["a"])).is_none(), "the output of the loser");
    assert!(explained(&running(), &both, &ended("a", &["a", "b"])).is_none(), "the history of the loser");
    assert!(explained(&running(), &both, &running()).is_none(), "nothing of the winner");
}

#[test]
fn two_winners_are_reported() {
    let both = [tried(end("a"), Outcome::Done), tried(end("b"), Outcome::Done)];
    assert!(explained(&running(), &both, &ended("a", &["a"])).is_none());
}

#[test]
fn an_unknown_end_took_effect_entirely_or_not_at_all() {
    let one = [tried(end("a"), Outcome::Unknown)];
    assert!(explained(&running(), &one, &running()).is_some());
    assert!(explained(&running(), &one, &ended("a", &["a"])).is_some());
    assert!(explained(&running(), &one, &ended("a", &[])).is_none());
}

#[test]
fn a_gate_keeps_the_scratch() {
    let gate = |key: &str| Command::Gate {
        id: "g".to_owned(),
        kind: "approve",
        hash: None,
        at: Some(LoopAt { key: key.to_owned(), iteration: 2, execution: "e".to_owned() }),
        merge: None,
        fence: None,
    };
    let mut run = running();
    run.scratch.insert("object".to_owned(), r#"{"keep":"\ud800"}"#.to_owned());
    run.scratch.insert("array".to_owned(), "[1e999]".to_owned());
    let next = super::linear::Object::apply(&run, &gate("object"), None);
    let text = r#"{"iteration":2,"keep":"\ud800","lastOutputExecutionId":"e"}"#;
    assert_eq!(next[0].scratch["object"], text);
    assert!(super::linear::Object::apply(&run, &gate("array"), None).is_empty());
}

#[test]
fn values_that_serde_cannot_represent_are_read_as_text() {
    let text = r#"{"a":{"b":"\ud800","c":1},"d":[1e999,2]}"#;
    assert_eq!(member(text, &["a", "b"]).as_deref(), Some(r#""\ud800""#));
    let value = lenient(text).expect("it is JSON");
    assert_eq!(value["a"]["c"], 1);
    assert_eq!(value["d"][0], "1e999");
    assert_eq!(elements("[1e999,\"x\"]"), Some(vec!["1e999".to_owned(), "\"x\"".to_owned()]));
    assert!(lenient("{bad").is_none());
}
