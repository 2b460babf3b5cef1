//! A shard in its shell, a log, a clock that the test moves, and clients.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use base::{Now, Prng, Uuid};
use bytes::Bytes;
use config::{BrokerConfig, LayeredConfig, Properties};
use coordinator::{CoordinatorRecord, Marker, Replayed, Shell, Token};
use metadata::{MetadataDelta, MetadataImage, Provenance};
use wire::ErrorCode;
use wire::heartbeat_request::HeartbeatRequest;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::leave_group_response::LeaveGroupResponse;
use wire::metadata_record::MetadataRecord;
use wire::partition_record::PartitionRecord;
use wire::remove_topic_record::RemoveTopicRecord;
use wire::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::sync_group_response::SyncGroupResponse;
use wire::topic_record::TopicRecord;

use crate::shard::Group;
use crate::{Client, Env, GroupConfig, GroupShard, Reply, Request};

/// A record of the log, with its producer if it belongs to a transaction.
#[derive(Clone)]
pub(crate) enum Logged {
    Record(Option<(i64, i16)>, Bytes, Option<Bytes>),
    Marker(Marker),
}

impl Logged {
    pub fn of(producer: Option<(i64, i16)>, record: &CoordinatorRecord) -> Logged {
        Logged::Record(producer, Bytes::copy_from_slice(record.key()), record.value().map(Bytes::copy_from_slice))
    }
}

pub(crate) struct World {
    pub shell: Shell<GroupShard>,
    pub now: Now,
    pub prng: Prng,
    pub image: Arc<MetadataImage>,
    pub config: GroupConfig,
    pub log: Vec<Logged>,
    /// While true nothing commits: what is appended meanwhile is lost by a restart.
    pub hold: bool,
    committed: usize,
    next_token: Token,
    answers: BTreeMap<Token, Result<Reply, ErrorCode>>,
}

pub(crate) fn config(more: &str) -> GroupConfig {
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
         listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
         controller.listener.names=CONTROLLER\nlog.dirs=/nowhere\n{more}\n"
    );
    let properties = Properties::parse(text.as_bytes()).expect("properties");
    GroupConfig::new(&LayeredConfig::new(BrokerConfig::from_properties(properties).expect("valid")))
}

/// A world's topic `t<n>` has id n+1 and three partitions.
pub(crate) fn topic_id(n: u8) -> Uuid {
    Uuid::from_u128(u128::from(n) + 1)
}

fn add_topic(delta: &mut MetadataDelta, name: &str, topic_id: Uuid, partitions: i32) {
    delta.replay(&MetadataRecord::Topic(TopicRecord { name: name.to_owned().into(), topic_id })).expect("a topic");
    for partition_id in 0..partitions {
        let record = PartitionRecord {
            partition_id,
            topic_id,
            replicas: vec![1],
            isr: vec![1],
            leader: 1,
            ..Default::default()
        };
        delta.replay(&MetadataRecord::Partition(record)).expect("a partition");
    }
}

impl World {
    pub fn new() -> World {
        World::with("")
    }

    pub fn with(properties: &str) -> World {
        let mut delta = MetadataDelta::new(Arc::default());
        for n in 0..3u8 {
            add_topic(&mut delta, &format!("t{n}"), topic_id(n), 3);
        }
        let mut world = World {
            shell: Shell::new(GroupShard::new()),
            now: Now { mono_ns: 1_000_000_000, wall_ms: 1_000_000 },
            prng: Prng::new(7),
            image: delta.image().clone(),
            config: config(properties),
            log: Vec::new(),
            hold: false,
            committed: 0,
            next_token: 0,
            answers: BTreeMap::new(),
        };
        world.activate();
        world
    }

    fn activate(&mut self) {
        let end = self.log.len() as i64;
        let (prng, image, config) = (&mut self.prng, &*self.image, &self.config);
        let env = Env { now: self.now, prng, image, config };
        self.shell.loaded(env, self.now.wall_ms, end);
        self.settle();
    }

    /// Appends and commits what was decided, and takes the answers.
    fn settle(&mut self) {
        while let Some(batch) = self.shell.take_batch(1 << 20) {
            let records = batch.records.iter().map(|record| Logged::of(None, record));
            self.log.extend(records);
            self.shell.appended(self.log.len() as i64 - 1);
        }
        if !self.hold {
            self.committed = self.log.len();
        }
        self.shell.committed(self.committed as i64);
        for (token, answer) in self.shell.answers() {
            assert!(self.answers.insert(token, answer).is_none(), "token {token} is answered twice");
        }
    }

