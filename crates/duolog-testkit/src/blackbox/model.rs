//! What must and what may be in the logs, according to the history.
//!
//! An acknowledged batch is there once. A refused one is not there. One of unknown outcome may be either, until a retry
//! with the same operation id decides it. Concurrent commands may have happened in either order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::command::Outcome;
use super::history::{Append, Delete, Events, Line, Look, Place, Span};

/// One batch that was or may have been appended; all attempts with one operation id are one batch.
#[derive(Clone, Debug)]
pub struct Effect<'a> {
    /// From the first attempt to the first acknowledgement, or to the end of the last attempt.
    pub span: Span,
    /// The session in the acknowledgement.
    pub session: Option<&'a str>,
    /// The session in the command.
    pub target: &'a str,
    /// Sessions in other acknowledgements of the same operation.
    except: Vec<&'a str>,
    /// The lines.
    pub lines: &'a [Line],
    /// Their position.
    pub place: Option<&'a Place>,
    /// True if they came with an imported document.
    pub imported: bool,
    /// The commands.
    pub steps: Vec<usize>,
}

impl Effect<'_> {
    /// Returns true if it was acknowledged.
    pub fn acknowledged(&self) -> bool {
        self.session.is_some()
    }
}

/// The history, prepared for queries.
#[derive(Debug)]
pub struct Model<'a> {
    /// The history.
    pub events: &'a Events,
    /// Every batch.
    pub effects: Vec<Effect<'a>>,
    names: HashMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Model<'a> {
    /// Combines the attempts with one operation id, and finds the names of each session.
    pub fn new(events: &'a Events) -> Self {
        let mut names: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        let mut note = |session: &'a str, name: &'a str| names.entry(session).or_default().insert(name);
        for append in &events.appends {
            append.place.iter().for_each(|place| _ = note(&place.session, &append.target));
        }
        for delete in &events.deletes {
            delete.session.iter().for_each(|session| _ = note(session, &delete.target));
        }
        for create in &events.creates {
            create.id.iter().zip(&create.name).for_each(|(id, name)| _ = note(id, name));
        }
        for (session, name) in events.listings.iter().flat_map(|listing| &listing.sessions) {
            if let Some(name) = name {
                note(session, name);
            }
        }
        for rename in &events.renames {
            if let Some(session) = &rename.session {
                note(session, &rename.target);
                note(session, &rename.name);
            }
        }
        // A rename of unknown outcome may have given its name to any session that had the old one.
        for rename in events.renames.iter().filter(|rename| rename.outcome == Outcome::Unknown) {
            for (session, names) in &mut names {
                if *session == rename.target || names.contains(rename.target.as_str()) {
                    names.insert(&rename.name);
                }
            }
        }
        let mut model = Self { events, effects: Vec::new(), names };
        model.effects = model.all_effects();
        model
    }

    /// Returns true if `target` may have been the session at some time.
    pub fn may_mean(&self, target: &str, session: &str) -> bool {
        target == session || self.names.get(session).is_some_and(|names| names.contains(target))
    }

    /// Returns true if the lines of an effect may be in the session.
    pub fn may_be_in(&self, effect: &Effect<'_>, session: &str) -> bool {
        match effect.session {
            Some(named) => named == session,
            None => !effect.except.contains(&session) && self.may_mean(effect.target, session),
        }
    }

    /// Returns the deletions that may have removed the log of the session.
    pub fn deletes_of<'s>(&'s self, session: &'s str) -> impl Iterator<Item = &'a Delete> + 's {
        self.events.deletes.iter().filter(move |delete| match delete.outcome {
            Outcome::Done => delete.session.as_deref() == Some(session),
            Outcome::Unknown => self.may_mean(&delete.target, session),
            Outcome::Refused => false,
        })
    }

    /// Returns true if no deletion that started before `until` can have removed the lines of an effect.
    pub fn must_stay(&self, effect: &Effect<'_>, session: &str, until: u64) -> bool {
        effect.session == Some(session)
            && self.deletes_of(session).all(|delete| delete.span.before(effect.span) || delete.span.start >= until)
    }

    /// Returns true if a deletion was acknowledged between the effect and the look.
    fn is_gone(&self, effect: &Effect<'_>, session: &str, look: Span) -> bool {
        self.deletes_of(session).any(|delete| {
            delete.outcome == Outcome::Done && effect.span.before(delete.span) && delete.span.before(look)
        })
    }

    /// Returns how often each line must and may be in a log.
    pub fn bounds(&self, look: &Look) -> BTreeMap<Line, Bounds> {
        let mut bounds: BTreeMap<Line, Bounds> = BTreeMap::new();
        for effect in self.effects.iter().filter(|effect| self.may_be_in(effect, &look.session)) {
            let retried = effect.steps.iter().any(|step| look.retried.contains(step));
            if effect.span.start >= look.span.end && !retried {
                continue;
            }
            let gone = self.is_gone(effect, &look.session, look.span);
            let early = effect.span.before(look.span);
            let must = (early && self.must_stay(effect, &look.session, look.span.end)) || retried;
            for line in effect.lines {
                let bounds = bounds.entry(line.clone()).or_default();
                bounds.must += usize::from(must);
                bounds.may += usize::from(!gone || retried);
                bounds.steps.extend(&effect.steps);
            }
        }
        bounds
    }

    /// Returns when the session may have been created: by a creation, or by an append to an unknown name.
    pub fn made<'s>(&'s self, session: &'s str) -> impl Iterator<Item = Span> + 's {
        let creates = self.events.creates.iter().filter(move |create| {
            let same = match &create.id {
                Some(id) => id == session,
                None => create.name.as_deref().is_some_and(|name| self.may_mean(name, session)),
            };
            create.outcome != Outcome::Refused && same
        });
        let appends = self.effects.iter().filter(move |effect| effect.target != session);
        let appends = appends.filter(move |effect| self.may_be_in(effect, session));
        creates.map(|create| create.span).chain(appends.map(|effect| effect.span))
    }

    /// Returns the acknowledged commands that created the session or used it.
    pub fn made_surely<'s>(&'s self, session: &'s str) -> impl Iterator<Item = (usize, Span)> + 's {
        let creates = self.events.creates.iter();
        let creates = creates
            .filter(move |create| create.outcome == Outcome::Done && create.id.as_deref() == Some(session))
            .map(|create| (create.step, create.span));
        let appends = self.effects.iter().filter(move |effect| effect.session == Some(session));
        creates.chain(appends.map(|effect| (effect.steps[0], effect.span)))
    }

    /// Returns every session that was in an answer.
    pub fn sessions(&self) -> BTreeSet<&'a str> {
        let appended = self.effects.iter().filter_map(|effect| effect.session);
        let created = self.events.creates.iter().filter(|create| create.outcome == Outcome::Done);
        appended.chain(created.filter_map(|create| create.id.as_deref())).collect()
    }
}

