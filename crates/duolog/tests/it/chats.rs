use std::sync::{Arc, Barrier};
use std::time::Duration;

use duolog::chats::{ChatFilter, ChatKey, NewChatMessage};
use duolog::errors::Invalid;
use duolog::sessions::NewSession;
use duolog::{ChatId, ChatRole, Durability, Error, ErrorKind, SessionId, Store};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line};

on_both_engines!(
    a_conversation_has_one_active_chat,
    a_reset_begins_another_chat,
    concurrent_openers_get_the_same_chat,
    a_repeated_delivery_is_one_message,
    a_message_id_is_stored_once_in_all_chats_of_a_conversation,
    a_message_that_is_delivered_to_many_at_once_is_stored_once,
    a_message_and_the_session_that_answers_are_one_change,
    a_history_is_in_the_order_of_its_messages,
    a_chat_names_the_session_that_answers_and_its_log,
    chats_are_listed_without_messages,
    what_does_not_fit_is_refused
);

const NOW: i64 = 1_794_000_000_000_000;
const MINUTE: i64 = 60_000_000;

fn key(thread: Option<&str>) -> ChatKey {
    ChatKey {
        platform: "slack".to_owned(),
        channel: "C1".to_owned(),
        thread: thread.map(str::to_owned),
        user: "U1".to_owned(),
    }
}

fn said(text: &str) -> NewChatMessage {
    NewChatMessage { role: ChatRole::User, content: text.to_owned(), platform_message_id: None, agent_session_id: None }
}

fn delivered(text: &str, id: &str) -> NewChatMessage {
    NewChatMessage { platform_message_id: Some(id.to_owned()), ..said(text) }
}

fn open(apart: &Apart) -> (Store, FixedClock) {
    let clock = FixedClock::at(NOW);
    let mut options = apart.options();
    options.clock = Arc::new(clock.clone());
    (Store::open(options).expect("opens"), clock)
}

fn a_conversation_has_one_active_chat(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart);
    let chats = store.chats();
    for thread in [None, Some("t")] {
        let key = key(thread);
        assert_eq!(chats.find_active(&key).expect("asked"), None);
        let first = chats.open(&key, Durability::Process).expect("begun");
        assert!(first.created && first.chat.active && first.chat.key == key);
        clock.advance(30 * MINUTE);
        let again = chats.open(&key, Durability::Process).expect("there");
        assert!(!again.created && again.chat.id == first.chat.id, "half an hour is not too long");
        chats.touch(&first.chat.id, Durability::Process).expect("noted");
        clock.advance(30 * MINUTE);
        assert_eq!(chats.find_active(&key).expect("asked").map(|chat| chat.id), Some(first.chat.id.clone()));
        clock.advance(1);
        assert_eq!(chats.find_active(&key).expect("asked"), None, "it was silent for too long");
        let next = chats.open(&key, Durability::Process).expect("begun");
        assert!(next.created && next.ended.as_ref() == Some(&first.chat.id) && next.chat.id != first.chat.id);
        assert!(!chats.get(&first.chat.id).expect("there").active);
        // A clock that goes back does not end a chat.
        clock.advance(-90 * MINUTE);
        assert!(!chats.open(&key, Durability::Process).expect("there").created);
        clock.advance(90 * MINUTE);
    }
    drop(store);
    let mut options = apart.options();
    options.clock = Arc::new(clock.clone());
    options.chat_idle = Duration::from_secs(1);
    let hasty = Store::open(options).expect("opens");
    clock.advance(2_000_000);
    assert!(hasty.chats().open(&key(None), Durability::Process).expect("begun").created);
}

fn a_reset_begins_another_chat(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart);
    let chats = store.chats();
    assert_eq!(chats.reset(&key(None), Durability::Process).expect("asked"), None);
    let first = chats.add(&key(None), &said("hello"), Durability::Process).expect("kept");
    assert!(first.added && first.created);
    let ended = chats.reset(&key(None), Durability::Process).expect("ended").expect("there was one");
    assert!(ended.id == first.chat && !ended.active);
    assert_eq!(chats.reset(&key(None), Durability::Process).expect("asked"), None, "once");
    let next = chats.add(&key(None), &said("anew"), Durability::Process).expect("kept");
    assert!(next.created && next.chat != first.chat);
    // A late answer belongs to its question.
    let late = NewChatMessage { role: ChatRole::Assistant, ..said("late") };
    assert!(chats.add_to(&first.chat, &late, Durability::Process).expect("kept").added);
    assert!(!chats.get(&first.chat).expect("there").active);
    assert_eq!(chats.history(&first.chat, None, 9).expect("reads").messages.len(), 2);
    let nobody = chats.add_to(&ChatId::new(), &late, Durability::Process).expect_err("no such chat");
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
}

