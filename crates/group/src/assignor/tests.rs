use base::{Prng, Uuid};

use super::*;

/// A group written as text: topics by partition count, members as `id[/instance] topics...`.
struct Case {
    topics: Vec<TopicSpec>,
    members: Vec<(String, Option<String>, Vec<usize>)>,
}

fn topic(index: usize) -> TopicId {
    Uuid::from_u128(0x1000 + index as u128)
}

impl Case {
    fn new(partitions: &[usize], members: &[(&str, Option<&str>, &[usize])]) -> Case {
        let topics = partitions.iter().enumerate().map(|(i, n)| TopicSpec { id: topic(i), partitions: *n }).collect();
        let own = |(id, instance, topics): &(&str, Option<&str>, &[usize])| {
            (id.to_string(), instance.map(str::to_owned), topics.to_vec())
        };
        Case { topics, members: members.iter().map(own).collect() }
    }

    fn random(prng: &mut Prng, equal: bool) -> Case {
        let mut below = |bound: u64| prng.below(bound) as usize;
        let topics: Vec<TopicSpec> =
            (0..1 + below(8)).map(|i| TopicSpec { id: topic(i), partitions: 1 + below(20) }).collect();
        let all: Vec<usize> = (0..topics.len()).collect();
        let members = (0..1 + below(12)).map(|i| {
            let some: Vec<usize> = all.iter().copied().filter(|_| equal || below(2) == 0).collect();
            (format!("m{i:02}"), (below(3) == 0).then(|| format!("i{:02}", 50 - i)), some)
        });
        Case { members: members.collect(), topics }
    }

    fn assign(&self, assignor: Assignor, owned: &[Partitions]) -> Vec<Partitions> {
        let members = self.members.iter().zip(owned).map(|((id, instance, topics), owned)| MemberSpec {
            member_id: id,
            instance_id: instance.as_deref(),
            topics,
            owned,
        });
        let members: Vec<MemberSpec<'_>> = members.collect();
        assignor.assign(&GroupSpec { topics: &self.topics, members: &members })
    }

    /// Each partition that somebody subscribes to has one owner, who subscribes to it.
    fn check(&self, targets: &[Partitions], said: &str) {
        assert_eq!(targets.len(), self.members.len(), "{said}");
        let mut found: Vec<(TopicId, i32)> = Vec::new();
        for ((id, _, topics), target) in self.members.iter().zip(targets) {
            for (owned, partition) in target.iter() {
                assert!(topics.iter().any(|t| topic(*t) == owned), "{said}: {id} has {owned}-{partition}");
                found.push((owned, partition));
            }
        }
        found.sort_unstable();
        let wanted = self.topics.iter().enumerate().filter(|(i, _)| self.members.iter().any(|m| m.2.contains(i)));
        let wanted: Vec<(TopicId, i32)> =
            wanted.flat_map(|(_, t)| (0..t.partitions as i32).map(move |p| (t.id, p))).collect();
        assert_eq!(found, wanted, "{said}");
    }
}

fn kept(before: &[Partitions], after: &[Partitions]) -> usize {
    before.iter().zip(after).map(|(b, a)| b.iter().filter(|(t, p)| a.contains(*t, *p)).count()).sum()
}

fn sizes(targets: &[Partitions]) -> (usize, usize) {
    let sizes = targets.iter().map(Partitions::len);
    (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0))
}