    /// Sends a request and gives back its token.
    pub fn send(&mut self, request: Request<'_>) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        let (prng, image, config) = (&mut self.prng, &*self.image, &self.config);
        let env = Env { now: self.now, prng, image, config };
        self.shell.submit(env, self.now.wall_ms, token, request);
        self.settle();
        token
    }

    /// The answer to a request, if there is one yet.
    pub fn answer(&mut self, token: Token) -> Option<Reply> {
        self.answers.remove(&token).map(|answer| answer.expect("the shell refuses nothing"))
    }

    /// The answer to a request that is answered at once.
    pub fn ask(&mut self, request: Request<'_>) -> Reply {
        let token = self.send(request);
        self.answer(token).expect("answered at once")
    }

    /// Lets time pass, doing what is due when it is.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        loop {
            let next = self.shell.next_timer_ns().filter(|next| *next <= end.mono_ns);
            let Some(next) = next else { break };
            if next > self.now.mono_ns {
                let wall_ms = self.now.wall_ms + ((next - self.now.mono_ns) / 1_000_000) as i64;
                self.now = Now { mono_ns: next, wall_ms };
            }
            let (prng, image, config) = (&mut self.prng, &*self.image, &self.config);
            let env = Env { now: self.now, prng, image, config };
            self.shell.expire(env, self.now.wall_ms);
            self.settle();
        }
        self.now = end;
    }

    /// Deletes a topic, and makes it anew under another id if one is given.
    pub fn delete_topic(&mut self, name: &str, anew: Option<Uuid>) {
        let topic_id = self.image.topics.by_name(name).expect("a topic").id;
        let mut delta = MetadataDelta::new(self.image.clone());
        delta.replay(&MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id })).expect("removable");
        if let Some(topic_id) = anew {
            add_topic(&mut delta, name, topic_id, 3);
        }
        self.publish(&mut delta);
    }

    /// Makes a topic.
    pub fn create_topic(&mut self, name: &str, topic_id: Uuid, partitions: i32) {
        let mut delta = MetadataDelta::new(self.image.clone());
        add_topic(&mut delta, name, topic_id, partitions);
        self.publish(&mut delta);
    }

    /// Tells the machine of new metadata.
    pub fn publish(&mut self, delta: &mut MetadataDelta) {
        let last_offset = self.image.provenance.last_offset + 1;
        delta.finish(Provenance { last_offset, last_epoch: 1, last_timestamp_ms: self.now.wall_ms });
        self.image = delta.image().clone();
        let (prng, image, config) = (&mut self.prng, &*self.image, &self.config);
        let env = Env { now: self.now, prng, image, config };
        self.shell.metadata_changed(env, self.now.wall_ms, delta);
        self.settle();
    }

    /// A shard that has loaded the log.
    pub fn loaded(&self) -> GroupShard {
        let mut shard = GroupShard::new();
        for (offset, logged) in self.log.iter().enumerate() {
            replay(&mut shard, offset as i64, logged);
        }
        shard
    }

    /// Ends a hold: everything commits.
    pub fn release(&mut self) {
        self.hold = false;
        self.settle();
    }

    /// The broker crashes: a new machine loads what was committed. Nobody waits any more.
    pub fn restart(&mut self) {
        if self.hold {
            self.log.truncate(self.committed);
            self.hold = false;
        }
        self.shell = Shell::new(GroupShard::new());
        for (offset, logged) in self.log.iter().enumerate() {
            match logged {
                Logged::Record(producer, key, value) => self.shell.load(&Replayed {
                    offset: offset as i64,
                    timestamp_ms: 0,
                    producer: *producer,
                    key,
                    value: value.as_deref(),
                }),
                Logged::Marker(marker) => self.shell.load_marker(offset as i64, marker),
            }
        }
        self.activate();
    }

    /// Fails unless a fresh shard that loads the log is the same as this one.
    pub fn check_replay(&self) {
        assert_eq!(digest(self.shell.machine()), digest(&self.loaded()));
    }

    /// The state of a classic group; `Dead` when there is none.
    pub fn state(&self, group: &str) -> &'static str {
        match self.shell.machine().groups.get(group) {
            Some(Group::Classic(group)) => group.state.name(),
            Some(Group::Consumer(_)) => "Consumer",
            None => "Dead",
        }
    }
}

