//! Generated sessions in the directories of Claude Code and Codex, so that other programs can count them too.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::transcripts::{self, GeneratedLog};

/// The number of sessions of each kind.
const SESSIONS: u64 = 12;

/// Writes `claude/projects/…` and `codex/sessions/…`. Returns the number of files.
///
/// Some sessions were resumed by copying, as in older versions of Claude Code, and some were forked, as in newer ones,
/// from sessions that exist or not. Some contain messages of their subagents, which may have separate logs.
pub fn make(folder: &Path) -> io::Result<u64> {
    fs::create_dir_all(folder.parent().unwrap_or(Path::new(".")))?;
    fs::create_dir(folder)?;
    let (claude, codex) = (folder.join("claude/projects/-home-agent-work"), folder.join("codex/sessions/2026/05/01"));
    fs::create_dir_all(&claude)?;
    fs::create_dir_all(&codex)?;
    let mut files = 0;
    let mut write = |folder: &Path, name: String, made: &GeneratedLog| {
        files += 1;
        fs::write(folder.join(name), made.text())
    };
    write(&codex, "rollout-2026-04-30T00-00-00-parent.jsonl".to_owned(), &transcripts::codex_parent())?;
    for seed in 0..SESSIONS {
        let session = transcripts::claude(seed, 3 + seed);
        let id = |number: u64| format!("{number:08x}-0000-4000-8000-{number:012x}.jsonl");
        write(&claude, id(seed), &session)?;
        if seed % 3 == 0 {
            write(&claude, id(seed + 100), &after(&session, 100 + seed, str::to_owned))?;
        }
        if seed % 4 == 1 {
            write(&claude, id(seed + 200), &after(&session, 200 + seed, forked))?;
        }
        if seed % 4 == 2 {
            // The parent's file does not exist.
            let parent = transcripts::claude(400 + seed, 5);
            write(&claude, id(seed + 300), &after(&parent, 300 + seed, forked))?;
        }
        if seed % 4 == 3 {
            let subagent = transcripts::claude(600 + seed, 3);
            write(&claude, id(seed + 500), &with_progress(transcripts::claude(500 + seed, 2), &subagent))?;
            if seed % 8 == 3 {
                write(&claude, format!("agent-{seed}.jsonl"), &subagent)?;
            }
        }
        let rollout = format!("rollout-2026-05-01T00-00-00-{seed:08x}-0000-4000-8000-{seed:012x}.jsonl");
        write(&codex, rollout, &transcripts::codex(seed, 2 + seed, seed % 3 == 0))?;
        if seed % 5 == 1 {
            let (parent, fork) = transcripts::codex_fork_of_one(700 + seed);
            write(&codex, format!("rollout-2026-05-02T00-00-00-parent-{seed}.jsonl"), &parent)?;
            write(&codex, format!("rollout-2026-05-02T01-00-00-fork-{seed}.jsonl"), &fork)?;
        }
    }
    Ok(files)
}

/// Returns a session that continues after most lines of another.
fn after(session: &GeneratedLog, seed: u64, copy: impl Fn(&str) -> String) -> GeneratedLog {
    let mut next = transcripts::claude(seed, 4);
    let copied = session.lines.iter().take(session.lines.len() * 3 / 4);
    next.lines.splice(0..0, copied.map(|line| copy(line)));
    next
}

/// Returns a session with lines about a subagent's messages.
fn with_progress(mut session: GeneratedLog, subagent: &GeneratedLog) -> GeneratedLog {
    for line in &subagent.lines {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["type"] == "assistant" {
            let data = json!({"type":"agent_progress","agentId":"a1","prompt":"","message":message});
            let at = message["timestamp"].clone();
            session.lines.push(json!({"type":"progress","timestamp":at,"toolUseID":"t","data":data}).to_string());
        }
    }
    session
}

/// Returns a line as a fork copies it.
fn forked(line: &str) -> String {
    let Ok(Value::Object(mut members)) = serde_json::from_str(line) else { return line.to_owned() };
    members.insert("forkedFrom".to_owned(), json!({"sessionId": "parent", "messageUuid": "m"}));
    Value::Object(members).to_string()
}
