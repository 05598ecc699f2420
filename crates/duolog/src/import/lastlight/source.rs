//! Reading the rows of a Last Light database of any version and content.
//!
//! A column that a version does not have is empty. A value of the wrong type is passed on; the conversion decides about
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use duolog_state::{Column, Error as StateError, Foreign, FromColumn, Row};

use super::model::{Counts, NoteList};

/// The number of rows per query if only their numbers are kept.
const PIECE: u32 = 256;

/// A value of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Raw {
    /// NULL.
    #[default]
    Null,
    /// An integer.
    Int(i64),
    /// Any other number.
    Real(f64),
    /// Text.
    Text(String),
    /// A value of another type, with its description.
    Other(String),
}

impl Raw {
    /// Returns the text; `None` if it is not a text.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the type, for a sentence.
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::Null => "nothing",
            Self::Int(_) => "an integer",
            Self::Real(_) => "a number",
            Self::Text(_) => "text",
            Self::Other(why) => why,
        }
    }

    fn at(row: &Row<'_>, index: usize) -> Self {
        row.get(index).unwrap_or_else(|_| Self::Other("text that is not UTF-8".to_owned()))
    }
}

impl From<&str> for Raw {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl FromColumn for Raw {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        Ok(match column {
            Column::Null => Self::Null,
            Column::Int(number) => Self::Int(number),
            Column::Real(number) => Self::Real(number),
            Column::Text(text) => Self::Text(text.to_owned()),
            Column::Blob(_) => Self::Other("bytes".to_owned()),
        })
    }
}

/// The rows of one table.
pub(super) trait Source: Sized {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// The columns without which a row cannot be converted.
    const NEEDED: &'static [&'static str];

    fn read(row: &Row<'_>) -> Self;
}

macro_rules! source {
    ($(#[$doc:meta])* $name:ident, $table:literal, needs [$($needed:literal),+], { $($column:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $column: Raw),+ }

        impl Source for $name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];
            const NEEDED: &'static [&'static str] = &[$($needed),+];

            fn read(row: &Row<'_>) -> Self {
                let mut at = 0..;
                let mut next = || at.next().map_or(Raw::Null, |at| Raw::at(row, at));
                Self { $($column: next()),+ }
            }
        }
    };
}

source!(
    /// A row of `workflow_runs`.
    RunSource, "workflow_runs", needs ["id", "workflow_name", "trigger_id", "status", "started_at"], {
        id, workflow_name, trigger_id, owner, repo, issue_number, current_phase, phase_history, status, context,
        started_at, updated_at, finished_at, triggered_by, trigger_actor_type, node_statuses, scratch, restart_count,
    }
);
source!(
    /// A row of `executions`.
    ExecutionSource, "executions", needs ["id", "trigger_id", "skill", "started_at"], {
        id, trigger_type, trigger_id, skill, owner, repo, issue_number, started_at, finished_at, success, error, turns,
        duration_ms, triggered_by, session_id, cost_usd, input_tokens, cache_creation_input_tokens,
        cache_read_input_tokens, output_tokens, api_duration_ms, stop_reason, workflow_run_id, output_text,
    }
);
source!(
    /// A row of `workflow_approvals`.
    ApprovalSource, "workflow_approvals", needs ["id", "workflow_run_id", "gate", "status", "created_at"], {
        id, workflow_run_id, gate, summary, status, requested_by, responded_by, response, responded_at, created_at,
        kind,
    }
);
source!(
    /// A row of `cron_overrides`.
    ScheduleSource, "cron_overrides", needs ["name"], { name, enabled, schedule, updated_at, updated_by }
);
source!(
    /// A row of `workflow_overrides`.
    WorkflowSource, "workflow_overrides", needs ["name", "enabled"], { name, enabled, updated_at, updated_by }
);
source!(
    /// A row of `messaging_sessions`.
    ChatSource, "messaging_sessions", needs ["id", "platform", "channel_id", "user_id", "created_at"], {
        id, platform, channel_id, thread_id, user_id, agent_session_id, created_at, last_activity_at, message_count,
        active,
    }
);
source!(
    /// A row of `messaging_messages`.
    MessageSource, "messaging_messages", needs ["session_id", "role", "content"], {
        id, session_id, role, content, timestamp, platform_message_id,
    }
);

