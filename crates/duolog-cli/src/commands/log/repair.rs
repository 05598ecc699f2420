//! `duolog log repair`.

use clap::Args;
use duolog::Cursor;
use serde::Serialize;

use super::Context;
use crate::args::Which;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog log repair demo

JSON:
  {\"session\": id, \"position\": 1234, \"cursor\": \"0:1234\",
   \"repairs\": [{\"action\": \"completed\"|\"quarantined\"|\"terminated\"|\"shorter\"|\"replaced\"|\"missing\"|
                \"rewritten\"|\"unsealed\", \"epoch\", \"position\", \"bytes\", \"repaired_at\", \"detail\"}]}";

/// Mend a log, and say what was done
///
/// Mends a torn tail, copies a log that the disk failed into a new file, and brings the state up to date with it.
/// Damaged lines in the middle stay where they are: they are skipped and reported, never cut.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Repair {
    #[command(flatten)]
    which: Which,
}

#[derive(Serialize)]
struct Answer {
    session: String,
    position: u64,
    cursor: String,
    repairs: Vec<Shape>,
}

#[derive(Serialize)]
struct Shape {
    action: &'static str,
    epoch: u32,
    position: u64,
    bytes: u64,
    repaired_at: String,
    detail: Option<String>,
}

impl Repair {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference()?;
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let repaired = store.log(&session.id).repair()?;
        let end = Cursor { epoch: repaired.epoch, position: repaired.end };
        let shapes = repaired.done.into_iter().map(|row| Shape {
            action: row.repair.action.as_str(),
            epoch: row.repair.epoch.0,
            position: row.repair.position.0,
            bytes: row.repair.bytes,
            repaired_at: row.repair.repaired_at.to_string(),
            detail: row.repair.detail,
        });
        let answer = Answer {
            session: session.id.to_string(),
            position: end.position.0,
            cursor: end.to_string(),
            repairs: shapes.collect(),
        };
        context.out.answer(&answer, |text| {
            if answer.repairs.is_empty() {
                text.line(format_args!("nothing to mend: the log of {} ends at {end}", session.id));
                return;
            }
            for repair in &answer.repairs {
                text.line(sentence(repair));
            }
            text.line(format_args!("the log of {} now ends at {end}", session.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

fn sentence(repair: &Shape) -> String {
    let (at, bytes) = (repair.position, figures::things(repair.bytes, "byte"));
    match repair.action {
        "completed" => format!("completed: the last line, at {at}, was whole and got its newline"),
        "quarantined" => format!("quarantined: {bytes} of a torn line at {at} were moved to the .torn file"),
        "terminated" => format!("terminated: {bytes} of a torn line at {at} could not be cut and were closed off"),
        "shorter" => format!("shorter: the log had lost what stood after {at}; older cursors are reset"),
        "replaced" => "replaced: another file stood in the log's place; older cursors are reset".to_owned(),
        "missing" => "missing: the log was gone; older cursors are reset".to_owned(),
        "rewritten" => "rewritten: what could be read was copied into a new file; older cursors are reset".to_owned(),
        other => format!("{other}: {bytes} at {at}"),
    }
}
