//! Random requests of consumer groups to a running Apache Kafka and to the machine in this process: both answer alike, and
//! both write the same records.

use std::sync::Arc;

use base::{Now, Prng, Uuid};
use config::{BrokerConfig, LayeredConfig, Properties};
use coordinator::Shell;
use group::{Client as Sender, Env, GroupConfig, GroupShard, Reply, Request};
use metadata::{MetadataDelta, MetadataImage, PartitionRegistration};
use odradek_tests::client::now_ms;
use odradek_tests::node::NodeConfig;
use odradek_tests::{Client, FetchLimits, Node, Peer};
use records::{BatchIter, Scratch};
use wire::ApiKey;
use wire::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use wire::consumer_group_describe_response::{ConsumerGroupDescribeResponse, DescribedGroup};
use wire::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use wire::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use wire::group_record::{GroupKey, GroupValue};
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::leave_group_response::LeaveGroupResponse;
use wire::sync_group_request::SyncGroupRequest;
use wire::sync_group_response::SyncGroupResponse;

/// Options that both sides have: sessions that outlast the test, assignments at once and always by range, which leaves nothing to the order of hash maps.
const OPTIONS: [(&str, &str); 7] = [
    ("group.consumer.max.session.timeout.ms", "3600000"),
    ("group.consumer.session.timeout.ms", "3600000"),
    ("group.consumer.assignment.interval.ms", "0"),
    ("group.consumer.assignors", "range"),
    ("group.consumer.migration.policy", "upgrade"),
    ("group.consumer.max.size", "4"),
    ("offsets.topic.num.partitions", "1"),
];
const MEMBERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const INSTANCES: [&str; 3] = ["i", "j", "k"];
const SUBSCRIPTIONS: [&[&str]; 4] = [&["t0"], &["t0", "t1"], &["t1"], &["t1", "gone"]];
const STEPS: usize = 60;
const GROUPS: u64 = 60;

