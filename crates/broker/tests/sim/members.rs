//! Members of groups: they join, commit, pause, leave and come back until they are aborted, whatever happens to the broker.

use crate::client::{Client, decode};
use crate::known::{Known, Owner};
use base::{Prng, TopicId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use wire::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use wire::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use wire::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition};
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::FindCoordinatorResponse;
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::leave_group_response::LeaveGroupResponse;
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_response::OffsetCommitResponse;
use wire::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::offset_fetch_response::OffsetFetchResponse;
use wire::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::sync_group_response::SyncGroupResponse;
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Writer};

/// The topic that all groups consume, and its partitions.
pub const TOPIC: &str = "t";
pub const PARTITIONS: i32 = 5;
/// The group that changes its protocol with the members that are there. When the only consumer member leaves, the classic
/// ones are taken to have what was meant for them, as Apache Kafka does it: the next consumer member may get what one of
/// them still has until its next heartbeat.
pub const FLIPPING: &str = "flipping";
/// The group of classic members and one that speaks the consumer protocol and never leaves.
pub const MIXED: &str = "mixed";
/// Session timeout of members, in milliseconds.
pub const SESSION_MS: u64 = 3_000;
/// Rebalance timeout of members, in milliseconds: above the session's, so that who is alive is never put out for it.
const REBALANCE_MS: i32 = 8_000;
/// Versions spoken.
const FIND_COORDINATOR_VERSION: i16 = 4;
const JOIN_VERSION: i16 = 9;
const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;
const LEAVE_VERSION: i16 = 5;
const COMMIT_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 9;
const CONSUMER_HEARTBEAT_VERSION: i16 = 1;
const NS_PER_MS: u64 = 1_000_000;

/// How a member takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// JoinGroup and SyncGroup; the leader hands out partitions in turn.
    Classic,
    /// ConsumerGroupHeartbeat.
    Consumer,
    /// As `Consumer`, by a regular expression.
    Regex,
}

/// One member.
pub struct Member {
    pub addr: SocketAddr,
    pub group: &'static str,
    pub kind: Kind,
    /// Its instance id: the same over all its lives.
    pub instance: Option<String>,
    pub topic_id: TopicId,
    pub known: Rc<RefCell<Known>>,
    pub prng: Prng,
    /// Never pauses and never leaves.
    pub steady: bool,
    state: State,
}

#[derive(Default)]
struct State {
    id: String,
    epoch: i32,
    joined: bool,
    /// The next consumer heartbeat says everything.
    full: bool,
    held: BTreeSet<i32>,
    positions: BTreeMap<i32, i64>,
}

fn now_ns() -> u64 {
    reactor::now().mono_ns
}

async fn pause_ms(ms: u64) {
    reactor::sleep(Duration::from_millis(ms)).await;
}

/// The coordinator is elsewhere, or not there yet.
fn is_absent(error: ErrorCode) -> bool {
    [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::NOT_COORDINATOR]
        .contains(&error)
}

/// The group goes on without this member as it is, or in another generation.
fn is_fenced(error: ErrorCode) -> bool {
    [
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::ILLEGAL_GENERATION,
        ErrorCode::FENCED_INSTANCE_ID,
        ErrorCode::FENCED_MEMBER_EPOCH,
        ErrorCode::STALE_MEMBER_EPOCH,
        ErrorCode::REBALANCE_IN_PROGRESS,
    ]
    .contains(&error)
}

impl Member {
    /// A member that has not joined yet.
    pub fn new(addr: SocketAddr, group: &'static str, kind: Kind, known: &Rc<RefCell<Known>>, seed: u64) -> Member {
        let (known, prng, topic_id) = (known.clone(), Prng::new(seed), TopicId::default());
        Member { addr, group, kind, instance: None, topic_id, known, prng, steady: false, state: State::default() }
    }

    /// Lives for ever.
    pub async fn live(mut self) {
        loop {
            if let Ok(mut client) = Client::connect(self.addr).await
                && self.find(&mut client).await.is_ok()
            {
                // Ends with the connection.
                let Err(_) = self.take_part(&mut client).await;
                self.state.full = true;
            }
            pause_ms(5).await;
        }
    }

