use std::fs;
use std::io::Write as _;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use serde_json::json;

use crate::kit::{Kit, lines_of};

on_both_engines!(
    lines_lost_before_they_were_synced_stay_a_warning,
    a_change_of_sealed_bytes_is_damage_among_unsynced_lines,
    verify_reports_lines_that_were_removed_before_the_last_append,
    a_log_that_lost_recorded_lines_is_never_answered_as_complete,
    the_history_of_a_run_without_its_log_is_not_complete,
    a_recorded_loss_is_told_by_every_reader_until_the_log_is_deleted,
    an_export_carries_the_loss_of_its_log,
    what_was_never_acknowledged_is_no_loss,
    logs_of_other_homes_make_a_search_incomplete,
);

const PAGE: usize = 4096;

/// Replaces unsynced lines by a page of NULs, as ext4 may after a power loss. The log ends with a complete line.
fn lose_a_page(kit: &Kit) {
    let path = kit.log_of("demo");
    let before = fs::read(&path).expect("a log").len();
    let lines: Vec<_> = (0..400).map(|n| format!("{{\"n\":{n},\"text\":\"words of line {n}\"}}\n")).collect();
    let mut lines = lines.concat().into_bytes();
    let page = (before / PAGE + 2) * PAGE - before;
    lines[page..page + PAGE].fill(0);
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("a log");
    file.write_all(&lines).expect("appended");
}

/// Asserts that a log has one lost line and that no command reports damage.
fn is_a_warning(kit: &Kit) {
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(0).says("unsynced loss");
    assert_eq!(verified.field("/results/0/status"), "warning", "{}", verified.text());
    assert_eq!(
        (verified.field("/results/0/damaged_places"), verified.field("/results/0/unsynced_places")),
        (json!(0), json!(1))
    );
    assert_eq!(verified.field("/results/0/places/0/severity"), "unsynced_loss");
    assert_eq!(kit.run(&["log", "verify", "--all", "--json"]).is(0).field("/damaged_logs"), 0);
    let repaired = kit.run(&["log", "repair", "demo", "--json"]).is(0);
    assert_eq!(
        (repaired.field("/remaining/damaged_places"), repaired.field("/remaining/unsynced_places")),
        (json!(0), json!(1))
    );
    let doctor = kit.run(&["doctor", "--json"]).is(0);
    assert_eq!(doctor.field("/verdict"), "warnings", "{}", doctor.text());
    kit.run(&["log", "cat", "demo"]).is(0).says("1 damaged place skipped");
}

fn lines_lost_before_they_were_synced_stay_a_warning(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    lose_a_page(&kit);
    let lost = kit.run(&["log", "verify", "demo", "--json"]).is(0);
    assert_eq!(lost.field("/results/0/places/0/sealed"), false);
    is_a_warning(&kit);
    // This folds, syncs and seals the lines.
    kit.run(&["sessions", "list"]).is(0);
    let sealed = kit.run(&["log", "verify", "demo", "--json"]).is(0);
    assert_eq!(sealed.field("/results/0/places/0/sealed"), true);
    is_a_warning(&kit);
    kit.append("demo", "{\"n\":3}\n");
    kit.run(&["state", "rebuild"]).is(0);
    is_a_warning(&kit);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/damaged_lines"), 1);
}

fn a_change_of_sealed_bytes_is_damage_among_unsynced_lines(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    lose_a_page(&kit);
    kit.run(&["sessions", "list"]).is(0);
    let log = kit.log_of("demo");
    let mut bytes = fs::read(&log).expect("a log");
    bytes[0] = b'#';
    fs::write(&log, &bytes).expect("changed");
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(4);
    // The line that is unreadable now, and the block that differs from its seal.
    assert_eq!(
        (verified.field("/results/0/damaged_places"), verified.field("/results/0/unsynced_places")),
        (json!(2), json!(1))
    );
    let severity = |place: usize| verified.field(&format!("/results/0/places/{place}/severity"));
    assert_eq!((severity(0), severity(1), severity(2)), ("damage".into(), "unsynced_loss".into(), "damage".into()));
    kit.run(&["log", "repair", "demo"]).is(4);
    assert_eq!(kit.run(&["doctor", "--json"]).is(4).field("/verdict"), "damaged");
}