/// Tables without user data, which are not noted.
const BOOKKEEPING: [&str; 1] = ["__drizzle_migrations"];

/// A Last Light database.
pub(super) struct Database {
    foreign: Foreign,
    /// The columns of the known tables that have the required columns.
    tables: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Database {
    /// Opens a database, and notes what is not imported. Returns `None` if it has none of the known tables.
    pub(super) fn open(path: &Path, aside: &Path, notes: &mut NoteList) -> Result<Option<Self>, StateError> {
        let mut database = Self { foreign: Foreign::open(path, aside)?, tables: BTreeMap::new() };
        database.know::<RunSource>(notes)?;
        database.know::<ExecutionSource>(notes)?;
        database.know::<ApprovalSource>(notes)?;
        database.know::<ScheduleSource>(notes)?;
        database.know::<WorkflowSource>(notes)?;
        database.know::<ChatSource>(notes)?;
        database.know::<MessageSource>(notes)?;
        if database.tables.is_empty() {
            return Ok(None);
        }
        database.note_others(notes)?;
        Ok(Some(database))
    }

    fn know<T: Source>(&mut self, notes: &mut NoteList) -> Result<(), StateError> {
        let columns = self.names("SELECT name FROM pragma_table_info(?1)", &[T::TABLE])?;
        let unit = format!("table {}", T::TABLE);
        if columns.is_empty() {
            notes.note(&unit, "does not exist: this version does not have it, or never used it");
            return Ok(());
        }
        let missing: Vec<&str> = T::NEEDED.iter().copied().filter(|name| !columns.contains(*name)).collect();
        if !missing.is_empty() {
            notes.note(&unit, format!("is not imported: it has no column {}", missing.join(", ")));
            return Ok(());
        }
        for name in columns.iter().filter(|name| !T::COLUMNS.contains(&name.as_str())) {
            let rows = self.number(&format!("SELECT COUNT({}) FROM {}", quoted(name), T::TABLE), &[])?;
            if rows > 0 {
                notes.note(&unit, format!("column {name} is not imported: {rows} rows have a value in it"));
            }
        }
        self.tables.insert(T::TABLE, columns);
        Ok(())
    }

    /// Notes tables with rows that are not imported.
    fn note_others(&self, notes: &mut NoteList) -> Result<(), StateError> {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                   AND sql NOT LIKE 'CREATE VIRTUAL%'";
        let known = [
            RunSource::TABLE,
            ExecutionSource::TABLE,
            ApprovalSource::TABLE,
            ScheduleSource::TABLE,
            WorkflowSource::TABLE,
            ChatSource::TABLE,
            MessageSource::TABLE,
        ];
        for name in self.names(sql, &[])? {
            if known.contains(&name.as_str()) || BOOKKEEPING.contains(&name.as_str()) {
                continue;
            }
            let rows = self.number(&format!("SELECT COUNT(*) FROM {}", quoted(&name)), &[])?;
            if rows > 0 {
                notes.note(&format!("table {name}"), format!("is not imported: {rows} rows"));
            }
        }
        Ok(())
    }

    /// Returns the number of rows by kind.
    pub(super) fn counts(&self) -> Result<Counts, StateError> {
        Ok(Counts {
            runs: self.count::<RunSource>()?,
            executions: self.count::<ExecutionSource>()?,
            approvals: self.count::<ApprovalSource>()?,
            schedules: self.count::<ScheduleSource>()?,
            workflows: self.count::<WorkflowSource>()?,
            chats: self.count::<ChatSource>()?,
            messages: self.count::<MessageSource>()?,
        })
    }

    fn count<T: Source>(&self) -> Result<u64, StateError> {
        if !self.has::<T>() {
            return Ok(0);
        }
        self.number(&format!("SELECT COUNT(*) FROM {}", T::TABLE), &[])
    }

    /// Returns the number of rows of a run, including its own.
    pub(super) fn of_run(&self, run: &Raw) -> Result<Counts, StateError> {
        Ok(Counts {
            runs: 1,
            executions: self.count_of::<ExecutionSource>("workflow_run_id", run)?,
            approvals: self.count_of::<ApprovalSource>("workflow_run_id", run)?,
            ..Counts::default()
        })
    }

    /// Returns the number of rows of a chat, including its own.
    pub(super) fn of_chat(&self, chat: &Raw) -> Result<Counts, StateError> {
        let messages = self.count_of::<MessageSource>("session_id", chat)?;
        Ok(Counts { chats: 1, messages, ..Counts::default() })
    }

    fn count_of<T: Source>(&self, column: &str, id: &Raw) -> Result<u64, StateError> {
        let Some(id) = id.text().filter(|_| self.has::<T>()) else { return Ok(0) };
        let column = self.column::<T>('t', column);
        self.number(&format!("SELECT COUNT(*) FROM {} t WHERE {column} = ?1", T::TABLE), &[id])
    }

    fn has<T: Source>(&self) -> bool {
        self.tables.contains_key(T::TABLE)
    }

    /// Returns the SQL for a column of a table under an alias: NULL if this version does not have the column.
    fn column<T: Source>(&self, alias: char, name: &str) -> String {
        let is_there = self.tables.get(T::TABLE).is_some_and(|columns| columns.contains(name));
        if is_there { format!("{alias}.{}", quoted(name)) } else { "NULL".to_owned() }
    }

    /// Passes on the rows of a table, which has the alias `t`; none if the table does not exist.
    fn rows<T: Source, E: From<StateError>>(
        &self,
        asked: &Asked<'_>,
        each: &mut dyn FnMut(T, &Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.has::<T>() {
            return Ok(());
        }
        let columns: Vec<String> = T::COLUMNS.iter().map(|name| self.column::<T>('t', name)).collect();
        let sql = format!("SELECT {}{} FROM {} t {}", columns.join(", "), asked.beside, T::TABLE, asked.rest);
        self.foreign.try_each(&sql, asked.values, &mut |row| each(T::read(row), row))
    }

    fn numbers<T: Source>(&self, rest: &str, values: &[&str]) -> Result<Vec<i64>, StateError> {
        let mut numbers = Vec::new();
        if self.has::<T>() {
            let sql = format!("SELECT t.rowid FROM {} t {rest} LIMIT {PIECE}", T::TABLE);
            self.foreign.each(&sql, values, &mut |row| {
                numbers.push(row.get(0)?);
                Ok(())
            })?;
        }
        Ok(numbers)
    }

    /// Returns the numbers of runs that are not queued, in the order of insertion, after a number.
    pub(super) fn unqueued(&self, after: i64) -> Result<Vec<i64>, StateError> {
        let rest = format!("WHERE t.rowid > CAST(?1 AS INTEGER) AND ({}) IS NOT TRUE ORDER BY t.rowid", self.waits());
        self.numbers::<RunSource>(&rest, &[&after.to_string()])
    }

    /// Returns the numbers of queued runs, oldest first, after a place.
    pub(super) fn queued(&self, after: &(String, i64)) -> Result<Vec<i64>, StateError> {
        let started = self.column::<RunSource>('t', "started_at");
        let rest = format!(
            "WHERE {} AND ({started}, t.rowid) > (?1, CAST(?2 AS INTEGER)) ORDER BY {started}, t.rowid",
            self.waits()
        );
        self.numbers::<RunSource>(&rest, &[&after.0, &after.1.to_string()])
    }

    fn waits(&self) -> String {
        let (status, started) = (self.column::<RunSource>('t', "status"), self.column::<RunSource>('t', "started_at"));
        format!("{status} = 'queued' AND typeof({started}) = 'text'")
    }

    /// Returns the run with this number.
    pub(super) fn run(&self, number: i64) -> Result<Option<RunSource>, StateError> {
        let mut found = None;
        let values = [number.to_string()];
        let asked = Asked { rest: "WHERE t.rowid = CAST(?1 AS INTEGER)", values: &[&values[0]], ..Asked::default() };
        self.rows::<RunSource, StateError>(&asked, &mut |row, _| {
            found = Some(row);
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes on the executions of a run, by skill and start time, with true if another execution of the same phase is
    /// in flight and started later.
    pub(super) fn executions<E: From<StateError>>(
        &self,
        run: &str,
        each: &mut dyn FnMut(ExecutionSource, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let of = |alias, name| self.column::<ExecutionSource>(alias, name);
        let open = |alias| format!("{} IS NULL AND {} IS NULL", of(alias, "finished_at"), of(alias, "success"));
        let key = |alias: char| format!("({}, {alias}.rowid)", of(alias, "started_at"));
        let beside = format!(
            ", {} AND EXISTS (SELECT 1 FROM executions n WHERE {} = {} AND {} = {} AND {} AND {} > {})",
            open('t'),
            of('n', "workflow_run_id"),
            of('t', "workflow_run_id"),
            of('n', "skill"),
            of('t', "skill"),
            open('n'),
            key('n'),
            key('t'),
        );
        let rest = format!(
            "WHERE {} = ?1 ORDER BY {}, {}, t.rowid",
            of('t', "workflow_run_id"),
            of('t', "skill"),
            of('t', "started_at")
        );
        let asked = Asked { beside: &beside, rest: &rest, values: &[run] };
        self.rows(&asked, &mut |row, raw| {
            let is_overtaken: i64 = raw.get(ExecutionSource::COLUMNS.len())?;
            each(row, is_overtaken == 1)
        })
    }

    /// Passes on the executions without an existing run, in the order of insertion.
    pub(super) fn lone_executions<E: From<StateError>>(
        &self,
        each: &mut dyn FnMut(ExecutionSource) -> Result<(), E>,
    ) -> Result<(), E> {
        let absent = self.absent::<RunSource>(&self.column::<ExecutionSource>('t', "workflow_run_id"));
        let rest = format!("WHERE {absent} ORDER BY t.rowid");
        self.rows(&Asked { rest: &rest, ..Asked::default() }, &mut |row, _| each(row))
    }

    /// Passes on the gates of a run, oldest first.
    pub(super) fn approvals<E: From<StateError>>(
        &self,
        run: &str,
        each: &mut dyn FnMut(ApprovalSource) -> Result<(), E>,
    ) -> Result<(), E> {
        let of = |name| self.column::<ApprovalSource>('t', name);
        let rest = format!("WHERE {} = ?1 ORDER BY {}, t.rowid", of("workflow_run_id"), of("created_at"));
        self.rows(&Asked { rest: &rest, values: &[run], ..Asked::default() }, &mut |row, _| each(row))
    }

    /// Returns the number of gates without an existing run.
    pub(super) fn lone_approvals(&self) -> Result<u64, StateError> {
        if !self.has::<ApprovalSource>() {
            return Ok(0);
        }
        let absent = self.absent::<RunSource>(&self.column::<ApprovalSource>('t', "workflow_run_id"));
        self.number(&format!("SELECT COUNT(*) FROM workflow_approvals t WHERE {absent}"), &[])
    }

    /// Passes on the overrides of schedules.
    pub(super) fn schedules<E: From<StateError>>(
        &self,
        each: &mut dyn FnMut(ScheduleSource) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows(&Asked { rest: "ORDER BY t.name", ..Asked::default() }, &mut |row, _| each(row))
    }

    /// Passes on the overrides of workflows.
    pub(super) fn workflows<E: From<StateError>>(
        &self,
        each: &mut dyn FnMut(WorkflowSource) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows(&Asked { rest: "ORDER BY t.name", ..Asked::default() }, &mut |row, _| each(row))
    }

    /// Returns the numbers of all chats, in the order of insertion, after a number.
    pub(super) fn chats(&self, after: i64) -> Result<Vec<i64>, StateError> {
        self.numbers::<ChatSource>("WHERE t.rowid > CAST(?1 AS INTEGER) ORDER BY t.rowid", &[&after.to_string()])
    }

    /// Returns the chat with this number, and true if a later chat of its conversation is active.
    pub(super) fn chat(&self, number: i64) -> Result<Option<(ChatSource, bool)>, StateError> {
        let of = |alias, name| self.column::<ChatSource>(alias, name);
        let place = ["platform", "channel_id", "thread_id", "user_id"];
        let same: Vec<String> = place.iter().map(|name| format!("{} IS {}", of('n', name), of('t', name))).collect();
        let key = |alias: char| format!("({}, {alias}.rowid)", of(alias, "last_activity_at"));
        let beside = format!(
            ", EXISTS (SELECT 1 FROM messaging_sessions n WHERE {} AND {} = 1 AND {} > {})",
            same.join(" AND "),
            of('n', "active"),
            key('n'),
            key('t'),
        );
        let values = [number.to_string()];
        let asked = Asked { beside: &beside, rest: "WHERE t.rowid = CAST(?1 AS INTEGER)", values: &[&values[0]] };
        let mut found = None;
        self.rows::<ChatSource, StateError>(&asked, &mut |row, raw| {
            let is_overtaken: i64 = raw.get(ChatSource::COLUMNS.len())?;
            found = Some((row, is_overtaken == 1));
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes on the messages of a chat, in the order in which Last Light shows them, or in reverse.
    pub(super) fn messages<E: From<StateError>>(
        &self,
        chat: &str,
        order: Order,
        each: &mut dyn FnMut(MessageSource) -> Result<(), E>,
    ) -> Result<(), E> {
        let of = |name| self.column::<MessageSource>('t', name);
        let way = if order == Order::FirstFirst { "ASC" } else { "DESC" };
        let rest = format!("WHERE {} = ?1 ORDER BY {} {way}, t.rowid {way}", of("session_id"), of("timestamp"));
        self.rows(&Asked { rest: &rest, values: &[chat], ..Asked::default() }, &mut |row, _| each(row))
    }

    /// Returns the number of messages without an existing chat.
    pub(super) fn lone_messages(&self) -> Result<u64, StateError> {
        if !self.has::<MessageSource>() {
            return Ok(0);
        }
        let absent = self.absent::<ChatSource>(&self.column::<MessageSource>('t', "session_id"));
        self.number(&format!("SELECT COUNT(*) FROM messaging_messages t WHERE {absent}"), &[])
    }

    /// Returns the SQL condition that the id in a column is not in a table.
    fn absent<T: Source>(&self, column: &str) -> String {
        if !self.has::<T>() {
            return "1 = 1".to_owned();
        }
        let id = self.column::<T>('r', "id");
        format!("({column} IS NULL OR NOT EXISTS (SELECT 1 FROM {} r WHERE {id} = {column}))", T::TABLE)
    }

    fn names(&self, sql: &str, values: &[&str]) -> Result<BTreeSet<String>, StateError> {
        let mut names = BTreeSet::new();
        self.foreign.each(sql, values, &mut |row| {
            names.extend(row.get::<Option<String>>(0)?);
            Ok(())
        })?;
        Ok(names)
    }

    fn number(&self, sql: &str, values: &[&str]) -> Result<u64, StateError> {
        let mut number = 0;
        self.foreign.each(sql, values, &mut |row| {
            number = row.get(0)?;
            Ok(())
        })?;
        Ok(number)
    }
}

/// The order of a chat's messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    FirstFirst,
    LastFirst,
}

/// The parts of a query besides its columns.
#[derive(Default)]
struct Asked<'a> {
    /// Computed values, each after a comma.
    beside: &'a str,
    /// The conditions and the order.
    rest: &'a str,
    values: &'a [&'a str],
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
