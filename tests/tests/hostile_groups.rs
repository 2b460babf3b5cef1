//! Requests about groups that lie, exceed or never end. Each is answered with Kafka's own error or let in; the groups beside
//! it go on, and the broker's memory stays within bounds.

use odradek_tests::{Client, Node};
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use wire::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use wire::describe_groups_request::DescribeGroupsRequest;
use wire::describe_groups_response::DescribeGroupsResponse;
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::FindCoordinatorResponse;
use wire::heartbeat_request::HeartbeatRequest;
use wire::heartbeat_response::HeartbeatResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_response::OffsetCommitResponse;
use wire::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::offset_fetch_response::OffsetFetchResponse;
use wire::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::sync_group_response::SyncGroupResponse;
use wire::{ApiKey, ErrorCode};

/// Growth of the resident set that the broker may show after any of these tests, KiB.
const GROWTH_KIB_MAX: u64 = 96 * 1024;
/// The neighbour: a stable group of one member, in the only partition of `__consumer_offsets`, so that everything is its
/// neighbour.
const NEIGHBOUR: &str = "neighbour";
/// A subscription to the topic "t", without user data.
const SUBSCRIPTION: &[u8] = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff";

struct Watch {
    node: Node,
    client: Client,
    member: String,
    generation: i32,
    committed: i64,
    rss_kib: u64,
}

impl Watch {
    fn start(properties: &[(&str, &str)]) -> Watch {
        let all = [&[("offsets.topic.num.partitions", "1"), ("group.min.session.timeout.ms", "100")][..], properties];
        let node = Node::start_with(&all.concat());
        let mut client = Client::connect(&node);
        client.create_topic("t", 100, &[]);
        find_coordinator(&mut client);
        let joined = join_known(&mut client, NEIGHBOUR, |_| {});
        let (member, generation) = (joined.member_id.to_string(), joined.generation_id);
        let synced = sync(&mut client, NEIGHBOUR, &member, generation, &[(&member, b"\0\0\0\0\0\0\xff\xff\xff\xff")]);
        assert_eq!(synced, ErrorCode::NONE);
        let rss_kib = node.rss_kib();
        Watch { node, client, member, generation, committed: 0, rss_kib }
    }

    /// The neighbour is in its generation still, and its commits are taken and found.
    fn check(&mut self, after: &str) {
        let beat = HeartbeatRequest {
            group_id: NEIGHBOUR.into(),
            generation_id: self.generation,
            member_id: self.member.clone().into(),
            ..HeartbeatRequest::default()
        };
        let answer: HeartbeatResponse = self.client.call(ApiKey::Heartbeat, 4, &beat);
        assert_eq!(ErrorCode(answer.error_code), ErrorCode::NONE, "heartbeat after {after}");
        self.committed += 1;
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: self.generation,
            member_id: self.member.clone().into(),
            ..commit_request(NEIGHBOUR, &[(0, self.committed, "")])
        };
        assert_eq!(commit(&mut self.client, &request), [ErrorCode::NONE], "commit after {after}");
        assert_eq!(committed(&mut self.client, NEIGHBOUR, 0), self.committed, "offset after {after}");
        let grown = self.node.rss_kib().saturating_sub(self.rss_kib);
        assert!(grown < GROWTH_KIB_MAX, "the broker grew by {grown} KiB after {after}");
    }
}

fn find_coordinator(client: &mut Client) {
    loop {
        let request = FindCoordinatorRequest { coordinator_keys: vec![NEIGHBOUR.into()], ..Default::default() };
        let answer: FindCoordinatorResponse = client.call(ApiKey::FindCoordinator, 4, &request);
        let request = HeartbeatRequest { group_id: "nobody".into(), ..HeartbeatRequest::default() };
        let beat: HeartbeatResponse = client.call(ApiKey::Heartbeat, 4, &request);
        if answer.coordinators[0].error_code == 0 && ErrorCode(beat.error_code) == ErrorCode::UNKNOWN_MEMBER_ID {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn join_request(group: &str) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata: SUBSCRIPTION.into() }],
        ..JoinGroupRequest::default()
    }
}

