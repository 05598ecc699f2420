use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::{message_embeddings, progressions};
use duolog_state::{ConstraintKind, Error, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::EMBEDDING_BYTES_MAX;

use super::{branch_of, is_constraint, message, say, with_session};
use crate::at;

on_both_engines!(
    embeddings_come_in_pages_in_the_order_they_were_put,
    a_message_has_one_embedding_or_none,
    an_embedding_is_numbers_of_a_message
);

/// The first byte of each embedding, read in pages of two, and how many pages there were.
fn seen(tx: &mut Tx<'_>) -> Result<(Vec<(String, u8)>, usize), Error> {
    let (mut numbers, mut after, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(last) = after {
        after = message_embeddings::each(tx, last, 2, &mut |seq, bytes| numbers.push((seq, bytes[0])))?;
        pages += 1;
    }
    let mut found = Vec::new();
    for (seq, first) in numbers {
        found.push((message_embeddings::message_of(tx, seq)?.expect("a message").to_string(), first));
    }
    Ok((found, pages))
}

fn embeddings_come_in_pages_in_the_order_they_were_put(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(seen(tx)?, (vec![], 1));
        say(tx, "m-none")?;
        // Not in the order of their ids.
        let mut expected = Vec::new();
        for (name, first) in [("m-3", 3), ("m-1", 1), ("m-4", 4), ("m-0", 0), ("m-2", 2)] {
            let id = say(tx, name)?;
            message_embeddings::put(tx, &id, Some(&[first, 0, 0, 0]))?;
            expected.push((name.to_owned(), first));
        }
        assert_eq!(seen(tx)?, (expected, 3));
        assert_eq!(message_embeddings::message_of(tx, 99)?, None);
        Ok(())
    });
}

fn a_message_has_one_embedding_or_none(place: &Place) {
    with_session(place, |tx| {
        let pool = branch_of(tx, "pool", &["a", "b"])?;
        message_embeddings::put(tx, &message("a"), Some(&[1; 4]))?;
        message_embeddings::put(tx, &message("b"), Some(&[2; 4]))?;
        message_embeddings::put(tx, &message("a"), Some(&[3; 8]))?;
        assert_eq!(seen(tx)?.0, [("a".to_owned(), 3), ("b".to_owned(), 2)], "another takes its place");
        assert_eq!(messages::find(tx, &message("a"))?.expect("there").embedding, Some(vec![3; 8]));
        // A message that is put anew without one has none; one that goes takes its own along.
        let row = messages::find(tx, &message("a"))?.expect("there");
        messages::put(tx, &MessageRow { embedding: None, created_at: at(9), ..row })?;
        assert_eq!(messages::find(tx, &message("a"))?.expect("there").embedding, None);
        assert_eq!(messages::remove_unnamed(tx, &[message("b")], Some(&pool.progression_id))?, 1);
        assert_eq!(seen(tx)?.0, []);
        assert_eq!(progressions::get(tx, &pool.progression_id)?.base_ord, 0);
        Ok(())
    });
}

fn an_embedding_is_numbers_of_a_message(place: &Place) {
    with_session(place, |tx| {
        let id = say(tx, "m")?;
        for bytes in [vec![], vec![0; 5], vec![0; EMBEDDING_BYTES_MAX + 4]] {
            let refused = tx.savepoint(|tx| message_embeddings::put(tx, &id, Some(&bytes)));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{}: {refused:?}", bytes.len());
        }
        message_embeddings::put(tx, &id, Some(&vec![0; EMBEDDING_BYTES_MAX]))?;
        let nobody = tx.savepoint(|tx| message_embeddings::put(tx, &message("nobody"), Some(&[0; 4])));
        assert!(is_constraint(&nobody, ConstraintKind::ForeignKey), "{nobody:?}");
        Ok(())
    });
}
