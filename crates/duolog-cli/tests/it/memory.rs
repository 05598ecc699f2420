use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::process::{Child, Stdio};

use crate::kit::Kit;

const LOG_BYTES: usize = 1 << 30;
const LONGEST_LINE: usize = 1 << 20;
/// The memory limit of a command that reads, whatever the size of the log.
const MEMORY_MAX: u64 = (32 << 20) + 2 * LONGEST_LINE as u64;

/// Returns the peak memory of a process so far.
fn peak_bytes(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Runs a command to its end, and again if it ended before its memory was read. Returns the bytes that it printed and
/// its peak memory.
fn measured(kit: &Kit, args: &[&str]) -> (u64, u64) {
    (0..100).map(|_| measured_once(kit, args)).find(|(_, peak)| *peak > 0).expect("it was looked at")
}

fn measured_once(kit: &Kit, args: &[&str]) -> (u64, u64) {
    let mut child = kit.command(args).stdout(Stdio::piped()).spawn().expect("starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
        loop {
            match stdout.read(&mut buffer).expect("read") {
                0 => return total,
                n => total += n as u64,
            }
        }
    });
    let mut peak = 0;
    while child.try_wait().expect("waits").is_none() {
        peak = peak.max(peak_bytes(&child).unwrap_or_default());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(child.wait().expect("ended").success(), "{args:?}");
    (reader.join().expect("read"), peak)
}

#[test]
fn a_large_log_is_read_in_little_memory() {
    let kit = Kit::new();
    kit.append("large", "{\"first\":true}\n");
    let path = kit.log_of("large");
    let long = format!("{{\"long\":\"{}\"}}\n", "x".repeat(LONGEST_LINE - 12));
    let short = format!("{{\"short\":\"{}\"}}\n", "y".repeat(1000));
    let mut file = BufWriter::with_capacity(1 << 20, File::options().append(true).open(&path).expect("a log"));
    file.write_all(long.as_bytes()).expect("written");
    let mut written = long.len();
    while written < LOG_BYTES {
        file.write_all(short.as_bytes()).expect("written");
        written += short.len();
    }
    drop(file.into_inner().expect("written"));
    let bytes = path.metadata().expect("a log").len();
    let reads: [(&[&str], u64); 3] = [
        (&["log", "cat", "large"], bytes),
        (&["log", "tail", "large", "-n", "5"], 5 * short.len() as u64),
        (&["log", "verify", "large", "--json"], 0),
    ];
    for (args, expected) in reads {
        // A command that ended too early has no memory reading.
        let measured = std::iter::repeat_with(|| measured(&kit, args)).take(100).find(|(_, peak)| *peak > 0);
        let (printed, peak) = measured.expect("one that was seen");
        assert!(printed == expected || expected == 0, "{args:?} printed {printed} of {expected} bytes");
        assert!(peak <= MEMORY_MAX, "{args:?} held {} KiB", peak >> 10);
    }
}

/// The number of items and of lines in the session that is exported and imported, of a KiB each.
const MOVED: usize = 48 << 10;
/// The memory limit of both commands, for nearly 100 MiB of data.
const MOVED_MEMORY_MAX: u64 = 48 << 20;

#[test]
fn a_large_session_moves_in_little_memory() {
    let (kit, other) = (Kit::new(), Kit::new());
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1012));
    let lines = line.repeat(MOVED);
    kit.append("large", &lines);
    kit.feed(&["sessions", "add", "--session", "large", "--quiet"], lines.as_bytes()).is(0);
    let (printed, peak) = measured(&kit, &["sessions", "export", "large"]);
    assert!(printed > 2 * lines.len() as u64, "{printed} bytes");
    assert!(peak <= MOVED_MEMORY_MAX, "the export held {} KiB", peak >> 10);
    kit.run(&["sessions", "export", "large", "--output", "large.json"]).is(0);
    let document = kit.dir.path().join("large.json");
    let path = document.to_str().expect("a plain path");
    let (_, peak) = measured_once(&other, &["sessions", "import", path]);
    assert!(peak > 0 && peak <= MOVED_MEMORY_MAX, "the import held {} KiB", peak >> 10);
    assert!(std::fs::read(other.log_of("large")).expect("a log") == lines.as_bytes());
    let shown = other.run(&["sessions", "compact", "large", "--info", "--json"]).is(0);
    assert_eq!(shown.field("/item_count"), MOVED);
}
