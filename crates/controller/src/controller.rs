use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BrokerId, Now, Offset, Prng, Uuid};
use config::LayeredConfig;
use metadata::features::MetadataVersion;
use metadata::{
    ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage, Provenance, ReplayError, TopicImage,
    VersionedRecord, directory_id,
};
use wire::metadata_record::MetadataRecord;

use crate::heartbeat::Heartbeats;
use crate::names::Collisions;

/// Most records that one request may make: they go into one batch, which readers hold in memory whole.
pub(crate) const RECORDS_PER_REQUEST_MAX: usize = 10_000;

/// What the controller is told when it starts.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// `node.id`.
    pub node_id: i32,
    /// True when the same process is a broker too. Its earlier incarnation is then known to be gone.
    pub combined: bool,
    /// Cluster id from `meta.properties`.
    pub cluster_id: String,
    /// Ids of the voters; every one of them has to support a feature before its level is raised.
    pub voter_ids: Vec<i32>,
    /// The configuration without dynamic layers; the controller keeps them itself.
    pub config: LayeredConfig,
}

/// The circumstances of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// The present.
    pub now: Now,
    /// Offset that the decision's first record will get.
    pub next_offset: Offset,
    /// `kraft.version` in force.
    pub kraft_version: i16,
}

/// Something the quorum itself has to do for a decision, besides writing records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuorumChange {
    /// Keep the voters in the log from now on (`kraft.version` 0 to 1).
    UpgradeToDynamicVoters,
}

/// What was decided: records to be written in one batch, then the answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision<R> {
    /// The records; none when nothing changes.
    pub records: Vec<VersionedRecord<'static>>,
    /// A change of the quorum that goes before the records.
    pub quorum: Option<QuorumChange>,
    /// The answer, valid once the records are committed.
    pub response: R,
}

impl<R> Decision<R> {
    pub(crate) fn new(records: Vec<VersionedRecord<'static>>, response: R) -> Decision<R> {
        Decision { records, quorum: None, response }
    }

    pub(crate) fn answer(response: R) -> Decision<R> {
        Decision::new(Vec::new(), response)
    }

    pub(crate) fn map<S>(self, with: impl FnOnce(R) -> S) -> Decision<S> {
        Decision { records: self.records, quorum: self.quorum, response: with(self.response) }
    }
}

/// Policy of one topic that elections ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicPolicy {
    pub(crate) min_isr: usize,
    pub(crate) unclean_election: bool,
}

/// The controller's state: the newest image, records included that are written but not yet committed, and what is derived
/// from it. [`Controller::replay`] is the only way in which the image changes.
#[derive(Debug)]
pub struct Controller {
    pub(crate) node_id: i32,
    combined: bool,
    pub(crate) cluster_id: String,
    pub(crate) voter_ids: Vec<i32>,
    delta: MetadataDelta,
    layered: LayeredConfig,
    /// The dynamic layers have changed since `layered` was made.
    layers_changed: bool,
    pub(crate) collisions: Collisions,
    registered_at: BTreeMap<BrokerId, Offset>,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) periodic: crate::periodic::Periodic,
}

impl Controller {
    /// A controller on top of `image`, which comes from a snapshot or is empty.
    pub fn new(config: ControllerConfig, image: Arc<MetadataImage>, now: Now) -> Controller {
        let mut collisions = Collisions::default();
        image.topics.iter().for_each(|topic| collisions.insert(&topic.name));
        let heartbeats = Heartbeats::new(config.config.current.session_timeout_ms);
        let registered_at = image.cluster.brokers().map(|broker| (broker.id, image.provenance.last_offset)).collect();
        let mut controller = Controller {
            node_id: config.node_id,
            combined: config.combined,
            cluster_id: config.cluster_id,
            voter_ids: config.voter_ids,
            periodic: crate::periodic::Periodic::new(&config.config, now),
            delta: MetadataDelta::new(image),
            layered: config.config,
            layers_changed: true,
            collisions,
            registered_at,
            heartbeats,
        };
        controller.refresh_layers();
        controller
    }

    /// Begins to lead: brokers that serve get a session's time to be heard from.
    pub fn activate(&mut self, now: Now) {
        let brokers: Vec<_> = self.image().cluster.brokers().cloned().collect();
        for broker in brokers {
            self.heartbeats.register(broker.id, broker.fenced);
            // A broker of this process cannot have outlived it: its next incarnation need not wait for the session's end.
            let own = self.combined && broker.id == self.node_id;
            if !broker.fenced && !own {
                self.heartbeats.contact(broker.id, broker.epoch, now);
            }
        }
    }

    /// Takes in who votes, once the log has been read.
    pub fn set_voter_ids(&mut self, ids: Vec<i32>) {
        self.voter_ids = ids;
    }

    /// The newest image.
    pub fn image(&self) -> &Arc<MetadataImage> {
        self.delta.image()
    }

    /// True between the records that open and end a metadata transaction.
    pub fn in_transaction(&self) -> bool {
        self.delta.in_transaction()
    }

    /// The metadata version before the open transaction; the version in force when none is open.
    pub(crate) fn committed_version(&self) -> Option<MetadataVersion> {
        self.delta.committed_image().features.metadata_version()
    }

