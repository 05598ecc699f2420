//! Appending without a store: for a command that has one batch to append, and ends.

use duolog_join::{Called, Committed, Passing, prepare_read_only};
use duolog_log::Append;
use duolog_state::Said;
use duolog_types::{Batch, SessionId};

use super::AppendOptions;
use crate::error::Result;
use crate::options::StoreOptions;
use crate::sessions::SessionRef;

/// Appends a batch to the session of that name without opening its store, if the last one to append left a pass.
///
/// Nothing is the answer wherever there is more to do than to append: no pass, another writer since, a log that is not
/// as it was left, a batch that is refused. Then nothing was written, and the store does it or says why not.
pub fn append_with_pass(
    options: &StoreOptions,
    which: &SessionRef,
    batch: &Batch,
    how: &AppendOptions,
) -> Result<Option<(SessionId, Committed)>> {
    if options.store != Said::Home || how.operation.is_some() {
        return Ok(None);
    }
    let Ok(prepared) = prepare_read_only(&options.home.state) else { return Ok(None) };
    // A store says that it is another user's.
    if prepared.foreign_owner.is_some() {
        return Ok(None);
    }
    let called = match which {
        SessionRef::Text(name) => Called { user: None, name: name.clone() },
        SessionRef::UserAndName { user, name } => Called { user: Some(user.clone()), name: name.clone() },
    };
    let passing = Passing {
        disk: prepared.disk,
        home: prepared.id,
        limits: &options.limits,
        clock: &*options.clock,
        boot: &prepared.boot,
    };
    let how = Append { durability: how.durability, if_position: how.if_position };
    Ok(passing.append(&called, batch, &how)?)
}
