//! Links the released command for a fast start: a short command pays for everything that the loader does before `main`.
//!
//! The unwinder is linked statically instead of loaded from `libgcc_s.so`, which also queries the processor's features;
//! in a virtual machine that is slow. The command has a fixed address, so that its 6,000 pointers need no relocation
//! and their pages no copies; heap, stack and libraries are still randomised. The C library stays shared, because only
//! the shared one resolves host names as the system does.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !is_plain_release() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Without the archive the shared library is used.
    if let Some(directory) = directory_of("libgcc_eh.a") {
        println!("cargo::rustc-link-search=native={}", directory.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Returns true for a release build for this machine with the shared GNU C library.
fn is_plain_release() -> bool {
    let is = |name, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|all| all.split(',').any(|one| one == "crt-static"));
    is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
        && !is_static
}

/// Returns the directory of a library for the C compiler, which repeats the name of a library that it does not find.
fn directory_of(library: &str) -> Option<PathBuf> {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = String::from_utf8(answer.stdout).ok()?;
    let path = Path::new(path.trim());
    path.is_file().then(|| path.parent().map(Path::to_owned))?
}
