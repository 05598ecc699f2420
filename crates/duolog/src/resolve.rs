//! Resolution of ids that a user gives in full or as a unique prefix. All modules resolve their ids here.

use std::fmt::Display;

use duolog_state::Tx;

use crate::error::{Error, Invalid, Result};

/// The number of candidates to look up: one more than an error lists.
const CANDIDATES: u32 = 4;

/// Looks up the first ids of a table that start with a text.
type StartingWith<I> = fn(&mut Tx<'_>, &str, u32) -> duolog_state::Result<Vec<I>>;

/// Returns the id that equals the text, or the only id that starts with it; `None` if there is no such id.
///
/// # Errors
///
/// Returns an error that lists the first candidates if several ids start with the text.
pub(crate) fn resolve<I: Display>(
    tx: &mut Tx<'_>,
    noun: &'static str,
    text: &str,
    exact: Option<I>,
    starting_with: StartingWith<I>,
) -> Result<Option<I>> {
    match exact {
        Some(id) => Ok(Some(id)),
        None if text.is_empty() => Ok(None),
        None => only(noun, text, starting_with(tx, text, CANDIDATES)?),
    }
}

/// Returns the only candidate; `None` if there is none.
///
/// # Errors
///
/// Returns an error that lists the first candidates if there are several.
pub(crate) fn only<I: Display>(noun: &'static str, prefix: &str, mut candidates: Vec<I>) -> Result<Option<I>> {
    if candidates.len() > 1 {
        let found = candidates.iter().map(ToString::to_string).collect();
        return Err(Error::Invalid(Invalid::Ambiguous { noun, prefix: prefix.to_owned(), found }));
    }
    Ok(candidates.pop())
}
