use std::process::{Command, Stdio};

use duolog::sessions::{AddOptions, BranchRef, Change, Inbox, Liveness, NewMessage, NewSession, Outgoing, View};
use duolog::{Durability, Error, Kind, MessageId, SessionStatus};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    a_message_is_in_the_inbox_and_in_the_sender_s_history,
    a_status_changes_by_its_rules,
    a_session_is_run_by_a_process
);

fn to(recipient: &str, content: &str) -> NewMessage {
    NewMessage {
        role: "user".to_owned(),
        content: content.to_owned(),
        recipient: Some(recipient.to_owned()),
        sender: Some("me".to_owned()),
        ..NewMessage::default()
    }
}

fn a_message_is_in_the_inbox_and_in_the_sender_s_history(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let exchange = store.sessions().exchange();
    let send =
        |message: NewMessage, from| exchange.send(&Outgoing { message, from }, Durability::Process).expect("sent");
    let from = Some((session.clone(), BranchRef::Default));
    let first = send(to("ada", "1"), from.clone());
    let id = Some(MessageId::parse("m").expect("an id"));
    let second = send(NewMessage { id: id.clone(), ..to("ada", "2") }, from.clone());
    let again = send(NewMessage { id, ..to("ada", "2") }, from);
    assert_eq!((first.ord, second.ord, &again), (0, 1, &second), "an id is sent once");
    send(NewMessage { channel: Some("news".to_owned()), ..to("ada", "3") }, None);
    let history = store.sessions().items(&session).latest(9, View::Full).expect("reads");
    assert_eq!(history.items.iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let inbox = Inbox { recipient: "ada".to_owned(), channel: None };
    let read = |reader: &str, limit| {
        let received = exchange.inbox(&inbox, reader, limit).expect("reads");
        received.into_iter().map(|one| (one.ord, one.content.expect("readable"))).collect::<Vec<_>>()
    };
    assert_eq!(read("r", 9), [(0, "1".to_owned()), (1, "2".to_owned())]);
    assert_eq!(read("r", 1), [(0, "1".to_owned())], "nothing is taken note of by reading");
    assert!(exchange.ack(&inbox, "r", 0, Durability::Process).expect("noted"));
    assert!(!exchange.ack(&inbox, "r", 0, Durability::Process).expect("had"));
    assert_eq!((read("r", 9).len(), read("other", 9).len()), (1, 2));
    assert!(matches!(exchange.ack(&inbox, "r", 9, Durability::Process), Err(Error::PastEnd { len: 2, .. })));
    let news = Inbox { channel: Some("news".to_owned()), ..inbox.clone() };
    assert_eq!(exchange.inbox(&news, "r", 9).expect("reads").len(), 1);
    let nobody = Outgoing { message: NewMessage { recipient: None, ..to("x", "1") }, from: None };
    assert_eq!(exchange.send(&nobody, Durability::Process).expect_err("nobody").kind(), Kind::Invalid);
    // What the sender takes away, or takes with it, stays with whom it was sent to.
    store.sessions().items(&session).clear(Durability::Process).expect("cleared");
    store.sessions().delete(&session).expect("deleted");
    assert_eq!(read("other", 9).len(), 2);
}

fn a_status_changes_by_its_rules(place: &Place) {
    use SessionStatus::{Failed, Running};

    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    store.sessions().items(&session).add(&["1"], &AddOptions::default()).expect("added");
    let status = store.sessions().status(&session);
    let none = Change::default();
    let why = Change {
        reason_code: Some("run.failed.exception".to_owned()),
        reason: Some("it broke".to_owned()),
        actor: Some("ada".to_owned()),
        evidence: Some("{\"line\":7}".to_owned()),
    };
    let set = |to, change: &Change| status.set(to, change, Durability::Process);
    assert!(set(SessionStatus::Running, &none).expect("set").changed);
    assert!(!set(SessionStatus::Running, &none).expect("so already").changed);
    assert!(matches!(status.reopen(&why, Durability::Process), Err(Error::NotEnded(_))));
    assert!(set(SessionStatus::Failed, &why).expect("set").changed);
    let refused = set(SessionStatus::Completed, &none).expect_err("ended");
    assert!(
        refused.kind() == Kind::Conflict && refused.hint().is_some_and(|hint| hint.contains("reopen")),
        "{refused}"
    );
    assert!(store.sessions().get(&session).expect("there").ended_at.is_some());
    assert_eq!(status.reopen(&none, Durability::Process).expect_err("nobody").kind(), Kind::Invalid);
    let reopened = status.reopen(&why, Durability::Process).expect("reopened");
    assert_eq!((reopened.previous, reopened.status), (Some(SessionStatus::Failed), SessionStatus::Running));
    assert!(store.sessions().get(&session).expect("there").ended_at.is_none());
    let history = status.transitions(9).expect("reads");
    let told: Vec<_> = history.iter().map(|one| (one.previous_status, one.status)).collect();
    assert_eq!(told, [(Some(Failed), Running), (Some(Running), Failed), (None, Running)]);
    assert_eq!(history[1].evidence, why.evidence);
    let told = lines(&store, &session);
    assert!(told.len() == 3 && told[1].contains("\"duolog.status\"") && told[1].contains("it broke"), "{told:?}");
    let large = Change { reason: Some("x".repeat(17 << 10)), ..none.clone() };
    assert_eq!(set(SessionStatus::Failed, &large).expect_err("too long").kind(), Kind::Invalid);
    let not_json = Change { evidence: Some("NaN".to_owned()), ..none };
    assert_eq!(set(SessionStatus::Failed, &not_json).expect_err("no JSON").kind(), Kind::Invalid);
}

fn a_session_is_run_by_a_process(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let status = store.sessions().status(&session);
    assert_eq!(status.liveness().expect("told"), None);
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    status.run(child.id(), &Change::default(), Durability::Process).expect("runs");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Alive));
    drop(child.stdin.take());
    child.wait().expect("ends");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Dead));
    status.run(std::process::id(), &Change::default(), Durability::Process).expect("another does");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Alive));
    status.set(SessionStatus::Completed, &Change::default(), Durability::Process).expect("ended");
    assert_eq!(status.liveness().expect("told"), None);
    let refused = status.run(std::process::id(), &Change::default(), Durability::Process);
    assert!(matches!(refused, Err(Error::Ended { .. })));
}
