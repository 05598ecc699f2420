//! A state of one's own on either engine: what every test of rows runs on, twice.

use std::path::Path;

use duolog_state::{Address, OpenState, State, StoreAddress};
use tempfile::TempDir;

use crate::postgres::{Database, Shared};

/// A place for one home and its state, which goes with the test.
pub struct Place {
    home: TempDir,
    /// Where the state is, if it is not in the home.
    database: Option<Database>,
}

impl Place {
    /// A home whose state is in SQLite.
    pub fn sqlite() -> Self {
        Self { home: tempfile::tempdir().expect("a directory"), database: None }
    }

    /// A home whose state is in a database of its own, on the PostgreSQL that all tests share.
    pub fn postgres() -> Self {
        let database = Shared::get().and_then(crate::postgres::Access::create_database);
        let database = database.unwrap_or_else(|error| panic!("a database: {error}"));
        Self { database: Some(database), ..Self::sqlite() }
    }

    /// The home's directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The database on the server, where there is one.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// The state's address.
    pub fn address(&self) -> Address {
        let url = self.database.as_ref().map_or_else(|| "sqlite:".to_owned(), Database::url);
        url.parse::<StoreAddress>().expect("an address").or_in(self.home())
    }

    /// How to open it.
    pub fn options(&self) -> OpenState {
        OpenState::address(self.address())
    }

    /// Opens it.
    pub fn open(&self) -> State {
        State::open(self.options()).unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }
}

/// Makes two tests of each function: one for either engine.
///
/// A function that is left out is never called, and the lints say so.
#[macro_export]
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&$crate::engines::Place::sqlite());
            })+
        }

        mod postgres {
            $(#[test]
            fn $name() {
                super::$name(&$crate::engines::Place::postgres());
            })+
        }
    };
}
