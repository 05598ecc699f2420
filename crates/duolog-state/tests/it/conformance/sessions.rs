use duolog_state::owned;
use duolog_state::owned::sessions::{self, SessionFilter, SessionRow};
use duolog_state::{ConstraintKind, Error, Page, PageToken, Sql, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::METADATA_BYTES_MAX;
use duolog_types::{Epoch, HomeId, InvocationKind, Position, ProgressionId, SessionStatus, SourceKind};

use super::{is_constraint, log_of, message, remove_session, with_session};
use crate::{at, home, id, session};

on_both_engines!(
    a_session_reads_back_as_inserted,
    a_session_is_described_and_counted,
    addresses_and_logs_are_unique,
    sessions_are_listed_newest_first_page_by_page,
    an_epoch_is_raised_only_from_the_expected_one,
    unfinished_deletions_are_found,
    a_pool_and_its_bookmarks_are_recorded,
    a_status_changes_only_from_the_expected_one,
    every_list_is_read_from_its_index_in_order
);

fn a_session_is_described_and_counted(place: &Place) {
    with_session(place, |tx| {
        let mut row = SessionRow { user_id: Some("ada".into()), ..session("t") };
        sessions::insert(tx, &row)?;
        row.agent_name = Some("coder".into());
        row.show_topic = Some("tests".into());
        row.node_metadata = Some("{\"a\":1}".into());
        row.ended_at = Some(at(7));
        row.updated_at = at(9);
        assert!(sessions::describe(tx, &row, at(9))?);
        assert_eq!(sessions::find(tx, &row.id)?, Some(row.clone()));
        assert!(!sessions::describe(tx, &session("none"), at(9))?);
        assert_eq!(sessions::ids(tx, &home(), None, None, 9)?, [id("s"), id("t")]);
        assert_eq!(sessions::ids(tx, &home(), None, Some(&id("s")), 9)?, [id("t")]);
        assert_eq!(sessions::ids(tx, &home(), Some("ada"), None, 9)?, [id("t")]);
        assert_eq!((sessions::count(tx, &home(), None)?, sessions::count(tx, &home(), Some("ada"))?), (2, 1));
        assert_eq!(sessions::count(tx, &HomeId::new(), None)?, 0);
        let elsewhere = |tx: &mut Tx<'_>, home: &HomeId, limit| -> duolog_state::Result<_> {
            let (count, first) = sessions::elsewhere(tx, home, limit)?;
            Ok((count, first.into_iter().map(|row| (row.session_id, row.home_id)).collect::<Vec<_>>()))
        };
        assert_eq!(elsewhere(tx, &HomeId::new(), 9)?, (0, vec![]), "no log has a line");
        for session in ["s", "t"] {
            owned::behind::mark_for_nobody(tx, &id(session), &home(), at(9))?;
        }
        assert_eq!(elsewhere(tx, &HomeId::new(), 1)?, (2, vec![(id("s"), home())]));
        assert_eq!(elsewhere(tx, &home(), 9)?, (0, vec![]), "both belong to this home");
        Ok(())
    });
}

fn a_session_reads_back_as_inserted(place: &Place) {
    with_session(place, |tx| {
        let full = SessionRow {
            user_id: Some("ü@example".into()),
            name: Some("näme".into()),
            addressed: true,
            log_base: Position(1 << 40),
            log_epoch: Epoch(3),
            cwd: Some("/work".into()),
            agent_name: Some("agent".into()),
            invocation_kind: Some(InvocationKind::ShowPlay),
            playbook_name: Some("playbook".into()),
            show_topic: Some("topic".into()),
            show_play_name: Some("play".into()),
            artifacts_path: Some("artifacts".into()),
            source_kind: SourceKind::ImportedCodex,
            status: Some(SessionStatus::TimedOut),
            started_at: Some(at(2)),
            updated_at: at(3),
            ended_at: Some(at(4)),
            first_msg_id: Some("m1".into()),
            last_msg_id: Some("m2".into()),
            progression_id: Some("p".into()),
            node_metadata: Some("x".repeat(METADATA_BYTES_MAX)),
            ..session("full")
        };
        sessions::insert(tx, &full)?;
        assert_eq!(sessions::find(tx, &full.id)?, Some(full.clone()));
        assert_eq!(sessions::find_by_log(tx, &full.home_id, &full.log_path)?.as_ref(), Some(&full));
        assert_eq!(sessions::find_by_log(tx, &full.home_id, &full.log_path.to_uppercase())?, None);
        assert_eq!(sessions::find_by_log(tx, &HomeId::new(), &full.log_path)?, None);
        assert_eq!(sessions::find_addressed(tx, Some("ü@example"), "näme")?, Some(full));
        assert_eq!(sessions::find_addressed(tx, None, "näme")?, None);
        assert_eq!(sessions::find(tx, &id("none"))?, None);
        let long = SessionRow { node_metadata: Some("x".repeat(METADATA_BYTES_MAX + 1)), ..session("long") };
        assert!(is_constraint(&tx.savepoint(|tx| sessions::insert(tx, &long)), ConstraintKind::Check));
        Ok(())
    });
}

