//! Scanning for matches: candidates of the index, and lines that are not in the index.

use std::collections::HashMap;

use duolog_join::{LogStanding, ReadLog};
use duolog_log::dialect::{Dialect, ItemKind, TimelineItem, text};
use duolog_log::{Error as LogError, Item, Reader, Recent};
use duolog_search::{Candidate, Filter, Index, Key, Matcher, Snapshot, Snippet};
use duolog_types::{Cursor, Epoch, Position, SessionId};

use super::fold::resume;
use super::model::{Found, Hit, HitToken};
use super::reading::{Reading, item_at, moment};
use super::rules::Page;
use super::{SearchRequest, Task};
use crate::Wait;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Entry;
use crate::store::Store;

/// The number of logs that one search keeps open.
const OPEN_MAX: usize = 64;
/// The number of candidates in the first step, and the growth of each further step.
const CANDIDATES_FIRST: usize = 64;
const CANDIDATES_GROWTH: usize = 8;
const CANDIDATES_MAX: usize = 1 << 16;

/// A search in progress.
pub(super) struct SearchPass<'t> {
    store: &'t Store,
    request: &'t SearchRequest,
    logs: &'t [&'t LogStanding],
    matcher: Matcher<'t>,
    page: Page,
    found: Found,
    /// A log that changed since it was indexed, which nothing has recorded yet.
    changed: Option<SessionId>,
}

/// An open log with candidates.
struct Open {
    reader: Reader,
    dialect: Dialect,
}

/// The part of a log that is not in the index.
pub(super) struct Rest {
    pub(super) reader: Reader,
    pub(super) reading: Reading,
    pub(super) from: Position,
    pub(super) to: Position,
}

impl<'t> SearchPass<'t> {
    pub(super) fn new(store: &'t Store, task: &'t Task<'t>) -> Self {
        let Task { request, logs, .. } = task;
        let found = Found::default();
        let page = Page::new(request.limit, request.after.as_ref().map(|token| token.key.clone()));
        Self { store, request, logs, matcher: Matcher::new(&request.query), page, found, changed: None }
    }

    /// Reads every log completely.
    pub(super) fn at_all(mut self, why: Option<String>) -> Result<Found> {
        for log in self.logs {
            let rest = self.rest_of(log, None);
            self.scan_rest(log, rest)?;
        }
        self.found.without_index = why;
        Ok(self.finish())
    }

    /// Queries the index and reads the lines that are not in it. Returns the session if a log changed since it was
    /// indexed; then there is no result.
    pub(super) fn with(mut self, index: &Index, why: Option<String>) -> Result<std::result::Result<Found, SessionId>> {
        let snapshot = index.snapshot()?;
        let known = snapshot.progress()?;
        let mut covered = HashMap::new();
        for log in self.logs {
            let known = known.get(&log.session).filter(|known| known.epoch == log.epoch);
            let is_whole = known.is_some_and(|known| Some(known.position) == log.folded_to && !log.is_marked);
            // A search that does not wait uses only the index. An empty log needs no index.
            let is_left = !is_whole && self.request.wait == Wait::Briefly;
            self.found.behind += u64::from(is_left && (log.folded_to.is_some() || log.is_marked));
            let rest =
                if is_whole || is_left { Ok((None, true)) } else { self.rest_of(log, known.and(Some(&snapshot))) };
            // The indexed part of a log is valid even while a writer holds the log's lock.
            let holds = rest.as_ref().map_or_else(is_busy, |(_, is_covered)| *is_covered);
            if let Some(known) = known.filter(|_| holds) {
                covered.insert(&log.session, log.epoch);
                self.found.damaged += known.damaged;
            }
            self.scan_rest(log, rest)?;
        }
        let is_behind = self.found.scanned_bytes > 0;
        self.ask(&snapshot, &covered)?;
        if let Some(changed) = self.changed {
            return Ok(Err(changed));
        }
        self.found.used_index = true;
        self.found.without_index = why.filter(|_| is_behind);
        Ok(Ok(self.finish()))
    }

    fn finish(self) -> Found {
        let (hits, next) = self.page.finish();
        let next = next.map(|key| HitToken { list: self.request.list(), key });
        Found { hits, next, ..self.found }
    }

