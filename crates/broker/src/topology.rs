//! The cluster as one listener's clients see it: nodes, leaders, replicas that are away.

use base::{BrokerId, LeaderEpoch};
use metadata::{BrokerRegistration, Endpoint, MetadataImage, PartitionRegistration};
use wire::ErrorCode;

/// No node.
pub const NO_NODE: BrokerId = -1;

/// Names of topics that belong to the brokers.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// True for topics that belong to the brokers.
pub fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

/// The longest topic name, in bytes: it is part of a directory name.
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// True when `name` may be a topic's: ASCII letters, digits, `.`, `_` and `-`, and neither `.` nor `..`.
pub fn is_valid_topic_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty() && name != "." && name != ".." && name.len() <= TOPIC_NAME_BYTES_MAX && name.bytes().all(legal)
}

/// What is said about a topic that is not in the image.
pub fn missing_topic_error(name: &str) -> ErrorCode {
    if is_valid_topic_name(name) { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::INVALID_TOPIC_EXCEPTION }
}

/// One node as clients of a listener reach it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'i> {
    /// The broker.
    pub broker: &'i BrokerRegistration,
    /// Where it listens for them.
    pub endpoint: &'i Endpoint,
}

/// Brokers that clients of `listener` can talk to, in order of their ids; fenced ones only if asked for.
pub fn nodes<'i>(
    image: &'i MetadataImage,
    listener: &'i str,
    with_fenced: bool,
) -> impl Iterator<Item = Node<'i>> + 'i {
    let brokers = image.cluster.brokers().map(AsRef::as_ref).filter(move |broker| with_fenced || !broker.fenced);
    brokers.filter_map(move |broker| Some(Node { broker, endpoint: broker.endpoint(listener)? }))
}

/// The node of one broker, if it serves clients of `listener`.
pub fn node<'i>(image: &'i MetadataImage, listener: &str, id: BrokerId) -> Option<Node<'i>> {
    let broker = image.cluster.broker(id).filter(|broker| !broker.fenced)?;
    Some(Node { broker, endpoint: broker.endpoint(listener)? })
}

/// The broker that clients are told is the controller: any that is alive, for every broker forwards. `salt` spreads
/// clients over them.
pub fn controller_for_clients(image: &MetadataImage, salt: u64) -> BrokerId {
    let alive = || image.cluster.unfenced_brokers();
    let count = alive().count() as u64;
    match count {
        0 => NO_NODE,
        _ => alive().nth((salt % count) as usize).map_or(NO_NODE, |broker| broker.id),
    }
}

/// Leadership of one partition as clients of a listener see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// NONE, LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND.
    pub error: ErrorCode,
    /// The leader, or -1 if it cannot be reached.
    pub leader: BrokerId,
    /// Its term.
    pub leader_epoch: LeaderEpoch,
    /// Replicas that are away.
    pub offline: Vec<BrokerId>,
}

/// Looks at one partition with the eyes of a client of `listener`; `names_listener_error` is true when the client's
/// version knows LISTENER_NOT_FOUND.
pub fn partition_view(
    image: &MetadataImage,
    listener: &str,
    partition: &PartitionRegistration,
    names_listener_error: bool,
) -> PartitionView {
    let offline = |id: &BrokerId| {
        let Some(broker) = image.cluster.broker(*id).filter(|broker| !broker.fenced) else { return true };
        let directory = partition.directory(*id);
        broker.endpoint(listener).is_none() || directory.is_some_and(|directory| !broker.has_online_dir(directory))
    };
    let reachable = node(image, listener, partition.leader).is_some();
    let error = if reachable {
        ErrorCode::NONE
    } else if names_listener_error && image.cluster.broker(partition.leader).is_some() {
        ErrorCode::LISTENER_NOT_FOUND
    } else {
        ErrorCode::LEADER_NOT_AVAILABLE
    };
    PartitionView {
        error,
        leader: if reachable { partition.leader } else { NO_NODE },
        leader_epoch: partition.leader_epoch,
        offline: partition.replicas.iter().copied().filter(offline).collect(),
    }
}

/// The operations a principal may perform, as a bit field by operation code; every one that applies while no authorizer
/// is configured.
pub mod operations {
    const fn bits(codes: &[u8]) -> i32 {
        let (mut field, mut i) = (0, 0);
        while i < codes.len() {
            field |= 1 << codes[i];
            i += 1;
        }
        field
    }

    /// Not asked for.
    pub const NOT_ASKED: i32 = i32::MIN;
    /// READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
    pub const TOPIC: i32 = bits(&[3, 4, 5, 6, 7, 8, 10, 11]);
    /// CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE.
    pub const CLUSTER: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);

    /// READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
    pub const GROUP: i32 = bits(&[3, 6, 8, 10, 11]);

    /// `all` if the client asked for it.
    pub fn if_asked(asked: bool, all: i32) -> i32 {
        if asked { all } else { NOT_ASKED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names() {
        let long = "a".repeat(249);
        for name in ["a", "A.b_c-9", "...", long.as_str()] {
            assert!(is_valid_topic_name(name), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0", too_long.as_str()] {
            assert!(!is_valid_topic_name(name), "{name}");
        }
    }

    #[test]
    fn operation_bits_are_those_of_kafkas_acl_codes() {
        assert_eq!(operations::TOPIC, 0b1101_1111_1000);
        assert_eq!(operations::CLUSTER, 0b1_1111_1010_0000);
    }
}
