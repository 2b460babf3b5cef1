//! What the consumer protocol keeps beside the records: deadlines, options and what was computed from metadata. All of it is
//! made anew after a restart.

use std::sync::Arc;

use base::Now;
use config::{BrokerConfig, GroupValues, Value};
use metadata::{ConfigResource, ConfigResourceType, MetadataImage};

use crate::api::Env;
use crate::assignor::Assignor;
use crate::config::GroupConfig;
use crate::metadata_hash::TopicHashes;
use crate::timers::Deadline;

/// "Never", in monotonic ns.
pub(crate) const NEVER: u64 = u64::MAX;

/// The moment `ms` from now, in monotonic ns. What is negative is due at once.
pub(crate) fn after_ms(now: Now, ms: i32) -> u64 {
    now.plus_ms(u64::from(ms.max(0).unsigned_abs())).mono_ns
}

/// The deadlines of a member, in monotonic ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    /// Its session ends.
    pub session_ns: u64,
    /// The deadlines that only a rebalance has.
    pub rebalance: Option<Box<RebalanceWaits>>,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { session_ns: NEVER, rebalance: None }
    }
}

/// Deadlines during a rebalance, in monotonic ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RebalanceWaits {
    /// Partitions must have been given up, unless the member has left this epoch.
    pub revoke: Option<(u64, i32)>,
    /// A classic member must have joined again.
    pub join_ns: u64,
    /// A classic member must have asked for its assignment.
    pub sync_ns: u64,
}

impl Waits {
    /// The deadlines of a rebalance.
    pub fn rebalance_mut(&mut self) -> &mut RebalanceWaits {
        self.rebalance.get_or_insert_with(|| Box::new(RebalanceWaits { revoke: None, join_ns: NEVER, sync_ns: NEVER }))
    }

    /// The next of them.
    pub fn next_ns(&self) -> u64 {
        let rebalance = self
            .rebalance
            .as_ref()
            .map_or(NEVER, |waits| waits.join_ns.min(waits.sync_ns).min(waits.revoke.map_or(NEVER, |(at, _)| at)));
        self.session_ns.min(rebalance)
    }

    /// Drops what has no deadline left.
    pub fn tidy(&mut self) {
        let none = RebalanceWaits { revoke: None, join_ns: NEVER, sync_ns: NEVER };
        if self.rebalance.as_deref() == Some(&none) {
            self.rebalance = None;
        }
    }
}

/// What a group keeps beside its records.
#[derive(Debug, Default)]
pub(crate) struct GroupSoft {
    /// The one timer of the group: the first deadline of any of its members, as far as known when it was set.
    pub timer: Deadline,
    /// When it is set for.
    pub timer_ns: Option<u64>,
    /// Its regular expressions are to be looked at again as soon as possible.
    pub regex_due: bool,
    /// Up to which change of topics its metadata hash was compared with the image; 0 for never.
    pub topics_seen: u64,
    /// Its options, as of a change of configuration.
    pub options: Option<(u64, GroupOptions)>,
}

/// Options of a group: its own, else the broker's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupOptions {
    /// `consumer.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `consumer.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
}

impl GroupOptions {
    fn new(image: &MetadataImage, config: &GroupConfig, group_id: &str) -> GroupOptions {
        let resource = ConfigResource { kind: ConfigResourceType::Group, name: Arc::from(group_id) };
        let overrides: std::collections::BTreeMap<String, String> =
            image.configs.overrides(&resource).iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let values = if overrides.is_empty() { None } else { config.of_group(&overrides) };
        let int = |name: &str| match values.as_ref().and_then(|values: &GroupValues| values.get(name)) {
            Some(Value::Int(value)) => *value,
            _ => config.broker.values.int(&format!("group.{name}")),
        };
        GroupOptions {
            session_timeout_ms: int("consumer.session.timeout.ms"),
            heartbeat_interval_ms: int("consumer.heartbeat.interval.ms"),
            assignment_interval_ms: int("consumer.assignment.interval.ms"),
        }
    }
}

