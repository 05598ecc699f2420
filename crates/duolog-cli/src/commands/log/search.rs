//! `duolog log search`.

use std::collections::HashMap;

use clap::Args;
use duolog::log::{Directory, DirectoryLog};
use duolog::search::{self, Found, Hit, HitToken, Indexed, LostLog, Query, SearchFilter, SearchRequest, UseIndex};
use duolog::sessions::SessionRef;
use duolog::{Clock as _, Error, ErrorKind, SessionId, Store, SystemClock, Timestamp, limits};
use duolog_wire as wire;

use super::super::completeness::Waiting;
use super::Context;
use crate::args::{self, LogsDir, OfUser};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Out, Progress, Text, Tone, plain};

const AFTER: &str = "\
Query: a text matches if it contains every term, in any order; case is ignored
  deadlock              word
  \"could not connect\"   phrase
  std::fs  --no-index   literal text, if a term contains other characters than letters
  connect*              words with this prefix
  -test  -\"as planned\"  exclude texts that contain the term

Examples:
  duolog log search 'deadlock -test'
  duolog log search '\"could not connect\"' --role tool_result --since 7d
  duolog log search 'config*' --session demo --json | jq -r '.hits[].snippet'
  duolog log search deadlock --logs-dir ~/.claude/projects
  duolog log replay demo --verbose --from 0:1234        show the log from a hit on

Exit code: 1 if nothing is found

JSON:
  {\"query\", \"hits\": [{\"session_id\", \"session_name\", \"position\", \"epoch\", \"part\", \"occurred_at\",
                      \"kind\", \"role\", \"tool\", \"snippet\", \"matches\": [[from, to]]}],
   \"next\": token|null, \"index\": {\"used\", \"reason\": null|text}, \"scanned_bytes\", \"damaged_lines\",
   \"lagging_sessions\", \"unread\": [{\"session_id\", \"reason\"}],
   \"lost_logs\": [{\"session_id\", \"reason\", \"lost_bytes\"}], \"other_home_sessions\", \"complete\": true}
  position is the first byte of the line, part the index of the text in the line. matches are
  character ranges of the snippet. reason tells you why the index was not used, or not for all logs.
  complete is false if lines are damaged or lost, or if logs could not be read or are in other homes;
  unread lists the first 200 of those logs. lost_logs were searched to their end, without the lines
  that they have lost; losses that are not on record are found only in logs that are read.
  lagging_sessions is the number of logs that --no-wait skipped. With --rebuild and no query:
  {\"rebuilt\": {\"session_count\", \"text_count\", \"bytes\", \"failures\": [{\"session_id\", \"reason\"}]}}";

/// Search all logs
///
/// The newest hit comes first. The search covers prompts, answers, thinking, tool calls and tool results, in every
/// dialect. Of a text that is shortened in its line, only the part in the line is searched.
///
/// The first search creates the index, and every search updates it. The index can be deleted at any time. Lines that
/// are not in the index are read from the logs.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(mut_arg("logs_dir", |dir| dir.conflicts_with_all(["session_name", "user_email"])))]
pub struct Search {
    /// Search terms
    #[arg(value_name = "QUERY", required_unless_present = "rebuild", allow_hyphen_values = true)]
    query: Option<String>,
    /// Filter by session: session id, unique prefix or thread name
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["session_name", "logs_dir"])]
    session: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    /// Filter by role or kind
    ///
    /// The kinds are user, assistant, thinking, tool_call, tool_result, result, error and note.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Filter by tool: its calls and results
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Start of the range of times: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    since: Option<Timestamp>,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<HitToken>,
    /// Read the logs instead of using the index
    #[arg(long, conflicts_with_all = ["rebuild", "logs_dir"])]
    no_index: bool,
    /// Rebuild the index first
    #[arg(long, conflicts_with = "logs_dir")]
    rebuild: bool,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    logs_dir: LogsDir,
}

/// Size of the logs to index above which a progress bar is shown.
const LONG_BYTES: u64 = 8 << 20;

/// Names of sessions by id.
type Names = HashMap<SessionId, SessionName>;