    /// Waits until the coordinator has loaded the group: only from then on a heartbeat's answer means something.
    async fn find(&mut self, client: &mut Client) -> io::Result<()> {
        loop {
            let request = FindCoordinatorRequest {
                coordinator_keys: vec![self.group.into()],
                ..FindCoordinatorRequest::default()
            };
            let body = client.ask(ApiKey::FindCoordinator, FIND_COORDINATOR_VERSION, &request).await?;
            let response: FindCoordinatorResponse<'_> = decode(&body, FIND_COORDINATOR_VERSION)?;
            if response.coordinators[0].error_code == 0 && self.fetch_offsets(client, &[0]).await?.is_some() {
                return Ok(());
            }
            pause_ms(20).await;
        }
    }

    async fn take_part(&mut self, client: &mut Client) -> io::Result<std::convert::Infallible> {
        loop {
            if !self.state.joined {
                match self.kind {
                    Kind::Classic => self.join_classic(client).await?,
                    Kind::Consumer | Kind::Regex => self.join_consumer(client).await?,
                }
                continue;
            }
            pause_ms(50 + self.prng.below(400)).await;
            let calm = self.steady || self.known.borrow().calm;
            match self.prng.below(if calm { 16 } else { 20 }) {
                0..8 => self.commit(client).await?,
                18 => pause_ms(self.prng.below(3 * SESSION_MS)).await,
                19 => {
                    self.leave(client).await?;
                    pause_ms(self.prng.below(2_000)).await;
                    continue;
                }
                _ => {}
            }
            match self.kind {
                Kind::Classic => self.heartbeat_classic(client).await?,
                Kind::Consumer | Kind::Regex => self.heartbeat_consumer(client).await?,
            }
        }
    }

    /// What owns partitions: the instance, which outlives ids, or the id.
    fn name(&self) -> String {
        self.instance.clone().unwrap_or_else(|| self.state.id.clone())
    }

    fn release(&mut self, partitions: &BTreeSet<i32>) {
        let name = self.name();
        for partition in partitions {
            self.known.borrow_mut().releases((self.group, *partition), &name);
            self.state.held.remove(partition);
            self.state.positions.remove(partition);
        }
    }

    /// Gives up everything: it has to join again, as a new member unless `keep_id`.
    fn fall_out(&mut self, keep_id: bool) {
        self.release(&self.state.held.clone());
        self.state.joined = false;
        self.state.epoch = 0;
        if !keep_id {
            self.state.id.clear();
        }
    }

    fn take(&mut self, partitions: &BTreeSet<i32>, sent_ns: u64) {
        let (name, until) = (self.name(), sent_ns + SESSION_MS * NS_PER_MS);
        let owner = Owner { name, epoch: self.state.epoch, alive_until_ns: until };
        for partition in partitions {
            self.known.borrow_mut().takes((self.group, *partition), owner.clone(), now_ns());
            self.state.held.insert(*partition);
        }
    }

    fn still_alive(&self, sent_ns: u64) {
        self.known.borrow_mut().is_alive(&self.name(), sent_ns + SESSION_MS * NS_PER_MS);
    }

