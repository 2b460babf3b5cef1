use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BrokerId, PartitionIndex, PartitionKey, TopicId};

use crate::configs::ConfigResource;
use crate::image::{MetadataImage, Provenance};
use crate::topics::{PartitionRegistration, TopicImage};

/// What happened to a topic between two images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicChangeKind {
    /// It is new; every partition of it is listed.
    Created,
    /// Some partitions are new or changed; only those are listed.
    Changed,
    /// It is gone; every partition it had is listed.
    Deleted,
}

/// One changed topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicChange {
    /// What happened.
    pub kind: TopicChangeKind,
    /// The topic's name.
    pub name: Arc<str>,
    /// The partitions concerned.
    pub partitions: BTreeSet<PartitionIndex>,
}

/// One local replica in [`LocalReplicaChanges`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalReplica {
    /// The partition.
    pub key: PartitionKey,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The new registration; for a deleted replica the last one it had.
    pub registration: Arc<PartitionRegistration>,
}

/// What a delta means to the replicas of one broker.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalReplicaChanges {
    /// Replicas that are to be removed: their topic is gone, or the broker is no replica any more.
    pub deleted: Vec<LocalReplica>,
    /// New or changed partitions that the broker leads.
    pub leading: Vec<LocalReplica>,
    /// New or changed partitions that the broker holds and does not lead.
    pub following: Vec<LocalReplica>,
}

/// The way from one image to a later one, and which parts of it changed. Built by replaying records, then sealed by
/// [`MetadataDelta::finish`].
#[derive(Clone, Debug)]
pub struct MetadataDelta {
    base: Arc<MetadataImage>,
    pub(crate) image: Arc<MetadataImage>,
    pub(crate) topics: BTreeMap<TopicId, TopicChange>,
    pub(crate) brokers: BTreeSet<BrokerId>,
    pub(crate) controllers: BTreeSet<i32>,
    pub(crate) configs: BTreeSet<ConfigResource>,
    pub(crate) features: bool,
    pub(crate) producer_ids: bool,
    pub(crate) client_quotas: bool,
    pub(crate) acls: bool,
    pub(crate) scram: bool,
    pub(crate) delegation_tokens: bool,
    /// The delta as it was before the open transaction.
    before_transaction: Option<Box<MetadataDelta>>,
}

impl MetadataDelta {
    /// An empty delta on top of `base`.
    pub fn new(base: Arc<MetadataImage>) -> MetadataDelta {
        MetadataDelta {
            image: base.clone(),
            base,
            topics: BTreeMap::new(),
            brokers: BTreeSet::new(),
            controllers: BTreeSet::new(),
            configs: BTreeSet::new(),
            features: false,
            producer_ids: false,
            client_quotas: false,
            acls: false,
            scram: false,
            delegation_tokens: false,
            before_transaction: None,
        }
    }

    /// The delta between two images that were not made from each other record by record, found by comparing them.
    pub fn between(base: Arc<MetadataImage>, image: Arc<MetadataImage>) -> MetadataDelta {
        let mut delta = MetadataDelta::new(base.clone());
        for topic in image.topics.iter_by_id() {
            delta.topics.extend(topic_change(base.topics.by_id(topic.id), topic).map(|change| (topic.id, change)));
        }
        for topic in base.topics.iter_by_id().filter(|topic| image.topics.by_id(topic.id).is_none()) {
            let partitions = topic.partitions().map(|(index, _)| index).collect();
            let change = TopicChange { kind: TopicChangeKind::Deleted, name: topic.name.clone(), partitions };
            delta.topics.insert(topic.id, change);
        }
        let brokers = base.cluster.brokers().chain(image.cluster.brokers()).map(|broker| broker.id);
        delta.brokers = brokers.filter(|id| base.cluster.broker(*id) != image.cluster.broker(*id)).collect();
        let controllers = base.cluster.controllers().chain(image.cluster.controllers()).map(|node| node.id);
        delta.controllers =
            controllers.filter(|id| base.cluster.controller(*id) != image.cluster.controller(*id)).collect();
        let resources = base.configs.iter().chain(image.configs.iter()).map(|(resource, _)| resource);
        let changed = |r: &&ConfigResource| base.configs.overrides(r) != image.configs.overrides(r);
        delta.configs = resources.filter(changed).cloned().collect();
        delta.features = base.features != image.features;
        delta.producer_ids = base.producer_ids != image.producer_ids;
        delta.client_quotas = base.client_quotas != image.client_quotas;
        delta.acls = base.acls != image.acls;
        delta.scram = base.scram != image.scram;
        delta.delegation_tokens = base.delegation_tokens != image.delegation_tokens;
        delta.image = image;
        delta
    }

    /// True between BeginTransaction and its end. The image is provisional then: it is neither published nor written as
    /// a snapshot.
    pub fn in_transaction(&self) -> bool {
        self.before_transaction.is_some()
    }

