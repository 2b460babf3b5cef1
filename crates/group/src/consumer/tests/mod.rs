//! Tests of consumer groups inside the whole machine.

mod chaos;
mod cost;
mod heartbeats;
mod migration;
mod regexes;
mod story;

use wire::ErrorCode;
use wire::consumer_group_describe_response::DescribedGroup;
use wire::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};

use crate::shard::Group;
use crate::tests::world::{World, topic_id};
use crate::{Client, Reply, Request};

/// The group of all these tests.
const GROUP: &str = "g";

/// A heartbeat in the making.
#[derive(Clone, Debug)]
struct Beat {
    version: i16,
    client_id: &'static str,
    request: ConsumerGroupHeartbeatRequest<'static>,
}

/// A heartbeat that only says "I am here".
fn beat(member: &str, epoch: i32) -> Beat {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.to_owned().into(),
        member_epoch: epoch,
        ..Default::default()
    };
    Beat { version: 1, client_id: "client", request }
}

/// The first heartbeat of a member.
fn join(member: &str, topics: &[&str]) -> Beat {
    beat(member, 0).topics(topics).owns(&[]).with(|request| request.rebalance_timeout_ms = 60_000)
}

/// Partitions by number of the topic.
type Owns = Vec<(u8, Vec<i32>)>;

impl Beat {
    fn with(mut self, change: impl FnOnce(&mut ConsumerGroupHeartbeatRequest<'static>)) -> Beat {
        change(&mut self.request);
        self
    }

    fn topics(self, topics: &[&str]) -> Beat {
        let topics = topics.iter().map(|topic| (*topic).to_owned().into()).collect();
        self.with(|request| request.subscribed_topic_names = Some(topics))
    }

    fn regex(self, regex: &str) -> Beat {
        let regex = regex.to_owned();
        self.with(|request| request.subscribed_topic_regex = Some(regex.into()))
    }

    fn instance(self, instance: &str) -> Beat {
        let instance = instance.to_owned();
        self.with(|request| request.instance_id = Some(instance.into()))
    }

    fn owns(self, owns: &[(u8, &[i32])]) -> Beat {
        let topic = |(n, partitions): &(u8, &[i32])| TopicPartitions {
            topic_id: topic_id(*n),
            partitions: partitions.to_vec(),
        };
        let topics = owns.iter().map(topic).collect();
        self.with(|request| request.topic_partitions = Some(topics))
    }

    fn send(&self, world: &mut World) -> Answer {
        let answer = self.send_unchecked(world);
        check(world);
        answer
    }

    fn send_unchecked(&self, world: &mut World) -> Answer {
        let client = Client { client_id: self.client_id, client_host: "/127.0.0.1" };
        let request = Request::ConsumerGroupHeartbeat { request: &self.request, version: self.version, client };
        let Reply::ConsumerGroupHeartbeat(reply) = world.ask(request) else { panic!("another reply") };
        let response = reply.response();
        let topic = |topic: &wire::consumer_group_heartbeat_response::TopicPartitions| {
            let number = (0..=u8::MAX).find(|n| topic_id(*n) == topic.topic_id).expect("a topic of the tests");
            (number, topic.partitions.clone())
        };
        Answer {
            error: ErrorCode(response.error_code),
            message: response.error_message.as_deref().unwrap_or_default().to_owned(),
            member: response.member_id.as_deref().unwrap_or_default().to_owned(),
            epoch: response.member_epoch,
            interval_ms: response.heartbeat_interval_ms,
            assignment: response.assignment.as_ref().map(|all| all.topic_partitions.iter().map(topic).collect()),
        }
    }

    /// Sends it and gives the epoch and what the member has now, if it is told.
    fn ok(&self, world: &mut World) -> (i32, Option<Owns>) {
        let answer = self.send(world);
        assert_eq!((answer.error, &*answer.message), (ErrorCode::NONE, ""), "{self:?}");
        (answer.epoch, answer.assignment)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    error: ErrorCode,
    message: String,
    member: String,
    epoch: i32,
    interval_ms: i32,
    assignment: Option<Owns>,
}

/// What holds after every call: replay gives the same state, indexes are right, and nobody shares a partition.
fn check(world: &World) {
    world.check_replay();
    check_owners(world);
}

fn check_owners(world: &World) {
    let Some(Group::Consumer(group)) = world.shell.machine().groups.get(GROUP) else { return };
    group.check_indexes();
    let mut owned = std::collections::BTreeMap::new();
    for (id, member) in group.members() {
        for (topic, partition, _) in member.assigned.iter().chain(member.revoking.iter()) {
            let other = owned.insert((topic, partition), id.clone());
            assert_eq!(other, None, "{topic}-{partition} belongs to {id} as well");
        }
    }
}

impl World {
    fn describe_consumer(&mut self) -> DescribedGroup<'static> {
        match self.ask(Request::ConsumerGroupDescribe { group_id: GROUP }) {
            Reply::ConsumerGroupDescribe(group) => *group,
            other => panic!("{other:?}"),
        }
    }

    /// State, epoch and assignment epoch of the group.
    fn group_state(&mut self) -> (String, i32, i32) {
        let group = self.describe_consumer();
        assert_eq!(group.error_code, 0, "{group:?}");
        (group.group_state.to_string(), group.group_epoch, group.assignment_epoch)
    }
}