    /// Commits the next offsets of some partitions. Learns first where a partition stands.
    async fn commit(&mut self, client: &mut Client) -> io::Result<()> {
        let unknown: Vec<i32> =
            self.state.held.iter().copied().filter(|p| !self.state.positions.contains_key(p)).collect();
        if !unknown.is_empty() {
            let Some(found) = self.fetch_offsets(client, &unknown).await? else { return Ok(()) };
            self.state.positions.extend(found);
        }
        let some: Vec<i32> = self.state.held.iter().copied().filter(|_| self.prng.chance(2, 3)).collect();
        let partition = |partition: &i32| {
            let position = self.state.positions.get_mut(partition).expect("the position was learned");
            *position += 1 + i64::from(*partition);
            self.known.borrow_mut().sends((self.group, *partition), *position);
            OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *position,
                committed_leader_epoch: -1,
                committed_metadata: Some("m".into()),
            }
        };
        let partitions: Vec<_> = some.iter().map(partition).collect();
        let told: Vec<(i32, i64)> = partitions.iter().map(|p| (p.partition_index, p.committed_offset)).collect();
        let request = OffsetCommitRequest {
            group_id: self.group.into(),
            generation_id_or_member_epoch: self.state.epoch,
            member_id: (&*self.state.id).into(),
            group_instance_id: self.instance.as_deref().map(Into::into),
            topics: vec![OffsetCommitRequestTopic { name: TOPIC.into(), partitions, ..Default::default() }],
            ..OffsetCommitRequest::default()
        };
        let body = client.ask(ApiKey::OffsetCommit, COMMIT_VERSION, &request).await?;
        let response: OffsetCommitResponse<'_> = decode(&body, COMMIT_VERSION)?;
        for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
            match ErrorCode(answer.error_code) {
                ErrorCode::NONE => {
                    let (_, offset) = told.iter().find(|(p, _)| *p == answer.partition_index).expect("what was sent");
                    self.known.borrow_mut().acknowledged((self.group, answer.partition_index), *offset);
                }
                error => assert!(is_absent(error) || is_fenced(error), "commit in {}: {error}", self.group),
            }
        }
        Ok(())
    }

    /// Committed offsets; -1 where there is none, `None` while the coordinator is not there.
    async fn fetch_offsets(&self, client: &mut Client, partitions: &[i32]) -> io::Result<Option<Vec<(i32, i64)>>> {
        fetch_offsets(client, &self.known, self.group, partitions).await
    }

    async fn join_classic(&mut self, client: &mut Client) -> io::Result<()> {
        // Eager: everything is given up before the group is joined anew.
        self.fall_out(true);
        let sent_ns = now_ns();
        let request = JoinGroupRequest {
            group_id: self.group.into(),
            session_timeout_ms: SESSION_MS as i32,
            rebalance_timeout_ms: REBALANCE_MS,
            member_id: (&*self.state.id).into(),
            group_instance_id: self.instance.as_deref().map(Into::into),
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata: subscription().into() }],
            ..JoinGroupRequest::default()
        };
        let body = client.ask(ApiKey::JoinGroup, JOIN_VERSION, &request).await?;
        let joined: JoinGroupResponse<'_> = decode(&body, JOIN_VERSION)?;
        match ErrorCode(joined.error_code) {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.state.id = joined.member_id.into_owned();
                return Ok(());
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID => {
                self.state.id.clear();
                return Ok(());
            }
            error => {
                assert!(is_absent(error) || is_fenced(error), "join of {}: {error}", self.group);
                pause_ms(50).await;
                return Ok(());
            }
        }
        self.state.id = joined.member_id.clone().into_owned();
        self.state.epoch = joined.generation_id;
        let assignments = match joined.leader == joined.member_id && !joined.skip_assignment {
            true => share_out(joined.members.iter().map(|member| &*member.member_id).collect()),
            false => Vec::new(),
        };
        let request = SyncGroupRequest {
            group_id: self.group.into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id,
            group_instance_id: self.instance.as_deref().map(Into::into),
            protocol_type: joined.protocol_type,
            protocol_name: joined.protocol_name,
            assignments,
        };
        let body = client.ask(ApiKey::SyncGroup, SYNC_VERSION, &request).await?;
        let synced: SyncGroupResponse<'_> = decode(&body, SYNC_VERSION)?;
        match ErrorCode(synced.error_code) {
            ErrorCode::NONE => {
                let partitions = assigned(&synced.assignment);
                // The session began at the latest when the generation did, and was renewed by the sync.
                self.take(&partitions, sent_ns);
                self.state.joined = true;
            }
            error => assert!(is_absent(error) || is_fenced(error), "sync of {}: {error}", self.group),
        }
        Ok(())
    }

    async fn heartbeat_classic(&mut self, client: &mut Client) -> io::Result<()> {
        let request = HeartbeatRequest {
            group_id: self.group.into(),
            generation_id: self.state.epoch,
            member_id: (&*self.state.id).into(),
            group_instance_id: self.instance.as_deref().map(Into::into),
        };
        let sent_ns = now_ns();
        let body = client.ask(ApiKey::Heartbeat, HEARTBEAT_VERSION, &request).await?;
        let response: HeartbeatResponse = decode(&body, HEARTBEAT_VERSION)?;
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => self.still_alive(sent_ns),
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => self.fall_out(true),
            error if is_fenced(error) => self.fall_out(false),
            error => assert!(is_absent(error), "heartbeat in {}: {error}", self.group),
        }
        Ok(())
    }

    async fn join_consumer(&mut self, client: &mut Client) -> io::Result<()> {
        self.fall_out(true);
        if self.state.id.is_empty() {
            self.state.id = format!("{}-{:x}", self.group, self.prng.next_u64());
        }
        self.state.full = true;
        self.heartbeat_consumer(client).await?;
        if !self.state.joined {
            pause_ms(100).await;
        }
        Ok(())
    }

    async fn heartbeat_consumer(&mut self, client: &mut Client) -> io::Result<()> {
        let owned = TopicPartitions { topic_id: self.topic_id, partitions: self.state.held.iter().copied().collect() };
        let full = self.state.full;
        let by_regex = self.kind == Kind::Regex;
        let owns = !self.state.held.is_empty();
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.into(),
            member_id: (&*self.state.id).into(),
            member_epoch: self.state.epoch,
            instance_id: self.instance.as_deref().map(Into::into),
            rebalance_timeout_ms: if full { REBALANCE_MS } else { -1 },
            subscribed_topic_names: (full && !by_regex).then(|| vec![TOPIC.into()]),
            subscribed_topic_regex: (full && by_regex).then(|| "[t]+".into()),
            topic_partitions: Some(if owns { vec![owned] } else { Vec::new() }),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        let sent_ns = now_ns();
        let body = client.ask(ApiKey::ConsumerGroupHeartbeat, CONSUMER_HEARTBEAT_VERSION, &request).await?;
        let response: ConsumerGroupHeartbeatResponse<'_> = decode(&body, CONSUMER_HEARTBEAT_VERSION)?;
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {}
            error if is_absent(error) => return Ok(()),
            ErrorCode::UNRELEASED_INSTANCE_ID => return Ok(()),
            error => {
                // Without this member the group has become a classic one.
                let gone = self.group == FLIPPING && error == ErrorCode::GROUP_ID_NOT_FOUND;
                assert!(gone || is_fenced(error), "heartbeat in {}: {error} {:?}", self.group, response.error_message);
                self.fall_out(false);
                return Ok(());
            }
        }
        self.state.joined = true;
        self.state.full = false;
        self.state.epoch = response.member_epoch;
        self.still_alive(sent_ns);
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.iter();
            let told: BTreeSet<i32> = topics.flat_map(|topic| topic.partitions.iter().copied()).collect();
            let gone: BTreeSet<i32> = self.state.held.difference(&told).copied().collect();
            self.release(&gone);
            self.take(&told, sent_ns);
        }
        Ok(())
    }

    async fn leave(&mut self, client: &mut Client) -> io::Result<()> {
        let (id, epoch) = (self.state.id.clone(), self.state.epoch);
        // A static member of either protocol may simply go away and come back under another id.
        let quietly = self.instance.is_some() && self.prng.chance(1, 2);
        self.fall_out(false);
        if quietly && self.kind == Kind::Classic {
            return Ok(());
        }
        if self.kind == Kind::Classic {
            let member = MemberIdentity {
                member_id: id.into(),
                group_instance_id: self.instance.as_deref().map(Into::into),
                reason: None,
            };
            let request = LeaveGroupRequest {
                group_id: self.group.into(),
                members: vec![member],
                ..LeaveGroupRequest::default()
            };
            let body = client.ask(ApiKey::LeaveGroup, LEAVE_VERSION, &request).await?;
            let response: LeaveGroupResponse<'_> = decode(&body, LEAVE_VERSION)?;
            let error = ErrorCode(response.error_code);
            assert!(
                error == ErrorCode::NONE || is_absent(error) || is_fenced(error),
                "leave of {}: {error}",
                self.group
            );
            return Ok(());
        }
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.into(),
            member_id: id.into(),
            member_epoch: if quietly { -2 } else { -1 },
            instance_id: self.instance.as_deref().map(Into::into),
            rebalance_timeout_ms: -1,
            ..ConsumerGroupHeartbeatRequest::default()
        };
        let body = client.ask(ApiKey::ConsumerGroupHeartbeat, CONSUMER_HEARTBEAT_VERSION, &request).await?;
        let response: ConsumerGroupHeartbeatResponse<'_> = decode(&body, CONSUMER_HEARTBEAT_VERSION)?;
        let error = ErrorCode(response.error_code);
        let gone = self.group == FLIPPING && error == ErrorCode::GROUP_ID_NOT_FOUND;
        let expected = error == ErrorCode::NONE || is_absent(error) || is_fenced(error) || gone;
        assert!(expected, "leave of {} at epoch {epoch}: {error} {:?}", self.group, response.error_message);
        Ok(())
    }
}