/// Eight stores, each in its own home, open the same chats at once, and end chats that were silent for too long.
fn concurrent_openers_get_the_same_chat(place: &Place) {
    let homes: Vec<Apart> = (0..8).map(|_| Apart::of(place)).collect();
    let opened: Vec<(Store, FixedClock)> = homes.iter().map(open).collect();
    let start = Barrier::new(opened.len());
    let mut ids: Vec<Vec<ChatId>> = std::thread::scope(|scope| {
        let those: Vec<_> = opened
            .iter()
            .map(|(store, clock)| {
                let start = &start;
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    for thread in [None, Some("a"), Some("b"), None] {
                        start.wait();
                        ids.push(store.chats().add(&key(thread), &said("me"), Durability::Process).expect("kept").chat);
                        start.wait();
                        clock.advance(31 * MINUTE);
                    }
                    ids
                })
            })
            .collect();
        those.into_iter().map(|one| one.join().expect("kept")).collect()
    });
    let first = ids.pop().expect("one");
    assert!(ids.iter().all(|other| *other == first), "{ids:?}");
    assert_ne!(first[0], first[3]);
    let store = &opened[0].0;
    for chat in &first {
        assert_eq!(store.chats().get(chat).expect("there").message_count, 8);
        assert_eq!(store.chats().history(chat, None, 200).expect("reads").messages.len(), 8);
    }
    let all = store.chats().list(&ChatFilter::default(), None, 200).expect("lists").chats;
    assert_eq!((all.len(), all.iter().filter(|chat| chat.active).count()), (4, 3));
}

fn a_repeated_delivery_is_one_message(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart);
    let chats = store.chats();
    let first = chats.add(&key(None), &delivered("hello", "m1"), Durability::Process).expect("kept");
    let again = chats.add(&key(None), &delivered("hello", "m1"), Durability::Process).expect("known");
    assert_eq!((again.added, again.id, &again.chat), (false, first.id, &first.chat));
    assert!(!chats.add_to(&first.chat, &delivered("other words", "m1"), Durability::Process).expect("known").added);
    clock.advance(31 * MINUTE);
    let late = chats.add(&key(None), &delivered("hello", "m1"), Durability::Process).expect("known");
    assert!(!late.added && !late.created && late.chat == first.chat, "a late repetition begins no chat");
    assert_eq!(chats.get(&first.chat).expect("there").message_count, 1);
    assert!(chats.add(&key(Some("t")), &delivered("hello", "m1"), Durability::Process).expect("kept").added);
    assert_eq!(chats.history(&first.chat, None, 9).expect("reads").messages.len(), 1);
}

/// A platform delivers a message again after the chat was reset or became idle: it is recognised, and no chat is
/// created.
fn a_message_id_is_stored_once_in_all_chats_of_a_conversation(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart);
    let chats = store.chats();
    let add = |thread, id| chats.add(&key(thread), &delivered("hello", id), Durability::Process).expect("answered");
    let count = || chats.list(&ChatFilter::default(), None, 9).expect("lists").chats.len();
    for thread in [None, Some("t")] {
        let (before, first) = (count(), add(thread, "m1"));
        assert!(first.added && first.created);
        chats.reset(&key(thread), Durability::Process).expect("reset");
        let again = add(thread, "m1");
        assert_eq!((again.added, again.created, again.id, &again.chat), (false, false, first.id, &first.chat));
        assert_eq!(count(), before + 1, "no chat begins after a reset");
        let second = add(thread, "m2");
        assert!(second.added && second.created && second.chat != first.chat);
        clock.advance(31 * MINUTE);
        let third = add(thread, "m3");
        assert!(third.added && third.created, "an idle chat ends");
        for (known, id) in [(&first, "m1"), (&second, "m2"), (&third, "m3")] {
            let again = add(thread, id);
            assert_eq!((again.added, again.id, &again.chat), (false, known.id, &known.chat), "{id}");
            let again = chats.add_to(&third.chat, &delivered("hello", id), Durability::Process).expect("answered");
            assert_eq!((again.added, again.id, &again.chat), (false, known.id, &known.chat), "{id} by its chat");
        }
        for chat in [&first.chat, &second.chat, &third.chat] {
            assert_eq!(chats.get(chat).expect("there").message_count, 1);
        }
    }
    let long = ChatKey { channel: "c".repeat(1024), user: "u".repeat(1024), ..key(None) };
    let refused = chats.add(&long, &delivered("hello", "m1"), Durability::Process).expect_err("does not fit its index");
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("2048"), "{refused}");
    assert!(chats.add(&long, &said("hello"), Durability::Process).expect("stored").added);
}

