use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::operations::{self, OperationRow};
use duolog_state::owned::outbox::{self, NewOutbox};
use duolog_state::owned::repairs::{self, NewRepair, RepairAction};
use duolog_state::owned::seals::{self, SealRow};
use duolog_state::owned::sessions::{self, SessionFilter, SessionRow};
use duolog_state::{ConstraintKind, Error, Page, PageToken, Tx, params};
use duolog_types::limits::{METADATA_BYTES_MAX, OUTBOX_LINE_BYTES_MAX, REASON_BYTES_MAX};
use duolog_types::{
    Durability, Epoch, HomeId, InvocationKind, OperationId, OutboxId, Position, ProcessId, SessionStatus, SourceKind,
};

use super::{at, home, id, open, session};

/// Runs a test's statements in one transaction on a new state that has session `s`.
fn with_session(f: impl FnOnce(&mut Tx<'_>) -> Result<(), Error> + Send + 'static) {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let done = state.write(Durability::Process, |tx| {
        sessions::insert(tx, &session("s"))?;
        f(tx)
    });
    done.expect("writes");
}

fn is_constraint(answer: &Result<impl Sized, Error>, expected: ConstraintKind) -> bool {
    matches!(answer, Err(Error::Constraint { kind, .. }) if *kind == expected)
}

#[test]
fn a_session_reads_back_whole() {
    with_session(|tx| {
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
        assert_eq!(sessions::find_addressed(tx, Some("ü@example"), "näme")?, Some(full));
        assert_eq!(sessions::find_addressed(tx, None, "näme")?, None);
        assert_eq!(sessions::find(tx, &id("none"))?, None);
        let long = SessionRow { node_metadata: Some("x".repeat(METADATA_BYTES_MAX + 1)), ..session("long") };
        assert!(is_constraint(&tx.savepoint(|tx| sessions::insert(tx, &long)), ConstraintKind::Check));
        Ok(())
    });
}

#[test]
fn addresses_and_logs_are_unique() {
    with_session(|tx| {
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
            sessions::remove(tx, &id("c"))?;
        }
        assert!(is_constraint(
            &tx.savepoint(|tx| sessions::insert(tx, &SessionRow { id: id("z"), ..session("a") })),
            ConstraintKind::Unique
        ));
        let key = session("a").log_key;
        assert!(sessions::log_key_taken(tx, &home(), &key)?);
        assert!(!sessions::log_key_taken(tx, &HomeId::new(), &key)?);
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
        assert!(sessions::tombstone(tx, &id("a"), at(10))?);
        assert!(!sessions::tombstone(tx, &id("a"), at(11))?);
        assert_eq!(sessions::find_addressed(tx, None, "renamed")?, None);
        assert!(sessions::log_key_taken(tx, &home(), &key)?, "its log may still be there");
        sessions::insert(tx, &named("e", None, "renamed"))?;
        Ok(())
    });
}

#[test]
fn sessions_are_listed_newest_first_page_by_page() {
    with_session(|tx| {
        sessions::remove(tx, &id("s"))?;
        for number in 0..10_i64 {
            // Pairs share an instant: the id decides, and no row is shown twice or left out.
            let status = (number % 3 == 0).then_some(SessionStatus::Failed);
            let user = (number % 2 == 0).then(|| "u".to_owned());
            sessions::insert(
                tx,
                &SessionRow { updated_at: at(number / 2), status, user_id: user, ..session(&format!("s{number}")) },
            )?;
        }
        sessions::tombstone(tx, &id("s4"), at(99))?;
        let walk = |tx: &mut Tx<'_>, filter: &SessionFilter| {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let rows = sessions::list(tx, filter, &Page::new(2, after))?;
                let Some(last) = rows.last() else { return Ok::<_, Error>(seen.join(" ")) };
                after = Some(PageToken::after(last.updated_at, &last.id));
                seen.extend(rows.into_iter().map(|row| row.id.to_string()));
            }
        };
        assert_eq!(walk(tx, &SessionFilter::default())?, "s9 s8 s7 s6 s5 s3 s2 s1 s0");
        assert_eq!(
            walk(tx, &SessionFilter { status: Some(SessionStatus::Failed), ..Default::default() })?,
            "s9 s6 s3 s0"
        );
        assert_eq!(walk(tx, &SessionFilter { user_id: Some("u".into()), ..Default::default() })?, "s8 s6 s2 s0");
        let both = SessionFilter { user_id: Some("u".into()), status: Some(SessionStatus::Failed) };
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
        sessions::touch(tx, &id("s0"), at(50))?;
        sessions::touch(tx, &id("s0"), at(40))?;
        assert_eq!(sessions::list(tx, &SessionFilter::default(), &Page::new(1, None))?[0].updated_at, at(50));
        Ok(())
    });
}

