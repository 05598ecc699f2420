use duolog::errors::{Conflict, Invalid};
use duolog::sessions::{NewSession, SessionRef};
use duolog::{Durability, Error, ErrorKind, OperationId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(
    a_session_is_made_once,
    a_session_is_renamed_once,
    a_session_is_deleted_once,
    an_operation_is_for_one_request,
    what_was_shown_is_what_goes,
    what_failed_can_be_asked_again
);

fn operation(text: &str) -> OperationId {
    OperationId::parse(text).expect("an operation id")
}

fn named(name: &str) -> NewSession {
    NewSession { name: Some(name.to_owned()), ..NewSession::default() }
}

fn thread(name: &str) -> SessionRef {
    SessionRef::Text(name.to_owned())
}

fn answered(store: &Store) -> u64 {
    let rows = store.state().stats().expect("figures").state.rows;
    rows.into_iter().find(|(table, _)| table == "idempotency").expect("a table").1
}

fn a_session_is_made_once(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let make = |store: &Store| store.sessions().once(operation("make")).create(&named("plan"));
    let session = make(&store).expect("made");
    assert_eq!(make(&store).expect("the same").id, session.id);
    store.close().expect("closes");
    let store = apart.open();
    assert_eq!(make(&store).expect("the same across openings").id, session.id);
    // Without an operation id nothing is recorded, and the name is taken.
    assert!(matches!(store.sessions().create(&named("plan")), Err(Error::Conflict(Conflict::NameTaken(_)))));
    assert_eq!(answered(&store), 1);
    store.sessions().delete(&session.id).expect("deleted");
    assert_eq!(make(&store).expect_err("it was deleted, and is not created again").kind(), ErrorKind::NotFound);
}

fn a_session_is_renamed_once(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("before").expect("made");
    let rename = |store: &Store| store.sessions().once(operation("rename")).rename(thread("before"), "after");
    assert_eq!(rename(&store).expect("renamed").id, session.id);
    // No session has the old name any more, and the result is the same.
    assert_eq!(rename(&store).expect("the same").id, session.id);
    store.close().expect("closes");
    let store = apart.open();
    assert_eq!(rename(&store).expect("the same across openings").name.as_deref(), Some("after"));
    let told = lines(&store, &session.id);
    assert!(told.len() == 1 && told[0].contains("\"previousName\":\"before\""), "told once: {told:?}");
    // The old name belongs to another session now, which is not changed.
    let other = store.sessions().open_thread("before").expect("made");
    assert_eq!(rename(&store).expect("the same").id, session.id);
    assert_eq!(store.sessions().get(&other.id).expect("there").name.as_deref(), Some("before"));
    let answer = rename(&store).expect("the same");
    store.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    store.sessions().rename(&session.id, "later").expect("renamed again");
    assert_eq!(rename(&store).expect("the recorded result"), answer);
    store.sessions().delete(&session.id).expect("deleted");
    assert_eq!(rename(&store).expect("the recorded result"), answer);
}

fn a_session_is_deleted_once(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made");
    store.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    let delete = || store.sessions().once(operation("delete")).delete(thread("plan"));
    let deleted = delete().expect("deleted");
    assert_eq!((&deleted.id, deleted.name.as_deref(), deleted.bytes), (&session.id, Some("plan"), 8));
    assert!(!apart.log(&session.log_path).exists());
    let other = store.sessions().open_thread("plan").expect("another of that name");
    assert_eq!(delete().expect("the same"), deleted);
    assert!(store.sessions().get(&other.id).is_ok(), "the other session is not deleted");
}

fn what_was_shown_is_what_goes(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let append = |id| store.log(id).append(&line("{}"), Durability::Process).expect("appended");
    let shown = store.sessions().open_thread("demo").expect("made");
    append(&shown.id);
    // While the user is asked for confirmation, the name is given to another session.
    store.sessions().rename(&shown.id, "old").expect("renamed");
    let other = store.sessions().open_thread("demo").expect("made");
    append(&other.id);
    let sessions = || store.sessions().resolved_to(&shown.id);
    let before = lines(&store, &other.id);
    sessions().delete_context(thread("demo"), None).expect("deleted");
    sessions().delete_log(thread("demo"), None).expect("deleted");
    assert!(lines(&store, &shown.id).is_empty());
    assert_eq!(sessions().delete(thread("demo")).expect("deleted").id, shown.id);
    assert_eq!(lines(&store, &other.id), before);
    assert_eq!(sessions().delete(thread("demo")).expect_err("it was deleted").kind(), ErrorKind::NotFound);
    assert_eq!(store.sessions().get(&other.id).expect("there").name.as_deref(), Some("demo"));
}

fn an_operation_is_for_one_request(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let once = || store.sessions().once(operation("a"));
    let session = once().create(&named("plan")).expect("made");
    let refused = [once().create(&named("other")).err(), once().create(&NewSession::default()).err()];
    for error in refused {
        let error = error.expect("another request");
        assert_eq!((error.kind(), error.to_string().contains("operation a ")), (ErrorKind::Conflict, true), "{error}");
    }
    assert_eq!(store.sessions().get(&session.id).expect("there").name.as_deref(), Some("plan"));
    // Each command has its own operation ids.
    once().rename(&session.id, "other").expect("renamed");
    assert_eq!(once().rename(&session.id, "third").expect_err("another request").kind(), ErrorKind::Conflict);
    once().delete(&session.id).expect("deleted");
}

fn what_failed_can_be_asked_again(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    store.sessions().open_thread("taken").expect("made");
    let session = store.sessions().open_thread("plan").expect("made");
    let rename = || store.sessions().once(operation("rename")).rename(&session.id, "taken");
    assert!(matches!(rename(), Err(Error::Conflict(Conflict::NameTaken(_)))));
    assert_eq!(answered(&store), 0, "a refusal is not recorded");
    store.sessions().rename(thread("taken"), "free").expect("renamed");
    assert_eq!(rename().expect("renamed").name.as_deref(), Some("taken"));
    let shortened = SessionRef::Text(session.id.as_str()[..20].to_owned());
    assert!(matches!(
        store.sessions().delete(&shortened),
        Err(Error::Invalid(Invalid::Ambiguous { .. } | Invalid::Shortened { .. }))
    ));
}
