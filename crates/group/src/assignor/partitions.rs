use std::fmt;
use std::sync::Arc;

use base::{PartitionIndex, TopicId, Uuid};

/// Words in front of each topic's partitions: four of its id, one for their number.
const HEADER_WORDS: usize = 5;

/// An immutable set of partitions of several topics. Cloning shares it.
///
/// All of it is one slice of words, topics in order of their ids and partitions in ascending order, because a coordinator
/// holds several such sets for each of its members: a topic costs 20 bytes and a partition four. The empty set owns
/// nothing.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Partitions(Option<Arc<[i32]>>);

impl Partitions {
    /// The empty set.
    pub const EMPTY: Partitions = Partitions(None);

    /// The set of `pairs`, which may come in any order and repeat.
    pub fn from_pairs(mut pairs: Vec<(TopicId, PartitionIndex)>) -> Partitions {
        pairs.sort_unstable();
        pairs.dedup();
        let mut builder = PartitionsBuilder::default();
        for (topic, partition) in pairs {
            builder.push(topic, partition);
        }
        builder.build()
    }

    /// True when there is no partition.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Number of partitions.
    pub fn len(&self) -> usize {
        self.topics().map(|(_, partitions)| partitions.len()).sum()
    }

    /// The topics in order of their ids, each with its partitions in ascending order.
    pub fn topics(&self) -> Topics<'_> {
        Topics { words: self.0.as_deref().unwrap_or_default() }
    }

    /// Every partition, in order.
    pub fn iter(&self) -> impl Iterator<Item = (TopicId, PartitionIndex)> + '_ {
        self.topics().flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (topic, *partition)))
    }

    /// The partitions of one topic, in ascending order.
    pub fn of(&self, topic: TopicId) -> &[PartitionIndex] {
        self.topics().find(|(id, _)| *id == topic).map(|(_, partitions)| partitions).unwrap_or_default()
    }

    /// True when the set holds this partition.
    pub fn contains(&self, topic: TopicId, partition: PartitionIndex) -> bool {
        self.of(topic).binary_search(&partition).is_ok()
    }

    /// Bytes on the heap, for accounting; shared sets count once for each holder.
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |words| words.len() * 4 + 16)
    }
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.topics()).finish()
    }
}

impl FromIterator<(TopicId, PartitionIndex)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (TopicId, PartitionIndex)>>(pairs: I) -> Partitions {
        Partitions::from_pairs(pairs.into_iter().collect())
    }
}

/// The topics of a [`Partitions`].
#[derive(Clone, Debug)]
pub struct Topics<'a> {
    words: &'a [i32],
}

impl<'a> Iterator for Topics<'a> {
    type Item = (TopicId, &'a [PartitionIndex]);

    fn next(&mut self) -> Option<(TopicId, &'a [PartitionIndex])> {
        let (header, rest) = self.words.split_first_chunk::<HEADER_WORDS>()?;
        let (partitions, rest) = rest.split_at(header[4] as usize);
        self.words = rest;
        Some((id_of(header), partitions))
    }
}

fn id_of(header: &[i32; HEADER_WORDS]) -> TopicId {
    let mut bytes = [0; 16];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(header) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    Uuid::from_bytes(bytes)
}

/// Builds a [`Partitions`] from partitions that come in order.
#[derive(Clone, Debug, Default)]
pub struct PartitionsBuilder {
    words: Vec<i32>,
    /// Where the number of the last topic's partitions stands.
    count_at: usize,
    last: Option<(TopicId, PartitionIndex)>,
}

impl PartitionsBuilder {
    /// Adds a partition that comes after all earlier ones: by topic id, then by index.
    pub fn push(&mut self, topic: TopicId, partition: PartitionIndex) {
        assert!(self.last.is_none_or(|last| last < (topic, partition)), "{topic}-{partition} after {:?}", self.last);
        if self.last.is_none_or(|(id, _)| id != topic) {
            for word in topic.as_bytes().chunks_exact(4) {
                self.words.push(i32::from_be_bytes([word[0], word[1], word[2], word[3]]));
            }
            self.count_at = self.words.len();
            self.words.push(0);
        }
        self.words[self.count_at] += 1;
        self.words.push(partition);
        self.last = Some((topic, partition));
    }

    /// The set.
    pub fn build(self) -> Partitions {
        Partitions((!self.words.is_empty()).then(|| self.words.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_back_what_it_was_made_of_in_order() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(u128::MAX - 1));
        let set = Partitions::from_pairs(vec![(b, 7), (a, 3), (a, 0), (b, 7), (a, 11)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(a, 0), (a, 3), (a, 11), (b, 7)]);
        assert_eq!((set.len(), set.of(a), set.of(b)), (4, &[0, 3, 11][..], &[7][..]));
        assert!(set.contains(a, 11) && !set.contains(b, 11) && !set.contains(Uuid::from_u128(2), 0));
        assert_eq!(set, set.iter().collect());
        assert!(Partitions::from_pairs(Vec::new()).is_empty());
        assert_eq!(Partitions::EMPTY.len(), 0);
        assert_eq!(set.heap_bytes(), 16 + 4 * (5 + 3 + 5 + 1));
    }

    #[test]
    #[should_panic(expected = "after")]
    fn partitions_out_of_order_are_a_programmers_error() {
        let mut builder = PartitionsBuilder::default();
        builder.push(Uuid::from_u128(2), 1);
        builder.push(Uuid::from_u128(2), 1);
    }
}
