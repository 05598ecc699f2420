//! `duolog sessions import`.

use std::fs::File;
use std::io::{self, Seek as _, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use duolog_wire::SessionImported;

use super::{Context, Operation};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions import demo.json
  gzip -dc demo.json.gz | duolog sessions import -

Exit code: 1 where the session, another message of the same id, or its name is there already · 2 where the document
cannot be taken, with where and why. Nothing is changed then.

JSON:
  {\"session\": {… as sessions new …}, \"branch_count\", \"message_count\", \"line_count\"}";

/// Make a session from a document that sessions export wrote: all of it, or nothing
///
/// Ids, places, instants and bytes are those that they were; only where its log is, is this home's to say.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Import {
    /// The document, - for stdin
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
            "{}, {} and {} of log; its log is {}",
            figures::things(held.branches, "branch"),
            figures::things(held.messages, "message"),
            figures::things(held.lines, "line"),
            path.display()
        ));
        context.close(store);
        Ok(Ended::Done)
    }

    /// The document as a file that can be read more than once: what cannot be is copied first.
    fn document(&self, context: &Context<'_>) -> Result<File, Failure> {
        let from_stdin = self.file == Path::new("-");
        let mut file = tempfile::tempfile().map_err(Failure::file("make", Path::new("a temporary file")))?;
        if from_stdin {
            context.out.invite("reading a document; Ctrl-D ends it");
            io::copy(&mut stdin().lock(), &mut file).map_err(Failure::file("copy", Path::new("stdin")))?;
        } else {
            let mut given = File::open(&self.file).map_err(Failure::file("open", &self.file))?;
            let kind = given.metadata().map_err(Failure::file("look at", &self.file))?;
            if kind.is_file() {
                return Ok(given);
            }
            io::copy(&mut given, &mut file).map_err(Failure::file("copy", &self.file))?;
        }
        file.rewind().map_err(Failure::file("read", &self.file))?;
        Ok(file)
    }
}
