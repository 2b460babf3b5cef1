//! Groups on the cores they live on: each partition of `__consumer_offsets` that this broker leads has a [`Host`] on its
//! home core, around a pure machine of the `group` crate.

mod host;
mod load;
mod metrics;
mod placement;
mod requests;
mod serve;

pub use serve::{GroupJob, ask, serve, start};

use self::metrics::{GroupMetrics, PartitionStates};
use crate::core::DataCore;
use crate::internal_topics::CONSUMER_OFFSETS;
use ::metrics::Registry;
use base::{CoreId, PartitionIndex, PartitionKey};
use config::LayeredConfig;
use coordinator::State;
use group::{GroupConfig, GroupCounts};
use host::Host;
use metadata::{ConfigResource, ConfigResourceType, MetadataDelta};
use placement::Placement;
use reactor::sync::Semaphore;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::ErrorCode;

/// The hosts of one core.
pub struct Groups {
    hosts: RefCell<BTreeMap<PartitionIndex, Rc<Host>>>,
    config: RefCell<Rc<GroupConfig>>,
    placement: RefCell<Placement>,
    /// Partitions whose logs are being read.
    loads: Semaphore,
    metrics: GroupMetrics,
}

/// Partitions of a core whose logs are read at once: one is replayed while the disk has the other. Each takes a buffer of
/// `offsets.load.buffer.size`, and there may be dozens of them.
const LOADS_MAX: usize = 2;

impl Groups {
    /// No partition is led yet. What is counted goes into `registry`.
    pub fn new(layered: &LayeredConfig, registry: &Registry) -> Groups {
        let config = RefCell::new(Rc::new(GroupConfig::new(layered)));
        let metrics = GroupMetrics::new(registry);
        let loads = Semaphore::new(LOADS_MAX);
        Groups { hosts: RefCell::default(), config, placement: RefCell::default(), loads, metrics }
    }

    /// Brings the metrics up to date.
    pub fn count(&self) {
        let (mut partitions, mut counts) = (PartitionStates::default(), GroupCounts::default());
        for host in self.hosts() {
            self.collect(&host);
            let (state, groups) = host.counts();
            match state {
                State::Loading => partitions.loading += 1,
                State::Active => partitions.active += 1,
                State::Failed => partitions.failed += 1,
            }
            counts = counts.plus(groups);
        }
        self.metrics.show(partitions, counts);
    }

    /// Takes over what the machine of a host has counted since it was last asked.
    fn collect(&self, host: &Host) {
        self.metrics.happened(host.new_events());
    }

    /// The host of a partition that lives here.
    fn host(&self, partition: PartitionIndex) -> Option<Rc<Host>> {
        self.hosts.borrow().get(&partition).cloned()
    }

    /// The host of a group that lives here.
    fn host_of(&self, group_id: &str) -> Option<Rc<Host>> {
        self.host(self.placement.borrow().partition(group_id)?)
    }

    /// The core a group lives on, if this broker coordinates it.
    fn home(&self, group_id: &str) -> Option<CoreId> {
        self.placement.borrow().home(group_id)
    }

    fn serves_consumer_groups(&self) -> bool {
        self.placement.borrow().serves_consumer_groups()
    }

    fn hosts(&self) -> Vec<Rc<Host>> {
        self.hosts.borrow().values().cloned().collect()
    }

    /// The broker stops: nobody waits any longer for other members, and no session ends because clients are being
    /// disconnected.
    pub fn stop(&self) {
        for host in self.hosts() {
            host.resign(ErrorCode::NOT_COORDINATOR);
        }
    }

    fn config(&self) -> Rc<GroupConfig> {
        self.config.borrow().clone()
    }
}

/// Follows new metadata, which `core` shows already: begins and ends to host partitions, and tells the machines.
pub fn follow(core: &Rc<DataCore>, delta: &MetadataDelta) {
    core.groups.placement.replace(Placement::read(core));
    let offsets_topic = ConfigResource::topic(CONSUMER_OFFSETS);
    let matters = |resource: &ConfigResource| resource.kind == ConfigResourceType::Broker || *resource == offsets_topic;
    if delta.configs().iter().any(matters) {
        *core.groups.config.borrow_mut() = Rc::new(read_config(core, &offsets_topic));
    }
    let topic_changed = delta.topics().values().any(|change| &*change.name == CONSUMER_OFFSETS);
    if topic_changed || delta.brokers().contains(&core.node.id) {
        follow_leadership(core);
    }
    for host in core.groups.hosts() {
        host.metadata_changed(core, delta);
    }
}

/// The options in force. What the broker accepts counts where the topic's own settings cannot be read, as it does for the topic.
fn read_config(core: &DataCore, offsets_topic: &ConfigResource) -> GroupConfig {
    let layered = core.layered();
    let config = GroupConfig::new(&layered);
    match layered.topic(core.image().configs.overrides(offsets_topic)) {
        Ok(topic) => config.with_message_bytes_max(topic.max_message_bytes),
        Err(_) => config,
    }
}

fn follow_leadership(core: &Rc<DataCore>) {
    let led = led_here(core);
    core.groups.hosts.borrow_mut().retain(|partition, host| {
        let keeps = led.get(partition) == Some(&(host.key(), host.leader_epoch()));
        if !keeps {
            core.groups.collect(host);
            host.resign(ErrorCode::NOT_COORDINATOR);
        }
        keeps
    });
    for (partition, (key, leader_epoch)) in led {
        if core.groups.host(partition).is_none() {
            let host = Host::start(core, key, leader_epoch);
            core.groups.hosts.borrow_mut().insert(partition, host);
        }
    }
}

/// Partitions of `__consumer_offsets` that live on this core and that this broker leads, with the epoch of that. None until
/// this process has registered: what its predecessor led is not its own yet, and would be loaded twice.
fn led_here(core: &DataCore) -> BTreeMap<PartitionIndex, (PartitionKey, base::LeaderEpoch)> {
    let image = core.image();
    let registered = image.cluster.broker(core.node.id);
    if registered.is_none_or(|broker| broker.incarnation_id != core.node.incarnation_id) {
        return BTreeMap::new();
    }
    let Some(topic) = image.topics.by_name(CONSUMER_OFFSETS) else { return BTreeMap::new() };
    let key = |partition| PartitionKey { topic_id: topic.id, partition };
    let ours = topic.partitions().filter(|(partition, registration)| {
        registration.leader == core.node.id && key(*partition).home_core(core.layout.data_cores) == core.id
    });
    ours.map(|(partition, registration)| (partition, (key(partition), registration.leader_epoch))).collect()
}
