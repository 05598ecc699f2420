use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{Kit, Ran};

/// A follower and its output.
pub struct Following {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Following {
    pub fn start(kit: &Kit, args: &[&str]) -> Self {
        let mut child = kit.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    pub fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    /// Waits for the end. A follower that does not end fails the test.
    pub fn end(mut self) -> Ran {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().expect("waits").is_none() {
            if Instant::now() > deadline {
                self.child.kill().expect("killed");
                panic!("it did not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut stdout = Vec::new();
        self.lines.read_to_end(&mut stdout).expect("read");
        let output = self.child.wait_with_output().expect("ended");
        Ran::of(std::process::Output { stdout, ..output })
    }
}

#[test]
fn a_follower_shows_new_lines_and_ctrl_c_ends_it_well() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    let mut following = Following::start(&kit, &["log", "tail", "demo", "-n", "2", "-f", "--show-cursor"]);
    assert_eq!([following.next(), following.next()], ["{\"n\":2}", "{\"n\":3}"]);
    for n in 4..8 {
        let line = format!("{{\"n\":{n},\"text\":\"日本 🎉\"}}");
        kit.append("demo", &line);
        assert_eq!(following.next(), line);
    }
    following.signal(Signal::INT);
    let end = kit.run(&["sessions", "show", "demo", "--json"]).field("/cursor");
    following.end().is(0).says(&format!("cursor: {}", end.as_str().expect("a cursor")));
    kit.append("demo", "{\"n\":8}");
    kit.run(&["doctor"]).is(0);
}

#[test]
fn a_follower_starts_before_the_first_line() {
    let kit = Kit::new();
    kit.run(&["sessions", "new", "--name", "demo"]).is(0);
    let mut following = Following::start(&kit, &["log", "tail", "demo", "--follow"]);
    kit.append("demo", "{\"n\":1}");
    assert_eq!(following.next(), "{\"n\":1}");
    following.signal(Signal::INT);
    following.end().is(0);
}

#[test]
fn a_reset_is_told() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    let mut following = Following::start(&kit, &["log", "tail", "demo", "-f", "--json"]);
    for _ in 0..3 {
        following.next();
    }
    // The lines are recorded, so that their loss raises the epoch.
    kit.run(&["sessions", "list"]).is(0);
    let file = std::fs::OpenOptions::new().write(true).open(kit.log_of("demo")).expect("a log");
    file.set_len(8).expect("cut");
    // The first process that reads the state reports the loss, once; the next line proves that following continues.
    let ran = kit.feed(&["log", "append", "--session", "demo"], b"{\"n\":4}\n");
    if ran.code != Some(0) {
        ran.is(4).says("lost bytes");
        kit.append("demo", "{\"n\":4}\n");
    }
    // Lines that still exist are not shown again, and none is skipped.
    assert_eq!(following.next(), "{\"n\":4}");
    following.signal(Signal::INT);
    following.end().is(0).says("reset:").says("continuing from 1:8");
    let ran = kit.run(&["log", "cat", "demo", "--from", "0:24"]).is(0).says("continuing from 1:8");
    assert_eq!(ran.text(), "{\"n\":4}\n", "a cursor of the old epoch continues at the common position");
}

#[test]
fn a_closed_pipe_is_success_and_silent() {
    let kit = Kit::new();
    let many = "{\"padding\":\"xxxxxxxxxxxxxxxxxxxxxxxx\"}\n".repeat(50_000);
    kit.append("demo", &many);
    for args in
        [&["log", "cat", "demo"][..], &["log", "tail", "demo", "-n", "40000"], &["log", "cat", "demo", "--json"]]
    {
        let mut following = Following::start(&kit, args);
        following.next();
        let Following { child, lines } = following;
        drop(lines);
        let ran = Ran::of(child.wait_with_output().expect("ended")).is(0);
        assert_eq!(ran.stderr, "", "{args:?}");
    }
}

#[test]
fn a_follower_ends_when_its_pipe_is_closed() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let mut following = Following::start(&kit, &["log", "tail", "demo", "-f"]);
    following.next();
    let Following { child, lines } = following;
    drop(lines);
    Ran::of(child.wait_with_output().expect("ended")).is(0);
}