fn addresses_and_logs_are_unique(place: &Place) {
    with_session(place, |tx| {
        let named = |key: &str, user: Option<&str>, name: &str| SessionRow {
            user_id: user.map(str::to_owned),
            name: Some(name.to_owned()),
            addressed: true,
            ..session(key)
        };
        sessions::insert(tx, &named("a", None, "n"))?;
        sessions::insert(tx, &named("b", Some("u"), "n"))?;
        for twice in [named("c", None, "n"), named("c", Some("u"), "n")] {
            assert!(is_constraint(&tx.savepoint(|tx| sessions::insert(tx, &twice)), ConstraintKind::Unique));
            sessions::insert(tx, &SessionRow { addressed: false, ..twice })?;
            assert!(remove_session(tx, &id("c"))?);
        }
        assert!(is_constraint(
            &tx.savepoint(|tx| sessions::insert(tx, &SessionRow { id: id("z"), ..session("a") })),
            ConstraintKind::Unique
        ));
        assert!(is_constraint(
            &tx.savepoint(|tx| {
                sessions::insert(tx, &named("d", None, "other"))?;
                sessions::rename(tx, &id("d"), "n", at(9))
            }),
            ConstraintKind::Unique
        ));
        assert!(sessions::rename(tx, &id("a"), "renamed", at(9))?);
        assert!(sessions::find_addressed(tx, None, "renamed")?.is_some());
        assert!(!sessions::rename(tx, &id("none"), "x", at(9))?);
        assert!(sessions::tombstone(tx, &id("a"), &log_of(&id("a")), at(10))?);
        assert!(!sessions::tombstone(tx, &id("a"), &log_of(&id("a")), at(11))?);
        assert_eq!(sessions::find_addressed(tx, None, "renamed")?, None);
        sessions::insert(tx, &named("e", None, "renamed"))?;
        Ok(())
    });
}

fn sessions_are_listed_newest_first_page_by_page(place: &Place) {
    with_session(place, |tx| {
        remove_session(tx, &id("s"))?;
        for number in 0..10_i64 {
            // Pairs share a timestamp: the id decides, and no row is shown twice or left out.
            let status = (number % 3 == 0).then_some(SessionStatus::Failed);
            let user = (number % 2 == 0).then(|| "u".to_owned());
            sessions::insert(
                tx,
                &SessionRow { updated_at: at(number / 2), status, user_id: user, ..session(&format!("s{number}")) },
            )?;
        }
        sessions::tombstone(tx, &id("s4"), &log_of(&id("s4")), at(99))?;
        let walk = |tx: &mut Tx<'_>, filter: &SessionFilter| {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let rows = sessions::list(tx, filter, &Page::new(2, after))?;
                let Some(last) = rows.last() else { return Ok::<_, Error>(seen.join(" ")) };
                after = Some(PageToken::after(filter.list(), last.updated_at, &last.id));
                seen.extend(rows.into_iter().map(|row| row.id.to_string()));
            }
        };
        assert_eq!(walk(tx, &SessionFilter::default())?, "s9 s8 s7 s6 s5 s3 s2 s1 s0");
        assert_eq!(
            walk(tx, &SessionFilter { status: Some(SessionStatus::Failed), ..Default::default() })?,
            "s9 s6 s3 s0"
        );
        assert_eq!(walk(tx, &SessionFilter { user_id: Some("u".into()), ..Default::default() })?, "s8 s6 s2 s0");
        let both =
            SessionFilter { user_id: Some("u".into()), status: Some(SessionStatus::Failed), ..Default::default() };
        assert_eq!(walk(tx, &both)?, "s6 s0");
        assert_eq!(sessions::count_by_status(tx)?, [(None, 5), (Some(SessionStatus::Failed), 4)]);
        assert_eq!(sessions::starting_with(tx, "s", 3)?, [id("s0"), id("s1"), id("s2")]);
        assert_eq!(sessions::starting_with(tx, "s9", 3)?, [id("s9")]);
        assert_eq!(sessions::starting_with(tx, "%", 3)?, []);
        let logs = sessions::logs(tx, &home(), Some(&id("s3")), 2)?;
        assert_eq!(
            logs.iter().map(|log| (log.session_id.as_str(), log.deleted)).collect::<Vec<_>>(),
            [("s4", true), ("s5", false)]
        );
        let folded = sessions::folded(tx, &home(), Some(&id("s3")), 2)?;
        let told: Vec<_> = folded.iter().map(|log| (log.session_id.as_str(), log.epoch, log.folded)).collect();
        assert_eq!(told, [("s5", Epoch(0), None), ("s6", Epoch(0), None)], "deleted sessions are left out");
        let filter = SessionFilter::default();
        let (first, next) = sessions::list_page(tx, &filter, &Page::new(8, None))?;
        assert_eq!((first.len(), next.is_some()), (8, true));
        let (rest, end) = sessions::list_page(tx, &filter, &Page::new(8, next))?;
        assert_eq!((rest.len(), end), (1, None));
        sessions::touch(tx, &id("s0"), at(50))?;
        sessions::touch(tx, &id("s0"), at(40))?;
        assert_eq!(sessions::list(tx, &SessionFilter::default(), &Page::new(1, None))?[0].updated_at, at(50));
        Ok(())
    });
}

