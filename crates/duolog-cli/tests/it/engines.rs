use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, lines_of};

on_both_engines!(
    every_command_works,
    a_retry_under_an_operation_id_changes_nothing_twice,
    writers_at_once_lose_nothing,
    a_read_only_home_can_be_read,
);

fn every_command_works(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(kit.run(&["log", "cat", "demo"]).is(0).text(), "{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(kit.run(&["log", "tail", "demo", "-n", "1"]).is(0).text(), "{\"n\":2}\n");
    let once = ["log", "append", "--session", "demo", "--operation-id", "a", "--line", "{\"n\":3}", "--json"];
    for _ in 0..2 {
        assert_eq!(kit.run(&once).is(0).field("/position"), 24);
    }
    let ada = ["--user-email", "ada@example.com", "--session-name", "plan"];
    kit.run(&[&["sessions", "new", "--status", "running"][..], &ada].concat()).is(0);
    kit.run(&[&["sessions", "new"][..], &ada].concat()).is(1).says("already exists");
    assert_eq!(kit.run(&["sessions", "rename", "demo", "done", "--json"]).is(0).field("/session/name"), "done");
    assert!(kit.run(&["log", "cat", "done", "--last", "1"]).is(0).text().contains("duolog.renamed"));
    let list = kit.run(&["sessions", "list", "--json"]).is(0);
    assert_eq!((list.field("/sessions/0/name"), list.field("/sessions/0/events")), ("done".into(), 4.into()));
    let first = kit.run(&["sessions", "list", "--limit", "1", "--json"]).is(0).field("/next");
    let next = first.as_str().expect("a token");
    assert_eq!(kit.run(&["sessions", "list", "--after", next, "--json"]).is(0).field("/sessions/0/name"), "plan");
    assert_eq!(kit.run(&["sessions", "show", "done", "--json"]).is(0).field("/events"), 4);
    for args in
        [&["log", "verify", "done"][..], &["log", "repair", "done"], &["state", "migrate"], &["state", "vacuum"]]
    {
        kit.run(args).is(0);
    }
    assert_eq!(kit.run(&["state", "rebuild", "--json"]).is(0).field("/events"), 4);
    assert_eq!(kit.run(&["state", "checkpoint", "--json"]).is(0).field("/busy"), false);
    let stats = kit.run(&["state", "stats", "--json"]).is(0);
    assert_eq!((stats.field("/tables/sessions"), stats.field("/logs/events")), (2.into(), 4.into()));
    assert_eq!(stats.field("/database/wal_bytes").is_null(), place.database().is_some());
    let doctor = kit.run(&["doctor", "--json"]).is(0);
    assert_eq!(doctor.field("/verdict"), "ok", "{}", doctor.text());
    kit.run(&["sessions", "delete", "done", "--yes"]).is(0);
    kit.run(&["log", "cat", "done"]).is(1).says("there is no session");
    assert_eq!(kit.home().join("state/state.db").exists(), place.database().is_none());
}

fn a_retry_under_an_operation_id_changes_nothing_twice(place: &Place) {
    let kit = Kit::on(place);
    let twice = |args: &[&str]| {
        let (first, again) = (kit.run(args).is(0), kit.run(args).is(0));
        assert_eq!(first.text(), again.text(), "{args:?}");
        first
    };
    let made = twice(&["sessions", "new", "--name", "plan", "--operation-id", "make", "--json"]).field("/session/id");
    kit.run(&["sessions", "new", "--name", "other", "--operation-id", "make"]).is(1).says("operation make was used");
    twice(&["sessions", "rename", "plan", "done", "--operation-id", "rename", "--json"]);
    assert_eq!(lines_of(&kit.log_of("plan")).len(), 1, "told once, in the file that stays");
    kit.run(&["sessions", "rename", "plan", "gone", "--operation-id", "rename"])
        .is(1)
        .says("operation rename was used");
    let deleted = twice(&["sessions", "delete", "done", "--yes", "--operation-id", "delete", "--json"]);
    assert_eq!((deleted.field("/session_id"), deleted.field("/deleted")), (made, true.into()));
    kit.run(&["sessions", "delete", "done", "--yes"]).is(1);
}

fn writers_at_once_lose_nothing(place: &Place) {
    let kit = Kit::on(place);
    let append = |writer: usize| {
        for n in 0..5 {
            let line = format!("{{\"writer\":{writer},\"n\":{n}}}");
            kit.run(&["log", "append", "--session", "demo", "--line", &line]).is(0);
            kit.run(&["sessions", "new", "--name", &format!("{writer}-{n}")]).is(0);
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || append(writer));
        }
    });
    let list = kit.run(&["sessions", "list", "--limit", "200", "--json"]).is(0);
    assert_eq!(list.field("/sessions").as_array().expect("sessions").len(), 21);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/events"), 20);
    assert_eq!(kit.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
}

fn a_read_only_home_can_be_read(place: &Place) {
    let kit = Kit::on(place);
    kit.append("demo", "{\"n\":1}\n");
    let listed = kit.run(&["sessions", "list", "--json"]).is(0).text();
    let read_only = |command: &str| {
        let script = format!("mount --bind $H $H && mount -o remount,ro,bind $H && exec $D {command}");
        crate::kit::Ran::of(kit.mounting(&script))
    };
    assert_eq!(read_only("sessions list --json").is(0).text(), listed);
    assert_eq!(read_only("log cat demo").is(0).text(), "{\"n\":1}\n");
    read_only("doctor").is(0);
    read_only("log append --session demo --line '{}'").is(5);
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}"]);
}
