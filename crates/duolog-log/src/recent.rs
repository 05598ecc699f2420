//! A bounded cache of open files (I9).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Open values by key. The least recently used value that is idle makes room for the next.
pub struct Recent<K, V> {
    open: Mutex<Open<K, V>>,
    max: usize,
}

struct Open<K, V> {
    by_key: HashMap<K, (Arc<V>, u64)>,
    /// Values that were released and may still be in use.
    gone: Vec<Arc<V>>,
    uses: u64,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Creates a cache of at most `max` values; values in use may exceed it for a short time.
    pub fn new(max: usize) -> Self {
        Self { open: Mutex::new(Open { by_key: HashMap::new(), gone: Vec::new(), uses: 0 }), max: max.max(1) }
    }

    /// Returns the value of this key, or `None` if it is not open.
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

    /// Returns values that are no longer used: the released ones, and, least recently used first, those over the limit
    /// once `more` are added. Values that are still in use are returned by a later call.
    pub fn trim(&self, more: usize) -> Vec<Arc<V>> {
        let mut open = self.open.lock();
        let mut idle: Vec<Arc<V>> = open.gone.extract_if(.., |value| Arc::strong_count(value) == 1).collect();
        let excess = (open.by_key.len() + more).saturating_sub(self.max);
        if excess == 0 {
            return idle;
        }
        // Mostly one value makes room for one: a search is quicker than a sort.
        for _ in 0..excess {
            let unused = open.by_key.iter().filter(|(_, (value, _))| Arc::strong_count(value) == 1);
            let oldest = unused.min_by_key(|(_, (_, last_use))| *last_use).map(|(key, _)| key.clone());
            let Some((value, _)) = oldest.and_then(|key| open.by_key.remove(&key)) else { break };
            idle.push(value);
        }
        idle
    }

    /// Takes back values that [`trim`](Self::trim) returned; a later call returns them again.
    pub fn put_back(&self, values: Vec<Arc<V>>) {
        self.open.lock().gone.extend(values);
    }

    /// Adds a value and returns it. If another thread added one first, that one is returned.
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

    /// Releases `value`, if it is still the value of this key.
    pub fn let_go(&self, key: &K, value: &Arc<V>) {
        let mut open = self.open.lock();
        if open.by_key.get(key).is_some_and(|(kept, _)| Arc::ptr_eq(kept, value))
            && let Some((value, _)) = open.by_key.remove(key)
        {
            open.gone.push(value);
        }
    }

    /// Returns all open values.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.open.lock().by_key.values().map(|(value, _)| value.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_values_make_room_unless_they_are_in_use() {
        let recent = Recent::new(2);
        let first = recent.keep("a", 1);
        recent.keep("b", 2);
        let numbers = |values: Vec<Arc<i32>>| values.iter().map(|value| **value).collect::<Vec<_>>();
        assert_eq!(numbers(recent.trim(1)), [2], "the least recently used idle value");
        let second = recent.keep("c", 3);
        assert!(recent.trim(1).is_empty(), "every value is in use");
        recent.keep("d", 4);
        drop((first, second));
        assert_eq!(numbers(recent.trim(0)), [1], "a value over the limit goes once it is idle");
        assert_eq!(numbers(recent.trim(1)), [3]);
        recent.keep("e", 5);
        assert_eq!(*recent.keep("e", 9), 5, "the first value stays");
        assert_eq!(recent.all().len(), 2);
        let used = recent.get("e").unwrap();
        recent.let_go(&"e", &used);
        assert!(recent.trim(0).is_empty(), "it is in use");
        drop(used);
        let gone = recent.trim(0);
        assert_eq!(gone.len(), 1, "a released value is returned once it is idle");
        recent.put_back(gone);
        assert_eq!(numbers(recent.trim(0)), [5]);
    }
}
