use duolog_state::owned::messages::{self, Content, MessageRow, Put};
use duolog_state::owned::{branches, compactions, progression_items, progressions};
use duolog_state::{ConstraintKind, Error, Tx, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{CONTENT_BYTES_MAX, EMBEDDING_BYTES_MAX, METADATA_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{HomeId, MessageId};

use super::{branch_of, insert_message, is_constraint, message, with_session};
use crate::{at, home, id};

on_both_engines!(
    a_message_reads_back_as_inserted,
    a_taken_id_changes_nothing,
    invalid_messages_are_refused,
    a_role_is_never_null,
    a_message_is_removed_when_nothing_references_it
);

fn full_message() -> MessageRow {
    MessageRow {
        id: message("m"),
        created_at: at(1),
        node_metadata: Some("{\"a\":1}".to_owned()),
        // A string that looks like JSON, a number larger than any machine word, a lone surrogate, spaces.
        content: Content::Text(" [ \"{\\\"a\\\":1}\", 1e400, \"\\ud83d\" ] ".to_owned()),
        embedding: Some(vec![0, 0, 128, 63, 0, 0, 0, 192]),
        sender: Some("a".to_owned()),
        recipient: Some("b".to_owned()),
        channel: Some("c".to_owned()),
        role: "assistant".to_owned(),
        lion_class: 3,
        compactable: false,
    }
}

fn a_message_reads_back_as_inserted(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(messages::find(tx, &message("m"))?, None);
        messages::add(tx, &[full_message()])?;
        assert_eq!(messages::find(tx, &message("m"))?, Some(full_message()));
        let blob = "ab".repeat(32);
        let content = Content::Blob { blob: blob.clone(), home: home() };
        messages::add(tx, &[MessageRow::new(message("b"), "user", content, at(9))])?;
        assert_eq!(messages::naming_blob(tx, &home(), &blob)?, 1);
        assert_eq!(messages::blobs(tx, &home(), "", 9)?, [blob.as_str()]);
        assert_eq!(messages::blobs(tx, &home(), &blob, 9)?, [""; 0]);
        assert_eq!(messages::naming_blob(tx, &HomeId::new(), &blob)?, 0);
        Ok(())
    });
}

fn a_taken_id_changes_nothing(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(messages::put(tx, &full_message())?, Put::Added);
        assert_eq!(messages::put(tx, &MessageRow { created_at: at(9), ..full_message() })?, Put::Same);
        assert_eq!(messages::put(tx, &MessageRow { embedding: None, ..full_message() })?, Put::Same);
        let text = |text: &str| Some(text.to_owned());
        let others = [
            MessageRow { content: Content::Text("\"other\"".to_owned()), ..full_message() },
            MessageRow { content: Content::Blob { blob: "ab".repeat(32), home: home() }, ..full_message() },
            MessageRow { embedding: Some(vec![9; 8]), ..full_message() },
            MessageRow { node_metadata: text("{}"), ..full_message() },
            MessageRow { node_metadata: None, ..full_message() },
            MessageRow { sender: text("other"), ..full_message() },
            MessageRow { recipient: text("other"), ..full_message() },
            MessageRow { channel: text("other"), ..full_message() },
            MessageRow { role: "other".to_owned(), ..full_message() },
            MessageRow { lion_class: 1, ..full_message() },
            MessageRow { compactable: true, ..full_message() },
        ];
        for other in others {
            assert_eq!(messages::put(tx, &other)?, Put::Taken, "{other:?}");
            assert_eq!(messages::find(tx, &message("m"))?, Some(full_message()));
        }
        let bare =
            MessageRow { embedding: None, ..MessageRow::new(message("n"), "user", full_message().content, at(1)) };
        assert_eq!(messages::put(tx, &bare)?, Put::Added);
        assert_eq!(messages::put(tx, &MessageRow { embedding: Some(vec![1; 4]), ..bare })?, Put::Taken);
        Ok(())
    });
}

