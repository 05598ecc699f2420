//! The PostgreSQL engine of a build without the feature `postgres`: types without values, so that the callers need no
//! conditional code.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use duolog_types::Durability;

use super::{Column, Row, Tally, Tx, Value};
use crate::address::Server;
use crate::error::{Error, Result};
use crate::maintenance::EngineStats;
use crate::state::OpenState;

/// A state on a server.
pub(crate) struct Postgres(Infallible);

/// One row of a server's result.
pub(super) struct Answer(Infallible);

/// A connection during one transaction.
pub(super) struct Session<'c>(Infallible, PhantomData<&'c ()>);

impl Postgres {
    pub(crate) fn open(server: &Server, _: &OpenState, _: Arc<Tally>) -> Result<Self> {
        match server.0 {}
    }

    pub(crate) fn version(&self) -> u32 {
        match self.0 {}
    }

    pub(crate) fn write<T, E: From<Error>>(
        &self,
        _: &dyn Fn(Durability),
        _: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.0 {}
    }

    pub(crate) fn read<T, E: From<Error>>(&self, _: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E> {
        match self.0 {}
    }

    pub(crate) fn vacuum(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn integrity(&self) -> Result<Vec<String>> {
        match self.0 {}
    }

    pub(crate) fn engine_stats(&self) -> Result<EngineStats> {
        match self.0 {}
    }
}

impl Session<'_> {
    pub(super) fn execute(&self, _: &str, _: &[Value<'_>]) -> Result<usize> {
        match self.0 {}
    }

    pub(super) fn query(&self, _: &str, _: &[Value<'_>], _: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        match self.0 {}
    }

    pub(super) fn command(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub(super) fn is_lost(&self) -> bool {
        match self.0 {}
    }
}

pub(super) fn column(row: &Answer, _: usize) -> Result<Result<Column<'_>, String>> {
    match row.0 {}
}

pub(super) fn width(row: &Answer) -> usize {
    match row.0 {}
}

pub(super) fn name(row: &Answer, _: usize) -> Option<&str> {
    match row.0 {}
}