    /// Returns the lines of a log that are not in the index, and true if the indexed part is still valid.
    fn rest_of(&mut self, log: &LogStanding, snapshot: Option<&Snapshot<'_>>) -> Result<(Option<Rest>, bool)> {
        let join = &self.store.join;
        let limits = join.limits();
        let ReadLog { reader, end: to, loss, .. } = join.read_log(&log.session)?;
        if let Some(loss) = loss {
            self.found.note_lost(&log.session, loss.bytes, loss.to_string());
        }
        let Some(reader) = reader else { return Ok((None, false)) };
        if let Some(snapshot) = snapshot
            && let Some(checkpoint) = snapshot.checkpoint(&log.session)?
            && let Some(mut reading) = resume(&checkpoint, log.epoch, &reader, to, limits.line_bytes_max)?
        {
            // Damaged lines before this position are counted by the index.
            reading.damaged = 0;
            return Ok((Some(Rest { reader, reading, from: checkpoint.position, to }), true));
        }
        let reading = Reading::begin(&reader, to, limits.line_bytes_max)?;
        let from = reader.first();
        Ok((Some(Rest { reader, reading, from, to }), false))
    }

    /// Reads these lines. A log that cannot be read is reported, and the others are still searched.
    fn scan_rest(&mut self, log: &LogStanding, rest: Result<(Option<Rest>, bool)>) -> Result<()> {
        let scanned = rest.and_then(|(rest, _)| rest.map_or(Ok(()), |rest| self.scan(log, rest)));
        match scanned {
            // Deleted in the meantime.
            Err(error) if error.is_gone() => Ok(()),
            Err(error) if matches!(error.join(), Some(duolog_join::Error::Log(_))) => {
                self.found.note_unread(&log.session, duolog_types::with_causes(&error));
                Ok(())
            }
            other => other,
        }
    }

    fn scan(&mut self, log: &LogStanding, rest: Rest) -> Result<()> {
        let mut scan = Scan {
            filter: &self.request.filter,
            line_bytes_max: self.store.join.limits().line_bytes_max,
            page: &mut self.page,
            matcher: &mut self.matcher,
            found: &mut self.found,
        };
        scan.lines(&log.session, log.epoch, rest)
    }

    /// Checks the candidates of the index, newest first, until the page is full.
    fn ask(&mut self, snapshot: &Snapshot<'_>, covered: &HashMap<&SessionId, Epoch>) -> Result<()> {
        let open = Recent::new(OPEN_MAX);
        let mut buffer = Vec::new();
        let mut count = CANDIDATES_FIRST.max(self.request.limit as usize * 2);
        let mut after = self.request.after.as_ref().map(|token| token.key.clone());
        loop {
            let asked = snapshot.candidates(&self.request.query, &self.request.filter, after.as_ref(), count)?;
            let candidates = asked.unwrap_or_default();
            for candidate in &candidates {
                if self.page.is_full_before(&candidate.key) || self.changed.is_some() {
                    return Ok(());
                }
                let Some(epoch) = covered.get(&candidate.key.session) else { continue };
                let log = match open.get(&candidate.key.session) {
                    Some(log) => log,
                    None => match self.open(snapshot, &candidate.key.session)? {
                        Some(log) => {
                            drop(open.trim(1));
                            open.keep(candidate.key.session.clone(), log)
                        }
                        None => continue,
                    },
                };
                self.look(&log, candidate, *epoch, &mut buffer)?;
            }
            if candidates.len() < count {
                return Ok(());
            }
            after = candidates.last().map(|last| last.key.clone());
            count = (count * CANDIDATES_GROWTH).min(CANDIDATES_MAX);
        }
    }

