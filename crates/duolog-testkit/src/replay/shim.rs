//! The shim: compiled from C once per run and preloaded into the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiled shim and its files.
pub(crate) struct Shim {
    dir: tempfile::TempDir,
}

impl Shim {
    /// Compiles the shim with the system's C compiler.
    pub(crate) fn build() -> Self {
        let dir = tempfile::Builder::new().prefix("duolog-shim-").tempdir().expect("a directory for the shim");
        let source = dir.path().join("shim.c");
        std::fs::write(&source, include_str!("../../preload/shim.c")).expect("the source of the shim");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(dir.path().join("shim.so")).arg(&source);
        let made = compiler.output().expect("a C compiler named cc");
        assert!(made.status.success(), "cannot compile the shim: {}", String::from_utf8_lossy(&made.stderr));
        Self { dir }
    }

    fn library(&self) -> PathBuf {
        self.dir.path().join("shim.so")
    }

    /// Preloads the shim into `command`, which then sees the boot id `boot`.
    pub(crate) fn load(&self, command: &mut Command, boot: &str) {
        let file = self.dir.path().join(format!("boot-{boot}"));
        if !file.exists() {
            // Written to another file and renamed, because another thread may read it now.
            let aside = tempfile::NamedTempFile::new_in(self.dir.path()).expect("a file");
            std::fs::write(aside.path(), format!("{boot}\n")).expect("a boot id");
            aside.persist(&file).expect("a boot id");
        }
        command.env("LD_PRELOAD", self.library()).env("DUOLOG_SHIM_BOOT", file);
    }

    /// Watches `dir` and records the calls below it in `log`.
    pub(crate) fn watch(command: &mut Command, dir: &Path, log: Option<&Path>) {
        command.env("DUOLOG_SHIM_DIR", dir);
        if let Some(log) = log {
            command.env("DUOLOG_SHIM_LOG", log);
        }
    }

    /// Injects faults; `shim.c` documents the syntax.
    pub(crate) fn plan(command: &mut Command, plan: &str) {
        command.env("DUOLOG_SHIM_PLAN", plan);
    }
}
