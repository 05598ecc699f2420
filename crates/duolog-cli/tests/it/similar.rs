use std::fs;
use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran};

on_both_engines!(what_is_near_is_narrowed_by_what_it_is);

/// The numbers of an embedding: as many as there may be, so that few embeddings are enough to be packed.
const NUMBERS: usize = 16_384;
/// More than are left in their table, by a few.
const MANY: usize = 70;

/// An embedding by its number, as JSON.
fn vector(number: usize) -> String {
    let numbers: Vec<String> = (0..NUMBERS).map(|at| ((at * (number + 3) / 7) % 10).to_string()).collect();
    format!("[{}]", numbers.join(","))
}

/// Adds items with embeddings to a thread, each of which says its number.
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

/// What the messages say that were found.
fn found(ran: &Ran) -> Vec<u64> {
    let messages = ran.field("/messages");
    let messages = messages.as_array().expect("messages");
    messages.iter().map(|one| one["content"]["content"].as_u64().expect("a number")).collect()
}

fn what_is_near_is_narrowed_by_what_it_is(place: &Place) {
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
    kit.run(&["sessions", "similar", "--vector", &vector, "--channel", "plan"]).is(0).says("none of the messages");
}

/// A home with so many embeddings that they are packed.
fn many() -> Kit {
    let kit = Kit::new();
    add(&kit, "demo", "user", 0..MANY);
    kit
}

fn vectors_line(kit: &Kit) -> String {
    let text = kit.run(&["doctor"]).text();
    text.lines().find(|line| line.contains(" vectors ")).expect("a line").to_owned()
}

#[test]
fn embeddings_are_packed_and_doctor_tells_so() {
    let kit = many();
    let pack = kit.home().join("state/vectors.pack");
    let nearest = || found(&kit.run(&["sessions", "similar", "--vector", &vector(33), "--k", "1", "--json"]).is(0));
    assert!(vectors_line(&kit).contains("none are packed"), "{}", vectors_line(&kit));
    assert_eq!(nearest(), [33]);
    assert!(vectors_line(&kit).contains("whole, 68 embeddings packed"), "{}", vectors_line(&kit));
    let mut bytes = fs::read(&pack).expect("a pack");
    bytes[1_000_000] ^= 1;
    fs::write(&pack, &bytes).expect("damaged");
    let ran = kit.run(&["doctor"]);
    assert!(ran.text().contains("warning  vectors"), "{}", ran.text());
    assert_eq!((nearest(), nearest()), (vec![33], vec![33]));
    assert!(vectors_line(&kit).contains("whole"), "{}", vectors_line(&kit));
    // It is no part of a copy, and the copy makes its own.
    let copy = kit.dir.path().join("copy");
    kit.run(&["state", "backup", copy.to_str().expect("a plain path")]).is(0);
    let copied: Vec<_> = walk(&copy).into_iter().filter(|name| name.starts_with("vectors")).collect();
    assert_eq!(copied, [""; 0]);
    fs::remove_file(&pack).expect("deleted");
    assert_eq!(nearest(), [33]);
}

/// The names of all files beneath a directory.
fn walk(directory: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in directory.read_dir().expect("a directory").flatten() {
        if entry.path().is_dir() {
            names.extend(walk(&entry.path()));
        } else {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names
}

#[test]
fn a_home_that_cannot_be_written_finds_what_is_near() {
    let kit = many();
    fs::write(kit.dir.path().join("vector"), vector(12)).expect("written");
    let search = || {
        let script = "mount --bind $H $H && mount -o remount,ro,bind $H && \
                      exec $D sessions similar --vector-file ${H%/*}/vector --k 1 --json";
        found(&Ran::of(kit.mounting(script)).is(0))
    };
    assert_eq!(search(), [12], "without a pack");
    kit.run(&["sessions", "similar", "--vector", &vector(1)]).is(0);
    assert!(kit.home().join("state/vectors.pack").exists());
    assert_eq!(search(), [12], "with one");
}

#[test]
fn a_full_disk_finds_what_is_near() {
    let kit = many();
    fs::write(kit.dir.path().join("vector"), vector(12)).expect("written");
    let output = kit.mounting(
        r#"set -u
        cp -r $H ${H%/*}/aside || exit 99
        mount -t tmpfs -o size=32m,mode=700 tmpfs $H || exit 98
        cp -r ${H%/*}/aside/. $H || exit 97
        head -c 64m /dev/zero > $H/filler 2>/dev/null
        $D sessions similar --vector-file ${H%/*}/vector --k 1 --json; echo "full: $?"
        ls $H/state
        rm -f $H/filler
        $D sessions similar --vector-file ${H%/*}/vector --k 1 --json; echo "again: $?"
        ls $H/state
        "#,
    );
    let ran = Ran::of(output).is(0);
    let text = ran.text();
    let (full, again) = text.split_once("full: 0\n").expect("searched where it is full");
    let (left, again) = again.split_once("{\"messages\"").expect("searched again");
    assert!(
        full.contains("\"content\":12") && again.contains("\"content\":12") && again.contains("again: 0"),
        "{text}"
    );
    assert!(!left.contains("vectors.pack") && !left.contains("vectors.new"), "a full disk is not left fuller: {left}");
    assert!(again.contains("vectors.pack"), "{again}");
}

#[test]
fn several_that_pack_at_once_answer_alike() {
    let kit = many();
    for _ in 0..3 {
        let running: Vec<_> = (0..4)
            .map(|number| {
                let mut command =
                    kit.command(&["sessions", "similar", "--vector", &vector(number), "--k", "1", "--json"]);
                command.stdout(Stdio::piped()).spawn().expect("starts")
            })
            .collect();
        for (child, number) in running.into_iter().zip(0..) {
            assert_eq!(found(&Ran::of(child.wait_with_output().expect("ends")).is(0)), [number]);
        }
        assert!(vectors_line(&kit).contains("whole, 68 embeddings packed"), "{}", vectors_line(&kit));
        fs::remove_file(kit.home().join("state/vectors.pack")).expect("deleted");
    }
}
