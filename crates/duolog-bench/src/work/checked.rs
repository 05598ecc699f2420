//! Text of unknown origin: every line is checked before it may enter the log.

use duolog::{Batch, Durability};

use crate::bare::{self, Bare};
use crate::bench::{Bench, log_file, store_in};
use crate::events;
use crate::measure::{Figure, Target, in_turns};

/// A hundred per call, and one.
pub fn run(bench: &Bench) -> Vec<Figure> {
    vec![
        figure(bench, "checked/hundred", 100, bench.size(16, 2), bench.size(61, 1), Target::AtMost(1.3)),
        figure(bench, "checked/one", 1, bench.size(512, 32), bench.size(101, 1), Target::AtMost(1.8)),
    ]
}

fn figure(bench: &Bench, name: &str, lines: usize, calls: usize, rounds: usize, target: Target) -> Figure {
    let room = bench.room();
    let (store, session) = store_in(room.path());
    let log = store.log(&session.id);
    let bare = Bare::in_dir(room.path());
    let given = events::batches(calls, lines);
    let texts: Vec<Vec<&[u8]>> = given.iter().map(events::lines_of).collect();
    let mut batch = Batch::default();
    let pairs = in_turns(
        rounds,
        (calls, calls),
        || {
            for text in &texts {
                batch.clear();
                for line in text {
                    batch.push(line).expect("a line");
                }
                log.append(&batch, Durability::Process).expect("appended");
            }
        },
        || {
            for (text, whole) in texts.iter().zip(&given) {
                for line in text {
                    bare::check(line);
                }
                bare.write(whole.as_bytes());
            }
        },
    );
    bare.assert_same(&log_file(&store, &session));
    let text = if lines == 1 { "a line".to_owned() } else { format!("{lines} lines") };
    let what = format!("{text} of text per call, checked / the same checks by serde_json, then write(2)");
    pairs.cost(name, &what, target)
}
