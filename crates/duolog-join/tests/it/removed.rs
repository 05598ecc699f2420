//! The rules of `promise`, removed one at a time: the test of each rule must fail. Each runs in its own process,
//! because the switch is global to the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use duolog_testkit::engines::Place;
use duolog_types::mutant::{self, Mutant};

use crate::{homes, promise};

/// Environment variables that tell a process that it runs only one test; nextest sets its own.
const ALONE: [&str; 2] = ["DUOLOG_TEST_ALONE", "NEXTEST"];

fn is_noticed(name: &str, mutant: Mutant, test: impl Fn()) {
    if ALONE.iter().all(|name| std::env::var_os(name).is_none()) {
        let program = std::env::current_exe().expect("a program");
        let status = Command::new(program).args(["--exact", &format!("removed::{name}")]).env(ALONE[0], "1").status();
        assert!(status.expect("runs").success(), "{name} failed in its own process");
        return;
    }
    test();
    mutant::set(Some(mutant));
    // A race does not show in every run.
    let noticed = (0..20).any(|_| catch_unwind(AssertUnwindSafe(&test)).is_err());
    mutant::set(None);
    assert!(noticed, "without the rule of {mutant:?} the test still passes");
}

fn is_noticed_by(name: &str, mutant: Mutant, test: fn(&Place)) {
    is_noticed(name, mutant, || test(&Place::sqlite()));
}

#[test]
fn operations_known_by_their_content_are_noticed() {
    is_noticed_by(
        "operations_known_by_their_content_are_noticed",
        Mutant::OperationByContent,
        promise::equal_lines_of_different_operations_are_all_appended,
    );
}

#[test]
fn a_claim_without_its_mode_is_noticed() {
    is_noticed_by(
        "a_claim_without_its_mode_is_noticed",
        Mutant::NoClaimMode,
        promise::a_claim_of_a_dead_writer_is_settled_first,
    );
}

#[test]
fn epochs_that_begin_at_zero_again_are_noticed() {
    is_noticed_by(
        "epochs_that_begin_at_zero_again_are_noticed",
        Mutant::EpochsRestart,
        promise::a_path_and_an_epoch_are_never_used_twice,
    );
}

#[test]
fn an_epoch_that_is_raised_after_the_unlink_is_noticed() {
    is_noticed_by(
        "an_epoch_that_is_raised_after_the_unlink_is_noticed",
        Mutant::EpochAfterUnlink,
        promise::deleting_a_log_loses_no_line_of_the_new_epoch,
    );
}

#[test]
fn a_file_that_is_forgotten_between_epoch_and_unlink_is_noticed() {
    is_noticed_by(
        "a_file_that_is_forgotten_between_epoch_and_unlink_is_noticed",
        Mutant::UnlinkForgotten,
        promise::an_interrupted_log_deletion_is_finished_first,
    );
}

#[test]
fn a_follower_that_keeps_its_epoch_is_noticed() {
    is_noticed_by(
        "a_follower_that_keeps_its_epoch_is_noticed",
        Mutant::FollowerKeepsEpoch,
        promise::a_follower_across_a_repair_sees_each_line_once,
    );
}

#[test]
fn lines_left_in_the_outbox_are_noticed() {
    is_noticed_by(
        "lines_left_in_the_outbox_are_noticed",
        Mutant::LinesLeftWaiting,
        promise::an_append_after_a_change_comes_after_its_line,
    );
}

#[test]
fn a_backup_that_is_not_cut_is_noticed() {
    is_noticed(
        "a_backup_that_is_not_cut_is_noticed",
        Mutant::BackupUncut,
        homes::operations_retried_in_a_backup_are_done_once,
    );
}
