//! Skillet's replay logs, and damaged copies of them.

use std::io;
use std::path::Path;

use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::turns::{Entry, Step};
use duolog_log::dialect::{Boundary, Dialect, ItemKind, TimelineItem};
use serde_json::{Value, json};

use super::{Log, Verdict, all_there, disk, expected, is_object, logs, read};

pub(super) fn check(root: &Path) -> io::Result<Vec<Verdict>> {
    let facts = expected(root, "expected/reader_facts.json")?;
    let disk = disk(root)?;
    let mut verdicts = Vec::new();
    for path in logs(root)? {
        let name = path.display().to_string();
        let log = read(&disk, &path)?;
        let mut verdict = Verdict::of(format!("skillet {name}"));
        let turns = turns(&log.items);
        let kinds: Vec<&str> = log.by_line().map(|line| kind(&line[0])).collect();
        verdict.counts = format!(
            "{} lines, {} entries, {} turns ({} incomplete), {} unreadable, {} torn bytes",
            log.lines,
            kinds.len(),
            turns.len(),
            incomplete(&log.items),
            log.unreadable(),
            log.torn_bytes
        );
        let dialect = (!kinds.is_empty()).then_some(Dialect::Turns);
        verdict.same("dialect", &log.dialect, &dialect);
        let right = &facts["readAll_and_turns"][&name];
        if right.is_null() {
            verdict.differences.push("the facts of their reader lack this file".to_owned());
        } else if right.get("throws").is_some() {
            let entries = log.lines - u64::try_from(log.unreadable()).unwrap_or_default();
            verdict.same("entries", &kinds.len(), &usize::try_from(entries).unwrap_or_default());
            verdict.same("turns", &turns.len(), &1);
            verdict.reader_losses.push(format!("their reader throws and shows nothing: {}", right["throws"]));
        } else {
            compare(&mut verdict, &log, &kinds, &turns, right);
        }
        let tailed = facts["tailer_finished"][&name].as_str().unwrap_or_default();
        let tailed = tailed.split(',').filter(|kind| !kind.is_empty() && *kind != "null").count();
        if tailed < kinds.len() {
            let lost = kinds.len() - tailed;
            verdict.reader_losses.push(format!("their tailer never returns the last {lost} entry (no newline yet)"));
        }
        round_trip(&mut verdict, &root.join(&path))?;
        verdicts.push(verdict);
    }
    verdicts.push(all_there("skillet", &facts["readAll_and_turns"], verdicts.len()));
    Ok(verdicts)
}

/// Our writer reproduces every real line, byte for byte, except structured input, which only Skillet writes.
fn round_trip(verdict: &mut Verdict, path: &Path) -> io::Result<()> {
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    for line in text.lines().filter(|line| is_object(line)) {
        let value: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let step = &value["stepResult"];
        let (agent, tool, timestamp) = (word(&step["agentName"]), word(&step["toolName"]), word(&value["timestamp"]));
        let (agent_name, tool_name) = (agent.as_str(), tool.as_str());
        let names = ["text", "toolArgumentsStr", "result", "toAgentName"];
        let text = names.iter().find_map(|name| step[name].as_str()).unwrap_or_default();
        let (answer, model) = (word(&value["finalResult"]["text"]), value["model"].as_str());
        let asked = value["userInput"].as_str();
        let entry = match (value["kind"].as_str(), step["type"].as_str()) {
            (Some("user_message"), _) => match asked {
                Some(asked) => Entry::UserMessage(asked),
                None => continue,
            },
            (Some("final_result"), _) => Entry::FinalResult { text: &answer, model },
            (_, Some("agent_start")) => Entry::Step(Step::AgentStart { agent_name }),
            (_, Some("agent_end")) => Entry::Step(Step::AgentEnd { agent_name }),
            (_, Some("handoff")) => Entry::Step(Step::Handoff { agent_name, to_agent_name: text }),
            (_, Some("agent_tool_start")) => {
                Entry::Step(Step::AgentToolStart { agent_name, tool_name, tool_arguments_str: text })
            }
            (_, Some("agent_tool_end")) => Entry::Step(Step::AgentToolEnd { agent_name, tool_name, result: text }),
            _ => Entry::Step(Step::Text { text }),
        };
        verdict.same("written again", &entry.to_text(&timestamp).map_err(io::Error::other)?.as_str(), &line);
    }
    Ok(())
}

