//! Importing a session from a document. The document is read twice: first to check it completely and write its log to a
//! temporary file, then in the transaction that inserts the rows. A transaction that is retried reads the document
//! again, so memory stays small.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::str::FromStr;

use duolog_join::{NewLog, RecordedLoss};
use duolog_log::Draft;
use duolog_state::owned::branches::{self, BranchRow, ForkPoint};
use duolog_state::owned::compactions::{self, CompactionEntry, CompactionRow};
use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::progressions::{self, ProgressionRow};
use duolog_state::owned::repairs::{self, NewRepair, RepairAction};
use duolog_state::owned::sessions::{self as table, SessionRow};
use duolog_state::owned::status_transitions::{self, StatusTransitionRow};
use duolog_state::owned::{message_types, progression_items};
use duolog_state::{ConstraintKind, Error as StateError, Tx};
use duolog_types::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, REASON_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::names::check_name;
use duolog_types::{BranchId, Epoch, HomeId, MessageId, Position, ProgressionId, SessionId, Timestamp};

use serde_json::value::RawValue;

use super::document::{
    BlobPart, BranchPart, CompactionPart, GivenTwice, ItemPart, LinePart, MessagePart, ProgressionPart, SessionPart,
    StatusPart, decode_json,
};
use super::reading::{Take, read, wrong};
use crate::error::{Conflict, Error, Invalid, Result};
use crate::sessions::contents::Contents;
use crate::sessions::messages::packed;
use crate::sessions::model::Session;
use crate::sessions::rules::{bounded, stem_of};
use crate::sessions::{Exported, Sessions};

/// A session that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedSession {
    /// The session.
    pub session: Session,
    /// The content of the document.
    pub held: Exported,
}

impl Sessions {
    /// Creates a session from a document. It equals the exported session: ids, ordinals, timestamps and bytes.
    ///
    /// The import is atomic: the log is written to a temporary file and synced, then all rows are inserted in one
    /// transaction.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if the session exists, if
    /// another message has one of its ids, or if the user's name is taken. An error about an invalid document contains
    /// the place in the document.
    pub fn import(&self, mut document: impl Read + Seek + Send + 'static) -> Result<ImportedSession> {
        let join = &self.store.join;
        let line_bytes_max = join.append_limits().line_bytes_max;
        // A byte may be written as six.
        let entry_bytes_max = (line_bytes_max as u64).saturating_mul(6).saturating_add(1 << 20);
        let contents = Contents::of(join);
        let mut checking = Checking {
            contents: &contents,
            home: join.home(),
            draft: join.draft()?,
            line_bytes_max,
            session: None,
            progressions: BTreeMap::new(),
            last_ord: None,
            branches: BTreeMap::new(),
            has_default: false,
            log_bytes: 0,
            held: Exported::default(),
        };
        read(&mut document, entry_bytes_max, &mut checking)?;
        checking.has_no_gap()?;
        let Checking { draft, session, held, log_bytes, .. } = checking;
        let Some(session) = session else {
            return Err(Error::Invalid(Invalid::Document {
                at: "its beginning".to_owned(),
                why: "it has no session".to_owned(),
            }));
        };
        let key = match &self.operation {
            Some(_) => self.asking("sessions.import", &hash_of(&mut document)?)?,
            None => None,
        };
        if let Some(row) = key.as_ref().map_or(Ok(None), |key| join.adopted(key))? {
            return Ok(ImportedSession { session: row.into(), held });
        }
        if join.state().read(|tx| table::find(tx, &session.id))?.is_some() {
            return Err(Error::Conflict(Conflict::SessionTaken(session.id)));
        }
        let (user, name) = (session.user_id.as_deref(), session.name.as_deref());
        let stem = stem_of(&session.id, session.cwd.as_deref(), user, name);
        let called = session.name.clone().unwrap_or_default();
        let (loss, now) = (held.recorded_loss, join.clock().now());
        let adopted = join.adopt(key, NewLog { row: session, stem }, draft, move |tx, row| {
            document.seek(SeekFrom::Start(0)).map_err(|error| wrong(format!("it cannot be read again: {error}")))?;
            let pool = row.progression_id.as_deref().map(parsed).transpose()?;
            let mut writing = Writing { tx, home: row.home_id, session: row.id.clone(), pool, stretch: None };
            read(&mut document, entry_bytes_max, &mut writing)?;
            writing.end_stretch()?;
            if let Some(loss) = loss {
                repairs::note(tx, &lost_before(row, log_bytes, loss, now))?;
            }
            Ok::<_, Error>(())
        });
        match adopted {
            Err(error) if error.is_taken() => Err(Error::Conflict(Conflict::NameTaken(called))),
            other => Ok(ImportedSession { session: other?.into(), held }),
        }
    }
}

