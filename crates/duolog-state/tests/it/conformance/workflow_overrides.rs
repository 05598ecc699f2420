use duolog_state::owned::workflow_overrides::{self, OverrideRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;
use crate::at;

on_both_engines!(the_last_override_is_stored_until_it_is_removed);

fn the_last_override_is_stored_until_it_is_removed(place: &Place) {
    with_session(place, |tx| {
        let said = |name: &str, enabled| OverrideRow {
            name: name.to_owned(),
            enabled,
            updated_at: at(1),
            updated_by: Some("ada".to_owned()),
        };
        workflow_overrides::put(tx, &said("b", true))?;
        workflow_overrides::put(tx, &said("a", true))?;
        workflow_overrides::put(tx, &said("b", false))?;
        assert_eq!(workflow_overrides::find(tx, "b")?, Some(said("b", false)));
        assert_eq!(workflow_overrides::find(tx, "c")?, None);
        assert_eq!(workflow_overrides::list(tx, "", 9)?, [said("a", true), said("b", false)]);
        assert_eq!(workflow_overrides::list(tx, "a", 9)?.len(), 1);
        assert!(workflow_overrides::remove(tx, "b")?);
        assert!(!workflow_overrides::remove(tx, "b")?);
        Ok(())
    });
}
