//! Partitions with the epochs in which they were assigned.

use std::fmt;

use base::{PartitionIndex, TopicId};

use crate::assignor::{Partitions, PartitionsBuilder};

/// Partitions a member has or must give up, each with the member epoch in which it was assigned (KIP-1251): a commit with
/// that epoch or a later one is accepted.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Owned {
    partitions: Partitions,
    epochs: Epochs,
}

/// Most members got all they have at once, so one number usually does.
#[derive(Clone, PartialEq, Eq)]
enum Epochs {
    /// All partitions; 0 for the empty set.
    Same(i32),
    /// In the order of the partitions, at least two of them different.
    Each(Box<[i32]>),
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs::Same(0)
    }
}

impl Owned {
    /// All of `partitions` with one epoch.
    pub fn at_epoch(partitions: Partitions, epoch: i32) -> Owned {
        let epochs = Epochs::Same(if partitions.is_empty() { 0 } else { epoch });
        Owned { partitions, epochs }
    }

    /// From partitions with epochs in any order. Of a partition named twice the later mention counts.
    pub fn from_entries(mut entries: Vec<(TopicId, PartitionIndex, i32)>) -> Owned {
        entries.sort_by_key(|(topic, partition, _)| (*topic, *partition));
        let (mut builder, mut epochs) = (PartitionsBuilder::default(), Vec::with_capacity(entries.len()));
        for (at, (topic, partition, epoch)) in entries.iter().enumerate() {
            if entries.get(at + 1).is_none_or(|next| (next.0, next.1) != (*topic, *partition)) {
                builder.push(*topic, *partition);
                epochs.push(*epoch);
            }
        }
        let first = epochs.first().copied().unwrap_or(0);
        let same = epochs.iter().all(|epoch| *epoch == first);
        let epochs = if same { Epochs::Same(first) } else { Epochs::Each(epochs.into()) };
        Owned { partitions: builder.build(), epochs }
    }

    /// True when there is no partition.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The partitions alone.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Takes the storage of an equal set, so that both share it.
    pub fn share(&mut self, other: &Partitions) {
        if self.partitions == *other {
            self.partitions = other.clone();
        }
    }

    /// Every partition with its epoch, in order.
    pub fn iter(&self) -> impl Iterator<Item = (TopicId, PartitionIndex, i32)> + '_ {
        self.partitions.iter().enumerate().map(|(at, (topic, partition))| (topic, partition, self.epoch_at(at)))
    }

    /// The epoch in which a partition was assigned; `None` when it is not in the set.
    pub fn epoch_of(&self, topic: TopicId, partition: PartitionIndex) -> Option<i32> {
        self.iter().find(|(t, p, _)| (*t, *p) == (topic, partition)).map(|(.., epoch)| epoch)
    }

    fn epoch_at(&self, at: usize) -> i32 {
        match &self.epochs {
            Epochs::Same(epoch) => *epoch,
            Epochs::Each(epochs) => epochs[at],
        }
    }

    /// Bytes on the heap, sets shared with others included.
    #[cfg(test)]
    pub fn heap_bytes(&self) -> usize {
        let epochs = if let Epochs::Each(epochs) = &self.epochs { epochs.len() * 4 } else { 0 };
        self.partitions.heap_bytes() + epochs
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(topic, partition, epoch)| format!("{topic}-{partition}@{epoch}")))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use base::Uuid;

    use super::*;

    #[test]
    fn epochs_stay_with_their_partitions() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let set = Owned::from_entries(vec![(b, 1, 7), (a, 3, 5), (a, 0, 6), (b, 1, 8)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(a, 0, 6), (a, 3, 5), (b, 1, 8)]);
        assert_eq!((set.epoch_of(a, 3), set.epoch_of(a, 1)), (Some(5), None));
        let even = Owned::from_entries(vec![(b, 1, 7), (a, 3, 7)]);
        assert_eq!(even, Owned::at_epoch(even.partitions().clone(), 7));
        assert_eq!(Owned::from_entries(Vec::new()), Owned::default());
        assert_eq!(Owned::at_epoch(Partitions::EMPTY, 9), Owned::default());
    }
}