/// What is on record of a log of this length that lost bytes before it was exported.
fn lost_before(row: &SessionRow, log_bytes: u64, loss: RecordedLoss, now: Timestamp) -> NewRepair {
    NewRepair {
        session_id: row.id.clone(),
        home_id: row.home_id,
        epoch: row.log_epoch,
        action: RepairAction::Shorter,
        position: Position(row.log_base.0 + log_bytes),
        bytes: loss.bytes,
        hash: None,
        detail: Some("lost before the session was exported".to_owned()),
        repaired_at: now,
    }
}

/// Returns the hash of the whole document.
fn hash_of(document: &mut (impl Read + Seek)) -> Result<String> {
    let unread = |error| wrong(format!("it cannot be read again: {error}"));
    document.seek(SeekFrom::Start(0)).map_err(unread)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(document).map_err(unread)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// A progression of the document: the range of its own items, and its parent.
struct Known {
    base: u64,
    end: u64,
    parent: Option<ProgressionId>,
}

/// The first pass, which checks the document.
struct Checking<'c> {
    contents: &'c Contents,
    home: HomeId,
    draft: Draft,
    line_bytes_max: usize,
    session: Option<SessionRow>,
    progressions: BTreeMap<ProgressionId, Known>,
    last_ord: Option<u64>,
    /// The branches, with the last compaction row of each.
    branches: BTreeMap<BranchId, u64>,
    has_default: bool,
    /// The length of the log so far.
    log_bytes: u64,
    held: Exported,
}

impl Checking<'_> {
    fn known(&self, id: &ProgressionId) -> Result<&Known> {
        self.progressions.get(id).ok_or_else(|| wrong(format!("there is no progression {id}")))
    }

    /// Returns an error if a progression continues after the end of its parent.
    fn has_no_gap(&self) -> Result<()> {
        for (id, known) in &self.progressions {
            if let Some(parent) = &known.parent
                && self.known(parent)?.end < known.base
            {
                let why = format!("{id} continues at {}, and its parent {parent} ends before", known.base);
                return Err(Error::Invalid(Invalid::Document { at: "progressions".to_owned(), why }));
            }
        }
        Ok(())
    }
}

