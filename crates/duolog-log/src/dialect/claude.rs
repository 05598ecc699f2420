//! The claude dialect: the session files of Claude Code, read only.
//!
//! Messages have the envelope's format with more members (`uuid`, `parentUuid`, `isSidechain`), and many lines are
//! bookkeeping without an id. A response of the model has several lines. A turn starts with a person's prompt;
//! `stop_reason` shows when the model was done.

use super::envelope::{rest_of, system};
use super::message::{self, mark_prompt};
use super::object::Object;
use super::scene::Scene;
use super::timeline::{Boundary, ItemKind, TimelineItem};

/// Line types that only Claude Code writes.
const BOOKKEEPING: &[&str] = &[
    "agent-name",
    "agent-setting",
    "agent_metadata",
    "ai-title",
    "attachment",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "summary",
    "tag",
];

/// Prefixes of texts that Claude Code itself adds under the user's name, and their kind.
const INJECTED: &[(&str, &str)] = &[
    ("[Request interrupted by user", "interrupted"),
    ("<local-command-stdout>", "command_output"),
    ("<local-command-stderr>", "command_output"),
    ("<local-command-caveat>", "meta"),
    ("<bash-stdout>", "command_output"),
    ("<bash-stderr>", "command_output"),
    ("<task-notification>", "task_notification"),
];

/// Returns true if a line is in this dialect.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    match line.text("type").as_deref() {
        Some("user" | "assistant" | "system") => {
            line.has("parentUuid") || line.has("isSidechain") || line.has("userType")
        }
        Some(kind) => BOOKKEEPING.contains(&kind),
        None => false,
    }
}

/// Renders a line; false if it is not in this dialect.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    let start = out.len();
    let kind = line.text("type").unwrap_or_default();
    match &*kind {
        "user" if line.flag("isMeta") || line.flag("isCompactSummary") => {
            let what = if line.flag("isCompactSummary") { "compact_summary" } else { "meta" };
            if !message::render(line, scene, out) {
                return false;
            }
            // The model sees these as the user's words, but no person wrote them.
            message::demote_to_notes(&mut out[start..], what);
        }
        "user" | "assistant" => {
            if !message::render(line, scene, out) {
                return false;
            }
            out[start..].iter_mut().filter(|item| item.kind == ItemKind::User).for_each(classify_user_text);
            close(line, &mut out[start..]);
        }
        "system" if line.is("subtype", "api_error") => {
            let item = system(line);
            out.push(TimelineItem { kind: ItemKind::Error, failed: true, ..item });
        }
        // Written when the model is done. Older versions leave `stop_reason` null.
        "system" if line.is("subtype", "turn_duration") => {
            let seconds = line.count("durationMs").unwrap_or_default() / 1000;
            let item = TimelineItem::note("turn_duration", format!("{seconds} s"));
            out.push(TimelineItem { boundary: Boundary::Closes, ..item });
        }
        "system" if line.is("subtype", "local_command") => {
            let mut item = system(line);
            item.kind = ItemKind::User;
            classify_user_text(&mut item);
            if item.kind == ItemKind::User && item.what.is_none() {
                item.kind = ItemKind::Note;
                item.what = Some("local_command".to_owned());
            }
            out.push(item);
        }
        "system" => out.push(system(line)),
        _ if BOOKKEEPING.contains(&&*kind) => out.push(bookkeeping(&kind, line)),
        _ => return false,
    }
    if line.flag("isSidechain") {
        out[start..].iter_mut().for_each(|item| item.sidechain = true);
    }
    mark_prompt(&mut out[start..]);
    let author = line.word("agentId");
    out[start..].iter_mut().for_each(|item| item.author.clone_from(&author));
    true
}

/// Distinguishes a person's prompt from text that Claude Code adds under the user's name; a slash command is shown as
/// typed.
fn classify_user_text(item: &mut TimelineItem) {
    if let Some(command) = slash_command(&item.text) {
        (item.text, item.what) = (command, Some("command".to_owned()));
        return;
    }
    let Some((_, what)) = INJECTED.iter().find(|(prefix, _)| item.text.starts_with(prefix)) else { return };
    item.kind = ItemKind::Note;
    item.what = Some((*what).to_owned());
    if *what == "command_output" {
        // The command is handled by the program: no model answers it.
        item.boundary = Boundary::Closes;
        item.text = without_tags(&item.text);
    }
}

/// Returns `/review src` for `<command-name>/review</command-name>…<command-args>src</command-args>`, and `! ls` for a
/// shell command; `None` for anything else.
fn slash_command(text: &str) -> Option<String> {
    let between = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner.trim())
    };
    if text.starts_with("<bash-input>") {
        return Some(format!("! {}", between("bash-input")?));
    }
    if !text.starts_with("<command-name>") && !text.starts_with("<command-message>") {
        return None;
    }
    let name = between("command-name")?;
    let args = between("command-args").unwrap_or_default();
    let slash = if name.starts_with('/') { "" } else { "/" };
    Some(format!("{slash}{name} {args}").trim_end().to_owned())
}

/// Removes the tags: `<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>` becomes `a`.
fn without_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        plain.push_str(before);
        let name = tag[1..].trim_start_matches('/');
        let is_ours = name.starts_with("local-command-") || name.starts_with("bash-std");
        let end = tag.find('>').filter(|_| is_ours).map_or(1, |end| end + 1);
        if !is_ours {
            plain.push('<');
        }
        rest = &tag[end..];
    }
    plain.push_str(rest);
    plain
}

/// Ends the turn if the model stopped by itself.
fn close(line: &Object<'_>, items: &mut [TimelineItem]) {
    let reason = line.object("message").and_then(|message| message.word("stop_reason"));
    let done = matches!(reason.as_deref(), Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal"));
    if let Some(last) = items.last_mut().filter(|item| done && item.kind != ItemKind::User && !item.sidechain) {
        last.boundary = Boundary::Closes;
    }
}

fn bookkeeping(kind: &str, line: &Object<'_>) -> TimelineItem {
    let members =
        ["summary", "customTitle", "aiTitle", "title", "lastPrompt", "prompt", "content", "tag", "mode", "name"];
    let what = match line.object("attachment").and_then(|attachment| attachment.word("type")) {
        Some(of) => format!("{kind}:{of}"),
        None => kind.to_owned(),
    };
    let text = members.iter().find_map(|name| line.word(name)).unwrap_or_else(|| rest_of(line));
    TimelineItem::note(what, text)
}
