use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::kit::Kit;

/// Characters that control a terminal, reverse text or are invisible.
const HOSTILE: &str = "\u{7f}\u{9b}31m \u{202e}abc\u{2066}\u{200f}\u{61c}\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}";

/// Runs a command with stdout and stderr on a terminal.
fn on_terminal(kit: &Kit, args: &[&str]) -> String {
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("a path");
    let theirs = File::options().read(true).write(true).open(name).expect("opens");
    let mut command = kit.command(args);
    command.env("TERM", "xterm").stdout(theirs.try_clone().expect("a copy")).stderr(theirs);
    let reader = thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal returns an error once all writers closed it.
        let _ = File::from(ours).read_to_end(&mut shown);
        shown
    });
    let mut child = command.spawn().expect("runs");
    child.wait().expect("ended");
    drop(command);
    let shown = reader.join().expect("read");
    String::from_utf8(shown).expect("text").replace("\r\n", "\n")
}

/// Removes our own styles.
fn without_styles(text: &str) -> String {
    let mut plain = String::new();
    for (at, piece) in text.split("\u{1b}[").enumerate() {
        let digits = piece.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(0);
        match piece[digits..].strip_prefix('m').filter(|_| at > 0) {
            Some(rest) => plain.push_str(rest),
            None if at == 0 => plain.push_str(piece),
            None => plain.extend(["\u{1b}", piece]),
        }
    }
    plain
}

fn is_hostile(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

fn hostile() -> Kit {
    let kit = Kit::new();
    // JSON requires escapes below space; the other characters are in the text unescaped.
    let evil = format!("\\u001b[2J\\u001b[31m{HOSTILE}");
    let line = format!(
        "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{evil}\"}},\"timestamp\":\"2026-01-02T03:04:05Z\"}}\n\
         {{\"type\":\"assistant\",\"requestId\":\"r\",\"timestamp\":\"2026-01-02T03:04:06Z\",\"message\":{{\"id\":\"m\",\"model\":\"gpt\u{202e}\u{200b}x\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"{evil}\"}},{{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"{evil}\",\"input\":{{\"a\":\"{evil}\"}}}}],\
         \"usage\":{{\"input_tokens\":5}}}}}}\n"
    );
    kit.append("demo", &line);
    kit
}

#[test]
fn no_command_prints_raw_control_characters_to_a_terminal() {
    let kit = hostile();
    let commands: [&[&str]; 14] = [
        &["log", "cat", "demo"],
        &["log", "cat", "demo", "--pretty"],
        &["log", "tail", "demo"],
        &["log", "replay", "demo"],
        &["log", "replay", "demo", "--verbose", "--full"],
        &["log", "replay", "demo", "--verbose", "--json"],
        &["log", "search", "abc"],
        &["log", "search", "abc", "--json"],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "show", "demo"],
        &["sessions", "export", "demo"],
        &["usage", "model"],
        &["usage", "model", "--json"],
    ];
    for args in commands {
        for color in ["never", "always"] {
            let shown = on_terminal(&kit, &[args, &["--color", color]].concat());
            let plain = without_styles(&shown);
            assert!(!plain.contains(is_hostile), "{args:?}: {plain:?}");
            assert!(plain.contains("abc") || plain.contains("gpt"), "{args:?}: {plain:?}");
            assert!(color == "always" || !shown.contains('\u{1b}'), "{args:?}: {shown:?}");
        }
    }
    for args in
        [&["sessions", "show", HOSTILE][..], &["log", "search", "abc", "--session", HOSTILE], &["usage", HOSTILE]]
    {
        let shown = without_styles(&on_terminal(&kit, args));
        assert!(shown.contains("error") && !shown.contains(is_hostile), "{args:?}: {shown:?}");
    }
}

#[test]
fn json_on_a_terminal_is_equivalent_json() {
    let kit = hostile();
    for args in [&["log", "cat", "demo"][..], &["log", "search", "abc", "--json"], &["usage", "model", "--json"]] {
        let (shown, exact) = (on_terminal(&kit, args), kit.run(args).is(0).text());
        assert_ne!(shown, exact, "{args:?}");
        let read = |text: &str| -> Vec<serde_json::Value> {
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        assert_eq!(read(&shown), read(&exact), "{args:?}");
    }
    let exact = kit.run(&["log", "cat", "demo"]).is(0);
    assert_eq!(exact.stdout, std::fs::read(kit.log_of("demo")).expect("a log"), "a pipe gets the bytes");
}
