//! Who has which partitions, and whether that is stable. Pure.

use std::ops::Range;

use wire::consumer_protocol_assignment::ConsumerProtocolAssignment;
use wire::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::{Decode, Encode, Reader, Segment, Writer};

/// Version of the blobs inside JoinGroup and SyncGroup.
const BLOB_VERSION: i16 = 3;

/// The partitions of member number `index` of `members`: neighbours, the first members having one more where they do not
/// divide evenly.
pub(crate) fn range(partitions: i32, members: usize, index: usize) -> Range<i32> {
    let (all, members) = (partitions as usize, members.max(1));
    let (each, more) = (all / members, all % members);
    let from = index * each + index.min(more);
    from as i32..(from + each + usize::from(index < more)) as i32
}

/// Whether everything that the members have is every partition once, and in equal shares.
pub(crate) fn is_complete<'a>(partitions: i32, members: impl Iterator<Item = &'a [i32]>) -> bool {
    let mut seen = vec![false; partitions as usize];
    let (mut fewest, mut most, mut all) = (usize::MAX, 0, 0);
    for owned in members {
        fewest = fewest.min(owned.len());
        most = most.max(owned.len());
        all += owned.len();
        for partition in owned {
            match usize::try_from(*partition).ok().and_then(|i| seen.get_mut(i)) {
                Some(place) if !*place => *place = true,
                _ => return false,
            }
        }
    }
    all == partitions as usize && most - fewest.min(most) <= 1
}

/// The subscription of a classic member to one topic.
pub(crate) fn subscription_blob(topic: &str) -> Vec<u8> {
    blob(&ConsumerProtocolSubscription { topics: vec![topic.into()], ..ConsumerProtocolSubscription::default() })
}

/// The assignment of a classic member.
pub(crate) fn assignment_blob(topic: &str, partitions: Range<i32>) -> Vec<u8> {
    let parts =
        wire::consumer_protocol_assignment::TopicPartition { topic: topic.into(), partitions: partitions.collect() };
    blob(&ConsumerProtocolAssignment { assigned_partitions: vec![parts], user_data: None })
}

/// The partitions of a topic in an assignment.
pub(crate) fn assigned(blob: &[u8], topic: &str) -> Result<Vec<i32>, String> {
    if blob.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::from_slice(blob);
    let version = reader.i16().map_err(|error| format!("an assignment without a version: {error}"))?;
    let found = ConsumerProtocolAssignment::decode(&mut reader, version.clamp(0, BLOB_VERSION))
        .map_err(|error| format!("an assignment that is none: {error}"))?;
    let mine = found.assigned_partitions.into_iter().filter(|part| part.topic == topic);
    Ok(mine.flat_map(|part| part.partitions).collect())
}

fn blob(message: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i16(BLOB_VERSION);
    message.encode(&mut writer, BLOB_VERSION).expect("a blob of our own making is valid");
    let mut bytes = Vec::new();
    for segment in writer.finish() {
        match segment {
            Segment::Bytes(part) => bytes.extend_from_slice(&part),
            Segment::External { .. } => unreachable!("blobs are in memory"),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_everything_in_equal_shares() {
        for (partitions, members) in [(1, 1), (10, 3), (3, 10), (1000, 1000), (7, 7), (0, 4)] {
            let all: Vec<Vec<i32>> = (0..members).map(|i| range(partitions, members, i).collect()).collect();
            assert!(is_complete(partitions, all.iter().map(Vec::as_slice)), "{partitions} over {members}: {all:?}");
        }
    }

    #[test]
    fn what_is_missing_doubled_unequal_or_unknown_is_not_complete() {
        for (owned, partitions) in [
            (vec![vec![0], vec![]], 2),
            (vec![vec![0, 1], vec![1]], 2),
            (vec![vec![0, 1, 2], vec![]], 3),
            (vec![vec![0], vec![2]], 2),
            (vec![vec![-1], vec![0]], 2),
        ] {
            assert!(!is_complete(partitions, owned.iter().map(Vec::as_slice)), "{owned:?} of {partitions}");
        }
    }

    #[test]
    fn assignments_are_read_as_they_were_written() {
        let blob = assignment_blob("a", 3..6);
        assert_eq!(assigned(&blob, "a"), Ok(vec![3, 4, 5]));
        assert_eq!(assigned(&blob, "b"), Ok(vec![]));
        assert_eq!(assigned(&[], "a"), Ok(vec![]));
        assert!(assigned(&blob[..blob.len() - 1], "a").is_err() && assigned(&[0], "a").is_err());
        assert!(subscription_blob("topic").windows(5).any(|part| part == b"topic"));
    }
}
