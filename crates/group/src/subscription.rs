//! What the coordinator has to know of the consumer protocol's own blobs inside JoinGroup (`ConsumerProtocolSubscription`).

use std::collections::BTreeSet;

use wire::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::{Decode, Reader};

/// The `protocol_type` of consumers.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

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

/// The bytes are no subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSubscription;
