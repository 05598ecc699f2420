//! `duolog config init`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use clap::Args;
use duolog::config::{Config, Key};
use duolog_wire as wire;

use super::Context;
use super::show::KEYS;
use crate::failure::{CommandResult, Ended, Failure};
use crate::login;

const AFTER: &str = "\
Examples:
  duolog config init
  duolog config init --stdout | less

Exit code: 1 if the file exists; it is not changed

JSON:
  {\"path\": path|null, \"template\": text}
  path is null with --stdout";

/// The first lines of the template. A line with one # is a setting, a line with two is a comment.
const HEAD: &str = "\
## Duolog configuration. Every key is optional; the values below are the defaults or examples.
## Remove the # in front of a table and of its keys to set them, then run: duolog config check
";

/// Write a template of the configuration file
///
/// The template lists every key with its default or an example. All lines are comments, so that the file changes nothing
/// until it is edited. Only the owner can read the file, because the address of the store may contain a password.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Init {
    /// Print the template instead of writing the file
    #[arg(long)]
    stdout: bool,
}

impl Init {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let template = template();
        if self.stdout {
            let answer = wire::ConfigTemplate { path: None, template };
            context.out.answer(&answer, |text| text.line(answer.template.trim_end()))?;
            return Ok(Ended::Done);
        }
        let path = Config::path(&context.global.find_home()?);
        write(&path, &template)?;
        let answer = wire::ConfigTemplate { path: Some(path.to_string_lossy().into_owned()), template };
        context.out.confirm(&answer, |text| text.line(format_args!("created {}", path.display())))?;
        context.out.note("next: edit the file, then run: duolog config check");
        Ok(Ended::Done)
    }
}

/// Returns the reference of all keys as a file whose lines are comments.
fn template() -> String {
    let config = Config::default().for_login(login::name().as_deref());
    let user = config.settings().find(|setting| setting.key == Key::UserEmail).map(|setting| setting.value.to_string());
    let keys = KEYS.replace("LOGIN@localhost", &user.unwrap_or_default());
    let mut text = HEAD.to_owned();
    for line in keys.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)) {
        // Each table starts after an empty line.
        if line.starts_with('[') && !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(&commented(line));
        text.push('\n');
    }
    text
}

/// Returns a line of the reference as a comment: the setting, and its meaning after another #.
fn commented(line: &str) -> String {
    if line.is_empty() {
        return String::new();
    }
    // Two spaces separate a setting and its meaning.
    match line.split_once("  ") {
        Some((setting, meaning)) => format!("#{setting:<35}# {}", meaning.trim_start()),
        None => format!("#{line}"),
    }
}

/// Writes a new file that only its owner can read.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(directory) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(Failure::file("create", directory))?;
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::Conflict {
                message: format!("cannot create {}: the file exists", path.display()),
                hint: Some("to show the template, run: duolog config init --stdout".to_owned()),
            });
        }
        Err(error) => return Err(Failure::file("create", path)(error)),
    };
    file.write_all(text.as_bytes()).map_err(Failure::file("write", path))
}
