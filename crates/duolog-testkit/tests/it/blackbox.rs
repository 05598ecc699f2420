use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::blackbox::{Group, Options, Profile, run, summary};
use duolog_testkit::postgres::{Access, Shared};

/// The binary beside those of this crate; `make build` puts it there, and so does any run of the whole workspace.
fn duolog() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_duolog-blackbox")).with_file_name("duolog");
    assert!(beside.is_file(), "{} is not built: cargo build -p duolog-cli", beside.display());
    beside
}

fn options(profile: Profile, rounds: u32) -> Options {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let binary = duolog();
    let directory = binary.parent().expect("a directory").to_owned();
    Options {
        seed,
        rounds,
        time: None,
        processes: 8,
        steps: 20,
        profile,
        binary,
        store: None,
        directory,
        mutant: None,
        keep: true,
        keep_going: false,
    }
}

/// The seed is another each time and is printed; `duolog-blackbox --seed SEED` plays it again.
#[allow(clippy::print_stdout)]
fn holds(options: &Options) {
    println!("seed {}", options.seed);
    let tally = run(options, &mut |line| println!("{line}"));
    println!("{}", summary(&tally).join("\n"));
    assert_eq!((tally.passed, tally.failed), (options.rounds, 0), "seed {}", options.seed);
    assert!(tally.commands()[0] > 0, "nothing was acknowledged");
}

/// Only the nouns of one group.
macro_rules! groups_hold {
    ($($name:ident: $group:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                holds(&Options { steps: 6, ..options(Profile::Only(Group::$group), 1) });
            }
        )+

        #[test]
        fn every_group_is_tested() {
            let tested = [$(Group::$group),+];
            assert!(Group::ALL.iter().all(|(_, group)| tested.contains(group)));
        }
    };
}

groups_hold! {
    one_order_explains_what_became_of_a_run: Runs,
    one_order_explains_what_became_of_a_gate: Gates,
    no_more_runs_are_running_than_the_limit: Queue,
    a_due_time_fires_once: Schedules,
    a_message_of_a_chat_is_kept_once: Chats,
    a_message_is_in_an_inbox_once: Inboxes,
    one_order_explains_the_items_of_a_conversation: Items,
    pages_lose_no_row_while_others_write: Pages,
}

fn server() -> Access {
    Shared::get().unwrap_or_else(|error| panic!("a server: {error}")).clone()
}

#[test]
fn random_commands_of_many_processes_keep_every_promise() {
    holds(&options(Profile::All, 3));
}

#[test]
fn random_commands_on_a_server_keep_every_promise() {
    holds(&Options { store: Some(server()), steps: 10, ..options(Profile::All, 2) });
}

#[test]
fn append_delete_and_re_create_side_by_side_lose_nothing() {
    holds(&options(Profile::Race, 2));
}
