//! What a process keeps open: so many and no more (I9).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Open things by key; the one unused for longest makes room for the next, unless someone is using it.
pub struct Recent<K, V> {
    open: Mutex<Open<K, V>>,
    max: usize,
}

struct Open<K, V> {
    by_key: HashMap<K, (Arc<V>, u64)>,
    /// Let go of, and perhaps still in use.
    gone: Vec<Arc<V>>,
    uses: u64,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Keeps at most `max`, and for a moment those that are in use.
    pub fn new(max: usize) -> Self {
        Self { open: Mutex::new(Open { by_key: HashMap::new(), gone: Vec::new(), uses: 0 }), max: max.max(1) }
    }

    /// What is open under this key.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        let mut open = self.open.lock();
        open.uses += 1;
        let now = open.uses;
        let (value, last_use) = open.by_key.get_mut(key)?;
        *last_use = now;
        Some(value.clone())
    }

    /// Returns what nobody uses any more: everything that was let go of, and what is over the limit once `more` are kept,
    /// the longest unused first. What is still in use comes with a later call.
    pub fn trim(&self, more: usize) -> Vec<Arc<V>> {
        let mut open = self.open.lock();
        let mut idle: Vec<Arc<V>> = open.gone.extract_if(.., |value| Arc::strong_count(value) == 1).collect();
        let excess = (open.by_key.len() + more).saturating_sub(self.max);
        if excess == 0 {
            return idle;
        }
        // Mostly one makes room for one: looking for it is quicker than sorting all.
        for _ in 0..excess {
            let unused = open.by_key.iter().filter(|(_, (value, _))| Arc::strong_count(value) == 1);
            let oldest = unused.min_by_key(|(_, (_, last_use))| *last_use).map(|(key, _)| key.clone());
            let Some((value, _)) = oldest.and_then(|key| open.by_key.remove(&key)) else { break };
            idle.push(value);
        }
        idle
    }

    /// Gives back what [`trim`](Self::trim) returned: it comes again with a later call.
    pub fn put_back(&self, values: Vec<Arc<V>>) {
        self.open.lock().gone.extend(values);
    }

    /// Keeps what was just opened; if another thread was first, its is kept and given back.
    pub fn keep(&self, key: K, value: V) -> Arc<V> {
        let mut open = self.open.lock();
        open.uses += 1;
        let now = open.uses;
        if let Some((first, last_use)) = open.by_key.get_mut(&key) {
            *last_use = now;
            return first.clone();
        }
        let value = Arc::new(value);
        open.by_key.insert(key, (value.clone(), now));
        value
    }

    /// Lets go of `value`, if it is still the one that is kept under the key.
    pub fn let_go(&self, key: &K, value: &Arc<V>) {
        let mut open = self.open.lock();
        if open.by_key.get(key).is_some_and(|(kept, _)| Arc::ptr_eq(kept, value))
            && let Some((value, _)) = open.by_key.remove(key)
        {
            open.gone.push(value);
        }
    }

    /// Everything that is open.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.open.lock().by_key.values().map(|(value, _)| value.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_make_room_unless_they_are_in_use() {
        let recent = Recent::new(2);
        let first = recent.keep("a", 1);
        recent.keep("b", 2);
        let numbers = |values: Vec<Arc<i32>>| values.iter().map(|value| **value).collect::<Vec<_>>();
        assert_eq!(numbers(recent.trim(1)), [2], "the oldest that is idle");
        let second = recent.keep("c", 3);
        assert!(recent.trim(1).is_empty(), "all are in use");
        recent.keep("d", 4);
        drop((first, second));
        assert_eq!(numbers(recent.trim(0)), [1], "what was too many goes as soon as it is idle");
        assert_eq!(numbers(recent.trim(1)), [3]);
        recent.keep("e", 5);
        assert_eq!(*recent.keep("e", 9), 5, "the first one stays");
        assert_eq!(recent.all().len(), 2);
        let used = recent.get("e").unwrap();
        recent.let_go(&"e", &used);
        assert!(recent.trim(0).is_empty(), "it is in use");
        drop(used);
        let gone = recent.trim(0);
        assert_eq!(gone.len(), 1, "what was let go of comes once it is idle");
        recent.put_back(gone);
        assert_eq!(numbers(recent.trim(0)), [5]);
    }
}
