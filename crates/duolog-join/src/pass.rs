//! Passes: what lets a command append one batch and end, without opening the state.
//!
//! Most of what such a command costs is the database. A pass is a small file that says how the state knew a log when the
//! last command left it; with it, an append needs the log alone, and a note of it. It is granted to a name, because that
//! is what the next command will know. Anything out of the ordinary is left to whoever opens the state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duolog_log::{
    Append, Disk, Error as LogError, Ident, Kind, LineHash, Lock, Open, Place, Reader, Standing, Untouched, Writer,
    hash_line,
};
use duolog_state::known_version;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::limits::Limits;
use duolog_types::names::{THREADS, sanitize};
use duolog_types::{Batch, Clock, Durability, Epoch, HomeId, Position, ProcessId, SessionId, mutant, mutant::Mutant};
use serde::{Deserialize, Serialize};

use crate::append::Committed;
use crate::error::{Error, Result};
use crate::notes::{DIRECTORY, Header, NOTES_BYTES_MAX, Note, Notes, Read, from_hex, hex};
use crate::recover::tolerate;
use crate::store::Join;

/// How long a command waits for those who take notes in, before it opens the state itself.
const WAIT: Duration = Duration::from_millis(50);
/// More than a pass can have: two names and a path.
const PASS_BYTES_MAX: usize = 16 << 10;

/// What a session is called by those who append to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The user whose session it is; none for a thread.
    pub user: Option<String>,
    /// Its name.
    pub name: String,
}

impl Called {
    /// What a session is called; nothing where it has no name of its own.
    fn of(row: &SessionRow) -> Option<Self> {
        let name = row.name.clone().filter(|_| row.addressed)?;
        Some(Self { user: row.user_id.clone(), name })
    }

    fn path(&self) -> PathBuf {
        let scope = self.user.as_deref().map_or_else(|| THREADS.to_owned(), sanitize);
        Path::new(DIRECTORY).join(scope).join(format!("{}.json", sanitize(&self.name)))
    }
}

/// A pass as it stands in its file.
#[derive(Serialize, Deserialize)]
struct Pass {
    home: String,
    boot: String,
    user: Option<String>,
    name: String,
    session: String,
    log: String,
    base: u64,
    epoch: u32,
    device: u64,
    inode: u64,
    end: u64,
    line_hash: String,
}

impl Pass {
    /// The pass at a path; what cannot be read is none.
    fn read(disk: &Arc<dyn Disk>, path: &Path) -> Result<Option<Self>> {
        let file = match disk.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("open", path)(error).into()),
        };
        let mut bytes = vec![0; PASS_BYTES_MAX];
        let len = file.read_at(&mut bytes, 0).map_err(LogError::io("read", path))?;
        Ok(serde_json::from_slice(&bytes[..len]).ok())
    }

    /// Puts it at its path, in one piece. Whoever does that holds the notes alone.
    fn write(&self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        let scope = path.parent().unwrap_or(path);
        disk.create_dir(scope).map_err(LogError::io("make", scope))?;
        let aside = Path::new(DIRECTORY).join("aside");
        // One who died left it.
        remove(disk, &aside)?;
        let bytes = serde_json::to_vec(self).map_err(Error::NoJson)?;
        let file = disk.open(&aside, Open::Create).map_err(LogError::io("create", &aside))?;
        if file.append(&bytes).map_err(LogError::io("write", &aside))? < bytes.len() {
            return Err(LogError::Full(aside).into());
        }
        Ok(disk.rename(&aside, path).map_err(LogError::io("put in place", path))?)
    }

    fn untouched(self, session: &SessionId, notes: &[Note]) -> Option<Untouched> {
        let ours = |note: &&Note| note.session == *session && note.epoch == Epoch(self.epoch);
        let since = notes.iter().rev().filter(ours).find_map(|note| note.reached);
        let granted = (Position(self.end), from_hex(&self.line_hash)?);
        let (end, last_line) = since.filter(|since| since.0 > granted.0).unwrap_or(granted);
        let place = Place { path: self.log.into(), base: Position(self.base), sealed: Vec::new() };
        Some(Untouched { place, ident: Ident { device: self.device, inode: self.inode }, end, last_line })
    }
}

