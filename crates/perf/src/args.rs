//! The command line of `odradek perf`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::units;

/// What to do.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Send records and tell the rate, and the time until they are acknowledged
    Produce(ProduceArgs),
    /// Read records of assigned partitions and check that none is missing
    Consume(ConsumeArgs),
    /// Send and read in one process and tell the time from the intended send to the read
    E2e(E2eArgs),
    /// Hold connections and long-polling consumers that have nothing to do
    Idle(IdleArgs),
    /// Hold groups of members and tell the time until they are stable, the heartbeats and a rolling restart
    Group(GroupArgs),
    /// Commit offsets and tell the rate, and the time until they are acknowledged
    Commit(CommitArgs),
}

/// `odradek perf produce`
#[derive(Args, Clone, Debug)]
pub struct ProduceArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) extent: Extent,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `odradek perf consume`
#[derive(Args, Clone, Debug)]
pub struct ConsumeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) read: Read,
    /// Where to begin
    #[arg(long, value_name = "WHERE", default_value = "beginning")]
    pub(crate) from: From,
    /// Stop when every partition has been read up to where it ended at the start
    #[arg(long)]
    pub(crate) stop_at_end: bool,
    #[command(flatten)]
    pub(crate) extent: Extent,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `odradek perf e2e`
#[derive(Args, Clone, Debug)]
pub struct E2eArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) read: Read,
    #[command(flatten)]
    pub(crate) extent: Extent,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `odradek perf idle`
#[derive(Args, Clone, Debug)]
pub struct IdleArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) read: Read,
    /// Connections that say nothing after their first request
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) connections: usize,
    /// How long to hold them
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `odradek perf group`
#[derive(Args, Clone, Debug)]
pub struct GroupArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Which protocol the members speak
    #[arg(long, value_name = "PROTOCOL", default_value = "consumer")]
    pub(crate) protocol: Protocol,
    /// Groups
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) groups: usize,
    /// Members of each group
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) members: usize,
    /// The beginning of the groups' names; the same groups cannot be used by two protocols at once
    #[arg(long, value_name = "NAME", default_value = "perf")]
    pub(crate) group_prefix: String,
    /// Setting of the groups, such as consumer.assignment.interval.ms=0; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) group_config: Vec<String>,
    /// Time between two heartbeats of a member outside of the measurement; by default 3s, or what the broker says
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) heartbeat_interval: Option<Duration>,
    /// Time without a heartbeat after which a classic member is out
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "45s")]
    pub(crate) session_timeout: Duration,
    /// How long members may take to join again
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    pub(crate) rebalance_timeout: Duration,
    /// Connections that heartbeats share; the requests of the classic protocol that wait for other members have one a member
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) connections: usize,
    /// Heartbeats that wait for their answer on a connection, without --rate
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) in_flight: usize,
    /// Heartbeats a second of all members together during the measurement; without it as many as are answered
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) rate: Option<u64>,
    /// Time of the measurement of heartbeats; 0 leaves it out
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "5s")]
    pub(crate) duration: Duration,
    /// Time before the measurement of heartbeats
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0s")]
    pub(crate) warmup: Duration,
    /// Restart N members of each group at once, wait until the groups are stable, restart the next N, and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) roll: usize,
    /// Steps of the rolling restart; by default until every member was restarted
    #[arg(long, value_name = "N")]
    pub(crate) roll_steps: Option<usize>,
    /// How long groups may take to be stable
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2m")]
    pub(crate) limit: Duration,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `odradek perf commit`
#[derive(Args, Clone, Debug)]
pub struct CommitArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Groups that offsets are committed for
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) groups: usize,
    /// The beginning of the groups' names
    #[arg(long, value_name = "NAME", default_value = "perf")]
    pub(crate) group_prefix: String,
    /// Partitions of one commit
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) partitions_per_commit: usize,
    /// Connections to each coordinator
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) connections: usize,
    /// Commits that wait for their answer on a connection, without --rate
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) in_flight: usize,
    /// Commits a second, at even distances, latency counted from the moment a commit should have been sent
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) rate: Option<u64>,
    /// Time of the measurement
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    pub(crate) duration: Duration,
    /// Time before the measurement
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0s")]
    pub(crate) warmup: Duration,
    /// Commit N different pairs of group and partition, every partition for as many groups as that takes, and stop
    #[arg(long, value_name = "N", value_parser = units::count, conflicts_with_all = ["rate", "check"])]
    pub(crate) fill: Option<u64>,
    /// Wait until the groups of --fill N are loaded, tell how long that took, and count their commits
    #[arg(long, value_name = "N", value_parser = units::count, conflicts_with = "rate")]
    pub(crate) check: Option<u64>,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// The cluster and the topics.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Brokers to begin with
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', default_value = "localhost:9092")]
    pub(crate) bootstrap_server: Vec<String>,
    /// Topics; with --topics the beginning of their names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "perf")]
    pub(crate) topic: Vec<String>,
    /// Use N topics, NAME-0 to NAME-(N-1), instead of one called NAME
    #[arg(long, value_name = "N")]
    pub(crate) topics: Option<usize>,
    /// Create the topics that are missing
    #[arg(long)]
    pub(crate) create: bool,
    /// Partitions of a topic that is created; an existing topic must have as many
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<i32>,
    /// Replicas of a topic that is created; -1 for the broker's default
    #[arg(long, value_name = "N", default_value_t = -1, allow_hyphen_values = true)]
    pub(crate) replication_factor: i16,
    /// Delete the topics afterwards
    #[arg(long)]
    pub(crate) delete: bool,
    /// Setting of a topic that is created; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) topic_config: Vec<String>,
}

