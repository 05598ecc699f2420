//! `duolog sessions export`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use duolog::Store;
use duolog::errors::Io;
use duolog::sessions::{Exported, Session};
use duolog_wire::SessionExported;

use super::{Context, run};
use crate::args::Which;
use crate::commands::log::tell_lost_earlier;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::Out;

/// Separator between the file name and the process id in the name of a temporary file.
const PART: &str = ".part-";

const AFTER: &str = "\
Examples:
  duolog sessions export demo --output demo.json
  duolog sessions export demo | gzip > demo.json.gz
  duolog sessions export demo | duolog --home /srv/other sessions import -

The document is one JSON object, {\"duolog_export\": 1, …}; docs/format.md describes it. It does not
contain the path of the log, seals, repairs, inboxes or the process that runs the session: they
belong to the home. If the log has lost bytes, the last member is lost_bytes, and sessions import
records the loss.

JSON: with --output
  {\"session_id\", \"path\", \"branch_count\", \"message_count\", \"line_count\", \"complete\", \"lost_bytes\"}
  complete is false if the log has lost bytes.
  Without --output the answer is the document itself, with or without --json";

/// Export a session as one JSON document
///
/// The document contains the conversations, the status history and the log of the session. sessions import restores an
/// equal session, in another home or after the session was deleted. Memory use does not grow with the session.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Export {
    #[command(flatten)]
    which: Which,
    /// Output file, written atomically [default: stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

impl Export {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let Some(path) = &self.output else {
            let exported = store.sessions().export(&session.id, &mut context.out.writer())?;
            context.out.flush()?;
            tell_lost(context.out, &exported);
            return Ok(Ended::Done);
        };
        let exported = self.write(&store, &session, path)?;
        let Exported { branches, messages, lines, recorded_loss } = exported;
        let answer = SessionExported {
            session_id: session.id.to_string(),
            path: path.to_string_lossy().into_owned(),
            branch_count: branches,
            message_count: messages,
            line_count: lines,
            complete: recorded_loss.is_none(),
            lost_bytes: recorded_loss.map_or(0, |loss| loss.bytes),
        };
        context.out.confirm(&answer, |text| {
            let messages = figures::things(messages, "message");
            let lines = figures::things(lines, "line");
            text.line(format_args!("wrote {messages} and {lines} of log to {}", path.display()));
        })?;
        tell_lost(context.out, &exported);
        Ok(Ended::Done)
    }

    /// Writes the document to a temporary file in the same directory and renames it when it is complete.
    fn write(&self, store: &Store, session: &Session, path: &Path) -> Result<Exported, Failure> {
        let exists = || Failure::Given {
            message: format!("cannot export to {}: the file exists", path.display()),
            hint: Some("use another file, or add --force".to_owned()),
        };
        if !self.force && path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        remove_leftovers(path);
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!("{PART}{}", std::process::id()));
        let aside = PathBuf::from(aside);
        let written = write_to(store, session, &aside).and_then(|exported| {
            if self.force {
                fs::rename(&aside, path).map_err(Failure::file("write", path))?;
                return Ok(exported);
            }
            // A hard link fails if the file exists, so a file that another process wrote meanwhile is not replaced.
            match fs::hard_link(&aside, path) {
                Ok(()) => Ok(exported),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists()),
                Err(_) => fs::rename(&aside, path).map_err(Failure::file("write", path)).map(|()| exported),
            }
        });
        // Best effort: after a rename the temporary file no longer exists.
        let _ = fs::remove_file(&aside);
        written
    }
}

/// Removes temporary files of killed exports to the same file: no process has the id in the name, and no process holds
/// the lock. Best effort: a temporary file that remains does no harm.
fn remove_leftovers(path: &Path) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten() {
        let left = entry.file_name();
        let number = left.to_str().and_then(|left| left.strip_prefix(name)?.strip_prefix(PART)?.parse::<u32>().ok());
        let is_left = number.is_some_and(|number| run::is_there(number).is_err());
        if is_left && fs::File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Warns that the document lacks the bytes that the log has lost.
fn tell_lost(out: &Out, exported: &Exported) {
    if let Some(loss) = exported.recorded_loss {
        tell_lost_earlier(out, loss);
    }
}

fn write_to(store: &Store, session: &Session, aside: &Path) -> Result<Exported, Failure> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside);
    let file = file.map_err(Failure::file("create", aside))?;
    // The lock tells other exports that this file is in use. Best effort: some file systems have no locks.
    let _ = file.try_lock();
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let exported = store.sessions().export(&session.id, &mut out).map_err(|error| match error {
        duolog::Error::Io(Io::Output(error)) => Failure::file("write", aside)(error),
        other => other.into(),
    })?;
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(Failure::file("write", aside))?;
    Ok(exported)
}
