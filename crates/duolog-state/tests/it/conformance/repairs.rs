use duolog_state::owned::repairs::{self, LostRow, NewRepair, RepairAction};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Epoch, Position};

use super::{remove_session, with_session};
use crate::{at, home, id};

on_both_engines!(a_repair_is_recorded_once_and_outlives_its_session);

fn a_repair_is_recorded_once_and_outlives_its_session(place: &Place) {
    with_session(place, |tx| {
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
            let lost_before = repairs::lost(tx, &home())?;
            if *action == RepairAction::Deleted {
                let losses = repairs::losses(tx, &id("s"), 10)?.into_iter().map(|row| row.repair.action);
                let expected = RepairAction::ALL.iter().rev().copied().filter(|action| action.is_loss());
                assert_eq!(losses.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                assert_eq!(repairs::losses_of_home(tx, &home(), 10)?, repairs::losses(tx, &id("s"), 10)?);
            }
            assert!(repairs::note(tx, &repair)?);
            let lost = repairs::lost(tx, &home())?;
            let of_session = repairs::lost_of(tx, &id("s"))?;
            assert_eq!(of_session, (lost.sessions > 0).then_some(lost.bytes), "{action}");
            let by_session: Vec<_> = of_session.map(|bytes| (id("s"), bytes)).into_iter().collect();
            assert_eq!(repairs::lost_by_session(tx, &home())?, by_session, "{action}");
            match action {
                RepairAction::Shorter | RepairAction::Replaced | RepairAction::Missing => {
                    assert_eq!(lost, LostRow { sessions: 1, bytes: lost_before.bytes + 3 }, "{action}");
                }
                RepairAction::Deleted => assert_eq!(lost, LostRow::default(), "a user deleted it"),
                _ => assert_eq!(lost, lost_before, "{action}"),
            }
            assert!(!repairs::note(tx, &NewRepair { repaired_at: at(2), ..repair.clone() })?);
            assert_eq!(repairs::list(tx, Some(&id("s")), 1)?[0].repair, repair);
        }
        assert_eq!(repairs::losses(tx, &id("s"), 10)?, [], "a deleted log has no loss");
        assert_eq!(repairs::losses_of_home(tx, &home(), 10)?, []);
        assert_eq!(repairs::losses(tx, &id("t"), 10)?, []);
        remove_session(tx, &id("s"))?;
        assert_eq!(repairs::count(tx)?, RepairAction::ALL.len() as u64);
        assert_eq!(repairs::list(tx, None, 3)?.len(), 3);
        Ok(())
    });
}
