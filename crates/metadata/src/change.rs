//! The changes a delta is made of, one method each. Replaying a record calls them; tests call them directly.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BrokerId, PartitionIndex, ProducerId, TopicId, Uuid};

use crate::cluster::{BrokerRegistration, ControllerRegistration};
use crate::configs::ConfigResource;
use crate::delta::{MetadataDelta, TopicChange, TopicChangeKind};
use crate::image::MetadataImage;
use crate::security::{AccessControlEntry, DelegationToken, QuotaEntity, ScramCredential};
use crate::topics::{PartitionRegistration, TopicImage};

impl MetadataDelta {
    fn image_mut(&mut self) -> &mut MetadataImage {
        // While a delta is built its image is shared with nobody but the base, so this copies handles at most once.
        Arc::make_mut(&mut self.image)
    }

    /// Adds a topic without partitions.
    pub fn create_topic(&mut self, name: &str, id: TopicId) {
        let name: Arc<str> = Arc::from(name);
        self.image_mut().topics.insert(TopicImage::new(name.clone(), id));
        self.topics.insert(id, TopicChange { kind: TopicChangeKind::Created, name, partitions: BTreeSet::new() });
    }

    /// Adds or replaces a partition; false when the topic is unknown.
    pub fn set_partition(&mut self, topic: TopicId, index: PartitionIndex, partition: PartitionRegistration) -> bool {
        if !self.image_mut().topics.set_partition(topic, index, partition) {
            return false;
        }
        match self.topics.get_mut(&topic) {
            Some(change) => {
                change.partitions.insert(index);
            }
            None => {
                let name = self.image.topics.by_id(topic).expect("a partition of it was just set").name.clone();
                let change = TopicChange { kind: TopicChangeKind::Changed, name, partitions: BTreeSet::from([index]) };
                self.topics.insert(topic, change);
            }
        }
        true
    }

    /// Removes a topic, its partitions and its configuration; false when it is unknown.
    pub fn remove_topic(&mut self, id: TopicId) -> bool {
        let Some(topic) = self.image_mut().topics.remove(id) else { return false };
        if self.base().topics.by_id(id).is_some() {
            let partitions = topic.partitions().map(|(index, _)| index).collect();
            let change = TopicChange { kind: TopicChangeKind::Deleted, name: topic.name.clone(), partitions };
            self.topics.insert(id, change);
        } else {
            // Created and removed within one delta: nobody has seen it.
            self.topics.remove(&id);
        }
        let resource = ConfigResource::topic(&topic.name);
        if self.image_mut().configs.remove(&resource) {
            self.configs.insert(resource);
        }
        true
    }

    /// Adds or replaces a broker.
    pub fn set_broker(&mut self, broker: BrokerRegistration) {
        self.brokers.insert(broker.id);
        self.image_mut().cluster.set_broker(broker);
    }

    /// Removes a broker; false when it is unknown.
    pub fn remove_broker(&mut self, id: BrokerId) -> bool {
        self.brokers.insert(id);
        self.image_mut().cluster.remove_broker(id)
    }

    /// Adds or replaces a controller.
    pub fn set_controller(&mut self, controller: ControllerRegistration) {
        self.controllers.insert(controller.id);
        self.image_mut().cluster.set_controller(controller);
    }

    /// Removes a controller; false when it is unknown.
    pub fn remove_controller(&mut self, id: i32) -> bool {
        self.controllers.insert(id);
        self.image_mut().cluster.remove_controller(id)
    }

    /// Sets a dynamic configuration value, or removes it when `value` is `None`.
    pub fn set_config(&mut self, resource: ConfigResource, name: &str, value: Option<&str>) {
        self.configs.insert(resource.clone());
        self.image_mut().configs.set(resource, name, value);
    }

    /// Sets the level of a feature; 0 removes it.
    pub fn set_feature(&mut self, name: &str, level: i16) {
        self.features = true;
        self.image_mut().features.set_level(name, level);
    }

    /// Sets the level of `kraft.version`, which comes from control records.
    pub fn set_kraft_version(&mut self, level: i16) {
        self.features = true;
        self.image_mut().features.set_kraft_version(level);
    }

    /// Sets the next producer id to hand out.
    pub fn set_next_producer_id(&mut self, next: ProducerId) {
        self.producer_ids = true;
        self.image_mut().producer_ids.next_producer_id = next;
    }