impl Take for Checking<'_> {
    fn session(&mut self, part: SessionPart) -> Result<()> {
        self.session = Some(session_of(part, self.home)?);
        Ok(())
    }

    fn status(&mut self, part: StatusPart) -> Result<()> {
        status_of(part, &SessionId::new()).map(drop)
    }

    fn progression(&mut self, part: ProgressionPart) -> Result<()> {
        let row = progression_of(&part, None)?;
        if (row.base_ord == 0) != row.parent_id.is_none() {
            return Err(wrong("a progression has a parent if and only if it does not begin at 0"));
        }
        if let Some(parent) = &row.parent_id
            && self.known(parent)?.base >= row.base_ord
        {
            return Err(wrong(format!("its parent {parent} has no items below {}", row.base_ord)));
        }
        let known = Known { base: row.base_ord, end: row.base_ord, parent: row.parent_id };
        match self.progressions.insert(row.id, known) {
            None => Ok(()),
            Some(_) => Err(wrong("this progression occurs twice")),
        }
    }

    fn message(&mut self, part: MessagePart) -> Result<()> {
        if self.last_ord.is_some_and(|last| part.ord <= last) {
            return Err(wrong(format!("ordinal {} is not greater than the one before", part.ord)));
        }
        self.last_ord = Some(part.ord);
        let pool = self.session.as_ref().and_then(|row| row.progression_id.as_deref());
        if pool.is_none() {
            return Err(wrong("the session has no progression that could list it"));
        }
        message_of(part, self.home, |text| self.contents.keep(text).map(drop))?;
        self.held.messages += 1;
        Ok(())
    }

    fn item(&mut self, part: ItemPart) -> Result<()> {
        let (id, _) = (parsed::<ProgressionId>(&part.progression_id)?, parsed::<MessageId>(&part.message_id)?);
        let end = self.known(&id)?.end;
        if part.ord != end {
            return Err(wrong(format!("expected ordinal {end}, found {}: ordinals have no gaps", part.ord)));
        }
        if let Some(known) = self.progressions.get_mut(&id) {
            known.end += 1;
        }
        Ok(())
    }

    fn branch(&mut self, part: BranchPart) -> Result<()> {
        let row = branch_of(part, &SessionId::new())?;
        self.known(&row.progression_id)?;
        let own = self.session.as_ref().and_then(|row| row.progression_id.as_deref());
        if own == Some(row.progression_id.as_str()) {
            return Err(wrong(format!(
                "{} is the pool of the session, not the history of a branch",
                row.progression_id
            )));
        }
        if let Some(forked) = &row.forked
            && !self.branches.contains_key(&forked.parent)
        {
            return Err(wrong(format!("its parent branch {} does not precede it", forked.parent)));
        }
        if row.is_default && self.has_default {
            return Err(wrong("there are two default branches"));
        }
        self.has_default |= row.is_default;
        self.held.branches += 1;
        match self.branches.insert(row.id, 0) {
            None => Ok(()),
            Some(_) => Err(wrong("this branch occurs twice")),
        }
    }

    fn compaction(&mut self, part: CompactionPart) -> Result<()> {
        let row = compaction_of(part)?;
        if row.from_ord >= row.to_ord {
            return Err(wrong(format!("range {}..{} is empty", row.from_ord, row.to_ord)));
        }
        if let CompactionEntry::Undone { branch, seq } = &row.entry
            && !self.branches.get(branch).is_some_and(|last| (1..=*last).contains(seq))
        {
            return Err(wrong(format!("it undoes {seq} of branch {branch}, which does not precede it")));
        }
        let Some(last) = self.branches.get_mut(&row.branch_id) else {
            return Err(wrong(format!("there is no branch {}", row.branch_id)));
        };
        if row.seq != *last + 1 {
            return Err(wrong(format!("expected {}, found {}", *last + 1, row.seq)));
        }
        *last = row.seq;
        Ok(())
    }

    fn line(&mut self, part: &LinePart) -> Result<()> {
        let bytes = part.bytes();
        if bytes.contains(&b'\n') {
            return Err(wrong("it contains a line break"));
        }
        if bytes.len() > self.line_bytes_max {
            return Err(wrong(format!("it is longer than the limit of a line, {} bytes", self.line_bytes_max)));
        }
        self.held.lines += 1;
        self.log_bytes += bytes.len() as u64 + 1;
        Ok(self.draft.line(bytes)?)
    }

    fn blob(&mut self, part: BlobPart) -> Result<()> {
        let id = self.contents.keep_bytes(part.bytes.bytes())?;
        if id.to_string() == part.id { Ok(()) } else { Err(wrong(format!("its bytes have the id {id}"))) }
    }

    fn lost(&mut self, bytes: u64) -> Result<()> {
        if bytes == 0 || i64::try_from(bytes).is_err() {
            return Err(wrong(format!("{bytes} is no number of lost bytes")));
        }
        self.held.recorded_loss = Some(RecordedLoss { bytes });
        Ok(())
    }

    fn wants_lines(&self) -> bool {
        true
    }
}

/// The second pass, which inserts the rows in the transaction.
struct Writing<'t, 'x> {
    tx: &'t mut Tx<'x>,
    home: HomeId,
    session: SessionId,
    pool: Option<ProgressionId>,
    /// The last contiguous range of ordinals in the pool.
    stretch: Option<Range<u64>>,
}