/// Which way groups may change their protocol while they have members (`group.consumer.migration.policy`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Migration {
    /// Classic groups may become consumer groups.
    pub upgrade: bool,
    /// Consumer groups may become classic groups.
    pub downgrade: bool,
}

/// Options of the broker.
#[derive(Clone, Debug)]
pub(crate) struct BrokerOptions {
    /// `group.consumer.assignors` as far as this broker has them, the default first.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.max.size`.
    pub members_max: usize,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_ms: i64,
    /// `group.consumer.migration.policy`.
    pub migration: Migration,
}

impl BrokerOptions {
    fn new(config: &BrokerConfig) -> BrokerOptions {
        let values = &config.values;
        let mut assignors: Vec<Assignor> =
            values.list("group.consumer.assignors").iter().filter_map(|name| Assignor::from_name(name)).collect();
        if assignors.is_empty() {
            assignors.push(Assignor::Uniform);
        }
        let policy = values.text("group.consumer.migration.policy").to_ascii_lowercase();
        BrokerOptions {
            assignors,
            members_max: values.count("group.consumer.max.size") as usize,
            regex_refresh_ms: i64::from(values.int("group.consumer.regex.refresh.interval.ms")),
            migration: Migration {
                upgrade: policy == "upgrade" || policy == "bidirectional",
                downgrade: policy == "downgrade" || policy == "bidirectional",
            },
        }
    }

    /// The assignor of groups whose members prefer none.
    pub fn default_assignor(&self) -> Assignor {
        self.assignors[0]
    }
}

/// A deadline of a member that will exist once the records of its join are replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fresh {
    /// The group.
    pub group_id: Arc<str>,
    /// The member.
    pub member_id: Arc<str>,
    /// Its deadlines.
    pub waits: Waits,
    /// The group's regular expressions are to be looked at.
    pub regex_due: bool,
}

/// What the consumer groups of a shard share.
#[derive(Debug)]
pub(crate) struct ConsumerState {
    options: Option<(Arc<BrokerConfig>, BrokerOptions)>,
    /// Grows with every change of configuration; options read before are old.
    config_changes: u64,
    /// Grows with every change of topics; starts at 1.
    pub topic_changes: u64,
    /// Offset of the metadata image that last brought new topics.
    pub new_topics_version: i64,
    /// Hashes of subscribed topics.
    pub hashes: TopicHashes,
    /// Deadlines that wait for their members.
    pub fresh: Vec<Fresh>,
    /// New epochs that heartbeats, joins or regular expressions called for.
    pub rebalances: u64,
}

impl Default for ConsumerState {
    fn default() -> ConsumerState {
        ConsumerState {
            options: None,
            config_changes: 0,
            topic_changes: 1,
            new_topics_version: -1,
            hashes: TopicHashes::default(),
            fresh: Vec::new(),
            rebalances: 0,
        }
    }
}

impl ConsumerState {
    /// Looks whether the configuration is another one. Every request begins with it.
    pub fn refresh(&mut self, env: &Env<'_>) {
        let same = self.options.as_ref().is_some_and(|(config, _)| Arc::ptr_eq(config, &env.config.broker));
        if !same {
            self.config_changes += 1;
            self.options = Some((env.config.broker.clone(), BrokerOptions::new(&env.config.broker)));
        }
        if self.new_topics_version < 0 {
            self.new_topics_version = env.image.provenance.last_offset;
        }
        self.fresh.clear();
    }

    /// The broker's options.
    pub fn broker(&self) -> &BrokerOptions {
        &self.options.as_ref().expect("refreshed at the start of every call").1
    }

    /// Options of groups are to be read again.
    pub fn group_configs_changed(&mut self) {
        self.config_changes += 1;
    }

    /// The options of a group, from `cached` if they are still those.
    pub fn group_options(
        &self,
        env: &Env<'_>,
        group_id: &str,
        cached: &Option<(u64, GroupOptions)>,
    ) -> (u64, GroupOptions) {
        match cached {
            Some((as_of, options)) if *as_of == self.config_changes => (*as_of, *options),
            _ => (self.config_changes, GroupOptions::new(env.image, env.config, group_id)),
        }
    }
}
