use duolog_state::owned::message_embeddings::MessageFilter;
use duolog_state::owned::messages::{self, Content, MessageRow, Put};
use duolog_state::owned::progressions::{Fresh, Segment};
use duolog_state::owned::{message_embeddings, progressions};
use duolog_state::{ConstraintKind, Error, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::MessageId;
use duolog_types::limits::EMBEDDING_BYTES_MAX;

use super::{branch_of, insert_message, is_constraint, message, with_session};
use crate::{at, id};

on_both_engines!(
    embeddings_are_paged_in_the_order_of_insertion,
    many_embeddings_are_added_and_looked_up_at_once,
    the_number_of_an_embedding_is_never_reused,
    embeddings_are_filtered_by_their_messages,
    a_message_keeps_its_embedding,
    an_embedding_needs_a_message_and_a_valid_length
);

/// Returns the first byte of each embedding, read in pages of two, and the number of pages.
fn read_embeddings(tx: &mut Tx<'_>) -> Result<(Vec<(String, u8)>, usize), Error> {
    let (mut numbers, mut after, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(last) = after {
        let each = &mut |seq, bytes: &[u8]| numbers.push((seq, bytes[0]));
        after = message_embeddings::each(tx, last, 2, each)?;
        pages += 1;
    }
    let mut found = Vec::new();
    for (seq, first) in numbers {
        let standing = message_embeddings::existing(tx, &[seq], &MessageFilter::default())?;
        let [(number, message)] = &standing[..] else { panic!("{seq}: {standing:?}") };
        assert_eq!(*number, seq);
        found.push((message.to_string(), first));
    }
    Ok((found, pages))
}

fn embeddings_are_paged_in_the_order_of_insertion(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(read_embeddings(tx)?, (vec![], 1));
        insert_message(tx, "m-none")?;
        // Not in the order of their ids.
        let mut expected = Vec::new();
        for (name, first) in [("m-3", 3), ("m-1", 1), ("m-4", 4), ("m-0", 0), ("m-2", 2)] {
            let id = insert_message(tx, name)?;
            message_embeddings::add(tx, &[(&id, &[first, 0, 0, 0])])?;
            expected.push((name.to_owned(), first));
        }
        assert_eq!(read_embeddings(tx)?, (expected, 3));
        let (last, meant) = (message_embeddings::last(tx)?, MessageFilter::default());
        assert_eq!(message_embeddings::existing(tx, &[last + 1, 0, -1], &meant)?, []);
        let mut rest = Vec::new();
        let each = &mut |seq, _: &[u8]| rest.push(seq);
        assert_eq!(message_embeddings::each(tx, last - 2, 9, each)?, None);
        assert_eq!(rest, [last - 1, last]);
        Ok(())
    });
}

fn many_embeddings_are_added_and_looked_up_at_once(place: &Place) {
    with_session(place, |tx| {
        let rows: Vec<MessageRow> = (0_u8..70)
            .map(|number| MessageRow {
                embedding: (number % 7 != 0).then(|| vec![number, 0, 0, 0]),
                ..MessageRow::new(message(&format!("m-{number:02}")), "user", Content::Text("1".to_owned()), at(1))
            })
            .collect();
        messages::add(tx, &rows)?;
        let embedded: Vec<u8> = (0..70).filter(|number| number % 7 != 0).collect();
        let (seen, _) = read_embeddings(tx)?;
        assert_eq!(seen.iter().map(|one| one.1).collect::<Vec<_>>(), embedded);
        let last = message_embeddings::last(tx)?;
        let all: Vec<i64> = (last - 199..=last).rev().collect();
        let mut standing = message_embeddings::existing(tx, &all, &MessageFilter::default())?;
        standing.sort_unstable();
        assert_eq!(standing.iter().map(|one| one.1.to_string()).collect::<Vec<_>>(), names(&seen));
        let ids = [message("m-00"), message("m-07")];
        message_embeddings::add(tx, &[(&ids[0], &[9; 4]), (&ids[1], &[8; 4])])?;
        let taken = tx.savepoint(|tx| message_embeddings::add(tx, &[(&ids[0], &[7; 4])]));
        assert!(is_constraint(&taken, ConstraintKind::Unique), "{taken:?}");
        Ok(())
    });
}

fn names(seen: &[(String, u8)]) -> Vec<String> {
    seen.iter().map(|one| one.0.clone()).collect()
}

/// A number is never reused for another embedding.
fn the_number_of_an_embedding_is_never_reused(place: &Place) {
    with_session(place, |tx| {
        let embedded = |bytes: u8| MessageRow {
            embedding: Some(vec![bytes; 4]),
            ..MessageRow::new(message("m"), "user", Content::Text("1".to_owned()), at(1))
        };
        assert_eq!(messages::put(tx, &embedded(1))?, Put::Added);
        let first = message_embeddings::last(tx)?;
        assert_eq!(messages::put(tx, &embedded(1))?, Put::Same);
        assert_eq!(messages::put(tx, &embedded(2))?, Put::Taken);
        assert_eq!(message_embeddings::last(tx)?, first, "it stays");
        assert_eq!(messages::remove_unreferenced(tx, &[message("m")], None)?, 1);
        assert_eq!(messages::put(tx, &embedded(2))?, Put::Added);
        let second = message_embeddings::last(tx)?;
        assert!(second > first, "{second}");
        assert_eq!(
            message_embeddings::existing(tx, &[first, second], &MessageFilter::default())?,
            [(second, message("m"))]
        );
        Ok(())
    });
}

