//! Stories of classic groups: join, sync, heartbeat, leave, and what time does.

use wire::ErrorCode;
use wire::sync_group_request::SyncGroupRequest;

use super::world::{Known, World, digest, join, subscription};
use crate::{Reply, Request};

#[test]
fn the_first_rebalance_waits_for_others_and_the_second_does_not() {
    let mut world = World::new();
    let first = join("g").send(&mut world);
    world.pass_ms(2_000);
    let second = join("g").send(&mut world);
    world.pass_ms(1_500);
    assert!(world.joined(first).is_none(), "somebody came during the delay, so it is prolonged");
    world.pass_ms(3_000);
    let (a, b) = (world.joined(first).expect("joined"), world.joined(second).expect("joined"));
    assert_eq!((a.generation_id, b.generation_id), (1, 1));
    assert_eq!(a.leader, b.leader);
    assert_eq!(a.leader, a.member_id, "the first to come leads");
    assert_eq!((a.members.len(), b.members.len()), (2, 0), "only the leader is told of the members");
    assert_eq!(a.protocol_name.as_deref(), Some("range"));
    assert_eq!(a.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(world.state("g"), "CompletingRebalance");
    let members = [
        Known { id: a.member_id.to_string(), generation: 1, leads: true },
        Known { id: b.member_id.to_string(), generation: 1, leads: false },
    ];
    world.assign("g", &members);
    let third = join("g").send(&mut world);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    let again = [join("g").member(&members[0].id).send(&mut world), join("g").member(&members[1].id).send(&mut world)];
    assert_eq!(world.joined(third).expect("all are there").generation_id, 2);
    assert_eq!(world.joined(again[0]).expect("all are there").members.len(), 3);
}

#[test]
fn the_first_rebalance_lasts_no_longer_than_the_rebalance_timeout() {
    let mut world = World::new();
    let first = join("g").rebalance_ms(10_000).send(&mut world);
    for _ in 0..10 {
        join("g").rebalance_ms(10_000).send(&mut world);
        world.pass_ms(1_000);
    }
    let response = world.joined(first).expect("10 s are over");
    assert_eq!((response.error_code, response.members.len()), (0, 11));
}

#[test]
fn a_group_goes_on_after_a_restart() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g")]);
    world.restart();
    assert_eq!(world.state("g"), "Stable");
    for (index, member) in members.iter().enumerate() {
        assert_eq!(world.heartbeat("g", &member.id, 1), ErrorCode::NONE);
        let token = world.sync("g", member, &[]);
        assert_eq!(*world.synced(token).expect("stable").assignment, [index as u8]);
    }
    world.pass_ms(9_000);
    assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::NONE);
    world.pass_ms(9_000);
    assert_eq!(world.heartbeat("g", &members[1].id, 1), ErrorCode::UNKNOWN_MEMBER_ID, "its session ended");
    assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_silent_member_is_removed_and_the_last_one_leaves_an_empty_group() {
    let mut world = World::new();
    let members = world.stable(&[join("g")]);
    for _ in 0..5 {
        world.pass_ms(9_000);
        assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::NONE);
    }
    world.pass_ms(10_001);
    assert_eq!(world.state("g"), "Empty");
    world.check_replay();
    assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::UNKNOWN_MEMBER_ID);
    let again = world.stable(&[join("g")]);
    assert_eq!(again[0].generation, 3, "being empty is a generation, too");
}