fn invalid_messages_are_refused(place: &Place) {
    with_session(place, |tx| {
        let text = |bytes: usize| Content::Text("1".repeat(bytes));
        let wrong = [
            MessageRow { role: String::new(), ..full_message() },
            MessageRow { role: "  ".to_owned(), ..full_message() },
            MessageRow { role: "x".repeat(WORD_BYTES_MAX + 1), ..full_message() },
            MessageRow { content: text(CONTENT_BYTES_MAX + 1), ..full_message() },
            MessageRow { content: text(0), ..full_message() },
            MessageRow { content: Content::Blob { blob: "ab".to_owned(), home: home() }, ..full_message() },
            MessageRow { node_metadata: Some("x".repeat(METADATA_BYTES_MAX + 1)), ..full_message() },
            MessageRow { embedding: Some(vec![0; 5]), ..full_message() },
            MessageRow { embedding: Some(Vec::new()), ..full_message() },
            MessageRow { embedding: Some(vec![0; EMBEDDING_BYTES_MAX + 4]), ..full_message() },
        ];
        for row in wrong {
            let refused = tx.savepoint(|tx| messages::add(tx, std::slice::from_ref(&row)));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{refused:?}");
        }
        let unknown = MessageRow { lion_class: 99, ..full_message() };
        assert!(is_constraint(
            &tx.savepoint(|tx| messages::add(tx, std::slice::from_ref(&unknown))),
            ConstraintKind::ForeignKey
        ));
        let largest = MessageRow {
            content: text(CONTENT_BYTES_MAX),
            embedding: Some(vec![0; EMBEDDING_BYTES_MAX]),
            node_metadata: Some("x".repeat(METADATA_BYTES_MAX)),
            ..full_message()
        };
        messages::add(tx, &[largest])
    });
}

/// Rust cannot express a NULL role; a row written by hand is refused.
fn a_role_is_never_null(place: &Place) {
    with_session(place, |tx| {
        messages::add(tx, &[full_message()])?;
        let changed = tx.savepoint(|tx| tx.execute("UPDATE messages SET role = NULL WHERE id = 'm'", &[]));
        assert!(is_constraint(&changed, ConstraintKind::NotNull), "{changed:?}");
        assert_eq!(messages::find(tx, &message("m"))?, Some(full_message()));
        Ok(())
    });
}

/// Returns true if a message is deleted by `remove_unreferenced` with this pool.
fn is_removed(tx: &mut Tx<'_>, text: &str, branch: &branches::BranchRow) -> Result<bool, Error> {
    Ok(messages::remove_unreferenced(tx, &[message(text)], Some(&branch.progression_id))? == 1)
}

fn a_message_is_removed_when_nothing_references_it(place: &Place) {
    with_session(place, |tx| {
        // The first branch plays the pool: a message that only the pool has is removed from it too.
        let pool = branch_of(tx, "pool", &["a", "b", "c", "d"])?;
        let branch = branch_of(tx, "branch", &[])?;
        progression_items::insert(tx, &branch.progression_id, 0, &message("a"))?;
        branches::set_system(tx, &branch.id, &message("b"))?;
        let summary = compactions::CompactionEntry::Summary { message: message("c"), covers_all: true };
        let row = compactions::CompactionRow {
            branch_id: branch.id.clone(),
            seq: 1,
            from_ord: 0,
            to_ord: 1,
            entry: summary,
            created_at: at(1),
        };
        compactions::insert(tx, &row)?;
        for named in ["a", "b", "c"] {
            assert!(!is_removed(tx, named, &pool)?, "{named}");
        }
        assert_eq!(messages::remove_unreferenced(tx, &[message("d")], None)?, 0, "the pool is not given");
        assert!(is_removed(tx, "d", &pool)? && !is_removed(tx, "d", &pool)?);
        assert_eq!(messages::find(tx, &message("d"))?, None);
        assert_eq!(progressions::get(tx, &pool.progression_id)?.end, 3);
        insert_message(tx, "e")?;
        assert_eq!(messages::remove_unreferenced(tx, &[message("e")], None)?, 1, "a message in no progression");
        assert_eq!(messages::remove_unreferenced(tx, &[], None)?, 0);
        let many: Vec<MessageId> = (0..150).map(|number| message(&format!("m-{number}"))).collect();
        for id in &many {
            insert_message(tx, id.as_str())?;
        }
        let asked: Vec<MessageId> = many.iter().chain(&[message("none")]).cloned().collect();
        assert_eq!(messages::existing(tx, &asked)?, many.iter().cloned().collect());
        assert!(messages::existing(tx, &[])?.is_empty());
        assert_eq!(messages::remove_unreferenced(tx, &many, None)?, 150, "more than fit into one statement");
        tx.execute("DELETE FROM compactions WHERE branch_id = ?1", params![&branch.id])?;
        assert!(is_removed(tx, "c", &pool)?);
        assert_eq!(id("s"), branch.session_id);
        Ok(())
    });
}
