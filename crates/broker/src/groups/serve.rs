//! Requests about groups on their way: from the connection's core to the home cores of their groups and back.

use crate::call::{Call, Refusal};
use crate::core::DataCore;
use crate::groups;
use crate::groups::host::{Host, Submitted};
use crate::groups::requests::{self, Part, Source};
use crate::internal_topics::{self, CONSUMER_OFFSETS};
use crate::messages::{CoreReply, CoreRequest};
use crate::serve::Served;
use base::{CoreId, PartitionKey};
use bytes::Bytes;
use coordinator::Answer;
use group::{Client, Reply, Request};
use metadata::MetadataImage;
use reactor::sync::oneshot;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use wire::{ApiKey, ErrorCode};

/// Parts of one request for the groups of one core.
pub struct GroupJob {
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// The body, a slice of the frame.
    pub body: Bytes,
    /// `client.id`; empty when there is none.
    pub client_id: Box<str>,
    /// The peer's address as Kafka shows it.
    pub client_host: Box<str>,
    /// The places in the request of the groups that live on that core, ascending.
    pub slots: Vec<u32>,
}

impl GroupJob {
    fn source(&self) -> Source<'_> {
        let client = Client { client_id: &self.client_id, client_host: &self.client_host };
        Source { api: self.api, version: self.version, body: &self.body, client }
    }

    /// The reply that says of the part at `slot` that it failed.
    fn refusal(&self, slot: u32, error: ErrorCode) -> Reply {
        let mut refusal = None;
        let decoded = requests::each(&self.source(), |part| {
            if part.slot == slot {
                refusal = Some(group::refused(&part.request, error));
            }
        });
        decoded.expect("the request was decoded before");
        refusal.expect("the part was found before")
    }
}

/// Asks the groups of a request, wherever they live, and gives the replies in the order of the request. A request about
/// all groups is answered by every partition of `__consumer_offsets` that is hosted here.
///
/// # Errors
/// [`Refusal::Decode`].
pub async fn ask(call: &Call) -> Result<Vec<Reply>, Refusal> {
    let needs_consumer_groups = matches!(call.api, ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe);
    let is_disabled = needs_consumer_groups && !groups::serves_consumer_groups(&call.core);
    let client_id = call.client_id().unwrap_or_default();
    let client_host = host_text(call.session.info.peer.ip());
    let client = Client { client_id, client_host: &client_host };
    let body = call.body();
    let source = Source { api: call.api, version: call.version, body: &body, client };
    let image = call.core.image();
    let mut done = Vec::new();
    let mut by_core: BTreeMap<CoreId, Vec<u32>> = BTreeMap::new();
    requests::each(&source, |part| match part.group_id {
        _ if is_disabled => done.push((part.slot, group::refused(&part.request, ErrorCode::UNSUPPORTED_VERSION))),
        None => by_core.extend((0..call.core.layout.data_cores).map(|core| (CoreId(core), vec![part.slot]))),
        Some(group_id) => match home(&call.core, &image, group_id) {
            Some(core) => by_core.entry(core).or_default().push(part.slot),
            None => done.push((part.slot, group::refused(&part.request, ErrorCode::NOT_COORDINATOR))),
        },
    })?;
    let mut waiting = Vec::with_capacity(by_core.len());
    for (core, slots) in by_core {
        let job = GroupJob {
            api: call.api,
            version: call.version,
            body: body.clone(),
            client_id: client_id.into(),
            client_host: client_host.as_str().into(),
            slots,
        };
        waiting.push(call.core.ask(core, CoreRequest::Groups(Box::new(job))));
    }
    for reply in reactor::join_all(waiting).await {
        let CoreReply::Groups(replies) = reply else { unreachable!("groups are answered by groups") };
        done.extend(replies);
    }
    done.sort_by_key(|(slot, _)| *slot);
    Ok(done.into_iter().map(|(_, reply)| reply).collect())
}

/// As [`ask`], for a request that names one group.
///
/// # Errors
/// [`Refusal::Decode`].
pub async fn ask_one(call: &Call) -> Result<Reply, Refusal> {
    let mut replies = ask(call).await?;
    Ok(replies.pop().expect("a request about one group has one reply"))
}

/// The core a group lives on, if this broker coordinates it.
fn home(core: &DataCore, image: &MetadataImage, group_id: &str) -> Option<CoreId> {
    let topic = image.topics.by_name(CONSUMER_OFFSETS)?;
    let partitions = internal_topics::consumer_offsets_partitions(image, &core.config());
    let partition = group::partition_for(group_id, partitions);
    topic.partition(partition).filter(|registration| registration.leader == core.node.id)?;
    Some(PartitionKey { topic_id: topic.id, partition }.home_core(core.layout.data_cores))
}

/// Serves the parts of a request whose groups live here.
pub fn serve(core: &Rc<DataCore>, job: Box<GroupJob>) -> Served {
    let (mut done, mut waiting) = (Vec::new(), Vec::new());
    let partitions = internal_topics::consumer_offsets_partitions(&core.image(), &core.config());
    let decoded = requests::each(&job.source(), |part| {
        if job.slots.binary_search(&part.slot).is_err() {
            return;
        }
        match part.group_id {
            None => {
                for host in core.groups.hosts() {
                    submit(core, Some(&host), &part, &mut done, &mut waiting);
                }
            }
            Some(group_id) => {
                let host = core.groups.host(group::partition_for(group_id, partitions));
                submit(core, host.as_deref(), &part, &mut done, &mut waiting);
            }
        }
    });
    decoded.expect("the request was decoded on the connection's core");
    if waiting.is_empty() {
        return Served::Done(CoreReply::Groups(done));
    }
    Served::later(async move {
        for (slot, reply) in waiting {
            let answer: Answer<Reply> = reply.await.unwrap_or(Err(ErrorCode::NOT_COORDINATOR));
            done.push((slot, answer.unwrap_or_else(|error| job.refusal(slot, error))));
        }
        CoreReply::Groups(done)
    })
}

fn submit(
    core: &DataCore,
    host: Option<&Host>,
    part: &Part<'_>,
    done: &mut Vec<(u32, Reply)>,
    waiting: &mut Vec<(u32, oneshot::Receiver<Answer<Reply>>)>,
) {
    let request: Request<'_> = part.request;
    let submitted = host.map_or(Submitted::Done(Err(ErrorCode::NOT_COORDINATOR)), |host| host.submit(core, request));
    match submitted {
        Submitted::Done(answer) => {
            done.push((part.slot, answer.unwrap_or_else(|error| group::refused(&request, error))));
        }
        Submitted::Waiting(reply) => waiting.push((part.slot, reply)),
    }
}

/// An address in the form of Java's `InetAddress.toString` without a name, which Kafka's tools show.
fn host_text(addr: IpAddr) -> String {
    match addr.to_canonical() {
        IpAddr::V4(addr) => format!("/{addr}"),
        IpAddr::V6(addr) => {
            let groups: Vec<String> = addr.segments().iter().map(|group| format!("{group:x}")).collect();
            format!("/{}", groups.join(":"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_look_as_in_java() {
        let cases = [("127.0.0.1", "/127.0.0.1"), ("::ffff:10.0.0.1", "/10.0.0.1"), ("::1", "/0:0:0:0:0:0:0:1")];
        for (addr, text) in cases {
            assert_eq!(host_text(addr.parse().expect("an address")), text);
        }
    }
}
