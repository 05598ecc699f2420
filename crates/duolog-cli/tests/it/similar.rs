use std::fs;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran};

on_both_engines!(similar_messages_are_filtered);

/// The dimensions of an embedding: the maximum.
const NUMBERS: usize = 16_384;
/// The number of embeddings.
const MANY: usize = 70;

/// Returns the embedding of a number, as JSON.
fn vector(number: usize) -> String {
    let numbers: Vec<String> = (0..NUMBERS).map(|at| ((at * (number + 3) / 7) % 10).to_string()).collect();
    format!("[{}]", numbers.join(","))
}

/// Adds items with embeddings to a thread, each with its number.
fn add(kit: &Kit, thread: &str, role: &str, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    for some in numbers.chunks(10) {
        let mut args = ["sessions", "add", "--session", thread].map(str::to_owned).to_vec();
        for number in some {
            let item = format!("{{\"role\":\"{role}\",\"content\":{number}}}");
            args.extend(["--item".to_owned(), item, "--embedding".to_owned(), vector(*number)]);
        }
        kit.run(&args).is(0);
    }
}

/// Returns the numbers of the messages that were found.
fn found(ran: &Ran) -> Vec<u64> {
    let messages = ran.field("/messages");
    let messages = messages.as_array().expect("messages");
    messages.iter().map(|one| one["content"]["content"].as_u64().expect("a number")).collect()
}

fn similar_messages_are_filtered(place: &Place) {
    let kit = Kit::on(place);
    add(&kit, "one", "user", 0..3);
    add(&kit, "two", "assistant", 3..6);
    kit.run(&["sessions", "fork", "two", "--at", "2", "--name", "side"]).is(0);
    let vector = vector(4);
    let search = |more: &[&str]| {
        let args = [&["sessions", "similar", "--vector", &vector, "--metric", "l2", "--json"][..], more].concat();
        kit.run(&args)
    };
    let near = |more: &[&str]| {
        let mut near = found(&search(more).is(0));
        near.sort_unstable();
        near
    };
    assert_eq!(found(&search(&["--k", "1"]).is(0)), [4]);
    assert_eq!(near(&[]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(near(&["--session", "one"]), [0, 1, 2]);
    assert_eq!(near(&["--session", "two", "--branch", "side"]), [3, 4]);
    assert_eq!(near(&["--role", "assistant"]), [3, 4, 5]);
    assert_eq!(near(&["--role", "assistant", "--session", "one"]), [0; 0]);
    assert_eq!(near(&["--since", "1h"]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(near(&["--until", "1h"]), [0; 0]);
    assert_eq!(near(&["--sender", "ada"]), [0; 0]);
    assert_eq!(near(&["--recipient", "ada", "--channel", "plan", "--lion-class", "made.Up"]), [0; 0]);
    search(&["--session", "three"]).is(1).says("");
    search(&["--session", "two", "--branch", "nowhere"]).is(1);
    search(&["--branch", "side"]).is(2);
    search(&["--since", "soon"]).is(2);
    kit.run(&["sessions", "similar", "--vector", &vector, "--channel", "plan"])
        .is(0)
        .says("no message that matches the filters");
}

/// Creates a home with many embeddings.
fn many() -> Kit {
    let kit = Kit::new();
    add(&kit, "demo", "user", 0..MANY);
    kit
}

#[test]
fn a_read_only_home_finds_similar_messages() {
    let kit = many();
    fs::write(kit.dir.path().join("vector"), vector(12)).expect("written");
    let search = || {
        let script = "mount --bind $H $H && mount -o remount,ro,bind $H && \
                      exec $D sessions similar --vector-file ${H%/*}/vector --k 1 --json";
        found(&Ran::of(kit.mounting(script)).is(0))
    };
    assert_eq!(search(), [12]);
}

#[test]
fn a_full_disk_finds_similar_messages() {
    let kit = many();
    fs::write(kit.dir.path().join("vector"), vector(12)).expect("written");
    let output = kit.mounting(
        r#"set -u
        cp -r $H ${H%/*}/aside || exit 99
        mount -t tmpfs -o size=32m,mode=700 tmpfs $H || exit 98
        cp -r ${H%/*}/aside/. $H || exit 97
        head -c 64m /dev/zero > $H/filler 2>/dev/null
        $D sessions similar --vector-file ${H%/*}/vector --k 1 --json; echo "full: $?"
        "#,
    );
    let ran = Ran::of(output).is(0);
    let text = ran.text();
    assert!(text.contains("\"content\":12") && text.contains("full: 0"), "{text}");
}