/// Eight stores deliver the same messages at once, to the conversation and to one of its ended chats, while it is reset.
fn a_message_that_is_delivered_to_many_at_once_is_stored_once(place: &Place) {
    let homes: Vec<Apart> = (0..8).map(|_| Apart::of(place)).collect();
    let opened: Vec<(Store, FixedClock)> = homes.iter().map(open).collect();
    let ended = opened[0].0.chats().open(&key(None), Durability::Process).expect("begun").chat.id;
    opened[0].0.chats().reset(&key(None), Durability::Process).expect("reset");
    let start = Barrier::new(opened.len());
    let rounds = 12;
    let stored: Vec<Vec<(i64, bool)>> = std::thread::scope(|scope| {
        let those: Vec<_> = opened
            .iter()
            .enumerate()
            .map(|(number, (store, _))| {
                let (start, ended) = (&start, &ended);
                scope.spawn(move || {
                    let chats = store.chats();
                    let deliver = |round: usize| {
                        let message = delivered("me", &format!("m{round}"));
                        match number {
                            0 => chats.add_to(ended, &message, Durability::Process),
                            _ => chats.add(&key(None), &message, Durability::Process),
                        }
                    };
                    let mut told = Vec::new();
                    for round in 0..rounds {
                        start.wait();
                        if number == 1 {
                            chats.reset(&key(None), Durability::Process).expect("reset");
                        }
                        let done = deliver(round).expect("stored or known");
                        told.push((done.id, done.added));
                    }
                    told
                })
            })
            .collect();
        those.into_iter().map(|one| one.join().expect("delivered")).collect()
    });
    for round in 0..rounds {
        let told: Vec<_> = stored.iter().map(|one| one[round]).collect();
        assert_eq!(told.iter().filter(|(_, added)| *added).count(), 1, "{told:?}");
        assert!(told.iter().all(|(id, _)| *id == told[0].0), "{told:?}");
    }
    let all = opened[0].0.chats().list(&ChatFilter::default(), None, 200).expect("lists").chats;
    assert_eq!(all.iter().map(|chat| chat.message_count).sum::<u64>(), rounds as u64);
}

fn a_message_and_the_session_that_answers_are_one_change(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart);
    let chats = store.chats();
    let session = |id: &str| Some(SessionId::parse(id).expect("an id"));
    let answer = |id: &str, agent| NewChatMessage { agent_session_id: session(agent), ..delivered("two tests", id) };
    let first = chats.add(&key(None), &answer("m1", "one"), Durability::Process).expect("stored");
    let agent = || chats.get(&first.chat).expect("there").agent_session_id;
    assert_eq!(agent(), session("one"));
    chats.add_to(&first.chat, &answer("m2", "two"), Durability::Process).expect("stored");
    assert_eq!(agent(), session("two"));
    chats.add(&key(None), &answer("m1", "one"), Durability::Process).expect("known");
    assert_eq!(agent(), session("two"), "a repeated delivery changes nothing");
    chats.add(&key(None), &said("me"), Durability::Process).expect("stored");
    assert_eq!(agent(), session("two"));
}

fn a_history_is_in_the_order_of_its_messages(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart);
    let chats = store.chats();
    let chat = chats.open(&key(None), Durability::Process).expect("begun").chat.id;
    for number in 0..7 {
        // The clock goes back with every message.
        clock.advance(-MINUTE);
        chats.add_to(&chat, &said(&number.to_string()), Durability::Process).expect("kept");
    }
    let contents = |before, limit| {
        let history = chats.history(&chat, before, limit).expect("reads");
        (history.messages.iter().map(|message| message.content.as_str()).collect::<String>(), history.before)
    };
    assert_eq!(contents(None, 9), ("0123456".to_owned(), None));
    let (last, before) = contents(None, 3);
    assert_eq!(last, "456");
    let (middle, before) = contents(before, 3);
    assert_eq!(middle, "123");
    assert_eq!(contents(before, 3), ("0".to_owned(), None));
    assert_eq!(chats.get(&chat).expect("there").last_activity_at.as_micros(), NOW, "activity never goes back");
}

