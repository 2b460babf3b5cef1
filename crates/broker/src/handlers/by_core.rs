//! Requests that name partitions of topics, each with a question for its home core: sorting the questions by core and
//! the answers back.

use crate::call::Call;
use crate::messages::{CoreReply, CoreRequest};
use base::{CoreId, PartitionIndex, PartitionKey};
use metadata::MetadataImage;
use std::collections::BTreeMap;
use wire::ErrorCode;

/// Finds a partition by topic name.
///
/// # Errors
/// UNKNOWN_TOPIC_OR_PARTITION.
pub fn find(image: &MetadataImage, topic: &str, partition: PartitionIndex) -> Result<PartitionKey, ErrorCode> {
    let topic = image.topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    topic.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    Ok(PartitionKey { topic_id: topic.id, partition })
}

/// Questions by home core.
pub struct ByCore<Q> {
    data_cores: u16,
    questions: BTreeMap<CoreId, Vec<Q>>,
}

impl<Q> ByCore<Q> {
    /// No question yet.
    pub fn new(call: &Call) -> ByCore<Q> {
        ByCore { data_cores: call.core.layout.data_cores, questions: BTreeMap::new() }
    }

    /// Adds a question about `key`.
    pub fn push(&mut self, key: PartitionKey, question: Q) {
        self.questions.entry(key.home_core(self.data_cores)).or_default().push(question);
    }

    /// Asks every core its questions at once, and gives the replies in no particular order.
    pub async fn ask(self, call: &Call, request: impl Fn(Vec<Q>) -> CoreRequest) -> Vec<CoreReply> {
        let mut waiting = Vec::with_capacity(self.questions.len());
        for (core, questions) in self.questions {
            waiting.push(call.core.ask(core, request(questions)));
        }
        reactor::join_all(waiting).await
    }
}
