//! Fetch (key 1): read batches from partitions, waiting for them if there are too few.
//!
//! Versions: 4 isolation level and aborted transactions; 5 log start offset; 7 sessions (KIP-227); 8 quota rule; 9
//! current leader epoch (KIP-320); 10 zstd; 11 rack (KIP-392); 12 flexible, last fetched epoch and diverging epoch
//! (KIP-595); 13 topics by id (KIP-516); 14 no change; 15 replica state; 16 node endpoints (KIP-951); 17 replica
//! directory; 18 the follower's high watermark (KIP-1166).
//! Gaps: requests of followers are treated like consumers' that may read to the end of the log; no reading from the
//! nearest replica.

mod plan;
mod respond;
mod wait;

use crate::call::{Answer, Call, Refusal};
use crate::core::DataCore;
use crate::fetch_session::{
    FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PartitionAsk, PartitionFetch, Session, Taken, TopicKey,
};
use crate::messages::{AnsweredFetch, CoreReply, CoreRequest};
use base::{CoreId, PartitionIndex};
use replica::Isolation;
use std::rc::Rc;
use std::sync::Arc;
use wire::ErrorCode;
use wire::fetch_request::FetchRequest;

/// First version that names topics by id.
const TOPIC_IDS_FROM: i16 = 13;

/// What a fetch is about, in owned form.
struct Ask {
    session_id: i32,
    session_epoch: i32,
    max_wait_ms: u64,
    bytes_min: usize,
    bytes_max: usize,
    isolation: Isolation,
    is_follower: bool,
    partitions: Vec<PartitionFetch>,
    forgotten: Vec<(TopicKey, PartitionIndex)>,
}

/// How the answer relates to a session.
enum Context {
    /// None is wanted.
    Sessionless,
    /// One is to be made.
    New,
    /// One is in use.
    Running(Held),
}

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let mut ask = ask_of(&call)?;
    let (context, partitions) = match open_context(&call, &mut ask).await {
        Ok(opened) => opened,
        Err(error) => return respond::failed(&call, error),
    };
    let answers = wait::read_until_enough(&call, &ask, &partitions).await;
    match context {
        Context::Sessionless => respond::full(&call, NO_SESSION, &partitions, answers),
        Context::New => {
            let outlines = partitions.iter().cloned().zip(answers.iter().map(|answer| answer.outline()));
            let id = create_session(&call, outlines.collect(), ask.is_follower);
            respond::full(&call, id, &partitions, answers)
        }
        Context::Running(mut held) => {
            let answer = respond::incremental(&call, held.session(), &partitions, answers);
            held.put_back().await;
            answer
        }
    }
}

/// A session in use. If the fetch ends early, because its connection went away, the session ends: its client will begin
/// another.
struct Held {
    asking: Rc<DataCore>,
    home: CoreId,
    id: i32,
    session: Option<Box<Session>>,
}

impl Held {
    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("held until it is put back")
    }

    async fn put_back(mut self) {
        if let Some(session) = self.session.take() {
            self.asking.ask(self.home, CoreRequest::PutSession(session)).await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.session.is_some() {
            self.asking.tell(self.home, CoreRequest::EndSession(self.id));
        }
    }
}

fn ask_of(call: &Call) -> Result<Ask, Refusal> {
    let request: FetchRequest<'_> = call.decode()?;
    let by_id = call.version >= TOPIC_IDS_FROM;
    let image = call.core.image();
    let key_of = |topic: &str, id| match by_id {
        true => TopicKey::Id(id),
        false => TopicKey::Name(match image.topics.by_name(topic) {
            Some(known) => known.name.clone(),
            None => Arc::from(topic),
        }),
    };
    let name_of = |key: &TopicKey| match key {
        TopicKey::Id(id) => image.topics.by_id(*id).map(|topic| topic.name.clone()),
        TopicKey::Name(name) => Some(name.clone()),
    };
    let mut partitions = Vec::new();
    for topic in &request.topics {
        let key = key_of(&topic.topic, topic.topic_id);
        let name = name_of(&key);
        partitions.extend(topic.partitions.iter().map(|partition| PartitionFetch {
            topic: key.clone(),
            name: name.clone(),
            partition: partition.partition,
            ask: PartitionAsk {
                fetch_offset: partition.fetch_offset,
                current_leader_epoch: partition.current_leader_epoch,
                last_fetched_epoch: partition.last_fetched_epoch,
                log_start_offset: partition.log_start_offset,
                max_bytes: partition.partition_max_bytes,
            },
        }));
    }
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        let key = key_of(&topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |partition| (key.clone(), *partition))
    });
    let replica = if call.version >= 15 { request.replica_state.replica_id } else { request.replica_id };
    let is_follower = replica >= 0;
    let limit = call.core.config().fetch.response_bytes_max as usize;
    Ok(Ask {
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        max_wait_ms: request.max_wait_ms.max(0).unsigned_abs().into(),
        bytes_min: usize::try_from(request.min_bytes).unwrap_or(0),
        bytes_max: usize::try_from(request.max_bytes).unwrap_or(0).min(limit),
        isolation: match (is_follower, request.isolation_level) {
            (true, _) => Isolation::LogEnd,
            (false, 1) => Isolation::ReadCommitted,
            (false, _) => Isolation::ReadUncommitted,
        },
        is_follower,
        partitions,
        forgotten: forgotten.collect(),
    })
}

/// The core that holds a session: its id tells.
fn session_core(call: &Call, id: i32) -> CoreId {
    CoreId((id.unsigned_abs() % u32::from(call.core.layout.data_cores)) as u16)
}

/// Finds out which partitions are asked for.
async fn open_context(call: &Call, ask: &mut Ask) -> Result<(Context, Vec<PartitionFetch>), ErrorCode> {
    let (id, epoch) = (ask.session_id, ask.session_epoch);
    if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
        if id != NO_SESSION {
            call.core.ask(session_core(call, id), CoreRequest::EndSession(id)).await;
        }
        let context = if epoch == FINAL_EPOCH { Context::Sessionless } else { Context::New };
        return Ok((context, std::mem::take(&mut ask.partitions)));
    }
    let by_topic_id = call.version >= TOPIC_IDS_FROM;
    let take = CoreRequest::TakeSession { id, epoch, by_topic_id };
    let home = session_core(call, id);
    let CoreReply::Session(taken) = call.core.ask(home, take).await else {
        unreachable!("a session is answered by a session");
    };
    let session = match taken {
        Taken::Session(session) => session,
        Taken::NotFound => return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND),
        Taken::WrongEpoch => return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH),
        Taken::TopicIdsDiffer => return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR),
    };
    let mut held = Held { asking: call.core.clone(), home, id, session: Some(session) };
    held.session().update(&ask.partitions, &ask.forgotten);
    let image = call.core.image();
    let partitions = held.session().partitions(|id| image.topics.by_id(id).map(|topic| topic.name.clone()));
    Ok((Context::Running(held), partitions))
}

/// Makes a session on this core; 0 when its cache has no room.
fn create_session(call: &Call, answered: AnsweredFetch, is_follower: bool) -> i32 {
    let by_topic_id = call.version >= TOPIC_IDS_FROM;
    let now_ms = reactor::now().mono_ms();
    call.core.sessions.borrow_mut().create(answered, by_topic_id, is_follower, now_ms)
}