/// Reads committed offsets and compares them with what is known; `None` while the coordinator is not there.
pub async fn fetch_offsets(
    client: &mut Client,
    known: &RefCell<Known>,
    group: &'static str,
    partitions: &[i32],
) -> io::Result<Option<Vec<(i32, i64)>>> {
    let floors: BTreeMap<i32, i64> = partitions.iter().map(|p| (*p, known.borrow().floor((group, *p)))).collect();
    let topic = OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: partitions.to_vec(),
        ..OffsetFetchRequestTopics::default()
    };
    let asked = OffsetFetchRequestGroup {
        group_id: group.into(),
        member_epoch: -1,
        topics: Some(vec![topic]),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest { groups: vec![asked], require_stable: true, ..OffsetFetchRequest::default() };
    let body = client.ask(ApiKey::OffsetFetch, FETCH_VERSION, &request).await?;
    let response: OffsetFetchResponse<'_> = decode(&body, FETCH_VERSION)?;
    let answer = &response.groups[0];
    if answer.error_code != 0 {
        let error = ErrorCode(answer.error_code);
        assert!(is_absent(error), "offsets of {group}: {error}");
        return Ok(None);
    }
    let mut found = Vec::new();
    for partition in &answer.topics[0].partitions {
        assert_eq!(partition.error_code, 0, "offset of {group} {}", partition.partition_index);
        let place = (group, partition.partition_index);
        known.borrow_mut().reads(place, partition.committed_offset, floors[&partition.partition_index]);
        found.push((partition.partition_index, partition.committed_offset));
    }
    Ok(Some(found))
}