fn remove(disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
    match disk.unlink(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LogError::io("remove", path)(error).into()),
        _ => Ok(()),
    }
}

/// A home, as far as an append with a pass needs it.
pub struct Passing<'h> {
    /// The disk that its logs are on.
    pub disk: Arc<dyn Disk>,
    /// Which home it is.
    pub home: HomeId,
    /// Limits.
    pub limits: &'h Limits,
    /// Where the time comes from.
    pub clock: &'h dyn Clock,
    /// Which boot of the machine this is.
    pub boot: &'h str,
}

impl Passing<'_> {
    /// Appends with the pass that was granted to a name.
    ///
    /// Nothing is the answer where there is none, or where there is more to do than to append; then nothing was written.
    pub fn append(&self, called: &Called, batch: &Batch, how: &Append) -> Result<Option<(SessionId, Committed)>> {
        let Some(notes) = Notes::open(&self.disk, Open::Append, Lock::Shared, WAIT)? else { return Ok(None) };
        let Some(pass) = self.pass_of(called)? else { return Ok(None) };
        let read = notes.read()?;
        let header = Header { schema: known_version(), boot: self.boot.to_owned() };
        if read.header != Some(header) || read.bytes > NOTES_BYTES_MAX {
            return Ok(None);
        }
        let (Ok(session), epoch) = (SessionId::parse(&pass.session), Epoch(pass.epoch)) else { return Ok(None) };
        let Some(known) = pass.untouched(&session, &read.notes) else { return Ok(None) };
        let mut note = Note { session: session.clone(), epoch, at: self.clock.now(), reached: None };
        // While the notes are shared nobody takes them in, so one that is there is still a mark.
        let is_marked = read.notes.iter().any(|note| note.session == session) || mutant::is(Mutant::NoPassNote);
        let announce = || is_marked || notes.add(&note).unwrap_or(false);
        let Some(appended) = Writer::append_untouched(&self.disk, &known, batch, how, self.limits, announce)? else {
            return Ok(None);
        };
        note.reached = last_line(batch).map(|hash| (appended.end, hash));
        // Without it the next command finds the log longer than it should be, and opens the state.
        let _ = notes.add(&note);
        Ok(Some((session, Committed { lines: batch.len(), start: appended.start, end: appended.end, epoch })))
    }

    fn pass_of(&self, called: &Called) -> Result<Option<Pass>> {
        let pass = Pass::read(&self.disk, &called.path())?;
        // Names that make the same path share it, and what another boot granted may have been taken back.
        Ok(pass.filter(|pass| {
            (&pass.user, &pass.name) == (&called.user, &called.name)
                && pass.home == self.home.to_string()
                && pass.boot == self.boot
        }))
    }
}

fn last_line(batch: &Batch) -> Option<LineHash> {
    let last = batch.lines().next_back()?;
    Some(hash_line(&batch.as_bytes()[last.start..last.end - 1]))
}

/// A name without a pass: as long as this is there, nobody is granted one, and nobody appends with one.
pub struct Revoked {
    _notes: Option<Notes>,
}

impl Join {
    /// Grants a pass for a log that was folded to its end; says whether that could be.
    pub fn grant_pass(&self, session: &SessionId) -> Result<bool> {
        if !self.passes || !self.is_writable() {
            return Ok(false);
        }
        let notes = Notes::alone(&self.disk, WAIT)?;
        self.take_in_from(&notes)?;
        let known = self.known(session)?;
        self.own(&known.row)?;
        let Some(called) = Called::of(&known.row) else { return Ok(false) };
        let folded = known.catalog.as_ref().and_then(|catalog| Some((catalog.position, catalog.line_hash?)));
        let Some((end, hash)) = folded else { return Ok(false) };
        // A session whose id is that name goes before it.
        if let Ok(id) = SessionId::parse(&called.name)
            && self.state.read(|tx| sessions::find(tx, &id))?.is_some_and(|row| row.id != *session)
        {
            return Ok(false);
        }
        self.write_pass(&known.row, &called, end, &hash)
    }

