//! `duolog log search`.

use std::collections::HashMap;

use clap::Args;
use duolog::search::{Elsewhere, Found, Hit, HitToken, Indexed, Query, SearchFilter, SearchRequest, UseIndex};
use duolog::sessions::SessionRef;
use duolog::{Clock as _, Error, ErrorKind, SessionId, Store, SystemClock, Timestamp, limits};
use duolog_wire as wire;

use super::super::completeness::Waiting;
use super::Context;
use crate::args::{self, OfUser};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Out, Progress, Text, Tone, plain};

const AFTER: &str = "\
Query: every term must be in the text, in any order; upper and lower case are alike
  deadlock              the word
  \"could not connect\"   the words as they stand, one after the other
  std::fs  --no-index   whatever is not only letters is taken as it stands
  connect*              words that begin so
  -test  -\"as planned\"  leave out texts that have it

Examples:
  duolog log search 'deadlock -test'
  duolog log search '\"could not connect\"' --role tool_result --since 7d
  duolog log search 'config*' --session demo --json | jq -r '.hits[].snippet'
  duolog log replay demo --verbose --from 0:1234        a hit, and what came after it

Exit code: 1 where nothing is found

JSON:
  {\"query\", \"hits\": [{\"session_id\", \"session_name\", \"position\", \"epoch\", \"part\", \"occurred_at\",
                      \"kind\", \"role\", \"tool\", \"snippet\", \"matches\": [[from, to]]}],
   \"next\": token|null, \"index\": {\"used\", \"reason\": null|text}, \"scanned_bytes\", \"damaged_lines\",
   \"lagging_sessions\", \"unread\": [{\"session_id\", \"reason\"}], \"other_home_sessions\",
   \"complete\": true}
  position is the first byte of the line, part the text in it; matches are characters of the snippet. reason says why
  the index was not used, or not for all. complete is false if lines are damaged or lost, or logs unread or in other
  homes (unread lists the first 200 of those). A loss is noticed in the logs that are read. lagging_sessions counts the
  logs that --no-wait left out. With --rebuild and no query:
  {\"rebuilt\": {\"session_count\", \"text_count\", \"bytes\", \"failures\": [{\"session_id\", \"reason\"}]}}";

/// Find what was said, in all logs at once, the newest first
///
/// Looks through what the lines mean, in every dialect: what was asked and answered, thoughts, what tools were given and
/// what they said. What was shortened in its line is found as far as the line has it. The index is made by the first
/// search, kept up to date by each, and can be deleted at any time; what it does not know is read from the logs.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Search {
    /// What to look for
    #[arg(value_name = "QUERY", required_unless_present = "rebuild", allow_hyphen_values = true)]
    query: Option<String>,
    /// Only in this session: an id, the beginning of one, or a thread name
    #[arg(long, value_name = "SESSION", conflicts_with = "session_name")]
    session: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    /// Only this kind (user, assistant, thinking, tool_call, tool_result, result, error, note) or role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only calls and answers of this tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only since then: 2026-01-31, 2026-01-31T09:30:00Z, or how long ago: 90m, 12h, 7d, 2w
    #[arg(long, value_name = "WHEN", value_parser = args::since)]
    since: Option<Timestamp>,
    /// How many hits at the most
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Go on after a page: the token that it ended with
    #[arg(long, value_name = "TOKEN")]
    after: Option<HitToken>,
    /// Read the logs instead of using the index
    #[arg(long, conflicts_with = "rebuild")]
    no_index: bool,
    /// Throw the index away and make it anew first
    #[arg(long)]
    rebuild: bool,
    #[command(flatten)]
    waiting: Waiting,
}

/// Logs that take long enough to index that a person wants to see it.
const LONG_BYTES: u64 = 8 << 20;

/// What sessions are called, by their ids.
type Names = HashMap<SessionId, Called>;

impl Search {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // What cannot be meant is said before anything is opened.
        let query = self.query.as_deref().map(Query::parse).transpose().map_err(Error::from)?;
        let Some(store) = context.open_if_there()? else {
            context.out.note("there are no logs yet; begin one with: duolog log append --session NAME < events.jsonl");
            return self.answer(context.out, &nothing(), &Names::new());
        };
        if self.rebuild {
            let made = rebuild(context.out, &store)?;
            if query.is_none() {
                return tell_rebuilt(context.out, &made);
            }
        }
        let Some(query) = query else { return Ok(Ended::Done) };
        let reference = self.session.clone().map(SessionRef::Text).or(self.of_user.reference(context.config()?));
        let session = match reference {
            Some(reference) => Some(store.sessions().resolve(&reference)?.id),
            None => None,
        };
        let found = self.find(context.out, &store, query, session)?;
        self.answer(context.out, &found, &names(&store, &found.hits)?)
    }

    fn find(&self, out: &Out, store: &Store, query: Query, session: Option<SessionId>) -> Result<Found, Failure> {
        let filter = SearchFilter { session, role: self.role.clone(), tool: self.tool.clone(), since: self.since };
        let request = SearchRequest {
            filter,
            limit: self.limit,
            after: self.after.clone(),
            index: if self.no_index { UseIndex::Never } else { UseIndex::IfPossible },
            wait: self.waiting.wait(out, store)?,
            ..SearchRequest::new(query)
        };
        let mut bar = Bar(None);
        Ok(store.search().find(&request, |done| bar.show(out, done))?)
    }

    fn answer(&self, out: &mut Out, found: &Found, names: &Names) -> CommandResult {
        let next = found.next.as_ref().map(ToString::to_string);
        let other_homes = found.elsewhere.first.iter().map(|(session, home)| wire::SessionFailure {
            session_id: session.to_string(),
            reason: format!("its log is in home {home}"),
        });
        let name = |hit: &Hit| names.get(&hit.session).and_then(|called| called.name.as_deref());
        let answer = wire::SearchResult {
            query: self.query.clone().unwrap_or_default(),
            hits: found.hits.iter().map(|hit| wire::SearchHit::of(hit, name(hit))).collect(),
            next: next.clone(),
            index: wire::SearchIndex { used: found.used_index, reason: found.without_index.clone() },
            scanned_bytes: found.scanned_bytes,
            damaged_lines: found.damaged,
            lagging_sessions: found.behind,
            unread: found.unread.iter().map(wire::SessionFailure::from).chain(other_homes).collect(),
            other_home_sessions: found.elsewhere.sessions,
            complete: found.is_complete(),
        };
        let now = SystemClock.now();
        out.answer(&answer, |text| found.hits.iter().for_each(|hit| draw(text, hit, names, now)))?;
        if found.hits.is_empty() {
            out.note(if self.after.is_some() { "there are no more hits" } else { "nothing was found" });
        }
        self.tell(out, found);
        out.more(next.as_ref());
        Ok(if found.hits.is_empty() { Ended::No } else { Ended::Done })
    }

    /// Says what one should know about the answer.
    fn tell(&self, out: &Out, found: &Found) {
        if let Some(why) = found.without_index.as_ref().filter(|_| !self.no_index) {
            let bytes = figures::size(found.scanned_bytes);
            let how = if found.used_index { "read beside the index" } else { "read without the index" };
            out.warn(format_args!("{bytes} of logs were {how}: {why}"));
        }
        for (session, why) in &found.unread {
            out.alert(format_args!("{session} was not searched to its end: {why}"));
        }
        if found.elsewhere.sessions > 0 {
            let sessions = figures::things(found.elsewhere.sessions, "session");
            out.alert(format_args!("{sessions} of other homes not searched: run the search in each home"));
        }
        if found.behind > 0 {
            let sessions = figures::things(found.behind, "session");
            out.alert(format_args!("{sessions} not searched to the end: run the search without --no-wait"));
        }
        if found.damaged > 0 {
            let lines = figures::things(found.damaged, "damaged line");
            out.alert(format_args!("{lines} not searched; duolog log verify --all shows where"));
        }
    }
}

