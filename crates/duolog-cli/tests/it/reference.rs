use std::path::Path;

use crate::kit::{Kit, Transcript};

/// Every command without subcommands.
const COMMANDS: &[&str] = &[
    "demo",
    "init",
    "sessions list",
    "sessions show",
    "sessions new",
    "sessions rename",
    "sessions delete",
    "sessions add",
    "sessions items",
    "sessions pop",
    "sessions clear",
    "sessions fork",
    "sessions branch new",
    "sessions branch rename",
    "sessions branch set",
    "sessions branches",
    "sessions compact",
    "sessions close",
    "sessions reopen",
    "sessions history",
    "sessions set",
    "sessions send",
    "sessions inbox",
    "schedules list",
    "schedules show",
    "schedules set",
    "schedules clear",
    "schedules runs",
    "schedules tick",
    "chats list",
    "chats show",
    "chats history",
    "chats add",
    "chats reset",
    "log append",
    "log record",
    "log cat",
    "log tail",
    "log stream",
    "log replay",
    "log search",
    "log verify",
    "log repair",
    "runs list",
    "runs show",
    "runs start",
    "runs exec",
    "runs claim",
    "runs renew",
    "runs release",
    "runs phase begin",
    "runs phase end",
    "runs phase skip",
    "runs phase check",
    "runs phase enter",
    "runs phase complete",
    "runs scratch",
    "runs nodes",
    "runs output",
    "runs gate",
    "runs acknowledge",
    "runs pause",
    "runs resume",
    "runs finish",
    "runs fail",
    "runs cancel",
    "runs retry",
    "runs requeue",
    "runs admit",
    "runs recover",
    "runs expire",
    "runs wait",
    "runs stats",
    "runs errors",
    "approvals list",
    "approvals show",
    "approvals approve",
    "approvals reject",
    "approvals reply",
    "workflows list",
    "workflows enable",
    "workflows disable",
    "workflows clear",
    "state stats",
    "state rebuild",
    "state migrate",
    "state checkpoint",
    "state vacuum",
    "state blobs",
    "state backup",
    "usage daily",
    "usage session",
    "usage model",
    "usage workflow",
    "doctor",
    "config show",
    "config check",
    "config init",
    "completions",
    "help",
    "version",
    "docs",
    "man",
];

#[test]
fn every_command_has_help_with_an_example() {
    let kit = Kit::new();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["--help"]).is(0);
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        let ran = transcript.run(&kit, &args).is(0);
        assert!(ran.text().contains("Examples:\n  "), "{command}: {}", ran.text());
        assert!(ran.text().lines().all(|line| line.chars().count() <= 110), "{command}: {}", ran.text());
    }
    kit.snapshot("help", &transcript.0);
    assert!(!kit.home().exists(), "help makes nothing");
}

/// With UPDATE_DOCS=1 the file is written again.
#[test]
fn the_reference_is_what_the_command_prints() {
    let kit = Kit::new();
    let printed = kit.run(&["docs"]).is(0).text();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, &printed).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == printed, "docs/cli.md differs from the output of `duolog docs`: run this test with UPDATE_DOCS=1");
    for command in COMMANDS.iter().filter(|command| **command != "docs") {
        assert!(printed.contains(&format!("\n## duolog {command}\n")), "{command}");
    }
}

#[test]
fn completions_and_manual_pages_come_from_the_same_tree() {
    let kit = Kit::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(kit.run(&["completions", shell]).is(0).text().contains("append"), "{shell}");
    }
    kit.run(&["man", "pages"]).is(0);
    for page in ["duolog.1", "duolog-demo.1", "duolog-config-show.1"] {
        assert!(kit.dir.path().join("pages").join(page).exists(), "{page}");
    }
    let page = std::fs::read_to_string(kit.dir.path().join("pages/duolog-log-append.1")).expect("a page");
    assert!(page.contains("if\\-position"), "{page}");
}
