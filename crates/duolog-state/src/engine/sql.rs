//! SQL statements: one text for both engines with `?N` parameters, or one text per engine.

/// A statement.
#[derive(Clone, Copy, Debug)]
pub struct Sql<'s> {
    pub(super) sqlite: &'s str,
    pub(super) postgres: &'s str,
}

impl<'s> Sql<'s> {
    /// Returns a statement with one text per engine.
    pub const fn each(sqlite: &'s str, postgres: &'s str) -> Self {
        Self { sqlite, postgres }
    }
}

impl<'s> From<&'s str> for Sql<'s> {
    fn from(text: &'s str) -> Self {
        Self::each(text, text)
    }
}

impl<'s> From<&'s String> for Sql<'s> {
    fn from(text: &'s String) -> Self {
        Self::each(text, text)
    }
}

/// Returns the text with PostgreSQL's parameters: `$1` for `?1`.
#[cfg(feature = "postgres")]
pub(super) fn numbered(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('?') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        rest = &after[1..];
        out.push(if rest.starts_with(|c: char| c.is_ascii_digit()) { '$' } else { '?' });
    }
    out.push_str(rest);
    out
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::numbered;

    #[test]
    fn parameters_are_numbered_with_dollars() {
        assert_eq!(numbered("a = ?1 AND b = ?12 -- why?"), "a = $1 AND b = $12 -- why?");
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
    }
}