fn an_epoch_is_raised_only_from_the_expected_one(place: &Place) {
    with_session(place, |tx| {
        assert!(sessions::raise_epoch(tx, &id("s"), Epoch(0))?);
        assert!(!sessions::raise_epoch(tx, &id("s"), Epoch(0))?);
        assert!(!sessions::owe_unlink(tx, &id("s"), Epoch(0))?, "the epoch is another");
        assert!(!sessions::confirm_unlink(tx, &id("s"), Epoch(1))?, "no unlink is due");
        assert!(sessions::owe_unlink(tx, &id("s"), Epoch(1))?);
        assert!(sessions::confirm_unlink(tx, &id("s"), Epoch(1))?);
        assert_eq!(sessions::with_unlink_due(tx, &home(), 9)?, [id("s")]);
        assert!(!sessions::note_unlinked(tx, &id("s"), Epoch(0))?);
        assert!(sessions::note_unlinked(tx, &id("s"), Epoch(1))?);
        assert!(!sessions::note_unlinked(tx, &id("s"), Epoch(1))?, "it is recorded already");
        assert_eq!(sessions::with_unlink_due(tx, &home(), 9)?, []);
        assert_eq!(sessions::find(tx, &id("s"))?.map(|row| row.log_epoch), Some(Epoch(1)));
        let path = log_of(&id("s"));
        assert!(sessions::names_log(tx, &id("s"), &path, Epoch(1))?);
        assert!(!sessions::names_log(tx, &id("s"), &path, Epoch(0))?, "its epoch is another");
        assert!(!sessions::names_log(tx, &id("s"), "another.jsonl", Epoch(1))?, "its log is another");
        assert!(!sessions::remove(tx, &id("s"), &path)?, "it is not marked as deleted");
        assert!(!sessions::tombstone(tx, &id("s"), "another.jsonl", at(2))?, "its log is another");
        assert!(sessions::tombstone(tx, &id("s"), &path, at(2))?);
        assert!(!sessions::names_log(tx, &id("s"), &path, Epoch(1))?, "it is deleted");
        assert!(!sessions::raise_epoch(tx, &id("s"), Epoch(1))?, "it is deleted");
        Ok(())
    });
}

fn a_pool_and_its_bookmarks_are_recorded(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(sessions::pool(tx, &id("none"))?, None);
        assert_eq!(sessions::pool(tx, &id("s"))?.and_then(|row| row.progression_id), None);
        let pool = ProgressionId::new();
        sessions::set_pool(tx, &id("s"), &pool)?;
        assert_eq!(sessions::pool(tx, &id("s"))?.and_then(|row| row.progression_id), Some(pool));
        let marks = |tx: &mut Tx<'_>| {
            let row = sessions::find(tx, &id("s"))?.expect("there");
            Ok::<_, Error>((row.first_msg_id, row.last_msg_id, row.updated_at))
        };
        let text = |text: &str| Some(text.to_owned());
        assert!(!sessions::enter(tx, &id("none"), at(5))? && sessions::enter(tx, &id("s"), at(5))?);
        sessions::enter(tx, &id("s"), at(4))?;
        sessions::note_messages(tx, &id("s"), &message("a"), &message("c"))?;
        sessions::note_messages(tx, &id("s"), &message("b"), &message("b"))?;
        assert_eq!(marks(tx)?, (text("a"), text("b"), at(5)), "the timestamp never moves back");
        sessions::set_bookmarks(tx, &id("s"), Some(&message("b")), None)?;
        assert_eq!(marks(tx)?, (text("b"), None, at(5)));
        let (first, last) = (message("d"), message("e"));
        assert!(!sessions::enter_with(tx, &id("none"), at(6), &first, &last)?);
        assert!(sessions::enter_with(tx, &id("s"), at(6), &first, &last)?);
        assert_eq!(marks(tx)?, (text("b"), text("e"), at(6)));
        sessions::set_bookmarks(tx, &id("s"), None, None)?;
        sessions::enter_with(tx, &id("s"), at(1), &first, &last)?;
        assert_eq!(marks(tx)?, (text("d"), text("e"), at(6)));
        sessions::forget_conversations(tx, &id("s"))?;
        sessions::forget_conversations(tx, &id("none"))?;
        assert_eq!(marks(tx)?, (None, None, at(6)));
        assert_eq!(sessions::pool(tx, &id("s"))?.and_then(|row| row.progression_id), None);
        sessions::tombstone(tx, &id("s"), &log_of(&id("s")), at(9))?;
        assert!(sessions::pool(tx, &id("s"))?.is_some_and(|row| row.deleted));
        Ok(())
    });
}