/// The machine in this process.
struct Machine {
    shell: Shell<GroupShard>,
    prng: Prng,
    image: Arc<MetadataImage>,
    config: GroupConfig,
    token: u64,
    log: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Machine {
    fn new(topics: &[(&str, Uuid, i32)]) -> Machine {
        let mut text = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
                        listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
                        controller.listener.names=CONTROLLER\n"
            .to_owned();
        OPTIONS.iter().for_each(|(key, value)| text.push_str(&format!("{key}={value}\n")));
        let properties = Properties::parse(text.as_bytes()).expect("properties");
        let config = GroupConfig::new(&LayeredConfig::new(BrokerConfig::from_properties(properties).expect("valid")));
        let mut delta = MetadataDelta::new(Arc::new(MetadataImage::default()));
        for (name, id, partitions) in topics {
            delta.create_topic(name, *id);
            for index in 0..*partitions {
                delta.set_partition(*id, index, PartitionRegistration { replicas: vec![1], ..Default::default() });
            }
        }
        let (image, prng) = (delta.image().clone(), Prng::new(1));
        let mut machine =
            Machine { shell: Shell::new(GroupShard::new()), prng, image, config, token: 0, log: Vec::new() };
        let now = machine.now();
        let env = Env { now, prng: &mut machine.prng, image: &machine.image, config: &machine.config };
        machine.shell.loaded(env, now.wall_ms, 0);
        machine
    }

    fn now(&self) -> Now {
        let wall_ms = now_ms();
        Now { mono_ns: wall_ms.unsigned_abs() * 1_000_000, wall_ms }
    }

    fn ask(&mut self, request: Request<'_>) -> Reply {
        self.token += 1;
        let now = self.now();
        let env = Env { now, prng: &mut self.prng, image: &self.image, config: &self.config };
        self.shell.submit(env, now.wall_ms, self.token, request);
        while let Some(batch) = self.shell.take_batch(1 << 20) {
            self.log.extend(batch.records.iter().map(|r| (r.key().to_vec(), r.value().map(<[u8]>::to_vec))));
            self.shell.appended(self.log.len() as i64 - 1);
        }
        self.shell.committed(self.log.len() as i64);
        let (_, answer) = self.shell.answers().next().expect("answered at once");
        answer.expect("the shell refuses nothing")
    }
}

/// What a member knows, as far as the requests need it.
#[derive(Clone, Default)]
struct Known {
    epoch: i32,
    owns: Vec<(Uuid, Vec<i32>)>,
}

struct Diff {
    kafka: Client,
    machine: Machine,
    prng: Prng,
    group: String,
    known: std::collections::BTreeMap<&'static str, Known>,
    has_members: bool,
    said: String,
}

impl Diff {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.prng.below(of.len() as u64) as usize]
    }

    fn heartbeat(&mut self) {
        let member = self.one(&MEMBERS);
        let known = self.known.entry(member).or_default().clone();
        let epoch = match self.prng.below(16) {
            0 => -1,
            1 => -2,
            2 => known.epoch - 1,
            3 => known.epoch + 1,
            4 | 5 => 0,
            _ => known.epoch,
        };
        let mut request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: member.into(),
            member_epoch: epoch,
            ..Default::default()
        };
        if epoch == 0 || self.prng.chance(1, 8) {
            let topics = self.one(&SUBSCRIPTIONS);
            request.subscribed_topic_names = Some(topics.iter().map(|topic| (*topic).into()).collect());
            request.rebalance_timeout_ms = 300_000;
        }
        if self.prng.chance(1, 3) {
            request.instance_id = Some(self.one(&INSTANCES).into());
        }
        if epoch == 0 {
            request.topic_partitions = Some(Vec::new());
        } else if self.prng.chance(2, 3) {
            let topic = |(topic_id, partitions): &(Uuid, Vec<i32>)| TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.clone(),
            };
            request.topic_partitions = Some(known.owns.iter().map(topic).collect());
        }
        self.kafka.send(ApiKey::ConsumerGroupHeartbeat, 1, &request);
        let theirs: ConsumerGroupHeartbeatResponse<'static> = self.kafka.receive(ApiKey::ConsumerGroupHeartbeat, 1);
        let client = Sender { client_id: "raw", client_host: "/127.0.0.1" };
        let reply = self.machine.ask(Request::ConsumerGroupHeartbeat { request: &request, version: 1, client });
        let Reply::ConsumerGroupHeartbeat(reply) = reply else { panic!("another reply") };
        let show = |response: &ConsumerGroupHeartbeatResponse<'_>| {
            let mut response = response.clone();
            if let Some(assignment) = &mut response.assignment {
                assignment.topic_partitions.sort_by_key(|topic| topic.topic_id);
                assignment.topic_partitions.iter_mut().for_each(|topic| topic.partitions.sort_unstable());
            }
            format!("{response:?}")
        };
        assert_eq!(show(&reply.response()), show(&theirs), "{}: {request:?}", self.said);
        self.learn(member, &theirs);
    }

    fn learn(&mut self, member: &'static str, told: &ConsumerGroupHeartbeatResponse<'_>) {
        let known = self.known.entry(member).or_default();
        if told.error_code != 0 {
            if told.error_code != wire::ErrorCode::UNRELEASED_INSTANCE_ID.code() {
                *known = Known::default();
            }
            return;
        }
        self.has_members |= told.member_epoch >= 0;
        known.epoch = told.member_epoch.max(0);
        if let Some(assignment) = &told.assignment {
            known.owns = assignment.topic_partitions.iter().map(|t| (t.topic_id, t.partitions.clone())).collect();
        }
    }

    fn join(&mut self, member: &'static str, instance: Option<std::borrow::Cow<'static, str>>) {
        let group_id = self.group.clone();
        let client = Sender { client_id: "raw", client_host: "/127.0.0.1" };
        let mut blob = vec![0, 1];
        let topics = self.one(&SUBSCRIPTIONS);
        blob.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            blob.extend((topic.len() as i16).to_be_bytes());
            blob.extend(topic.as_bytes());
        }
        blob.extend([255, 255, 255, 255, 0, 0, 0, 0]);
        let name = self.one(&["range", "range", "sticky"]).into();
        let request = JoinGroupRequest {
            group_id: group_id.into(),
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            member_id: member.into(),
            group_instance_id: instance,
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol { name, metadata: blob.into() }],
            ..Default::default()
        };
        let theirs: JoinGroupResponse<'static> = self.kafka.call(ApiKey::JoinGroup, 9, &request);
        let ours = self.machine.ask(Request::JoinGroup { request: &request, version: 9, client });
        assert_eq!(format!("{ours:?}"), format!("JoinGroup({theirs:?})"), "{}: {request:?}", self.said);
        if theirs.error_code == 0 {
            self.known.insert(member, Known { epoch: theirs.generation_id, owns: Vec::new() });
        }
    }

    fn classic(&mut self) {
        let member = self.one(&MEMBERS);
        let generation = self.known.entry(member).or_default().epoch;
        let instance: Option<std::borrow::Cow<'static, str>> =
            self.prng.chance(1, 3).then(|| self.one(&INSTANCES).into());
        let group_id = self.group.clone();
        match self.prng.below(5) {
            0 | 1 => self.join(member, instance),
            2 => {
                let request = SyncGroupRequest {
                    group_id: group_id.into(),
                    generation_id: generation,
                    member_id: member.into(),
                    group_instance_id: instance,
                    protocol_type: Some("consumer".into()),
                    protocol_name: Some("range".into()),
                    ..Default::default()
                };
                let theirs: SyncGroupResponse<'static> = self.kafka.call(ApiKey::SyncGroup, 5, &request);
                let Reply::SyncGroup(ours) = self.machine.ask(Request::SyncGroup { request: &request, version: 5 })
                else {
                    panic!("another reply")
                };
                // Topics of an assignment come in the order of a hash map; two of them at most.
                let show = |response: &SyncGroupResponse<'_>| {
                    let mut bytes = response.assignment.to_vec();
                    bytes.sort_unstable();
                    format!("{} {:?} {bytes:?}", response.error_code, response.protocol_name)
                };
                assert_eq!(show(&ours), show(&theirs), "{}: {request:?}", self.said);
            }
            3 => {
                let request = HeartbeatRequest {
                    group_id: group_id.into(),
                    generation_id: generation,
                    member_id: member.into(),
                    group_instance_id: instance,
                };
                let theirs: HeartbeatResponse = self.kafka.call(ApiKey::Heartbeat, 4, &request);
                let ours = self.machine.ask(Request::Heartbeat { request: &request });
                assert_eq!(format!("{ours:?}"), format!("Heartbeat({theirs:?})"), "{}: {request:?}", self.said);
            }
            _ => {
                let members =
                    vec![MemberIdentity { member_id: member.into(), group_instance_id: instance, reason: None }];
                let request = LeaveGroupRequest { group_id: group_id.into(), members, ..Default::default() };
                let theirs: LeaveGroupResponse<'static> = self.kafka.call(ApiKey::LeaveGroup, 5, &request);
                let ours = self.machine.ask(Request::LeaveGroup { request: &request, version: 5 });
                assert_eq!(format!("{ours:?}"), format!("LeaveGroup({theirs:?})"), "{}: {request:?}", self.said);
            }
        }
    }

    /// Tools see the same.
    fn describe(&mut self) {
        let request = ConsumerGroupDescribeRequest { group_ids: vec![self.group.clone().into()], ..Default::default() };
        let theirs: ConsumerGroupDescribeResponse<'static> =
            self.kafka.call(ApiKey::ConsumerGroupDescribe, 1, &request);
        let group_id = &*self.group;
        let Reply::ConsumerGroupDescribe(ours) = self.machine.ask(Request::ConsumerGroupDescribe { group_id }) else {
            panic!("another reply")
        };
        let show = |group: &DescribedGroup<'_>| {
            let mut group = group.clone();
            group.members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
            for member in &mut group.members {
                member.subscribed_topic_names.sort();
                for assignment in [&mut member.assignment, &mut member.target_assignment] {
                    assignment.topic_partitions.sort_by_key(|topic| topic.topic_id);
                    assignment.topic_partitions.iter_mut().for_each(|topic| topic.partitions.sort_unstable());
                }
            }
            format!("{group:?}")
        };
        assert_eq!(show(&ours), show(&theirs.groups[0]), "{}", self.said);
    }

    /// The classic protocol is only spoken to a consumer group that somebody is in; elsewhere its requests may wait.
    fn is_occupied(&mut self) -> bool {
        let group_id = &*self.group;
        match self.machine.ask(Request::ConsumerGroupDescribe { group_id }) {
            Reply::ConsumerGroupDescribe(group) => !group.members.is_empty(),
            other => panic!("{other:?}"),
        }
    }
}

