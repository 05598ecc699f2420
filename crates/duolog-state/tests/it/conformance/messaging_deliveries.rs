use duolog_state::Error;
use duolog_state::owned::messaging_messages::{self, NewChatMessageRow};
use duolog_state::owned::{messaging_deliveries, messaging_sessions};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{ChatRole, Durability};

use super::messaging_sessions::chat;
use crate::at;

on_both_engines!(a_platform_id_is_claimed_once_in_a_conversation);

fn a_platform_id_is_claimed_once_in_a_conversation(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let (one, two) = (chat("one", "1", 1), chat("two", "2", 1));
        messaging_sessions::insert(tx, &one)?;
        messaging_sessions::insert(tx, &two)?;
        let said = NewChatMessageRow {
            session_id: one.id.clone(),
            role: ChatRole::User,
            content: "hello".to_owned(),
            timestamp: at(1),
            platform_message_id: Some("m1".to_owned()),
        };
        let first = messaging_messages::insert(tx, &said)?;
        let second = messaging_messages::insert(tx, &NewChatMessageRow { platform_message_id: None, ..said })?;
        assert_eq!(messaging_deliveries::find(tx, &one.place, "m1")?, None);
        assert!(messaging_deliveries::claim(tx, &one.place, "m1", first)?);
        assert!(!messaging_deliveries::claim(tx, &one.place, "m1", second)?);
        assert_eq!(messaging_deliveries::find(tx, &one.place, "m1")?, Some((one.id.clone(), first)));
        // The same id in another conversation is another message.
        assert_eq!(messaging_deliveries::find(tx, &two.place, "m1")?, None);
        Ok::<_, Error>(())
    });
    done.expect("writes");
}