impl Writing<'_, '_> {
    /// Returns an error if the document does not contain this message.
    fn held(&mut self, id: &MessageId) -> Result<()> {
        let place = match &self.pool {
            Some(pool) => progression_items::ord_of(self.tx, pool, id)?,
            None => None,
        };
        place.map(drop).ok_or_else(|| wrong(format!("there is no message {id}")))
    }

    /// Writes the current segment of the pool.
    fn end_stretch(&mut self) -> Result<()> {
        let Some((Range { start, end }, pool)) = self.stretch.take().zip(self.pool.clone()) else { return Ok(()) };
        let row = PoolSegmentRow { ord: start, progression_id: pool, from_ord: start, to_ord: Some(end) };
        Ok(pool_segments::insert(self.tx, &self.session, &row)?)
    }
}

impl Take for Writing<'_, '_> {
    fn session(&mut self, _: SessionPart) -> Result<()> {
        Ok(())
    }

    fn status(&mut self, part: StatusPart) -> Result<()> {
        Ok(status_transitions::insert(self.tx, &status_of(part, &self.session)?)?)
    }

    fn progression(&mut self, part: ProgressionPart) -> Result<()> {
        let row = progression_of(&part, Some(&self.session))?;
        let inserted = progressions::insert(self.tx, &row);
        inserted.map_err(|error| taken(error, "progression", row.id.as_str()))
    }

    fn message(&mut self, part: MessagePart) -> Result<()> {
        let Some(pool) = self.pool.clone() else { return Err(wrong("the session has no progression")) };
        let (ord, class) = (part.ord, part.lion_class.clone());
        let row = message_of(part, self.home, |_| Ok(()))?;
        let row = MessageRow { lion_class: message_types::resolve(self.tx, class.as_deref())?, ..row };
        match messages::find(self.tx, &row.id)? {
            None => messages::add(self.tx, std::slice::from_ref(&row))?,
            // Messages are not copied between sessions: another session in this store has the same message.
            Some(there) if there == row => {}
            Some(_) => return Err(Error::Conflict(Conflict::MessageTaken(row.id))),
        }
        if self.stretch.as_ref().is_some_and(|stretch| stretch.end != ord) {
            self.end_stretch()?;
        }
        self.stretch = Some(self.stretch.take().map_or(ord, |stretch| stretch.start)..ord.saturating_add(1));
        let placed = progression_items::insert(self.tx, &pool, ord, &row.id);
        placed.map_err(|error| match error {
            StateError::Constraint { kind: ConstraintKind::ForeignKey, .. } => {
                wrong(format!("there is no progression {pool}"))
            }
            StateError::Constraint { .. } => wrong(format!("message {} occurs twice", row.id)),
            other => other.into(),
        })
    }

    fn item(&mut self, part: ItemPart) -> Result<()> {
        let progression = parsed(&part.progression_id)?;
        let message: MessageId = parsed(&part.message_id)?;
        self.held(&message)?;
        let placed = progression_items::insert(self.tx, &progression, part.ord, &message);
        placed.map_err(|error| match error {
            StateError::Constraint { .. } => wrong(format!("message {message} occurs twice in {progression}")),
            other => other.into(),
        })
    }

    fn branch(&mut self, part: BranchPart) -> Result<()> {
        let row = branch_of(part, &self.session)?;
        if let Some(system) = row.system_msg_id.clone() {
            self.held(&system)?;
        }
        let inserted = branches::insert(self.tx, &row);
        inserted.map_err(|error| taken(error, "branch", row.id.as_str()))
    }

    fn compaction(&mut self, part: CompactionPart) -> Result<()> {
        let row = compaction_of(part)?;
        if let CompactionEntry::Summary { message, .. } = &row.entry {
            self.held(&message.clone())?;
        }
        Ok(compactions::insert(self.tx, &row)?)
    }

    fn line(&mut self, _: &LinePart) -> Result<()> {
        Ok(())
    }

    fn blob(&mut self, _: BlobPart) -> Result<()> {
        Ok(())
    }

