//! Committed offsets: who may commit, what is fetched, what goes away.

use base::Uuid;
use bytes::Bytes;
use coordinator::{Marker, Token};
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_value::OffsetCommitValue;
use wire::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::offset_fetch_response::OffsetFetchResponseGroup;
use wire::{ErrorCode, ErrorCode as E};

use super::world::{Known, Logged, World, join, subscription, topic_id};
use crate::records;
use crate::{Reply, Request};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

#[derive(Clone)]
struct Commit {
    version: i16,
    request: OffsetCommitRequest<'static>,
}

/// A commit to partition 0 of `t0` by nobody in particular.
fn commit(group: &str, offset: i64) -> Commit {
    let partition = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topic = OffsetCommitRequestTopic { name: "t0".into(), partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest { group_id: group.to_owned().into(), topics: vec![topic], ..Default::default() };
    Commit { version: 8, request }
}

impl Commit {
    fn version(mut self, version: i16) -> Commit {
        self.version = version;
        self
    }

    fn member(mut self, id: &str, generation: i32) -> Commit {
        self.request.member_id = id.to_owned().into();
        self.request.generation_id_or_member_epoch = generation;
        self
    }

    fn instance(mut self, id: &str) -> Commit {
        self.request.group_instance_id = Some(id.to_owned().into());
        self
    }

    fn topic(mut self, name: &str, partition: i32) -> Commit {
        self.request.topics[0].name = name.to_owned().into();
        self.request.topics[0].partitions[0].partition_index = partition;
        self
    }

    fn id(mut self, id: Uuid) -> Commit {
        self.version = 10;
        self.request.topics[0].topic_id = id;
        self
    }

    fn metadata(mut self, text: &str) -> Commit {
        self.request.topics[0].partitions[0].committed_metadata = Some(text.to_owned().into());
        self
    }

    fn retention_ms(mut self, ms: i64) -> Commit {
        self.version = 4;
        self.request.retention_time_ms = ms;
        self
    }

    fn send(&self, world: &mut World) -> ErrorCode {
        match world.ask(Request::OffsetCommit { request: &self.request, version: self.version }) {
            Reply::OffsetCommit(response) => ErrorCode(response.topics[0].partitions[0].error_code),
            other => panic!("{other:?}"),
        }
    }
}

fn fetch_group(
    world: &mut World,
    group: &str,
    topics: Option<Vec<OffsetFetchRequestTopics<'static>>>,
    require_stable: bool,
    version: i16,
) -> OffsetFetchResponseGroup<'static> {
    let request = OffsetFetchRequestGroup { group_id: group.to_owned().into(), topics, ..Default::default() };
    match world.ask(Request::OffsetFetch { group: &request, require_stable, version }) {
        Reply::OffsetFetch(response) => response,
        other => panic!("{other:?}"),
    }
}

fn wanted(name: &str, id: Uuid, partition: i32) -> Option<Vec<OffsetFetchRequestTopics<'static>>> {
    let name = name.to_owned().into();
    Some(vec![OffsetFetchRequestTopics { name, topic_id: id, partition_indexes: vec![partition] }])
}

impl World {
    /// Commits an offset of partition 0 of `t0`, by nobody in particular.
    pub fn send_commit(&mut self, group: &str, offset: i64) -> Token {
        let commit = commit(group, offset);
        self.send(Request::OffsetCommit { request: &commit.request, version: commit.version })
    }

    /// Asks for the offset of partition 0 of `t0`.
    pub fn send_fetch(&mut self, group: &str) -> Token {
        let topics = wanted("t0", Uuid::ZERO, 0);
        let request = OffsetFetchRequestGroup { group_id: group.to_owned().into(), topics, ..Default::default() };
        self.send(Request::OffsetFetch { group: &request, require_stable: false, version: 8 })
    }
}

/// The offset of one partition by name; -1 for none.
fn fetch(world: &mut World, group: &str, topic: &str, partition: i32) -> i64 {
    let response = fetch_group(world, group, wanted(topic, Uuid::ZERO, partition), false, 8);
    assert_eq!((response.error_code, response.topics[0].partitions[0].error_code), (0, 0));
    response.topics[0].partitions[0].committed_offset
}

