use duolog_testkit::crash::{Calls, Script, Summary, enumerate, faults};

fn assert_passed(summary: &Summary, at_least: usize) {
    if let Some((number, what, broken)) = &summary.broken {
        panic!("point {number}: {what}\n{}", broken.0);
    }
    assert!(summary.points >= at_least, "only {} points were checked", summary.points);
}

#[test]
fn whatever_moment_and_byte_a_crash_falls_on_nothing_acknowledged_is_lost() {
    assert_passed(&enumerate(Script::Plain, 1), 1500);
}

#[test]
fn whatever_moment_a_crash_falls_on_a_changed_log_is_never_silent() {
    assert_passed(&enumerate(Script::Tampered, 1), 2500);
}

#[test]
fn whatever_disk_call_fails_nothing_acknowledged_is_lost() {
    assert_passed(&faults(Script::Plain, Calls::Mutations), 200);
}

#[test]
fn whatever_disk_call_fails_a_changed_log_is_never_silent() {
    assert_passed(&faults(Script::Tampered, Calls::Mutations), 300);
}

#[test]
fn a_crash_at_any_point_loses_and_doubles_no_equal_line() {
    assert_passed(&enumerate(Script::EqualLines, 1), 1000);
}

#[test]
fn a_failed_disk_call_loses_and_doubles_no_equal_line() {
    assert_passed(&faults(Script::EqualLines, Calls::Mutations), 200);
}
