use duolog_state::owned::messages::{self, Content, MessageRow, Put};
use duolog_state::owned::{branches, compactions, progression_items, progressions};
use duolog_state::{ConstraintKind, Error, Tx, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{CONTENT_BYTES_MAX, EMBEDDING_BYTES_MAX, METADATA_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{HomeId, MessageId};

use super::{branch_of, is_constraint, message, say, with_session};
use crate::{at, home, id};

on_both_engines!(
    a_message_is_given_back_as_it_was_put,
    a_taken_id_changes_nothing,
    what_no_row_takes_is_refused,
    a_role_is_never_nothing,
    a_message_goes_when_nothing_names_it
);

fn whole() -> MessageRow {
    MessageRow {
        id: message("m"),
        created_at: at(1),
        node_metadata: Some("{\"a\":1}".to_owned()),
        // A string that looks like JSON, a number that no machine word holds, a lone surrogate, spaces.
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

fn a_message_is_given_back_as_it_was_put(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(messages::find(tx, &message("m"))?, None);
        messages::add(tx, &[whole()])?;
        assert_eq!(messages::find(tx, &message("m"))?, Some(whole()));
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
        assert_eq!(messages::put(tx, &whole())?, Put::Added);
        assert_eq!(messages::put(tx, &MessageRow { created_at: at(9), ..whole() })?, Put::Same);
        assert_eq!(messages::put(tx, &MessageRow { embedding: None, ..whole() })?, Put::Same);
        let text = |text: &str| Some(text.to_owned());
        let others = [
            MessageRow { content: Content::Text("\"other\"".to_owned()), ..whole() },
            MessageRow { content: Content::Blob { blob: "ab".repeat(32), home: home() }, ..whole() },
            MessageRow { embedding: Some(vec![9; 8]), ..whole() },
            MessageRow { node_metadata: text("{}"), ..whole() },
            MessageRow { node_metadata: None, ..whole() },
            MessageRow { sender: text("other"), ..whole() },
            MessageRow { recipient: text("other"), ..whole() },
            MessageRow { channel: text("other"), ..whole() },
            MessageRow { role: "other".to_owned(), ..whole() },
            MessageRow { lion_class: 1, ..whole() },
            MessageRow { compactable: true, ..whole() },
        ];
        for other in others {
            assert_eq!(messages::put(tx, &other)?, Put::Taken, "{other:?}");
            assert_eq!(messages::find(tx, &message("m"))?, Some(whole()));
        }
        let bare = MessageRow { embedding: None, ..MessageRow::new(message("n"), "user", whole().content, at(1)) };
        assert_eq!(messages::put(tx, &bare)?, Put::Added);
        assert_eq!(messages::put(tx, &MessageRow { embedding: Some(vec![1; 4]), ..bare })?, Put::Taken);
        Ok(())
    });
}

fn what_no_row_takes_is_refused(place: &Place) {
    with_session(place, |tx| {
        let text = |bytes: usize| Content::Text("1".repeat(bytes));
        let wrong = [
            MessageRow { role: String::new(), ..whole() },
            MessageRow { role: "  ".to_owned(), ..whole() },
            MessageRow { role: "x".repeat(WORD_BYTES_MAX + 1), ..whole() },
            MessageRow { content: text(CONTENT_BYTES_MAX + 1), ..whole() },
            MessageRow { content: text(0), ..whole() },
            MessageRow { content: Content::Blob { blob: "ab".to_owned(), home: home() }, ..whole() },
            MessageRow { node_metadata: Some("x".repeat(METADATA_BYTES_MAX + 1)), ..whole() },
            MessageRow { embedding: Some(vec![0; 5]), ..whole() },
            MessageRow { embedding: Some(Vec::new()), ..whole() },
            MessageRow { embedding: Some(vec![0; EMBEDDING_BYTES_MAX + 4]), ..whole() },
        ];
        for row in wrong {
            let refused = tx.savepoint(|tx| messages::add(tx, std::slice::from_ref(&row)));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{refused:?}");
        }
        let unknown = MessageRow { lion_class: 99, ..whole() };
        assert!(is_constraint(
            &tx.savepoint(|tx| messages::add(tx, std::slice::from_ref(&unknown))),
            ConstraintKind::ForeignKey
        ));
        let largest = MessageRow {
            content: text(CONTENT_BYTES_MAX),
            embedding: Some(vec![0; EMBEDDING_BYTES_MAX]),
            node_metadata: Some("x".repeat(METADATA_BYTES_MAX)),
            ..whole()
        };
        messages::add(tx, &[largest])
    });
}

/// A role that is nothing cannot be said in Rust; whoever writes rows by hand is refused.
fn a_role_is_never_nothing(place: &Place) {
    with_session(place, |tx| {
        messages::add(tx, &[whole()])?;
        let changed = tx.savepoint(|tx| tx.execute("UPDATE messages SET role = NULL WHERE id = 'm'", &[]));
        assert!(is_constraint(&changed, ConstraintKind::NotNull), "{changed:?}");
        assert_eq!(messages::find(tx, &message("m"))?, Some(whole()));
        Ok(())
    });
}

/// Whether a message goes when it is asked to, with this pool.
fn goes(tx: &mut Tx<'_>, text: &str, branch: &branches::BranchRow) -> Result<bool, Error> {
    Ok(messages::remove_unreferenced(tx, &[message(text)], Some(&branch.progression_id))? == 1)
}

fn a_message_goes_when_nothing_names_it(place: &Place) {
    with_session(place, |tx| {
        // The first plays the pool; what only it names goes from it too.
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
            assert!(!goes(tx, named, &pool)?, "{named}");
        }
        assert_eq!(messages::remove_unreferenced(tx, &[message("d")], None)?, 0, "its pool is not said");
        assert!(goes(tx, "d", &pool)? && !goes(tx, "d", &pool)?);
        assert_eq!(messages::find(tx, &message("d"))?, None);
        assert_eq!(progressions::get(tx, &pool.progression_id)?.end, 3);
        say(tx, "e")?;
        assert_eq!(messages::remove_unreferenced(tx, &[message("e")], None)?, 1, "one that stands nowhere");
        assert_eq!(messages::remove_unreferenced(tx, &[], None)?, 0);
        let many: Vec<MessageId> = (0..150).map(|number| message(&format!("m-{number}"))).collect();
        for id in &many {
            say(tx, id.as_str())?;
        }
        let asked: Vec<MessageId> = many.iter().chain(&[message("none")]).cloned().collect();
        assert_eq!(messages::existing(tx, &asked)?, many.iter().cloned().collect());
        assert!(messages::existing(tx, &[])?.is_empty());
        assert_eq!(messages::remove_unreferenced(tx, &many, None)?, 150, "more than one statement takes");
        tx.execute("DELETE FROM compactions WHERE branch_id = ?1", params![&branch.id])?;
        assert!(goes(tx, "c", &pool)?);
        assert_eq!(id("s"), branch.session_id);
        Ok(())
    });
}
