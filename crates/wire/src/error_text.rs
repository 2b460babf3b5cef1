use crate::ErrorCode;

impl ErrorCode {
    /// What the error means, in one sentence; empty for a code that is not in Kafka's table.
    pub fn message(self) -> &'static str {
        // The codes begin at -1 and have no gaps, as a test makes sure of.
        let index = i32::from(self.0) + 1;
        usize::try_from(index).ok().and_then(|index| TEXTS.get(index)).map_or("", |(_, text)| text)
    }
}

/// Every error with its meaning, by ascending code.
static TEXTS: [(ErrorCode, &str); 138] = [
    (ErrorCode::UNKNOWN_SERVER_ERROR, "The broker failed in a way it has no code for."),
    (ErrorCode::NONE, "Success."),
    (ErrorCode::OFFSET_OUT_OF_RANGE, "The offset lies outside what this replica holds."),
    (
        ErrorCode::CORRUPT_MESSAGE,
        "A record batch has a wrong checksum or size, or records of a compacted topic lack a key.",
    ),
    (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This broker does not host that topic or partition."),
    (ErrorCode::INVALID_FETCH_SIZE, "The fetch size is negative."),
    (ErrorCode::LEADER_NOT_AVAILABLE, "The partition has no leader at the moment; an election is going on."),
    (ErrorCode::NOT_LEADER_OR_FOLLOWER, "This broker is not the leader, or no replica, of the partition."),
    (ErrorCode::REQUEST_TIMED_OUT, "The request was not done within its timeout."),
    (ErrorCode::BROKER_NOT_AVAILABLE, "The broker is not there."),
    (
        ErrorCode::REPLICA_NOT_AVAILABLE,
        "The replica is not there; for produce and for fetch from the leader read it as NOT_LEADER_OR_FOLLOWER.",
    ),
    (ErrorCode::MESSAGE_TOO_LARGE, "The record batch is larger than this topic allows."),
    (ErrorCode::STALE_CONTROLLER_EPOCH, "The controller has moved on to a newer epoch."),
    (ErrorCode::OFFSET_METADATA_TOO_LARGE, "The metadata string of a committed offset is too long."),
    (ErrorCode::NETWORK_EXCEPTION, "The connection was lost before the answer came."),
    (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is still loading its state."),
    (ErrorCode::COORDINATOR_NOT_AVAILABLE, "There is no coordinator at the moment."),
    (ErrorCode::NOT_COORDINATOR, "This broker is not the coordinator for that key."),
    (ErrorCode::INVALID_TOPIC_EXCEPTION, "The topic name is not valid, or the topic must not be used this way."),
    (ErrorCode::RECORD_LIST_TOO_LARGE, "The record batch is larger than a segment of this topic."),
    (
        ErrorCode::NOT_ENOUGH_REPLICAS,
        "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written.",
    ),
    (
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        "The records were written, but to fewer replicas than min.insync.replicas asks for.",
    ),
    (ErrorCode::INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1."),
    (ErrorCode::ILLEGAL_GENERATION, "The generation is not the group's present one."),
    (
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        "The member's protocol type or protocols do not match those of the group.",
    ),
    (ErrorCode::INVALID_GROUP_ID, "The group id is not valid."),
    (ErrorCode::UNKNOWN_MEMBER_ID, "The group has no such member."),
    (ErrorCode::INVALID_SESSION_TIMEOUT, "The session timeout is outside the broker's bounds."),
    (ErrorCode::REBALANCE_IN_PROGRESS, "The group is rebalancing; join again."),
    (ErrorCode::INVALID_COMMIT_OFFSET_SIZE, "The offset data is too large to be stored."),
    (ErrorCode::TOPIC_AUTHORIZATION_FAILED, "The principal may not do this to the topic."),
    (ErrorCode::GROUP_AUTHORIZATION_FAILED, "The principal may not do this to the group."),
    (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, "The principal may not do this to the cluster."),
    (ErrorCode::INVALID_TIMESTAMP, "A record's timestamp is outside the bounds of the topic."),
    (ErrorCode::UNSUPPORTED_SASL_MECHANISM, "The broker does not offer this SASL mechanism."),
    (ErrorCode::ILLEGAL_SASL_STATE, "The request does not fit the state of the SASL exchange."),
    (ErrorCode::UNSUPPORTED_VERSION, "The broker does not support this version of the request."),
    (ErrorCode::TOPIC_ALREADY_EXISTS, "A topic of this name exists."),
    (ErrorCode::INVALID_PARTITIONS, "The number of partitions is not valid."),
    (
        ErrorCode::INVALID_REPLICATION_FACTOR,
        "The replication factor is below 1 or above the number of available brokers.",
    ),
    (ErrorCode::INVALID_REPLICA_ASSIGNMENT, "The replica assignment is not valid."),
    (ErrorCode::INVALID_CONFIG, "A configuration value is not valid."),
    (ErrorCode::NOT_CONTROLLER, "This node is not the active controller."),
    (ErrorCode::INVALID_REQUEST, "The request contradicts itself or the protocol."),
    (ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT, "The record format on the broker cannot do what was asked."),
    (ErrorCode::POLICY_VIOLATION, "A policy of the broker forbids the request."),
    (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, "The producer's sequence number is not the next one."),
    (ErrorCode::DUPLICATE_SEQUENCE_NUMBER, "The producer's sequence number was used before."),
    (ErrorCode::INVALID_PRODUCER_EPOCH, "The producer's epoch is older than the one on record."),
    (ErrorCode::INVALID_TXN_STATE, "The transaction is in a state that does not allow the request."),
    (ErrorCode::INVALID_PRODUCER_ID_MAPPING, "The producer id is not the one that belongs to the transactional id."),
    (ErrorCode::INVALID_TRANSACTION_TIMEOUT, "The transaction timeout is above transaction.max.timeout.ms."),
    (ErrorCode::CONCURRENT_TRANSACTIONS, "Another change of the same transaction is still going on."),
    (ErrorCode::TRANSACTION_COORDINATOR_FENCED, "A newer transaction coordinator has taken over."),
    (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "The principal may not use the transactional id."),
    (ErrorCode::SECURITY_DISABLED, "The security feature is switched off."),
    (ErrorCode::OPERATION_NOT_ATTEMPTED, "Not tried, because another part of the same request failed."),
    (ErrorCode::KAFKA_STORAGE_ERROR, "The log directory failed on reading or writing."),
    (ErrorCode::LOG_DIR_NOT_FOUND, "The broker has no such log directory."),
    (ErrorCode::SASL_AUTHENTICATION_FAILED, "Authentication failed."),
    (
        ErrorCode::UNKNOWN_PRODUCER_ID,
        "The broker knows nothing of the producer; its records may have been deleted or have expired.",
    ),
    (ErrorCode::REASSIGNMENT_IN_PROGRESS, "A reassignment of the partition is going on."),
    (ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED, "Delegation tokens are switched off."),
    (ErrorCode::DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token."),
    (ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH, "The principal is neither owner nor renewer of the delegation token."),
    (ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "Delegation tokens cannot be managed over this connection."),
    (ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED, "The principal may not do this to the delegation token."),
    (ErrorCode::DELEGATION_TOKEN_EXPIRED, "The delegation token has expired."),
    (ErrorCode::INVALID_PRINCIPAL_TYPE, "This type of principal is not supported."),
    (ErrorCode::NON_EMPTY_GROUP, "The group has members."),
    (ErrorCode::GROUP_ID_NOT_FOUND, "There is no such group."),
    (ErrorCode::FETCH_SESSION_ID_NOT_FOUND, "There is no such fetch session."),
    (ErrorCode::INVALID_FETCH_SESSION_EPOCH, "The epoch is not the next one of the fetch session."),
    (ErrorCode::LISTENER_NOT_FOUND, "The leader has no endpoint for the listener the request came through."),
    (ErrorCode::TOPIC_DELETION_DISABLED, "Deleting topics is switched off."),
    (ErrorCode::FENCED_LEADER_EPOCH, "The leader epoch of the request is older than the broker's."),
    (ErrorCode::UNKNOWN_LEADER_EPOCH, "The leader epoch of the request is newer than the broker's."),
    (ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, "The compression type cannot be used with this version of the request."),
    (ErrorCode::STALE_BROKER_EPOCH, "The broker epoch is not the one the controller handed out last."),
    (ErrorCode::OFFSET_NOT_AVAILABLE, "The new leader cannot vouch for its high watermark yet."),
    (ErrorCode::MEMBER_ID_REQUIRED, "Join again with the member id in this response."),
    (ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not available."),
    (ErrorCode::GROUP_MAX_SIZE_REACHED, "The group has as many members as it may have."),
    (ErrorCode::FENCED_INSTANCE_ID, "Another member has taken over the group instance id."),
    (ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is eligible to lead."),
    (ErrorCode::ELECTION_NOT_NEEDED, "The partition already has the leader that an election would give."),
    (ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "No reassignment is going on."),
    (ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, "The group is subscribed to the topic, so its offsets cannot be deleted."),
    (ErrorCode::INVALID_RECORD, "A record failed validation."),
    (ErrorCode::UNSTABLE_OFFSET_COMMIT, "Some offsets belong to a transaction that is not finished."),
    (ErrorCode::THROTTLING_QUOTA_EXCEEDED, "The quota is used up."),
    (ErrorCode::PRODUCER_FENCED, "A newer producer uses the same transactional id."),
    (ErrorCode::RESOURCE_NOT_FOUND, "What the request names does not exist."),
    (ErrorCode::DUPLICATE_RESOURCE, "What the request names exists already, or is named twice."),
    (ErrorCode::UNACCEPTABLE_CREDENTIAL, "The credential does not meet the requirements."),
    (ErrorCode::INCONSISTENT_VOTER_SET, "Sender and receiver disagree on who may vote, or the sender may not."),
    (ErrorCode::INVALID_UPDATE_VERSION, "The version of the update is not valid."),
    (ErrorCode::FEATURE_UPDATE_FAILED, "The features could not be updated."),
    (ErrorCode::PRINCIPAL_DESERIALIZATION_FAILURE, "The principal in the forwarded request cannot be read."),
    (ErrorCode::SNAPSHOT_NOT_FOUND, "There is no such snapshot."),
    (ErrorCode::POSITION_OUT_OF_RANGE, "The position is negative or behind the end of the snapshot."),
    (ErrorCode::UNKNOWN_TOPIC_ID, "This broker hosts no topic with that id."),
    (ErrorCode::DUPLICATE_BROKER_REGISTRATION, "Another running broker has this node id."),
    (ErrorCode::BROKER_ID_NOT_REGISTERED, "No broker with this id is registered."),
    (ErrorCode::INCONSISTENT_TOPIC_ID, "The topic id in the log differs from the one in the request."),
    (ErrorCode::INCONSISTENT_CLUSTER_ID, "The request is meant for a cluster with another id."),
    (ErrorCode::TRANSACTIONAL_ID_NOT_FOUND, "There is no such transactional id."),
    (ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR, "The fetch session changed between topic names and topic ids."),
    (ErrorCode::INELIGIBLE_REPLICA, "A replica in the new ISR may not be in it."),
    (ErrorCode::NEW_LEADER_ELECTED, "The change was made, and another leader was elected on the way."),
    (ErrorCode::OFFSET_MOVED_TO_TIERED_STORAGE, "The offset is in tiered storage only."),
    (
        ErrorCode::FENCED_MEMBER_EPOCH,
        "The coordinator has fenced the member's epoch; give up all partitions and join again.",
    ),
    (ErrorCode::UNRELEASED_INSTANCE_ID, "Another member of the group still holds the instance id."),
    (ErrorCode::UNSUPPORTED_ASSIGNOR, "The group cannot use this assignor."),
    (ErrorCode::STALE_MEMBER_EPOCH, "The member's epoch is old; ask for the present one and try again."),
    (ErrorCode::MISMATCHED_ENDPOINT_TYPE, "The request was sent to the wrong kind of endpoint."),
    (ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "This kind of endpoint is not supported."),
    (ErrorCode::UNKNOWN_CONTROLLER_ID, "There is no controller with this id."),
    (
        ErrorCode::UNKNOWN_SUBSCRIPTION_ID,
        "The telemetry subscription id is unknown or out of date; ask for the subscriptions again.",
    ),
    (ErrorCode::TELEMETRY_TOO_LARGE, "The pushed telemetry is larger than the broker takes."),
    (ErrorCode::INVALID_REGISTRATION, "The registration is not valid."),
    (ErrorCode::TRANSACTION_ABORTABLE, "The transaction failed in a way that only aborting it can mend."),
    (ErrorCode::INVALID_RECORD_STATE, "The record is in a state that does not allow the acknowledgement."),
    (ErrorCode::SHARE_SESSION_NOT_FOUND, "There is no such share session."),
    (ErrorCode::INVALID_SHARE_SESSION_EPOCH, "The epoch is not the next one of the share session."),
    (ErrorCode::FENCED_STATE_EPOCH, "The state epoch of the request is not that of the share partition."),
    (ErrorCode::INVALID_VOTER_KEY, "The voter's id and directory id are not those of the receiver."),
    (ErrorCode::DUPLICATE_VOTER, "The voter is in the voter set already."),
    (ErrorCode::VOTER_NOT_FOUND, "The voter is not in the voter set."),
    (ErrorCode::INVALID_REGULAR_EXPRESSION, "The regular expression is not valid."),
    (
        ErrorCode::REBOOTSTRAP_REQUIRED,
        "Client metadata is too old to be of use; start again from the bootstrap servers.",
    ),
    (ErrorCode::STREAMS_INVALID_TOPOLOGY, "The streams topology is not valid."),
    (ErrorCode::STREAMS_INVALID_TOPOLOGY_EPOCH, "The epoch of the streams topology is not valid."),
    (ErrorCode::STREAMS_TOPOLOGY_FENCED, "The epoch of the streams topology is out of date."),
    (ErrorCode::SHARE_SESSION_LIMIT_REACHED, "No more share sessions can be opened."),
    (ErrorCode::GROUP_DELETION_FAILED, "The group could not be deleted."),
    (
        ErrorCode::STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
        "The description of the streams topology could not be stored.",
    ),
    (ErrorCode::CONTROLLER_ID_NOT_REGISTERED, "No controller with this id is registered."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_own_text() {
        let codes: Vec<ErrorCode> = TEXTS.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, ErrorCode::ALL);
        for code in ErrorCode::ALL {
            let (owner, text) = TEXTS[(code.0 + 1) as usize];
            assert_eq!((owner, text), (code, code.message()));
            assert!(code.name().is_some() && text.ends_with('.'), "{code}");
        }
        assert_eq!((ErrorCode(-2).message(), ErrorCode(137).message()), ("", ""));
    }
}