    /// The image without the records of an open transaction.
    pub fn committed_image(&self) -> &Arc<MetadataImage> {
        self.before_transaction.as_deref().map_or(&self.image, |before| &before.image)
    }

    pub(crate) fn begin_transaction(&mut self) -> Result<(), String> {
        if self.in_transaction() {
            return Err("a transaction is already open".to_owned());
        }
        self.before_transaction = Some(Box::new(self.clone()));
        Ok(())
    }

    pub(crate) fn end_transaction(&mut self) -> Result<(), String> {
        self.before_transaction.take().map(|_| ()).ok_or_else(|| "no transaction is open".to_owned())
    }

    pub(crate) fn abort_transaction(&mut self) -> Result<(), String> {
        *self = *self.before_transaction.take().ok_or_else(|| "no transaction is open".to_owned())?;
        Ok(())
    }

    /// The image the delta starts from.
    pub fn base(&self) -> &Arc<MetadataImage> {
        &self.base
    }

    /// The image the delta leads to.
    pub fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// Changed topics by id.
    pub fn topics(&self) -> &BTreeMap<TopicId, TopicChange> {
        &self.topics
    }

    /// Brokers that registered, changed or left.
    pub fn brokers(&self) -> &BTreeSet<BrokerId> {
        &self.brokers
    }

    /// Controllers that registered, changed or left.
    pub fn controllers(&self) -> &BTreeSet<i32> {
        &self.controllers
    }

    /// Resources whose dynamic configuration changed.
    pub fn configs(&self) -> &BTreeSet<ConfigResource> {
        &self.configs
    }

    /// True when a feature level changed.
    pub fn features_changed(&self) -> bool {
        self.features
    }

    /// True when a block of producer ids was handed out.
    pub fn producer_ids_changed(&self) -> bool {
        self.producer_ids
    }

    /// True when a client quota changed.
    pub fn client_quotas_changed(&self) -> bool {
        self.client_quotas
    }

    /// True when an access control entry changed.
    pub fn acls_changed(&self) -> bool {
        self.acls
    }

    /// True when a SCRAM credential changed.
    pub fn scram_changed(&self) -> bool {
        self.scram
    }

    /// True when a delegation token changed.
    pub fn delegation_tokens_changed(&self) -> bool {
        self.delegation_tokens
    }

    /// True when nothing but the provenance differs.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
            && self.brokers.is_empty()
            && self.controllers.is_empty()
            && self.configs.is_empty()
            && !(self.features
                || self.producer_ids
                || self.client_quotas
                || self.acls
                || self.scram
                || self.delegation_tokens)
    }

    /// Marks up to where in the log the delta reaches.
    pub fn finish(&mut self, provenance: Provenance) {
        Arc::make_mut(&mut self.image).provenance = provenance;
    }

    /// What the delta means to the replicas of `broker`.
    pub fn local_changes(&self, broker: BrokerId) -> LocalReplicaChanges {
        let mut changes = LocalReplicaChanges::default();
        for (topic_id, topic) in &self.topics {
            for partition in &topic.partitions {
                self.local_change(
                    broker,
                    PartitionKey { topic_id: *topic_id, partition: *partition },
                    &topic.name,
                    &mut changes,
                );
            }
        }
        changes
    }

    fn local_change(&self, broker: BrokerId, key: PartitionKey, topic: &Arc<str>, changes: &mut LocalReplicaChanges) {
        let held = |image: &MetadataImage| {
            image
                .topics
                .partition(key.topic_id, key.partition)
                .filter(|partition| partition.has_replica(broker))
                .cloned()
        };
        let replica = |registration| LocalReplica { key, topic: topic.clone(), registration };
        match (held(&self.base), held(&self.image)) {
            (_, Some(new)) if new.leader == broker => changes.leading.push(replica(new)),
            (_, Some(new)) => changes.following.push(replica(new)),
            (Some(old), None) => changes.deleted.push(replica(old)),
            (None, None) => {}
        }
    }
}

/// What happened to a topic that is there; `None` when nothing did.
fn topic_change(old: Option<&Arc<TopicImage>>, new: &Arc<TopicImage>) -> Option<TopicChange> {
    let kind = if old.is_some() { TopicChangeKind::Changed } else { TopicChangeKind::Created };
    if old.is_some_and(|old| Arc::ptr_eq(old, new)) {
        return None;
    }
    let changed = |index: &PartitionIndex| old.and_then(|old| old.partition(*index)) != new.partition(*index);
    let partitions: BTreeSet<PartitionIndex> = new.partitions().map(|(index, _)| index).filter(changed).collect();
    let mentioned = old.is_none() || !partitions.is_empty();
    mentioned.then(|| TopicChange { kind, name: new.name.clone(), partitions })
}
