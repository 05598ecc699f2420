use duolog::doctor::Depth;
use duolog::{Durability, Error, ErrorKind, SessionId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(only_the_home_of_a_log_touches_it, a_rename_from_another_home_is_logged_by_the_owner);

fn refused(answer: Result<impl Sized, Error>, owner: &Store) {
    let error = answer.err().expect("another home's");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(&owner.home_id().to_string()), "{error}");
}

fn only_the_home_of_a_log_touches_it(place: &Place) {
    let (here, there) = (Apart::of(place), Apart::of(place));
    let (mine, yours) = (here.open(), there.open());
    assert_ne!(mine.home_id(), yours.home_id());
    let session = mine.sessions().open_thread("plan").expect("made");
    mine.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    let found = yours.sessions().open_thread("plan").expect("names are shared through the state");
    assert_eq!((&found.id, found.home_id), (&session.id, mine.home_id()));
    refused(yours.log(&session.id).append(&line("{\"n\":2}"), Durability::Process), &mine);
    refused(yours.log(&session.id).end(), &mine);
    refused(yours.log(&session.id).repair(), &mine);
    refused(yours.sessions().delete(&session.id), &mine);
    assert_eq!(lines(&mine, &session.id), ["{\"n\":1}"]);
    assert!(!there.log(&session.log_path).exists());
    // Doctor checks only the logs of its home.
    let report = yours.doctor().examine(Depth::Deep, |_| {}).expect("examines");
    let logs = report.checks.iter().find(|check| check.name == "logs").expect("a check");
    assert!(logs.detail.starts_with("0 logs"), "{}", logs.detail);
}

fn a_rename_from_another_home_is_logged_by_the_owner(place: &Place) {
    let (here, there) = (Apart::of(place), Apart::of(place));
    let session: SessionId = {
        let mine = here.open();
        mine.sessions().open_thread("before").expect("made").id
    };
    let yours = there.open();
    assert_eq!(yours.sessions().rename(&session, "after").expect("renamed").name.as_deref(), Some("after"));
    let mine = here.open();
    let told = lines(&mine, &session);
    assert!(told.len() == 1 && told[0].contains("\"previousName\":\"before\""), "{told:?}");
    mine.close().expect("closes");
    assert_eq!(lines(&here.open(), &session).len(), 1, "once");
}
