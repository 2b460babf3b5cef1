//! Groups whose members speak both protocols.

use super::*;
use crate::tests::world::{Join, Known, join as classic_join, subscription};

/// A member of the classic protocol that wants all topics and says, since version 1, what it has.
fn classic(member: &str, topics: &[&str], owns: &[(&str, &[i32])]) -> Join {
    let mut blob = subscription(topics);
    blob[1] = 1;
    blob.extend((owns.len() as i32).to_be_bytes());
    for (topic, partitions) in owns {
        blob.extend((topic.len() as i16).to_be_bytes());
        blob.extend(topic.as_bytes());
        blob.extend((partitions.len() as i32).to_be_bytes());
        partitions.iter().for_each(|partition| blob.extend(partition.to_be_bytes()));
    }
    classic_join(GROUP).version(5).member(member).protocols(&[("range", &blob)])
}

fn assignment(topic: &str, partitions: &[i32]) -> Vec<u8> {
    let mut blob = vec![0, 1, 0, 0, 0, 1];
    blob.extend((topic.len() as i16).to_be_bytes());
    blob.extend(topic.as_bytes());
    blob.extend((partitions.len() as i32).to_be_bytes());
    partitions.iter().for_each(|partition| blob.extend(partition.to_be_bytes()));
    blob.extend((-1i32).to_be_bytes());
    blob
}

fn world(policy: &str) -> World {
    World::with(&format!(
        "group.consumer.assignment.interval.ms=0\ngroup.initial.rebalance.delay.ms=0\n\
         group.consumer.migration.policy={policy}"
    ))
}

/// Joins a classic group whose initial delay is none.
fn joined(world: &mut World, join: &Join) -> (ErrorCode, wire::join_group_response::JoinGroupResponse<'static>) {
    let token = join.send(world);
    world.pass_ms(0);
    let response = world.joined(token).expect("answered");
    (ErrorCode(response.error_code), response)
}

/// A stable classic group of one member that has all of t0.
fn classic_group(world: &mut World) -> Known {
    let (error, first) = world.join_now(&classic("", &["t0"], &[]));
    assert_eq!(error, ErrorCode::MEMBER_ID_REQUIRED);
    let (error, joined) = joined(world, &classic(&first.member_id, &["t0"], &[]));
    assert_eq!(error, ErrorCode::NONE);
    let member = Known { id: joined.member_id.to_string(), generation: joined.generation_id, leads: true };
    let blob = assignment("t0", &[0, 1, 2]);
    let token = world.sync(GROUP, &member, &[(&member.id, &blob)]);
    assert_eq!(world.synced(token).expect("answered").error_code, 0);
    member
}