#[test]
fn commits_by_nobody_are_for_groups_without_members() {
    let mut world = World::new();
    assert_eq!(commit("g", 5).member("", 0).send(&mut world), E::ILLEGAL_GENERATION);
    assert_eq!(commit("g", 5).member("", 0).version(9).send(&mut world), E::GROUP_ID_NOT_FOUND);
    assert_eq!(world.state("g"), "Dead");
    assert_eq!(commit("g", 5).send(&mut world), E::NONE);
    assert_eq!((world.state("g"), fetch(&mut world, "g", "t0", 0)), ("Empty", 5));
    assert_eq!(commit("g", 6).member("anybody", -1).send(&mut world), E::NONE);
    assert_eq!(commit("g", 7).member("", 0).send(&mut world), E::UNKNOWN_MEMBER_ID);
    let members = world.stable(&[join("g").instance("i0")]);
    let id = &*members[0].id;
    let cases = [
        (commit("g", 8), E::UNKNOWN_MEMBER_ID),
        (commit("g", 8).member("nobody", 1), E::UNKNOWN_MEMBER_ID),
        (commit("g", 8).member(id, 0), E::ILLEGAL_GENERATION),
        (commit("g", 8).member(id, -1), E::ILLEGAL_GENERATION),
        (commit("g", 8).member("nobody", 1).instance("i0"), E::FENCED_INSTANCE_ID),
        (commit("g", 8).member(id, 1).instance("i1"), E::UNKNOWN_MEMBER_ID),
        (commit("g", 9).member(id, 1).instance("i0"), E::NONE),
        (commit("g", 9).member(id, 1), E::NONE),
    ];
    for (case, expected) in cases {
        assert_eq!(case.send(&mut world), expected, "{:?}", case.request);
    }
    assert_eq!(fetch(&mut world, "g", "t0", 0), 9);
    world.check_replay();
}

