//! What is kept of segments that are only read: open files and indexes, both bounded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use base::{Offset, PartitionKey};
use reactor::fs::File;

use crate::format::index::SparseIndex;

/// Open files of segments kept for the next read. Consumers that catch up stay in a segment for thousands of reads, so
/// this many serves as many of them at once.
const FILES_MAX: usize = 256;
/// Memory for indexes of complete segments, in bytes: dozens of large segments' worth.
const INDEX_BYTES_MAX: usize = 16 << 20;

type Key = (PartitionKey, Offset);

/// A map that forgets what was not used for longest when it gets too heavy.
struct Recent<K, V> {
    entries: HashMap<K, (V, usize, u64)>,
    weight: usize,
    weight_max: usize,
    clock: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    fn new(weight_max: usize) -> Recent<K, V> {
        Recent { entries: HashMap::new(), weight: 0, weight_max, clock: 0 }
    }

    fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (value, _, used) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    fn put(&mut self, key: K, value: V, weight: usize) {
        self.clock += 1;
        if let Some((_, old, _)) = self.entries.insert(key, (value, weight, self.clock)) {
            self.weight -= old;
        }
        self.weight += weight;
        while self.weight > self.weight_max && self.entries.len() > 1 {
            let oldest = self.entries.iter().min_by_key(|(_, (_, _, used))| *used).map(|(key, _)| key.clone());
            self.remove(&oldest.expect("there is more than one entry"));
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some((_, weight, _)) = self.entries.remove(key) {
            self.weight -= weight;
        }
    }
}

pub(crate) struct ColdCache {
    files: RefCell<Recent<Key, File>>,
    indexes: RefCell<Recent<Key, Rc<SparseIndex>>>,
}

impl Default for ColdCache {
    fn default() -> ColdCache {
        ColdCache { files: RefCell::new(Recent::new(FILES_MAX)), indexes: RefCell::new(Recent::new(INDEX_BYTES_MAX)) }
    }
}

impl ColdCache {
    pub fn file(&self, key: PartitionKey, base: Offset) -> Option<File> {
        self.files.borrow_mut().get(&(key, base))
    }

    pub fn keep_file(&self, key: PartitionKey, base: Offset, file: File) {
        self.files.borrow_mut().put((key, base), file, 1);
    }

    pub fn index(&self, key: PartitionKey, base: Offset) -> Option<Rc<SparseIndex>> {
        self.indexes.borrow_mut().get(&(key, base))
    }

    pub fn keep_index(&self, key: PartitionKey, base: Offset, index: Rc<SparseIndex>) {
        let weight = index.memory().max(1);
        self.indexes.borrow_mut().put((key, base), index, weight);
    }

    /// Forgets a segment that was removed or cut.
    pub fn forget(&self, key: PartitionKey, base: Offset) {
        self.files.borrow_mut().remove(&(key, base));
        self.indexes.borrow_mut().remove(&(key, base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_one_always_stays() {
        let mut recent = Recent::new(10);
        for (key, weight) in [("a", 4), ("b", 4)] {
            recent.put(key, key.len(), weight);
        }
        assert_eq!(recent.get(&"a"), Some(1));
        recent.put("c", 1, 4);
        assert_eq!((recent.get(&"b"), recent.get(&"a"), recent.weight), (None, Some(1), 8));
        recent.put("heavy", 5, 100);
        assert_eq!((recent.entries.len(), recent.get(&"heavy")), (1, Some(5)));
        recent.put("heavy", 5, 1);
        assert_eq!(recent.weight, 1);
        recent.remove(&"heavy");
        assert_eq!(recent.weight, 0);
    }
}
