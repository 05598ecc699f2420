//! What is written: events of 200 bytes to 8 KiB, the same in every run.

use duolog::Batch;
use serde::Serialize;

/// The sizes of the mix, in turns: most events are short, a few carry a tool's output.
const SIZES: [usize; 16] = [200, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000];

/// An event as an agent would write it.
#[derive(Serialize)]
pub struct Event {
    #[serde(rename = "type")]
    kind: &'static str,
    ord: usize,
    timestamp: &'static str,
    message: Message,
    usage: [u32; 2],
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
}

/// The event with this number.
pub fn event(ord: usize) -> Event {
    let mut event = Event {
        kind: if ord.is_multiple_of(2) { "user" } else { "assistant" },
        ord,
        timestamp: "2026-11-15T09:30:00.000000Z",
        message: Message { role: "assistant", content: String::new() },
        usage: [1200, 345],
    };
    let bare = serde_json::to_string(&event).expect("JSON").len();
    let room = SIZES[ord % SIZES.len()].saturating_sub(bare);
    // Words, quotes and newlines: what serialises needs a few escapes, as real text does. An escape is two bytes.
    let text = "let plan = \"read, then write\";\nThe agent looked at the file and went on with it. ";
    let mut content = String::with_capacity(room);
    let mut left = room;
    for c in text.chars().cycle() {
        let width = if matches!(c, '"' | '\n') { 2 } else { 1 };
        if left < width {
            break;
        }
        content.push(c);
        left -= width;
    }
    event.message.content = content;
    event
}

/// So many batches of so many events each, serialised.
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

/// The lines of a batch, without their newlines.
pub fn lines_of(batch: &Batch) -> Vec<&[u8]> {
    batch.lines().map(|line| &batch.as_bytes()[line.start..line.end - 1]).collect()
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
