use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use duolog_testkit::engines::Place;
use duolog_testkit::postgres::Database;
use insta::Settings;
use tempfile::TempDir;

/// The command under test.
pub const DUOLOG: &str = env!("CARGO_BIN_EXE_duolog");

/// A temporary directory with a home in it.
pub struct Kit {
    pub dir: TempDir,
    /// The address of the state, if it is not SQLite in the home.
    store: Option<String>,
}

impl Kit {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: None }
    }

    /// Creates a home whose state is on the engine of `place`; all homes on a place with a server share its state.
    pub fn on(place: &Place) -> Self {
        Self { store: place.database().map(Database::url), ..Self::new() }
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Returns the log of a thread.
    pub fn log_of(&self, thread: &str) -> PathBuf {
        self.home().join(format!("state/sessions/threads/{thread}.jsonl"))
    }

    /// Prepares the command in this home, with a clean environment.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(DUOLOG);
        self.surround(&mut command);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs a script in a shell with its own mounts; `$H` is the home and `$D` the command.
    pub fn mounting(&self, script: &str) -> Output {
        let mut command = Command::new("unshare");
        self.surround(&mut command);
        command.args(["-m", "sh", "-c", script]).env("H", self.home()).env("D", DUOLOG).stdin(Stdio::null());
        let output = command.output().expect("unshare runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !said.contains("unshare:") && !said.contains("mount:"),
            "this test needs to mount: run it as root, or with CAP_SYS_ADMIN\n{said}"
        );
        output
    }

    fn surround(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path()).env("DUOLOG_HOME", self.home()).current_dir(self.dir.path());
        // Not the user who runs the tests: the output must be the same everywhere.
        command.env("DUOLOG_USER_EMAIL", "me@localhost");
        if let Some(store) = &self.store {
            command.env("DUOLOG_STORE", store);
        }
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        Ran::of(self.command(args).output().expect("runs"))
    }

    /// Runs the command with this input.
    pub fn feed<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ran {
        Ran::of(assert_cmd::Command::from_std(self.command(args)).write_stdin(input).output().expect("runs"))
    }

    /// Appends lines to a thread.
    pub fn append(&self, thread: &str, lines: &str) {
        self.feed(&["log", "append", "--session", thread], lines.as_bytes()).is(0);
    }

    /// Compares a transcript of commands with its snapshot.
    pub fn snapshot(&self, name: &str, transcript: &str) {
        let mut settings = Settings::clone_current();
        let dir = self.dir.path().to_str().expect("a plain path");
        settings.set_omit_expression(true);
        settings.set_prepend_module_to_snapshot(false);
        settings.add_filter(&dir.replace('.', r"\."), "[dir]");
        settings.add_filter(
            r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
            "00000000-0000-7000-8000-000000000000",
        );
        // Tables shorten ids to their creation time.
        settings.add_filter(r"\b[0-9a-f]{8}-[0-9a-f]{4}\b", "00000000-0000");
        // Before durations: `failed  1s ago` is an age.
        settings.add_filter(r"\((now|\d+(s|m|h|d|mo|y) ago)\)", "([age])");
        settings.add_filter(r"( +)(now|\d+s ago)\n", "  [age]\n");
        settings.add_filter(r"(in_flight|failed)( +)\d[\d.]*m?s\b", "$1  [time]");
        // The duration of an execution that another runner or a cancellation ended depends on the machine.
        settings.add_filter(r"\b(in_flight|failed) +[\d,]+( +(stale|cancelled)\b|\n)", "$1  [ms]$2");
        settings.add_filter(r"(ends|expires) in \d+[sm]\b", "$1 in [time]");
        // The number of owners of a run is tested in the library.
        settings.add_filter(r"--fence \d+", "--fence [fence]");
        settings.add_filter(r#""fence":\d+"#, r#""fence":[fence]"#);
        settings.add_filter(r"\b(claim|fence) \d+\b", "$1 [fence]");
        settings.add_filter(r"(\$ duolog runs claim [^\n]*\n  )\d+\n", "${1}[fence]\n");
        settings.add_filter(r"(00000000-0000-7000-8000-000000000000) \d+\n", "$1 [fence]\n");
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[instant]");
        settings.add_filter(r"sqlite \d+\.\d+\.\d+", "sqlite [version]");
        settings.add_filter(r"postgresql \d+\.\d+", "postgresql [version]");
        settings.add_filter(r"postgres@[^/ ]+/duolog_[0-9a-f]+", "postgres@[server]/[database]");
        // Newer servers have checksums by default.
        settings.add_filter(r#""data_checksums":"(on|off)""#, r#""data_checksums":"[on or off]""#);
        settings.add_filter(r#"every index is valid[^"\n]*"#, "every index is valid[…]");
        settings.add_filter(r"tables, \d[\d.]* [KM]iB", "tables, [size]");
        settings.add_filter(r#""(bytes|wal_bytes|bytes_before|bytes_after)":\d{4,}"#, r#""$1":[size]"#);
        settings.add_filter(r#"is on [a-z0-9.]+(\n|")"#, "is on [fs]$1");
        settings.add_filter(r"duolog-demo-\w{6}", "duolog-demo-[random]");
        settings.add_filter(r"(process|kill -9) \d+", "$1 [pid]");
        settings.add_filter(r"again \(\d+ ms\)", "again ([time])");
        settings.add_filter(r"state\.db( +)\d[\d.]* KiB", "state.db$1[size]");
        settings.bind(|| insta::assert_snapshot!(name, transcript));
    }
}

/// The result of a command.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }

    /// Asserts the exit code.
    pub fn is(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }

    /// Asserts that stderr contains the text.
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not in: {}", self.stderr);
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns one field of the JSON answer, by a pointer like `/error/kind`.
    pub fn field(&self, pointer: &str) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_slice(&self.stdout).expect("one JSON object");
        value.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not in {value}")).clone()
    }
}

/// A transcript: commands and their output.
#[derive(Default)]
pub struct Transcript(pub String);

impl Transcript {
    pub fn add(&mut self, args: &[&str], ran: &Ran) {
        let said = |text: &str| text.lines().fold(String::new(), |all, line| all + "  " + line + "\n");
        let _ = write!(self.0, "$ duolog {}\n{}", args.join(" "), said(&ran.text()));
        if !ran.stderr.is_empty() {
            let _ = write!(self.0, "stderr:\n{}", said(&ran.stderr));
        }
        let _ = writeln!(self.0, "exit: {}\n", ran.code.unwrap_or(-1));
    }

    /// Runs a command and adds its output.
    pub fn run(&mut self, kit: &Kit, args: &[&str]) -> Ran {
        let ran = kit.run(args);
        self.add(args, &ran);
        ran
    }

    /// Runs a command with input and adds its output.
    pub fn feed(&mut self, kit: &Kit, args: &[&str], input: &[u8]) -> Ran {
        let ran = kit.feed(args, input);
        self.add(args, &ran);
        ran
    }
}

/// Returns the lines of a file.
pub fn lines_of(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).expect("a log").lines().map(str::to_owned).collect()
}
