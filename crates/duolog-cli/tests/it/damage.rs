use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;

use crate::kit::{Kit, lines_of};

/// Checkpoints the write-ahead log into the database file, so that the file can be changed.
fn settled(kit: &Kit) -> std::path::PathBuf {
    kit.run(&["state", "checkpoint"]).is(0);
    kit.home().join("state/state.db")
}

#[test]
fn a_database_from_the_future_is_refused_and_left_alone() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let path = settled(&kit);
    let database = rusqlite::Connection::open(&path).expect("opens");
    database
        .execute_batch(
            "UPDATE schema_meta SET value = '999' WHERE key = 'version'; PRAGMA user_version = 999;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("aged");
    drop(database);
    let before = fs::read(&path).expect("a database");
    let commands: [&[&str]; 5] = [
        &["sessions", "list"],
        &["log", "append", "--session", "demo", "--line", "{}"],
        &["state", "migrate"],
        &["doctor"],
        &["log", "cat", "demo"],
    ];
    for args in commands {
        kit.run(args).is(5).says("version 999").says("knows up to 100").says("upgrade");
    }
    assert_eq!(fs::read(&path).expect("a database"), before);
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}"]);
}

#[test]
fn damaged_pages_of_the_database_are_damage() {
    let kit = Kit::new();
    for n in 0..20 {
        kit.append(&format!("thread-{n}"), "{\"n\":1}\n");
    }
    let path = settled(&kit);
    let mut file = fs::OpenOptions::new().write(true).open(&path).expect("a database");
    let bytes = file.metadata().expect("its size").len();
    file.seek(SeekFrom::Start(4096)).expect("there");
    file.write_all(&vec![0xa5; usize::try_from(bytes - 4096).expect("small")]).expect("damaged");
    drop(file);
    let commands: [&[&str]; 5] = [
        &["sessions", "list"],
        &["sessions", "show", "thread-1"],
        &["log", "append", "--session", "another", "--line", "{}"],
        &["state", "stats"],
        &["doctor"],
    ];
    for args in commands {
        let ran = kit.run(args).is(4);
        assert!(!ran.stderr.is_empty() || !ran.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(kit.run(&["doctor", "--json"]).is(4).field("/verdict"), "damaged");
    assert_eq!(lines_of(&kit.log_of("thread-1")), ["{\"n\":1}"]);
}

#[test]
fn a_quick_check_reads_the_latest_logs_and_a_deep_one_all() {
    let kit = Kit::new();
    kit.append("oldest", "{\"n\":1}\n");
    for number in 0..50 {
        kit.append(&format!("later-{number}"), "{\"n\":1}\n");
    }
    // The first check of a home after a boot reads every log.
    kit.run(&["sessions", "list"]).is(0);
    let log = kit.log_of("oldest");
    fs::write(&log, "{\"n\":2}\n").expect("changed");
    let quick = kit.run(&["doctor", "--json"]).is(0);
    assert_eq!((quick.field("/depth"), quick.field("/verdict")), ("quick".into(), "ok".into()), "{}", quick.text());
    let deep = kit.run(&["doctor", "--deep", "--json"]).is(4);
    assert_eq!((deep.field("/depth"), deep.field("/verdict")), ("deep".into(), "damaged".into()), "{}", deep.text());
    let names = |ran: &crate::kit::Ran| {
        let checks = ran.field("/checks");
        checks.as_array().expect("checks").iter().map(|check| check["name"].to_string()).collect::<Vec<_>>()
    };
    assert!(names(&quick).iter().all(|name| names(&deep).contains(name)));
    assert!(!names(&quick).contains(&"\"files\"".to_owned()) && names(&deep).contains(&"\"files\"".to_owned()));
}

#[test]
fn a_database_that_is_none_is_damage() {
    let kit = Kit::new();
    kit.append("demo", "{}");
    let path = settled(&kit);
    fs::write(&path, b"this is not a database, and long enough to look at: ".repeat(200)).expect("written");
    kit.run(&["sessions", "list"]).is(4);
    kit.run(&["doctor"]).is(4);
}

#[test]
fn a_log_path_that_is_not_a_file_is_damage() {
    for is_link in [false, true] {
        let kit = Kit::new();
        kit.append("demo", "{\"n\":1}\n");
        kit.append("fine", "{\"n\":2}\n");
        let log = kit.log_of("demo");
        let aside = log.with_extension("aside");
        fs::rename(&log, &aside).expect("moved");
        if is_link {
            std::os::unix::fs::symlink(&aside, &log).expect("linked");
        } else {
            fs::create_dir(&log).expect("made");
        }
        let what = if is_link { "a link" } else { "a directory" };
        kit.run(&["log", "cat", "demo"]).is(4).says(what).says("hint:");
        kit.run(&["log", "append", "--session", "demo", "--line", "{}"]).is(4).says(what);
        kit.run(&["log", "tail", "demo"]).is(4).says(what);
        kit.run(&["log", "verify", "demo"]).is(4).says(what);
        let all = kit.run(&["log", "verify", "--all", "--json"]).is(4);
        assert_eq!(all.field("/damaged_logs"), 1);
        assert_eq!(all.field("/results").as_array().map(Vec::len), Some(2), "the other log is checked");
        kit.run(&["doctor"]).is(4);
        kit.run(&["sessions", "list"]).is(0);
        kit.run(&["log", "cat", "fine"]).is(0);
        kit.run(&["sessions", "show", "demo"]).is(0).says(what);
        let backup = kit.run(&["state", "backup", "copy", "--json"]).is(4).says("could not be copied");
        assert_eq!(backup.field("/failures").as_array().map(Vec::len), Some(1));
        assert_eq!(backup.field("/log_count"), 1, "the other log is copied");
        assert_eq!(lines_of(&aside), ["{\"n\":1}"], "nothing was written through it");
    }
}

#[test]
fn a_damaged_line_is_skipped_told_and_counted() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    kit.run(&["sessions", "list"]).is(0);
    let mut file = fs::OpenOptions::new().write(true).open(kit.log_of("demo")).expect("a log");
    file.seek(SeekFrom::Start(8)).expect("there");
    file.write_all(b"\xff\xff\xff").expect("damaged");
    drop(file);
    for args in [&["log", "cat", "demo"][..], &["log", "tail", "demo"]] {
        let ran = kit.run(args).is(0).says("skipped 8 to 16: it is not UTF-8").says("1 damaged place skipped");
        assert_eq!(ran.text(), "{\"n\":1}\n{\"n\":3}\n");
    }
    kit.run(&["log", "cat", "demo", "--quiet"]).is(0).says("1 damaged place skipped");
    let verified = kit.run(&["log", "verify", "demo", "--json"]).is(4);
    assert_eq!(verified.field("/results/0/status"), "damaged");
    assert_eq!(verified.field("/results/0/places/0/position"), 8);
    kit.run(&["log", "verify", "demo"]).is(4).says("below the last seal");
    kit.run(&["state", "rebuild"]).is(0);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/damaged_lines"), 1);
    let shown = kit.run(&["sessions", "show", "demo"]).is(0).text();
    assert!(shown.contains("1 line cannot be read"), "{shown}");
    kit.run(&["doctor"]).is(4);
}

/// The cost of a quick check depends on what it reads, not on the total.
#[test]
fn a_large_database_is_checked_page_by_page_with_deep_only() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let database = |args: &[&str]| kit.run(args).is(0).field("/checks/3/detail").as_str().map(str::to_owned);
    let whole = Some("integrity and foreign keys hold".to_owned());
    assert_eq!(database(&["doctor", "--json"]), whole);
    let grown = rusqlite::Connection::open(settled(&kit)).expect("opens");
    grown
        .execute_batch(
            "CREATE TABLE grown (x); INSERT INTO grown VALUES (zeroblob(33554432)); DROP TABLE grown;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("grown");
    drop(grown);
    assert_eq!(database(&["doctor", "--json"]), Some("opens; use --deep to check its 32 MiB".to_owned()));
    assert_eq!(database(&["doctor", "--deep", "--json"]), whole);
}

/// Lines are copied in blocks: a damaged line must not affect others, and none may be doubled or reordered.
#[test]
fn damage_among_many_lines_costs_only_the_damaged_ones() {
    let kit = Kit::new();
    let line = |n: usize| format!("{{\"n\":{},\"text\":\"{}\"}}\n", 10_000_000 + n, "é".repeat(40));
    let length = line(0).len();
    kit.append("demo", &(0..9000).map(line).collect::<String>());
    // A raw NUL, half a character, a missing brace at either end, and an error that only a parser sees.
    let damage: [(usize, usize, &[u8]); 5] =
        [(10, 20, b"\0"), (3000, 30, b"x"), (3001, 0, b" "), (6000, length - 2, b" "), (8000, 4, b"\"")];
    let file = fs::OpenOptions::new().write(true).open(kit.log_of("demo")).expect("a log");
    for (number, at, bytes) in damage {
        file.write_all_at(bytes, (number * length + at) as u64).expect("damaged");
    }
    let mut broken = line(8000);
    broken.replace_range(4..5, "\"");
    let good = |n: usize| match n {
        10 | 3000 | 3001 | 6000 => String::new(),
        8000 => broken.clone(),
        n => line(n),
    };
    let cat = kit.run(&["log", "cat", "demo"]).is(0).says("4 damaged places skipped");
    let cat = cat.says(&format!("skipped {} to {}: it holds a raw NUL byte (at 20)", 10 * length, 11 * length));
    assert!(cat.text() == (0..9000).map(good).collect::<String>(), "every other line, once, in order");
    let some = kit.run(&["log", "cat", "demo", "--limit", "4000"]).is(0);
    assert!(some.text() == (0..4003).map(good).collect::<String>(), "the first 4,000 that can be read");
    let last = kit.run(&["log", "cat", "demo", "--last", "3001"]).is(0).says("1 damaged place skipped");
    assert!(last.text() == (5999..9000).map(good).collect::<String>(), "the last ones");
    let places = kit.run(&["log", "verify", "demo", "--json"]).is(4).field("/results/0/places");
    let is_told =
        |n: usize| places.as_array().is_some_and(|all| all.iter().any(|place| place["position"] == n * length));
    assert!([10, 3000, 3001, 6000, 8000].into_iter().all(is_told), "verify parses: {places}");
}

#[test]
fn a_torn_tail_is_a_warning_until_it_is_repaired() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    // No process is known to write the log, so opening the store does not check it.
    kit.run(&["sessions", "list"]).is(0);
    let mut file = fs::OpenOptions::new().append(true).open(kit.log_of("demo")).expect("a log");
    file.write_all(b"{\"torn\":").expect("torn");
    drop(file);
    assert_eq!(kit.run(&["log", "cat", "demo"]).is(0).text(), "{\"n\":1}\n");
    kit.run(&["log", "verify", "demo"]).is(0).says("8 bytes of a torn last line");
    let repaired = kit.run(&["log", "repair", "demo"]).is(0).text();
    assert!(repaired.contains("quarantined: 8 bytes of a torn line at 8"), "{repaired}");
    assert_eq!(kit.run(&["log", "repair", "demo", "--json"]).is(0).field("/repairs"), serde_json::json!([]));
    assert_eq!(kit.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
}

/// Creates a sealed log of three blocks; returns its path, its bytes and the ends of its lines.
fn sealed(kit: &Kit) -> (std::path::PathBuf, Vec<u8>, Vec<usize>) {
    let lines: Vec<_> = (0..250).map(|n| format!("{{\"n\":{n},\"text\":\"some words of line {n}\"}}\n")).collect();
    let lines = lines.concat();
    kit.append("demo", &lines);
    kit.run(&["sessions", "list"]).is(0);
    let starts = std::iter::once(0).chain(lines.match_indices('\n').map(|(at, _)| at + 1)).collect();
    (kit.log_of("demo"), lines.into_bytes(), starts)
}

#[test]
fn verify_reports_where_sealed_bytes_changed_and_if_the_rest_is_intact() {
    let kit = Kit::new();
    let (log, text, starts) = sealed(&kit);
    let len = text.len();
    let mut flipped = text.clone();
    flipped[5000] = b'#';
    let swapped =
        [&text[..starts[9]], &text[starts[10]..starts[11]], &text[starts[9]..starts[10]], &text[starts[11]..]];
    let removed = [&text[..starts[120]], &text[starts[121]..]].concat();
    let inserted = [&text[..starts[120]], b"{\"forged\":1}\n", &text[starts[120]..]].concat();
    let cut = &text[..starts[200]];
    let line = (starts[121] - starts[120]) as u64;
    let cases = [
        (&flipped[..], "in_place", None, 4096, "changed or reordered; the following bytes have not moved"),
        (&swapped.concat(), "in_place", None, 0, "changed or reordered; the following bytes have not moved"),
        (&removed, "removed", Some(line), 4096, "bytes are missing here; the following bytes moved to lower positions"),
        (
            &inserted,
            "inserted",
            Some(13),
            4096,
            "13 bytes are too many here; the following bytes moved to higher positions",
        ),
        (cut, "cut", Some((len - cut.len()) as u64), cut.len() as u64, "bytes are missing"),
    ];
    for (bytes, change, count, from, told) in cases {
        fs::write(&log, bytes).expect("damaged");
        let ran = kit.run(&["log", "verify", "demo", "--json"]).is(4).says(told);
        let place = ran.field("/results/0/places/0");
        assert_eq!((&place["change"], &place["position"]), (&change.into(), &from.into()), "{place}");
        assert_eq!(place["bytes"], serde_json::json!(count), "{place}");
        let number = |name: &str| place[name].as_u64().expect("a number");
        let before = &bytes[..usize::try_from(number("line_position")).expect("small")];
        assert_eq!(before.split(|byte| *byte == b'\n').count() as u64, number("line"), "{place}");
        assert!(number("line_position") <= from && number("line") <= number("last_line"), "{place}");
        assert_eq!(ran.field("/results/0/damaged_places"), 1);
        kit.run(&["log", "verify", "demo"]).is(4).says("below the last seal").says(told);
    }
}

#[test]
fn repair_reports_what_it_did_and_what_remains() {
    let kit = Kit::new();
    let (log, text, starts) = sealed(&kit);
    let mut flipped = text.clone();
    flipped[5000] = b'#';
    fs::write(&log, &flipped).expect("damaged");
    let told = kit.run(&["log", "repair", "demo"]).is(4).text();
    assert!(told.contains("nothing was repaired") && told.contains("not repaired: 4096 to 8192"), "{told}");
    assert_eq!(fs::read(&log).expect("a log"), flipped);

    let removed = [&text[..starts[120]], &text[starts[121]..]].concat();
    fs::write(&log, &removed).expect("damaged");
    let ran = kit.run(&["log", "repair", "demo", "--json"]).is(0);
    assert_eq!((ran.field("/repairs/0/action"), ran.field("/remaining/damaged_places")), ("shorter".into(), 0.into()));
    let detail = ran.field("/repairs/0/detail").as_str().expect("a detail").to_owned();
    assert!(detail.contains("bytes are missing here"), "{detail}");
    kit.run(&["log", "verify", "demo"]).is(0);
    assert_eq!(fs::read(&log).expect("a log"), removed);

    let inside = &removed[..removed.len() - 7];
    fs::write(&log, inside).expect("damaged");
    let told = kit.run(&["log", "repair", "demo"]).is(0).text();
    assert!(told.contains("terminated: ") && told.contains("shorter: ") && told.contains("found: "), "{told}");
    assert!(told.contains("not repaired: "), "{told}");
    kit.run(&["log", "verify", "demo"]).is(0).says("unsynced loss").says("lines were lost");
    assert_eq!(fs::read(&log).expect("a log"), [inside, b"\n"].concat(), "no byte that stood was lost");
}
