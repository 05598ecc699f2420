use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::progressions::{self, ProgressionRow};
use duolog_state::owned::{progression_items, sessions};
use duolog_state::{Error, Tx, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{ProgressionId, Timestamp};

use super::{branch_of, insert_message, message, with_session};
use crate::{at, id};

on_both_engines!(messages_have_their_embeddings, progressions_have_their_collections);

fn messages_have_their_embeddings(place: &Place) {
    with_session(place, |tx| {
        let when = Timestamp::from_micros(1_748_376_662_839_250);
        let row = MessageRow {
            embedding: Some(vec![0, 0, 128, 63]),
            node_metadata: Some("{}".to_owned()),
            sender: Some("a".to_owned()),
            recipient: Some("b".to_owned()),
            channel: Some("c".to_owned()),
            lion_class: 3,
            ..MessageRow::new(message("m"), "user", Content::Text("[1]".to_owned()), when)
        };
        messages::add(tx, &[row])?;
        insert_message(tx, "plain")?;
        let sql = "SELECT node_metadata, content, embedding, sender, recipient, channel, role, lion_class \
                   FROM messages_whole WHERE id = ?1";
        let read = |tx: &mut Tx<'_>, id: &str| {
            tx.find(sql, params![id], |row| {
                let texts: Vec<Option<String>> =
                    [0, 1, 3, 4, 5, 6].iter().map(|at| row.get(*at)).collect::<Result<_, Error>>()?;
                Ok((texts, row.get::<Option<Vec<u8>>>(2)?, row.get::<i64>(7)?))
            })
        };
        let texts = ["{}", "[1]", "a", "b", "c", "user"].map(|text| Some(text.to_owned())).to_vec();
        assert_eq!(read(tx, "m")?, Some((texts, Some(vec![0, 0, 128, 63]), 3)));
        assert_eq!(read(tx, "plain")?.map(|(_, embedding, class)| (embedding, class)), Some((None, 0)));
        let near = "SELECT 1 FROM messages_whole WHERE id = 'm' AND created_at > 1748376662.839249 \
                    AND created_at < 1748376662.839251";
        assert!(tx.find(near, &[], |_| Ok(()))?.is_some(), "seconds with fractions");
        Ok(())
    });
}

fn progressions_have_their_collections(place: &Place) {
    with_session(place, |tx| {
        let collection = |tx: &mut Tx<'_>, id: &ProgressionId| {
            let sql = "SELECT collection FROM progressions_whole WHERE id = ?1";
            Ok::<_, Error>(tx.find(sql, params![id], |row| row.get::<String>(0))?.expect("there"))
        };
        let first = branch_of(tx, "first", &["a", "b", "c"])?.progression_id;
        assert_eq!(collection(tx, &first)?, "[\"a\",\"b\",\"c\"]");
        // A history that continues a part of another, and one that continues that.
        let parent = progressions::get(tx, &first)?;
        let middle = progressions::fork(tx, &parent, 2, at(2))?;
        let said = insert_message(tx, "m")?;
        progression_items::insert(tx, &middle.id, 2, &said)?;
        let head = progressions::get(tx, &middle.id)?;
        let head = progressions::fork(tx, &head, 3, at(2))?;
        assert_eq!(collection(tx, &head.id)?, "[\"a\",\"b\",\"m\"]");
        assert_eq!(collection(tx, &first)?, "[\"a\",\"b\",\"c\"]");
        // The session's own progression has all messages in the order of arrival.
        let pool = ProgressionRow::new(Some(&id("s")), at(1));
        progressions::insert(tx, &pool)?;
        assert_eq!(collection(tx, &pool.id)?, "[]");
        sessions::set_pool(tx, &id("s"), &pool.id)?;
        let stretch = |ord, progression: &ProgressionId, from_ord, to_ord| PoolSegmentRow {
            ord,
            progression_id: progression.clone(),
            from_ord,
            to_ord,
        };
        pool_segments::insert(tx, &id("s"), &stretch(0, &first, 0, Some(2)))?;
        pool_segments::insert(tx, &id("s"), &stretch(2, &middle.id, 2, Some(3)))?;
        pool_segments::insert(tx, &id("s"), &stretch(3, &first, 2, None))?;
        assert_eq!(collection(tx, &pool.id)?, "[\"a\",\"b\",\"m\",\"c\"]");
        Ok(())
    });
}