/// A version, then a message: the consumers' blobs.
fn blob(message: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.i16(0);
    message.encode(&mut w, 0).expect("a blob");
    w.into_bytes().expect("plain bytes").to_vec()
}

fn subscription() -> Vec<u8> {
    blob(&wire::consumer_protocol_subscription::ConsumerProtocolSubscription {
        topics: vec![TOPIC.into()],
        ..Default::default()
    })
}

fn assigned(bytes: &[u8]) -> BTreeSet<i32> {
    if bytes.is_empty() {
        return BTreeSet::new();
    }
    let mut reader = Reader::from_slice(&bytes[2..]);
    let assignment = ConsumerProtocolAssignment::decode(&mut reader, 0).expect("an assignment");
    assignment.assigned_partitions.iter().flat_map(|topic| topic.partitions.iter().copied()).collect()
}

/// Hands out the partitions in turn.
fn share_out(mut members: Vec<&str>) -> Vec<SyncGroupRequestAssignment<'static>> {
    members.sort_unstable();
    let each = (0..members.len()).map(|at| {
        let partitions: Vec<i32> = (0..PARTITIONS).skip(at).step_by(members.len()).collect();
        let topic = TopicPartition { topic: TOPIC.into(), partitions };
        let assignment = blob(&ConsumerProtocolAssignment { assigned_partitions: vec![topic], user_data: None });
        SyncGroupRequestAssignment { member_id: members[at].to_owned().into(), assignment: assignment.into() }
    });
    each.collect()
}
