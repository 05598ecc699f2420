use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::blackbox::{Group, Options, Profile, run, summary};
use duolog_testkit::postgres::{Access, Shared};
use duolog_types::mutant::Mutant;

/// Returns the binary next to those of this crate; `make build` and every run of the whole workspace build it.
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

/// The seed is random and is printed; `duolog-blackbox --seed SEED` repeats the run.
#[allow(clippy::print_stdout)]
fn holds(options: &Options) {
    println!("seed {}", options.seed);
    let tally = run(options, &mut |line| println!("{line}"));
    println!("{}", summary(&tally).join("\n"));
    assert_eq!((tally.passed, tally.failed), (options.rounds, 0), "seed {}", options.seed);
    assert!(tally.commands()[0] > 0, "nothing was acknowledged");
}

/// Generates a test for each group of nouns.
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
    one_order_explains_the_state_of_a_run: Runs,
    one_order_explains_the_state_of_a_gate: Gates,
    no_more_runs_are_running_than_the_limit: Queue,
    a_due_time_fires_once: Schedules,
    a_message_of_a_chat_is_kept_once: Chats,
    a_message_is_in_an_inbox_once: Inboxes,
    one_order_explains_the_items_of_a_conversation: Items,
    pages_lose_no_row_while_others_write: Pages,
}

/// The rules that can be violated if no order of the commands explains the state.
const MODEL: &[&str] = &[
    "one order explains all answers",
    "invalid commands are refused",
    "refused commands change nothing",
    "acknowledged changes take effect",
    "all or nothing",
    // Rules about the lists of the same objects.
    "running runs are within the limit",
    "a gate is listed by its status",
];
const PAGES: &[&str] = &["pages lose no row", "pages show a row once"];

/// The test must find a rule of runs, gates and lists that is removed in the binary. The seed decides what the workers
/// do, so a violation is likely in one round and certain in a few.
macro_rules! removed_rules_are_found {
    ($($name:ident: $mutant:ident by $group:ident --seed $seed:literal finds $rules:expr),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                is_found(Mutant::$mutant, Group::$group, $seed, $rules);
            }
        )+

        #[test]
        fn every_removed_rule_is_looked_for() {
            let hunted = [$(Mutant::$mutant),+];
            assert!(Mutant::DOMAIN.iter().all(|mutant| hunted.contains(mutant)));
        }
    };
}

removed_rules_are_found! {
    a_closed_execution_that_changes_is_found: ClosedExecutionsChange by Runs --seed 101 finds MODEL,
    a_phase_end_in_two_transactions_is_found: EndInTwoTransactions by Runs --seed 101 finds MODEL,
    a_loop_state_that_is_replaced_is_found: LoopStateReplaced by Gates --seed 102 finds MODEL,
    a_resume_without_a_slot_is_found: ResumeWithoutSlot by Queue --seed 103 finds MODEL,
    a_pending_gate_that_is_hidden_is_found: GatesFilteredAfterPage by Gates --seed 102 finds MODEL,
    pages_that_lose_rows_are_found: StartsPagedByStatus by Pages --seed 104 finds PAGES,
}

#[allow(clippy::print_stdout)]
fn is_found(mutant: Mutant, group: Group, seed: u64, rules: &[&str]) {
    let options = options(Profile::Only(group), 10);
    let options = Options { seed, mutant: Some(format!("{mutant:?}")), keep: false, ..options };
    let tally = run(&options, &mut |line| println!("{line}"));
    println!("{}", summary(&tally).join("\n"));
    let found: Vec<&str> = tally.broken.keys().copied().collect();
    let built = "; is the binary a test build? cargo build -p duolog-cli -p duolog-testkit";
    assert!(found.iter().any(|rule| rules.contains(rule)), "without the rule of {mutant:?} {found:?} is found{built}");
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
