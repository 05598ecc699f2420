//! `duolog sessions export`.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use duolog::Store;
use duolog::errors::Io;
use duolog::sessions::{Exported, Session};
use duolog_wire::SessionExported;

use super::Context;
use crate::args::Which;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions export demo --output demo.json
  duolog sessions export demo | gzip > demo.json.gz
  duolog sessions export demo | duolog --home /srv/other sessions import -

The document is one JSON object, {\"duolog_export\": 1, …}: docs/format.md describes it. Where the log is, seals,
repairs, inboxes and the process that runs the session belong to the home, and stay there.

JSON: with --output
  {\"session_id\", \"path\", \"branch_count\", \"message_count\", \"line_count\"}
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
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file where there is one
    #[arg(long, requires = "output")]
    force: bool,
}

impl Export {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let Some(path) = &self.output else {
            store.sessions().export(&session.id, &mut context.out.writer())?;
            context.out.flush()?;
            return Ok(Ended::Done);
        };
        let exported = self.write(&store, &session, path)?;
        let Exported { branches, messages, lines } = exported;
        let answer = SessionExported {
            session_id: session.id.to_string(),
            path: path.to_string_lossy().into_owned(),
            branch_count: branches,
            message_count: messages,
            line_count: lines,
        };
        context.out.confirm(&answer, |text| {
            let messages = figures::things(messages, "message");
            let lines = figures::things(lines, "line");
            text.line(format_args!("wrote {messages} and {lines} of log to {}", path.display()));
        })?;
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
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".part-{}", std::process::id()));
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

fn write_to(store: &Store, session: &Session, aside: &Path) -> Result<Exported, Failure> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside);
    let mut out = BufWriter::with_capacity(1 << 16, file.map_err(Failure::file("create", aside))?);
    let exported = store.sessions().export(&session.id, &mut out).map_err(|error| match error {
        duolog::Error::Io(Io::Output(error)) => Failure::file("write", aside)(error),
        other => other.into(),
    })?;
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(Failure::file("write", aside))?;
    Ok(exported)
}