fn verify_reports_lines_that_were_removed_before_the_last_append(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    kit.run(&["sessions", "list"]).is(0);
    assert_eq!(kit.run(&["log", "verify", "demo", "--json"]).is(0).field("/results/0/losses"), json!([]));
    let log = kit.log_of("demo");
    fs::write(&log, "{\"n\":1}\n{\"n\":3}\n").expect("a line removed");
    kit.run(&["log", "append", "--session", "demo", "--line", "{\"n\":4}"]).is(4);
    kit.append("demo", "{\"n\":4}\n{\"n\":5}\n");
    kit.run(&["sessions", "list"]).is(0);
    assert_eq!(lines_of(&log), ["{\"n\":1}", "{\"n\":3}", "{\"n\":4}", "{\"n\":5}"]);
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(0).says("lines were lost");
    assert_eq!(
        (verified.field("/results/0/status"), verified.field("/results/0/damaged_places")),
        ("warning".into(), 0.into())
    );
    let loss = verified.field("/results/0/losses/0");
    assert_eq!((&loss["action"], &loss["epoch"], &loss["position"]), (&"shorter".into(), &0.into(), &16.into()));
    let all = kit.run(&["log", "verify", "--all", "--json"]).is(0);
    assert_eq!(all.field("/results/0/status"), "warning");
}

/// Asserts that the read commands report the loss of recorded lines, without recording it.
fn assert_loss_is_reported(kit: &Kit, name: &str, lines: &str) {
    for command in [&["log", "cat", name][..], &["log", "tail", name]] {
        let ran = kit.run(command).is(4).says("recorded bytes are lost");
        assert_eq!(ran.text(), lines, "{command:?}");
    }
    kit.run(&["log", "replay", name]).is(4).says("recorded bytes are lost");
    kit.run(&["log", "stream", "--no-follow"]).is(4).says("recorded bytes are lost");
    let refused = kit.run(&["sessions", "export", name]).is(4).says("log verify").says("log repair");
    assert_eq!(refused.text(), "", "nothing is written");
    for more in [&["log", "search", "one", "--json"][..], &["log", "search", "one", "--json", "--no-index"]] {
        let found = kit.run(more);
        assert_eq!(found.field("/complete"), false, "{}", found.text());
        let reason = found.field("/lost_logs/0/reason");
        assert!(reason.as_str().is_some_and(|it| it.contains("recorded bytes are lost")), "{}", found.text());
    }
    // A list checks the logs on its page.
    assert_counts_include_loss(kit, &["sessions list"]);
}

fn assert_counts_include_loss(kit: &Kit, commands: &[&str]) {
    for command in commands {
        let args: Vec<_> = command.split(' ').chain(["--json"]).collect();
        let ran = kit.run(&args).is(0).says("lost");
        assert_eq!(
            (ran.field("/complete"), ran.field("/missing/lost_sessions")),
            (false.into(), 1.into()),
            "{command}"
        );
    }
}

fn a_log_that_lost_recorded_lines_is_never_answered_as_complete(place: &Place) {
    let first = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n";
    let more = first.replace("one", "words");
    for (name, kept) in [("gone", None), ("cut", Some(first))] {
        let kit = Kit::on(place);
        kit.append(name, &format!("{first}{more}{more}"));
        assert_eq!(kit.run(&["sessions", "list", "--json"]).is(0).field("/complete"), true);
        assert_eq!(kit.run(&["log", "search", "words", "--json", "--session", name]).is(0).field("/complete"), true);
        let log = kit.log_of(name);
        match kept {
            Some(kept) => fs::write(&log, kept).expect("cut"),
            None => fs::remove_file(&log).expect("removed"),
        }
        assert_loss_is_reported(&kit, name, kept.unwrap_or_default());
        assert_loss_is_reported(&kit, name, kept.unwrap_or_default());
        let shown = kit.run(&["sessions", "show", name, "--json"]).is(0).says("lost");
        assert_eq!((shown.field("/complete"), shown.field("/missing/lost_sessions")), (false.into(), 1.into()));
        // The loss is recorded by now, and every count reports it; the remaining lines are the complete log of the new
        // epoch.
        assert_counts_include_loss(&kit, &["usage daily", "usage model", "state stats", "sessions list"]);
        kit.append(name, first);
        assert_recorded_loss_is_reported(&kit, name);
        kit.run(&["log", "verify", name]).is(0).says("lines were lost");
    }
}

