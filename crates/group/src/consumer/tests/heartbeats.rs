use super::*;

/// Without batching of assignments.
fn world() -> World {
    World::with("group.consumer.assignment.interval.ms=0")
}

#[test]
fn requests_that_cannot_be_are_refused_in_kafkas_words() {
    let mut world = world();
    let first = || join("m", &["t0"]);
    let cases: Vec<(Beat, ErrorCode, &str)> = vec![
        (first().with(|r| r.member_id = "".into()), ErrorCode::INVALID_REQUEST, "MemberId can't be empty."),
        (first().with(|r| r.group_id = " ".into()), ErrorCode::INVALID_REQUEST, "GroupId can't be empty."),
        (first().instance(""), ErrorCode::INVALID_REQUEST, "InstanceId can't be empty."),
        (first().with(|r| r.rack_id = Some("\t".into())), ErrorCode::INVALID_REQUEST, "RackId can't be empty."),
        (
            first().with(|r| r.rebalance_timeout_ms = -1),
            ErrorCode::INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (first().owns(&[(0, &[1])]), ErrorCode::INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (
            first().with(|r| r.topic_partitions = None),
            ErrorCode::INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            first().with(|r| r.subscribed_topic_names = None),
            ErrorCode::INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (beat("m", -2), ErrorCode::INVALID_REQUEST, "InstanceId can't be null."),
        (beat("m", -3), ErrorCode::INVALID_REQUEST, "MemberEpoch is invalid."),
        (
            first().with(|r| r.server_assignor = Some("best".into())),
            ErrorCode::UNSUPPORTED_ASSIGNOR,
            "ServerAssignor best is not supported. Supported assignors: uniform, range.",
        ),
        (beat("m", 1), ErrorCode::GROUP_ID_NOT_FOUND, "Consumer group g not found."),
        (beat("m", -1), ErrorCode::GROUP_ID_NOT_FOUND, "Group g not found."),
        (
            first().regex("["),
            ErrorCode::INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ].",
        ),
    ];
    for (beat, error, message) in cases {
        let answer = beat.send(&mut world);
        assert_eq!((answer.error, &*answer.message), (error, message), "{beat:?}");
        assert!(world.log.is_empty(), "{beat:?} wrote something");
    }
    assert_eq!(world.describe_consumer().error_message.as_deref(), Some("Group g not found."));
}

#[test]
fn the_first_member_gets_everything_and_the_second_one_its_half_when_it_is_free() {
    let mut world = world();
    assert_eq!(join("a", &["t0", "t1"]).ok(&mut world), (2, Some(vec![(0, vec![0, 1, 2]), (1, vec![0, 1, 2])])));
    assert_eq!(world.group_state(), ("Stable".into(), 2, 2));
    let records = world.log.len();
    assert_eq!(beat("a", 2).ok(&mut world), (2, None));
    assert_eq!(world.log.len(), records, "a steady heartbeat writes nothing");

    assert_eq!(join("b", &["t0", "t1"]).ok(&mut world), (3, Some(vec![])), "nothing is free yet");
    assert_eq!(world.group_state(), ("Reconciling".into(), 3, 3));
    assert_eq!(beat("a", 2).ok(&mut world), (2, Some(vec![(0, vec![0, 1, 2])])), "keeps half, in its old epoch");
    assert_eq!(beat("b", 3).ok(&mut world), (3, None), "the other half is not given up");
    assert_eq!(beat("a", 2).owns(&[(0, &[0, 1, 2]), (1, &[2])]).ok(&mut world), (2, None), "not all of it");
    assert_eq!(beat("a", 2).owns(&[(0, &[0, 1, 2])]).ok(&mut world), (3, None));
    assert_eq!(beat("b", 3).ok(&mut world), (3, Some(vec![(1, vec![0, 1, 2])])));
    assert_eq!(world.group_state(), ("Stable".into(), 3, 3));
    world.restart();
    assert_eq!(beat("b", 3).ok(&mut world), (3, None), "members carry on after a restart");

    let left = beat("a", -1).send(&mut world);
    assert_eq!((left.error, left.epoch, &*left.member), (ErrorCode::NONE, -1, "a"));
    assert_eq!(beat("b", 3).ok(&mut world), (4, Some(vec![(0, vec![0, 1, 2]), (1, vec![0, 1, 2])])));
    assert_eq!(beat("a", 3).send(&mut world).message, "Member a is not a member of group g.");
    beat("b", -1).ok(&mut world);
    assert_eq!(world.group_state(), ("Empty".into(), 5, 5));
}

#[test]
fn epochs_fence_and_lost_answers_can_be_asked_for_again() {
    let mut world = world();
    join("a", &["t0"]).ok(&mut world);
    let fenced = beat("a", 7).send(&mut world);
    assert_eq!(fenced.error, ErrorCode::FENCED_MEMBER_EPOCH);
    assert_eq!(
        fenced.message,
        "The consumer group member has a greater member epoch (7) than the one known by the group coordinator (2). \
         The member must abandon all its partitions and rejoin."
    );
    join("b", &["t0"]).ok(&mut world);
    beat("a", 2).ok(&mut world);
    let (epoch, _) = beat("a", 2).owns(&[(0, &[0, 1])]).ok(&mut world);
    assert_eq!(epoch, 3);
    // The answer is lost: the member says the same again.
    assert_eq!(beat("a", 2).owns(&[(0, &[0, 1])]).ok(&mut world).0, 3);
    let smaller = beat("a", 2).owns(&[(0, &[0, 1, 2])]).send(&mut world);
    assert_eq!(smaller.error, ErrorCode::FENCED_MEMBER_EPOCH, "it claims what it has given up");
    assert!(smaller.message.contains("smaller member epoch (2)"), "{}", smaller.message);
    assert_eq!(beat("a", 2).send(&mut world).error, ErrorCode::FENCED_MEMBER_EPOCH, "it does not say what it has");
    // A member that lost everything joins again with its id and keeps its place.
    assert_eq!(join("a", &["t0"]).ok(&mut world), (3, Some(vec![(0, vec![0, 1])])));
}

#[test]
fn sessions_and_revocations_time_out() {
    let mut world = world();
    join("a", &["t0"]).with(|r| r.rebalance_timeout_ms = 20_000).ok(&mut world);
    world.pass_ms(44_000);
    beat("a", 2).ok(&mut world);
    world.pass_ms(44_000);
    join("b", &["t0"]).ok(&mut world);
    assert_eq!(beat("a", 2).ok(&mut world).1, Some(vec![(0, vec![0, 1])]));
    for _ in 0..3 {
        // It is alive but does not give up what it shall.
        world.pass_ms(6_000);
        beat("a", 2).owns(&[(0, &[0, 1, 2])]).ok(&mut world);
    }
    world.pass_ms(3_000);
    assert_eq!(beat("a", 2).send(&mut world).error, ErrorCode::UNKNOWN_MEMBER_ID, "out after 20 s");
    assert_eq!(beat("b", 3).ok(&mut world), (4, Some(vec![(0, vec![0, 1, 2])])));
    world.pass_ms(44_999);
    assert_eq!(world.group_state().0, "Stable");
    world.pass_ms(1);
    assert_eq!(world.group_state(), ("Empty".into(), 5, 5));
    check(&world);
    // The timeout starts anew with the broker.
    join("c", &["t0"]).ok(&mut world);
    world.pass_ms(30_000);
    world.restart();
    world.pass_ms(44_999);
    assert_eq!(world.group_state().0, "Stable");
    world.pass_ms(1);
    assert_eq!(world.group_state().0, "Empty");
}

#[test]
fn static_members_come_back_to_what_they_had() {
    let mut world = world();
    join("a", &["t0"]).instance("i1").ok(&mut world);
    join("b", &["t0"]).instance("i2").ok(&mut world);
    beat("a", 2).ok(&mut world);
    beat("a", 2).owns(&[(0, &[0, 1])]).ok(&mut world);
    assert_eq!(beat("b", 3).ok(&mut world).1, Some(vec![(0, vec![2])]));
    assert_eq!(
        join("a2", &["t0"]).instance("i1").send(&mut world).message,
        "Static member a2 with instance id i1 cannot join the group because the instance id is owned by a member."
    );
    let (error, message) = {
        let answer = beat("a2", 3).instance("i1").send(&mut world);
        (answer.error, answer.message)
    };
    assert_eq!(error, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(message, "Static member a2 with instance id i1 was fenced by member a.");
    assert_eq!(beat("x", 3).instance("i9").send(&mut world).message, "Instance id i9 is unknown.");

    let away = beat("a", -2).instance("i1").send(&mut world);
    assert_eq!((away.error, away.epoch), (ErrorCode::NONE, -2));
    assert_eq!(beat("b", 3).ok(&mut world), (3, None), "nothing moves while it is away");
    world.restart();
    assert_eq!(join("a2", &["t0"]).instance("i1").ok(&mut world), (3, Some(vec![(0, vec![0, 1])])));
    assert_eq!(world.group_state(), ("Stable".into(), 3, 3));
    assert_eq!(beat("a", 3).send(&mut world).error, ErrorCode::UNKNOWN_MEMBER_ID);
    // Whoever stays away is out when its session ends.
    beat("a2", -2).instance("i1").ok(&mut world);
    for _ in 0..10 {
        world.pass_ms(5_000);
        beat("b", 3).send(&mut world);
    }
    assert_eq!(world.describe_consumer().members.len(), 1);
}

#[test]
fn assignments_are_batched() {
    let mut world = World::new();
    assert_eq!(join("a", &["t0"]).ok(&mut world).0, 2, "the first one comes at once");
    assert_eq!(join("b", &["t0"]).ok(&mut world), (2, Some(vec![])), "the next one not before a second has passed");
    assert_eq!(world.group_state(), ("Assigning".into(), 3, 2));
    assert_eq!(join("c", &["t0"]).ok(&mut world), (2, Some(vec![])));
    world.pass_ms(999);
    assert_eq!(beat("a", 2).ok(&mut world), (2, None));
    world.pass_ms(1);
    assert_eq!(beat("a", 2).ok(&mut world).0, 2, "it has partitions to give up");
    assert_eq!(world.group_state(), ("Reconciling".into(), 4, 4));
}

#[test]
fn a_full_group_takes_nobody_new() {
    let mut world = World::with("group.consumer.max.size=1\ngroup.consumer.assignment.interval.ms=0");
    join("a", &["t0"]).instance("i").ok(&mut world);
    let full = join("b", &["t0"]).send(&mut world);
    assert_eq!(full.error, ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(full.message, "The consumer group has reached its maximum capacity of 1 members.");
    join("a", &["t0"]).ok(&mut world);
    beat("a", -2).instance("i").ok(&mut world);
    join("b", &["t0"]).instance("i").ok(&mut world);
}

#[test]
fn subscriptions_assignors_and_topics_change() {
    let mut world = world();
    join("a", &["t0"]).ok(&mut world);
    assert_eq!(beat("a", 2).topics(&["t1", "t9"]).ok(&mut world), (2, Some(vec![])), "t0 is to be given up first");
    assert_eq!(beat("a", 2).owns(&[]).ok(&mut world), (3, Some(vec![(1, vec![0, 1, 2])])));
    world.create_topic("t9", topic_id(9), 2);
    assert_eq!(beat("a", 3).ok(&mut world), (4, Some(vec![(1, vec![0, 1, 2]), (9, vec![0, 1])])), "t9 has appeared");
    world.delete_topic("t1", None);
    assert_eq!(beat("a", 4).ok(&mut world).1, Some(vec![(9, vec![0, 1])]));
    assert_eq!(beat("a", 4).owns(&[(9, &[0, 1])]).ok(&mut world).0, 5);
    world.create_topic("t8", topic_id(8), 2);
    let records = world.log.len();
    assert_eq!(beat("a", 5).ok(&mut world), (5, None), "no topic of the group");
    assert_eq!(world.log.len(), records);
    // Another assignor calls for another assignment.
    assert_eq!(beat("a", 5).with(|r| r.server_assignor = Some("range".into())).ok(&mut world).0, 6);
    assert_eq!(world.describe_consumer().assignor_name, "range");
    // Another rack or name is written and changes nothing else.
    beat("a", 6).with(|r| r.rack_id = Some("r".into())).ok(&mut world);
    assert_eq!(world.log.len() - records, 4 + 1, "member, two epochs, current; then the member alone");
    let full = beat("a", 6).topics(&["t9", "t1"]).owns(&[(9, &[0, 1])]).with(|r| r.rebalance_timeout_ms = 60_000);
    assert_eq!(full.ok(&mut world), (6, Some(vec![(9, vec![0, 1])])), "who says all is told all");
}

#[test]
fn members_of_version_0_are_given_an_id() {
    let mut world = world();
    let mut beat = join("", &["t0"]);
    beat.version = 0;
    let answer = beat.send(&mut world);
    assert_eq!((answer.error, answer.member.len()), (ErrorCode::NONE, 22));
    assert_eq!(answer.interval_ms, 5_000);
    assert_eq!(world.describe_consumer().members[0].member_id, answer.member);
}

#[test]
fn commits_and_fetches_know_their_epochs() {
    let mut world = world();
    join("a", &["t0", "t1"]).ok(&mut world);
    join("b", &["t0", "t1"]).ok(&mut world);
    beat("a", 2).ok(&mut world);
    beat("a", 2).owns(&[(0, &[0, 1, 2])]).ok(&mut world);
    let Some(Group::Consumer(group)) = world.shell.machine().groups.get(GROUP) else { panic!("a consumer group") };
    let commit = |member: &str, epoch: i32, version: i16, topic: u8| {
        group.check_commit(member, epoch, version).and_then(|right| right.check(topic_id(topic), 0))
    };
    assert_eq!(commit("a", 3, 9, 1), Ok(()), "the present epoch may commit anything");
    assert_eq!(commit("a", 2, 9, 0), Ok(()), "assigned in epoch 2 and still there");
    assert_eq!(commit("a", 2, 9, 1), Err(ErrorCode::STALE_MEMBER_EPOCH), "given up");
    assert_eq!(commit("a", 1, 9, 0), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(commit("a", 4, 9, 0), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(commit("a", 3, 8, 0), Err(ErrorCode::UNSUPPORTED_VERSION));
    assert_eq!(commit("x", 3, 9, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(commit("", -1, 9, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID), "the group is not empty");
    assert_eq!(group.check_fetch(None, -1), Ok(()));
    assert_eq!(group.check_fetch(Some("a"), 3), Ok(()));
    assert_eq!(group.check_fetch(Some("a"), 2), Err(ErrorCode::STALE_MEMBER_EPOCH));
    assert_eq!(group.check_fetch(Some("x"), 2), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(group.check_fetch(None, 2), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert!(group.is_subscribed("t1") && !group.is_subscribed("t2"));
}

#[test]
fn group_options_override_the_brokers() {
    use metadata::{ConfigResource, ConfigResourceType, MetadataDelta};
    let mut world = world();
    join("a", &["t0"]).ok(&mut world);
    let resource = ConfigResource { kind: ConfigResourceType::Group, name: GROUP.into() };
    let mut delta = MetadataDelta::new(world.image.clone());
    delta.set_config(resource.clone(), "consumer.heartbeat.interval.ms", Some("7000"));
    delta.set_config(resource.clone(), "consumer.session.timeout.ms", Some("50000"));
    world.publish(&mut delta);
    assert_eq!(beat("a", 2).send(&mut world).interval_ms, 7_000);
    world.pass_ms(49_999);
    assert_eq!(world.group_state().0, "Stable");
    world.pass_ms(1);
    assert_eq!(world.group_state().0, "Empty");
}

#[test]
fn a_member_too_large_for_a_record_is_refused_and_leaves_nothing_behind() {
    let mut world = world();
    let (epoch, _) = join("a", &["t0"]).ok(&mut world);
    world.config.record_bytes_max = 10_000;
    let long: Vec<String> = (0..1_000).map(|n| format!("a-topic-that-is-not-there-{n}")).collect();
    let names: Vec<&str> = long.iter().map(String::as_str).collect();
    for beat in [join("b", &names), join("a", &names), beat("a", epoch).topics(&names)] {
        let answer = beat.send(&mut world);
        assert_eq!(answer.error, ErrorCode::UNKNOWN_SERVER_ERROR, "{}", answer.message);
    }
    assert_eq!(beat("a", epoch).ok(&mut world), (epoch, None));
    join("b", &["t0"]).ok(&mut world);
}