fn compare(verdict: &mut Verdict, log: &Log, kinds: &[&str], turns: &[Value], right: &Value) {
    verdict.same("entries", &json!(kinds.len()), &right["entries"]);
    verdict.same("kinds", &json!(kinds.join(",")), &right["kinds"]);
    let theirs = right["turns"].as_array().cloned().unwrap_or_default();
    verdict.same("turns", &turns.len(), &theirs.len());
    for (number, (ours, right)) in turns.iter().zip(&theirs).enumerate() {
        let mut ours = ours.clone();
        if right["userInput"] == "[structured]" {
            // The facts have no text here; ours must not be empty.
            verdict.same(
                "structured input is shown",
                &ours["userInput"].as_str().is_some_and(|t| !t.is_empty()),
                &true,
            );
            ours["userInput"] = right["userInput"].clone();
        }
        // The facts have the first 60 characters of an answer.
        let cut: String = ours["finalText"].as_str().unwrap_or_default().chars().take(60).collect();
        ours["finalText"] = json!(cut);
        verdict.same(&format!("turn {number}"), &ours, right);
    }
    let outside = outside(&log.items);
    if outside > 0 {
        verdict.reader_losses.push(format!("their turns drop {outside} entries outside of a turn; ours show them"));
    }
    let unreadable = log.unreadable();
    if unreadable > 0 {
        verdict.reader_losses.push(format!("their reader skips {unreadable} bad lines silently; ours reports each"));
    }
    if log.torn_bytes > 0 {
        verdict.reader_losses.push(format!("their reader drops a torn tail of {} bytes silently", log.torn_bytes));
    }
}

fn kind(item: &TimelineItem) -> &'static str {
    match item.kind {
        ItemKind::User => "user_message",
        ItemKind::Result => "final_result",
        _ => "step",
    }
}

/// Counts the entries before the first turn and after the end of a turn.
fn outside(items: &[TimelineItem]) -> usize {
    let (mut open, mut outside) = (false, 0);
    for item in items.iter().filter(|item| item.what.as_deref() != Some("unreadable")) {
        match item.boundary {
            Boundary::Opens => open = true,
            _ if !open => outside += 1,
            Boundary::Closes => open = false,
            Boundary::Within => {}
        }
    }
    outside
}

fn incomplete(items: &[TimelineItem]) -> usize {
    let mut fold = TurnFold::default();
    let ended = items.iter().filter_map(|item| fold.item(item)).filter(|turn| !turn.is_complete()).count();
    ended + usize::from(fold.last().is_some_and(|turn| !turn.is_complete()))
}

/// Returns the turns in the shape of the facts; an incomplete turn ends with its text so far.
fn turns(items: &[TimelineItem]) -> Vec<Value> {
    let mut fold = TurnFold::default();
    let mut found: Vec<_> = items.iter().filter_map(|item| fold.item(item)).collect();
    found.extend(fold.last());
    let turn = |turn: &duolog_log::dialect::turn::Turn| {
        let last = turn.closed.unwrap_or(turn.end);
        let within: Vec<_> = items.iter().filter(|item| (turn.start..=last).contains(&item.position)).collect();
        let steps: Vec<_> = within.iter().filter(|item| kind(item) == "step" && !item.failed).collect();
        let said: String =
            steps.iter().filter(|item| item.kind == ItemKind::Assistant).map(|item| item.text.as_str()).collect();
        let end = within.iter().find(|item| item.kind == ItemKind::Result).map(|item| item.text.clone());
        let cut_off = if said.is_empty() { "[incomplete turn]".to_owned() } else { said };
        json!({
            "userInput": within[0].text,
            "steps": steps.iter().map(|item| item.what.clone()).collect::<Vec<_>>(),
            "finalText": end.unwrap_or(cut_off),
        })
    };
    found.iter().map(turn).collect()
}