#[test]
fn a_classic_group_is_upgraded_and_comes_back() {
    let mut world = world("bidirectional");
    let old = classic_group(&mut world);
    assert_eq!(world.state(GROUP), "Stable");
    // The first member of the consumer protocol waits for what the classic one has to give up.
    assert_eq!(join("new", &["t0"]).ok(&mut world), (2, Some(vec![])));
    assert_eq!(world.state(GROUP), "Consumer");
    let described = world.describe_consumer();
    let types: Vec<(&str, i8, i32)> =
        described.members.iter().map(|m| (&*m.member_id, m.member_type, m.member_epoch)).collect();
    assert_eq!(types, [("new", 1, 2), (&*old.id, 0, 1)]);
    world.restart();
    assert_eq!(world.heartbeat(GROUP, &old.id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.heartbeat(GROUP, &old.id, 7), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(world.heartbeat(GROUP, "new", 2), ErrorCode::UNKNOWN_MEMBER_ID, "speaks another protocol");

    // It joins with what it has: it keeps its generation until it has given up the half.
    let (error, joined) = world.join_now(&classic(&old.id, &["t0"], &[("t0", &[0, 1, 2])]));
    assert_eq!((error, joined.generation_id, joined.protocol_name.as_deref()), (ErrorCode::NONE, 1, Some("range")));
    let at = |generation| Known { id: old.id.clone(), generation, leads: false };
    let token = world.sync(GROUP, &at(1), &[]);
    let kept = world.synced(token).expect("answered");
    assert_eq!((kept.error_code, &*kept.assignment), (0, &assignment("t0", &[0, 1])[..]));
    assert_eq!(world.heartbeat(GROUP, &old.id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    let (_, joined) = world.join_now(&classic(&old.id, &["t0"], &[("t0", &[0, 1])]));
    assert_eq!(joined.generation_id, 2);
    let token = world.sync(GROUP, &at(2), &[]);
    assert_eq!(&*world.synced(token).expect("answered").assignment, &assignment("t0", &[0, 1])[..]);
    assert_eq!(world.heartbeat(GROUP, &old.id, 2), ErrorCode::NONE);
    assert_eq!(beat("new", 2).ok(&mut world).1, Some(vec![(0, vec![2])]));
    assert_eq!(world.group_state().0, "Stable");
    check(&world);

    // The last member of the consumer protocol leaves: the group is a classic one again and rebalances.
    beat("new", -1).send_unchecked(&mut world);
    assert_eq!(world.state(GROUP), "PreparingRebalance");
    assert_eq!(world.heartbeat(GROUP, &old.id, 2), ErrorCode::REBALANCE_IN_PROGRESS);
    let token = classic(&old.id, &["t0"], &[]).send(&mut world);
    let joined = world.joined(token).expect("all have joined");
    assert_eq!((joined.error_code, joined.generation_id), (0, 3));
    let blob = assignment("t0", &[0, 1, 2]);
    let token = world.sync(GROUP, &Known { leads: true, ..at(3) }, &[(&old.id, &blob)]);
    assert_eq!(&*world.synced(token).expect("answered").assignment, &blob[..]);
    assert_eq!(world.state(GROUP), "Stable");
    world.check_replay();
    world.restart();
    assert_eq!(world.heartbeat(GROUP, &old.id, 3), ErrorCode::NONE);
}

#[test]
fn a_restart_after_the_downgrade_finds_a_classic_group() {
    let mut world = world("bidirectional");
    let old = classic_group(&mut world);
    join("new", &["t0"]).ok(&mut world);
    world.pass_ms(9_000);
    world.heartbeat(GROUP, &old.id, 1);
    world.pass_ms(9_000);
    world.heartbeat(GROUP, &old.id, 1);
    // The session of the only member of the consumer protocol ends.
    for _ in 0..4 {
        world.pass_ms(8_000);
        world.heartbeat(GROUP, &old.id, 1);
    }
    assert_eq!(world.state(GROUP), "PreparingRebalance");
    world.restart();
    assert_eq!(world.state(GROUP), "Stable");
    assert_eq!(world.heartbeat(GROUP, &old.id, 2), ErrorCode::NONE);
    world.pass_ms(10_000);
    assert_eq!(world.state(GROUP), "Empty", "its session ended");
}

#[test]
fn the_policy_says_which_way() {
    for (policy, upgrades, joins, downgrades) in [
        ("bidirectional", true, true, true),
        ("upgrade", true, true, false),
        ("downgrade", false, true, true),
        ("disabled", false, false, false),
    ] {
        let mut up = world(policy);
        classic_group(&mut up);
        let answer = join("new", &["t0"]).send_unchecked(&mut up);
        let message = "Cannot upgrade classic group g to consumer group because online upgrade is disabled.";
        let expected = if upgrades { (ErrorCode::NONE, "") } else { (ErrorCode::GROUP_ID_NOT_FOUND, message) };
        assert_eq!((answer.error, &*answer.message), expected, "{policy}");

        let mut down = world(policy);
        join("new", &["t0"]).ok(&mut down);
        let (error, first) = down.join_now(&classic("", &["t0"], &[]));
        let expected = if joins { ErrorCode::MEMBER_ID_REQUIRED } else { ErrorCode::INCONSISTENT_GROUP_PROTOCOL };
        assert_eq!(error, expected, "{policy}");
        if !joins {
            continue;
        }
        let (error, joined) = down.join_now(&classic(&first.member_id, &["t0"], &[]));
        assert_eq!((error, joined.generation_id), (ErrorCode::NONE, 3), "{policy}");
        check(&down);
        beat("new", -1).send_unchecked(&mut down);
        assert_eq!(down.state(GROUP), if downgrades { "PreparingRebalance" } else { "Consumer" }, "{policy}");
    }
}

#[test]
fn what_cannot_be_upgraded_stays_classic() {
    let mut other = world("bidirectional");
    joined(&mut other, &classic_join(GROUP).protocol_type("connect"));
    let answer = join("new", &["t0"]).send_unchecked(&mut other);
    assert_eq!(answer.error, ErrorCode::GROUP_ID_NOT_FOUND);
    assert!(answer.message.contains("does not use the consumer embedded protocol"), "{}", answer.message);

    let mut custom = world("bidirectional");
    let (_, first) = custom.join_now(&classic("", &["t0"], &[]));
    let (_, response) = joined(&mut custom, &classic(&first.member_id, &["t0"], &[]));
    let member = Known { id: response.member_id.to_string(), generation: 1, leads: true };
    let mut blob = assignment("t0", &[0]);
    let length = blob.len();
    blob[length - 1] = 1;
    blob[length - 4..length - 1].fill(0);
    blob.push(9);
    let token = custom.sync(GROUP, &member, &[(&member.id, &blob)]);
    assert!(custom.synced(token).is_some());
    let answer = join("new", &["t0"]).send_unchecked(&mut custom);
    assert!(answer.message.contains("an unsupported custom assignor is in use"), "{}", answer.message);
    assert_eq!(custom.state(GROUP), "Stable");

    let mut malformed = world("bidirectional");
    joined(&mut malformed, &classic_join(GROUP).protocols(&[("range", b"\x00")]));
    let answer = join("new", &["t0"]).send_unchecked(&mut malformed);
    assert!(answer.message.contains("malformed"), "{}", answer.message);
}

#[test]
fn a_classic_group_before_its_first_generation_is_upgraded_too() {
    let mut world = world("bidirectional");
    world.config.initial_rebalance_delay_ms = 3_000;
    let (_, first) = world.join_now(&classic("", &["t0"], &[]));
    let waiting = classic(&first.member_id, &["t0"], &[]).send(&mut world);
    assert_eq!(world.state(GROUP), "PreparingRebalance");
    join("new", &["t0"]).ok(&mut world);
    let told = world.joined(waiting).expect("answered");
    assert_eq!(ErrorCode(told.error_code), ErrorCode::REBALANCE_IN_PROGRESS);
    let again = classic(&first.member_id, &["t0"], &[]).send(&mut world);
    let told = world.joined(again).expect("answered");
    assert_eq!(ErrorCode(told.error_code), ErrorCode::NONE);
}

#[test]
fn whoever_waits_in_the_classic_group_has_to_join_again() {
    let mut world = world("bidirectional");
    let old = classic_group(&mut world);
    // A second member makes the first one join again; both wait.
    let (_, second) = world.join_now(&classic("", &["t0"], &[]));
    let waiting = classic(&second.member_id, &["t0"], &[]).send(&mut world);
    assert_eq!(world.state(GROUP), "PreparingRebalance");
    join("new", &["t0"]).ok(&mut world);
    let told = world.joined(waiting).expect("answered");
    assert_eq!(ErrorCode(told.error_code), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.describe_consumer().members.len(), 3);
    assert_eq!(world.heartbeat(GROUP, &old.id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    // Members that do not join again within their rebalance timeout are out.
    for _ in 0..10 {
        world.pass_ms(8_000);
        world.heartbeat(GROUP, &old.id, 1);
        world.heartbeat(GROUP, &second.member_id, 1);
        beat("new", 2).send_unchecked(&mut world);
    }
    assert_eq!(world.describe_consumer().members.len(), 1);
    check(&world);
}

#[test]
fn a_static_member_changes_its_protocol_by_a_restart() {
    let mut world = world("bidirectional");
    join("new", &["t0"]).instance("i").ok(&mut world);
    beat("new", -2).instance("i").ok(&mut world);
    let (error, joined) = world.join_now(&classic("", &["t0"], &[]).instance("i"));
    assert_eq!(error, ErrorCode::NONE);
    assert_eq!(world.state(GROUP), "Stable", "nothing was to change");
    let member = Known { id: joined.member_id.to_string(), generation: joined.generation_id, leads: false };
    let token = world.sync(GROUP, &member, &[]);
    let synced = world.synced(token).expect("answered");
    assert_eq!((synced.error_code, &*synced.assignment), (0, &assignment("t0", &[0, 1, 2])[..]));
    world.check_replay();
    // And back.
    let left = world.leave(GROUP, &[("x", Some("y"))]);
    assert_ne!(left.members[0].error_code, 0);
    let (epoch, owns) = join("newer", &["t0"]).instance("i").ok(&mut world);
    assert_eq!((owns, world.state(GROUP)), (Some(vec![(0, vec![0, 1, 2])]), "Consumer"));
    assert_eq!(beat("newer", epoch).ok(&mut world), (epoch, None));
    assert_eq!(world.group_state().0, "Stable");
}

#[test]
fn classic_members_leave_a_consumer_group() {
    let mut world = world("upgrade");
    let old = classic_group(&mut world);
    join("new", &["t0"]).ok(&mut world);
    let left = world.leave(GROUP, &[(&old.id, None), ("nobody", None), ("", Some("nothing"))]);
    let codes: Vec<ErrorCode> = left.members.iter().map(|member| ErrorCode(member.error_code)).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(beat("new", 2).ok(&mut world), (3, Some(vec![(0, vec![0, 1, 2])])));
    check(&world);
}