/// Asserts that the read commands answer and report a recorded loss.
fn assert_recorded_loss_is_reported(kit: &Kit, name: &str) {
    let path = kit.run(&["sessions", "show", name, "--json"]).is(0).field("/session/log_path");
    let path = kit.home().join("state").join(path.as_str().expect("a path"));
    let lines = fs::read_to_string(path).unwrap_or_default();
    for command in [&["log", "cat", name][..], &["log", "tail", name]] {
        let ran = kit.run(command).is(0).says("recorded bytes were lost earlier");
        assert_eq!(ran.text(), lines, "{command:?}");
    }
    kit.run(&["log", "cat", name, "--quiet"]).is(0).says("recorded bytes were lost earlier");
    kit.run(&["log", "replay", name]).is(0).says("recorded bytes were lost earlier");
    kit.run(&["log", "stream", "--no-follow"]).is(0).says("recorded bytes were lost earlier");
    let streamed = kit.run(&["log", "stream", "--no-follow", "--json"]).is(0).text();
    assert!(streamed.contains("\"notice\":\"lost\""), "{streamed}");
    let exported = kit.run(&["sessions", "export", name]).is(0).says("recorded bytes were lost earlier");
    assert!(exported.field("/lost_bytes").as_u64() > Some(0), "{}", exported.text());
    let file = kit.home().join(format!("{name}.json"));
    let export = ["sessions", "export", name, "--force", "--json", "--output", file.to_str().expect("a path")];
    let exported = kit.run(&export).is(0).says("recorded bytes were lost earlier");
    assert_eq!(exported.field("/complete"), false);
    assert!(exported.field("/lost_bytes").as_u64() > Some(0));
    for more in [&["--no-index"][..], &[], &["--session", name]] {
        let found = kit.run(&[&["log", "search", "one", "--json"], more].concat());
        assert_eq!(found.field("/complete"), false, "{}", found.text());
        let lost = found.field("/lost_logs/0");
        assert!(lost["reason"].as_str().is_some_and(|it| it.contains("were lost earlier")), "{}", found.text());
        assert!(lost["lost_bytes"].as_u64() > Some(0), "{}", found.text());
        // Only logs of other homes, which share a server's state, are not searched.
        let unread = found.field("/unread");
        let mut reasons =
            unread.as_array().expect("a list").iter().map(|log| log["reason"].as_str().unwrap_or_default());
        assert!(reasons.all(|reason| reason.starts_with("its log is in home")), "{}", found.text());
        let text = kit.run(&[&["log", "search", "one"], more].concat());
        let text = text.says("was searched without the lines that its log has lost");
        assert!(!text.stderr.contains("to the end"), "{}", text.stderr);
    }
    assert_counts_include_loss(kit, &["usage daily", "sessions list"]);
}

/// Asserts that the read commands report no loss.
fn is_whole(kit: &Kit, name: &str) {
    let commands =
        [&["log", "cat", name][..], &["log", "tail", name], &["log", "replay", name], &["sessions", "export", name]];
    for command in commands.into_iter().chain([&["log", "stream", "--no-follow"][..]]) {
        let ran = kit.run(command).is(0);
        assert!(!ran.stderr.contains("lost"), "{command:?}: {}", ran.stderr);
    }
    for command in [&["log", "search", "one", "--json", "--session", name][..], &["usage", "daily", "--json"]] {
        let found = kit.run(command);
        assert_eq!(found.field("/complete"), true, "{}", found.text());
    }
}