/// Joins as a new member, changed by `change`; asks again with the id that the broker gives.
fn join_known(
    client: &mut Client,
    group: &str,
    change: impl Fn(&mut JoinGroupRequest<'static>),
) -> JoinGroupResponse<'static> {
    let mut request = join_request(group);
    change(&mut request);
    let first: JoinGroupResponse = client.call(ApiKey::JoinGroup, 9, &request);
    if ErrorCode(first.error_code) != ErrorCode::MEMBER_ID_REQUIRED {
        return first;
    }
    request.member_id = first.member_id;
    client.call(ApiKey::JoinGroup, 9, &request)
}

fn sync(client: &mut Client, group: &str, member: &str, generation: i32, assignments: &[(&str, &[u8])]) -> ErrorCode {
    let assignment = |(member, bytes): &(&str, &[u8])| SyncGroupRequestAssignment {
        member_id: (*member).to_owned().into(),
        assignment: bytes.to_vec().into(),
    };
    let request = SyncGroupRequest {
        group_id: group.to_owned().into(),
        generation_id: generation,
        member_id: member.to_owned().into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: assignments.iter().map(assignment).collect(),
        ..SyncGroupRequest::default()
    };
    let answer: SyncGroupResponse = client.call(ApiKey::SyncGroup, 5, &request);
    ErrorCode(answer.error_code)
}

/// A commit of partitions of the topic "t" outside of any generation: partition, offset and metadata.
fn commit_request(group: &str, partitions: &[(i32, i64, &str)]) -> OffsetCommitRequest<'static> {
    let partition = |(index, offset, metadata): &(i32, i64, &str)| OffsetCommitRequestPartition {
        partition_index: *index,
        committed_offset: *offset,
        committed_leader_epoch: -1,
        committed_metadata: Some((*metadata).to_owned().into()),
    };
    let partitions = partitions.iter().map(partition).collect();
    OffsetCommitRequest {
        group_id: group.to_owned().into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() }],
        ..OffsetCommitRequest::default()
    }
}

fn commit(client: &mut Client, request: &OffsetCommitRequest<'_>) -> Vec<ErrorCode> {
    let answer: OffsetCommitResponse = client.call(ApiKey::OffsetCommit, 9, request);
    answer.topics.iter().flat_map(|topic| &topic.partitions).map(|p| ErrorCode(p.error_code)).collect()
}

fn committed(client: &mut Client, group: &str, partition: i32) -> i64 {
    let topic = OffsetFetchRequestTopics { name: "t".into(), partition_indexes: vec![partition], ..Default::default() };
    let group = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        member_epoch: -1,
        topics: Some(vec![topic]),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
    let answer: OffsetFetchResponse = client.call(ApiKey::OffsetFetch, 9, &request);
    answer.groups[0].topics[0].partitions[0].committed_offset
}

fn beat_request(group: &str, member: &str) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: member.to_owned().into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

fn beat(client: &mut Client, request: &ConsumerGroupHeartbeatRequest<'_>) -> ConsumerGroupHeartbeatResponse<'static> {
    client.call(ApiKey::ConsumerGroupHeartbeat, 1, request)
}

#[test]
fn blobs_that_are_short_or_lie() {
    let mut watch = Watch::start(&[]);
    let blobs: [&[u8]; 7] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\x7f\xff\xff\xff",
        b"\xff\xff\0\0\0\0",
        b"\0\x03\0\0\0\x01\0\x01t\x7f\xff\xff\xff",
        b"\x7f\xff\0\0\0\x01\xff\xfet",
    ];
    for (n, blob) in blobs.iter().enumerate() {
        let group = format!("lies-{n}");
        let joined = join_known(&mut watch.client, &group, |request| {
            request.protocols[0].metadata = blob.to_vec().into();
        });
        // What members tell each other is theirs to read.
        assert_eq!(ErrorCode(joined.error_code), ErrorCode::NONE, "{blob:?}");
        let member = joined.member_id.to_string();
        assert_eq!(sync(&mut watch.client, &group, &member, 1, &[(&member, blob)]), ErrorCode::NONE, "{blob:?}");
        // A consumer group cannot be made of that, and asking for it changes nothing.
        let answer = beat(&mut watch.client, &beat_request(&group, "new"));
        assert!(answer.error_code == 0 || ErrorCode(answer.error_code) == ErrorCode::GROUP_ID_NOT_FOUND, "{answer:?}");
        watch.check(&format!("the blob {blob:02x?}"));
    }
    watch.node.kill();
    watch.node.run();
    watch.client = Client::connect(&watch.node);
    find_coordinator(&mut watch.client);
    watch.rss_kib = watch.node.rss_kib();
    watch.check("a restart with such blobs");
}

