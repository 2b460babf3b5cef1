//! DescribeQuorum (KIP-595, KIP-836, KIP-853).

use std::borrow::Cow;

use base::Now;
use bytes::Bytes;
use raft::{QuorumView, VoterView};
use wire::describe_quorum_request::DescribeQuorumRequest;
use wire::describe_quorum_response::{DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData};
use wire::{Decode, Encode, ErrorCode, Reader, Writer};

use crate::error::RequestFailure;

/// The metadata topic and its only partition.
const TOPIC: &str = "__cluster_metadata";
const PARTITION: i32 = 0;

/// First version that names the voters' listeners.
const NODES_FROM: i16 = 2;

/// The answer's bytes.
pub(crate) fn describe(view: &QuorumView, now: Now, version: i16, body: &Bytes) -> Result<Bytes, RequestFailure> {
    let malformed = |error: String| RequestFailure::Malformed(error);
    let request =
        DescribeQuorumRequest::decode(&mut Reader::new(body), version).map_err(|e| malformed(e.to_string()))?;
    let response = response_of(view, now, version, &request);
    let mut writer = Writer::new();
    response.encode(&mut writer, version).map_err(|e| malformed(e.to_string()))?;
    Ok(writer.into_bytes().unwrap_or_default())
}

fn response_of<'r>(
    view: &'r QuorumView,
    now: Now,
    version: i16,
    request: &DescribeQuorumRequest<'r>,
) -> DescribeQuorumResponse<'r> {
    let asks_for_metadata = matches!(&request.topics[..], [topic]
        if topic.topic_name == TOPIC && matches!(&topic.partitions[..], [p] if p.partition_index == PARTITION));
    if !asks_for_metadata {
        let unknown = |index| PartitionData {
            partition_index: index,
            error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(),
            error_message: Some(Cow::Borrowed("This server does not host this topic-partition.")),
            ..PartitionData::default()
        };
        let topics = request.topics.iter().map(|topic| TopicData {
            topic_name: topic.topic_name.clone(),
            partitions: topic.partitions.iter().map(|partition| unknown(partition.partition_index)).collect(),
        });
        return DescribeQuorumResponse { topics: topics.collect(), ..DescribeQuorumResponse::default() };
    }
    let partition = PartitionData {
        partition_index: PARTITION,
        leader_id: view.leader_id,
        leader_epoch: view.epoch,
        high_watermark: view.high_watermark,
        current_voters: view.voters.iter().map(|voter| state_of(voter, now, version)).collect(),
        ..PartitionData::default()
    };
    let nodes = if version >= NODES_FROM { view.voters.iter().map(node_of).collect() } else { Vec::new() };
    let topic = TopicData { topic_name: Cow::Borrowed(TOPIC), partitions: vec![partition] };
    DescribeQuorumResponse { topics: vec![topic], nodes, ..DescribeQuorumResponse::default() }
}

fn state_of(voter: &VoterView, now: Now, version: i16) -> ReplicaState {
    // The leader is always caught up with itself.
    let seen = if voter.log_end >= 0 { now.wall_ms } else { -1 };
    let mut state =
        ReplicaState { replica_id: voter.voter.key.id, log_end_offset: voter.log_end, ..ReplicaState::default() };
    if version >= 1 {
        state.last_fetch_timestamp = seen;
        state.last_caught_up_timestamp = seen;
    }
    if version >= NODES_FROM {
        state.replica_directory_id = voter.voter.key.directory_id;
    }
    state
}

fn node_of(voter: &VoterView) -> Node<'_> {
    let listeners = voter.voter.endpoints.iter().map(|endpoint| Listener {
        name: Cow::Borrowed(&endpoint.name),
        host: Cow::Borrowed(&endpoint.host),
        port: endpoint.port,
    });
    Node { node_id: voter.voter.key.id, listeners: listeners.collect() }
}
