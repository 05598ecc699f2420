//! Events that survive power loss.

use duolog::Durability;

use crate::bare::Bare;
use crate::bench::{Bench, log_file, store_in};
use crate::events;
use crate::measure::{Figure, Target, in_turns};

/// One per call: a pair is one append of each.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let room = bench.room();
    let (store, session) = store_in(room.path());
    let log = store.log(&session.id);
    let bare = Bare::in_dir(room.path());
    let batches = events::batches(16, 1);
    let (mut ours, mut limit) = (batches.iter().cycle(), batches.iter().cycle());
    let pairs = in_turns(
        bench.size(1001, 5),
        (1, 1),
        || {
            log.append(ours.next().expect("endless"), Durability::Power).expect("appended");
        },
        || bare.write_synced(limit.next().expect("endless").as_bytes()),
    );
    bare.assert_same(&log_file(&store, &session));
    vec![pairs.cost("power/one", "durable event per call / write(2) and fdatasync(2)", Target::AtMost(1.25))]
}
