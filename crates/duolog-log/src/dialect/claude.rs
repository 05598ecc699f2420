//! The claude dialect: the session files of Claude Code, read only.
//!
//! Messages have the envelope's shape with more around it (`uuid`, `parentUuid`, `isSidechain`), and many lines are
//! bookkeeping without an id. One response of the model spans several lines. A turn begins with what a person typed;
//! `stop_reason` tells where the model was done.

use super::envelope::{rest_of, system};
use super::message::{self, mark_prompt};
use super::object::Object;
use super::scene::Scene;
use super::timeline::{Boundary, ItemKind, TimelineItem};

/// Types of lines that only Claude Code writes.
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

/// How texts begin that Claude Code itself puts in under the user's name, and what they are.
const INJECTED: &[(&str, &str)] = &[
    ("[Request interrupted by user", "interrupted"),
    ("<local-command-stdout>", "command_output"),
    ("<local-command-stderr>", "command_output"),
    ("<local-command-caveat>", "meta"),
    ("<bash-stdout>", "command_output"),
    ("<bash-stderr>", "command_output"),
    ("<task-notification>", "task_notification"),
];

/// Whether a line has this dialect's marks.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    match line.text("type").as_deref() {
        Some("user" | "assistant" | "system") => {
            line.has("parentUuid") || line.has("isSidechain") || line.has("userType")
        }
        Some(kind) => BOOKKEEPING.contains(&kind),
        None => false,
    }
}

/// Renders one line; false if it is not of this dialect.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    let start = out.len();
    let kind = line.text("type").unwrap_or_default();
    match &*kind {
        "user" if line.flag("isMeta") || line.flag("isCompactSummary") => {
            let what = if line.flag("isCompactSummary") { "compact_summary" } else { "meta" };
            if !message::render(line, scene, out) {
                return false;
            }
            // Shown to the model as a user's words, but no person said them.
            message::demote_to_notes(&mut out[start..], what);
        }
        "user" | "assistant" => {
            if !message::render(line, scene, out) {
                return false;
            }
            out[start..].iter_mut().filter(|item| item.kind == ItemKind::User).for_each(typed);
            close(line, &mut out[start..]);
        }
        "system" if line.is("subtype", "api_error") => {
            let item = system(line);
            out.push(TimelineItem { kind: ItemKind::Error, failed: true, ..item });
        }
        // Written when the model is done, whatever `stop_reason` says: older versions leave that null.
        "system" if line.is("subtype", "turn_duration") => {
            let seconds = line.count("durationMs").unwrap_or_default() / 1000;
            let item = TimelineItem::note("turn_duration", format!("{seconds} s"));
            out.push(TimelineItem { boundary: Boundary::Closes, ..item });
        }
        "system" if line.is("subtype", "local_command") => {
            let mut item = system(line);
            item.kind = ItemKind::User;
            typed(&mut item);
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

/// Tells what a person typed from what Claude Code puts in under the user's name; a slash command is shown as typed.
fn typed(item: &mut TimelineItem) {
    if let Some(command) = slash_command(&item.text) {
        (item.text, item.what) = (command, Some("command".to_owned()));
        return;
    }
    let Some((_, what)) = INJECTED.iter().find(|(begin, _)| item.text.starts_with(begin)) else { return };
    item.kind = ItemKind::Note;
    item.what = Some((*what).to_owned());
    if *what == "command_output" {
        // The command was one of the program's own: no model answers it.
        item.boundary = Boundary::Closes;
        item.text = without_tags(&item.text);
    }
}

/// `/review src` for `<command-name>/review</command-name>…<command-args>src</command-args>`, and `! ls` for what was
/// typed to the shell; `None` for anything else.
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

/// The text without the tags around it: `<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>` is `a`.
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

/// The model stopped of itself: the turn is whole.
fn close(line: &Object<'_>, items: &mut [TimelineItem]) {
    let reason = line.object("message").and_then(|message| message.word("stop_reason"));
    let done = matches!(reason.as_deref(), Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal"));
    if let Some(last) = items.last_mut().filter(|item| done && item.kind != ItemKind::User && !item.sidechain) {
        last.boundary = Boundary::Closes;
    }
}

fn bookkeeping(kind: &str, line: &Object<'_>) -> TimelineItem {
    let told = ["summary", "customTitle", "aiTitle", "title", "lastPrompt", "prompt", "content", "tag", "mode", "name"];
    let what = match line.object("attachment").and_then(|attachment| attachment.word("type")) {
        Some(of) => format!("{kind}:{of}"),
        None => kind.to_owned(),
    };
    let text = told.iter().find_map(|name| line.word(name)).unwrap_or_else(|| rest_of(line));
    TimelineItem::note(what, text)
}
