//! Last Light's envelope logs: sessions of sandboxed phases, and one of a chat.

use std::io;
use std::path::Path;

use duolog_log::dialect::envelope::{Block, Builder, Ending, Usage};
use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};
use duolog_types::Timestamp;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::{Log, Verdict, all_there, disk, expected, logs, read};

pub(super) fn check(root: &Path) -> io::Result<Vec<Verdict>> {
    let sandbox = expected(root, "expected/sandbox-sessions.json")?;
    let chat = expected(root, "expected/chat.json")?;
    let facts = expected(root, "expected/facts.json")?;
    let disk = disk(root)?;
    let mut verdicts = Vec::new();
    for path in logs(root)? {
        let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let log = read(&disk, &path)?;
        let mut verdict = Verdict::of(format!("lastlight {}", path.display()));
        let mut fold = TurnFold::default();
        let turns = log.items.iter().filter_map(|item| fold.item(item)).count() + usize::from(fold.last().is_some());
        let results = log.items.iter().filter(|item| item.kind == ItemKind::Result).count();
        verdict.counts = format!("{} lines, {} items, {turns} turns, {results} results", log.lines, log.items.len());
        verdict.same("dialect", &log.dialect, &Some(Dialect::Envelope));
        verdict.same("turns", &turns, &results);
        let (reads, meta) = if facts["chat"]["agentSessionId"] == id.as_str() {
            let session = facts["chat"]["old"].as_str().unwrap_or_default();
            (&chat[session]["msgs"], &Value::Null)
        } else {
            (&sandbox["reads"][&id], &sandbox["metas"][&id])
        };
        let right: Vec<Value> = reads.as_array().into_iter().flatten().map(|read| read["msg"].clone()).collect();
        let ours = messages(&log);
        verdict.same("messages", &ours.len(), &right.len());
        for (number, (ours, right)) in ours.into_iter().zip(&right).enumerate() {
            let ours = if right["content"].get("len").is_some() { shortened(ours) } else { ours };
            verdict.same(&format!("message {number}"), &ours, right);
        }
        if meta.is_object() {
            check_meta(&mut verdict, &log, meta);
        }
        verdict.reader_losses.push(format!("their reader drops {results} result lines: cost, turns and outcome"));
        let cut = log.items.iter().filter(|item| item.text.contains("…[truncated ")).count();
        if cut > 0 {
            verdict.reader_losses.push(format!("{cut} tool results were cut for display, and the rest was not kept"));
        }
        round_trip(&mut verdict, &root.join(&path))?;
        verdicts.push(verdict);
    }
    let chats = usize::from(facts["chat"]["agentSessionId"].is_string());
    verdicts.push(all_there("lastlight", &sandbox["reads"], verdicts.len().saturating_sub(chats)));
    Ok(verdicts)
}

/// Returns the text, the id and the name of a block of either kind.
fn block<'p>((text, id, name): &'p (String, String, String), input: &'p RawValue) -> Block<'p> {
    if id.is_empty() { Block::Text { text } } else { Block::ToolUse { id, name, input } }
}

