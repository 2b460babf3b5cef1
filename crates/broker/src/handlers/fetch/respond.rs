//! Fetch responses.

use super::wait::{Found, FoundFile};
use crate::call::{Answer, Call};
use crate::fetch_session::{NO_SESSION, PartitionFetch, Session, TopicKey};
use crate::topology;
use base::BrokerId;
use metadata::MetadataImage;
use net::FileRange;
use std::borrow::Cow;
use std::collections::BTreeSet;
use wire::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
    PartitionData,
};
use wire::{ErrorCode, Records};

/// First version that carries the new leader.
const LEADER_FROM: i16 = 12;
/// First version that carries its address.
const ENDPOINTS_FROM: i16 = 16;

/// A response that says only why there is none.
pub(super) fn failed(call: &Call, error: ErrorCode) -> Answer {
    call.respond(&FetchResponse { error_code: error.0, session_id: NO_SESSION, ..FetchResponse::default() })
}

/// A response with every partition.
pub(super) fn full(call: &Call, session_id: i32, partitions: &[PartitionFetch], answers: Vec<Found>) -> Answer {
    build(call, session_id, partitions, answers, |_, _| true)
}

/// A response with the partitions that have something new for the client of a session.
pub(super) fn incremental(
    call: &Call,
    session: &mut Session,
    partitions: &[PartitionFetch],
    answers: Vec<Found>,
) -> Answer {
    build(call, session.id(), partitions, answers, |one, answer| {
        session.answered(&one.topic, one.partition, &answer.outline())
    })
}

fn build(
    call: &Call,
    session_id: i32,
    partitions: &[PartitionFetch],
    answers: Vec<Found>,
    mut wanted: impl FnMut(&PartitionFetch, &Found) -> bool,
) -> Answer {
    let image = call.core.image();
    let mut leaders = BTreeSet::new();
    let mut responses: Vec<FetchableTopicResponse<'_>> = Vec::new();
    let mut files = Vec::new();
    let mut last: Option<&TopicKey> = None;
    for (one, answer) in partitions.iter().zip(answers) {
        if !wanted(one, &answer) {
            continue;
        }
        if last != Some(&one.topic) {
            last = Some(&one.topic);
            responses.push(topic_response(one));
        }
        let leader = moved_leader(call, &image, one, answer.done.error);
        leaders.extend(leader.as_ref().map(|leader| leader.leader_id));
        let topic = responses.last_mut().expect("pushed above");
        topic.partitions.push(partition_data(one.partition, answer, leader.unwrap_or_default(), &mut files));
    }
    let node_endpoints = match call.version >= ENDPOINTS_FROM {
        true => leaders.iter().filter_map(|id| endpoint(call, &image, *id)).collect(),
        false => Vec::new(),
    };
    let response = FetchResponse { session_id, responses, node_endpoints, ..FetchResponse::default() };
    call.respond_with_files(&response, files)
}

fn topic_response(one: &PartitionFetch) -> FetchableTopicResponse<'_> {
    let mut response = FetchableTopicResponse::default();
    match &one.topic {
        TopicKey::Id(id) => response.topic_id = *id,
        TopicKey::Name(name) => response.topic = Cow::Borrowed(name),
    }
    response
}

/// The leader to go to, for clients that can be told (KIP-951).
fn moved_leader(
    call: &Call,
    image: &MetadataImage,
    one: &PartitionFetch,
    error: ErrorCode,
) -> Option<LeaderIdAndEpoch> {
    let moved = matches!(error, ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH);
    if call.version < LEADER_FROM || !moved {
        return None;
    }
    let topic = image.topics.by_name(one.name.as_deref()?)?;
    let partition = topic.partition(one.partition)?;
    Some(LeaderIdAndEpoch { leader_id: partition.leader, leader_epoch: partition.leader_epoch })
}

fn endpoint<'i>(call: &Call, image: &'i MetadataImage, id: BrokerId) -> Option<NodeEndpoint<'i>> {
    let node = topology::node(image, call.listener(), id)?;
    Some(NodeEndpoint {
        node_id: id,
        host: Cow::Borrowed(&node.endpoint.host),
        port: i32::from(node.endpoint.port),
        rack: node.broker.rack.as_deref().map(Cow::Borrowed),
    })
}

fn partition_data(
    partition_index: i32,
    found: Found,
    current_leader: LeaderIdAndEpoch,
    files: &mut Vec<FileRange>,
) -> PartitionData {
    let aborted = |(producer_id, first_offset): (i64, i64)| AbortedTransaction { producer_id, first_offset };
    // Not null when there are none: not every client expects that.
    let Found { done: answer, file } = found;
    let records = match file {
        None => Records::Chain(answer.records),
        Some(FoundFile { range, len }) => {
            files.push(range);
            Records::External { len: len as u32, token: (files.len() - 1) as u32 }
        }
    };
    PartitionData {
        partition_index,
        error_code: answer.error.0,
        high_watermark: answer.high_watermark,
        last_stable_offset: answer.last_stable_offset,
        log_start_offset: answer.log_start_offset,
        diverging_epoch: answer
            .diverging
            .map(|(epoch, end_offset)| EpochEndOffset { epoch, end_offset })
            .unwrap_or_default(),
        current_leader,
        aborted_transactions: answer.aborted.map(|all| all.into_iter().map(aborted).collect()),
        records: Some(records),
        ..PartitionData::default()
    }
}
