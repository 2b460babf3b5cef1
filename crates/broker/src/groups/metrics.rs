//! What is counted about groups, under the names of Apache Kafka's `group-coordinator-metrics` and `GroupMetadataManager` as a
//! JMX exporter writes them: dots, dashes and colons become underscores.
//!
//! Rates are left to whoever reads the counters. Kafka's metrics of its event queue and threads (`event-queue-size`,
//! `event-queue-time-ms`, `event-processing-time-ms`, `thread-idle-ratio`) have nothing to say here: a request is decided where it
//! arrives. Groups of a kind that is not served have none either.

use group::{GroupCounts, GroupEvents};
use metrics::{Counter, Desc, Gauge, Registry, Unit};
use std::cell::Cell;

static NUM_PARTITIONS: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_num_partitions",
    "Partitions of __consumer_offsets hosted, by state.",
    Unit::Count,
);
static GROUP_COUNT: Desc =
    Desc::new("kafka_server_group_coordinator_metrics_group_count", "Groups, by protocol.", Unit::Count);
static CONSUMER_GROUP_COUNT: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_consumer_group_count",
    "Groups of the consumer protocol, by state.",
    Unit::Count,
);
static OFFSET_COMMITS: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_offset_commit_count",
    "Offsets committed, one for each partition.",
    Unit::Count,
);
static OFFSET_EXPIRATIONS: Desc =
    Desc::new("kafka_server_group_coordinator_metrics_offset_expiration_count", "Offsets that expired.", Unit::Count);
static OFFSET_DELETIONS: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_offset_deletion_count",
    "Offsets deleted by OffsetDelete.",
    Unit::Count,
);
static CLASSIC_REBALANCES: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
    "Rebalances of classic groups that ended with assignments.",
    Unit::Count,
);
static CONSUMER_REBALANCES: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_consumer_group_rebalance_count",
    "Rebalances of groups of the consumer protocol that were begun.",
    Unit::Count,
);
static LOAD_TIME_MAX: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_partition_load_time_max",
    "Longest time that loading a partition took, in milliseconds, since the start (in Apache Kafka of the last 30 s).",
    Unit::Count,
);
static LOAD_TIME_AVG: Desc = Desc::new(
    "kafka_server_group_coordinator_metrics_partition_load_time_avg",
    "Average time that loading a partition took, in milliseconds, since the start (in Apache Kafka of the last 30 s).",
    Unit::Count,
);
static NUM_OFFSETS: Desc =
    Desc::new("kafka_coordinator_group_groupmetadatamanager_numoffsets", "Committed offsets.", Unit::Count);
static NUM_GROUPS: Desc =
    Desc::new("kafka_coordinator_group_groupmetadatamanager_numgroups", "Classic groups.", Unit::Count);
static NUM_GROUPS_EMPTY: Desc =
    Desc::new("kafka_coordinator_group_groupmetadatamanager_numgroupsempty", "Empty classic groups.", Unit::Count);
static NUM_GROUPS_PREPARING: Desc = Desc::new(
    "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance",
    "Classic groups whose members are joining.",
    Unit::Count,
);
static NUM_GROUPS_COMPLETING: Desc = Desc::new(
    "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance",
    "Classic groups that wait for their leader's assignments.",
    Unit::Count,
);
static NUM_GROUPS_STABLE: Desc = Desc::new(
    "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
    "Classic groups whose members all have their assignments.",
    Unit::Count,
);

/// How many partitions are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartitionStates {
    /// Their log is being read.
    pub loading: usize,
    /// They serve.
    pub active: usize,
    /// An append failed; they are loaded again soon.
    pub failed: usize,
}

/// The metrics of the groups of one core.
pub struct GroupMetrics {
    partitions: [Gauge; 3],
    by_protocol: [Gauge; 2],
    consumer: [Gauge; 4],
    classic: [Gauge; 4],
    classic_all: Gauge,
    offsets: Gauge,
    events: [Counter; 5],
    load_time: [Gauge; 2],
    /// Loads so far, their sum and the longest, in ms.
    loads: Cell<(u64, u64, u64)>,
}

impl GroupMetrics {
    /// All at 0.
    pub fn new(registry: &Registry) -> GroupMetrics {
        let by = |desc, label, value: &str| registry.gauge(desc, &[(label, value)]);
        let consumer = GroupCounts::CONSUMER_STATES.map(str::to_lowercase);
        let classic = [&NUM_GROUPS_EMPTY, &NUM_GROUPS_PREPARING, &NUM_GROUPS_COMPLETING, &NUM_GROUPS_STABLE];
        let events =
            [&OFFSET_COMMITS, &OFFSET_EXPIRATIONS, &OFFSET_DELETIONS, &CLASSIC_REBALANCES, &CONSUMER_REBALANCES];
        GroupMetrics {
            partitions: ["loading", "active", "failed"].map(|state| by(&NUM_PARTITIONS, "state", state)),
            by_protocol: ["classic", "consumer"].map(|protocol| by(&GROUP_COUNT, "protocol", protocol)),
            consumer: consumer.map(|state| by(&CONSUMER_GROUP_COUNT, "state", &state)),
            classic: classic.map(|desc| registry.gauge(desc, &[])),
            classic_all: registry.gauge(&NUM_GROUPS, &[]),
            offsets: registry.gauge(&NUM_OFFSETS, &[]),
            events: events.map(|desc| registry.counter(desc, &[])),
            load_time: [&LOAD_TIME_MAX, &LOAD_TIME_AVG].map(|desc| registry.gauge(desc, &[])),
            loads: Cell::new((0, 0, 0)),
        }
    }

    /// Takes note of what happened.
    pub fn happened(&self, events: GroupEvents) {
        let numbers = [
            events.offset_commits,
            events.offset_expirations,
            events.offset_deletions,
            events.classic_rebalances,
            events.consumer_rebalances,
        ];
        self.events.iter().zip(numbers).for_each(|(counter, number)| counter.add(number));
    }

    /// Takes note of a partition that was loaded in `ms` milliseconds.
    pub fn loaded(&self, ms: u64) {
        let (loads, sum, longest) = self.loads.get();
        let (loads, sum, longest) = (loads + 1, sum + ms, longest.max(ms));
        self.loads.set((loads, sum, longest));
        self.load_time[0].set(longest.cast_signed());
        self.load_time[1].set((sum / loads).cast_signed());
    }

    /// Shows what there is now.
    pub fn show(&self, partitions: PartitionStates, counts: GroupCounts) {
        let set = |gauges: &[Gauge], numbers: &[usize]| {
            let as_level = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            gauges.iter().zip(numbers).for_each(|(gauge, number)| gauge.set(as_level(*number)));
        };
        let classic = counts.classic.iter().sum();
        set(&self.partitions, &[partitions.loading, partitions.active, partitions.failed]);
        set(&self.by_protocol, &[classic, counts.consumer.iter().sum()]);
        set(&self.consumer, &counts.consumer);
        set(&self.classic, &counts.classic);
        set(std::slice::from_ref(&self.classic_all), &[classic]);
        set(std::slice::from_ref(&self.offsets), &[counts.offsets]);
    }
}