#[test]
fn a_member_that_does_not_join_again_is_out_after_the_rebalance_timeout() {
    let mut world = World::new();
    let members = world.stable(&[join("g").session_ms(60_000), join("g").session_ms(60_000)]);
    let token = join("g").session_ms(60_000).member(&members[0].id).send(&mut world);
    assert_eq!(world.state("g"), "PreparingRebalance", "the leader asked for it");
    world.pass_ms(59_999);
    assert!(world.joined(token).is_none());
    world.pass_ms(2);
    let response = world.joined(token).expect("the time is up");
    assert_eq!((response.generation_id, response.members.len()), (2, 1));
    // It would have been removed by its session now, had it not been before.
    assert_eq!(world.heartbeat("g", &members[1].id, 1), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn when_the_leader_does_not_come_back_another_one_leads() {
    let mut world = World::new();
    let members = world.stable(&[join("g").session_ms(90_000), join("g").session_ms(90_000)]);
    let other = join("g").session_ms(90_000).member(&members[1].id).protocols(&[("range", b"other")]);
    let token = other.send(&mut world);
    world.pass_ms(60_001);
    let response = world.joined(token).expect("the time is up");
    assert_eq!(response.leader, members[1].id);
}

#[test]
fn members_that_do_not_sync_are_out_after_the_rebalance_timeout() {
    let mut world = World::new();
    let join = join("g").session_ms(200_000).rebalance_ms(20_000);
    let tokens = [join.send(&mut world), join.send(&mut world)];
    world.pass_ms(7_000);
    let a = world.joined(tokens[0]).expect("joined");
    let leader = Known { id: a.member_id.to_string(), generation: 1, leads: true };
    let sync = world.sync("g", &leader, &[]);
    assert_eq!(world.synced(sync).expect("the leader decides").error_code, 0);
    assert_eq!(world.state("g"), "Stable");
    world.pass_ms(20_000);
    assert_eq!(world.state("g"), "PreparingRebalance", "the other one never asked for its assignment");
    let again = join.member(&leader.id).send(&mut world);
    let response = world.joined(again).expect("alone now");
    assert_eq!((response.generation_id, response.members.len()), (2, 1));
}

#[test]
fn followers_wait_for_the_leader_and_are_told_of_a_rebalance() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g")]);
    let again: Vec<_> = members.iter().map(|member| join("g").member(&member.id).send(&mut world)).collect();
    for token in again {
        assert_eq!(world.joined(token).expect("all joined").generation_id, 2);
    }
    let follower = Known { generation: 2, ..members[1].clone() };
    let waiting = world.sync("g", &follower, &[]);
    assert!(world.synced(waiting).is_none());
    join("g").send(&mut world);
    let response = world.synced(waiting).expect("a rebalance");
    assert_eq!(ErrorCode(response.error_code), ErrorCode::REBALANCE_IN_PROGRESS);
    let early = world.sync("g", &follower, &[]);
    let response = world.synced(early).expect("at once");
    assert_eq!(ErrorCode(response.error_code), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn the_same_metadata_again_gives_the_present_generation() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g")]);
    let (error, response) = world.join_now(&join("g").member(&members[1].id));
    assert_eq!((error, response.generation_id, response.members.len()), (ErrorCode::NONE, 1, 0));
    assert_eq!(world.state("g"), "Stable");
    let again = join("g").member(&members[1].id).protocols(&[("range", b"other")]).send(&mut world);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert!(world.joined(again).is_none());
}

#[test]
fn the_protocol_is_chosen_by_votes_among_those_that_all_support() {
    let cases: [(&[&[&str]], &str); 4] = [
        (&[&["a", "b"], &["b", "a"], &["b", "a"]], "b"),
        (&[&["a", "b"], &["b"]], "b"),
        (&[&["a", "b", "c"], &["c", "b"], &["c", "b"]], "c"),
        (&[&["b", "a"], &["a", "b"]], "a"),
    ];
    for (members, expected) in cases {
        let mut world = World::new();
        let named = |names: &&[&'static str]| {
            let protocols: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"m"[..])).collect();
            join("g").protocols(&protocols)
        };
        let tokens: Vec<_> = members.iter().map(named).map(|join| join.send(&mut world)).collect();
        world.pass_ms(10_000);
        for token in tokens {
            let response = world.joined(token).expect("joined");
            assert_eq!(response.protocol_name.as_deref(), Some(expected), "{members:?}");
        }
    }
}

