//! Groups on the cores they live on: each partition of `__consumer_offsets` that this broker leads has a [`Host`] on its
//! home core, around a pure machine of the `group` crate.

mod host;
mod load;
mod requests;
mod serve;

pub use serve::{GroupJob, ask, ask_one, serve};

use crate::core::DataCore;
use crate::internal_topics::CONSUMER_OFFSETS;
use base::{PartitionIndex, PartitionKey};
use config::LayeredConfig;
use group::GroupConfig;
use host::Host;
use metadata::MetadataDelta;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::ErrorCode;

/// The hosts of one core.
pub struct Groups {
    hosts: RefCell<BTreeMap<PartitionIndex, Rc<Host>>>,
    config: RefCell<Rc<GroupConfig>>,
}

impl Groups {
    /// No partition is led yet.
    pub fn new(layered: &LayeredConfig) -> Groups {
        Groups { hosts: RefCell::default(), config: RefCell::new(Rc::new(GroupConfig::new(layered))) }
    }

    /// The host of a partition that lives here.
    fn host(&self, partition: PartitionIndex) -> Option<Rc<Host>> {
        self.hosts.borrow().get(&partition).cloned()
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

/// True while consumer groups may be used: `group.version` is finalized at 1 or above, and
/// `group.coordinator.rebalance.protocols` lists them.
pub fn serves_consumer_groups(core: &DataCore) -> bool {
    let is_listed = core.config().values.list("group.coordinator.rebalance.protocols").iter().any(|p| p == "consumer");
    is_listed && core.image().features.level(metadata::features::GROUP_VERSION) >= CONSUMER_GROUPS_LEVEL
}

/// First level of `group.version` with consumer groups.
const CONSUMER_GROUPS_LEVEL: i16 = 1;

/// Follows new metadata, which `core` shows already: begins and ends to host partitions, and tells the machines.
pub fn follow(core: &Rc<DataCore>, delta: &MetadataDelta) {
    if delta.configs().iter().any(|resource| resource.kind == metadata::ConfigResourceType::Broker) {
        *core.groups.config.borrow_mut() = Rc::new(GroupConfig::new(&core.layered()));
    }
    if delta.topics().values().any(|change| &*change.name == CONSUMER_OFFSETS) {
        follow_leadership(core);
    }
    for host in core.groups.hosts() {
        host.metadata_changed(core, delta);
    }
}

fn follow_leadership(core: &Rc<DataCore>) {
    let led = led_here(core);
    core.groups.hosts.borrow_mut().retain(|partition, host| {
        let keeps = led.get(partition) == Some(&(host.key(), host.leader_epoch()));
        if !keeps {
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

/// Partitions of `__consumer_offsets` that live on this core and that this broker leads, with the epoch of that.
fn led_here(core: &DataCore) -> BTreeMap<PartitionIndex, (PartitionKey, base::LeaderEpoch)> {
    let image = core.image();
    let Some(topic) = image.topics.by_name(CONSUMER_OFFSETS) else { return BTreeMap::new() };
    let key = |partition| PartitionKey { topic_id: topic.id, partition };
    let ours = topic.partitions().filter(|(partition, registration)| {
        registration.leader == core.node.id && key(*partition).home_core(core.layout.data_cores) == core.id
    });
    ours.map(|(partition, registration)| (partition, (key(partition), registration.leader_epoch))).collect()
}
