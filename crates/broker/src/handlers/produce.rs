//! Produce (key 0): append one batch each to some partitions.
//!
//! Versions: 3 magic 2 only; 5 log start offset; 7 zstd; 8 record errors and messages; 9 flexible; 10 the new leader's
//! address beside NOT_LEADER_OR_FOLLOWER (KIP-951); 11, 12 transactions (KIP-890), no new fields; 13 topics by id.
//! 0 is advertised as the lowest version and refused, as Kafka does: old librdkafka takes anything else for a broker
//! without compression.
//! Gaps: transactional batches are refused (INVALID_TXN_STATE), there is no transaction coordinator yet.

use crate::call::{Call, Refusal};
use crate::core::Waiting;
use crate::dispatch;
use crate::messages::{AppendDone, AppendJob, AppendPart, CoreReply, CoreRequest};
use crate::topology;
use base::{CoreId, Few, PartitionKey};
use bytes::Bytes;
use metadata::{MetadataImage, TopicImage};
use net::{Reply, Response};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use wire::ErrorCode;
use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceResponse,
    TopicProduceResponse,
};

/// First version that names topics by id.
const TOPIC_IDS_FROM: i16 = 13;
/// First version in which zstd may be used.
const ZSTD_FROM: i16 = 7;
/// First version that carries the new leader.
const LEADER_FROM: i16 = 10;
/// Least time an append has, in ms. The time of the request is for replicas to confirm; Apache Kafka's leader takes as long
/// as its own disk does even if the request allows no time at all.
const APPEND_MS_MIN: u32 = 10_000;
/// The only client that may write into the topics of the coordinators, as in Kafka.
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A produce request whose appends have been posted.
struct Posted {
    acks: i16,
    shape: Few<TopicShape>,
    /// Answers known without any core.
    done: Few<AppendDone>,
    waiting: Few<Waiting>,
    /// How many of those have answered.
    answered: usize,
}

/// A topic of the request, to build the response from.
struct TopicShape {
    /// A slice of the frame; UTF-8.
    name: Bytes,
    id: base::Uuid,
    partitions: Few<i32>,
}

/// Posts the appends, one message per core; what is left is to wait.
pub fn start(call: Call) -> Reply {
    let jobs = {
        let decoded = call.decode::<ProduceRequest<'_>>();
        decoded.map(|request| plan(&call, &request))
    };
    let (mut posted, jobs) = match jobs {
        Ok(planned) => planned,
        Err(refusal) => return Reply::Ready(dispatch::end(&call, Err(refusal))),
    };
    for (core, job) in jobs {
        posted.waiting.push(call.core.ask(core, CoreRequest::Append(job)));
    }
    Reply::Later(Box::pin(Finish { call, posted }))
}

/// Waits for the appends and answers. Not an async block: that would keep everything twice, beside what it awaits and in it.
struct Finish {
    call: Call,
    posted: Posted,
}

impl Future for Finish {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let Finish { call, posted } = self.get_mut();
        while let Some(waiting) = posted.waiting.get_mut(posted.answered) {
            match ready!(Pin::new(waiting).poll(cx)) {
                CoreReply::Append(answers) => posted.done.extend(answers),
                _ => unreachable!("an append is answered by appends"),
            }
            posted.answered += 1;
        }
        let answer = finish(call, std::mem::take(&mut posted.shape), std::mem::take(&mut posted.done), posted.acks);
        Poll::Ready(dispatch::end(call, answer))
    }
}

/// Sorts the partitions by home core; those that cannot be appended to are answered at once.
fn plan(call: &Call, request: &ProduceRequest<'_>) -> (Posted, Few<(CoreId, AppendJob)>) {
    let image = call.core.image();
    let is_unnamed = request.transactional_id.is_none() && has_transactional(request);
    let mut posted =
        Posted { acks: request.acks, shape: Few::new(), done: Few::new(), waiting: Few::new(), answered: 0 };
    let mut jobs: Few<(CoreId, AppendJob)> = Few::new();
    let timeout_ms = request.timeout_ms.max(0).unsigned_abs().max(APPEND_MS_MIN);
    let mut slot = 0;
    for topic in &request.topic_data {
        posted.shape.push(TopicShape {
            name: call.share(topic.name.as_bytes()),
            id: topic.topic_id,
            partitions: topic.partition_data.iter().map(|partition| partition.index).collect(),
        });
        let found = match is_unnamed {
            // Nobody may write for a transactional id that is not given.
            true => Err((ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)),
            false => find(call, request.acks, &image, topic),
        };
        for partition in &topic.partition_data {
            let checked = match &found {
                Ok(found) => check(call, found, partition),
                Err(refused) => Err(refused.clone()),
            };
            match checked {
                Ok((key, records)) => {
                    let core = key.home_core(call.core.layout.data_cores);
                    let part = AppendPart { slot, key, records };
                    let job = jobs.iter_mut().find(|(of, _)| *of == core);
                    match job.map(|(_, job)| job) {
                        Some(job) => job.parts.push(part),
                        None => jobs.push((core, AppendJob { acks: request.acks, timeout_ms, parts: Few::one(part) })),
                    }
                }
                Err((error, message)) => posted.done.push(AppendDone::failed(slot, error, message)),
            }
            slot += 1;
        }
    }
    (posted, jobs)
}

type Refused = (ErrorCode, Option<String>);

/// A topic that is there, and whether this client may not write into it.
struct Found<'a> {
    topic: &'a TopicImage,
    is_closed: bool,
}