    /// Sets one quota of an entity, or removes it when `value` is `None`. The entity is sorted here.
    pub fn set_client_quota(&mut self, mut entity: QuotaEntity, name: &str, value: Option<f64>) {
        entity.sort();
        self.client_quotas = true;
        let quotas = &mut self.image_mut().client_quotas;
        let mut values = quotas.get(&entity).cloned().unwrap_or_default();
        match value {
            Some(value) => {
                values.insert(Arc::from(name), value.to_bits());
            }
            None => {
                values.remove(name);
            }
        }
        if values.is_empty() {
            quotas.remove(&entity);
        } else {
            quotas.insert(entity, values);
        }
    }

    /// Adds or replaces an access control entry.
    pub fn set_acl(&mut self, id: Uuid, entry: AccessControlEntry) {
        self.acls = true;
        self.image_mut().acls.insert(id, Arc::new(entry));
    }

    /// Removes an access control entry; false when it is unknown.
    pub fn remove_acl(&mut self, id: Uuid) -> bool {
        self.acls = true;
        self.image_mut().acls.remove(&id).is_some()
    }

    /// Adds or replaces a user's SCRAM credential for one mechanism.
    pub fn set_scram(&mut self, mechanism: i8, user: &str, credential: ScramCredential) {
        self.scram = true;
        self.image_mut().scram.insert((mechanism, Arc::from(user)), Arc::new(credential));
    }

    /// Removes a user's SCRAM credential; false when it is unknown.
    pub fn remove_scram(&mut self, mechanism: i8, user: &str) -> bool {
        self.scram = true;
        self.image_mut().scram.remove(&(mechanism, Arc::from(user))).is_some()
    }

    /// Adds or replaces a delegation token.
    pub fn set_delegation_token(&mut self, id: &str, token: DelegationToken) {
        self.delegation_tokens = true;
        self.image_mut().delegation_tokens.insert(Arc::from(id), Arc::new(token));
    }

    /// Removes a delegation token; false when it is unknown.
    pub fn remove_delegation_token(&mut self, id: &str) -> bool {
        self.delegation_tokens = true;
        self.image_mut().delegation_tokens.remove(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(replicas: &[BrokerId], leader: BrokerId) -> PartitionRegistration {
        PartitionRegistration { replicas: replicas.to_vec(), isr: replicas.to_vec(), leader, ..Default::default() }
    }

    fn id(n: u128) -> TopicId {
        Uuid::from_u128(n)
    }

    #[test]
    fn a_delta_names_what_changed_and_leaves_its_base_alone() {
        let mut first = MetadataDelta::new(Arc::default());
        first.create_topic("a", id(101));
        assert!(first.set_partition(id(101), 0, partition(&[1, 2], 1)));
        assert!(first.set_partition(id(101), 1, partition(&[2, 3], 2)));
        assert!(!first.set_partition(id(102), 0, partition(&[1], 1)));
        assert_eq!(first.topics()[&id(101)].kind, TopicChangeKind::Created);
        let changes = first.local_changes(2);
        assert_eq!((changes.leading.len(), changes.following.len(), changes.deleted.len()), (1, 1, 0));

        let mut second = MetadataDelta::new(first.image().clone());
        second.set_partition(id(101), 0, partition(&[1, 3], 1));
        second.set_config(ConfigResource::topic("a"), "retention.ms", Some("1"));
        assert_eq!(second.topics()[&id(101)].partitions, BTreeSet::from([0]));
        let changes = second.local_changes(2);
        assert_eq!((changes.leading.len(), changes.following.len(), changes.deleted.len()), (0, 0, 1));
        assert!(second.base().topics.partition(id(101), 0).expect("in the base").has_replica(2));
        assert_eq!(second.image().topics.partition_count(), 2);

        let mut third = MetadataDelta::new(second.image().clone());
        assert!(third.remove_topic(id(101)));
        third.create_topic("a", id(103));
        third.set_partition(id(103), 0, partition(&[2], 2));
        assert_eq!(third.topics()[&id(101)].kind, TopicChangeKind::Deleted);
        assert_eq!(third.image().topics.by_name("a").expect("created again").id, id(103));
        assert!(!third.image().configs.contains(&ConfigResource::topic("a")));
        assert_eq!(third.local_changes(2).deleted.len(), 1);
        assert_eq!(third.image().topics.partition_count(), 1);
    }

    #[test]
    fn what_comes_and_goes_within_a_delta_is_not_mentioned() {
        let mut delta = MetadataDelta::new(Arc::default());
        delta.create_topic("a", id(101));
        delta.set_partition(id(101), 0, partition(&[1], 1));
        assert!(delta.remove_topic(id(101)));
        assert!(!delta.remove_topic(id(101)));
        assert!(delta.topics().is_empty() && delta.is_empty());
        assert_eq!(**delta.image(), MetadataImage::default());
    }
}