fn embeddings_are_filtered_by_their_messages(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "branch", &[])?;
        let mut head = progressions::get(tx, &branch.progression_id)?;
        for (number, name) in (0_i64..).zip(["a", "b", "c", "elsewhere"]) {
            let row = MessageRow {
                sender: (number < 2).then(|| "ada".to_owned()),
                recipient: (number > 0).then(|| "bob".to_owned()),
                channel: (number != 1).then(|| "plan".to_owned()),
                lion_class: i64::from(number == 2),
                embedding: Some(vec![1; 4]),
                ..MessageRow::new(
                    message(name),
                    if number == 0 { "user" } else { "assistant" },
                    Content::Text("1".to_owned()),
                    at(number),
                )
            };
            messages::add(tx, &[row])?;
            if name != "elsewhere" {
                progressions::append(tx, &mut head, &message(name), Fresh::Yes)?;
            }
        }
        let last = message_embeddings::last(tx)?;
        let all: Vec<i64> = (last - 9..=last).collect();
        let text = |text: &str| Some(text.to_owned());
        let none = MessageFilter::default;
        let questions = [
            (none(), "a b c elsewhere"),
            (MessageFilter { role: text("user"), ..none() }, "a"),
            (MessageFilter { sender: text("ada"), ..none() }, "a b"),
            (MessageFilter { recipient: text("bob"), ..none() }, "b c elsewhere"),
            (MessageFilter { channel: text("plan"), ..none() }, "a c elsewhere"),
            (MessageFilter { lion_class: Some(1), ..none() }, "c"),
            (MessageFilter { since: Some(at(1)), ..none() }, "b c elsewhere"),
            (MessageFilter { until: Some(at(2)), ..none() }, "a b"),
            (MessageFilter { session: Some(id("s")), ..none() }, "a b c"),
            (
                MessageFilter {
                    sender: text("ada"),
                    recipient: text("bob"),
                    since: Some(at(1)),
                    until: Some(at(2)),
                    ..none()
                },
                "b",
            ),
            (MessageFilter { session: Some(id("s")), channel: text("plan"), ..none() }, "a c"),
            (MessageFilter { role: text("nobody"), ..none() }, ""),
        ];
        let head = progressions::get(tx, &branch.progression_id)?;
        let segments = progressions::segments(tx, &head, 0, u64::MAX)?;
        for (among, expected) in questions {
            let mut found: Vec<String> =
                message_embeddings::existing(tx, &all, &among)?.into_iter().map(|one| one.1.to_string()).collect();
            found.sort_unstable();
            assert_eq!(found.join(" "), expected, "{among:?}");
            // In pages of one, from the items of the branch.
            let (mut of_items, mut from) = (Vec::new(), Some(0));
            while let Some(next) = from {
                let rest = Segment { from: next, ..segments[0].clone() };
                let each = &mut |_, id: MessageId, bytes: &[u8]| of_items.push((id.to_string(), bytes.len()));
                from = message_embeddings::each_of(tx, &rest, &among, 1, each)?;
            }
            let on_branch: Vec<(String, usize)> =
                found.iter().filter(|name| *name != "elsewhere").map(|name| (name.clone(), 4)).collect();
            assert_eq!(of_items, on_branch, "{among:?}");
        }
        Ok(())
    });
}

fn a_message_keeps_its_embedding(place: &Place) {
    with_session(place, |tx| {
        let pool = branch_of(tx, "pool", &["a", "b"])?;
        message_embeddings::add(tx, &[(&message("a"), &[1; 4]), (&message("b"), &[2; 4])])?;
        assert_eq!(read_embeddings(tx)?.0, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        // A repetition without an embedding keeps the stored one; a deleted message deletes its own.
        let row = messages::find(tx, &message("a"))?.expect("there");
        assert_eq!(messages::put(tx, &MessageRow { embedding: None, created_at: at(9), ..row.clone() })?, Put::Same);
        assert_eq!(messages::find(tx, &message("a"))?, Some(row));
        assert_eq!(messages::remove_unreferenced(tx, &[message("b")], Some(&pool.progression_id))?, 1);
        assert_eq!(read_embeddings(tx)?.0, [("a".to_owned(), 1)]);
        assert_eq!(progressions::get(tx, &pool.progression_id)?.base_ord, 0);
        Ok(())
    });
}

fn an_embedding_needs_a_message_and_a_valid_length(place: &Place) {
    with_session(place, |tx| {
        let id = insert_message(tx, "m")?;
        for bytes in [vec![], vec![0; 5], vec![0; EMBEDDING_BYTES_MAX + 4]] {
            let refused = tx.savepoint(|tx| message_embeddings::add(tx, &[(&id, &bytes)]));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{}: {refused:?}", bytes.len());
        }
        message_embeddings::add(tx, &[(&id, &vec![0; EMBEDDING_BYTES_MAX])])?;
        let nobody = tx.savepoint(|tx| message_embeddings::add(tx, &[(&message("nobody"), &[0; 4])]));
        assert!(is_constraint(&nobody, ConstraintKind::ForeignKey), "{nobody:?}");
        Ok(())
    });
}
