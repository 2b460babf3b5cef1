use super::*;

fn world() -> World {
    World::with("group.consumer.assignment.interval.ms=0")
}

fn regex_join(member: &str, regex: &str) -> Beat {
    join(member, &[]).with(|request| request.subscribed_topic_names = None).regex(regex)
}

#[test]
fn an_expression_is_resolved_after_the_join_and_again_when_topics_appear() {
    let mut world = world();
    assert_eq!(regex_join("a", "t[01]").ok(&mut world), (1, Some(vec![])), "not resolved yet");
    world.pass_ms(0);
    check(&world);
    assert_eq!(beat("a", 1).ok(&mut world), (2, Some(vec![(0, vec![0, 1, 2]), (1, vec![0, 1, 2])])));
    world.restart();
    let records = world.log.len();
    world.pass_ms(9_000);
    assert_eq!(beat("a", 2).ok(&mut world), (2, None));
    assert_eq!(world.log.len(), records, "nothing new");

    // Within ten seconds nothing is looked at again, then new topics are.
    world.delete_topic("t1", Some(topic_id(4)));
    assert_eq!(beat("a", 2).ok(&mut world).1, Some(vec![(0, vec![0, 1, 2])]), "another topic of the same name");
    assert_eq!(beat("a", 2).owns(&[(0, &[0, 1, 2])]).ok(&mut world).0, 3);
    world.pass_ms(2_000);
    beat("a", 3).ok(&mut world);
    world.pass_ms(0);
    assert_eq!(beat("a", 3).ok(&mut world), (3, None), "the names are the same");
    let described = world.describe_consumer();
    assert_eq!(described.members[0].subscribed_topic_regex.as_deref(), Some("t[01]"));
}

#[test]
fn members_share_expressions_and_the_last_one_takes_it_along() {
    let mut world = world();
    regex_join("a", "t.*").ok(&mut world);
    world.pass_ms(0);
    assert_eq!(beat("a", 1).ok(&mut world).1.map(|owns| owns.len()), Some(3));
    assert_eq!(regex_join("b", "t.*").ok(&mut world).0, 3, "resolved already");
    let resolved = |world: &World| {
        let Some(Group::Consumer(group)) = world.shell.machine().groups.get(GROUP) else { panic!("a group") };
        group.all_resolved().keys().map(|regex| regex.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(resolved(&world), ["t.*"]);
    beat("a", -1).ok(&mut world);
    assert_eq!(resolved(&world), ["t.*"]);
    // Names and an expression together.
    let (epoch, owns) = beat("b", 3).regex("").topics(&["t0"]).ok(&mut world);
    assert_eq!(owns, Some(vec![(0, vec![0, 1, 2])]));
    assert_eq!(resolved(&world), Vec::<String>::new(), "nobody has it any more");
    beat("b", epoch).regex("t1").ok(&mut world);
    world.pass_ms(0);
    let (_, owns) = beat("b", epoch).ok(&mut world);
    assert_eq!(owns, Some(vec![(0, vec![0, 1, 2]), (1, vec![0, 1, 2])]));
    beat("b", -1).ok(&mut world);
    assert_eq!(resolved(&world), Vec::<String>::new());
    assert_eq!(world.group_state().0, "Empty");
}

#[test]
fn expressions_are_looked_at_again_after_the_interval() {
    let mut world = World::with("group.consumer.regex.refresh.interval.ms=20000");
    regex_join("a", "t.*").ok(&mut world);
    world.pass_ms(0);
    beat("a", 1).ok(&mut world);
    let version = |world: &World| {
        let Some(Group::Consumer(group)) = world.shell.machine().groups.get(GROUP) else { panic!("a group") };
        group.resolved("t.*").expect("resolved").timestamp_ms
    };
    let first = version(&world);
    for step in 1..=5 {
        world.pass_ms(5_000);
        beat("a", 2).ok(&mut world);
        world.pass_ms(0);
        assert_eq!(version(&world) > first, step == 5, "step {step}");
    }
    check(&world);
}
