//! The rules that every round must satisfy.

use std::collections::{BTreeMap, HashMap};

use super::command::Outcome;
use super::domain::shared;
use super::history::{Append, Delete, Events, Listing, Look, Place, Span, Violation};
use super::model::{Effect, Model};

/// Bytes by position, each with the command that first showed it.
type KnownBytes = BTreeMap<u64, (u8, usize)>;

/// The rules that a lost line violates.
pub const LOSS: [&str; 2] = ["acknowledged writes are present", "one position, one batch"];

/// Returns every violation in the round.
pub fn check(events: &Events) -> Vec<Violation> {
    let model = Model::new(events);
    let mut found = events.violations.clone();
    for look in &events.looks {
        counted(&model, look, &mut found);
        ordered(&model, look, &mut found);
        together(&model, look, &mut found);
    }
    for listing in &events.listings {
        existing(&model, listing, &mut found);
    }
    places_are_unique(&model, &mut found);
    bytes_agree(&model, &mut found);
    operations_answer_alike(events, &mut found);
    nothing_is_appended_to_the_deleted(&model, &mut found);
    nothing_is_deleted_twice(&model, &mut found);
    shared::check(events, &mut found);
    found
}

fn violation(rule: &'static str, what: String, steps: Vec<usize>, session: &str) -> Violation {
    Violation { rule, what, steps, session: Some(session.to_owned()) }
}

/// Acknowledged lines are there once; no line is there that was not appended to this session.
fn counted(model: &Model<'_>, look: &Look, found: &mut Vec<Violation>) {
    let bounds = model.bounds(look);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    look.lines.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let report = |rule, line: &str, bound: &str, count: usize, steps: &[usize]| {
        let line: String = line.chars().take(80).collect();
        let what = format!("{} of {} has {line} {count} times, {bound}", look.how, look.session);
        violation(rule, what, steps.iter().copied().chain([look.step]).collect(), &look.session)
    };
    for (line, bound) in &bounds {
        let count = counts.get(&**line).copied().unwrap_or(0);
        if count < bound.must {
            found.push(report(
                "acknowledged writes are present",
                line,
                &format!("at least {}", bound.must),
                count,
                &bound.steps,
            ));
        }
        if count > bound.may {
            found.push(report("present once", line, &format!("at most {}", bound.may), count, &bound.steps));
        }
    }
    for (line, count) in counts {
        if !bounds.contains_key(line) {
            let steps: Vec<usize> = model
                .effects
                .iter()
                .filter(|e| e.lines.iter().any(|l| &**l == line))
                .flat_map(|e| e.steps.clone())
                .collect();
            found.push(report("no unexplained change", line, "but it was not appended to this session", count, &steps));
        }
    }
}

/// A session that was created and not deleted exists, with the lines that were appended to it; a deleted one does not.
fn existing(model: &Model<'_>, listing: &Listing, found: &mut Vec<Violation>) {
    let listed = |session: &str| listing.sessions.iter().any(|(id, _)| id == session);
    for session in model.sessions() {
        if listed(session) {
            let gone = model.deletes_of(session).find(|delete| {
                let done = delete.with_session && delete.outcome == Outcome::Done && delete.span.before(listing.span);
                let early = model.made(session).all(|made| made.before(delete.span));
                done && early
            });
            if let Some(delete) = gone {
                let what = format!("{} shows {session}, whose deletion was acknowledged before", listing.how);
                found.push(violation("deleted sessions stay deleted", what, vec![delete.step, listing.step], session));
            }
            continue;
        }
        let absent = Look {
            step: listing.step,
            span: listing.span,
            session: session.to_owned(),
            how: listing.how,
            lines: Vec::new(),
            retried: Vec::new(),
        };
        counted(model, &absent, found);
        let kept = model.made_surely(session).find(|(_, made)| {
            let deleted = |delete: &Delete| delete.with_session && !delete.span.before(*made);
            made.before(listing.span)
                && !model.deletes_of(session).any(|delete| deleted(delete) && delete.span.start < listing.span.end)
        });
        if let Some((step, _)) = kept {
            let what = format!("{} does not show {session}, which was created and not deleted", listing.how);
            found.push(violation("acknowledged writes are present", what, vec![step, listing.step], session));
        }
    }
    for session in &listing.reported {
        if model.deletes_of(session).next().is_none() {
            let what = format!("{} reports {session} as missing, but it was not deleted", listing.how);
            found.push(violation("acknowledged writes are present", what, vec![listing.step], session));
        }
    }
    renamed(model, listing, found);
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    // The name of a session that was created with an id is a label, which several sessions may have.
    let labelled = |session: &str| ["own-", "id-", "stable-"].iter().any(|id| session.starts_with(id));
    for (session, name) in listing.sessions.iter().filter(|(session, _)| !labelled(session)) {
        if let Some(other) = name.as_deref().and_then(|name| names.insert(name, session)) {
            let what = format!("{}: {other} and {session} have the same name {name:?}", listing.how);
            found.push(violation("one name, one session", what, vec![listing.step], session));
        }
    }
}