/// Our writer reproduces every real line, byte for byte.
fn round_trip(verdict: &mut Verdict, path: &Path) -> io::Result<()> {
    for line in std::fs::read_to_string(path)?.lines() {
        let value: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let (message, blocks) = (&value["message"], &value["message"]["content"]);
        let frame = Builder {
            timestamp: value["timestamp"].as_str().unwrap_or_default(),
            session_id: value["sessionId"].as_str(),
        };
        let word = |value: &'_ Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let inputs: Vec<Box<RawValue>> =
            blocks.as_array().into_iter().flatten().filter_map(|block| to_raw_value(&block["input"]).ok()).collect();
        let parts: Vec<(String, String, String)> = blocks
            .as_array()
            .into_iter()
            .flatten()
            .map(|block| (word(block, "text"), word(block, "id"), word(block, "name")))
            .collect();
        let cost = to_raw_value(&value["total_cost_usd"]).map_err(io::Error::other)?;
        let (subtype, result) = (word(&value, "subtype"), word(&value, "result"));
        let (id, content) = (word(&blocks[0], "tool_use_id"), word(&blocks[0], "content"));
        let written = match (value["type"].as_str(), blocks.as_str()) {
            (Some("user"), Some(text)) => frame.user(text),
            (Some("user"), None) => frame.tool_result(&id, &content, false, None),
            (Some("assistant"), _) => frame.assistant(
                message["model"].as_str(),
                parts.iter().zip(&inputs).map(|(part, input)| block(part, input)).collect(),
                None,
            ),
            _ => frame.result(&Ending {
                subtype: &subtype,
                text: &result,
                turns: number("num_turns"),
                cost: &cost,
                tokens: Usage {
                    input_tokens: number("total_input_tokens"),
                    output_tokens: number("total_output_tokens"),
                    cache_read_input_tokens: number("total_cache_read_input_tokens"),
                    cache_creation_input_tokens: number("total_cache_creation_input_tokens"),
                },
                stop_reason: None,
                duration_ms: number("duration_ms"),
            }),
        };
        verdict.same("written again", &written.to_text().map_err(io::Error::other)?.as_str(), &line);
    }
    Ok(())
}

fn check_meta(verdict: &mut Verdict, log: &Log, meta: &Value) {
    let calls = log.items.iter().filter(|item| item.kind == ItemKind::ToolCall).count();
    let model = log.items.iter().find_map(|item| item.model.clone());
    let last = log.items.iter().rev().find(|item| item.kind == ItemKind::Assistant).map(|item| item.text.clone());
    let spoken: Vec<_> = log.items.iter().filter(|item| item.kind != ItemKind::Result).collect();
    let second = |item: Option<&&TimelineItem>| item.and_then(|item| item.at).map(|at| at.as_micros() / 1_000_000);
    verdict.same("tool calls", &json!(calls), &meta["tool_call_count"]);
    verdict.same("model", &json!(model), &meta["model"]);
    verdict.same("last assistant message", &json!(last), &meta["last_assistant_content"]);
    verdict.same("started", &json!(second(spoken.first())), &meta["started_at"]);
    verdict.same("last message", &json!(second(spoken.last())), &meta["last_message_at"]);
}

/// Returns our items in the shape of their normalised messages.
fn messages(log: &Log) -> Vec<Value> {
    log.by_line().filter(|line| line[0].kind != ItemKind::Result).map(message).collect()
}

fn message(line: &[TimelineItem]) -> Value {
    let first = &line[0];
    let mut message = Map::new();
    let text = |kind| line.iter().filter(|item| item.kind == kind).map(|item| item.text.as_str()).collect::<String>();
    let (role, content) = match first.kind {
        ItemKind::User => ("user", text(ItemKind::User)),
        ItemKind::ToolResult => ("tool", first.text.clone()),
        _ => ("assistant", text(ItemKind::Assistant)),
    };
    message.insert("role".to_owned(), json!(role));
    message.insert("content".to_owned(), json!(content));
    let calls: Vec<Value> = line.iter().filter(|item| item.kind == ItemKind::ToolCall).map(call).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    if let (ItemKind::ToolResult, Some(id)) = (first.kind, &first.call_id) {
        message.insert("tool_call_id".to_owned(), json!(id));
    }
    if let Some(model) = &first.model {
        message.insert("model".to_owned(), json!(model));
    }
    message.insert("timestamp".to_owned(), json!(first.at.map(milliseconds)));
    Value::Object(message)
}

fn call(item: &TimelineItem) -> Value {
    let arguments: Value = serde_json::from_str(&item.text).unwrap_or_default();
    json!({"id": item.call_id, "function": {"name": item.tool, "arguments": arguments}})
}

/// The facts have the length (in UTF-16 units) and the end of a long content.
fn shortened(mut message: Value) -> Value {
    let content = message["content"].as_str().unwrap_or_default().to_owned();
    let units: Vec<u16> = content.encode_utf16().collect();
    let tail = String::from_utf16_lossy(&units[units.len().saturating_sub(60)..]);
    message["content"] = json!({"len": units.len(), "tail": tail});
    message
}

pub(super) fn milliseconds(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", &text[..text.len() - 4])
}