#[test]
fn members_commit_while_others_join_but_not_while_the_leader_assigns() {
    let mut world = World::new();
    let members = world.stable(&[join("g")]);
    let other = join("g").send(&mut world);
    assert_eq!(commit("g", 1).member(&members[0].id, 1).send(&mut world), E::NONE);
    let again = join("g").member(&members[0].id).send(&mut world);
    assert!(world.joined(other).is_some() && world.joined(again).is_some());
    assert_eq!(commit("g", 2).member(&members[0].id, 1).send(&mut world), E::ILLEGAL_GENERATION);
    assert_eq!(commit("g", 2).member(&members[0].id, 2).send(&mut world), E::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut world = World::new();
    let members = world.stable(&[join("g")]);
    for offset in 0..4 {
        world.pass_ms(9_000);
        assert_eq!(commit("g", offset).member(&members[0].id, 1).send(&mut world), E::NONE);
    }
    world.pass_ms(10_001);
    assert_eq!(world.state("g"), "Empty");
}

#[test]
fn topics_and_metadata_are_checked() {
    let mut world = World::with("offset.metadata.max.bytes=4");
    let cases = [
        (commit("g", 1).topic("t9", 0), E::UNKNOWN_TOPIC_OR_PARTITION),
        (commit("g", 1).topic("t0", 3), E::UNKNOWN_TOPIC_OR_PARTITION),
        (commit("g", 1).topic("t0", -1), E::UNKNOWN_TOPIC_OR_PARTITION),
        (commit("g", 1).id(topic_id(9)), E::UNKNOWN_TOPIC_ID),
        (commit("g", 1).id(Uuid::ZERO), E::UNKNOWN_TOPIC_ID),
        (commit("g", 1).metadata("12345"), E::OFFSET_METADATA_TOO_LARGE),
        // Java counts UTF-16 units.
        (commit("g", 1).metadata("\u{1F600}\u{1F600}!"), E::OFFSET_METADATA_TOO_LARGE),
    ];
    for (case, expected) in cases {
        assert_eq!(case.send(&mut world), expected, "{:?}", case.request);
    }
    assert_eq!(fetch(&mut world, "g", "t0", 0), -1);
    for text in ["1234", "\u{e4}\u{e4}\u{e4}\u{e4}", "\u{1F600}\u{1F600}"] {
        assert_eq!(commit("g", 1).metadata(text).send(&mut world), E::NONE);
        let response = fetch_group(&mut world, "g", None, false, 8);
        assert_eq!(response.topics[0].partitions[0].metadata.as_deref(), Some(text));
        world.check_replay();
    }
}

#[test]
fn what_does_not_exist_is_refused_as_such_whatever_the_group_says() {
    let mut world = World::new();
    let mut request = commit("g", 1).member("", 0).request;
    let second = OffsetCommitRequestPartition { partition_index: 7, ..Default::default() };
    request.topics[0].partitions.push(second);
    request.topics.push(commit("g", 1).topic("t9", 0).request.topics[0].clone());
    let Reply::OffsetCommit(response) = world.ask(Request::OffsetCommit { request: &request, version: 8 }) else {
        panic!("another reply")
    };
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let codes: Vec<ErrorCode> = partitions.map(|partition| ErrorCode(partition.error_code)).collect();
    assert_eq!(codes, [E::ILLEGAL_GENERATION, E::UNKNOWN_TOPIC_OR_PARTITION, E::UNKNOWN_TOPIC_OR_PARTITION]);
}

#[test]
fn fetching_by_name_by_id_and_everything() {
    let mut world = World::new();
    commit("g", 1).send(&mut world);
    commit("g", 2).topic("t1", 2).send(&mut world);
    let response = fetch_group(&mut world, "g", None, false, 8);
    let told: Vec<(String, i32, i64)> = response
        .topics
        .iter()
        .map(|t| (t.name.to_string(), t.partitions[0].partition_index, t.partitions[0].committed_offset))
        .collect();
    assert_eq!(told, [("t0".to_owned(), 0, 1), ("t1".to_owned(), 2, 2)]);
    let response = fetch_group(&mut world, "g", wanted("", topic_id(1), 2), false, 10);
    assert_eq!((response.topics[0].topic_id, response.topics[0].partitions[0].committed_offset), (topic_id(1), 2));
    let response = fetch_group(&mut world, "g", wanted("", topic_id(9), 2), false, 10);
    assert_eq!(ErrorCode(response.topics[0].partitions[0].error_code), E::UNKNOWN_TOPIC_ID);
    let response = fetch_group(&mut world, "g", None, false, 10);
    assert_eq!(response.topics.iter().map(|t| t.topic_id).collect::<Vec<_>>(), [topic_id(0), topic_id(1)]);
    let partition = &fetch_group(&mut world, "other", wanted("t0", Uuid::ZERO, 0), false, 8).topics[0].partitions[0];
    assert_eq!((partition.committed_offset, partition.committed_leader_epoch), (-1, -1));
    assert_eq!((partition.metadata.as_deref(), partition.error_code), (Some(""), 0));
    assert_eq!(fetch_group(&mut world, "other", None, false, 8).topics, []);
}

#[test]
fn offsets_of_an_earlier_topic_of_the_name_are_not_those_of_its_successor() {
    let mut world = World::new();
    commit("by-id", 5).id(topic_id(0)).send(&mut world);
    commit("by-name", 6).send(&mut world);
    world.delete_topic("t0", Some(topic_id(77)));
    assert_eq!((fetch(&mut world, "by-id", "t0", 0), fetch(&mut world, "by-name", "t0", 0)), (-1, -1));
    world.check_replay();
    // A log of another broker may still have both.
    let value = |offset, id| OffsetCommitValue { offset, topic_id: topic_id(id), ..Default::default() };
    for (partition, offset, id) in [(0, 8, 0), (1, 8, 0), (0, 9, 77)] {
        let record = records::offset_commit("g", "t0", partition, &value(offset, id));
        world.log.push(Logged::of(None, &record));
    }
    world.restart();
    let offset = |world: &mut World, partition, id| {
        let response = fetch_group(world, "g", wanted("", topic_id(id), partition), false, 10);
        response.topics[0].partitions[0].committed_offset
    };
    assert_eq!((offset(&mut world, 0, 77), offset(&mut world, 1, 77)), (9, -1));
}

#[test]
fn offsets_of_deleted_topics_go() {
    let mut world = World::new();
    for group in ["a", "b"] {
        commit(group, 1).send(&mut world);
        commit(group, 1).topic("t0", 2).send(&mut world);
        commit(group, 2).topic("t1", 0).send(&mut world);
    }
    world.delete_topic("t0", None);
    assert_eq!(world.shell.machine().offset_count(), 2);
    world.check_replay();
}

fn delete(world: &mut World, group: &str, topic: &str) -> (ErrorCode, ErrorCode) {
    let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = vec![OffsetDeleteRequestTopic { name: topic.to_owned().into(), partitions }];
    let request = OffsetDeleteRequest { group_id: group.to_owned().into(), topics };
    match world.ask(Request::OffsetDelete { request: &request }) {
        Reply::OffsetDelete(response) => {
            let inner = response.topics.first().map_or(0, |topic| topic.partitions[0].error_code);
            (ErrorCode(response.error_code), ErrorCode(inner))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn deleting_offsets() {
    let mut world = World::new();
    for topic in ["t0", "t1"] {
        for group in ["simple", "consumers", "workers"] {
            commit(group, 1).topic(topic, 0).send(&mut world);
        }
    }
    world.stable(&[join("consumers").protocols(&[("range", &subscription(&["t0"]))])]);
    world.stable(&[join("workers").protocol_type("connect")]);
    world.stable(&[join("lying").protocols(&[("range", &[0, 0, 0, 9])])]);
    let cases = [
        ("missing", "t0", E::GROUP_ID_NOT_FOUND, E::NONE),
        ("missing", "t9", E::GROUP_ID_NOT_FOUND, E::NONE),
        ("", "t0", E::INVALID_GROUP_ID, E::NONE),
        ("simple", "t9", E::NONE, E::UNKNOWN_TOPIC_OR_PARTITION),
        ("simple", "t0", E::NONE, E::NONE),
        ("consumers", "t0", E::NONE, E::GROUP_SUBSCRIBED_TO_TOPIC),
        ("consumers", "t1", E::NONE, E::NONE),
        ("workers", "t0", E::NON_EMPTY_GROUP, E::NONE),
        ("lying", "t1", E::NONE, E::GROUP_SUBSCRIBED_TO_TOPIC),
    ];
    for (group, topic, outer, inner) in cases {
        assert_eq!(delete(&mut world, group, topic), (outer, inner), "{group} {topic}");
    }
    let events = world.shell.machine().events();
    assert_eq!((events.offset_commits, events.offset_deletions, events.classic_rebalances), (6, 2, 3));
    assert_eq!(world.shell.machine().counts().classic, [1, 0, 0, 3]);
    assert_eq!((fetch(&mut world, "simple", "t0", 0), fetch(&mut world, "simple", "t1", 0)), (-1, 1));
    assert_eq!((fetch(&mut world, "consumers", "t0", 0), fetch(&mut world, "consumers", "t1", 0)), (1, -1));
    world.check_replay();
}

#[test]
fn a_commit_larger_than_a_batch() {
    let mut world = World::new();
    world.config = world.config.clone().with_message_bytes_max(400);
    let long = "m".repeat(400);
    let mut many = commit("g", 1).metadata(&"m".repeat(150));
    let topic = many.request.topics[0].clone();
    many.request.topics.push(topic);
    many.request.topics[1].partitions[0].partition_index = 1;
    let cases = [
        (commit("g", 1).metadata(&long), E::UNKNOWN_SERVER_ERROR),
        (commit("g", 1), E::NONE),
        (many, E::UNKNOWN_SERVER_ERROR),
        (commit("g", 2).metadata(&long).topic("t9", 0), E::UNKNOWN_TOPIC_OR_PARTITION),
    ];
    for (commit, expected) in cases {
        assert_eq!(commit.send(&mut world), expected);
    }
    assert_eq!((world.shell.machine().events().offset_commits, fetch(&mut world, "g", "t0", 0)), (1, 1));
    world.check_replay();
}

#[test]
fn what_is_too_large_to_be_deleted_stays() {
    let mut world = World::new();
    let long = "g".repeat(300);
    commit(&long, 1).send(&mut world);
    let (written, was) = (world.log.len(), world.config.clone());
    world.config = was.clone().with_message_bytes_max(300);
    assert_eq!(delete(&mut world, &long, "t0").0, E::UNKNOWN_SERVER_ERROR);
    let Reply::DeleteGroup(result) = world.ask(Request::DeleteGroup { group_id: &long }) else {
        panic!("another reply")
    };
    assert_eq!(ErrorCode(result.error_code), E::UNKNOWN_SERVER_ERROR);
    world.pass_ms(8 * DAY_MS);
    assert_eq!((world.log.len(), fetch(&mut world, &long, "t0", 0)), (written, 1));
    world.config = was;
    assert_eq!(delete(&mut world, &long, "t0"), (E::NONE, E::NONE));
    world.check_replay();
}

#[test]
fn deleting_groups() {
    let mut world = World::new();
    commit("simple", 1).send(&mut world);
    commit("busy", 1).send(&mut world);
    world.stable(&[join("busy")]);
    for (group, expected) in [("missing", E::GROUP_ID_NOT_FOUND), ("busy", E::NON_EMPTY_GROUP), ("simple", E::NONE)] {
        let Reply::DeleteGroup(result) = world.ask(Request::DeleteGroup { group_id: group }) else {
            panic!("another reply")
        };
        assert_eq!((&*result.group_id, ErrorCode(result.error_code)), (group, expected));
    }
    assert_eq!((world.state("simple"), world.shell.machine().offset_count()), ("Dead", 1));
    world.check_replay();
}

#[test]
fn offsets_expire_when_nobody_needs_them() {
    let mut world = World::new();
    commit("simple", 1).send(&mut world);
    for topic in ["t0", "t1"] {
        commit("used", 1).topic(topic, 0).send(&mut world);
    }
    let blob = subscription(&["t0"]);
    let member = join("used").session_ms(1_800_000).protocols(&[("range", &blob)]);
    let members = world.stable(&[member]);
    for _ in 0..(7 * 24 * 4 + 2) {
        world.pass_ms(15 * MINUTE_MS);
        assert_eq!(world.heartbeat("used", &members[0].id, 1), E::NONE);
    }
    assert_eq!((world.state("simple"), fetch(&mut world, "simple", "t0", 0)), ("Dead", -1), "7 days after the commit");
    assert_eq!(fetch(&mut world, "used", "t1", 0), -1, "not subscribed to");
    assert_eq!(fetch(&mut world, "used", "t0", 0), 1, "subscribed to");
    world.leave("used", &[(&members[0].id, None)]);
    world.pass_ms(6 * DAY_MS);
    assert_eq!(fetch(&mut world, "used", "t0", 0), 1, "empty for 6 days only");
    world.pass_ms(DAY_MS + 11 * MINUTE_MS);
    assert_eq!((world.state("used"), fetch(&mut world, "used", "t0", 0)), ("Dead", -1));
    world.check_replay();
    assert_eq!(world.shell.machine().group_count(), 0);
}

#[test]
fn a_commit_may_say_how_long_it_lives() {
    let mut world = World::new();
    commit("g", 1).retention_ms(20 * MINUTE_MS as i64).send(&mut world);
    commit("h", 1).retention_ms(30 * DAY_MS as i64).send(&mut world);
    world.check_replay();
    world.pass_ms(15 * MINUTE_MS);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 1);
    world.pass_ms(16 * MINUTE_MS);
    assert_eq!(fetch(&mut world, "g", "t0", 0), -1);
    world.pass_ms(20 * DAY_MS);
    assert_eq!(fetch(&mut world, "h", "t0", 0), 1);
}

fn transactional(world: &mut World, producer: i64, offset: i64) {
    let value = OffsetCommitValue { offset, commit_timestamp: world.now.wall_ms, ..Default::default() };
    let record = records::offset_commit("g", "t0", 0, &value);
    world.log.push(Logged::of(Some((producer, 0)), &record));
}

fn end(world: &mut World, producer_id: i64, commit: bool) {
    world.log.push(Logged::Marker(Marker { producer_id, producer_epoch: 0, commit }));
    world.restart();
}

#[test]
fn offsets_of_transactions_count_from_their_marker_on() {
    let mut world = World::new();
    transactional(&mut world, 1, 10);
    world.restart();
    assert_eq!(fetch(&mut world, "g", "t0", 0), -1);
    let response = fetch_group(&mut world, "g", wanted("t0", Uuid::ZERO, 0), true, 8);
    assert_eq!(ErrorCode(response.topics[0].partitions[0].error_code), E::UNSTABLE_OFFSET_COMMIT);
    end(&mut world, 1, true);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 10);
    transactional(&mut world, 1, 20);
    end(&mut world, 1, false);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 10);
    transactional(&mut world, 1, 30);
    world.restart();
    commit("g", 40).send(&mut world);
    world.pass_ms(8 * DAY_MS);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 40, "it does not expire under an open transaction");
    end(&mut world, 1, true);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 40, "the later commit wins");
    transactional(&mut world, 2, 50);
    transactional(&mut world, 3, 60);
    end(&mut world, 3, true);
    end(&mut world, 2, true);
    assert_eq!(fetch(&mut world, "g", "t0", 0), 60, "the order of the commits decides, not that of the markers");
    transactional(&mut world, 2, 70);
    world.restart();
    let Reply::DeleteGroup(result) = world.ask(Request::DeleteGroup { group_id: "g" }) else { panic!("another reply") };
    assert_eq!((result.error_code, world.state("g")), (0, "Dead"));
    end(&mut world, 2, true);
    assert_eq!(fetch(&mut world, "g", "t0", 0), -1, "a deleted offset does not come back");
}

