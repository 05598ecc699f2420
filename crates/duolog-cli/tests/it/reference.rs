use std::path::Path;

use crate::kit::Kit;

/// The help of a command without subcommands has an example; `docs/cli.md` pins its text.
#[test]
fn every_command_has_help_with_an_example() {
    let kit = Kit::new();
    let reference = kit.run(&["docs"]).is(0).text();
    let commands: Vec<&str> = reference.lines().filter_map(|line| line.strip_prefix("## duolog ")).collect();
    assert!(commands.len() > 100, "{commands:?}");
    for command in commands {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        let help = kit.run(&args).is(0).text();
        assert!(help.contains("\nCommands:\n") || help.contains("Examples:\n  "), "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{command}: {help}");
        let first = help.lines().next().unwrap_or_default();
        assert!(reference.contains(&format!("\n## duolog {command}\n\n```text\n{first}\n")), "{command}");
    }
    assert!(!kit.home().exists(), "help creates nothing");
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