fn a_chat_names_the_session_that_answers_and_its_log(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart);
    let chats = store.chats();
    let chat = chats.open(&key(None), Durability::Process).expect("begun").chat;
    assert_eq!(chats.answering(&chat).expect("asked"), None);
    let session = store.sessions().create(&NewSession::default()).expect("made");
    store.log(&session.id).append(&line("{\"type\":\"user\"}"), Durability::Process).expect("appended");
    chats.set_agent_session(&chat.id, Some(&session.id), Durability::Process).expect("said");
    let chat = chats.resolve(&chat.id.as_str()[..30]).expect("by a prefix");
    let answering = chats.answering(&chat).expect("asked").expect("a session");
    assert_eq!((&answering.session.id, answering.figures.events), (&session.id, Some(1)));
    store.sessions().delete(&session.id).expect("deleted");
    assert_eq!(chats.answering(&chat).expect("asked"), None, "it is not in this store any more");
    chats.set_agent_session(&chat.id, None, Durability::Process).expect("said");
    assert_eq!(chats.get(&chat.id).expect("there").agent_session_id, None);
    assert_eq!(chats.touch(&ChatId::new(), Durability::Process).expect_err("none").kind(), ErrorKind::NotFound);
    assert_eq!(chats.resolve("none").expect_err("none").kind(), ErrorKind::NotFound);
    chats.open(&key(Some("t")), Durability::Process).expect("begun");
    assert!(matches!(chats.resolve(&chat.id.as_str()[..2]), Err(Error::Invalid(Invalid::Ambiguous { .. }))));
}

fn chats_are_listed_without_messages(place: &Place) {
    let apart = Apart::of(place);
    let (store, clock) = open(&apart);
    let chats = store.chats();
    for number in 0..5 {
        clock.advance(MINUTE);
        let platform = if number == 2 { "matrix" } else { "slack" }.to_owned();
        let key = ChatKey { platform, channel: format!("C{number}"), ..key(None) };
        chats.add(&key, &said("x"), Durability::Process).expect("kept");
    }
    chats.reset(&ChatKey { channel: "C1".to_owned(), ..key(None) }, Durability::Process).expect("ended");
    let channels = |filter: &ChatFilter, limit| {
        let (mut told, mut after) = (String::new(), None);
        loop {
            let page = chats.list(filter, after.as_ref(), limit).expect("lists");
            told.extend(page.chats.iter().map(|chat| chat.key.channel.replace('C', "")));
            after = page.next.map(|token| token.to_string().parse().expect("it reads back"));
            if after.is_none() {
                return told;
            }
        }
    };
    let filter =
        |platform: Option<&str>, active| ChatFilter { platform: platform.map(str::to_owned), active, order: None };
    assert_eq!(channels(&filter(None, false), 2), "43210");
    assert_eq!(channels(&filter(None, true), 2), "4320");
    assert_eq!(channels(&filter(Some("slack"), false), 2), "4310");
    assert_eq!(channels(&filter(Some("slack"), true), 2), "430");
}

fn what_does_not_fit_is_refused(place: &Place) {
    let apart = Apart::of(place);
    let (store, _) = open(&apart);
    let chats = store.chats();
    let add = |key: &ChatKey, message: &NewChatMessage| chats.add(key, message, Durability::Process);
    let large = add(&key(None), &said(&"x".repeat((1 << 20) + 1))).expect_err("too long");
    assert!(large.kind() == ErrorKind::Invalid && large.to_string().contains("log append"), "{large}");
    let empty = |key: ChatKey| add(&key, &said("x")).expect_err("empty").kind();
    assert_eq!(empty(ChatKey { platform: String::new(), ..key(None) }), ErrorKind::Invalid);
    assert_eq!(empty(key(Some(""))), ErrorKind::Invalid, "an empty thread is not the same as no thread");
    assert_eq!(empty(ChatKey { user: "u".repeat(1025), ..key(None) }), ErrorKind::Invalid);
    assert_eq!(add(&key(None), &delivered("x", "")).expect_err("empty").kind(), ErrorKind::Invalid);
    assert_eq!(add(&key(None), &said("a\0b")).expect_err("a NUL byte").kind(), ErrorKind::Invalid);
    assert!(chats.list(&ChatFilter::default(), None, 9).expect("lists").chats.is_empty(), "nothing was stored");
    assert!(add(&key(None), &said(&"é".repeat(1 << 19))).expect("just fits").added);
}