fn a_recorded_loss_is_told_by_every_reader_until_the_log_is_deleted(place: &Place) {
    let first = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n";
    let other = first.replace("one", "ein");
    for (name, kept) in [("gone", None), ("cut", Some(first.to_owned())), ("replaced", Some(other.repeat(3)))] {
        let kit = Kit::on(place);
        kit.append(name, &first.repeat(3));
        kit.run(&["sessions", "list"]).is(0);
        is_whole(&kit, name);
        match &kept {
            Some(kept) => fs::write(kit.log_of(name), kept).expect("changed"),
            None => fs::remove_file(kit.log_of(name)).expect("removed"),
        }
        // A fold records it.
        kit.run(&["sessions", "show", name]).is(0);
        assert_recorded_loss_is_reported(&kit, name);
        kit.append(name, first);
        assert_recorded_loss_is_reported(&kit, name);
        let shown = kit.run(&["sessions", "show", name, "--json"]).is(0);
        assert_eq!(shown.field("/missing/lost_sessions"), 1);
        kit.run(&["log", "verify", name]).is(0).says("lines were lost");
        let doctor = kit.run(&["doctor"]).is(0).text();
        assert!(doctor.contains("recorded bytes were lost"), "{doctor}");
        kit.run(&["sessions", "delete", name, "--log", "--yes"]).is(0);
        has_no_loss_on_record(&kit, name);
        kit.append(name, first);
        is_whole(&kit, name);
        has_no_loss_on_record(&kit, name);
    }
}

/// Holds the commands that check a log to not telling of a loss that is over.
fn has_no_loss_on_record(kit: &Kit, name: &str) {
    let verified = kit.run(&["log", "verify", name, "--json"]).is(0);
    assert_eq!(verified.field("/results/0/losses"), json!([]));
    assert_eq!(verified.field("/results/0/status"), "ok", "{}", verified.text());
    for command in [&["doctor", "--json"][..], &["doctor", "--deep", "--json"]] {
        let doctor = kit.run(command).is(0);
        assert!(!doctor.text().contains("were lost"), "{}", doctor.text());
    }
}

fn an_export_carries_the_loss_of_its_log(place: &Place) {
    let first = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n";
    let (here, there) = (Kit::on(place), Kit::new());
    here.append("whole", &first.repeat(3));
    let whole = here.run(&["sessions", "export", "whole"]).is(0);
    assert!(whole.text().ends_with("\"blobs\":[]}\n"), "{}", whole.text());
    let imported = there.feed(&["sessions", "import", "-", "--json"], &whole.stdout).is(0);
    assert_eq!((imported.field("/complete"), imported.field("/lost_bytes")), (true.into(), 0.into()));
    is_whole(&there, "whole");
    here.append("cut", &first.repeat(3));
    here.run(&["sessions", "list"]).is(0);
    fs::write(here.log_of("cut"), first).expect("cut");
    here.run(&["sessions", "show", "cut"]).is(0);
    let lost = (first.len() * 2) as u64;
    let cut = here.run(&["sessions", "export", "cut"]).is(0).says("recorded bytes were lost earlier");
    assert_eq!(cut.field("/lost_bytes"), lost);
    let import = ["sessions", "import", "-", "--json"];
    let imported = there.feed(&import, &cut.stdout).is(0).says("recorded bytes were lost earlier");
    assert_eq!((imported.field("/complete"), imported.field("/lost_bytes")), (false.into(), lost.into()));
    assert_recorded_loss_is_reported(&there, "cut");
    there.run(&["log", "verify", "cut"]).is(0).says(&format!("the log ended at {}", first.len()));
    // Each home counts the epochs of its own files.
    let again = there.run(&["sessions", "export", "cut"]).is(0).text();
    assert_eq!(again, cut.text().replace("\"log_epoch\":1", "\"log_epoch\":0"), "the document is equal");
    // Back where it was, in the place of the one that was deleted.
    here.run(&["sessions", "delete", "cut", "--yes"]).is(0);
    here.feed(&import, &cut.stdout).is(0);
    assert_recorded_loss_is_reported(&here, "cut");
    here.run(&["sessions", "delete", "cut", "--log", "--yes"]).is(0);
    has_no_loss_on_record(&here, "cut");
    for bad in ["0", "-1", "\"many\"", "1e3", "9223372036854775808"] {
        let text = cut.text().replace(&format!("\"lost_bytes\":{lost}"), &format!("\"lost_bytes\":{bad}"));
        Kit::new().feed(&["sessions", "import", "-"], text.as_bytes()).is(2).says("lost_bytes");
    }
}

