use duolog_state::owned::messaging_messages::{self, NewChatMessageRow};
use duolog_state::owned::messaging_sessions;
use duolog_state::{ConstraintKind, Error};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::CHAT_CONTENT_BYTES_MAX;
use duolog_types::{ChatId, ChatRole, Durability};

use super::is_constraint;
use super::messaging_sessions::chat;
use crate::at;

on_both_engines!(messages_are_ordered_by_id_and_stored_once);

fn messages_are_ordered_by_id_and_stored_once(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let (one, two) = (chat("one", "1", 1), chat("two", "2", 1));
        messaging_sessions::insert(tx, &one)?;
        messaging_sessions::insert(tx, &two)?;
        let said = |role, content: &str, seconds, platform: Option<&str>| NewChatMessageRow {
            session_id: one.id.clone(),
            role,
            content: content.to_owned(),
            timestamp: at(seconds),
            platform_message_id: platform.map(str::to_owned),
        };
        let first = messaging_messages::insert(tx, &said(ChatRole::User, "hello", 9, Some("m1")))?;
        let second = messaging_messages::insert(tx, &said(ChatRole::Assistant, "", 5, None))?;
        let third = messaging_messages::insert(tx, &said(ChatRole::Assistant, "late", 7, None))?;
        assert!(first < second && second < third);
        let last = messaging_messages::newest(tx, &one.id, None, 2)?;
        let told: Vec<_> = last.iter().map(|row| (row.id, row.role, row.content.as_str())).collect();
        assert_eq!(told, [(third, ChatRole::Assistant, "late"), (second, ChatRole::Assistant, "")]);
        let before = messaging_messages::newest(tx, &one.id, Some(second), 9)?;
        assert_eq!(before.len(), 1);
        assert_eq!((before[0].timestamp, before[0].platform_message_id.as_deref()), (at(9), Some("m1")));
        assert_eq!(messaging_messages::newest(tx, &two.id, None, 9)?, []);
        assert_eq!(messaging_messages::find_delivered(tx, &one.id, "m1")?, Some(first));
        assert_eq!(messaging_messages::find_delivered(tx, &two.id, "m1")?, None);
        let other = NewChatMessageRow { session_id: two.id.clone(), ..said(ChatRole::User, "x", 1, Some("m1")) };
        messaging_messages::insert(tx, &other)?;
        let full = said(ChatRole::User, &"x".repeat(CHAT_CONTENT_BYTES_MAX), 1, None);
        messaging_messages::insert(tx, &full)?;
        let wrong = [
            (said(ChatRole::User, "again", 1, Some("m1")), ConstraintKind::Unique),
            (said(ChatRole::User, &"x".repeat(CHAT_CONTENT_BYTES_MAX + 1), 1, None), ConstraintKind::Check),
            (
                NewChatMessageRow { session_id: ChatId::new(), ..said(ChatRole::User, "x", 1, None) },
                ConstraintKind::ForeignKey,
            ),
        ];
        for (row, kind) in wrong {
            let refused = tx.savepoint(|tx| messaging_messages::insert(tx, &row));
            assert!(is_constraint(&refused, kind), "{refused:?}");
        }
        Ok::<_, Error>(())
    });
    done.expect("writes");
}