#[test]
fn members_and_assignments_too_large_for_a_record() {
    let mut watch = Watch::start(&[]);
    let large = vec![7u8; 2 << 20];
    let joined = join_known(&mut watch.client, "large", |request| request.protocols[0].metadata = large.clone().into());
    let member = joined.member_id.to_string();
    assert_eq!(ErrorCode(joined.error_code), ErrorCode::NONE);
    assert_eq!(sync(&mut watch.client, "large", &member, 1, &[(&member, b"")]), ErrorCode::UNKNOWN_SERVER_ERROR);
    watch.check("a member of 2 MiB");
    let joined = join_known(&mut watch.client, "small", |_| {});
    let member = joined.member_id.to_string();
    assert_eq!(sync(&mut watch.client, "small", &member, 1, &[(&member, &large)]), ErrorCode::UNKNOWN_SERVER_ERROR);
    watch.check("an assignment of 2 MiB");
    let mut request = beat_request("names", "m");
    request.subscribed_topic_names = Some((0..60_000).map(|n| format!("no-such-topic-{n:08}").into()).collect());
    let answer = beat(&mut watch.client, &request);
    assert_eq!(ErrorCode(answer.error_code), ErrorCode::UNKNOWN_SERVER_ERROR, "{:?}", answer.error_message);
    watch.check("a subscription of 60,000 topics");
    let request = commit_request("long", &[(0, 1, &"m".repeat(4096)), (1, 1, &"m".repeat(4097))]);
    assert_eq!(commit(&mut watch.client, &request), [ErrorCode::NONE, ErrorCode::OFFSET_METADATA_TOO_LARGE]);
    watch.check("commit metadata beyond the limit");
}

#[test]
fn group_ids_of_no_and_of_great_length() {
    let mut watch = Watch::start(&[]);
    let joined = join_known(&mut watch.client, "", |_| {});
    assert_eq!(ErrorCode(joined.error_code), ErrorCode::INVALID_GROUP_ID);
    assert_eq!(sync(&mut watch.client, "", "m", 1, &[]), ErrorCode::INVALID_GROUP_ID);
    // Simple consumers of old could commit under no name.
    assert_eq!(commit(&mut watch.client, &commit_request("", &[(0, 1, "")])), [ErrorCode::NONE]);
    assert_eq!(ErrorCode(beat(&mut watch.client, &beat_request("", "m")).error_code), ErrorCode::INVALID_REQUEST);
    watch.check("an empty group id");
    // As long as the format can say.
    let long = "g".repeat(32_767);
    let joined = join_known(&mut watch.client, &long, |_| {});
    let member = joined.member_id.to_string();
    assert_eq!(sync(&mut watch.client, &long, &member, joined.generation_id, &[(&member, b"")]), ErrorCode::NONE);
    let answer = commit(&mut watch.client, &commit_request(&long, &[(0, 1, "")]));
    assert_eq!(answer, [ErrorCode::UNKNOWN_MEMBER_ID]);
    let answer = beat(&mut watch.client, &beat_request(&"c".repeat(32_767), "m"));
    assert_eq!(ErrorCode(answer.error_code), ErrorCode::NONE, "{:?}", answer.error_message);
    watch.check("a group id of 32,767 bytes");
    // Longer than that in a flexible version: 65,537 as a varint says 65,536 bytes. Kafka's codec refuses it too.
    let body = [&[0x81, 0x80, 0x04][..], "g".repeat(65_536).as_bytes(), &[0, 0, 0, 1, 2, b'm', 0, 0]].concat();
    for key in [11, 12, 13, 14, 68] {
        let _ = watch.node.raw().request(key, if key == 68 { 1 } else { 4 }, true, &body);
    }
    watch.check("a group id of 65,536 bytes");
}

