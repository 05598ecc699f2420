//! Links the released command for a quick start: a short command pays for all that the loader does before `main`.
//!
//! The unwinder is linked in instead of loaded from `libgcc_s.so`, which also asks the processor what it can do; in a
//! virtual machine that takes long. And the command has a fixed address, so that its 6,000 pointers need no adjusting,
//! and the pages with them no copying; heap, stack and libraries stay where chance puts them. The C library stays a
//! shared one: only that resolves host names as the system does.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !is_plain_release() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Where the archive is not at hand the shared library is used as ever.
    if let Some(directory) = directory_of("libgcc_eh.a") {
        println!("cargo::rustc-link-search=native={}", directory.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Whether this is a release for the machine it is built on, with the GNU C library as a shared one.
fn is_plain_release() -> bool {
    let says = |name, value: &str| env::var(name).is_ok_and(|said| said == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|all| all.split(',').any(|one| one == "crt-static"));
    says("PROFILE", "release")
        && says("CARGO_CFG_TARGET_OS", "linux")
        && says("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
        && !is_static
}

/// Where the C compiler finds a library; it repeats the name of one that it does not find.
fn directory_of(library: &str) -> Option<PathBuf> {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = String::from_utf8(answer.stdout).ok()?;
    let path = Path::new(path.trim());
    path.is_file().then(|| path.parent().map(Path::to_owned))?
}
