use std::sync::Arc;

use base::{BrokerId, Uuid};
use imbl::OrdMap;

/// Where a node listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// Listener name.
    pub name: Arc<str>,
    /// Advertised host.
    pub host: Arc<str>,
    /// Advertised port.
    pub port: u16,
    /// Security protocol by its number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// Range of levels a node supports of a feature, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// Lowest level.
    pub min: i16,
    /// Highest level.
    pub max: i16,
}

impl std::fmt::Display for VersionRange {
    /// As Kafka's messages print it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (min, i16::MAX) => write!(f, "{min}+"),
            (min, max) => write!(f, "{min}-{max}"),
        }
    }
}

impl VersionRange {
    /// True when `level` lies inside.
    pub fn contains(self, level: i16) -> bool {
        (self.min..=self.max).contains(&level)
    }
}

/// A broker as it registered itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRegistration {
    /// `node.id`.
    pub id: BrokerId,
    /// Offset of the registration's record; tells incarnations apart.
    pub epoch: i64,
    /// Id of the broker process.
    pub incarnation_id: Uuid,
    /// Advertised listeners by name.
    pub listeners: OrdMap<Arc<str>, Endpoint>,
    /// Features the broker supports.
    pub features: OrdMap<Arc<str>, VersionRange>,
    /// Rack, if configured.
    pub rack: Option<Arc<str>>,
    /// Fenced brokers serve no clients and lead nothing.
    pub fenced: bool,
    /// True while the broker shuts down in order.
    pub in_controlled_shutdown: bool,
    /// Left from a ZooKeeper migration; carried through only.
    pub is_migrating_zk_broker: bool,
    /// Ids of the online log directories, sorted.
    pub directories: Vec<Uuid>,
    /// Ids of log directories that take no new replicas (KIP-1066), sorted; `None` when never reported.
    pub cordoned_directories: Option<Vec<Uuid>>,
}

impl BrokerRegistration {
    /// True when the broker may be an ISR member and a leader.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// The endpoint of one listener.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.listeners.get(listener)
    }

    /// True when a log directory takes new replicas (KIP-1066).
    pub fn has_uncordoned_directory(&self) -> bool {
        let Some(cordoned) = &self.cordoned_directories else { return true };
        self.directories.is_empty() || self.directories.iter().any(|directory| !cordoned.contains(directory))
    }

    /// True when the log directory is online on this broker.
    pub fn has_online_dir(&self, directory: Uuid) -> bool {
        crate::directory_id::is_online(directory, &self.directories)
    }
}

/// A controller as it registered itself (KIP-919).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerRegistration {
    /// `node.id`.
    pub id: i32,
    /// Id of the controller process.
    pub incarnation_id: Uuid,
    /// Left from a ZooKeeper migration; carried through only.
    pub zk_migration_ready: bool,
    /// Listeners by name.
    pub listeners: OrdMap<Arc<str>, Endpoint>,
    /// Features the controller supports.
    pub features: OrdMap<Arc<str>, VersionRange>,
}

/// The nodes of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterImage {
    brokers: OrdMap<BrokerId, Arc<BrokerRegistration>>,
    controllers: OrdMap<i32, Arc<ControllerRegistration>>,
}

impl ClusterImage {
    /// One broker, fenced or not.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    /// All brokers in order of their ids, fenced ones included.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values()
    }

    /// Brokers that serve clients.
    pub fn unfenced_brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    /// True when the broker is registered and not fenced.
    pub fn is_unfenced(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|broker| !broker.fenced)
    }

    /// True when the broker is registered, not fenced and not shutting down.
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|broker| broker.is_active())
    }

    /// One controller.
    pub fn controller(&self, id: i32) -> Option<&Arc<ControllerRegistration>> {
        self.controllers.get(&id)
    }

    /// All registered controllers in order of their ids.
    pub fn controllers(&self) -> impl Iterator<Item = &Arc<ControllerRegistration>> {
        self.controllers.values()
    }

    pub(crate) fn set_broker(&mut self, broker: BrokerRegistration) {
        self.brokers.insert(broker.id, Arc::new(broker));
    }

    pub(crate) fn remove_broker(&mut self, id: BrokerId) -> bool {
        self.brokers.remove(&id).is_some()
    }

    pub(crate) fn set_controller(&mut self, controller: ControllerRegistration) {
        self.controllers.insert(controller.id, Arc::new(controller));
    }

    pub(crate) fn remove_controller(&mut self, id: i32) -> bool {
        self.controllers.remove(&id).is_some()
    }
}