#[test]
fn generations_epochs_and_instances_that_are_not_ones_own() {
    let mut watch = Watch::start(&[]);
    for (generation, expected) in [
        (-1, ErrorCode::ILLEGAL_GENERATION),
        (0, ErrorCode::ILLEGAL_GENERATION),
        (i32::MAX, ErrorCode::ILLEGAL_GENERATION),
    ] {
        let member = watch.member.clone();
        let beat = HeartbeatRequest {
            group_id: NEIGHBOUR.into(),
            generation_id: generation,
            member_id: member.clone().into(),
            ..HeartbeatRequest::default()
        };
        let answer: HeartbeatResponse = watch.client.call(ApiKey::Heartbeat, 4, &beat);
        assert_eq!(ErrorCode(answer.error_code), expected, "generation {generation}");
        assert_eq!(sync(&mut watch.client, NEIGHBOUR, &member, generation, &[]), expected, "generation {generation}");
    }
    let mut request = beat_request("epochs", "m");
    assert_eq!(ErrorCode(beat(&mut watch.client, &request).error_code), ErrorCode::NONE);
    for (epoch, expected) in [
        (1_000, ErrorCode::FENCED_MEMBER_EPOCH),
        (i32::MAX, ErrorCode::FENCED_MEMBER_EPOCH),
        (-3, ErrorCode::INVALID_REQUEST),
        (i32::MIN, ErrorCode::INVALID_REQUEST),
        (-2, ErrorCode::INVALID_REQUEST),
    ] {
        request.member_epoch = epoch;
        assert_eq!(ErrorCode(beat(&mut watch.client, &request).error_code), expected, "epoch {epoch}");
    }
    let one = join_known(&mut watch.client, "twins", |request| request.group_instance_id = Some("twin".into()));
    assert_eq!(ErrorCode(one.error_code), ErrorCode::NONE);
    let two = join_known(&mut watch.client, "twins", |request| request.group_instance_id = Some("twin".into()));
    assert_eq!(ErrorCode(two.error_code), ErrorCode::NONE);
    let beat_of = |member: &str| HeartbeatRequest {
        group_id: "twins".into(),
        generation_id: two.generation_id,
        member_id: member.to_owned().into(),
        group_instance_id: Some("twin".into()),
    };
    let answer: HeartbeatResponse = watch.client.call(ApiKey::Heartbeat, 4, &beat_of(&one.member_id));
    assert_eq!(ErrorCode(answer.error_code), ErrorCode::FENCED_INSTANCE_ID);
    let mut request = beat_request("consumer-twins", "one");
    request.instance_id = Some("twin".into());
    assert_eq!(ErrorCode(beat(&mut watch.client, &request).error_code), ErrorCode::NONE);
    request.member_id = "two".into();
    assert_eq!(ErrorCode(beat(&mut watch.client, &request).error_code), ErrorCode::UNRELEASED_INSTANCE_ID);
    watch.check("members in each other's name");
}

#[test]
fn regular_expressions_that_explode_elsewhere() {
    let mut watch = Watch::start(&[]);
    watch.client.create_topic(&"a".repeat(200), 1, &[]);
    let expressions = [
        ("(a+)+$", true),
        ("(a|aa)+b", true),
        ("(.*)*(.*)*(.*)*x", true),
        ("((a{1,30}){1,30}){1,30}", false),
        ("a{1000000}", false),
        ("(?=a)b", false),
        (r"(a)\1", false),
        ("[", false),
        ("(", false),
        ("*", false),
    ];
    for (n, (expression, compiles)) in expressions.iter().enumerate() {
        let mut request = beat_request(&format!("regex-{n}"), "m");
        request.subscribed_topic_names = None;
        request.subscribed_topic_regex = Some((*expression).into());
        let error = ErrorCode(beat(&mut watch.client, &request).error_code);
        let expected = if *compiles { ErrorCode::NONE } else { ErrorCode::INVALID_REGULAR_EXPRESSION };
        assert_eq!(error, expected, "{expression}");
    }
    let mut request = beat_request("regex-long", "m");
    request.subscribed_topic_names = None;
    request.subscribed_topic_regex = Some("(a|b)*".repeat(5_000).into());
    let error = ErrorCode(beat(&mut watch.client, &request).error_code);
    assert!([ErrorCode::NONE, ErrorCode::INVALID_REGULAR_EXPRESSION].contains(&error), "{error}");
    watch.check("regular expressions");
}

