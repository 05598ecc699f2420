//! A page of a list: a table, and a note with the token of the next page.

use std::fmt::Display;

use duolog_wire::{Listed, Page};

use super::{Out, Table};
use crate::failure::Failure;

impl Out {
    /// Writes a page; `nothing` is the note for an empty list.
    pub fn page<T: Listed>(
        &mut self,
        page: &Page<T>,
        nothing: &str,
        table: impl FnOnce() -> Table,
    ) -> Result<(), Failure> {
        self.answer(page, |text| {
            if !page.items.is_empty() {
                text.table(&table());
            }
        })?;
        if page.items.is_empty() && page.next.is_none() {
            self.note(nothing);
        }
        self.more(page.next.as_ref());
        Ok(())
    }

    /// Prints a note with the option for the next page, if there is one.
    pub fn more(&self, next: Option<&impl Display>) {
        if let Some(next) = next {
            let next = next.to_string();
            // A token may contain a name, which may contain any character.
            let is_plain = next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:@/".contains(&byte));
            let next = if is_plain { next } else { format!("'{}'", next.replace('\'', "'\\''")) };
            self.note(format_args!("more results: add --after {next}"));
        }
    }
}
