//! Requests about groups on their way: from the connection's core to the home cores of their groups and back.

use crate::call::{self, Answer, Call, Refusal};
use crate::core::{DataCore, Waiting};
use crate::dispatch;
use crate::groups::host::{Host, Submitted};
use crate::groups::requests::{self, Part, Source};
use crate::messages::{CoreReply, CoreRequest};
use crate::serve::Served;
use base::{CoreId, Few};
use bytes::Bytes;
use group::{Client, Reply, Request};
use net::Response;
use reactor::sync::oneshot;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::{ApiKey, DecodeError, ErrorCode};

/// Parts of one request for the groups of one core.
pub struct GroupJob {
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// The frame.
    pub frame: Bytes,
    /// Where the body begins in it.
    pub body_at: usize,
    /// The peer's address as Kafka shows it.
    pub client_host: Arc<str>,
    /// Which of its groups live on that core.
    pub slots: Slots,
}

/// Places in a request.
pub enum Slots {
    /// The only one.
    Only,
    /// These, ascending.
    Several(Vec<u32>),
}

impl GroupJob {
    fn new(call: &Call, slots: Slots) -> GroupJob {
        let (frame, body_at) = call.undecoded();
        let client_host = call.session.host.clone();
        GroupJob { api: call.api, version: call.version, frame, body_at, client_host, slots }
    }

    fn source(&self) -> Source<'_> {
        // Who joins is remembered with its name.
        let joins = matches!(self.api, ApiKey::JoinGroup | ApiKey::ConsumerGroupHeartbeat);
        let client_id = if joins { call::client_id_of(&self.frame) } else { None };
        let client = Client { client_id: client_id.unwrap_or_default(), client_host: &self.client_host };
        Source { api: self.api, version: self.version, frame: &self.frame, body_at: self.body_at, client }
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
    let everything = GroupJob::new(call, Slots::Only);
    let mut done = Vec::new();
    let mut by_core: BTreeMap<CoreId, Vec<u32>> = BTreeMap::new();
    requests::each(&everything.source(), |part| match part.group_id {
        _ if is_disabled => done.push((part.slot, group::refused(&part.request, ErrorCode::UNSUPPORTED_VERSION))),
        None => by_core.extend((0..call.core.layout.data_cores).map(|core| (CoreId(core), vec![part.slot]))),
        Some(group_id) => match call.core.groups.home(group_id) {
            Some(core) => by_core.entry(core).or_default().push(part.slot),
            None => done.push((part.slot, group::refused(&part.request, ErrorCode::NOT_COORDINATOR))),
        },
    })?;
    let mut waiting = Vec::with_capacity(by_core.len());
    for (core, slots) in by_core {
        let job = GroupJob::new(call, Slots::Several(slots));
        waiting.push(call.core.ask(core, CoreRequest::Groups(job)));
    }
    for reply in reactor::join_all(waiting).await {
        done.extend(replies(reply)?);
    }
    done.sort_by_key(|(slot, _)| *slot);
    Ok(done.into_iter().map(|(_, reply)| reply).collect())
}

/// Begins a request that names one group; `respond` makes the answer of the group's reply. Its order among the requests to
/// that group is fixed when this returns.
pub fn start(call: Call, respond: Respond) -> net::Reply {
    match ask_one(&call) {
        Ok(Waiting::Done(Some(reply))) => net::Reply::Ready(respond_with(&call, respond, reply)),
        Ok(waiting) => net::Reply::Later(Box::pin(Finish { call, waiting, respond })),
        Err(refusal) => net::Reply::Ready(dispatch::end(&call, Err(refusal))),
    }
}

/// Makes the answer to a request of the reply of its group.
pub type Respond = fn(&Call, Reply) -> Answer;

/// Waits for the reply and answers. Not an async block: that would keep everything twice, beside what it awaits and in it.
struct Finish {
    call: Call,
    waiting: Waiting,
    respond: Respond,
}

impl Future for Finish {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let Finish { call, waiting, respond } = self.get_mut();
        let reply = ready!(Pin::new(waiting).poll(cx));
        Poll::Ready(respond_with(call, *respond, reply))
    }
}

fn respond_with(call: &Call, respond: Respond, reply: CoreReply) -> Response {
    let only = |replies: Few<(u32, Reply)>| match replies.into_only() {
        Ok((_, reply)) => reply,
        Err(_) => unreachable!("a request about one group has one reply"),
    };
    let answer = replies(reply).map_err(Refusal::from).and_then(|replies| respond(call, only(replies)));
    dispatch::end(call, answer)
}

/// Only the group's id is looked at here: its home core reads the rest.
fn ask_one(call: &Call) -> Result<Waiting, Refusal> {
    let job = GroupJob::new(call, Slots::Only);
    let home = match is_disabled(call) {
        true => Err(ErrorCode::UNSUPPORTED_VERSION),
        false => {
            let group_id = requests::only_group(&job.source())?;
            call.core.groups.home(&group_id).ok_or(ErrorCode::NOT_COORDINATOR)
        }
    };
    match home {
        Ok(core) => Ok(call.core.ask(core, CoreRequest::Groups(job))),
        Err(error) => {
            let replies = job.refusal(ONLY, error)?.into_iter().map(|reply| (ONLY, reply)).collect();
            Ok(Waiting::Done(Some(CoreReply::Groups(Ok(replies)))))
        }
    }
}

/// The place of the only group of a request.
const ONLY: u32 = 0;

/// True when the request is about consumer groups, which may not be used.
fn is_disabled(call: &Call) -> bool {
    matches!(call.api, ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe)
        && !call.core.groups.serves_consumer_groups()
}

fn replies(reply: CoreReply) -> Result<Few<(u32, Reply)>, DecodeError> {
    let CoreReply::Groups(replies) = reply else { unreachable!("groups are answered by groups") };
    replies
}

/// Serves the parts of a request whose groups live here.
pub fn serve(core: &Rc<DataCore>, job: GroupJob) -> Served {
    let (mut done, mut waiting) = (Few::new(), Few::new());
    let mut several = match &job.slots {
        Slots::Only => None,
        Slots::Several(slots) => Some(slots.iter().peekable()),
    };
    let decoded = requests::each(&job.source(), |part| {
        let is_ours = several.as_mut().is_none_or(|slots| slots.next_if(|slot| **slot == part.slot).is_some());
        if !is_ours {
            return;
        }
        match part.group_id {
            None => {
                for host in core.groups.hosts() {
                    submit(core, Some(&host), &part, &mut done, &mut waiting);
                }
            }
            Some(group_id) => submit(core, core.groups.host_of(group_id).as_deref(), &part, &mut done, &mut waiting),
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
            let answer: coordinator::Answer<Reply> = reply.await.unwrap_or(Err(ErrorCode::NOT_COORDINATOR));
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
    done: &mut Few<(u32, Reply)>,
    waiting: &mut Few<(u32, oneshot::Receiver<coordinator::Answer<Reply>>)>,
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
