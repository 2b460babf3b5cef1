//! DescribeLogDirs (key 35): sizes of the partitions in each log directory.
//!
//! Versions: 1 as 0; 2 flexible; 3 a top-level error; 4 total and usable bytes of the volume (KIP-827); 5 whether the
//! directory is cordoned (KIP-1066).
//! Gaps: replicas are not moved between directories yet, so none is a future one.

use crate::call::{Answer, Call};
use crate::messages::{CoreReply, CoreRequest, LogDirPart};
use base::CoreId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use wire::ErrorCode;
use wire::describe_log_dirs_request::DescribeLogDirsRequest;
use wire::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: DescribeLogDirsRequest<'_> = call.decode()?;
    let mut waiting = Vec::new();
    for core in 0..call.core.layout.data_cores {
        waiting.push(call.core.ask(CoreId(core), CoreRequest::LogDirs));
    }
    let mut by_dir: Vec<Topics> = call.core.config().log_dirs.iter().map(|_| Topics::new()).collect();
    for reply in reactor::join_all(waiting).await {
        let CoreReply::LogDirs(parts) = reply else { unreachable!("directories are answered by directories") };
        for part in parts.into_iter().filter(|part| wanted(&request, part)) {
            by_dir[part.dir].entry(part.topic).or_default().push(DescribeLogDirsPartition {
                partition_index: part.key.partition,
                partition_size: i64::try_from(part.size_bytes).unwrap_or(i64::MAX),
                offset_lag: part.offset_lag,
                is_future_key: false,
            });
        }
    }
    let config = call.core.config();
    let mut results = Vec::with_capacity(by_dir.len());
    for (dir, topics) in config.log_dirs.iter().zip(by_dir) {
        results.push(describe(dir, topics).await);
    }
    call.respond(&DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() })
}

/// Partitions of one directory, by topic.
type Topics = BTreeMap<Arc<str>, Vec<DescribeLogDirsPartition>>;

async fn describe(dir: &Path, topics: Topics) -> DescribeLogDirsResult<'_> {
    let topic = |(name, mut partitions): (Arc<str>, Vec<DescribeLogDirsPartition>)| {
        partitions.sort_unstable_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name: Cow::Owned(name.to_string()), partitions }
    };
    let log_dir = dir.to_string_lossy();
    match reactor::fs::space(dir).await {
        Ok(space) => DescribeLogDirsResult {
            log_dir,
            topics: topics.into_iter().map(topic).collect(),
            total_bytes: i64::try_from(space.total).unwrap_or(i64::MAX),
            usable_bytes: i64::try_from(space.usable).unwrap_or(i64::MAX),
            ..DescribeLogDirsResult::default()
        },
        Err(error) => {
            tracing::warn!(dir = %dir.display(), %error, "a log directory cannot be described");
            let error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
            DescribeLogDirsResult { error_code, log_dir, ..DescribeLogDirsResult::default() }
        }
    }
}

/// True when the partition was asked for; no list asks for all.
fn wanted(request: &DescribeLogDirsRequest<'_>, part: &LogDirPart) -> bool {
    request.topics.as_ref().is_none_or(|topics| {
        topics.iter().any(|topic| *topic.topic == *part.topic && topic.partitions.contains(&part.key.partition))
    })
}