    /// Writes a pass for a log that ends there; says whether it does.
    fn write_pass(&self, row: &SessionRow, called: &Called, end: Position, hash: &LineHash) -> Result<bool> {
        let log = Path::new(&row.log_path);
        let stat = self.disk.stat(log).map_err(LogError::io("look at", log))?;
        let at_end = |stat: &duolog_log::Stat| stat.kind == Kind::File && row.log_base.0 + stat.len == end.0;
        let Some(stat) = stat.filter(at_end) else { return Ok(false) };
        let pass = Pass {
            home: self.home.to_string(),
            boot: self.boot.clone(),
            user: called.user.clone(),
            name: called.name.clone(),
            session: row.id.to_string(),
            log: row.log_path.clone(),
            base: row.log_base.0,
            epoch: row.log_epoch.0,
            device: stat.ident.device,
            inode: stat.ident.inode,
            end: end.0,
            line_hash: hex(hash),
        };
        pass.write(&self.disk, &called.path()).map(|()| true)
    }

    /// Takes back the pass of a session that is about to be called otherwise, or to go.
    pub fn revoke_pass(&self, session: &SessionId) -> Result<Revoked> {
        self.revoke(|| Ok(self.state.read(|tx| sessions::find(tx, session))?.as_ref().and_then(Called::of)))
    }

    /// Takes back the pass of a thread that is called as a new session's id.
    pub fn revoke_pass_to(&self, id: &SessionId) -> Result<Revoked> {
        self.revoke(|| Ok(Some(Called { user: None, name: id.to_string() })))
    }

    fn revoke(&self, called: impl FnOnce() -> Result<Option<Called>>) -> Result<Revoked> {
        if !self.passes || !self.is_writable() {
            return Ok(Revoked { _notes: None });
        }
        let notes = Notes::alone(&self.disk, self.limits.busy_timeout)?;
        // What follows may look for notes itself, and must not wait for us.
        self.take_in_from(&notes)?;
        // Asked only now: until we held the notes it could be called otherwise, and be granted another.
        if let Some(called) = called()? {
            remove(&self.disk, &called.path())?;
        }
        Ok(Revoked { _notes: Some(notes) })
    }

    /// Takes in what was appended with passes: its sessions are marked, and their logs compared with what was noted.
    pub(crate) fn take_in(&self) -> Result<()> {
        if !self.passes || !self.is_writable() {
            return Ok(());
        }
        let empty = self.header().len();
        let seen = self.notes_begun.load(Ordering::Relaxed);
        if Notes::len(&self.disk)?.is_none_or(|len| seen && len == empty) {
            return Ok(());
        }
        let notes = Notes::open(&self.disk, Open::Append, Lock::Exclusive, self.limits.busy_timeout)?;
        notes.map_or(Ok(()), |notes| self.take_in_from(&notes))
    }

    fn header(&self) -> Header {
        Header { schema: known_version(), boot: self.boot.clone() }
    }