#[test]
fn older_and_unknown_records_are_read_or_left_alone() {
    let mut world = World::new();
    let key = |kind: u8| {
        let mut key = vec![0, kind, 0, 1, b'g', 0, 2, b't', b'0'];
        key.extend(0i32.to_be_bytes());
        Bytes::from(key)
    };
    let mut value = vec![0, 0];
    value.extend(7i64.to_be_bytes());
    value.extend([0, 1, b'm']);
    value.extend(99i64.to_be_bytes());
    world.log.push(Logged::Record(None, key(0), Some(Bytes::from(value.clone()))));
    world.restart();
    assert_eq!(fetch(&mut world, "g", "t0", 0), 7, "type 0 is an offset, too");
    world.log.push(Logged::Record(None, key(1), Some(Bytes::from_static(&[0, 9, 1]))));
    world.log.push(Logged::Record(None, Bytes::from_static(&[0x7f, 0xff, 1]), Some(Bytes::from_static(b"x"))));
    world.log.push(Logged::Record(None, Bytes::new(), None));
    world.restart();
    assert_eq!(fetch(&mut world, "g", "t0", 0), 7);
}

#[test]
fn a_group_of_the_oldest_record_version_is_loaded() {
    let mut world = World::new();
    let value = wire::group_metadata_value::GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 4,
        protocol: Some("range".into()),
        leader: Some("m".into()),
        members: vec![wire::group_metadata_value::MemberMetadata {
            member_id: "m".into(),
            session_timeout: 10_000,
            assignment: (&b"a"[..]).into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 0..=4 {
        let value = wire::group_record::GroupValue::GroupMetadata(value.clone());
        let record = records::record(
            &wire::group_record::GroupKey::GroupMetadata(wire::group_metadata_key::GroupMetadataKey {
                group: "g".into(),
            }),
            &value,
            version,
        );
        let record = record.expect("encodable");
        world.log = vec![Logged::of(None, &record)];
        world.restart();
        let member = Known { id: "m".to_owned(), generation: 4, leads: true };
        let token = world.sync("g", &member, &[]);
        assert_eq!(*world.synced(token).expect("stable").assignment, *b"a", "version {version}");
    }
}
