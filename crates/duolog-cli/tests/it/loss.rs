use std::fs;
use std::io::Write as _;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use serde_json::json;

use crate::kit::{Kit, lines_of};

on_both_engines!(
    lines_lost_before_they_were_synced_stay_a_warning,
    a_change_of_sealed_bytes_is_damage_beside_lines_that_were_never_synced,
    verify_reports_lines_that_were_removed_before_the_last_append,
);

const PAGE: usize = 4096;

/// What ext4 leaves of lines that were never synced: a page of NULs among them. The log ends with a whole line.
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

/// Asserts that a log has one lost line and that no command calls it damaged.
fn is_a_warning(kit: &Kit) {
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(0).says("unsynced loss");
    assert_eq!(verified.field("/logs/0/status"), "warning", "{}", verified.text());
    assert_eq!((verified.field("/logs/0/damaged"), verified.field("/logs/0/unsynced")), (json!(0), json!(1)));
    assert_eq!(verified.field("/logs/0/places/0/severity"), "unsynced_loss");
    assert_eq!(kit.run(&["log", "verify", "--all", "--json"]).is(0).field("/damaged"), 0);
    let repaired = kit.run(&["log", "repair", "demo", "--json"]).is(0);
    assert_eq!((repaired.field("/left/damaged"), repaired.field("/left/unsynced")), (json!(0), json!(1)));
    let doctor = kit.run(&["doctor", "--json"]).is(0);
    assert_eq!(doctor.field("/verdict"), "warnings", "{}", doctor.text());
    kit.run(&["log", "cat", "demo"]).is(0).says("1 damaged place skipped");
}

fn lines_lost_before_they_were_synced_stay_a_warning(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    lose_a_page(&kit);
    let lost = kit.run(&["log", "verify", "demo", "--json"]).is(0);
    assert_eq!(lost.field("/logs/0/places/0/sealed"), false);
    is_a_warning(&kit);
    // This folds the lines, syncs them and seals them.
    kit.run(&["sessions", "list"]).is(0);
    let sealed = kit.run(&["log", "verify", "demo", "--json"]).is(0);
    assert_eq!(sealed.field("/logs/0/places/0/sealed"), true);
    is_a_warning(&kit);
    kit.append("demo", "{\"n\":3}\n");
    kit.run(&["state", "rebuild"]).is(0);
    is_a_warning(&kit);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/damaged"), 1);
}

fn a_change_of_sealed_bytes_is_damage_beside_lines_that_were_never_synced(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    lose_a_page(&kit);
    kit.run(&["sessions", "list"]).is(0);
    let log = kit.log_of("demo");
    let mut bytes = fs::read(&log).expect("a log");
    bytes[0] = b'#';
    fs::write(&log, &bytes).expect("changed");
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(4);
    // The line that cannot be read since, and the block that is not as sealed.
    assert_eq!((verified.field("/logs/0/damaged"), verified.field("/logs/0/unsynced")), (json!(2), json!(1)));
    let severity = |place: usize| verified.field(&format!("/logs/0/places/{place}/severity"));
    assert_eq!((severity(0), severity(1), severity(2)), ("damage".into(), "unsynced_loss".into(), "damage".into()));
    kit.run(&["log", "repair", "demo"]).is(4);
    assert_eq!(kit.run(&["doctor", "--json"]).is(4).field("/verdict"), "damaged");
}

fn verify_reports_lines_that_were_removed_before_the_last_append(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    kit.run(&["sessions", "list"]).is(0);
    assert_eq!(kit.run(&["log", "verify", "demo", "--json"]).is(0).field("/logs/0/losses"), json!([]));
    let log = kit.log_of("demo");
    fs::write(&log, "{\"n\":1}\n{\"n\":3}\n").expect("a line removed");
    kit.run(&["log", "append", "--session", "demo", "--line", "{\"n\":4}"]).is(4);
    kit.append("demo", "{\"n\":4}\n{\"n\":5}\n");
    kit.run(&["sessions", "list"]).is(0);
    assert_eq!(lines_of(&log), ["{\"n\":1}", "{\"n\":3}", "{\"n\":4}", "{\"n\":5}"]);
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(0).says("lines were lost");
    assert_eq!((verified.field("/logs/0/status"), verified.field("/logs/0/damaged")), ("warning".into(), 0.into()));
    let loss = verified.field("/logs/0/losses/0");
    assert_eq!((&loss["action"], &loss["epoch"], &loss["position"]), (&"shorter".into(), &0.into(), &16.into()));
    let all = kit.run(&["log", "verify", "--all", "--json"]).is(0);
    assert_eq!(all.field("/logs/0/status"), "warning");
}