/// A torn tail, and a log that a failed write closed until its repair.
fn what_was_never_acknowledged_is_no_loss(place: &Place) {
    let kit = Kit::on(place);
    let first = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n";
    kit.append("s", first);
    kit.run(&["sessions", "list"]).is(0);
    let mut file = fs::OpenOptions::new().append(true).open(kit.log_of("s")).expect("a log");
    file.write_all(b"{\"torn").expect("torn");
    kit.append("s", first);
    is_whole(&kit, "s");
    file.write_all(b"{\"torn").expect("torn");
    let mut mode = fs::metadata(kit.log_of("s")).expect("a log").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o400);
    fs::set_permissions(kit.log_of("s"), mode).expect("closed");
    kit.run(&["log", "append", "--session", "s", "--line", "{}"]).is(4);
    kit.run(&["log", "repair", "s"]).is(0);
    kit.append("s", first);
    is_whole(&kit, "s");
}

fn the_history_of_a_run_without_its_log_is_not_complete(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["runs", "start", "build", "--trigger", "t", "--id", "r"]).is(0);
    kit.run(&["sessions", "list"]).is(0);
    let whole = kit.run(&["runs", "history", "r", "--json"]).is(0);
    assert_eq!(whole.field("/complete"), true, "{}", whole.text());
    let session = kit.run(&["runs", "show", "r", "--json"]).is(0).field("/run/session_id");
    let shown = kit.run(&["sessions", "show", session.as_str().expect("a session"), "--json"]).is(0);
    let path = shown.field("/session/log_path");
    fs::remove_file(kit.home().join("state").join(path.as_str().expect("a path"))).expect("removed");
    let told = kit.run(&["runs", "history", "r", "--json"]).is(0);
    assert_eq!((told.field("/complete"), told.field("/history")), (false.into(), json!([])), "{}", told.text());
    let lost_bytes = told.field("/lost_bytes");
    assert!(lost_bytes.as_u64() > Some(0), "{}", told.text());
    // Once recorded, the answer stays incomplete.
    kit.run(&["sessions", "show", session.as_str().expect("a session")]).is(0);
    let told = kit.run(&["runs", "history", "r", "--json"]).is(0).says("of the log are lost");
    assert_eq!((told.field("/complete"), told.field("/lost_bytes")), (false.into(), lost_bytes), "{}", told.text());
}

fn logs_of_other_homes_make_a_search_incomplete(place: &Place) {
    let (here, there) = (Kit::on(place), Kit::on(place));
    here.run(&["sessions", "new", "--name", "empty"]).is(0);
    let alone = here.run(&["log", "search", "needle", "--json"]).is(1);
    assert_eq!((alone.field("/complete"), alone.field("/other_home_sessions")), (true.into(), 0.into()));
    there.append("far", "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"needle\"}}\n");
    there.run(&["sessions", "list"]).is(0);
    let found = here.run(&["log", "search", "needle", "--json"]).is(1);
    if place.database().is_none() {
        assert_eq!(found.field("/complete"), true, "it is another state");
        return;
    }
    let found = found.says("1 session of other homes not searched");
    assert_eq!((found.field("/complete"), found.field("/other_home_sessions")), (false.into(), 1.into()));
    let unread = found.field("/unread/0/reason");
    assert!(unread.as_str().is_some_and(|reason| reason.starts_with("its log is in home ")), "{unread}");
}