fn a_status_changes_only_from_the_expected_one(place: &Place) {
    with_session(place, |tx| {
        use SessionStatus::{Failed, Running};
        assert!(!sessions::set_status(tx, &id("s"), Some(Running), Failed, at(2))?);
        assert!(sessions::set_status(tx, &id("s"), None, Running, at(2))?);
        let row = sessions::find(tx, &id("s"))?.expect("there");
        assert_eq!(
            (row.status, row.started_at, row.ended_at, row.updated_at),
            (Some(Running), Some(at(2)), None, at(2))
        );
        assert!(!sessions::set_status(tx, &id("s"), None, Failed, at(3))?);
        assert!(sessions::set_status(tx, &id("s"), Some(Running), Failed, at(3))?);
        let row = sessions::find(tx, &id("s"))?.expect("there");
        assert_eq!((row.status, row.started_at, row.ended_at), (Some(Failed), Some(at(2)), Some(at(3))));
        assert!(sessions::set_status(tx, &id("s"), Some(Failed), Running, at(4))?);
        assert_eq!(sessions::find(tx, &id("s"))?.expect("there").ended_at, None, "it is running");
        Ok(())
    });
}

fn unfinished_deletions_are_found(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(sessions::tombstoned(tx, &home(), 9)?, []);
        assert!(!owned::has_unfinished_work(tx, &home())?);
        assert!(sessions::tombstone(tx, &id("s"), &log_of(&id("s")), at(2))?);
        assert_eq!(sessions::tombstoned(tx, &home(), 9)?, [id("s")]);
        assert!(owned::has_unfinished_work(tx, &home())?);
        assert!(!owned::has_unfinished_work(tx, &HomeId::new())?);
        assert_eq!(sessions::tombstoned(tx, &HomeId::new(), 9)?, []);
        assert!(!sessions::remove(tx, &id("s"), "another.jsonl")?, "the session has another log");
        assert!(sessions::remove(tx, &id("s"), &log_of(&id("s")))?);
        assert!(!sessions::remove(tx, &id("s"), &log_of(&id("s")))?);
        Ok(())
    });
}

fn every_list_is_read_from_its_index_in_order(place: &Place) {
    let state = place.open();
    let (user, status) = (Some("u".to_owned()), Some(SessionStatus::Failed));
    for (filter, index) in [
        (SessionFilter::default(), "sessions_newest"),
        (SessionFilter { status, ..Default::default() }, "sessions_by_status"),
        (SessionFilter { user_id: user.clone(), ..Default::default() }, "sessions_by_user"),
        (SessionFilter { user_id: user, status, ..Default::default() }, "sessions_by_"),
        (SessionFilter { agent_name: Some("a".to_owned()), ..Default::default() }, "sessions_by_agent"),
        (SessionFilter { playbook_name: Some("p".to_owned()), ..Default::default() }, "sessions_by_playbook"),
        (SessionFilter { invocation_kind: Some(InvocationKind::Play), ..Default::default() }, "sessions_by_kind"),
        (SessionFilter { cwd: Some("/srv".to_owned()), ..Default::default() }, "sessions_by_cwd"),
        (SessionFilter { source_kind: Some(SourceKind::ImportedFs), ..Default::default() }, "sessions_by_source"),
        (SessionFilter { source_kind: Some(SourceKind::Live), ..Default::default() }, "sessions_newest"),
        (SessionFilter { since: Some(at(1)), ..Default::default() }, "sessions_newest"),
    ] {
        for page in
            [Page::default(), Page::new(20, Some(PageToken::after(SessionFilter::default().list(), at(5), &id("s"))))]
        {
            let explain = |tx: &mut Tx<'_>| {
                // An empty table may be scanned.
                let no_scan = Sql::each("SELECT 1", "SELECT set_config('enable_seqscan', 'off', true)");
                tx.find(no_scan, &[], |_| Ok(()))?;
                sessions::explain_list(tx, &filter, &page)
            };
            let plan = state.read(explain).expect("explains").join("\n");
            assert!(
                plan.to_lowercase().contains(&format!("using {index}"))
                    || plan.contains(&format!("USING INDEX {index}")),
                "{plan}"
            );
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN c") && !plan.contains("Sort"), "{plan}");
        }
    }
}
