//! Renders lines that Duolog writes about rows (`duolog.*`) as sentences: "run started by ada".

use super::envelope::{rest_of, system};
use super::object::Object;
use super::timeline::TimelineItem;

/// Number of characters of a run's id in a sentence.
const ID_CHARS: usize = 8;

/// Renders a line of Duolog. A subtype without a sentence is shown with its raw members.
pub(crate) fn render(line: &Object<'_>) -> TimelineItem {
    let subtype = line.word("subtype").unwrap_or_default();
    let sentence = match subtype.as_str() {
        "duolog.run" => run(line),
        "duolog.phase" => phase(line),
        "duolog.gate" => gate(line),
        "duolog.execution" => execution(line),
        "duolog.status" => status(line),
        "duolog.renamed" => named("session renamed to", line.word("name")),
        "duolog.described" => Some(format!("session changed: {}", rest_of(line))),
        "duolog.forked" => forked(line),
        "duolog.branch_created" => named("branch created:", line.word("name").or_else(|| line.word("branch"))),
        "duolog.branch_changed" => named("branch changed:", line.word("name").or_else(|| line.word("branch"))),
        "duolog.context_deleted" => deleted(line),
        _ => None,
    };
    match sentence {
        Some(sentence) => TimelineItem::note(subtype, sentence),
        None => system(line),
    }
}

fn run(line: &Object<'_>) -> Option<String> {
    let actor = ["actor", "triggeredBy"].iter().find_map(|name| line.word(name));
    let by = |verb: &str| format!("run {verb}{}", by(actor.as_deref()));
    let owner = line.word("leaseOwner");
    let owner = owner.as_deref().unwrap_or("nobody");
    let fence = line.count("fence").map(|fence| format!(" (fence {fence})")).unwrap_or_default();
    let event = match line.word("event")?.as_str() {
        "start" if line.is("status", "queued") => by("queued"),
        "start" => by("started"),
        "admit" => by("admitted"),
        "requeue" => by("requeued"),
        "pause" => by("paused"),
        "resume" => by("resumed"),
        "succeed" => by("succeeded"),
        "fail" => by("failed"),
        "cancel" => by("cancelled"),
        "expire" => by("expired"),
        "retry" => by("retried"),
        "claim" => format!("run claimed by {owner}{fence}"),
        "release" => "run released".to_owned(),
        "takeover" => {
            let from = line.word("previousLeaseOwner").map(|dead| format!(" from {dead}")).unwrap_or_default();
            format!("run taken over by {owner}{from}{fence}")
        }
        other => format!("run: {other}"),
    };
    let reason = line.word("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("{event}{reason}{}", run_suffix(line)))
}

fn phase(line: &Object<'_>) -> Option<String> {
    let state = match (line.word("state")?.as_str(), line.flag("success")) {
        ("completed", false) => "failed".to_owned(),
        (state, _) => state.to_owned(),
    };
    Some(format!("phase {} {state}{}", line.word("phase")?, run_suffix(line)))
}

fn gate(line: &Object<'_>) -> Option<String> {
    let answer = match line.word("status")?.as_str() {
        "pending" => "waits for an answer".to_owned(),
        status => format!("{status}{}", by(line.word("respondedBy").as_deref())),
    };
    Some(format!("gate {} {answer}{}", line.word("gate")?, run_suffix(line)))
}

fn execution(line: &Object<'_>) -> Option<String> {
    let what = line.word("skill").or_else(|| line.word("phase"))?;
    let outcome = line.word("outcome").or_else(|| line.word("state"))?;
    let reason = ["reason", "stopReason"].iter().find_map(|name| line.word(name));
    let reason = reason.filter(|reason| *reason != outcome).map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("execution of {what} {outcome}{reason}{}", run_suffix(line)))
}

fn status(line: &Object<'_>) -> Option<String> {
    let reason = line.word("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("session {}{}{reason}", line.word("status")?, by(line.word("actor").as_deref())))
}

fn forked(line: &Object<'_>) -> Option<String> {
    Some(format!(
        "branch {} forked from {} at item {}",
        line.word("branch")?,
        line.word("parentBranch")?,
        line.count("forkedAtOrd")?
    ))
}

fn deleted(line: &Object<'_>) -> Option<String> {
    let (branches, messages) = (line.count("branches")?, line.count("messages")?);
    let actor = by(line.word("actor").as_deref());
    Some(format!("conversations deleted{actor}: {branches} branches, {messages} messages"))
}

fn named(verb: &str, name: Option<String>) -> Option<String> {
    Some(format!("{verb} {}", name?))
}

fn by(actor: Option<&str>) -> String {
    actor.map(|actor| format!(" by {actor}")).unwrap_or_default()
}

/// Returns the workflow and the beginning of the run's id.
fn run_suffix(line: &Object<'_>) -> String {
    let id: String = line.word("run").unwrap_or_default().chars().take(ID_CHARS).collect();
    match line.word("workflow") {
        Some(workflow) => format!(" · {workflow} {id}"),
        None => format!(" · {id}"),
    }
}