    fn lost(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn wants_lines(&self) -> bool {
        false
    }
}

/// Returns the error for a row that already exists.
fn taken(error: StateError, what: &str, id: &str) -> Error {
    match error {
        StateError::Constraint { kind: ConstraintKind::Unique, .. } => {
            wrong(format!("{what} {id} already exists in another session"))
        }
        other => other.into(),
    }
}

/// Decodes a JSON text.
fn decoded(value: Option<Box<RawValue>>, text: Option<String>) -> Result<Option<String>> {
    decode_json(value, text).map_err(|GivenTwice| wrong("a text is given both as a value and as text"))
}

/// Parses a text.
fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| wrong(error.to_string()))
}

fn maybe<T: FromStr<Err: std::fmt::Display>>(text: Option<&String>) -> Result<Option<T>> {
    text.map(|text| parsed(text)).transpose()
}

/// Returns an error if a text is too long for its column.
fn fits<const MAX: usize>(texts: &[(&'static str, Option<&String>)]) -> Result<()> {
    for (what, text) in texts {
        if let Some(text) = text {
            bounded::<MAX>(what, text).map_err(|error| wrong(error.to_string()))?;
        }
    }
    Ok(())
}

fn named(what: &'static str, name: Option<&String>) -> Result<()> {
    name.map_or(Ok(()), |name| check_name(what, name).map_err(|error| wrong(error.to_string())))
}

fn session_of(part: SessionPart, home: HomeId) -> Result<SessionRow> {
    named("user", part.user_id.as_ref())?;
    named("session name", part.name.as_ref())?;
    if part.addressed && part.name.is_none() {
        return Err(wrong("it is addressed by its name and has none"));
    }
    let names = [&part.agent_name, &part.playbook_name, &part.show_topic, &part.show_play_name];
    fits::<NAME_BYTES_MAX>(&names.map(|text| ("a name", text.as_ref())))?;
    fits::<PATH_BYTES_MAX>(&[("cwd", part.cwd.as_ref()), ("artifacts_path", part.artifacts_path.as_ref())])?;
    let metadata = decoded(part.node_metadata, part.node_metadata_text)?;
    fits::<METADATA_BYTES_MAX>(&[("node_metadata", metadata.as_ref())])?;
    for id in [&part.first_msg_id, &part.last_msg_id] {
        maybe::<MessageId>(id.as_ref())?;
    }
    maybe::<ProgressionId>(part.progression_id.as_ref())?;
    let mut row = SessionRow::new(parsed(&part.id)?, home, "", "", parsed(&part.created_at)?);
    row.user_id = part.user_id;
    row.name = part.name;
    row.addressed = part.addressed;
    row.log_epoch = Epoch(part.log_epoch);
    row.cwd = part.cwd;
    row.agent_name = part.agent_name;
    row.invocation_kind = maybe(part.invocation_kind.as_ref())?;
    row.playbook_name = part.playbook_name;
    row.show_topic = part.show_topic;
    row.show_play_name = part.show_play_name;
    row.artifacts_path = part.artifacts_path;
    row.source_kind = parsed(&part.source_kind)?;
    row.status = maybe(part.status.as_ref())?;
    row.started_at = maybe(part.started_at.as_ref())?;
    row.updated_at = parsed(&part.updated_at)?;
    row.ended_at = maybe(part.ended_at.as_ref())?;
    row.first_msg_id = part.first_msg_id;
    row.last_msg_id = part.last_msg_id;
    row.progression_id = part.progression_id;
    row.node_metadata = metadata;
    Ok(row)
}

fn status_of(part: StatusPart, session: &SessionId) -> Result<StatusTransitionRow> {
    let evidence = decoded(part.evidence, part.evidence_text)?;
    fits::<WORD_BYTES_MAX>(&[("reason_code", part.reason_code.as_ref())])?;
    fits::<REASON_BYTES_MAX>(&[("reason", part.reason.as_ref())])?;
    fits::<NAME_BYTES_MAX>(&[("actor", part.actor.as_ref())])?;
    fits::<METADATA_BYTES_MAX>(&[("evidence", evidence.as_ref())])?;
    Ok(StatusTransitionRow {
        session_id: session.clone(),
        previous_status: maybe(part.previous_status.as_ref())?,
        status: parsed(&part.status)?,
        reason_code: part.reason_code,
        reason: part.reason,
        actor: part.actor,
        evidence,
        created_at: parsed(&part.created_at)?,
    })
}

fn progression_of(part: &ProgressionPart, session: Option<&SessionId>) -> Result<ProgressionRow> {
    let created_at: Timestamp = parsed(&part.created_at)?;
    Ok(ProgressionRow {
        id: parsed(&part.id)?,
        parent_id: maybe(part.parent_id.as_ref())?,
        base_ord: part.base_ord,
        end: part.base_ord,
        ..ProgressionRow::new(session, created_at)
    })
}

/// Returns the row of a message without its class. `keep` is called with its content.
fn message_of(part: MessagePart, home: HomeId, keep: impl FnOnce(&str) -> Result<()>) -> Result<MessageRow> {
    if part.role.trim().is_empty() {
        return Err(wrong("its role is empty"));
    }
    fits::<WORD_BYTES_MAX>(&[("role", Some(&part.role))])?;
    let names = [&part.sender, &part.recipient, &part.channel, &part.lion_class];
    fits::<NAME_BYTES_MAX>(&names.map(|text| ("sender, recipient, channel or class", text.as_ref())))?;
    let metadata = decoded(part.node_metadata, part.node_metadata_text)?;
    fits::<METADATA_BYTES_MAX>(&[("node_metadata", metadata.as_ref())])?;
    let all =
        |numbers: Vec<Box<RawValue>>| numbers.iter().map(|raw| raw.get().parse()).collect::<Result<Vec<f32>, _>>();
    let embedding = part.embedding.map(all);
    let embedding = embedding.transpose().map_err(|_| wrong("its embedding contains a value that is not a number"))?;
    let embedding = embedding.map(|numbers| packed(&numbers)).transpose();
    let Some(text) = decoded(part.content, part.content_text)? else { return Err(wrong("it has no content")) };
    keep(&text).map_err(|error| match error {
        Error::Invalid(Invalid::Item { .. }) => wrong(error.to_string()),
        other => other,
    })?;
    let content = Contents::kept(text, home);
    Ok(MessageRow {
        node_metadata: metadata,
        embedding: embedding.map_err(|error| wrong(error.to_string()))?,
        sender: part.sender,
        recipient: part.recipient,
        channel: part.channel,
        compactable: part.compactable,
        ..MessageRow::new(parsed(&part.id)?, &part.role, content, parsed(&part.created_at)?)
    })
}

fn branch_of(part: BranchPart, session: &SessionId) -> Result<BranchRow> {
    named("user", part.user_id.as_ref())?;
    named("branch name", part.name.as_ref())?;
    let metadata = decoded(part.node_metadata, part.node_metadata_text)?;
    fits::<METADATA_BYTES_MAX>(&[("node_metadata", metadata.as_ref())])?;
    let forked = match part.forked {
        Some(forked) => {
            let parent = parsed(&forked.parent_branch_id)?;
            Some(ForkPoint { parent, at_ord: forked.at_ord, at_seq: forked.at_seq })
        }
        None => None,
    };
    Ok(BranchRow {
        id: parsed(&part.id)?,
        created_at: parsed(&part.created_at)?,
        node_metadata: metadata,
        user_id: part.user_id,
        name: part.name,
        session_id: session.clone(),
        progression_id: parsed(&part.progression_id)?,
        system_msg_id: maybe(part.system_msg_id.as_ref())?,
        forked,
        is_default: part.default,
    })
}

fn compaction_of(part: CompactionPart) -> Result<CompactionRow> {
    let entry = match (part.summary_msg_id, part.undoes) {
        (Some(message), None) => CompactionEntry::Summary { message: parsed(&message)?, covers_all: part.covers_all },
        (None, Some(undoes)) => CompactionEntry::Undone { branch: parsed(&undoes.branch_id)?, seq: undoes.seq },
        _ => return Err(wrong("it neither is a summary nor undoes one")),
    };
    Ok(CompactionRow {
        branch_id: parsed(&part.branch_id)?,
        seq: part.seq,
        from_ord: part.from_ord,
        to_ord: part.to_ord,
        entry,
        created_at: parsed(&part.created_at)?,
    })
}
