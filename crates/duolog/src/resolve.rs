//! Ids as people give them: whole, or a unique prefix. Every noun resolves its ids here.

use std::fmt::Display;

use duolog_state::Tx;

use crate::error::{Error, Invalid, Result};

/// How many candidates are looked up: one more than an error lists.
const CANDIDATES: u32 = 4;

/// Looks up the first ids of a table that begin with a text.
type StartingWith<I> = fn(&mut Tx<'_>, &str, u32) -> duolog_state::Result<Vec<I>>;

/// Returns what a text means: the exact match, or the only id that begins with it; `None` if there is neither.
///
/// # Errors
///
/// Returns an error that lists the first candidates if more than one id begins with the text.
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
/// Returns an error that lists the first candidates if there is more than one.
pub(crate) fn only<I: Display>(noun: &'static str, prefix: &str, mut candidates: Vec<I>) -> Result<Option<I>> {
    if candidates.len() > 1 {
        let found = candidates.iter().map(ToString::to_string).collect();
        return Err(Error::Invalid(Invalid::Ambiguous { noun, prefix: prefix.to_owned(), found }));
    }
    Ok(candidates.pop())
}