/// Records as text, without what depends on the clock or on the order of hash maps.
fn normalized(log: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in log {
        let key: GroupKey<'_> = GroupKey::decode(key).expect("a known key");
        let value = value.as_deref().map(|value| GroupValue::decode(key.type_id(), value).expect("readable"));
        let value = value.map(|(mut value, version)| {
            match &mut value {
                GroupValue::ConsumerGroupTargetAssignmentMetadata(value) if value.assignment_timestamp != 0 => {
                    value.assignment_timestamp = 1;
                }
                GroupValue::ConsumerGroupTargetAssignmentMember(value) => {
                    value.topic_partitions.sort_by_key(|topic| topic.topic_id);
                }
                GroupValue::ConsumerGroupCurrentMemberAssignment(value) => {
                    value.assigned_partitions.sort_by_key(|topic| topic.topic_id);
                    value.partitions_pending_revocation.sort_by_key(|topic| topic.topic_id);
                }
                _ => {}
            }
            (value, version)
        });
        lines.push(format!("{key:?} {value:?}"));
    }
    // The targets of one assignment come in the order of a hash map of members.
    for run in lines.chunk_by_mut(|a, b| {
        a.starts_with("ConsumerGroupTargetAssignmentMember(") && b.starts_with("ConsumerGroupTargetAssignmentMember(")
    }) {
        run.sort();
    }
    lines
}

