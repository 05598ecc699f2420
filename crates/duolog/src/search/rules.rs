//! Pure decisions: which hits are on a page.

use std::collections::BTreeMap;

use duolog_search::Key;

use super::model::Hit;

/// The best hits so far, and one more, to know whether there is another page.
pub(super) struct Page {
    hits: BTreeMap<Key, Hit>,
    limit: usize,
    after: Option<Key>,
}

impl Page {
    pub(super) fn new(limit: u32, after: Option<Key>) -> Self {
        Self { hits: BTreeMap::new(), limit: limit as usize, after }
    }

    /// Returns true if a hit with this key would be on the page.
    pub(super) fn wants(&self, key: &Key) -> bool {
        let is_behind = self.after.as_ref().is_none_or(|after| key > after);
        is_behind && (self.hits.len() <= self.limit || self.hits.last_key_value().is_some_and(|(last, _)| key < last))
    }

    /// Returns true if no hit from this key on would be on the page.
    pub(super) fn is_full_before(&self, key: &Key) -> bool {
        self.hits.len() > self.limit && self.hits.last_key_value().is_some_and(|(last, _)| key >= last)
    }

    pub(super) fn put(&mut self, key: Key, hit: Hit) {
        self.hits.insert(key, hit);
        if self.hits.len() > self.limit + 1 {
            self.hits.pop_last();
        }
    }

    /// Returns the hits in order, and the start of the next page.
    pub(super) fn finish(mut self) -> (Vec<Hit>, Option<Key>) {
        let has_more = self.hits.len() > self.limit;
        if has_more {
            self.hits.pop_last();
        }
        let next = self.hits.last_key_value().filter(|_| has_more).map(|(key, _)| key.clone());
        (self.hits.into_values().collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use duolog_log::dialect::ItemKind;
    use duolog_search::Snippet;
    use duolog_types::{Cursor, Position, SessionId};

    use super::*;

    fn key(at: i64) -> Key {
        Key { at, session: SessionId::parse("s").expect("an id"), position: Position(1), part: 0 }
    }

    fn hit(key: &Key) -> Hit {
        Hit {
            session: key.session.clone(),
            cursor: Cursor::default(),
            part: key.part,
            at: None,
            kind: ItemKind::User,
            role: None,
            tool: None,
            snippet: Snippet::default(),
        }
    }

    #[test]
    fn a_page_keeps_the_newest_hits_after_its_start() {
        let mut page = Page::new(2, Some(key(90)));
        for at in [10, 95, 90, 50, 70, 60] {
            if page.wants(&key(at)) {
                page.put(key(at), hit(&key(at)));
            }
        }
        assert!(page.is_full_before(&key(40)) && !page.is_full_before(&key(65)));
        let (hits, next) = page.finish();
        assert_eq!((hits.len(), next), (2, Some(key(60))));
    }

    #[test]
    fn the_last_page_has_no_next() {
        let mut page = Page::new(2, None);
        for at in [1, 2] {
            page.put(key(at), hit(&key(at)));
        }
        assert_eq!(page.finish().1, None);
    }
}