    fn open(&mut self, snapshot: &Snapshot<'_>, session: &SessionId) -> Result<Option<Open>> {
        let checkpoint = snapshot.checkpoint(session)?;
        let Some(dialect) = checkpoint.and_then(|checkpoint| Reading::dialect_of(&checkpoint.memory)) else {
            // The stored state cannot be read, so the index is not used for this log.
            self.changed = Some(session.clone());
            return Ok(None);
        };
        self.note_lost(session)?;
        // Without the lock: writers do not change the indexed part.
        let reader = match self.store.join.reader(session) {
            Ok(reader) => reader,
            // Deleted in the meantime: there is nothing to show.
            Err(duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => None,
            Err(error @ duolog_join::Error::Log(_)) => {
                self.found.note_unread(session, duolog_types::with_causes(&error));
                None
            }
            Err(error) => return Err(error.into()),
        };
        Ok(reader.map(|reader| Open { reader, dialect }))
    }

    /// Records the loss of a log that is about to be read.
    fn note_lost(&mut self, session: &SessionId) -> Result<()> {
        let Ok(at) = self.logs.binary_search_by(|log| log.session.cmp(session)) else { return Ok(()) };
        if let Some(loss) = self.store.join.loss_of(self.logs[at])? {
            self.found.note_lost(session, loss.bytes, loss.to_string());
        }
        Ok(())
    }

    /// Reads the text of a candidate and checks it.
    fn look(&mut self, log: &Open, candidate: &Candidate, epoch: Epoch, buffer: &mut Vec<u8>) -> Result<()> {
        let Some(item) = self.read(log, &candidate.key, buffer)? else {
            self.changed = Some(candidate.key.session.clone());
            return Ok(());
        };
        let text = text::readable(&item);
        if let Some(places) = self.matcher.matches(&text) {
            let snippet = Snippet::around(&text, &places);
            let (role, tool) = (candidate.role.clone(), candidate.tool.clone());
            let hit = hit(&candidate.key, epoch, item.kind, HitDetails { role, tool, snippet });
            self.page.put(candidate.key.clone(), hit);
        }
        Ok(())
    }

    fn read(&self, log: &Open, key: &Key, buffer: &mut Vec<u8>) -> Result<Option<TimelineItem>> {
        let line_bytes_max = self.store.join.limits().line_bytes_max;
        let line = match log.reader.line_at(key.position, buffer, line_bytes_max) {
            Ok(line) => line,
            // The file was truncated in the meantime.
            Err(LogError::Shrunk { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(match line.map(|line| Entry::of(Item::Line(line), line_bytes_max)) {
            Some(Entry::Line(line)) => item_at(log.dialect, line.start, line.bytes, key.part),
            _ => None,
        })
    }
}

/// A scan of log lines that puts hits on a page.
pub(super) struct Scan<'s, 'q> {
    pub(super) filter: &'s Filter,
    pub(super) line_bytes_max: usize,
    pub(super) page: &'s mut Page,
    pub(super) matcher: &'s mut Matcher<'q>,
    pub(super) found: &'s mut Found,
}

impl Scan<'_, '_> {
    /// Reads lines of a log, and puts what matches on the page.
    pub(super) fn lines(&mut self, session: &SessionId, epoch: Epoch, rest: Rest) -> Result<()> {
        let Rest { reader, mut reading, from, to } = rest;
        let (filter, line_bytes_max) = (self.filter, self.line_bytes_max);
        let mut lines = reader.lines(from, to.max(from), line_bytes_max)?;
        let (page, matcher) = (&mut *self.page, &mut *self.matcher);
        let outcome = loop {
            let item = match lines.next() {
                Ok(Some(item)) => item,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            };
            reading.line(item, line_bytes_max, &mut |text| {
                let item = text.item;
                let key = Key { at: text.at, session: session.clone(), position: item.position, part: item.part };
                if filter.passes(text.at, item.kind.word(), item.role.as_deref(), item.tool.as_deref())
                    && page.wants(&key)
                    && let Some(places) = matcher.matches(text.words)
                {
                    let snippet = Snippet::around(text.words, &places);
                    let (role, tool) = (item.role.clone(), item.tool.clone());
                    let hit = hit(&key, epoch, item.kind, HitDetails { role, tool, snippet });
                    page.put(key, hit);
                }
                Ok(())
            })?;
        };
        self.found.scanned_bytes += lines.position().0 - from.0;
        self.found.damaged += reading.damaged;
        outcome
    }
}

fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy
}

/// The details of a hit.
struct HitDetails {
    role: Option<String>,
    tool: Option<String>,
    snippet: Snippet,
}

fn hit(key: &Key, epoch: Epoch, kind: ItemKind, details: HitDetails) -> Hit {
    Hit {
        session: key.session.clone(),
        cursor: Cursor { epoch, position: key.position },
        part: key.part,
        at: moment(key.at),
        kind,
        role: details.role,
        tool: details.tool,
        snippet: details.snippet,
    }
}
