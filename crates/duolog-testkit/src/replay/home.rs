//! A home that is used through the real binary.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::shim::Shim;

/// The binary under test and the shim that is preloaded.
#[derive(Clone)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) shim: Arc<Shim>,
}

/// A home and the environment of its commands.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) binary: Binary,
    /// The directory of the home.
    pub(crate) at: PathBuf,
    /// The boot id that commands see.
    pub(crate) boot: String,
    /// The address of the state, if it is not SQLite in the home.
    pub(crate) store: Option<String>,
    /// The watched directory, and the file of the recorded calls, if they are recorded.
    pub(crate) watched: Option<(PathBuf, Option<PathBuf>)>,
    /// Additional environment variables.
    pub(crate) with: Vec<(&'static str, String)>,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) pid: u32,
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Answer {
    pub(crate) fn ok(&self) -> bool {
        self.code == Some(0)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.output).unwrap_or(Value::Null)
    }
}

impl Home {
    pub(crate) fn new(binary: &Binary, at: &Path, boot: &str) -> Self {
        let (binary, at, boot) = (binary.clone(), at.to_owned(), boot.to_owned());
        Self { binary, at, boot, store: None, watched: None, with: Vec::new() }
    }

    /// Prepares a command.
    pub(crate) fn command(&self, arguments: &[&str], plan: Option<&str>) -> Command {
        let mut command = Command::new(&self.binary.path);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.at).env("TZ", "UTC").current_dir("/");
        self.binary.shim.load(&mut command, &self.boot);
        if let Some((dir, log)) = &self.watched {
            Shim::watch(&mut command, dir, log.as_deref());
        }
        if let Some(plan) = plan {
            Shim::plan(&mut command, plan);
        }
        command.envs(self.with.iter().cloned()).arg("--home").arg(&self.at);
        if let Some(store) = &self.store {
            command.args(["--store", store]);
        }
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str], input: Option<&str>) -> Answer {
        self.run_with(arguments, input, None)
    }

    /// Runs a command to its end with injected faults.
    pub(crate) fn run_with(&self, arguments: &[&str], input: Option<&str>, plan: Option<&str>) -> Answer {
        let mut child = self.command(arguments, plan).spawn().expect("the binary under test");
        let pid = child.id();
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that rejects its arguments does not read its input: the pipe may be closed.
        let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
        drop(stdin);
        let done = child.wait_with_output().expect("the binary under test");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { pid, code: done.status.code(), output: text(&done.stdout), errors: text(&done.stderr) }
    }
}