    /// Applies a record that stands, or is about to stand, at `offset` of the log.
    ///
    /// # Errors
    /// When it does not fit; the controller is then unusable.
    pub fn replay(&mut self, offset: Offset, record: &MetadataRecord<'_>) -> Result<(), ReplayError> {
        if let MetadataRecord::RemoveTopic(removed) = record
            && let Some(topic) = self.delta.image().topics.by_id(removed.topic_id)
        {
            self.collisions.remove(&topic.name);
        }
        self.delta.replay(record)?;
        match record {
            MetadataRecord::Topic(topic) => self.collisions.insert(&topic.name),
            MetadataRecord::Config(r) if r.resource_type == ConfigResourceType::Broker.code() => {
                self.layers_changed = true;
            }
            MetadataRecord::RegisterBroker(r) => {
                self.registered_at.insert(r.broker_id, offset);
                self.heartbeats.remove(r.broker_id);
                self.heartbeats.register(r.broker_id, r.fenced);
            }
            MetadataRecord::UnregisterBroker(r) => {
                self.registered_at.remove(&r.broker_id);
                self.heartbeats.remove(r.broker_id);
            }
            MetadataRecord::BrokerRegistrationChange(r) => self.note_fencing(r.broker_id),
            MetadataRecord::FenceBroker(r) => self.note_fencing(r.id),
            MetadataRecord::UnfenceBroker(r) => self.note_fencing(r.id),
            // What the transaction created is gone again; its effects on derived state are rebuilt.
            MetadataRecord::AbortTransaction(_) => self.rebuild_derived(),
            _ => {}
        }
        Ok(())
    }

    fn note_fencing(&mut self, broker: BrokerId) {
        let fenced = self.delta.image().cluster.broker(broker).is_none_or(|broker| broker.fenced);
        self.heartbeats.register(broker, fenced);
    }

    fn rebuild_derived(&mut self) {
        self.layers_changed = true;
        self.collisions = Collisions::default();
        for topic in self.delta.image().topics.iter() {
            self.collisions.insert(&topic.name);
        }
    }

    /// Notes the level of `kraft.version`, which control records carry.
    pub fn set_kraft_version(&mut self, level: i16) {
        if self.image().features.level(metadata::features::KRAFT_VERSION) != level {
            self.delta.set_kraft_version(level);
        }
    }

    /// Hands out what was replayed since the last call; the image stands at `provenance`.
    pub fn take_delta(&mut self, provenance: Provenance) -> MetadataDelta {
        self.delta.finish(provenance);
        let next = MetadataDelta::new(self.delta.image().clone());
        std::mem::replace(&mut self.delta, next)
    }

    /// The configuration with the dynamic layers that the image holds.
    pub(crate) fn layered(&mut self) -> &LayeredConfig {
        if self.layers_changed {
            self.refresh_layers();
        }
        &self.layered
    }

    fn refresh_layers(&mut self) {
        self.layers_changed = false;
        let image = self.delta.image();
        let cluster = image.configs.overrides(&ConfigResource::default_broker());
        let node = image.configs.overrides(&ConfigResource::broker(self.node_id));
        // What cannot be applied is left out; the broker says so in its own log.
        let (layered, _) = self.layered.with_dynamic(cluster, node);
        self.layered = layered;
    }

    /// The metadata version in force.
    pub(crate) fn version(&self) -> MetadataVersion {
        self.image().features.metadata_version_or_min()
    }

    /// Offset of a broker's registration.
    pub(crate) fn registered_at(&self, broker: BrokerId) -> Offset {
        self.registered_at.get(&broker).copied().unwrap_or(Offset::MAX)
    }

    /// The directory in which a broker puts a new replica, as far as it is known beforehand.
    pub(crate) fn default_directory(&self, broker: BrokerId) -> Uuid {
        let Some(broker) = self.image().cluster.broker(broker) else { return directory_id::UNASSIGNED };
        match broker.directories[..] {
            [] => directory_id::MIGRATING,
            [only] => only,
            _ => directory_id::UNASSIGNED,
        }
    }

    /// What elections of a topic's partitions need to know.
    pub(crate) fn topic_policy(&mut self, topic: &TopicImage) -> TopicPolicy {
        let resource = ConfigResource::topic(&topic.name);
        let image = self.image().clone();
        let overrides = image.configs.overrides(&resource);
        let values = self.layered().values();
        let min_isr = overrides.get("min.insync.replicas").and_then(|text| text.trim().parse::<usize>().ok());
        let min_isr = min_isr.unwrap_or(values.count("min.insync.replicas") as usize);
        let unclean =
            overrides.get("unclean.leader.election.enable").map(|text| text.trim().eq_ignore_ascii_case("true"));
        let replicas = topic.partition(0).map_or(1, |partition| partition.replicas.len());
        TopicPolicy {
            min_isr: min_isr.min(replicas),
            unclean_election: unclean.unwrap_or_else(|| values.boolean("unclean.leader.election.enable")),
        }
    }
}

/// A fresh random id of version 4.
pub(crate) fn random_uuid(prng: &mut Prng) -> Uuid {
    loop {
        let bits = (u128::from(prng.next_u64()) << 64) | u128::from(prng.next_u64());
        if let Some(id) = Uuid::from_random_bits(bits) {
            return id;
        }
    }
}