#[test]
fn leaving_starts_a_rebalance_and_ends_the_join_it_held_up() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g"), join("g")]);
    let left = world.leave("g", &[(&members[2].id, None), ("nobody", None)]);
    let codes: Vec<ErrorCode> = left.members.iter().map(|member| ErrorCode(member.error_code)).collect();
    assert_eq!((left.error_code, codes), (0, vec![ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]));
    assert_eq!(world.state("g"), "PreparingRebalance");
    let token = join("g").member(&members[0].id).send(&mut world);
    assert!(world.joined(token).is_none());
    world.leave("g", &[(&members[1].id, None)]);
    assert_eq!(world.joined(token).expect("nobody else is left").members.len(), 1);
    let missing = world.leave("other", &[("nobody", None)]);
    assert_eq!(ErrorCode(missing.members[0].error_code), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn sync_is_refused_to_who_does_not_belong() {
    let mut world = World::new();
    let members = world.stable(&[join("g")]);
    let kind = |name: &'static str| Some(name.into());
    let cases = [
        ("g", &*members[0].id, 1, None, None, ErrorCode::NONE),
        ("g", &*members[0].id, 1, kind("consumer"), kind("range"), ErrorCode::NONE),
        ("g", &*members[0].id, 1, kind("connect"), kind("range"), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        ("g", &*members[0].id, 1, kind("consumer"), kind("sticky"), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        ("g", &*members[0].id, 2, None, None, ErrorCode::ILLEGAL_GENERATION),
        ("g", "nobody", 1, None, None, ErrorCode::UNKNOWN_MEMBER_ID),
        ("other", &*members[0].id, 1, None, None, ErrorCode::UNKNOWN_MEMBER_ID),
        ("", &*members[0].id, 1, None, None, ErrorCode::INVALID_GROUP_ID),
    ];
    for (group, member, generation_id, protocol_type, protocol_name, expected) in cases {
        let request = SyncGroupRequest {
            group_id: group.into(),
            member_id: member.into(),
            generation_id,
            protocol_type,
            protocol_name,
            ..Default::default()
        };
        let version = if request.protocol_type.is_some() { 5 } else { 4 };
        let Reply::SyncGroup(response) = world.ask(Request::SyncGroup { request: &request, version }) else {
            panic!("another reply")
        };
        assert_eq!(ErrorCode(response.error_code), expected, "{request:?}");
    }
    let request = SyncGroupRequest { group_id: "g".into(), generation_id: 1, ..Default::default() };
    let Reply::SyncGroup(response) = world.ask(Request::SyncGroup { request: &request, version: 5 }) else {
        panic!("another reply")
    };
    assert_eq!(ErrorCode(response.error_code), ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "version 5 names both");
}

#[test]
fn heartbeats_are_refused_to_who_does_not_belong() {
    let mut world = World::new();
    let members = world.stable(&[join("g")]);
    let cases = [
        ("g", &*members[0].id, 1, ErrorCode::NONE),
        ("g", &*members[0].id, 0, ErrorCode::ILLEGAL_GENERATION),
        ("g", "nobody", 1, ErrorCode::UNKNOWN_MEMBER_ID),
        ("other", &*members[0].id, 1, ErrorCode::UNKNOWN_MEMBER_ID),
        ("", &*members[0].id, 1, ErrorCode::INVALID_GROUP_ID),
    ];
    for (group, member, generation, expected) in cases {
        assert_eq!(world.heartbeat(group, member, generation), expected, "{group} {member} {generation}");
    }
}

#[test]
fn other_protocol_types_are_carried_as_they_are() {
    let mut world = World::new();
    let worker = join("connect-cluster").protocol_type("connect").protocols(&[("sessioned", b"\xff\x00\xff")]);
    world.stable(&[worker.clone(), worker]);
    let before = digest(world.shell.machine());
    world.restart();
    assert_eq!(digest(world.shell.machine()), before);
    assert!(before.contains("Some(\"connect\") sessioned"), "{before}");
}

#[test]
fn the_group_is_described_and_listed() {
    let mut world = World::new();
    let blob = subscription(&["t0"]);
    let members = world.stable(&[join("g").protocols(&[("range", &blob)]).instance("i1")]);
    let Reply::DescribeGroup(group) = world.ask(Request::DescribeGroup { group_id: "g", version: 6 }) else {
        panic!("another reply")
    };
    assert_eq!((&*group.group_state, &*group.protocol_type, &*group.protocol_data), ("Stable", "consumer", "range"));
    assert_eq!((&*group.members[0].member_id, &*group.members[0].client_host), (&*members[0].id, "/127.0.0.1"));
    assert_eq!((&*group.members[0].member_metadata, &*group.members[0].member_assignment), (&blob[..], &[0u8][..]));
    assert_eq!((group.members[0].group_instance_id.as_deref(), group.authorized_operations), (Some("i1"), i32::MIN));
    for (version, error) in [(5, ErrorCode::NONE), (6, ErrorCode::GROUP_ID_NOT_FOUND)] {
        let Reply::DescribeGroup(group) = world.ask(Request::DescribeGroup { group_id: "other", version }) else {
            panic!("another reply")
        };
        assert_eq!((&*group.group_state, ErrorCode(group.error_code)), ("Dead", error));
        assert_eq!(group.error_message.as_deref(), (version == 6).then_some("Group other not found."));
    }
    let cases: [(&[&str], &[&str], usize); 7] = [
        (&[], &[], 1),
        (&["stable"], &[], 1),
        (&[" STABLE ", "Empty"], &["Classic"], 1),
        (&["Empty"], &[], 0),
        (&[], &["consumer"], 0),
        (&[], &["classic", "share"], 1),
        (&["nonsense"], &[], 0),
    ];
    for (states, types, expected) in cases {
        let request = wire::list_groups_request::ListGroupsRequest {
            states_filter: states.iter().map(|text| (*text).into()).collect(),
            types_filter: types.iter().map(|text| (*text).into()).collect(),
        };
        let Reply::ListGroups(list) = world.ask(Request::ListGroups { request: &request }) else {
            panic!("another reply")
        };
        assert_eq!(list.groups.len(), expected, "{states:?} {types:?}");
        for group in list.groups {
            assert_eq!((&*group.group_id, &*group.group_state, &*group.group_type), ("g", "Stable", "classic"));
        }
    }
}
