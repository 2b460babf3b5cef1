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
use std::rc::Rc;
use std::sync::Arc;
use wire::{ApiKey, DecodeError, ErrorCode};

/// Parts of one request for the groups of one core.
pub struct GroupJob {
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// The body, a slice of the frame.
    pub body: Bytes,
    /// `client.id`; empty when there is none, or nobody asks for it.
    pub client_id: Box<str>,
    /// The peer's address as Kafka shows it.
    pub client_host: Arc<str>,
    /// The places in the request of the groups that live on that core, ascending.
    pub slots: Vec<u32>,
}

impl GroupJob {
    fn new(call: &Call, body: Bytes, slots: Vec<u32>) -> GroupJob {
        // Who joins is remembered with its name.
        let joins = matches!(call.api, ApiKey::JoinGroup | ApiKey::ConsumerGroupHeartbeat);
        GroupJob {
            api: call.api,
            version: call.version,
            body,
            client_id: call.client_id().filter(|_| joins).unwrap_or_default().into(),
            client_host: call.session.host.clone(),
            slots,
        }
    }

    fn source(&self) -> Source<'_> {
        let client = Client { client_id: &self.client_id, client_host: &self.client_host };
        Source { api: self.api, version: self.version, body: &self.body, client }
    }

    /// The reply that says of the part at `slot` that it failed; none when there is no such part.
    fn refusal(&self, slot: u32, error: ErrorCode) -> Result<Option<Reply>, DecodeError> {
        let mut refusal = None;
        requests::each(&self.source(), |part| {
            if part.slot == slot {
                refusal = Some(group::refused(&part.request, error));
            }
        })?;
        Ok(refusal)
    }
}

/// Asks the groups of a request, wherever they live, and gives the replies in the order of the request. A request about
/// all groups is answered by every partition of `__consumer_offsets` that is hosted here.
///
/// # Errors
/// [`Refusal::Decode`].
pub async fn ask(call: &Call) -> Result<Vec<Reply>, Refusal> {
    let is_disabled = is_disabled(call);
    let everything = GroupJob::new(call, call.body(), Vec::new());
    let image = call.core.image();
    let mut done = Vec::new();
    let mut by_core: BTreeMap<CoreId, Vec<u32>> = BTreeMap::new();
    requests::each(&everything.source(), |part| match part.group_id {
        _ if is_disabled => done.push((part.slot, group::refused(&part.request, ErrorCode::UNSUPPORTED_VERSION))),
        None => by_core.extend((0..call.core.layout.data_cores).map(|core| (CoreId(core), vec![part.slot]))),
        Some(group_id) => match home(&call.core, &image, group_id) {
            Some(core) => by_core.entry(core).or_default().push(part.slot),
            None => done.push((part.slot, group::refused(&part.request, ErrorCode::NOT_COORDINATOR))),
        },
    })?;
    let mut waiting = Vec::with_capacity(by_core.len());
    for (core, slots) in by_core {
        let job = GroupJob::new(call, everything.body.clone(), slots);
        waiting.push(call.core.ask(core, CoreRequest::Groups(Box::new(job))));
    }
    for reply in reactor::join_all(waiting).await {
        done.extend(replies(reply)?);
    }
    done.sort_by_key(|(slot, _)| *slot);
    Ok(done.into_iter().map(|(_, reply)| reply).collect())
}

/// As [`ask`], for a request that names one group. Only that is looked at here: its home core reads the rest.
///
/// # Errors
/// [`Refusal::Decode`].
pub async fn ask_one(call: &Call) -> Result<Reply, Refusal> {
    let job = GroupJob::new(call, call.body(), vec![ONLY]);
    let group_id = requests::only_group(call.api, call.version, &job.body)?;
    let home = match is_disabled(call) {
        true => Err(ErrorCode::UNSUPPORTED_VERSION),
        false => home(&call.core, &call.core.image(), &group_id).ok_or(ErrorCode::NOT_COORDINATOR),
    };
    drop(group_id);
    let reply = match home {
        Ok(core) => {
            replies(call.core.ask(core, CoreRequest::Groups(Box::new(job))).await)?.pop().map(|(_, reply)| reply)
        }
        Err(error) => job.refusal(ONLY, error)?,
    };
    Ok(reply.expect("a request about one group has one reply"))
}

/// The place of the only group of a request.
const ONLY: u32 = 0;

/// True when the request is about consumer groups, which may not be used.
fn is_disabled(call: &Call) -> bool {
    matches!(call.api, ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe)
        && !groups::serves_consumer_groups(&call.core)
}

fn replies(reply: CoreReply) -> Result<Vec<(u32, Reply)>, DecodeError> {
    let CoreReply::Groups(replies) = reply else { unreachable!("groups are answered by groups") };
    replies
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
    if let Err(error) = decoded {
        return Served::Done(CoreReply::Groups(Err(error)));
    }
    if waiting.is_empty() {
        return Served::Done(CoreReply::Groups(Ok(done)));
    }
    Served::later(async move {
        for (slot, reply) in waiting {
            let answer: Answer<Reply> = reply.await.unwrap_or(Err(ErrorCode::NOT_COORDINATOR));
            let refusal = |error| job.refusal(slot, error).ok().flatten().expect("the part was asked before");
            done.push((slot, answer.unwrap_or_else(refusal)));
        }
        CoreReply::Groups(Ok(done))
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