fn kafkas_log(kafka: &mut Client) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let (mut log, mut next) = (Vec::new(), 0);
    loop {
        let fetched =
            kafka.fetch("__consumer_offsets", 0, next, FetchLimits { max_wait_ms: 0, ..FetchLimits::default() });
        if next >= fetched.high_watermark {
            return log;
        }
        let mut scratch = Scratch::new();
        for batch in BatchIter::new(fetched.records) {
            let Ok(batch) = batch else { break };
            for record in batch.records(&mut scratch, 1 << 24).expect("readable") {
                let record = record.expect("a record");
                log.push((record.key.unwrap_or_default().to_vec(), record.value.map(<[u8]>::to_vec)));
            }
            next = batch.header.last_offset() + 1;
        }
    }
}

#[test]
fn answers_and_records_are_kafkas() {
    let properties = OPTIONS.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let node = Node::start_config(NodeConfig { peer: Peer::Kafka, properties });
    let mut kafka = Client::connect(&node);
    let topics: Vec<(&str, Uuid, i32)> = [("t0", 4), ("t1", 3)]
        .map(|(name, partitions)| (name, kafka.create_topic(name, partitions, &[]), partitions))
        .into();
    std::thread::sleep(std::time::Duration::from_secs(1));
    // The first question makes Kafka create its log; the answer is that it is not there yet.
    let ready = HeartbeatRequest { group_id: "warm-up".into(), ..Default::default() };
    let coordinator = wire::find_coordinator_request::FindCoordinatorRequest {
        key_type: 0,
        coordinator_keys: vec!["warm-up".into()],
        ..Default::default()
    };
    for _ in 0..100 {
        let _: wire::find_coordinator_response::FindCoordinatorResponse<'static> =
            kafka.call(ApiKey::FindCoordinator, 4, &coordinator);
        let answer: HeartbeatResponse = kafka.call(ApiKey::Heartbeat, 4, &ready);
        if answer.error_code == wire::ErrorCode::UNKNOWN_MEMBER_ID.code() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let mut diff = Diff {
        kafka,
        machine: Machine::new(&topics),
        prng: Prng::new(77),
        group: String::new(),
        known: Default::default(),
        has_members: false,
        said: String::new(),
    };
    for group in 0..GROUPS {
        (diff.group, diff.known, diff.has_members) = (format!("g{group}"), Default::default(), false);
        for step in 0..STEPS {
            diff.said = format!("group {group} step {step}");
            if diff.has_members && diff.prng.chance(1, 4) && diff.is_occupied() {
                diff.classic();
            } else {
                diff.heartbeat();
            }
        }
        diff.describe();
    }
    let theirs = normalized(&kafkas_log(&mut diff.kafka));
    let ours = normalized(&diff.machine.log);
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "record {at}");
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 1_000, "only {} records", ours.len());
}
