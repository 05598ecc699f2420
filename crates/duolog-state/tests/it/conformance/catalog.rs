use duolog_state::derived::catalog::{self, CatalogRow, FoldedTo};
use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{Page, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Epoch, Position};

use super::with_session;
use crate::{at, home, id};

on_both_engines!(only_one_of_two_folds_advances_the_catalog);

fn only_one_of_two_folds_advances_the_catalog(place: &Place) {
    with_session(place, |tx| {
        let row = |epoch, position| CatalogRow {
            line_hash: Some([4; 32]),
            events: 2,
            bytes: position,
            first_at: Some(at(1)),
            last_at: Some(at(2)),
            dialect: Some("claude".to_owned()),
            model: Some("m".to_owned()),
            title: Some("what it is about".to_owned()),
            fold_version: 3,
            shared: 1,
            ..CatalogRow::new(id("s"), home(), Epoch(epoch), Position(position))
        };
        assert!(catalog::advance(tx, None, &row(0, 10))?);
        catalog::lock(tx, [&id("s"), &id("t")])?;
        assert!(!catalog::advance(tx, None, &row(0, 20))?);
        let from = |epoch, position, fold_version| {
            Some(FoldedTo { epoch: Epoch(epoch), position: Position(position), fold_version, shared: 1 })
        };
        assert_eq!(Some(row(0, 10).checkpoint()), from(0, 10, 3));
        assert!(catalog::advance(tx, from(0, 10, 3), &row(0, 20))?);
        assert!(!catalog::advance(tx, from(0, 10, 3), &row(0, 30))?);
        assert!(!catalog::advance(tx, from(1, 20, 3), &row(1, 30))?);
        assert!(!catalog::advance(tx, from(0, 20, 2), &row(0, 30))?, "another fold has written it since");
        let other = CatalogRow { fold_version: 4, shared: 7, ..row(0, 20) };
        assert!(catalog::advance(tx, from(0, 20, 3), &other)?);
        assert_eq!(catalog::get(tx, &id("s"))?, Some(other.clone()));
        assert!(catalog::advance(tx, Some(other.checkpoint()), &row(0, 20))?);
        assert_eq!(catalog::get(tx, &id("s"))?, Some(row(0, 20)));
        assert!(!catalog::replace(tx, &row(0, 10))?, "a later position is kept");
        assert!(catalog::replace(tx, &row(0, 20))?);
        assert!(catalog::replace(tx, &row(1, 5))?);
        assert!(!catalog::replace(tx, &row(0, 99))?);
        let listed = sessions::list(tx, &SessionFilter::default(), &Page::default())?;
        assert_eq!((listed[0].events, listed[0].bytes), (Some(2), Some(5)));
        assert_eq!(listed[0].title.as_deref(), Some("what it is about"));
        assert_eq!((listed[0].model.as_deref(), listed[0].dialect.as_deref()), (Some("m"), Some("claude")));
        assert_eq!(catalog::outdated(tx, &home(), 4, None, 9)?, [(id("s"), 5)]);
        assert_eq!(catalog::outdated(tx, &home(), 4, Some(&id("s")), 9)?, []);
        assert_eq!(catalog::outdated(tx, &home(), 3, None, 9)?, []);
        assert_eq!(catalog::dump(tx)?, [row(1, 5)]);
        for outdate in [|tx: &mut Tx<'_>| catalog::outdate(tx, &id("s")), catalog::outdate_sharing] {
            assert!(catalog::replace(tx, &row(1, 5))?);
            outdate(tx)?;
            assert_eq!(catalog::dump(tx)?, [CatalogRow { fold_version: 0, ..row(1, 5) }]);
        }
        assert!(catalog::replace(tx, &CatalogRow { shared: 0, ..row(1, 5) })?);
        catalog::outdate_sharing(tx)?;
        assert_eq!(catalog::outdated(tx, &home(), 3, None, 9)?, [], "it shares no responses");
        let totals = catalog::totals(tx, &home())?;
        assert_eq!((totals.logs, totals.bytes, totals.events), (1, 5, 2));
        catalog::clear(tx)?;
        assert_eq!(catalog::totals(tx, &home())?, catalog::CatalogTotals::default());
        assert!(catalog::replace(tx, &row(0, 1))?, "an absent row is replaced by any row");
        Ok(())
    });
}
