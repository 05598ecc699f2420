use std::process::{Command, Stdio};

use duolog::errors::{Conflict, Invalid, NotFound};
use duolog::sessions::{
    Acknowledged, AddOptions, Address, BranchRef, HistoryView, Inbox, Liveness, NewMessage, NewSession, Outgoing,
    Received, Recipient, SessionRef, StatusUpdate,
};
use duolog::{Durability, Error, ErrorKind, MessageId, SessionStatus};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    a_message_is_in_the_inbox_and_in_the_sender_s_history,
    a_given_id_never_changes_a_message,
    a_recipient_is_resolved_once,
    a_topic_and_a_session_of_one_name_are_two_inboxes,
    deleting_a_session_deletes_its_inbox,
    an_inbox_is_read_page_by_page,
    a_status_changes_by_its_rules,
    a_session_is_run_by_a_process
);

fn saying(content: &str) -> NewMessage {
    NewMessage {
        role: "user".to_owned(),
        content: content.to_owned(),
        sender: Some("me".to_owned()),
        ..NewMessage::default()
    }
}

fn a_message_is_in_the_inbox_and_in_the_sender_s_history(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let exchange = store.sessions().exchange();
    let send = |message: NewMessage, from| {
        let outgoing = Outgoing { message, to: Recipient::Topic("ada".to_owned()), from };
        exchange.send(&outgoing, Durability::Process).expect("sent")
    };
    let from = Some((session.clone(), BranchRef::Default));
    let first = send(saying("1"), from.clone());
    let id = Some(MessageId::parse("m").expect("an id"));
    let second = send(NewMessage { id: id.clone(), ..saying("2") }, from.clone());
    let again = send(NewMessage { id, ..saying("2") }, from);
    assert_eq!((first.ord, second.ord, &again), (0, 1, &second), "an id is sent once");
    send(NewMessage { channel: Some("news".to_owned()), ..saying("3") }, None);
    let history = store.sessions().items(&session).latest(9, HistoryView::Full).expect("reads");
    assert_eq!(history.items.iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let inbox = Inbox { recipient: Address::Topic("ada".to_owned()), channel: None };
    let read = |reader: &str, limit| {
        let received = exchange.inbox(&inbox, reader, None, limit).expect("reads");
        received.messages.into_iter().map(|one| (one.ord, one.content.expect("readable"))).collect::<Vec<_>>()
    };
    assert_eq!(read("r", 9), [(0, "1".to_owned()), (1, "2".to_owned())]);
    assert_eq!(read("r", 1), [(0, "1".to_owned())], "reading acknowledges nothing");
    let acknowledged = exchange.ack(&inbox, "r", 0, Durability::Process).expect("noted");
    assert_eq!(acknowledged, Acknowledged { from: 0, to: 1 });
    assert_eq!(exchange.covered(&inbox, acknowledged).expect("read").messages.len(), 1);
    let had = exchange.ack(&inbox, "r", 0, Durability::Process).expect("had");
    assert_eq!(had, Acknowledged { from: 1, to: 1 }, "nothing is acknowledged twice");
    assert_eq!((read("r", 9).len(), read("other", 9).len()), (1, 2));
    assert!(matches!(
        exchange.ack(&inbox, "r", 9, Durability::Process),
        Err(Error::Invalid(Invalid::PastEnd { len: 2, .. }))
    ));
    let news = Inbox { channel: Some("news".to_owned()), ..inbox.clone() };
    assert_eq!(exchange.inbox(&news, "r", None, 9).expect("reads").messages.len(), 1);
    let nobody = Outgoing { message: saying("1"), to: Recipient::Topic(String::new()), from: None };
    assert_eq!(exchange.send(&nobody, Durability::Process).expect_err("nobody").kind(), ErrorKind::Invalid);
    // Messages stay with the recipient when the sender removes its items or is deleted.
    store.sessions().items(&session).clear(Durability::Process).expect("cleared");
    store.sessions().delete(&session).expect("deleted");
    assert_eq!(read("other", 9).len(), 2);
}

/// A stored message keeps its content and embedding; a repetition changes nothing, and other content is a conflict.
fn a_given_id_never_changes_a_message(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let (messages, exchange) = (store.sessions().messages(), store.sessions().exchange());
    let session = store.sessions().open_thread("demo").expect("made").id;
    let m = MessageId::parse("m").expect("an id");
    let given = |content: &str| NewMessage { id: Some(m.clone()), ..saying(content) };
    let embedded = NewMessage { embedding: Some(vec![1.0, 2.0]), recipient: Some("box".to_owned()), ..given("1") };
    messages.put(&embedded, Durability::Process).expect("put");
    let before = messages.get(&m).expect("there");
    store.sessions().items(&session).append(std::slice::from_ref(&m), Durability::Process).expect("on a branch");
    let send = |message: NewMessage, to: &str| {
        let from = Some((session.clone(), BranchRef::Default));
        exchange.send(&Outgoing { message, to: Recipient::Topic(to.to_owned()), from }, Durability::Process)
    };
    let first = send(given("1"), "box").expect("the same, without its embedding");
    assert_eq!(send(given("1"), "box").expect("again"), first);
    messages.put(&embedded, Durability::Process).expect("the same");
    let others = [
        send(given("2"), "box").map(drop),
        send(given("1"), "other").map(drop),
        send(NewMessage { role: "tool".to_owned(), ..given("1") }, "box").map(drop),
        send(NewMessage { node_metadata: Some("{}".to_owned()), ..given("1") }, "box").map(drop),
        send(NewMessage { lion_class: Some("c".to_owned()), ..given("1") }, "box").map(drop),
        messages.put(&NewMessage { embedding: Some(vec![9.0]), ..embedded.clone() }, Durability::Process).map(drop),
        messages.put(&NewMessage { sender: None, ..embedded.clone() }, Durability::Process).map(drop),
    ];
    for (number, other) in others.into_iter().enumerate() {
        let refused = other.expect_err("another message");
        assert!(matches!(&refused, Error::Conflict(Conflict::MessageTaken(id)) if *id == m), "{number}: {refused}");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
    }
    assert_eq!(messages.get(&m).expect("there"), before);
    let history = store.sessions().items(&session).latest(9, HistoryView::Full).expect("reads");
    assert_eq!(history.items.iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["1"]);
    let other = Inbox { recipient: Address::Topic("other".to_owned()), channel: None };
    assert_eq!(exchange.inbox(&other, "r", None, 9).expect("reads").messages, [], "nothing was sent");
}

/// Neither sees nor acknowledges messages to the other.
fn a_topic_and_a_session_of_one_name_are_two_inboxes(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let id = duolog::SessionId::parse("X1").expect("an id");
    store.sessions().create(&NewSession { id: Some(id.clone()), ..NewSession::default() }).expect("made");
    let exchange = store.sessions().exchange();
    let [session, topic] = [Recipient::Of(SessionRef::Text("X1".to_owned())), Recipient::Topic("X1".to_owned())];
    for (to, content) in [(&session, "1"), (&topic, "2")] {
        let outgoing = Outgoing { message: saying(content), to: to.clone(), from: None };
        assert_eq!(exchange.send(&outgoing, Durability::Process).expect("sent").ord, 0);
    }
    let of = |to: &Recipient| exchange.inbox_of(to, None).expect("an inbox");
    let read = |to: &Recipient| {
        let mail = exchange.inbox(&of(to), "X1", None, 9).expect("reads");
        mail.messages.into_iter().map(|one| one.content.expect("readable")).collect::<Vec<_>>()
    };
    assert_eq!((read(&session), read(&topic)), (vec!["1".to_owned()], vec!["2".to_owned()]));
    exchange.ack(&of(&topic), "X1", 0, Durability::Process).expect("noted");
    assert_eq!((read(&session).len(), read(&topic).len()), (1, 0));
    store.sessions().delete(&id).expect("deleted");
    let other = exchange.inbox(&of(&topic), "other", None, 9).expect("reads");
    assert_eq!(other.messages.len(), 1, "a topic belongs to no session");
}

/// A new session with the same id has an empty inbox, and messages without references are deleted.
fn deleting_a_session_deletes_its_inbox(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let (sessions, id) = (store.sessions(), duolog::SessionId::parse("X2").expect("an id"));
    let make = || sessions.create(&NewSession { id: Some(id.clone()), ..NewSession::default() }).expect("made");
    make();
    let sender = sessions.create(&NewSession::default()).expect("made").id;
    let branch = sessions.branches(&id).fork(duolog::sessions::NewFork::default(), Durability::Process);
    let branch = branch.expect("forked").id;
    let exchange = sessions.exchange();
    let text = |text: &str| Recipient::Of(SessionRef::Text(text.to_owned()));
    let send = |to: Recipient, id: &str| {
        let message = NewMessage { id: Some(MessageId::parse(id).expect("an id")), ..saying("1") };
        let from = Some((sender.clone(), BranchRef::Default));
        exchange.send(&Outgoing { message, to, from }, Durability::Process).expect("sent").id
    };
    let mail = [send(text("X2"), "to-session"), send(text(branch.as_str()), "to-branch")];
    let kept = send(Recipient::Topic("box".to_owned()), "to-topic");
    let inbox = exchange.inbox_of(&text("X2"), None).expect("an inbox");
    exchange.ack(&inbox, "r", 0, Durability::Process).expect("noted");
    sessions.delete(&id).expect("deleted");
    make();
    for reader in ["r", "other"] {
        assert_eq!(exchange.inbox(&inbox, reader, None, 9).expect("reads").messages, [], "{reader}");
    }
    send(text("X2"), "to-the-next");
    assert_eq!(exchange.inbox(&inbox, "r", None, 9).expect("reads").messages.len(), 1, "no reader's cursor is left");
    let messages = sessions.messages();
    for id in &mail {
        messages.get(id).expect("the sender's history still has it");
    }
    sessions.delete(&sender).expect("deleted");
    for id in &mail {
        assert_eq!(messages.get(id).expect_err("nothing refers to it").kind(), ErrorKind::NotFound);
    }
    messages.get(&kept).expect("the topic has it");
}

/// A page has the start of the next one, if there is one.
fn an_inbox_is_read_page_by_page(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let exchange = store.sessions().exchange();
    for number in 0..5 {
        let (message, to) = (saying(&number.to_string()), Recipient::Topic("box".to_owned()));
        exchange.send(&Outgoing { message, to, from: None }, Durability::Process).expect("sent");
    }
    let inbox = Inbox { recipient: Address::Topic("box".to_owned()), channel: None };
    let (mut seen, mut after) = (Vec::new(), None);
    for next in [Some(1), Some(3), None] {
        let mail = exchange.inbox(&inbox, "r", after, 2).expect("reads");
        seen.extend(mail.messages.into_iter().map(|one| one.ord));
        assert_eq!(mail.next, next);
        after = mail.next;
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    assert_eq!(exchange.inbox(&inbox, "r", Some(0), 4).expect("reads").next, None, "exactly a page");
    assert_eq!(exchange.inbox(&inbox, "r", Some(u64::MAX), 4).expect("reads").messages, []);
}

/// An inbox is found by any reference to its recipient, before and after a rename.
fn a_recipient_is_resolved_once(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let sessions = store.sessions();
    let exchange = sessions.exchange();
    let demo = sessions.open_thread("demo").expect("made").id;
    let plan = NewSession { user_id: Some("ada".to_owned()), name: Some("plan".to_owned()), ..NewSession::default() };
    let plan = sessions.create(&plan).expect("made").id;
    let branch =
        sessions.branches(&demo).fork(duolog::sessions::NewFork::default(), Durability::Process).expect("forked");
    let text = |text: &str| Recipient::Of(SessionRef::Text(text.to_owned()));
    let of_user = Recipient::Of(SessionRef::UserAndName { user: "ada".to_owned(), name: "plan".to_owned() });
    let send = |to: &Recipient, content: &str| {
        let outgoing = Outgoing { message: saying(content), to: to.clone(), from: None };
        exchange.send(&outgoing, Durability::Process)
    };
    let read = |recipient: &Recipient| {
        let inbox = exchange.inbox_of(recipient, None).expect("an inbox");
        let received = exchange.inbox(&inbox, "r", None, 9).expect("reads");
        received.messages.into_iter().map(|Received { content, .. }| content.expect("readable")).collect::<Vec<_>>()
    };
    for (to, content) in [(text("demo"), "1"), (text(demo.as_str()), "2"), (of_user.clone(), "3")] {
        send(&to, content).expect("sent");
    }
    send(&text(branch.id.as_str()), "4").expect("sent");
    send(&Recipient::Topic("demo".to_owned()), "5").expect("a topic is not a session");
    assert_eq!(read(&text("demo")), ["1", "2"]);
    assert_eq!(read(&text(&demo.as_str()[..30])), ["1", "2"], "a prefix of an id is enough to read");
    assert_eq!((read(&of_user), read(&text(plan.as_str()))), (vec!["3".to_owned()], vec!["3".to_owned()]));
    assert_eq!(read(&text(branch.id.as_str())), ["4"]);
    assert_eq!(read(&Recipient::Topic("demo".to_owned())), ["5"]);
    sessions.rename(&demo, "renamed").expect("renamed");
    assert_eq!(read(&text("renamed")), ["1", "2"], "the inbox stays with its session");
    let other = sessions.open_thread("demo").expect("made").id;
    assert_eq!(read(&text("demo")), Vec::<String>::new(), "another session has its own");
    send(&text("demo"), "6").expect("sent");
    assert_eq!(
        (read(&text(other.as_str())), read(&text("renamed"))),
        (vec!["6".to_owned()], vec!["1".to_owned(), "2".to_owned()])
    );
    let refused = send(&text("nobody"), "7").expect_err("nobody");
    assert!(
        matches!(refused, Error::NotFound(NotFound::Recipient(_))) && refused.kind() == ErrorKind::NotFound,
        "{refused}"
    );
    assert!(refused.hint().is_some_and(|hint| hint.contains("Recipient::Topic")));
    send(&text(&demo.as_str()[..30]), "7").expect("a unique prefix is enough");
    let ambiguous = send(&text(&demo.as_str()[..2]), "7").expect_err("which one");
    assert!(matches!(ambiguous, Error::Invalid(Invalid::Ambiguous { .. })), "{ambiguous}");
}

fn a_status_changes_by_its_rules(place: &Place) {
    use SessionStatus::{Failed, Running};

    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    store.sessions().items(&session).add(&["1"], &AddOptions::default()).expect("added");
    let status = store.sessions().status(&session);
    let none = StatusUpdate::default();
    let why = StatusUpdate {
        reason_code: Some("run.failed.exception".to_owned()),
        reason: Some("it broke".to_owned()),
        actor: Some("ada".to_owned()),
        evidence: Some("{\"line\":7}".to_owned()),
        ..StatusUpdate::default()
    };
    let set = |to, change: &StatusUpdate| status.set(to, change, Durability::Process);
    assert!(set(SessionStatus::Running, &none).expect("set").changed);
    assert!(!set(SessionStatus::Running, &none).expect("so already").changed);
    assert!(matches!(status.reopen(&why, Durability::Process), Err(Error::Conflict(Conflict::NotEnded(_)))));
    assert!(set(SessionStatus::Failed, &why).expect("set").changed);
    let refused = set(SessionStatus::Completed, &none).expect_err("ended");
    assert!(
        refused.kind() == ErrorKind::Conflict && refused.hint().is_some_and(|hint| hint.contains("reopen")),
        "{refused}"
    );
    assert!(store.sessions().get(&session).expect("there").ended_at.is_some());
    assert_eq!(status.reopen(&none, Durability::Process).expect_err("nobody").kind(), ErrorKind::Invalid);
    let reopened = status.reopen(&why, Durability::Process).expect("reopened");
    assert_eq!((reopened.previous, reopened.status), (Some(SessionStatus::Failed), SessionStatus::Running));
    assert!(store.sessions().get(&session).expect("there").ended_at.is_none());
    let history = status.transitions(9).expect("reads");
    let told: Vec<_> = history.iter().map(|one| (one.previous_status, one.status)).collect();
    assert_eq!(told, [(Some(Failed), Running), (Some(Running), Failed), (None, Running)]);
    assert_eq!(history[1].evidence, why.evidence);
    let told = lines(&store, &session);
    assert!(told.len() == 3 && told[1].contains("\"duolog.status\"") && told[1].contains("it broke"), "{told:?}");
    let large = StatusUpdate { reason: Some("x".repeat(17 << 10)), ..none.clone() };
    assert_eq!(set(SessionStatus::Failed, &large).expect_err("too long").kind(), ErrorKind::Invalid);
    let not_json = StatusUpdate { evidence: Some("NaN".to_owned()), ..none };
    assert_eq!(set(SessionStatus::Failed, &not_json).expect_err("no JSON").kind(), ErrorKind::Invalid);
}

fn a_session_is_run_by_a_process(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let status = store.sessions().status(&session);
    assert_eq!(status.liveness().expect("told"), None);
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    status.run(child.id(), &StatusUpdate::default(), Durability::Process).expect("runs");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Alive));
    drop(child.stdin.take());
    child.wait().expect("ends");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Dead));
    status.run(std::process::id(), &StatusUpdate::default(), Durability::Process).expect("another does");
    assert_eq!(status.liveness().expect("told"), Some(Liveness::Alive));
    status.set(SessionStatus::Completed, &StatusUpdate::default(), Durability::Process).expect("ended");
    assert_eq!(status.liveness().expect("told"), None);
    let refused = status.run(std::process::id(), &StatusUpdate::default(), Durability::Process);
    assert!(matches!(refused, Err(Error::Conflict(Conflict::Ended { .. }))));
}