impl Search {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // Report an invalid query before the store is opened.
        let query = self.query.as_deref().map(Query::parse).transpose().map_err(Error::from)?;
        if let Some(directory) = self.logs_dir.open(&context.config()?.limits())? {
            let Some(query) = query else { return Ok(Ended::Done) };
            return self.find_in(context.out, &directory, query);
        }
        let Some(store) = context.open_if_there()? else {
            context.out.note("there are no logs yet; create one with: duolog log append --session NAME < events.jsonl");
            return self.answer(context.out, &Found::default(), &Names::new());
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

    /// Searches the logs of another program.
    fn find_in(&self, out: &mut Out, directory: &Directory, query: Query) -> CommandResult {
        let bar = (directory.bytes() > LONG_BYTES).then(|| out.progress("reading"));
        let request = self.request(query, None);
        let found = search::find_in(directory, &request, &mut |done, of| {
            if let Some(bar) = &bar {
                bar.set(done, Some(of));
            }
        })?;
        drop(bar);
        let entry = |log: &DirectoryLog| {
            (log.id.clone(), SessionName { name: Some(log.path.to_string_lossy().into_owned()), is_thread: true })
        };
        let names: Names = directory.logs().iter().map(entry).collect();
        self.answer(out, &found, &names)
    }

    fn request(&self, query: Query, session: Option<SessionId>) -> SearchRequest {
        let filter = SearchFilter { session, role: self.role.clone(), tool: self.tool.clone(), since: self.since };
        SearchRequest {
            filter,
            limit: self.limit,
            after: self.after.clone(),
            index: if self.no_index { UseIndex::Never } else { UseIndex::IfPossible },
            ..SearchRequest::new(query)
        }
    }

    fn find(&self, out: &Out, store: &Store, query: Query, session: Option<SessionId>) -> Result<Found, Failure> {
        let request = SearchRequest { wait: self.waiting.wait(out, store)?, ..self.request(query, session) };
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
            lost_logs: found.lost.iter().map(wire::LostLog::from).collect(),
            other_home_sessions: found.elsewhere.sessions,
            complete: found.is_complete(),
        };
        let now = SystemClock.now();
        out.answer(&answer, |text| found.hits.iter().for_each(|hit| draw(text, hit, names, now)))?;
        if found.hits.is_empty() {
            out.note(if self.after.is_some() { "no more results" } else { "no results" });
        }
        self.tell(out, found);
        out.more(next.as_ref());
        Ok(if found.hits.is_empty() { Ended::No } else { Ended::Done })
    }

    /// Warns of logs that were not searched and of a search without the index.
    fn tell(&self, out: &Out, found: &Found) {
        if let Some(why) = found.without_index.as_ref().filter(|_| !self.no_index && self.logs_dir.is_none()) {
            let bytes = figures::size(found.scanned_bytes);
            let how = if found.used_index { "read in addition to the index" } else { "read without the index" };
            out.warn(format_args!("{bytes} of logs were {how}: {why}"));
        }
        for (session, why) in &found.unread {
            out.alert(format_args!("session {session} was not searched to the end: {why}"));
        }
        for log in &found.lost {
            let LostLog { session, reason, .. } = log;
            out.alert(format_args!("session {session} was searched without the lines that its log has lost: {reason}"));
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
            let place = if self.logs_dir.is_none() { "; to list the places, run: duolog log verify --all" } else { "" };
            out.alert(format_args!("{lines} not searched{place}"));
        }
    }
}

/// Progress bar that is shown only for large logs.
struct Bar(Option<Progress>);

impl Bar {
    fn show(&mut self, out: &Out, done: &Indexed) {
        if done.of_bytes > LONG_BYTES {
            self.0.get_or_insert_with(|| out.progress("indexing")).set(done.bytes, Some(done.of_bytes));
        }
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
        text.line(format_args!("indexed {texts} from {sessions} ({} of logs)", figures::size(bytes)));
    })?;
    for (session, why) in &made.failed {
        out.warn(format_args!("session {session} was not indexed to the end: {why}"));
    }
    Ok(if made.failed.is_empty() { Ended::Done } else { Ended::No })
}

/// Name of a session.
struct SessionName {
    name: Option<String>,
    /// True if the name is a thread name, which is enough to find the session.
    is_thread: bool,
}

/// Looks up the names of the sessions of hits. A session that was deleted meanwhile has no entry.
fn names(store: &Store, hits: &[Hit]) -> duolog::Result<Names> {
    let mut names = Names::new();
    for hit in hits {
        if names.contains_key(&hit.session) {
            continue;
        }
        match store.sessions().get(&hit.session) {
            Ok(session) => {
                let is_thread = session.user_id.is_none();
                names.insert(hit.session.clone(), SessionName { name: session.name, is_thread });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

/// Draws a hit in two lines: its position and its snippet.
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
        // The quotation marks show the match, with or without color.
        line.push_str(&text.tone(Tone::Good, &format!("«{}»", &snippet.text[place.clone()])));
        at = place.end;
    }
    line.push_str(&snippet.text[at..]);
    text.line(line);
}

/// Shortens a name to 64 characters.
fn short(name: &str) -> String {
    plain(name).chars().take(64).collect()
}
