use std::path::Path;

use base::{PartitionKey, Uuid};
use log::{FoundLog, LogCore};
use metadata::MetadataImage;

use crate::core::PartitionCoreConfig;

/// Longest file name the usual file systems take, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Renames the directories of partitions that the first image does not give to this broker: their topics were deleted
/// while it was down. Each core takes those whose home it would be. As in Kafka nothing is removed, since a broker that
/// was pointed at the wrong cluster sees strays everywhere; the name ends in `-stray`, and an operator may remove them.
pub(crate) async fn set_aside(config: &PartitionCoreConfig, image: &MetadataImage) {
    for dir in &config.dirs {
        for found in strays(config, &dir.logs, image) {
            let path = &dir.logs.config().dir;
            let (from, to) = names(found);
            match reactor::fs::rename(path.join(&from), path.join(&to)).await {
                Ok(()) => tracing::warn!(directory = %from, renamed = %to, "no partition of this broker: set aside"),
                Err(error) => tracing::error!(directory = %from, %error, "a stray directory could not be renamed"),
            }
            sync(path).await;
        }
    }
}

async fn sync(path: &Path) {
    if let Err(error) = reactor::fs::sync_dir(path).await {
        // The rename is then repeated at the next start.
        tracing::warn!(directory = %path.display(), %error, "the log directory could not be synced");
    }
}

fn strays<'a>(
    config: &PartitionCoreConfig,
    logs: &'a LogCore,
    image: &MetadataImage,
) -> impl Iterator<Item = &'a FoundLog> {
    let is_stray = |found: &&FoundLog| {
        // Without an id the directory is no partition's yet; opening a topic of its name decides.
        let Some(topic_id) = found.topic_id else { return false };
        // The metadata log lives in a log directory too; the controller owns it.
        if topic_id == Uuid::METADATA_TOPIC {
            return false;
        }
        let key = PartitionKey { topic_id, partition: found.partition };
        let mine = key.home_core(config.cores) == config.core;
        let held = image.topics.partition(topic_id, found.partition);
        mine && !held.is_some_and(|partition| partition.has_replica(config.broker_id))
    };
    logs.config().start.found.iter().filter(is_stray)
}

/// The directory's name and the one it gets.
fn names(found: &FoundLog) -> (String, String) {
    let from = format!("{}-{}", found.topic, found.partition);
    let id = found.topic_id.unwrap_or_default();
    let mut ending = String::from(".");
    id.as_bytes().iter().for_each(|byte| ending.push_str(&format!("{byte:02x}")));
    ending.push_str("-stray");
    // Topic names are ASCII, so any byte ends a character.
    let kept = from.len().min(NAME_BYTES_MAX - ending.len());
    let to = format!("{}{ending}", &from[..kept]);
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_file_system() {
        for (topic, expect) in [
            ("t", "t-3.000000000000000000000000000000ff-stray".to_owned()),
            (&"t".repeat(249), format!("{}.000000000000000000000000000000ff-stray", "t".repeat(216))),
        ] {
            let found = FoundLog { topic: topic.into(), partition: 3, topic_id: Some(Uuid::from_u128(255)) };
            let (from, to) = names(&found);
            assert_eq!(from, format!("{topic}-3"));
            assert_eq!(to, expect);
            assert!(to.len() <= NAME_BYTES_MAX);
        }
    }
}