/// A bar, once there is enough to do.
struct Bar(Option<Progress>);

impl Bar {
    fn show(&mut self, out: &Out, done: &Indexed) {
        if done.of_bytes > LONG_BYTES {
            self.0.get_or_insert_with(|| out.progress("indexing")).set(done.bytes, Some(done.of_bytes));
        }
    }
}

fn nothing() -> Found {
    Found {
        hits: Vec::new(),
        next: None,
        without_index: None,
        used_index: false,
        scanned_bytes: 0,
        damaged: 0,
        behind: 0,
        unread: Vec::new(),
        elsewhere: Elsewhere::default(),
    }
}

fn rebuild(out: &Out, store: &Store) -> Result<Indexed, Failure> {
    let mut bar = Bar(None);
    Ok(store.search().rebuild(|done| bar.show(out, done))?)
}

fn tell_rebuilt(out: &mut Out, made: &Indexed) -> CommandResult {
    let Indexed { sessions, texts, bytes, .. } = *made;
    out.answer(&wire::SearchRebuilt::from(made), |text| {
        let (texts, sessions) = (figures::things(texts, "text"), figures::things(sessions, "session"));
        text.line(format_args!("indexed {texts} of {sessions}, {} of logs", figures::size(bytes)));
    })?;
    for (session, why) in &made.failed {
        out.warn(format_args!("{session} was not indexed to its end: {why}"));
    }
    Ok(if made.failed.is_empty() { Ended::Done } else { Ended::No })
}

/// What a session is called.
struct Called {
    name: Option<String>,
    /// Whether the name alone leads to it.
    is_thread: bool,
}

/// Looks up what the sessions of hits are called; one that goes meanwhile has its id.
fn names(store: &Store, hits: &[Hit]) -> duolog::Result<Names> {
    let mut names = Names::new();
    for hit in hits {
        if names.contains_key(&hit.session) {
            continue;
        }
        match store.sessions().get(&hit.session) {
            Ok(session) => {
                let is_thread = session.user_id.is_none();
                names.insert(hit.session.clone(), Called { name: session.name, is_thread });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

/// A hit in two lines: where it is, and what it says.
fn draw(text: &mut Text, hit: &Hit, names: &Names, now: Timestamp) {
    let what = match (&hit.tool, &hit.role) {
        (Some(name), _) | (None, Some(name)) => format!("{} {}", hit.kind.word(), short(name)),
        (None, None) => hit.kind.word().to_owned(),
    };
    let thread = names.get(&hit.session).filter(|called| called.is_thread).and_then(|called| called.name.as_deref());
    let session = thread.map_or_else(|| hit.session.to_string(), short);
    let place = text.tone(Tone::Strong, &format!("{session} {}", hit.cursor));
    let age = hit.at.map(|at| format!("  {}", figures::age(at, now))).unwrap_or_default();
    text.line(format_args!("{place}  {}", text.tone(Tone::Faint, &format!("{what}{age}"))));
    let snippet = &hit.snippet;
    let (mut line, mut at) = (String::from("  "), 0);
    for place in &snippet.matches {
        line.push_str(&snippet.text[at..place.start]);
        // The marks tell where the match is, with or without color.
        line.push_str(&text.tone(Tone::Good, &format!("«{}»", &snippet.text[place.clone()])));
        at = place.end;
    }
    line.push_str(&snippet.text[at..]);
    text.line(line);
}

/// The beginning of a name.
fn short(name: &str) -> String {
    plain(name).chars().take(64).collect()
}