pub(crate) fn replay(shard: &mut GroupShard, offset: i64, logged: &Logged) {
    use coordinator::Machine;
    match logged {
        Logged::Record(producer, key, value) => {
            shard.replay(&Replayed { offset, timestamp_ms: 0, producer: *producer, key, value: value.as_deref() });
        }
        Logged::Marker(marker) => shard.replay_marker(marker),
    }
}

/// The hard state of a shard as text: what its log says of groups at rest, and all offsets.
pub(crate) fn digest(shard: &GroupShard) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (id, group) in &shard.groups {
        let group = match group {
            Group::Classic(group) => group,
            Group::Consumer(group) => {
                lines.push(format!("consumer group {id}: {}", group.digest()));
                continue;
            }
        };
        let protocol = group.protocol.as_deref().unwrap_or_default();
        let mut line = format!("group {id}: {}", group.state.name());
        if group.generation > 0 {
            let _ = write!(line, " {} {:?} {protocol} ", group.generation, group.protocol_type);
            let _ = write!(line, "{:?} {:?}", group.leader, group.subscribed);
        }
        for (id, member) in &group.members {
            let _ = write!(line, "\n  {id} {:?} {}", member.instance_id, member.client_id);
            let _ = write!(line, " {} {}", member.rebalance_timeout_ms, member.session_timeout_ms);
            let _ = write!(line, " {:?} {:?}", member.metadata(protocol), member.assignment);
        }
        lines.push(line);
    }
    for (group, topics) in &shard.offsets.groups {
        for (topic, offsets) in topics {
            lines.push(format!(
                "offsets {group} {topic} {} {:?}",
                offsets.topic_id,
                offsets.iter().collect::<Vec<_>>()
            ));
        }
    }
    lines.push(format!("pending {:?}", shard.offsets.pending));
    lines.push(format!("count {}", shard.offset_count()));
    lines.sort();
    lines.join("\n")
}

/// A JoinGroup in the making.
#[derive(Clone)]
pub(crate) struct Join {
    pub version: i16,
    pub client_id: &'static str,
    pub request: JoinGroupRequest<'static>,
}

pub(crate) fn join(group: &str) -> Join {
    let request = JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        ..Default::default()
    };
    Join { version: 3, client_id: "client", request }.protocols(&[("range", b"m")])
}

impl Join {
    pub fn version(mut self, version: i16) -> Join {
        self.version = version;
        self
    }

    pub fn member(mut self, id: &str) -> Join {
        self.request.member_id = id.to_owned().into();
        self
    }

    pub fn instance(mut self, id: &str) -> Join {
        self.request.group_instance_id = Some(id.to_owned().into());
        self.version = self.version.max(5);
        self
    }

    pub fn protocol_type(mut self, name: &str) -> Join {
        self.request.protocol_type = name.to_owned().into();
        self
    }

    pub fn protocols(mut self, protocols: &[(&str, &[u8])]) -> Join {
        let protocol = |(name, metadata): &(&str, &[u8])| JoinGroupRequestProtocol {
            name: (*name).to_owned().into(),
            metadata: metadata.to_vec().into(),
        };
        self.request.protocols = protocols.iter().map(protocol).collect();
        self
    }

    pub fn session_ms(mut self, ms: i32) -> Join {
        self.request.session_timeout_ms = ms;
        self
    }

    pub fn rebalance_ms(mut self, ms: i32) -> Join {
        self.request.rebalance_timeout_ms = ms;
        self
    }

    pub fn send(&self, world: &mut World) -> Token {
        let client = Client { client_id: self.client_id, client_host: "/127.0.0.1" };
        world.send(Request::JoinGroup { request: &self.request, version: self.version, client })
    }
}

/// A ConsumerProtocolSubscription of version 0.
pub(crate) fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut blob = vec![0, 0];
    blob.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        blob.extend((topic.len() as i16).to_be_bytes());
        blob.extend(topic.as_bytes());
    }
    blob.extend((-1i32).to_be_bytes());
    blob
}

