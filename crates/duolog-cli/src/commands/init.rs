//! `duolog init`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use duolog::Home;
use duolog_wire::HomeCreated;

use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog init                 home for this directory and its subdirectories
  duolog --home /srv/agent init

JSON:
  {\"home\": path, \"state\": path, \"cache\": path, \"config\": path, \"created\": true|false}";

/// Create a home directory
///
/// Creates .duolog in the current directory, or in DIR. Commands in that directory and its subdirectories use it.
///
/// The home has the directories state, cache and config, which only the owner can access, and a .gitignore that keeps them
/// out of Git. An existing home is not changed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Init {
    /// Parent of the .duolog directory [default: current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Init {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let here = args::here()?;
        let home = match (&context.global.home, self.directory) {
            (Some(_), Some(_)) => {
                return Err(Failure::Given {
                    message: "cannot create the home: --home and DIR cannot be used together".to_owned(),
                    hint: Some("use --home for the home itself, or DIR for the parent of .duolog".to_owned()),
                });
            }
            (Some(home), None) => here.join(home),
            (None, directory) => directory.map_or_else(|| here.clone(), |at| here.join(at)).join(".duolog"),
        };
        let roles = Home::beneath(&home);
        let mut made = false;
        for directory in [&home, &roles.state, &roles.cache, &roles.config] {
            made |= make(directory)?;
        }
        if made {
            ignore(&home.join(".gitignore"))?;
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let answer = HomeCreated {
            home: text(&home),
            state: text(&roles.state),
            cache: text(&roles.cache),
            config: text(&roles.config),
            created: made,
        };
        context.out.answer(&answer, |text| {
            let what = if made { "created home" } else { "home exists:" };
            text.line(format_args!("{what} {}", home.display()));
        })?;
        if made {
            context.out.note("next: echo '{\"type\":\"user\",\"text\":\"hello\"}' | duolog log append --session demo");
        }
        Ok(Ended::Done)
    }
}

/// Creates a directory with access for its owner only. Returns false if it exists.
fn make(directory: &Path) -> Result<bool, Failure> {
    if directory.is_dir() {
        return Ok(false);
    }
    match DirBuilder::new().recursive(true).mode(0o700).create(directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure::file("create", directory)(ErrorKind::NotADirectory.into()))
        }
        Err(error) => Err(Failure::file("create", directory)(error)),
    }
}

/// Writes a `.gitignore` that keeps the home out of Git, unless one exists.
fn ignore(path: &Path) -> Result<(), Failure> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(b"*\n").map_err(Failure::file("write", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Failure::file("create", path)(error)),
    }
}