#[test]
fn ranges_are_cut_in_order_of_instances_then_members() {
    // (partitions of topics, members, expected as topic:partitions)
    let all: &[usize] = &[0, 1];
    type Row<'a> = (&'a [usize], &'a [(&'a str, Option<&'a str>, &'a [usize])], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (&[3, 3], &[("a", None, all), ("b", None, all)], &["0:0,1 1:0,1", "0:2 1:2"]),
        (&[3, 3], &[("a", Some("z"), all), ("b", Some("y"), all)], &["0:2 1:2", "0:0,1 1:0,1"]),
        (&[3, 3], &[("a", None, all), ("b", Some("y"), all)], &["0:2 1:2", "0:0,1 1:0,1"]),
        (&[2, 3], &[("a", None, &[0]), ("b", None, &[1]), ("c", None, all)], &["0:0", "1:0,1", "0:1 1:2"]),
        (&[1, 1], &[("a", None, all), ("b", None, all), ("c", None, &[])], &["0:0 1:0", "", ""]),
        (&[4, 2], &[("a", None, &[0])], &["0:0,1,2,3"]),
    ];
    for (partitions, members, expected) in rows {
        let case = Case::new(partitions, members);
        let targets = case.assign(Assignor::Range, &vec![Partitions::EMPTY; members.len()]);
        let text = |target: &Partitions| {
            let one = |(id, ps): (TopicId, &[i32])| {
                let ps: Vec<String> = ps.iter().map(i32::to_string).collect();
                format!("{}:{}", u128::from_be_bytes(*id.as_bytes()) - 0x1000, ps.join(","))
            };
            target.topics().map(one).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(targets.iter().map(text).collect::<Vec<_>>(), *expected, "{partitions:?} {members:?}");
    }
}

#[test]
fn every_partition_has_one_owner_and_what_is_balanced_stays() {
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let equal = prng.chance(1, 2);
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let said = format!("seed {seed} {assignor:?}");
            let mut case = Case::random(&mut prng, equal);
            let mut owned = vec![Partitions::EMPTY; case.members.len()];
            for step in 0..6 {
                let targets = case.assign(assignor, &owned);
                case.check(&targets, &said);
                assert_eq!(case.assign(assignor, &targets), targets, "{said} step {step}: not stable");
                if assignor == Assignor::Uniform && equal {
                    let (min, max) = sizes(&targets);
                    assert!(max - min <= 1, "{said} step {step}: {min} to {max}");
                    // Nobody at or below its share loses anything.
                    let before: usize = owned.iter().map(|o| o.len().min(max)).sum();
                    let possible = before.min(targets.iter().map(Partitions::len).sum());
                    assert!(kept(&owned, &targets) + case.members.len() >= possible, "{said} step {step}");
                }
                owned = targets;
                if prng.chance(1, 2) && case.members.len() > 1 {
                    let gone = prng.below(case.members.len() as u64) as usize;
                    case.members.remove(gone);
                    owned.remove(gone);
                } else {
                    let subscription = case.members[0].2.clone();
                    case.members.push((format!("n{step}"), None, subscription));
                    owned.push(Partitions::EMPTY);
                }
            }
        }
    }
}

#[test]
fn larger_shares_stay_with_those_who_have_them() {
    // Five partitions, two members: the second one has three. Kafka's order of members could give the third to the first.
    let case = Case::new(&[5], &[("a", None, &[0]), ("b", None, &[0])]);
    let owned =
        [[0, 1].map(|p| (topic(0), p)).into_iter().collect(), [2, 3, 4].map(|p| (topic(0), p)).into_iter().collect()];
    assert_eq!(case.assign(Assignor::Uniform, &owned), owned);
}

#[test]
fn claims_that_cannot_be_are_dropped() {
    let case = Case::new(&[2], &[("a", None, &[0]), ("b", None, &[0])]);
    let strange: Partitions = [(topic(0), 0), (topic(0), 9), (topic(7), 0)].into_iter().collect();
    let targets = case.assign(Assignor::Uniform, &[strange.clone(), strange]);
    case.check(&targets, "both claim partition 0");
    assert!(targets[0].contains(topic(0), 0));
}

#[test]
fn different_subscriptions_are_evened_out() {
    // The subscriber of the small topic alone has less than the others; what can be shared is.
    let case = Case::new(&[9, 3], &[("a", None, &[0]), ("b", None, &[0, 1]), ("c", None, &[1])]);
    let mut owned = vec![Partitions::EMPTY; 3];
    owned[1] = (0..9).map(|p| (topic(0), p)).chain((0..3).map(|p| (topic(1), p))).collect();
    let targets = case.assign(Assignor::Uniform, &owned);
    case.check(&targets, "mixed");
    assert_eq!(targets.iter().map(Partitions::len).collect::<Vec<_>>(), [5, 4, 3]);
}
