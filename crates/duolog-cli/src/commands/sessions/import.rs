//! `duolog sessions import`.

use std::fs::File;
use std::io::{self, Seek as _, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use duolog_wire::SessionImported;

use super::{Context, Operation};
use crate::commands::log::tell_lost_earlier;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions import demo.json
  gzip -dc demo.json.gz | duolog sessions import -

Exit code: 1 if the session, its name or another message with the same id exists · 2 if the document
is invalid; the error names the position and the reason. Nothing is changed in either case.

JSON:
  {\"session\": {… as sessions new …}, \"branch_count\", \"message_count\", \"line_count\",
   \"complete\", \"lost_bytes\"}
  complete is false if the log had lost bytes when it was exported; the loss is recorded here, too.";

/// Import a session from an exported document
///
/// The whole document is imported, or nothing. Ids, ordinals, timestamps and log bytes are kept; only the path of the
/// log is chosen by this home.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Import {
    /// Document written by sessions export, - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    operation: Operation,
}

impl Import {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let document = self.document(context)?;
        let store = context.open_to_write()?;
        let imported = self.operation.sessions(&store).import(document)?;
        let (session, held) = (&imported.session, imported.held);
        let path = store.home().state.join(&session.log_path);
        context.out.answer(&SessionImported::from(&imported), |text| text.line(&session.id))?;
        context.out.note(format_args!(
            "imported {}, {} and {} of log; log: {}",
            figures::things(held.branches, "branch"),
            figures::things(held.messages, "message"),
            figures::things(held.lines, "line"),
            path.display()
        ));
        if let Some(loss) = held.recorded_loss {
            tell_lost_earlier(context.out, loss);
        }
        context.close(store);
        Ok(Ended::Done)
    }

    /// Opens the document as a file that can be read twice. Stdin and pipes are copied to a temporary file first.
    fn document(&self, context: &Context<'_>) -> Result<File, Failure> {
        let from_stdin = self.file == Path::new("-");
        let mut file = tempfile::tempfile().map_err(Failure::file("create", Path::new("a temporary file")))?;
        if from_stdin {
            context.out.invite("reading a document from stdin; press Ctrl-D to end");
            io::copy(&mut stdin().lock(), &mut file).map_err(Failure::file("copy", Path::new("stdin")))?;
        } else {
            let mut given = File::open(&self.file).map_err(Failure::file("open", &self.file))?;
            let kind = given.metadata().map_err(Failure::file("inspect", &self.file))?;
            if kind.is_file() {
                return Ok(given);
            }
            io::copy(&mut given, &mut file).map_err(Failure::file("copy", &self.file))?;
        }
        file.rewind().map_err(Failure::file("read", &self.file))?;
        Ok(file)
    }
}
