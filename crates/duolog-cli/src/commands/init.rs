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
  duolog init                 a home for this directory and all below it
  duolog --home /srv/agent init

JSON:
  {\"home\": path, \"state\": path, \"cache\": path, \"config\": path, \"created\": true|false}";

/// Make a home: a .duolog folder that this directory and all below it use
///
/// The home has three folders, for its owner only: state, cache and config. A .gitignore keeps them out of Git. Where it is
/// there already nothing changes.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Init {
    /// The directory to make the .duolog folder in, instead of the current one
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Init {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let here = args::here()?;
        let home = match (&context.global.home, self.directory) {
            (Some(_), Some(_)) => {
                return Err(Failure::Given {
                    message: "both --home and a directory are given".to_owned(),
                    hint: Some("--home names the home itself, DIR the directory that gets a .duolog folder".to_owned()),
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
            let what = if made { "made a home in" } else { "there is a home in" };
            text.line(format_args!("{what} {}", home.display()));
        })?;
        if made {
            context.out.note("next: echo '{\"type\":\"user\",\"text\":\"hello\"}' | duolog log append --session demo");
        }
        Ok(Ended::Done)
    }
}

/// Makes a directory for its owner only; says whether it had to.
fn make(directory: &Path) -> Result<bool, Failure> {
    if directory.is_dir() {
        return Ok(false);
    }
    match DirBuilder::new().recursive(true).mode(0o700).create(directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure::file("make", directory)(ErrorKind::NotADirectory.into()))
        }
        Err(error) => Err(Failure::file("make", directory)(error)),
    }
}

/// Keeps the home out of Git, unless a file there says otherwise.
fn ignore(path: &Path) -> Result<(), Failure> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(b"*\n").map_err(Failure::file("write", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Failure::file("make", path)(error)),
    }
}
