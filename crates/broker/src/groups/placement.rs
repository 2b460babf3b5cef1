//! Where groups live, worked out when metadata changes, so that no request has to look it up.

use crate::core::DataCore;
use crate::internal_topics::{self, CONSUMER_OFFSETS};
use base::{CoreId, PartitionIndex, PartitionKey};

/// Where groups live as far as this core knows. Empty until there is metadata, and while `__consumer_offsets` is missing.
#[derive(Default)]
pub struct Placement {
    /// The core of each partition of `__consumer_offsets`; none for one that another broker leads.
    homes: Vec<Option<CoreId>>,
    serves_consumer_groups: bool,
}

impl Placement {
    /// As the core's metadata and options are now.
    pub fn read(core: &DataCore) -> Placement {
        let (image, config) = (core.image(), core.config());
        let is_listed =
            config.values.list("group.coordinator.rebalance.protocols").iter().any(|name| name == "consumer");
        let level = image.features.level(metadata::features::GROUP_VERSION);
        let mut placement =
            Placement { homes: Vec::new(), serves_consumer_groups: is_listed && level >= CONSUMER_GROUPS_LEVEL };
        let Some(topic) = image.topics.by_name(CONSUMER_OFFSETS) else { return placement };
        let partitions = internal_topics::consumer_offsets_partitions(&image, &config);
        placement.homes.extend((0..partitions).map(|partition| {
            topic.partition(partition).filter(|registration| registration.leader == core.node.id)?;
            Some(PartitionKey { topic_id: topic.id, partition }.home_core(core.layout.data_cores))
        }));
        placement
    }

    /// True while consumer groups may be used: `group.version` is finalized at 1 or above, and
    /// `group.coordinator.rebalance.protocols` lists them.
    pub fn serves_consumer_groups(&self) -> bool {
        self.serves_consumer_groups
    }

    /// The partition that keeps a group; none while there is no topic.
    pub fn partition(&self, group_id: &str) -> Option<PartitionIndex> {
        let partitions = PartitionIndex::try_from(self.homes.len()).unwrap_or(PartitionIndex::MAX);
        (partitions > 0).then(|| group::partition_for(group_id, partitions))
    }

    /// The core a group lives on, if this broker coordinates it.
    pub fn home(&self, group_id: &str) -> Option<CoreId> {
        let partition = usize::try_from(self.partition(group_id)?).ok()?;
        self.homes.get(partition).copied().flatten()
    }
}

/// First level of `group.version` with consumer groups.
const CONSUMER_GROUPS_LEVEL: i16 = 1;