#[test]
fn members_by_the_thousand_that_join_and_never_sync() {
    let mut watch = Watch::start(&[]);
    // The ids that the broker hands out cost memory for a session; these sessions are short.
    let mut client = Client::connect(&watch.node);
    for n in 0..5_000 {
        let group = if n % 2 == 0 { "crowd".to_owned() } else { format!("crowd-{n}") };
        let request = JoinGroupRequest { session_timeout_ms: 2_000, ..join_request(&group) };
        let answer: JoinGroupResponse = client.call(ApiKey::JoinGroup, 9, &request);
        let refused = [ErrorCode::MEMBER_ID_REQUIRED, ErrorCode::GROUP_MAX_SIZE_REACHED];
        assert!(refused.contains(&ErrorCode(answer.error_code)), "{}", ErrorCode(answer.error_code));
    }
    watch.check("5,000 members that were given an id");
    let mut clients: Vec<Client> = (0..500).map(|_| Client::connect(&watch.node)).collect();
    for client in &mut clients {
        // Version 3 needs no id first.
        client.send(ApiKey::JoinGroup, 3, &JoinGroupRequest { session_timeout_ms: 2_000, ..join_request("hall") });
    }
    watch.check("500 members that wait to join");
    drop(clients);
    watch.check("500 members that went away");
}

#[test]
fn requests_about_a_hundred_thousand_things() {
    let mut watch = Watch::start(&[]);
    let many: Vec<(i32, i64, &str)> = (0..100_000).map(|n| (n, i64::from(n), "m")).collect();
    let answers = commit(&mut watch.client, &commit_request("many", &many));
    assert_eq!(answers.len(), many.len());
    let (there, missing) = answers.split_at(100);
    assert!(there.iter().all(|error| *error == ErrorCode::NONE), "{there:?}");
    assert!(missing.iter().all(|error| *error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    // The same partition again and again: each is a record, and all of them go into one batch or none is taken.
    let again = |count: i64| -> Vec<(i32, i64, &str)> { (0..count).map(|n| (7, n, "again")).collect() };
    let answers = commit(&mut watch.client, &commit_request("again", &again(100_000)));
    assert_eq!(answers.len(), 100_000);
    assert!(answers.iter().all(|error| *error == ErrorCode::UNKNOWN_SERVER_ERROR), "{:?}", answers[0]);
    assert_eq!(committed(&mut watch.client, "again", 7), -1);
    let answers = commit(&mut watch.client, &commit_request("again", &again(5_000)));
    assert!(answers.len() == 5_000 && answers.iter().all(|error| *error == ErrorCode::NONE), "{:?}", answers[0]);
    assert_eq!(committed(&mut watch.client, "again", 7), 4_999);
    watch.check("commits of 100,000 partitions");
    let request = DescribeGroupsRequest {
        groups: (0..100_000).map(|n| format!("unknown-{n}").into()).collect(),
        ..DescribeGroupsRequest::default()
    };
    let answer: DescribeGroupsResponse = watch.client.call(ApiKey::DescribeGroups, 6, &request);
    assert_eq!(answer.groups.len(), 100_000);
    let expected = ErrorCode::GROUP_ID_NOT_FOUND;
    assert!(answer.groups.iter().all(|group| ErrorCode(group.error_code) == expected && &*group.group_state == "Dead"));
    watch.check("100,000 descriptions");
}
