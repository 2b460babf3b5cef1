//! The uniform assignor for members with equal subscriptions: sizes differ by at most one, and as few partitions move as
//! that allows.

use super::{GroupSpec, NOBODY, Owners, Partitions};

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let Some(first) = group.members.first() else { return Vec::new() };
    let total: usize = first.topics.iter().map(|topic| group.topics[*topic].partitions).sum();
    let mut owners = Owners::kept(group);
    let quotas = quotas(&owners.counts, total);
    release_above(&mut owners, &quotas);
    fill(group, first.topics, &mut owners, &quotas);
    owners.into_targets(group)
}

/// How many partitions each member shall have. Where the total does not divide evenly, the larger shares go first to those
/// who have that much already: nothing of theirs moves.
fn quotas(counts: &[usize], total: usize) -> Vec<usize> {
    let (each, mut extra) = (total / counts.len(), total % counts.len());
    let mut quotas = vec![each; counts.len()];
    for has_more in [true, false] {
        for (quota, count) in quotas.iter_mut().zip(counts) {
            if extra > 0 && (*count > each) == has_more {
                *quota += 1;
                extra -= 1;
            }
        }
    }
    quotas
}

/// Takes from each member what is above its quota, the last partitions first.
fn release_above(owners: &mut Owners, quotas: &[usize]) {
    let Owners { by_topic, counts } = owners;
    for owner in by_topic.iter_mut().rev().flat_map(|partitions| partitions.iter_mut().rev()) {
        let member = *owner as usize;
        if *owner != NOBODY && counts[member] > quotas[member] {
            counts[member] -= 1;
            *owner = NOBODY;
        }
    }
}

/// Gives what is free to the members below their quota, one member after the other.
fn fill(group: &GroupSpec<'_>, topics: &[usize], owners: &mut Owners, quotas: &[usize]) {
    let Owners { by_topic, counts } = owners;
    let mut member = 0;
    for topic in topics {
        for owner in by_topic[*topic].iter_mut().filter(|owner| **owner == NOBODY) {
            while counts[member] == quotas[member] {
                member += 1;
                assert!(member < group.members.len(), "the quotas add up to all partitions");
            }
            *owner = member as u32;
            counts[member] += 1;
        }
    }
}
