//! AgentryLab's transcripts.

use std::io;
use std::path::Path;

use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};
use serde_json::{Value, json};

use super::{Verdict, all_there, disk, expected, is_object, logs, read};

pub(super) fn check(root: &Path) -> io::Result<Vec<Verdict>> {
    let facts = expected(root, "expected/facts.json")?;
    let disk = disk(root)?;
    let mut verdicts = Vec::new();
    for path in logs(root)? {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let right = &facts["transcripts"][&file];
        let log = read(&disk, &path)?;
        let mut verdict = Verdict::of(format!("agentrylab {file}"));
        let sequence: Vec<Value> = log.by_line().map(event).collect();
        let errors = log.items.iter().filter(|item| item.kind == ItemKind::Error).count();
        verdict.counts = format!(
            "{} lines, {} events, {errors} errors, {} unreadable, {} torn bytes",
            log.lines,
            sequence.len(),
            log.unreadable(),
            log.torn_bytes
        );
        verdict.same("dialect", &log.dialect, &Some(Dialect::Transcript));
        verdict.same("lines", &json!(log.lines), &right["raw_lines"]);
        verdict.same("events", &json!(sequence.len()), &right["events"]);
        verdict.same("sequence", &json!(sequence), &right["sequence"]);
        let moments = log.by_line().filter(|line| line[0].at.is_some()).count();
        verdict.same("events with a timestamp", &moments, &sequence.len());
        if log.unreadable() > 0 || log.torn_bytes > 0 {
            verdict.reader_losses.push(format!(
                "their reader skips {} bad lines and {} torn bytes silently, and with a limit returns fewer events than there are",
                log.unreadable(),
                log.torn_bytes
            ));
        }
        round_trip(&mut verdict, &root.join(&path))?;
        verdicts.push(verdict);
    }
    verdicts.push(all_there("agentrylab", &facts["transcripts"], verdicts.len()));
    Ok(verdicts)
}

/// Returns `[iteration, agent, role, action or "error"]`, as in the facts.
fn event(line: &[TimelineItem]) -> Value {
    let first = &line[0];
    let actions = line.iter().find(|item| item.what.as_deref() == Some("actions"));
    let action = actions.and_then(|item| serde_json::from_str::<Value>(&item.text).ok());
    let did = match first.kind {
        ItemKind::Error => json!("error"),
        _ => action.map_or(Value::Null, |action| action["type"].clone()),
    };
    json!([first.round, first.author, first.role, did])
}

/// Parses a number exactly; serde_json's default parser may differ in the last bit.
fn number(raw: Option<&str>) -> Option<f64> {
    raw?.parse().ok()
}

/// Our writer reproduces every real line, byte for byte.
fn round_trip(verdict: &mut Verdict, path: &Path) -> io::Result<()> {
    use duolog_log::dialect::transcript::{Content, Event, TranscriptEvent};
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    for line in text.lines().filter(|line| is_object(line)) {
        let value: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        // Structures are in the line as Python wrote them; the text between two member names is exactly theirs.
        let between = |name: &str, next: &str| {
            let after = line.split_once(&format!("\"{name}\": ")).map(|(_, after)| after)?;
            after.split_once(&format!(", \"{next}\": ")).map(|(raw, _)| raw)
        };
        let (agent_id, role, words, error) = (word("agent_id"), word("role"), word("content"), word("error"));
        let content = if value["content"].is_object() {
            Content::Json(between("content", "metadata").unwrap_or_default())
        } else {
            Content::Text(&words)
        };
        let actions = between("actions", "latency_ms").filter(|raw| *raw != "null");
        let said = if value.get("error").is_some() {
            TranscriptEvent::Error(&error)
        } else {
            let metadata = between("metadata", "actions").filter(|raw| *raw != "null");
            TranscriptEvent::Content { content, metadata, actions }
        };
        let event = Event {
            t: number(between("t", "iter")).unwrap_or_default(),
            iter: value["iter"].as_u64().unwrap_or_default(),
            agent_id: &agent_id,
            role: &role,
            said,
            latency_ms: number(line.split_once("\"latency_ms\": ").and_then(|(_, end)| end.strip_suffix('}'))),
        };
        verdict.same("written again", &event.to_text().map_err(io::Error::other)?.as_str(), &line);
    }
    Ok(())
}
