//! `duolog config check`.

use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use duolog::config::Finding;
use duolog::config::{Config, ConfigError};
use duolog_wire as wire;

use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::Tone;

const AFTER: &str = "\
Examples:
  duolog config check
  duolog config check new.toml && mv new.toml ~/.config/duolog/duolog.toml

Exit code: 0 valid · 2 invalid

JSON:
  {\"path\": path, \"exists\": true|false, \"valid\": true|false,
   \"findings\": [{\"line\", \"key\", \"message\", \"hint\"}], \"warnings\": [text]}
  line is null if the value is from the environment or a flag; warnings do not make a file invalid";

/// Check a configuration file and list all errors
///
/// A schedule that can never start a run is an error: a cron expression that never matches, an unknown time zone, an
/// invalid context or workflow name, or a workflow that the file disables.
///
/// Without FILE the command checks the file of the home, if it exists, the environment and --store. It does not connect to
/// a server; use `duolog doctor` for that.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Check {
    /// Configuration file [default: config/duolog.toml in the home]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Check {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let is_named = self.file.is_some();
        let file = match self.file {
            Some(file) => args::here()?.join(file),
            None => Config::path(&context.global.find_home()?),
        };
        let (exists, read) = match Config::read(&file) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound && !is_named => {
                (false, Ok(Config::default()))
            }
            other => (true, other),
        };
        let (mut warnings, mut never) = (Vec::new(), Vec::new());
        if let Ok(config) = &read {
            warnings = [config.warnings().to_vec(), config.schedule_warnings()].concat();
            never = config.schedule_findings();
        }
        let mut findings = findings_of(read)?;
        findings.append(&mut never);
        let in_file = findings.len();
        if !is_named {
            findings.extend(findings_of(Config::default().with_environment(|name| env::var_os(name)))?);
            findings.extend(findings_of(Config::default().with_store(context.global.store.as_deref()))?);
        }
        let valid = findings.is_empty();
        let answer = wire::ConfigCheck {
            path: file.to_string_lossy().into_owned(),
            exists,
            valid,
            findings: findings.iter().map(wire::ConfigFinding::from).collect(),
            warnings: warnings.clone(),
        };
        context.out.answer(&answer, |text| {
            for (at, finding) in findings.iter().enumerate() {
                let place = match finding.key.as_deref() {
                    _ if at < in_file => format!("{}:", file.display()),
                    Some(flag) if flag.starts_with('-') => "flag:".to_owned(),
                    _ => "environment:".to_owned(),
                };
                let line = finding.line.map(|line| format!("{line}:")).unwrap_or_default();
                let place = text.tone(Tone::Strong, &format!("{place}{line}"));
                text.line(format_args!("{place} {}", finding.sentence()));
            }
            text.line(match findings.len() {
                0 if exists => format!("{}: {}", text.tone(Tone::Good, "valid"), file.display()),
                0 => {
                    format!("{}: {} does not exist; the defaults apply", text.tone(Tone::Good, "valid"), file.display())
                }
                wrong => format!("{}: {}", text.tone(Tone::Bad, "invalid"), figures::things(wrong as u64, "finding")),
            });
        })?;
        for warning in &warnings {
            context.out.warn(warning);
        }
        Ok(if valid { Ended::Done } else { Ended::Invalid })
    }
}

/// Returns the errors in the content. Returns an error if the file cannot be read.
fn findings_of(read: Result<Config, ConfigError>) -> Result<Vec<Finding>, ConfigError> {
    match read {
        Ok(_) => Ok(Vec::new()),
        Err(ConfigError::Findings { findings, .. }) => Ok(findings),
        Err(error) => Err(error),
    }
}
