//! The consumer protocol's own blobs inside JoinGroup and SyncGroup: a version, then `ConsumerProtocolSubscription` or
//! `ConsumerProtocolAssignment`.

use std::collections::BTreeSet;

use metadata::MetadataImage;
use wire::consumer_protocol_assignment::ConsumerProtocolAssignment;
use wire::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::{Decode, Reader};

use crate::assignor::Partitions;

/// The `protocol_type` of consumers.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";
/// Highest version of the blobs; later ones begin with the fields of this one.
const VERSION_MAX: i16 = 3;

/// Adds the topics of a subscription. Every version begins with the fields of version 0, so that one is read whatever the
/// version says; a blob that does not hold them is no subscription.
pub(crate) fn add_topics(blob: &[u8], topics: &mut BTreeSet<Box<str>>) -> Result<(), NoSubscription> {
    let mut reader = Reader::from_slice(blob);
    let version = reader.i16().map_err(|_| NoSubscription)?;
    if version < 0 {
        return Err(NoSubscription);
    }
    let subscription = ConsumerProtocolSubscription::decode(&mut reader, 0).map_err(|_| NoSubscription)?;
    topics.extend(subscription.topics.iter().map(|topic| Box::from(&**topic)));
    Ok(())
}

/// The version at the head of a blob, as far as it is known here.
pub(crate) fn version_of(blob: &[u8]) -> Result<i16, NoSubscription> {
    match Reader::from_slice(blob).i16() {
        Ok(version @ 0..) => Ok(version.min(VERSION_MAX)),
        _ => Err(NoSubscription),
    }
}

/// Reads a subscription whole.
pub(crate) fn subscription(blob: &[u8]) -> Result<ConsumerProtocolSubscription<'_>, NoSubscription> {
    let version = version_of(blob)?;
    ConsumerProtocolSubscription::decode(&mut Reader::from_slice(&blob[2..]), version).map_err(|_| NoSubscription)
}

/// Reads an assignment.
pub(crate) fn assignment(blob: &[u8]) -> Result<ConsumerProtocolAssignment<'_>, NoSubscription> {
    let version = version_of(blob)?;
    ConsumerProtocolAssignment::decode(&mut Reader::from_slice(&blob[2..]), version).map_err(|_| NoSubscription)
}

/// An assignment as a blob. Topics that are gone are left out. All versions are alike.
pub(crate) fn assignment_blob(partitions: &Partitions, image: &MetadataImage, version: i16) -> Vec<u8> {
    let named = |(id, partitions)| image.topics.by_id(id).map(|topic| (topic.name.clone(), partitions));
    let topics: Vec<(std::sync::Arc<str>, &[i32])> = partitions.topics().filter_map(named).collect();
    let mut blob = version.to_be_bytes().to_vec();
    blob.extend_from_slice(&(topics.len() as i32).to_be_bytes());
    for (name, partitions) in topics {
        blob.extend_from_slice(&(name.len() as i16).to_be_bytes());
        blob.extend_from_slice(name.as_bytes());
        blob.extend_from_slice(&(partitions.len() as i32).to_be_bytes());
        partitions.iter().for_each(|partition| blob.extend_from_slice(&partition.to_be_bytes()));
    }
    // No user data.
    blob.extend_from_slice(&(-1i32).to_be_bytes());
    blob
}

/// The bytes are no subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSubscription;
