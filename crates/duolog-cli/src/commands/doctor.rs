//! `duolog doctor`.

use clap::Args;
use duolog::config::Config;
use duolog::doctor::{Check, Depth, Status, Verdict};
use duolog::{Address, ErrorKind, StoreAddress};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
use crate::out::{Text, Tone};

const AFTER: &str = "\
Examples:
  duolog doctor
  duolog doctor --deep
  duolog doctor --json | jq -r .verdict

Exit code: 0 ok or warnings · 4 damaged

JSON:
  {\"verdict\": \"ok\"|\"warnings\"|\"damaged\", \"depth\": \"quick\"|\"deep\",
   \"checks\": [{\"name\", \"status\": \"ok\"|\"warning\"|\"damaged\", \"detail\", \"hint\"}]}";

/// Check the store and suggest fixes
///
/// Checks a database of up to 32 MiB, the most recently changed logs, pending writes, recorded repairs and losses, and
/// schedules that keep failing.
///
/// With --deep it checks a database of any size, every line of every log, every seal, every log file and the indexes.
///
/// The checks change nothing. Opening the store repairs what a crash left, as in every command.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Doctor {
    /// Check every log and a database of any size
    #[arg(long)]
    deep: bool,
}

impl Doctor {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let depth = if self.deep { Depth::Deep } else { Depth::Quick };
        let opened = context.open_to_read();
        let (verdict, checks) = match opened {
            Ok(store) => {
                let progress = context.out.progress("examining");
                let report = store.doctor().examine(depth, |check| progress.at(&format!("{} done", check.name)))?;
                (report.verdict, report.checks)
            }
            // A store that is too damaged to open is a finding, not a failure of this command.
            Err(failure) if failure.kind() == ErrorKind::Damaged => {
                (Verdict::Damaged, vec![unopened(&failure, context.config()?)])
            }
            Err(failure) => return Err(failure),
        };
        let answer = wire::Doctor {
            verdict: verdict.as_str(),
            depth: depth.as_str(),
            checks: checks.iter().map(wire::DoctorCheck::from).collect(),
        };
        context.out.answer(&answer, |text| {
            for check in &checks {
                show(text, check);
            }
            text.line("");
            text.line(sentence(verdict, &checks, text));
            if depth == Depth::Quick {
                text.line(text.tone(Tone::Faint, "quick check; to read every log, run: duolog doctor --deep"));
            }
        })?;
        Ok(if verdict == Verdict::Damaged { Ended::Damaged } else { Ended::Done })
    }
}

fn unopened(failure: &Failure, config: &Config) -> Check {
    let what = if matches!(config.store(), StoreAddress::At(Address::Server(_))) { "the database" } else { "state.db" };
    let hint = format!("restore {what} from a backup; the logs can be read without it");
    Check { name: "opening", status: Status::Damaged, detail: failure.message(), hint: Some(hint) }
}

fn show(text: &mut Text, check: &Check) {
    let tone = match check.status {
        Status::Ok => Tone::Good,
        Status::Warning => Tone::Worth,
        Status::Damaged => Tone::Bad,
    };
    let status = text.tone(tone, &format!("{:<8}", check.status.as_str()));
    let name = text.tone(Tone::Strong, &format!("{:<12}", check.name));
    text.line(format_args!("{status} {name} {}", check.detail));
    if let Some(hint) = &check.hint {
        let hint = text.tone(Tone::Faint, &format!("hint: {hint}"));
        text.line(format_args!("{:22}{hint}", ""));
    }
}

fn sentence(verdict: Verdict, checks: &[Check], text: &Text) -> String {
    let number = |status| checks.iter().filter(|check| check.status == status).count();
    match verdict {
        Verdict::Ok => format!("{}: all {} checks passed", text.tone(Tone::Good, "ok"), checks.len()),
        Verdict::Warnings => {
            let warnings = number(Status::Warning);
            format!(
                "{}: {warnings} of {} checks have warnings; nothing is damaged",
                text.tone(Tone::Worth, "warnings"),
                checks.len()
            )
        }
        Verdict::Damaged => {
            let damaged = number(Status::Damaged);
            format!("{}: {damaged} of {} checks found damage", text.tone(Tone::Bad, "damaged"), checks.len())
        }
    }
}
