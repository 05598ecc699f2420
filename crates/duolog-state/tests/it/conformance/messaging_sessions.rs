use duolog_state::PageOrder;
use duolog_state::owned::messaging_sessions::{self, ChatFilter, ChatPlace, ChatRow};
use duolog_state::{ConstraintKind, Error};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::NAME_BYTES_MAX;
use duolog_types::{ChatId, Durability};

use super::is_constraint;
use crate::{at, id};

on_both_engines!(
    a_place_has_one_active_chat_with_or_without_a_thread,
    activity_in_a_chat_is_recorded,
    chats_are_listed_by_activity_or_creation
);

pub(super) fn chat(name: &str, thread: &str, active_at: i64) -> ChatRow {
    ChatRow {
        id: ChatId::parse(name).expect("a chat id"),
        place: ChatPlace {
            platform: "slack".to_owned(),
            channel_id: "C1".to_owned(),
            thread_id: thread.to_owned(),
            user_id: "U1".to_owned(),
        },
        agent_session_id: None,
        created_at: at(1),
        last_activity_at: at(active_at),
        message_count: 0,
        active: true,
    }
}

fn a_place_has_one_active_chat_with_or_without_a_thread(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        for thread in ["", "t"] {
            let first = chat(&format!("first{thread}"), thread, 1);
            assert_eq!(messaging_sessions::find_active(tx, &first.place)?, None);
            messaging_sessions::insert(tx, &first)?;
            assert_eq!(messaging_sessions::find(tx, &first.id)?.as_ref(), Some(&first));
            assert_eq!(messaging_sessions::find_active(tx, &first.place)?.as_ref(), Some(&first));
            let second = chat(&format!("second{thread}"), thread, 1);
            let refused = tx.savepoint(|tx| messaging_sessions::insert(tx, &second));
            assert!(is_constraint(&refused, ConstraintKind::Unique), "{thread:?}: {refused:?}");
            assert!(messaging_sessions::deactivate(tx, &first.id)?);
            assert!(!messaging_sessions::deactivate(tx, &first.id)?, "it is not active any more");
            messaging_sessions::insert(tx, &second)?;
            assert!(messaging_sessions::deactivate(tx, &second.id)?, "several inactive chats are allowed");
            assert_eq!(messaging_sessions::find_active(tx, &second.place)?, None);
        }
        let long = chat("long", &"t".repeat(NAME_BYTES_MAX + 1), 1);
        let refused = tx.savepoint(|tx| messaging_sessions::insert(tx, &long));
        assert!(is_constraint(&refused, ConstraintKind::Check), "{refused:?}");
        let found = messaging_sessions::starting_with(tx, "first", 9)?;
        assert_eq!(found, ["first", "firstt"].map(|name| ChatId::parse(name).expect("an id")));
        assert_eq!(messaging_sessions::starting_with(tx, "none", 9)?, []);
        Ok::<_, Error>(())
    });
    done.expect("writes");
}

fn activity_in_a_chat_is_recorded(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let row = chat("c", "", 5);
        messaging_sessions::insert(tx, &row)?;
        assert!(messaging_sessions::touch(tx, &row.id, at(7))?);
        assert!(messaging_sessions::count_message(tx, &row.id, at(6))?);
        assert!(messaging_sessions::count_message(tx, &row.id, at(9))?);
        assert!(messaging_sessions::touch(tx, &row.id, at(8))?);
        assert!(messaging_sessions::set_agent_session(tx, &row.id, Some(&id("s")))?);
        let expected =
            ChatRow { message_count: 2, last_activity_at: at(9), agent_session_id: Some(id("s")), ..row.clone() };
        assert_eq!(messaging_sessions::find(tx, &row.id)?, Some(expected), "the timestamp never moves back");
        assert!(messaging_sessions::set_agent_session(tx, &row.id, None)?);
        let nobody = ChatId::parse("none").expect("an id");
        assert!(!messaging_sessions::touch(tx, &nobody, at(1))?);
        assert!(!messaging_sessions::count_message(tx, &nobody, at(1))?);
        assert!(!messaging_sessions::set_agent_session(tx, &nobody, None)?);
        assert_eq!(messaging_sessions::find(tx, &nobody)?, None);
        Ok::<_, Error>(())
    });
    done.expect("writes");
}

fn chats_are_listed_by_activity_or_creation(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let slack = chat("x", "", 15);
        let other = ChatRow { place: ChatPlace { platform: "matrix".to_owned(), ..slack.place.clone() }, ..slack };
        let mut rows = [chat("a", "1", 10), chat("b", "2", 20), chat("c", "3", 20), other];
        // Created in the order x, c, b, a.
        for (row, second) in rows.iter_mut().zip([4, 3, 2, 1]) {
            row.created_at = at(second);
        }
        for row in &rows {
            messaging_sessions::insert(tx, row)?;
        }
        messaging_sessions::deactivate(tx, &rows[2].id)?;
        let mut names = |platform: Option<&str>, active: bool, after: Option<&ChatRow>, limit: u32| {
            let filter = ChatFilter { platform: platform.map(str::to_owned), active };
            let after = after.map(|row| (row.last_activity_at, row.id.as_str()));
            let found = messaging_sessions::list(tx, &filter, PageOrder::Updated, after, limit)?;
            Ok::<_, Error>(found.iter().map(|row| row.id.as_str()).collect::<String>())
        };
        assert_eq!(names(None, false, None, 9)?, "cbxa");
        assert_eq!(names(None, false, Some(&rows[2]), 2)?, "bx");
        assert_eq!(names(None, false, Some(&rows[0]), 2)?, "");
        assert_eq!(names(None, true, None, 9)?, "bxa");
        assert_eq!(names(Some("slack"), false, None, 9)?, "cba");
        assert_eq!(names(Some("slack"), true, Some(&rows[1]), 9)?, "a");
        assert_eq!(names(Some("none"), false, None, 9)?, "");
        messaging_sessions::touch(tx, &rows[0].id, at(40))?;
        let mut created = |platform: Option<&str>, active: bool, after: Option<&ChatRow>| {
            let filter = ChatFilter { platform: platform.map(str::to_owned), active };
            let after = after.map(|row| (row.created_at, row.id.as_str()));
            let found = messaging_sessions::list(tx, &filter, PageOrder::Created, after, 9)?;
            Ok::<_, Error>(found.iter().map(|row| row.id.as_str()).collect::<String>())
        };
        assert_eq!(created(None, false, None)?, "abcx", "regardless of later activity");
        assert_eq!(created(None, false, Some(&rows[1]))?, "cx");
        assert_eq!(created(Some("slack"), true, None)?, "ab");
        Ok::<_, Error>(())
    });
    done.expect("writes");
}
