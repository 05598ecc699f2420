use duolog_testkit::crash::{Calls, Script, Summary, enumerate, faults};

fn held(summary: &Summary, at_least: usize) {
    if let Some((number, what, broken)) = &summary.broken {
        panic!("point {number}: {what}\n{}", broken.0);
    }
    assert!(summary.points >= at_least, "only {} points were checked", summary.points);
}

#[test]
fn whatever_moment_and_byte_a_crash_falls_on_nothing_acknowledged_is_lost() {
    held(&enumerate(Script::Plain, 1), 1500);
}

#[test]
fn whatever_moment_a_crash_falls_on_a_changed_log_is_never_silent() {
    held(&enumerate(Script::Tampered, 1), 2500);
}

#[test]
fn whatever_disk_call_fails_nothing_acknowledged_is_lost() {
    held(&faults(Script::Plain, Calls::Mutations), 200);
}

#[test]
fn whatever_disk_call_fails_a_changed_log_is_never_silent() {
    held(&faults(Script::Tampered, Calls::Mutations), 300);
}

#[test]
fn whatever_moment_a_crash_falls_on_equal_lines_are_counted_right() {
    held(&enumerate(Script::EqualLines, 1), 1000);
}

#[test]
fn whatever_disk_call_fails_equal_lines_are_counted_right() {
    held(&faults(Script::EqualLines, Calls::Mutations), 200);
}