/// A session has the last name that it was given.
fn renamed(model: &Model<'_>, listing: &Listing, found: &mut Vec<Violation>) {
    for (session, name) in &listing.sessions {
        let renames = || {
            model.events.renames.iter().filter(|rename| match rename.outcome {
                Outcome::Done => rename.session.as_ref() == Some(session),
                Outcome::Unknown => model.may_mean(&rename.target, session),
                Outcome::Refused => false,
            })
        };
        let last = renames().find(|rename| {
            let others = renames().filter(|other| other.step != rename.step);
            rename.outcome == Outcome::Done
                && rename.span.before(listing.span)
                && others.clone().all(|other| other.span.before(rename.span) || listing.span.before(other.span))
                && model.made(session).all(|made| made.before(rename.span) || listing.span.before(made))
        });
        if let Some(rename) = last.filter(|rename| name.as_ref() != Some(&rename.name)) {
            let what = format!("{}: the name of {session} is {name:?}, not {:?}", listing.how, rename.name);
            found.push(violation("acknowledged writes are present", what, vec![rename.step, listing.step], session));
        }
    }
}

/// Returns the effects whose first line is unique in the history and in the look, with its index.
fn unique<'m, 'a>(model: &'m Model<'a>, look: &Look) -> Vec<(usize, &'m Effect<'a>)> {
    let mut by_line: HashMap<&str, Vec<&Effect<'_>>> = HashMap::new();
    for effect in &model.effects {
        for line in effect.lines {
            by_line.entry(line).or_default().push(effect);
        }
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    look.lines.iter().for_each(|line| *seen.entry(line).or_default() += 1);
    let indexed = look.lines.iter().enumerate();
    indexed
        .filter_map(|(index, line)| match by_line.get(&**line).map(Vec::as_slice) {
            Some([effect]) if seen.get(&**line) == Some(&1) && effect.lines.first() == Some(line) => {
                Some((index, *effect))
            }
            _ => None,
        })
        .collect()
}

/// A batch that was acknowledged before another append started is before it in the log.
fn ordered(model: &Model<'_>, look: &Look, found: &mut Vec<Violation>) {
    let mut newest: Option<&Effect<'_>> = None;
    for (_, effect) in unique(model, look) {
        if let Some(newest) = newest
            && effect.acknowledged()
            && effect.span.before(newest.span)
        {
            let what = format!(
                "{} of {}: {} is after {}, but was acknowledged before that started",
                look.how, look.session, effect.lines[0], newest.lines[0]
            );
            let steps = effect.steps.iter().chain(&newest.steps).copied().chain([look.step]).collect();
            found.push(violation("lines are in order", what, steps, &look.session));
        }
        if newest.is_none_or(|newest| effect.span.start > newest.span.start) {
            newest = Some(effect);
        }
    }
}

/// The lines of one batch are adjacent: all of them, or none.
fn together(model: &Model<'_>, look: &Look, found: &mut Vec<Violation>) {
    for (index, effect) in unique(model, look) {
        let there = look.lines.iter().skip(index).take(effect.lines.len());
        if !effect.imported && !there.eq(effect.lines.iter()) {
            let what = format!("{} of {}: the batch of {} is incomplete", look.how, look.session, effect.lines[0]);
            let steps = effect.steps.iter().copied().chain([look.step]).collect();
            found.push(violation("all or nothing", what, steps, &look.session));
        }
    }
}

/// No two batches are acknowledged at one position.
fn places_are_unique(model: &Model<'_>, found: &mut Vec<Violation>) {
    let mut owners = HashMap::new();
    for effect in &model.effects {
        let Some(place) = effect.place.filter(|_| !effect.imported) else { continue };
        if let Some(other) = owners.insert(place, effect) {
            let steps: Vec<usize> = other.steps.iter().chain(&effect.steps).copied().collect();
            let what = format!("two batches were acknowledged at {}:{} of {}", place.epoch, place.end, place.session);
            found.push(violation("one position, one batch", what, steps, &place.session));
        }
    }
}

/// A session and an epoch identify one log forever: every command that reads or writes a byte of it has the same byte.
fn bytes_agree(model: &Model<'_>, found: &mut Vec<Violation>) {
    let mut logs: HashMap<(&str, u64), KnownBytes> = HashMap::new();
    let appended = model.effects.iter().filter(|effect| !effect.imported).filter_map(|effect| {
        let place = effect.place?;
        let bytes: Vec<u8> = effect.lines.iter().flat_map(|line| line.bytes().chain([b'\n'])).collect();
        let from = place.end.checked_sub(bytes.len() as u64)?;
        Some((effect.steps[0], place.session.as_str(), place.epoch, from, bytes))
    });
    let seen = &model.events.seen;
    let seen = seen.iter().map(|seen| (seen.step, seen.session.as_str(), seen.epoch, seen.from, seen.bytes.clone()));
    for (step, session, epoch, from, bytes) in appended.chain(seen) {
        let log = logs.entry((session, epoch)).or_default();
        let mut clash = None;
        for (position, byte) in (from..).zip(bytes) {
            let (known, by) = *log.entry(position).or_insert((byte, step));
            if known != byte && clash.is_none() {
                clash = Some((position, by));
            }
        }
        if let Some((position, by)) = clash {
            let what = format!("byte {position} of epoch {epoch} of {session} has changed");
            found.push(violation("one epoch, one log", what, vec![by, step], session));
        }
    }
}

/// An operation with the same content has the same answer; with other content it is refused.
fn operations_answer_alike(events: &Events, found: &mut Vec<Violation>) {
    let mut operations: BTreeMap<&str, Vec<&Append>> = BTreeMap::new();
    for append in &events.appends {
        append.operation.iter().for_each(|operation| operations.entry(operation).or_default().push(append));
    }
    // The answers of a session are deleted with the session or with its log.
    let untouched = |session: &str, span: Span| {
        !events.deletes.iter().any(|delete| {
            let concerned = delete.session.as_deref().is_none_or(|deleted| deleted == session);
            delete.outcome != Outcome::Refused && concerned && !delete.span.before(span)
        })
    };
    // A name may belong to another session by now; an id that is never a name cannot.
    let fixed = |target: &str| target.starts_with("own-") || target.starts_with("stable-");
    let same_session =
        |append: &Append, place: &Place| append.place.as_ref().is_some_and(|p| p.session == place.session);
    for (operation, attempts) in operations {
        let mut acknowledged = attempts.iter().filter(|append| append.place.is_some());
        let Some(first) = acknowledged.next() else { continue };
        let Some(place) = first.place.as_ref().filter(|place| untouched(&place.session, first.span)) else { continue };
        // An operation belongs to its session: with a name that another session has by now, it is another operation.
        for other in acknowledged.filter(|other| same_session(other, place) || fixed(&other.target)) {
            let steps = vec![first.step, other.step];
            if other.lines != first.lines {
                let what = format!("operation {operation} was acknowledged with two contents");
                found.push(violation("one operation, one content", what, steps, &place.session));
            } else if other.place.as_ref() != Some(place) {
                let what = format!("operation {operation} answered {place:?} and then {:?}", other.place);
                found.push(violation("one operation, one answer", what, steps, &place.session));
            }
        }
    }
}

/// Returns true if the session may have been created again between a deletion and the end of `until`.
fn may_be_remade(model: &Model<'_>, session: &str, deleted: Span, until: Span) -> bool {
    model.events.creates.iter().any(|create| {
        create.outcome != Outcome::Refused
            && create.id.as_deref().is_some_and(|id| id == session)
            && !create.span.before(deleted)
            && create.span.start < until.end
    })
}

/// After a deletion was acknowledged, no append to that session is acknowledged.
fn nothing_is_appended_to_the_deleted(model: &Model<'_>, found: &mut Vec<Violation>) {
    for effect in &model.effects {
        let Some(session) = effect.session else { continue };
        for delete in model.deletes_of(session).filter(|delete| delete.with_session && delete.outcome == Outcome::Done)
        {
            if delete.span.before(effect.span) && !may_be_remade(model, session, delete.span, effect.span) {
                let what = format!("an append to {session} was acknowledged after its deletion was");
                let steps = effect.steps.iter().copied().chain([delete.step]).collect();
                found.push(violation("deleted sessions stay deleted", what, steps, session));
            }
        }
    }
}

/// A session is deleted once, unless it was created again.
fn nothing_is_deleted_twice(model: &Model<'_>, found: &mut Vec<Violation>) {
    let deletes =
        || model.events.deletes.iter().filter(|delete| delete.with_session && delete.outcome == Outcome::Done);
    for first in deletes() {
        for second in deletes().filter(|second| second.session == first.session && first.span.before(second.span)) {
            let Some(session) = &first.session else { continue };
            if !may_be_remade(model, session, first.span, second.span) {
                let what = format!("{session} was deleted twice");
                found.push(violation("deleted sessions stay deleted", what, vec![first.step, second.step], session));
            }
        }
    }
}