/// Finds the topic.
fn find<'a>(
    call: &Call,
    acks: i16,
    image: &'a MetadataImage,
    topic: &TopicProduceData<'_>,
) -> Result<Found<'a>, Refused> {
    if !(-1..=1).contains(&acks) {
        return Err((ErrorCode::INVALID_REQUIRED_ACKS, None));
    }
    let found = match call.version >= TOPIC_IDS_FROM {
        true => image.topics.by_id(topic.topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
        false => image.topics.by_name(&topic.name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    let topic = found.map_err(|error| (error, None))?;
    let is_closed = topology::is_internal(&topic.name) && call.client_id() != Some(ADMIN_CLIENT_ID);
    Ok(Found { topic, is_closed })
}

/// Finds the partition, and looks at what can be known of its records without their home core.
fn check(
    call: &Call,
    found: &Found<'_>,
    partition: &PartitionProduceData,
) -> Result<(PartitionKey, bytes::Bytes), Refused> {
    let (version, topic) = (call.version, found.topic);
    if topic.partition(partition.index).is_none() {
        return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None));
    }
    if found.is_closed {
        let text = format!("Cannot append to internal topic {}", topic.name);
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some(text)));
    }
    let invalid = |text: String| (ErrorCode::INVALID_RECORD, Some(text));
    let records = match &partition.records {
        Some(wire::Records::Bytes(bytes)) if !bytes.is_empty() => bytes.clone(),
        _ => {
            let text = "must have at least one record batch per partition";
            return Err(invalid(format!("Produce requests with version {version} {text}")));
        }
    };
    if version < ZSTD_FROM && uses_zstd(&records) {
        let text = "are not allowed to use ZStandard compression";
        return Err((
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            Some(format!("Produce requests with version {version} {text}")),
        ));
    }
    Ok((PartitionKey { topic_id: topic.id, partition: partition.index }, records))
}

fn has_transactional(request: &ProduceRequest<'_>) -> bool {
    let mut partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    partitions.any(|partition| match &partition.records {
        Some(wire::Records::Bytes(bytes)) => {
            records::BatchHeader::parse(bytes).is_ok_and(|header| header.is_transactional())
        }
        _ => false,
    })
}

fn uses_zstd(records: &[u8]) -> bool {
    records::BatchHeader::parse(records).is_ok_and(|header| header.attributes.codec_id() == ZSTD_BITS)
}

/// Compression bits of zstd in a batch's attributes.
const ZSTD_BITS: u8 = 4;

fn finish(call: &Call, shape: Few<TopicShape>, done: Few<AppendDone>, acks: i16) -> Result<Response, Refusal> {
    if acks == 0 {
        let failed = done.iter().find(|answer| !answer.error.is_none());
        return match failed {
            Some(answer) => Err(Refusal::Unacknowledged(answer.error)),
            None => Ok(Response::Nothing),
        };
    }
    respond(call, shape, done)
}

fn respond(call: &Call, shape: Few<TopicShape>, done: Few<AppendDone>) -> Result<Response, Refusal> {
    let image = call.core.image();
    let done = match done.into_only() {
        Ok(only) => Few::one(only),
        Err(several) => {
            let mut sorted: Vec<AppendDone> = several.into_iter().collect();
            sorted.sort_by_key(|answer| answer.slot);
            sorted.into_iter().collect()
        }
    };
    let mut answers = done.into_iter();
    let mut leaders = BTreeMap::new();
    let mut responses = Vec::with_capacity(shape.len());
    // As in Apache Kafka, a topic of which no partition was asked is not answered.
    for topic in shape.iter().filter(|topic| !topic.partitions.is_empty()) {
        let name = std::str::from_utf8(&topic.name).unwrap_or_default();
        let topic_id = match call.version >= TOPIC_IDS_FROM {
            true => Some(topic.id),
            false => image.topics.by_name(name).map(|found| found.id),
        };
        let partition_responses = topic.partitions.iter().map(|index| {
            let answer = answers.next().expect("every partition of the request has an answer");
            let moved = call.version >= LEADER_FROM && answer.error == ErrorCode::NOT_LEADER_OR_FOLLOWER;
            let leader = moved.then(|| image.topics.partition(topic_id?, *index)).flatten();
            let current_leader = leader.map_or_else(LeaderIdAndEpoch::default, |partition| {
                leaders.insert(partition.leader, ());
                LeaderIdAndEpoch { leader_id: partition.leader, leader_epoch: partition.leader_epoch }
            });
            partition_response(*index, answer, current_leader)
        });
        let partition_responses = partition_responses.collect();
        responses.push(TopicProduceResponse { name: Cow::Borrowed(name), topic_id: topic.id, partition_responses });
    }
    let endpoint = |id: &i32| {
        let node = topology::node(&image, call.listener(), *id)?;
        Some(NodeEndpoint {
            node_id: *id,
            host: Cow::Borrowed(&node.endpoint.host),
            port: i32::from(node.endpoint.port),
            rack: node.broker.rack.as_deref().map(Cow::Borrowed),
        })
    };
    let node_endpoints = leaders.keys().filter_map(endpoint).collect();
    call.respond(&ProduceResponse { responses, node_endpoints, ..ProduceResponse::default() })
}

fn partition_response(
    index: i32,
    answer: AppendDone,
    current_leader: LeaderIdAndEpoch,
) -> PartitionProduceResponse<'static> {
    let record_error = |(index, text): (i32, Option<String>)| BatchIndexAndErrorMessage {
        batch_index: index,
        batch_index_error_message: text.map(Cow::Owned),
    };
    PartitionProduceResponse {
        index,
        error_code: answer.error.0,
        base_offset: answer.base_offset,
        log_append_time_ms: answer.log_append_time_ms,
        log_start_offset: answer.log_start_offset,
        record_errors: answer.record_errors.into_iter().map(record_error).collect(),
        error_message: answer.message.map(Cow::Owned),
        current_leader,
    }
}
