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

/// What stands between the name of a file and the number of the process that writes it.
const PART: &str = ".part-";

const AFTER: &str = "\
Examples:
  duolog sessions export demo --output demo.json
  duolog sessions export demo | gzip > demo.json.gz
  duolog sessions export demo | duolog --home /srv/other sessions import -

The document is one JSON object, {\"duolog_export\": 1, …}: docs/format.md describes it. Where the log is, seals,
repairs, inboxes and the process that runs the session belong to the home, and stay there.

JSON: with --output
  {\"session_id\", \"path\", \"branch_count\", \"message_count\", \"line_count\", \"complete\", \"lost_bytes\"}
  complete is false where the log lost bytes before
  without it the document itself, with --json and without";

/// Write a session as one document: its conversations, how it came to stand as it does, and its log
///
/// sessions import gives it back equal, in another home or after it was deleted. Memory stays small however long it is.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Export {
    #[command(flatten)]
    which: Which,
    /// The file to write, whole or not at all; stdout where it is not given
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file where there is one
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

    /// Writes the document beside its place and moves it there when it is whole.
    fn write(&self, store: &Store, session: &Session, path: &Path) -> Result<Exported, Failure> {
        let exists = || Failure::Given {
            message: format!("{} is there already", path.display()),
            hint: Some("name another file, or say --force".to_owned()),
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
            // A second name is only given where there is none: nobody's file is lost to one who was faster.
            match fs::hard_link(&aside, path) {
                Ok(()) => Ok(exported),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists()),
                Err(_) => fs::rename(&aside, path).map_err(Failure::file("write", path)).map(|()| exported),
            }
        });
        // Best effort: with --force it has become the file.
        let _ = fs::remove_file(&aside);
        written
    }
}

/// Removes what exports to the same file left that were killed: no process has the number in its name, and none has it
/// locked. Best effort: what stays is in nobody's way.
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

/// Says that the document lacks what the log lost.
fn tell_lost(out: &Out, exported: &Exported) {
    if let Some(loss) = exported.recorded_loss {
        tell_lost_earlier(out, loss);
    }
}

fn write_to(store: &Store, session: &Session, aside: &Path) -> Result<Exported, Failure> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside);
    let file = file.map_err(Failure::file("create", aside))?;
    // Best effort, where the file system has no locks: it tells others that this document is being written.
    let _ = file.try_lock();
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let exported = store.sessions().export(&session.id, &mut out).map_err(|error| match error {
        duolog::Error::Io(Io::Output(error)) => Failure::file("write", aside)(error),
        other => other.into(),
    })?;
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(Failure::file("write", aside))?;
    Ok(exported)
}
