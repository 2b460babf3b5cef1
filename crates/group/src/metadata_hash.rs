//! The hash of the topics a group is subscribed to (KIP-1101), bit for bit Apache Kafka's, so that a broker of either kind
//! that takes a group over does not see a change where there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use metadata::{ClusterImage, MetadataImage, TopicImage};
use twox_hash::XxHash3_64;

/// First byte of what is hashed for a topic.
const FORMAT: u8 = 0;

/// Bytes as Kafka's hash library takes them: numbers in little endian order, text as UTF-16 followed by its length.
#[derive(Default)]
struct Input(Vec<u8>);

impl Input {
    fn int(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        text.encode_utf16().for_each(|unit| self.0.extend_from_slice(&unit.to_le_bytes()));
        self.int(utf16_len(text));
    }

    fn hash(&self) -> i64 {
        XxHash3_64::oneshot(&self.0).cast_signed()
    }
}

fn utf16_len(text: &str) -> i32 {
    text.encode_utf16().count() as i32
}

/// The hash of one topic: id, name, partitions and the racks of their replicas.
pub fn topic_hash(topic: &TopicImage, cluster: &ClusterImage) -> i64 {
    let mut input = Input(vec![FORMAT]);
    let id = u128::from_be_bytes(*topic.id.as_bytes());
    input.0.extend_from_slice(&((id >> 64) as u64).to_le_bytes());
    input.0.extend_from_slice(&(id as u64).to_le_bytes());
    input.text(&topic.name);
    input.int(topic.partition_count() as i32);
    for (index, partition) in topic.partitions() {
        input.int(index);
        let rack = |broker: &i32| cluster.broker(*broker).and_then(|broker| broker.rack.as_deref());
        let mut racks: Vec<&str> = partition.replicas.iter().filter_map(rack).collect();
        racks.sort_unstable();
        for rack in racks {
            input.int(utf16_len(rack));
            input.text(rack);
        }
    }
    input.hash()
}

/// The hash of a group: those of its topics, which come in order of their names. 0 without any.
pub fn group_hash(topics: impl Iterator<Item = i64>) -> i64 {
    let mut input = Input::default();
    topics.for_each(|hash| input.0.extend_from_slice(&hash.to_le_bytes()));
    if input.0.is_empty() { 0 } else { input.hash() }
}

/// Hashes of topics that were computed once.
#[derive(Debug, Default)]
pub(crate) struct TopicHashes(BTreeMap<Arc<str>, (Arc<TopicImage>, i64)>);

impl TopicHashes {
    /// The hash of a group subscribed to these topics, which come in order; those that do not exist do not count.
    pub fn group<'t>(&mut self, topics: impl Iterator<Item = &'t Arc<str>>, image: &MetadataImage) -> i64 {
        group_hash(topics.filter_map(|name| self.topic(name, image)))
    }

    fn topic(&mut self, name: &Arc<str>, image: &MetadataImage) -> Option<i64> {
        let topic = image.topics.by_name(name)?;
        if let Some((known, hash)) = self.0.get(name)
            && Arc::ptr_eq(known, topic)
        {
            return Some(*hash);
        }
        let hash = topic_hash(topic, &image.cluster);
        self.0.insert(name.clone(), (topic.clone(), hash));
        Some(hash)
    }

    /// Forgets topics that have changed or are gone, so that nothing keeps them alive.
    pub fn retain_current(&mut self, image: &MetadataImage) {
        self.0.retain(|name, (known, _)| image.topics.by_name(name).is_some_and(|topic| Arc::ptr_eq(known, topic)));
    }
}

#[cfg(test)]
mod tests {
    use base::Uuid;
    use metadata::{BrokerRegistration, MetadataDelta, PartitionRegistration};

    use super::*;

    #[test]
    fn hashes_are_kafkas() {
        let id = Uuid::from_u128(0x1_0000_0000_0000_0002);
        let mut delta = MetadataDelta::new(Arc::new(MetadataImage::default()));
        delta.create_topic("foo", id);
        for index in 0..2 {
            assert!(delta.set_partition(id, index, PartitionRegistration { replicas: vec![1], ..Default::default() }));
        }
        let image = delta.image().clone();
        let topic = image.topics.by_name("foo").expect("created");
        // Computed by Utils.computeTopicHash and computeGroupHash of Kafka 4.4.0.
        assert_eq!(topic_hash(topic, &image.cluster), TOPIC);
        assert_eq!(group_hash([-7, 5].into_iter()), -8_589_419_398_681_722_680);
        assert_eq!(group_hash(std::iter::empty()), 0);
        let mut hashes = TopicHashes::default();
        let names: Vec<Arc<str>> = ["bar", "foo"].map(Arc::from).to_vec();
        assert_eq!(hashes.group(names.iter(), &image), group_hash([TOPIC].into_iter()));
        assert_eq!(hashes.group(names.iter(), &image), group_hash([TOPIC].into_iter()), "from the cache");
    }

    #[test]
    fn racks_count() {
        let id = Uuid::from_u128(0x1_0000_0000_0000_0002);
        let mut delta = MetadataDelta::new(Arc::new(MetadataImage::default()));
        for (broker, rack) in [(1, "r2"), (2, "r1")] {
            delta.set_broker(BrokerRegistration {
                id: broker,
                epoch: 0,
                incarnation_id: Uuid::ZERO,
                listeners: Default::default(),
                features: Default::default(),
                rack: Some(Arc::from(rack)),
                fenced: false,
                in_controlled_shutdown: false,
                is_migrating_zk_broker: false,
                directories: Vec::new(),
                cordoned_directories: None,
            });
        }
        delta.create_topic("foo", id);
        for (index, replicas) in [(0, vec![1, 2]), (1, vec![3])] {
            delta.set_partition(id, index, PartitionRegistration { replicas, ..Default::default() });
        }
        let image = delta.image().clone();
        let topic = image.topics.by_name("foo").expect("created");
        assert_eq!(topic_hash(topic, &image.cluster), 4_100_789_377_991_279_012);
    }

    /// The hash of `foo` without racks.
    const TOPIC: i64 = -5_159_372_484_819_424_185;
}
