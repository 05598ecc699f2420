//! A private home and state on either engine.

use std::path::Path;

use duolog_state::{Address, OpenState, State, StoreAddress};
use tempfile::TempDir;

use crate::postgres::{Database, Shared};

/// A temporary home and its state, removed when dropped.
pub struct Place {
    home: TempDir,
    /// The PostgreSQL database of the state; none for SQLite.
    database: Option<Database>,
}

impl Place {
    /// Creates a home with its state in SQLite.
    pub fn sqlite() -> Self {
        Self { home: tempfile::tempdir().expect("a directory"), database: None }
    }

    /// Creates a home with its state in a new database of the shared PostgreSQL server.
    pub fn postgres() -> Self {
        let database = Shared::get().and_then(crate::postgres::Access::create_database);
        let database = database.unwrap_or_else(|error| panic!("a database: {error}"));
        Self { database: Some(database), ..Self::sqlite() }
    }

    /// Returns the directory of the home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the PostgreSQL database; `None` for SQLite.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Returns the address of the state.
    pub fn address(&self) -> Address {
        let url = self.database.as_ref().map_or_else(|| "sqlite:".to_owned(), Database::url);
        url.parse::<StoreAddress>().expect("an address").or_in(self.home())
    }

    /// Returns the options that open the state.
    pub fn options(&self) -> OpenState {
        OpenState::address(self.address())
    }

    /// Opens the state.
    pub fn open(&self) -> State {
        State::open(self.options()).unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }
}

/// Generates two tests of each function, one per engine.
///
/// A function that is not listed is unused code, and the compiler warns about it.
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
