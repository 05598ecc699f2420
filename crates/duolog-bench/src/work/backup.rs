//! A backup of a home, synced and compared.

use std::process::Command;

use duolog::Store;

use crate::bare;
use crate::bench::{Bench, finish, tool};
use crate::benchmark::Target;
use crate::measure::{Case, timed, timed_in_turns};

/// The backup of a store against `cp -r`, `sync -f` and one BLAKE3 pass over the copy.
pub fn case(bench: &Bench, name: &str, of: &str, store: &Store) -> Case {
    let (directory, store, rounds) = (bench.new_dir(), store.clone(), bench.size(3, 1));
    let what = format!("backup of {of} / cp -r, sync -f and a BLAKE3 pass");
    let case = Case::cost(name, &what, Target::AtMost(2.5), move || {
        let copies = tempfile::tempdir_in(&directory).expect("a directory");
        let (ours_at, bare_at) = (copies.path().join("ours"), copies.path().join("bare"));
        let ours = || {
            let (took, backup) = timed(|| store.state().backup(&ours_at, |_| {}));
            backup.expect("a backup");
            std::fs::remove_dir_all(&ours_at).expect("removed");
            took
        };
        let limit = || {
            let (took, bytes) = timed(|| {
                finish(Command::new("cp").arg("-r").arg(&store.home().state).arg(&bare_at));
                finish(Command::new("sync").arg("-f").arg(&bare_at));
                bare::hash_all(&bare_at)
            });
            assert!(bytes > 0);
            std::fs::remove_dir_all(&bare_at).expect("removed");
            took
        };
        timed_in_turns(rounds, ours, limit)
    });
    case.needs(&tool("cp")).needs(&tool("sync"))
}