/// What is sent, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Producers, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) producers: usize,
    /// Bytes of a record's value
    #[arg(long, value_name = "BYTES", value_parser = units::size, default_value = "100")]
    pub(crate) record_size: usize,
    /// Bytes a batch may have; a batch has at least one record
    #[arg(long, value_name = "BYTES", value_parser = units::size, default_value = "16k")]
    pub(crate) batch_size: usize,
    /// How long a batch waits to be filled, with --rate
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub(crate) linger_ms: f64,
    /// What to wait for: 0 nothing, 1 the leader, all the replicas in sync
    #[arg(long, value_name = "ACKS", default_value = "all")]
    pub(crate) acks: Acks,
    /// Send with producer ids and sequence numbers
    #[arg(long)]
    pub(crate) idempotent: bool,
    /// none, gzip, snappy, lz4 or zstd; batches are compressed once and sent again and again
    #[arg(long, value_name = "CODEC", default_value = "none")]
    pub(crate) compression: String,
    /// Records a second of all producers together, at even distances, latency counted from the moment a record should have
    /// been sent; without it every connection sends as fast as it is answered
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) rate: Option<u64>,
    /// Requests that wait for their answer on a connection
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) in_flight: usize,
    /// How records meet partitions: whole batches in turn, or single records in turn, which makes many small batches
    #[arg(long, value_name = "HOW", default_value = "batch")]
    pub(crate) spread: Spread,
    /// Batches, of one partition each, that one request may carry
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) batches_per_request: usize,
    /// What the records hold: random bytes, or text, which compresses
    #[arg(long, value_name = "KIND", default_value = "random")]
    pub(crate) payload: Payload,
    /// How long a request may take on the broker
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s")]
    pub(crate) request_timeout: Duration,
}

/// How records are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Read {
    /// Consumers, among which the partitions are divided; each has its own connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) consumers: usize,
    /// How many times everything is read, by as many sets of consumers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fanout: usize,
    /// How long the broker may wait for --fetch-min-bytes
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) fetch_max_wait_ms: i32,
    /// Bytes that are worth an answer
    #[arg(long, value_name = "BYTES", value_parser = units::size, default_value = "1")]
    pub(crate) fetch_min_bytes: usize,
    /// Bytes of one answer
    #[arg(long, value_name = "BYTES", value_parser = units::size, default_value = "50m")]
    pub(crate) fetch_max_bytes: usize,
    /// Bytes of one partition in an answer
    #[arg(long, value_name = "BYTES", value_parser = units::size, default_value = "1m")]
    pub(crate) partition_max_bytes: usize,
    /// Verify the checksum of every batch
    #[arg(long)]
    pub(crate) check_crc: bool,
}

/// When to stop.
#[derive(Args, Clone, Debug)]
pub(crate) struct Extent {
    /// Stop after so many records, not counting those of the warm-up
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) records: Option<u64>,
    /// Stop after this time, not counting the warm-up
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// Time before the measurement
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0s")]
    pub(crate) warmup: Duration,
}

/// How the tool itself runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// Threads; by default half the CPUs, and not more than there are connections
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Write the result to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Also tell what this process, the broker, used during the measurement: CPU, disk, memory, context switches
    #[arg(long, value_name = "PID")]
    pub(crate) watch_pid: Option<u32>,
    /// Also tell what the disk below DIR did during the measurement
    #[arg(long, value_name = "DIR")]
    pub(crate) watch_disk: Option<PathBuf>,
}

/// `acks` of a producer.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acks {
    #[value(name = "0")]
    None,
    #[value(name = "1")]
    Leader,
    #[value(name = "all", alias = "-1")]
    All,
}

impl Acks {
    /// The number in a Produce request.
    pub(crate) fn code(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How records meet partitions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    Batch,
    Record,
}

/// What members of a group speak.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// JoinGroup, SyncGroup, Heartbeat
    Classic,
    /// ConsumerGroupHeartbeat, KIP-848
    Consumer,
}

/// What values hold.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    Random,
    Text,
}

/// Where a consumer begins.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    Beginning,
    End,
}