/// A member with the generation it knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub id: String,
    pub generation: i32,
    pub leads: bool,
}

impl World {
    pub fn joined(&mut self, token: Token) -> Option<JoinGroupResponse<'static>> {
        match self.answer(token)? {
            Reply::JoinGroup(response) => Some(*response),
            other => panic!("{other:?}"),
        }
    }

    /// Sends a JoinGroup that is answered at once, and gives the code and the member id.
    pub fn join_now(&mut self, join: &Join) -> (ErrorCode, JoinGroupResponse<'static>) {
        let token = join.send(self);
        let response = self.joined(token).expect("answered at once");
        (ErrorCode(response.error_code), response)
    }

    pub fn sync(&mut self, group: &str, member: &Known, assignments: &[(&str, &[u8])]) -> Token {
        let assignment = |(id, bytes): &(&str, &[u8])| SyncGroupRequestAssignment {
            member_id: (*id).to_owned().into(),
            assignment: bytes.to_vec().into(),
        };
        let request = SyncGroupRequest {
            group_id: group.to_owned().into(),
            generation_id: member.generation,
            member_id: member.id.clone().into(),
            assignments: assignments.iter().map(assignment).collect(),
            ..Default::default()
        };
        self.send(Request::SyncGroup { request: &request, version: 3 })
    }

    pub fn synced(&mut self, token: Token) -> Option<SyncGroupResponse<'static>> {
        match self.answer(token)? {
            Reply::SyncGroup(response) => Some(*response),
            other => panic!("{other:?}"),
        }
    }

    pub fn heartbeat(&mut self, group: &str, member: &str, generation: i32) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: group.to_owned().into(),
            generation_id: generation,
            member_id: member.to_owned().into(),
            group_instance_id: None,
        };
        match self.ask(Request::Heartbeat { request: &request }) {
            Reply::Heartbeat(response) => ErrorCode(response.error_code),
            other => panic!("{other:?}"),
        }
    }

    /// Members as (member id, instance id).
    pub fn leave(&mut self, group: &str, members: &[(&str, Option<&str>)]) -> LeaveGroupResponse<'static> {
        let identity = |(id, instance): &(&str, Option<&str>)| MemberIdentity {
            member_id: (*id).to_owned().into(),
            group_instance_id: instance.map(|instance| instance.to_owned().into()),
            reason: None,
        };
        let members = members.iter().map(identity).collect();
        let request = LeaveGroupRequest { group_id: group.to_owned().into(), members, ..Default::default() };
        match self.ask(Request::LeaveGroup { request: &request, version: 5 }) {
            Reply::LeaveGroup(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Brings these members together into a stable group; their assignments are their positions. The first leads.
    pub fn stable(&mut self, joins: &[Join]) -> Vec<Known> {
        let group = joins[0].request.group_id.to_string();
        let tokens: Vec<Token> = joins.iter().map(|join| join.send(self)).collect();
        for _ in 0..60 {
            if !tokens.iter().all(|token| self.answers.contains_key(token)) {
                self.pass_ms(1_000);
            }
        }
        let responses = tokens.into_iter().map(|token| self.joined(token).expect("the join ended"));
        let mut members = Vec::new();
        for response in responses.collect::<Vec<_>>() {
            assert_eq!(response.error_code, 0, "{response:?}");
            let leads = response.leader == response.member_id;
            members.push(Known { id: response.member_id.to_string(), generation: response.generation_id, leads });
        }
        self.assign(&group, &members);
        members
    }

    /// Every member syncs; the leader assigns to each its position.
    pub fn assign(&mut self, group: &str, members: &[Known]) {
        let bytes: Vec<[u8; 1]> = (0..members.len()).map(|index| [index as u8]).collect();
        let all: Vec<(&str, &[u8])> = members.iter().zip(&bytes).map(|(m, b)| (&*m.id, &b[..])).collect();
        let mut tokens = Vec::new();
        for member in members {
            tokens.push(self.sync(group, member, if member.leads { &all } else { &[] }));
        }
        for (token, bytes) in tokens.into_iter().zip(bytes) {
            let response = self.synced(token).expect("the leader synced");
            assert_eq!((response.error_code, &*response.assignment), (0, &bytes[..]));
        }
        assert_eq!(self.state(group), "Stable");
        self.check_replay();
    }
}
