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
    ("<local-command-caveat>", "command_output"),
    ("<bash-stdout>", "command_output"),
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
            for item in out[start..].iter_mut().filter(|item| item.kind == ItemKind::User) {
                item.kind = ItemKind::Note;
                item.what = Some(what.to_owned());
            }
        }
        "user" | "assistant" => {
            if !message::render(line, scene, out) {
                return false;
            }
            for item in out[start..].iter_mut().filter(|item| item.kind == ItemKind::User) {
                if let Some((_, what)) = INJECTED.iter().find(|(begin, _)| item.text.starts_with(begin)) {
                    item.kind = ItemKind::Note;
                    item.what = Some((*what).to_owned());
                }
            }
            close(line, &mut out[start..]);
        }
        "system" if line.is("subtype", "api_error") => {
            let item = system(line);
            out.push(TimelineItem { kind: ItemKind::Error, failed: true, ..item });
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
