use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{add, open};

/// Starts this binary again in one of the roles below.
pub fn start(role: &str, dir: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", &format!("children::{role}"), "--nocapture", "--test-threads=1"])
        .env("DUOLOG_TEST_DIR", dir)
        .env("DUOLOG_TEST_NAME", name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Waits until the child prints that it is ready.
pub fn wait_until_ready(child: &mut Child) {
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "the child exited before it was ready");
}

fn role() -> Option<(std::path::PathBuf, String)> {
    Some((std::env::var_os("DUOLOG_TEST_DIR")?.into(), std::env::var("DUOLOG_TEST_NAME").ok()?))
}

/// Holds `state.lock` until its input ends.
#[test]
fn hold_the_lock() {
    let Some((dir, _)) = role() else { return };
    let lock = File::options().read(true).write(true).open(dir.join("state.lock")).expect("opens");
    lock.lock().expect("locks");
    println!("\nready");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("reads");
}

/// Opens the state, which may not exist yet, and adds fifty sessions.
#[test]
fn add_fifty() {
    let Some((dir, name)) = role() else { return };
    let state = open(&dir);
    for number in 0..50 {
        add(&state, &format!("{name}-{number}")).expect("adds");
    }
}