/// How often a line must and may be in a log.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The minimum.
    pub must: usize,
    /// The maximum.
    pub may: usize,
    /// The commands that appended it.
    pub steps: Vec<usize>,
}

impl<'a> Model<'a> {
    fn all_effects(&self) -> Vec<Effect<'a>> {
        let mut effects = Vec::new();
        let mut operations: BTreeMap<(&str, &[Line]), Vec<&'a Append>> = BTreeMap::new();
        for append in self.events.appends.iter().filter(|append| append.outcome != Outcome::Refused) {
            match &append.operation {
                Some(operation) => operations.entry((operation, &append.lines)).or_default().push(append),
                None => effects.push(Effect {
                    span: append.span,
                    session: append.place.as_ref().map(|place| place.session.as_str()),
                    target: &append.target,
                    except: Vec::new(),
                    lines: &append.lines,
                    place: append.place.as_ref(),
                    imported: append.imported,
                    steps: vec![append.step],
                }),
            }
        }
        effects.extend(operations.values().flat_map(|attempts| self.operation(attempts)));
        effects
    }

    /// Returns the effects of all attempts with one operation id and one content: one in each session of an answer, and
    /// one more that may be in another session if an attempt has an unknown outcome. An operation is deleted with its
    /// session: if that may have happened between the attempts, each answered position is an effect, and so is each
    /// attempt of unknown outcome.
    fn operation(&self, attempts: &[&'a Append]) -> Vec<Effect<'a>> {
        let Some(first) = attempts.first() else { return Vec::new() };
        let start = attempts.iter().map(|append| append.span.start).min().unwrap_or(0);
        let attempts_span = Span { start, end: attempts.iter().map(|append| append.span.end).max().unwrap_or(0) };
        let deleted = |session: &str| {
            let mut deletes = self.deletes_of(session);
            deletes.any(|delete| !delete.span.before(attempts_span) && !attempts_span.before(delete.span))
        };
        let mut acknowledged: BTreeMap<(&'a str, Option<&'a Place>), &'a Append> = BTreeMap::new();
        let mut remade = false;
        for attempt in attempts {
            let Some(place) = &attempt.place else { continue };
            let apart = deleted(&place.session);
            remade |= apart;
            let chosen = acknowledged.entry((&place.session, apart.then_some(place))).or_insert(attempt);
            // The first acknowledgement is the latest time of the append, unless it may have been appended again.
            if (attempt.span.end < chosen.span.end) != apart {
                *chosen = attempt;
            }
        }
        let steps: Vec<usize> = attempts.iter().map(|append| append.step).collect();
        let effect = |end, session, place: Option<&'a Place>, except| Effect {
            span: Span { start, end },
            session,
            target: &first.target,
            except,
            lines: &first.lines,
            place,
            imported: false,
            steps: steps.clone(),
        };
        let mut effects: Vec<Effect<'a>> = acknowledged
            .iter()
            .map(|((session, _), append)| effect(append.span.end, Some(*session), append.place.as_ref(), Vec::new()))
            .collect();
        let unknown: Vec<&&Append> = attempts.iter().filter(|append| append.place.is_none()).collect();
        let sessions: Vec<&str> = acknowledged.keys().map(|(session, _)| *session).collect();
        if remade {
            effects.extend(unknown.iter().map(|append| effect(append.span.end, None, None, Vec::new())));
        } else if let Some(end) = unknown.iter().map(|append| append.span.end).max() {
            effects.push(effect(end, None, None, sessions));
        }
        effects
    }
}
