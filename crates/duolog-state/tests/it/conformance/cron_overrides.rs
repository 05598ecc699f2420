use duolog_state::ConstraintKind;
use duolog_state::owned::cron_overrides::{self, CronOverrideRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Durability;
use duolog_types::limits::{NAME_BYTES_MAX, WORD_BYTES_MAX};

use super::is_constraint;
use crate::at;

on_both_engines!(an_override_is_stored_and_removed);

fn an_override_is_stored_and_removed(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        assert_eq!(cron_overrides::find(tx, "nightly")?, None);
        let first = CronOverrideRow {
            name: "nightly".to_owned(),
            enabled: Some(false),
            schedule: None,
            zone: None,
            updated_at: at(1),
            updated_by: None,
        };
        cron_overrides::put(tx, &first)?;
        assert_eq!(cron_overrides::find(tx, "nightly")?.as_ref(), Some(&first));
        let second = CronOverrideRow {
            enabled: None,
            schedule: Some("0 4 * * *".to_owned()),
            zone: Some("Asia/Kathmandu".to_owned()),
            updated_at: at(2),
            updated_by: Some("ada".to_owned()),
            ..first.clone()
        };
        cron_overrides::put(tx, &second)?;
        let other = CronOverrideRow { name: "Weekly".to_owned(), ..first.clone() };
        cron_overrides::put(tx, &other)?;
        assert_eq!(cron_overrides::list(tx, "", 9)?, [other.clone(), second.clone()]);
        assert_eq!(cron_overrides::list(tx, "Weekly", 9)?, std::slice::from_ref(&second));
        assert_eq!(cron_overrides::list(tx, "", 1)?, std::slice::from_ref(&other));
        let wrong = [
            CronOverrideRow { name: String::new(), ..first.clone() },
            CronOverrideRow { name: "x".repeat(NAME_BYTES_MAX + 1), ..first.clone() },
            CronOverrideRow { schedule: Some("x".repeat(NAME_BYTES_MAX + 1)), ..first.clone() },
            CronOverrideRow { zone: Some("x".repeat(WORD_BYTES_MAX + 1)), ..first.clone() },
            CronOverrideRow { updated_by: Some(String::new()), ..first },
        ];
        for row in wrong {
            let refused = tx.savepoint(|tx| cron_overrides::put(tx, &row));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{refused:?}");
        }
        assert!(cron_overrides::remove(tx, "nightly")?);
        assert!(!cron_overrides::remove(tx, "nightly")?, "it is removed");
        assert_eq!(cron_overrides::find(tx, "nightly")?, None);
        Ok::<_, duolog_state::Error>(())
    });
    done.expect("writes");
}
