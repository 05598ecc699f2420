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

/// Only the nouns of one group, on either engine.
macro_rules! groups_hold {
    ($($group:ident: $in_a_file:ident, $on_a_server:ident);+ $(;)?) => {
        $(
            #[test]
            fn $in_a_file() {
                holds(&options(Profile::Only(Group::$group), 1));
            }

            #[test]
            fn $on_a_server() {
                holds(&Options { store: Some(server()), ..options(Profile::Only(Group::$group), 1) });
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
    Runs: random_runs_are_explained_by_one_order, random_runs_on_a_server_are_explained_by_one_order;
    Gates: random_gates_are_explained_by_one_order, random_gates_on_a_server_are_explained_by_one_order;
    Queue: no_more_runs_run_than_may, no_more_runs_run_than_may_on_a_server;
    Schedules: every_due_time_fires_once, every_due_time_fires_once_on_a_server;
    Chats: a_message_of_a_chat_is_kept_once, a_message_of_a_chat_is_kept_once_on_a_server;
    Inboxes: a_message_is_in_its_inbox_once, a_message_is_in_its_inbox_once_on_a_server;
    Items: random_items_are_explained_by_one_order, random_items_on_a_server_are_explained_by_one_order;
    Pages: pages_lose_no_row_while_others_write, pages_lose_no_row_on_a_server_while_others_write;
}

fn server() -> Access {
    Shared::get().unwrap_or_else(|error| panic!("a server: {error}")).clone()
}

#[test]
fn random_commands_of_many_processes_keep_every_promise() {
    holds(&options(Profile::All, 4));
}

#[test]
fn random_commands_on_a_server_keep_every_promise() {
    holds(&Options { store: Some(server()), ..options(Profile::All, 2) });
}

#[test]
fn append_delete_and_re_create_side_by_side_lose_nothing() {
    holds(&options(Profile::Race, 2));
}
