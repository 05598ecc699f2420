//! `duolog log repair`.

use clap::Args;
use duolog::Cursor;
use duolog_wire::{LogRepaired, Repair as Record};

use super::Context;
use super::verify::sentence_of;
use crate::args::Which;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog log repair demo

Exit code: 4 if sealed bytes are still damaged · 0 otherwise

JSON:
  {\"session_id\", \"position\": 1234, \"cursor\": \"0:1234\",
   \"repairs\": [{\"action\": \"completed\"|\"quarantined\"|\"terminated\"|\"shorter\"|\"replaced\"|\"missing\"|
                \"rewritten\"|\"unsealed\", \"epoch\", \"position\", \"bytes\", \"repaired_at\", \"detail\"}],
   \"remaining\": {\"damaged_places\": 0, \"unsynced_places\": 0, \"places\": [as in log verify]}}
  detail names the sealed bytes that had changed. remaining is the result of log verify after
  the repair";

/// Repair a log
///
/// Repairs a torn last line, copies a log with disk errors into a new file, and updates the state from the log.
///
/// If recorded bytes are gone or have moved, the log is accepted as it is: the epoch is raised and the loss is
/// recorded.
///
/// Damage in the middle is not removed: readers skip and report it, and no new seal covers it. Lines that a power cut
/// removed before they were synced cannot be restored; a warning names their places.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Repair {
    #[command(flatten)]
    which: Which,
}

/// Describes a recorded loss.
pub fn loss(repair: &Record) -> String {
    let (at, bytes) = (repair.position, figures::things(repair.bytes, "byte"));
    let what = match repair.action {
        "shorter" => format!("the log ended at {at}, before the recorded end"),
        "replaced" => "recorded lines were replaced by other bytes".to_owned(),
        "missing" => "the log file did not exist".to_owned(),
        _ => format!("{bytes} at {at} differ from the sealed bytes"),
    };
    format!("lines were lost: {what} (epoch {}, recorded {})", repair.epoch, repair.repaired_at)
}

impl Repair {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let repaired = store.log(&session.id).repair()?;
        let end = Cursor { epoch: repaired.epoch, position: repaired.end };
        let answer = LogRepaired {
            session_id: session.id.to_string(),
            position: end.position.0,
            cursor: end.to_string(),
            repairs: repaired.done.iter().map(Record::from).collect(),
            remaining: (&repaired.left).into(),
        };
        context.out.answer(&answer, |text| {
            if answer.repairs.is_empty() {
                text.line(format_args!("nothing was repaired: the log of {} ends at {end}", session.id));
            }
            for repair in &answer.repairs {
                text.line(sentence(repair));
                for found in repair.detail.iter().flat_map(|detail| detail.lines()) {
                    text.line(format_args!("  found: {found}"));
                }
            }
            if !answer.repairs.is_empty() {
                text.line(format_args!("the log of {} now ends at {end}", session.id));
            }
            for place in &answer.remaining.places {
                text.line(format_args!("not repaired: {}", sentence_of(place)));
            }
        })?;
        context.close(store);
        Ok(if answer.remaining.damaged_places > 0 { Ended::Damaged } else { Ended::Done })
    }
}

fn sentence(repair: &Record) -> String {
    let (at, bytes) = (repair.position, figures::things(repair.bytes, "byte"));
    match repair.action {
        "completed" => format!("completed: the last line, at {at}, lacked only its newline, which was added"),
        "quarantined" => format!("quarantined: {bytes} of a torn line at {at} were moved to the .torn file"),
        "terminated" => format!("terminated: {bytes} of a torn line at {at} could not be removed; a newline was added"),
        "shorter" => format!("shorter: the log has lost bytes and ended at {at}; older cursors are reset"),
        "replaced" => "replaced: recorded lines were replaced by other bytes; older cursors are reset".to_owned(),
        "missing" => "missing: the log file did not exist; older cursors are reset".to_owned(),
        "rewritten" => "rewritten: the readable lines were copied into a new file; older cursors are reset".to_owned(),
        other => format!("{other}: {bytes} at {at}"),
    }
}