    /// The same from notes that are held alone.
    fn take_in_from(&self, notes: &Notes) -> Result<()> {
        let (read, header) = (notes.read()?, self.header());
        let is_ours = read.header.as_ref() == Some(&header);
        if is_ours && read.notes.is_empty() && !read.is_too_much() {
            self.notes_begun.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let is_same_boot = read.header.as_ref().is_some_and(|noted| noted.boot == header.boot);
        if read.is_too_much() {
            // Whatever it says, every log is looked at.
            *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(false);
        }
        let last = last_notes(&read);
        self.mark_noted(&last)?;
        // What another boot noted may have gone with the power, and nobody touched it.
        if is_same_boot {
            for note in last.values() {
                tolerate(self.compare_noted(note))?;
                self.renew_pass(note)?;
            }
        }
        notes.begin(&header)?;
        self.notes_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Marks the sessions that were appended to, as a process that is no longer there would have.
    fn mark_noted(&self, last: &BTreeMap<SessionId, Note>) -> Result<()> {
        if last.is_empty() {
            return Ok(());
        }
        let process_id = ProcessId::new();
        let generation = self.marks.fetch_add(1, Ordering::SeqCst) + 1;
        let marks: Vec<BehindRow> = last
            .values()
            .map(|note| BehindRow {
                session_id: note.session.clone(),
                process_id,
                home_id: self.home,
                generation,
                pid: std::process::id(),
                marked_at: note.at,
            })
            .collect();
        let home = self.home;
        self.write(Durability::Process, move |tx| {
            for mark in &marks {
                let row = sessions::find(tx, &mark.session_id)?;
                // What is deleted by now has no log to fold.
                if row.is_some_and(|row| row.home_id == home && row.deleted_at.is_none()) {
                    behind::mark(tx, mark)?;
                    sessions::touch(tx, &mark.session_id, mark.marked_at)?;
                }
            }
            Ok(())
        })
    }

    /// Has the pass say what a note said that is now gone.
    fn renew_pass(&self, note: &Note) -> Result<()> {
        let row = self.state.read(|tx| sessions::find(tx, &note.session))?;
        let Some(row) = row.filter(|row| row.log_epoch == note.epoch) else { return Ok(()) };
        let Some((called, (end, hash))) = Called::of(&row).zip(note.reached) else { return Ok(()) };
        if Pass::read(&self.disk, &called.path())?.is_some_and(|pass| pass.session == note.session.as_str()) {
            self.write_pass(&row, &called, end, &hash)?;
        }
        Ok(())
    }

    /// Looks whether a log still has what was noted of it, and records it where it has not.
    fn compare_noted(&self, note: &Note) -> Result<()> {
        let Some((end, hash)) = note.reached else { return Ok(()) };
        let mut known = match self.known(&note.session) {
            Err(Error::NoSession(_) | Error::Deleted(_)) => return Ok(()),
            other => other?,
        };
        if known.row.log_epoch != note.epoch || known.watermark.recorded_to >= end || mutant::is(Mutant::NoEpoch) {
            return Ok(());
        }
        known.watermark.recorded_to = end;
        known.watermark.folded = Some((end, hash));
        let standing = match Reader::open(&self.disk, &known.place())? {
            Some(reader) => self.standing(&known, &reader, reader.stable_end(self.limits.busy_timeout)?)?,
            None => Standing::Missing,
        };
        self.note_change(&note.session, note.epoch, standing).map(drop)
    }

    /// Forgets the pass for a log that is not what it was: with the epoch that it names nobody must append.
    pub(crate) fn drop_pass(&self, row: &SessionRow) {
        if let Some(called) = Called::of(row).filter(|_| self.passes) {
            // The log is another, so it would not pass anyway.
            let _ = remove(&self.disk, &called.path());
        }
    }

    /// The sessions that were appended to with passes and are not marked yet; for who may not take them in.
    pub(crate) fn noted(&self) -> Result<Vec<SessionId>> {
        if !self.passes {
            return Ok(Vec::new());
        }
        let Some(notes) = Notes::open(&self.disk, Open::Read, Lock::Shared, WAIT)? else { return Ok(Vec::new()) };
        Ok(last_notes(&notes.read()?).into_keys().collect())
    }
}

/// The last note of each session, with how far its log reached by the last that says so.
fn last_notes(read: &Read) -> BTreeMap<SessionId, Note> {
    let mut last: BTreeMap<SessionId, Note> = BTreeMap::new();
    for note in &read.notes {
        let before = last.insert(note.session.clone(), note.clone());
        let reached = before.filter(|before| before.epoch == note.epoch).and_then(|before| before.reached);
        if let (None, Some(reached), Some(kept)) = (note.reached, reached, last.get_mut(&note.session)) {
            kept.reached = Some(reached);
        }
    }
    last
}
