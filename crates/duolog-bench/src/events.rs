//! Generated events of 200 bytes to 8 KiB, the same in every run.

use std::borrow::Cow;

use duolog::{Batch, Durability, Store};
use serde::{Deserialize, Serialize};

/// The sizes of the mix, in turns: most events are short, a few have a tool's output.
const SIZES: [usize; 16] = [200, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000];

/// The only line of logs in workloads with many logs.
pub const LINE: &[u8] = br#"{"type":"user","message":{"role":"user","content":"What is the plan?"}}"#;

/// An event of an agent.
#[derive(Serialize, Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    pub ord: usize,
    #[serde(borrow)]
    pub timestamp: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Message<'a>,
    pub usage: [u32; 2],
}

#[derive(Serialize, Deserialize)]
pub struct Message<'a> {
    #[serde(borrow)]
    pub role: Cow<'a, str>,
    #[serde(borrow)]
    pub content: Cow<'a, str>,
}

/// Returns the event with this number.
pub fn event(ord: usize) -> Event<'static> {
    let kind = if ord.is_multiple_of(2) { "user" } else { "assistant" };
    let mut event = Event {
        kind: kind.into(),
        ord,
        timestamp: "2026-11-15T09:30:00.000000Z".into(),
        message: Message { role: kind.into(), content: "".into() },
        usage: [1200, 345],
    };
    let around = serde_json::to_string(&event).expect("JSON").len();
    let size = SIZES[ord % SIZES.len()].saturating_sub(around);
    // Words, quotes and newlines: serialised text needs a few escapes, as real text does. An escape is two bytes.
    let text = "let plan = \"read, then write\";\nThe agent looked at the file and went on with it. ";
    let mut content = String::with_capacity(size);
    let mut left = size;
    for c in text.chars().cycle() {
        let width = if matches!(c, '"' | '\n') { 2 } else { 1 };
        if left < width {
            break;
        }
        content.push(c);
        left -= width;
    }
    event.message.content = content.into();
    event
}

/// Returns `count` batches of `lines` serialised events each.
pub fn batches(count: usize, lines: usize) -> Vec<Batch> {
    let batch = |number| {
        let mut batch = Batch::default();
        for ord in 0..lines {
            batch.push_event(&event(number * lines + ord)).expect("an event is a line");
        }
        batch
    };
    (0..count).map(batch).collect()
}

/// Returns the lines of a batch, without their newlines.
pub fn lines_of(batch: &Batch) -> Vec<&[u8]> {
    batch.lines().map(|line| &batch.as_bytes()[line.start..line.end - 1]).collect()
}

/// Returns a batch of one line.
pub fn batch_of(line: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.push(line).expect("a line");
    batch
}

/// Creates sessions `s-00000000` and up, each with one line. Threads share their commits.
pub fn make_sessions(store: &Store, count: usize) {
    const THREADS: usize = 16;
    let batch = batch_of(LINE);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let batch = &batch;
            scope.spawn(move || {
                for number in (thread..count).step_by(THREADS) {
                    let session = store.sessions().open_thread(&format!("s-{number:08}")).expect("a session");
                    store.log(&session.id).append(batch, Durability::Process).expect("appended");
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_sizes_of_the_mix() {
        for (batch, size) in batches(SIZES.len(), 1).iter().zip(SIZES) {
            let len = batch.as_bytes().len() - 1;
            assert!(len.abs_diff(size) <= 1, "{len} for {size}");
        }
    }
}
