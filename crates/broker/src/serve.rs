//! What a core does when another core, or a connection of its own, asks it something.

pub mod fetch;
mod lookups;

use crate::controller_host;
use crate::core::DataCore;
use crate::groups;
use crate::messages::{AppendDone, AppendJob, CoreReply, CoreRequest};
use crate::per_ip;
use crate::promises::Promised;
use base::{CoreId, Few};
use partition::{AppendRequest, PartitionError, PendingAppend, ProduceResult};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use wire::ErrorCode;

/// An answer, or the way to it. What fixes the order of requests is done in both cases.
pub enum Served {
    /// The answer.
    Done(CoreReply),
    /// The answer comes later. The future makes no progress unless polled, but nothing waits for its progress either.
    Later(Pin<Box<dyn Future<Output = CoreReply>>>),
    /// Appends that wait; whoever has it says who is to be answered.
    Promised(Promised),
}

impl Served {
    pub(crate) fn later(future: impl Future<Output = CoreReply> + 'static) -> Served {
        Served::Later(Box::pin(future))
    }
}

/// Begins to serve a question asked by core `from`.
pub fn begin(core: &Rc<DataCore>, from: CoreId, request: CoreRequest) -> Served {
    match request {
        CoreRequest::Append(job) => append(core, job),
        CoreRequest::Read(job) => fetch::read(core, &job),
        CoreRequest::Watch(job) => fetch::watch(core, from, job),
        CoreRequest::Unwatch(number) => fetch::unwatch(core, from, number),
        CoreRequest::ListOffsets(queries) => lookups::list_offsets(core, queries),
        CoreRequest::EpochEnds(queries) => lookups::epoch_ends(core, &queries),
        CoreRequest::Producers(queries) => lookups::producers(core, &queries),
        CoreRequest::DeleteRecords(queries) => lookups::delete_records(core, queries),
        CoreRequest::LogDirs => lookups::log_dirs(core),
        CoreRequest::TakeSession { id, epoch, by_topic_id } => {
            let now_ms = reactor::now().mono_ms();
            Served::Done(CoreReply::Session(core.sessions.borrow_mut().take(id, epoch, by_topic_id, now_ms)))
        }
        CoreRequest::PutSession(session) => {
            core.sessions.borrow_mut().put_back(session, reactor::now().mono_ms());
            Served::Done(CoreReply::Done)
        }
        CoreRequest::EndSession(id) => {
            core.sessions.borrow_mut().remove(id);
            Served::Done(CoreReply::Done)
        }
        CoreRequest::Groups(job) => groups::serve(core, job),
        CoreRequest::Controller(call) => match core.controller() {
            Some(controller) => {
                Served::later(async move { CoreReply::Controller(controller_host::request(controller, *call).await) })
            }
            None => Served::Done(CoreReply::Controller(Err(ErrorCode::NOT_CONTROLLER))),
        },
        CoreRequest::EnterIp(ip) => Served::Done(CoreReply::EnterIp(per_ip::count(core, ip))),
        CoreRequest::LeftIp(ip) => {
            core.per_ip.borrow_mut().remove(ip);
            Served::Done(CoreReply::Done)
        }
        CoreRequest::Checkpoints => Served::Done(CoreReply::Checkpoints(core.checkpoints())),
        CoreRequest::Metrics => Served::Done(CoreReply::Metrics(Box::new(core.metrics_snapshot()))),
        CoreRequest::Apply(delta) => {
            let core = core.clone();
            Served::later(async move {
                core.partitions.apply(delta.image(), &delta).await;
                CoreReply::Done
            })
        }
        CoreRequest::Show(delta) => {
            core.show(&delta);
            groups::follow(core, &delta);
            Served::Done(CoreReply::Done)
        }
    }
}

/// Appends in order, then waits for the promises.
fn append(core: &Rc<DataCore>, job: AppendJob) -> Served {
    let now = reactor::now();
    let request = AppendRequest::client(job.acks);
    let deadline_ns = now.plus_ms(job.timeout_ms.into()).mono_ns;
    let mut done = Few::new();
    let mut pending = Few::new();
    let mut undecided = false;
    for part in job.parts {
        let partition = core.partitions.partition(part.key);
        match partition.and_then(|partition| partition.append(now, &part.records, &request)) {
            Ok(append) if job.acks == 0 => done.push(appended_at(part.slot, &append.result())),
            Ok(append) => {
                undecided |= append.is_undecided();
                pending.push((part.slot, append));
            }
            Err(error) => done.push(refused(part.slot, error)),
        }
    }
    if pending.is_empty() {
        return Served::Done(CoreReply::Append(done));
    }
    if undecided {
        return Served::later(promised(pending, done, deadline_ns));
    }
    Served::Promised(Promised { core: core.clone(), pending, done, deadline_ns })
}

/// Waits where not even the offsets are known, which the partitions' keeper cannot be told of.
async fn promised(pending: Few<(u32, PendingAppend)>, mut done: Few<AppendDone>, deadline_ns: u64) -> CoreReply {
    for (slot, append) in pending {
        done.push(match append.wait_until(deadline_ns).await {
            Ok(result) => appended_at(slot, &result),
            Err(error) => refused(slot, error),
        });
    }
    CoreReply::Append(done)
}

pub(crate) fn appended_at(slot: u32, result: &ProduceResult) -> AppendDone {
    AppendDone {
        base_offset: result.base_offset,
        log_append_time_ms: result.log_append_time_ms,
        log_start_offset: result.log_start_offset,
        ..AppendDone::failed(slot, ErrorCode::NONE, None)
    }
}

pub(crate) fn refused(slot: u32, error: PartitionError) -> AppendDone {
    AppendDone {
        log_start_offset: error.log_start_offset,
        record_errors: error.record_errors.into_iter().map(|(index, text)| (index, Some(text))).collect(),
        ..AppendDone::failed(slot, error.code, Some(error.message))
    }
}