#[test]
fn an_epoch_is_raised_only_from_where_it_was_seen() {
    with_session(|tx| {
        assert!(sessions::raise_epoch(tx, &id("s"), Epoch(0))?);
        assert!(!sessions::raise_epoch(tx, &id("s"), Epoch(0))?);
        assert_eq!(sessions::find(tx, &id("s"))?.map(|row| row.log_epoch), Some(Epoch(1)));
        Ok(())
    });
}

#[test]
fn the_outbox_gives_lines_back_in_order_until_deleted() {
    with_session(|tx| {
        let line = |text: &str| NewOutbox {
            uuid: OutboxId::new(),
            session_id: id("s"),
            home_id: home(),
            epoch: Epoch(1),
            floor: Position(7),
            line: text.to_owned(),
            created_at: at(1),
        };
        let longest = "x".repeat(OUTBOX_LINE_BYTES_MAX);
        let ids =
            [outbox::insert(tx, &line("a"))?, outbox::insert(tx, &line("b"))?, outbox::insert(tx, &line(&longest))?];
        assert!(is_constraint(
            &tx.savepoint(|tx| outbox::insert(tx, &line(&format!("{longest}x")))),
            ConstraintKind::Check
        ));
        let orphan = NewOutbox { session_id: id("none"), ..line("a") };
        assert!(is_constraint(&tx.savepoint(|tx| outbox::insert(tx, &orphan)), ConstraintKind::ForeignKey));
        outbox::note_failure(tx, ids[0], &"é".repeat(REASON_BYTES_MAX))?;
        let rows = outbox::pending(tx, &id("s"), &home(), 2)?;
        assert_eq!(rows.iter().map(|row| row.line.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((rows[0].attempts, rows[0].floor, rows[0].epoch), (1, Position(7), Epoch(1)));
        assert_eq!(rows[0].last_error.as_ref().map(String::len), Some(REASON_BYTES_MAX));
        assert_eq!(outbox::pending(tx, &id("s"), &HomeId::new(), 2)?, [], "another home's lines wait");
        assert_eq!(outbox::waiting(tx, &home(), 9)?, [(id("s"), 3)]);
        assert_eq!(outbox::delete(tx, &ids)?, 3);
        assert_eq!(outbox::delete(tx, &ids)?, 0);
        assert!(outbox::insert(tx, &line("c"))? > ids[2], "a number never comes again");
        sessions::remove(tx, &id("s"))?;
        assert_eq!(outbox::count(tx)?, 0);
        Ok(())
    });
}

#[test]
fn a_mark_is_cleared_only_by_the_burst_that_set_it() {
    with_session(|tx| {
        let process = ProcessId::new();
        let mark = |generation| BehindRow {
            session_id: id("s"),
            process_id: process,
            home_id: home(),
            generation,
            pid: 7,
            marked_at: at(1),
        };
        behind::mark(tx, &mark(1))?;
        behind::mark(tx, &mark(2))?;
        behind::mark(tx, &mark(1))?;
        assert_eq!(behind::of_session(tx, &id("s"))?, [mark(2)]);
        assert!(!behind::clear(tx, &id("s"), &process, 1)?);
        assert!(!behind::clear(tx, &id("s"), &ProcessId::new(), 2)?);
        assert_eq!(behind::of_home(tx, &home(), None, 9)?, [mark(2)]);
        assert_eq!(behind::of_home(tx, &home(), Some((&id("s"), &process)), 9)?, []);
        assert!(behind::clear(tx, &id("s"), &process, 2)?);
        // Left to nobody twice: a fold that saw the first does not delete the second.
        for generation in [3, 4] {
            behind::mark(tx, &mark(generation))?;
            assert!(behind::hand_over(tx, &mark(generation))?);
            assert!(!behind::hand_over(tx, &mark(generation))?);
        }
        let left = behind::of_session(tx, &id("s"))?;
        assert_eq!(
            left.iter().map(|row| (row.process_id, row.generation)).collect::<Vec<_>>(),
            [(ProcessId::NOBODY, 2)]
        );
        assert!(!behind::clear(tx, &id("s"), &ProcessId::NOBODY, 1)?);
        assert!(behind::clear(tx, &id("s"), &ProcessId::NOBODY, 2)?);
        Ok(())
    });
}

#[test]
fn the_same_repair_is_noted_once_and_outlives_its_session() {
    with_session(|tx| {
        for action in RepairAction::ALL {
            let repair = NewRepair {
                session_id: id("s"),
                home_id: home(),
                epoch: Epoch(0),
                action: *action,
                position: Position(5),
                bytes: 3,
                hash: Some([7; 32]),
                detail: Some("torn".into()),
                repaired_at: at(1),
            };
            assert!(repairs::note(tx, &repair)?);
            assert!(!repairs::note(tx, &NewRepair { repaired_at: at(2), ..repair.clone() })?);
            assert_eq!(repairs::list(tx, Some(&id("s")), 1)?[0].repair, repair);
        }
        sessions::remove(tx, &id("s"))?;
        assert_eq!(repairs::count(tx)?, RepairAction::ALL.len() as u64);
        assert_eq!(repairs::list(tx, None, 3)?.len(), 3);
        Ok(())
    });
}

#[test]
fn a_seal_is_extended_only_as_it_was_seen() {
    with_session(|tx| {
        let seal = SealRow {
            session_id: id("s"),
            epoch: Epoch(0),
            ord: 0,
            home_id: home(),
            from_position: Position(0),
            to_position: Position(10),
            hash: [1; 32],
            sealed_at: at(1),
        };
        assert_eq!(seals::last(tx, &id("s"), Epoch(0))?, None);
        seals::insert(tx, &seal)?;
        assert!(is_constraint(&tx.savepoint(|tx| seals::insert(tx, &seal)), ConstraintKind::Unique));
        let empty = SealRow { ord: 1, from_position: Position(10), ..seal.clone() };
        assert!(is_constraint(&tx.savepoint(|tx| seals::insert(tx, &empty)), ConstraintKind::Check));
        assert!(seals::extend(tx, &seal, Position(20), &[2; 32], at(2))?);
        assert!(!seals::extend(tx, &seal, Position(30), &[3; 32], at(3))?);
        let extended = SealRow { to_position: Position(20), hash: [2; 32], sealed_at: at(2), ..seal.clone() };
        let next = SealRow { ord: 1, from_position: Position(20), to_position: Position(30), ..seal };
        seals::insert(tx, &next)?;
        assert_eq!(seals::last(tx, &id("s"), Epoch(0))?, Some(next.clone()));
        assert_eq!(seals::page(tx, &id("s"), Epoch(0), 0, 9)?, [extended, next.clone()]);
        assert_eq!(seals::page(tx, &id("s"), Epoch(0), 1, 9)?, [next]);
        assert_eq!(seals::last(tx, &id("s"), Epoch(1))?, None);
        Ok(())
    });
}

#[test]
fn an_operation_is_found_by_its_retry() {
    with_session(|tx| {
        let operation = OperationId::parse("op/1").expect("an id");
        let row = OperationRow {
            session_id: id("s"),
            operation_id: operation.clone(),
            home_id: home(),
            content_hash: [9; 32],
            lines: 4,
            done_lines: 0,
            epoch: Epoch(0),
            position: Position(0),
            created_at: at(1),
            updated_at: at(1),
        };
        assert_eq!(operations::find(tx, &id("s"), &operation)?, None);
        operations::insert(tx, &row)?;
        assert!(is_constraint(&tx.savepoint(|tx| operations::insert(tx, &row)), ConstraintKind::Unique));
        assert!(operations::place(tx, &id("s"), &operation, Epoch(1), Position(8), 4, at(2))?);
        let placed = OperationRow { epoch: Epoch(1), position: Position(8), done_lines: 4, updated_at: at(2), ..row };
        assert_eq!(operations::find(tx, &id("s"), &operation)?, Some(placed));
        let none = OperationId::parse("none").expect("an id");
        assert!(!operations::place(tx, &id("s"), &none, Epoch(1), Position(8), 4, at(2))?);
        Ok(())
    });
}

#[test]
fn of_two_folds_one_advances_the_catalog() {
    with_session(|tx| {
        let row = |epoch, position| CatalogRow {
            session_id: id("s"),
            home_id: home(),
            epoch: Epoch(epoch),
            position: Position(position),
            line_hash: Some([4; 32]),
            events: 2,
            bytes: position,
            damaged: 0,
            first_at: Some(at(1)),
            last_at: Some(at(2)),
        };
        assert!(catalog::advance(tx, None, &row(0, 10))?);
        assert!(!catalog::advance(tx, None, &row(0, 20))?);
        assert!(catalog::advance(tx, Some((Epoch(0), Position(10))), &row(0, 20))?);
        assert!(!catalog::advance(tx, Some((Epoch(0), Position(10))), &row(0, 30))?);
        assert!(!catalog::advance(tx, Some((Epoch(1), Position(20))), &row(1, 30))?);
        assert_eq!(catalog::get(tx, &id("s"))?, Some(row(0, 20)));
        assert!(!catalog::replace(tx, &row(0, 10))?, "what is further on stays");
        assert!(catalog::replace(tx, &row(0, 20))?);
        assert!(catalog::replace(tx, &row(1, 5))?);
        assert!(!catalog::replace(tx, &row(0, 99))?);
        let listed = sessions::list(tx, &SessionFilter::default(), &Page::default())?;
        assert_eq!((listed[0].events, listed[0].bytes), (Some(2), Some(5)));
        assert_eq!(catalog::dump(tx)?, [row(1, 5)]);
        catalog::clear(tx)?;
        assert!(catalog::replace(tx, &row(0, 1))?, "absent is replaced by anything");
        Ok(())
    });
}

#[test]
fn a_number_that_no_column_holds_is_refused() {
    with_session(|tx| {
        let answer = tx.execute("UPDATE sessions SET log_base = ?1", params![Position(u64::MAX)]);
        assert!(matches!(answer, Err(Error::OutOfRange { value: u64::MAX })), "{answer:?}");
        Ok(())
    });
}
