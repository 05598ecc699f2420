use duolog_testkit::crash::mutants::hunt;
use duolog_types::mutant::Mutant;

/// Rules that other tests remove: `removed.rs` of `duolog-join`, and `forked.rs` here.
const SHOWN_ELSEWHERE: &[Mutant] = &[
    Mutant::NoClaimMode,
    Mutant::ForkedAppend,
    Mutant::EpochAfterUnlink,
    Mutant::UnlinkForgotten,
    Mutant::EpochsRestart,
    Mutant::FollowerKeepsEpoch,
    Mutant::BackupUncut,
    Mutant::LinesLeftWaiting,
    Mutant::OperationByContent,
];

/// One test for each, because the switch is global to the process.
macro_rules! must_be_caught {
    ($($name:ident: $mutant:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let caught = hunt(Mutant::$mutant);
                let (script, points, what, broken) = caught.by.expect("with this rule removed something must not hold");
                println!("noticed after {points} points of {script:?} ({what}): {}", broken.0);
            }
        )+

        #[test]
        fn every_mutant_is_hunted() {
            let hunted = [$(Mutant::$mutant),+];
            let all: Vec<Mutant> = hunted.iter().chain(SHOWN_ELSEWHERE).copied().collect();
            assert_eq!(Mutant::ALL.iter().filter(|mutant| !all.contains(mutant)).count(), 0);
        }
    };
}

must_be_caught! {
    without_the_floor_scan_a_line_stands_twice: NoFloorScan,
    without_the_stable_end_a_follower_sees_what_is_taken_back: NoStableEnd,
    with_partial_bytes_kept_a_follower_sees_a_fused_line: PartialBytesKept,
    with_marks_cleared_by_others_derived_rows_stay_behind: MarksClearedByOthers,
    without_the_link_check_a_line_goes_to_a_deleted_file: NoLinkCheck,
    without_epochs_a_changed_log_is_taken_for_the_old_one: NoEpoch,
    without_the_log_sync_a_durable_line_is_lost: NoLogSync,
    with_normal_commits_a_durable_transition_is_lost: NormalSync,
    with_pointers_before_the_sync_rows_name_bytes_that_are_gone: PointerBeforeSync,
    without_the_outbox_a_transition_is_not_told: NoOutbox,
    with_the_torn_tail_kept_the_next_line_fuses_with_it: TornTailKept,
}
