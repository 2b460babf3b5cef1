//! Which core reads what.

use super::Ask;
use crate::call::Call;
use crate::fetch_session::{PartitionFetch, TopicKey};
use crate::messages::{ReadDone, ReadJob, ReadPart};
use base::{CoreId, PartitionKey};
use metadata::MetadataImage;
use std::collections::BTreeMap;
use wire::ErrorCode;

/// The reads of one fetch, by core.
pub(super) struct Plan {
    /// What each core reads.
    pub jobs: BTreeMap<CoreId, ReadJob>,
    /// Answers that need no core: partitions that do not exist.
    pub refused: Vec<ReadDone>,
    /// Most bytes that can come: the sum of what the partitions are limited to.
    pub reachable_bytes: usize,
}

/// Sorts partitions by home core.
pub(super) fn plan(call: &Call, ask: &Ask, partitions: &[PartitionFetch]) -> Plan {
    let image = call.core.image();
    let mut plan = Plan { jobs: BTreeMap::new(), refused: Vec::new(), reachable_bytes: 0 };
    for (slot, one) in partitions.iter().enumerate() {
        let slot = slot as u32;
        match find(&image, one) {
            Ok(key) => {
                let core = key.home_core(call.core.layout.data_cores);
                let job = plan.jobs.entry(core).or_insert_with(|| ReadJob {
                    isolation: ask.isolation,
                    bytes_max: ask.bytes_max,
                    parts: Vec::new(),
                });
                job.parts.push(ReadPart { slot, key, ask: one.ask });
                let limit = usize::try_from(one.ask.max_bytes).unwrap_or(0);
                plan.reachable_bytes = plan.reachable_bytes.saturating_add(limit);
            }
            // An empty list and not null, as from Apache Kafka for what it does not get to read.
            Err(error) => {
                plan.refused.push(ReadDone { aborted: Some(Vec::new()), ..ReadDone::failed(slot, error) });
            }
        }
    }
    share(&mut plan, partitions.len(), ask.bytes_max);
    plan
}

/// Several cores read at once, so each gets the part of the byte budget that its partitions are of all.
fn share(plan: &mut Plan, partitions: usize, bytes_max: usize) {
    if plan.jobs.len() > 1 {
        for job in plan.jobs.values_mut() {
            job.bytes_max = (bytes_max / partitions.max(1)).saturating_mul(job.parts.len());
        }
    }
}

/// The partition, if the topic is the one that the client means.
fn find(image: &MetadataImage, one: &PartitionFetch) -> Result<PartitionKey, ErrorCode> {
    // A session knows the name an id had before its topic was deleted.
    let Some(name) = &one.name else { return Err(ErrorCode::UNKNOWN_TOPIC_ID) };
    let topic = image.topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if matches!(&one.topic, TopicKey::Id(id) if topic.id != *id) {
        return Err(ErrorCode::INCONSISTENT_TOPIC_ID);
    }
    match topic.partition(one.partition) {
        Some(_) => Ok(PartitionKey { topic_id: topic.id, partition: one.partition }),
        None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}
