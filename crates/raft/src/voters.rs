use std::collections::BTreeMap;
use std::fmt;

use base::{Offset, Uuid};

use crate::{KRAFT_VERSION_DYNAMIC, KRAFT_VERSION_STATIC};

/// One listener of a voter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// Listener name.
    pub name: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Who a replica of the metadata log is. With static voters the directory is unknown and [`Uuid::ZERO`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReplicaKey {
    /// `node.id`.
    pub id: i32,
    /// Id of the log directory.
    pub directory_id: Uuid,
}

/// One voter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// Who.
    pub key: ReplicaKey,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// Lowest and highest `kraft.version` it supports.
    pub kraft_versions: (i16, i16),
}

impl Voter {
    /// A voter of this software.
    pub fn new(key: ReplicaKey, endpoints: Vec<Endpoint>) -> Voter {
        Voter { key, endpoints, kraft_versions: (KRAFT_VERSION_STATIC, KRAFT_VERSION_DYNAMIC) }
    }
}

/// The voters of a quorum, by id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VoterSet {
    voters: BTreeMap<i32, Voter>,
}

impl VoterSet {
    /// A set of `voters`; of two with one id the later counts.
    pub fn new(voters: impl IntoIterator<Item = Voter>) -> VoterSet {
        VoterSet { voters: voters.into_iter().map(|voter| (voter.key.id, voter)).collect() }
    }

    /// The voter with this id.
    pub fn get(&self, id: i32) -> Option<&Voter> {
        self.voters.get(&id)
    }

    /// True when `key` is a voter. A side that does not know its directory matches any.
    pub fn contains(&self, key: ReplicaKey) -> bool {
        self.voters.get(&key.id).is_some_and(|voter| {
            voter.key.directory_id == key.directory_id || voter.key.directory_id.is_zero() || key.directory_id.is_zero()
        })
    }

    /// All voters in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.values()
    }

    /// Number of voters.
    pub fn len(&self) -> usize {
        self.voters.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty()
    }

    /// How many make a majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The set with `voter` in the place of the one that has its id.
    #[must_use]
    pub fn with(&self, voter: Voter) -> VoterSet {
        let mut set = self.clone();
        set.voters.insert(voter.key.id, voter);
        set
    }
}

impl fmt::Display for VoterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (i, voter) in self.voters.values().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, voter.key.id)?;
            if !voter.key.directory_id.is_zero() {
                write!(f, "-{}", voter.key.directory_id)?;
            }
        }
        write!(f, "]")
    }
}

/// A value that control records set, as a function of the offset: what held at an offset is what the last record before
/// it said.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    initial: Option<T>,
    changes: BTreeMap<Offset, T>,
}

impl<T: Clone> History<T> {
    pub(crate) fn new(initial: Option<T>) -> History<T> {
        History { initial, changes: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, offset: Offset, value: T) {
        self.changes.insert(offset, value);
    }

    pub(crate) fn last(&self) -> Option<(Offset, &T)> {
        match self.changes.last_key_value() {
            Some((offset, value)) => Some((*offset, value)),
            None => self.initial.as_ref().map(|value| (-1, value)),
        }
    }

    /// The value after all records below `end`.
    pub(crate) fn before(&self, end: Offset) -> Option<&T> {
        self.changes.range(..end).next_back().map(|(_, value)| value).or(self.initial.as_ref())
    }

    /// Forgets what was replaced before `start`.
    pub(crate) fn trim_before(&mut self, start: Offset) {
        let Some(keep) = self.changes.range(..start).next_back().map(|(offset, _)| *offset) else { return };
        self.changes = self.changes.split_off(&keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_answers_for_every_offset() {
        let mut history = History::new(Some('a'));
        history.set(10, 'b');
        history.set(20, 'c');
        for (end, expect) in [(0, 'a'), (10, 'a'), (11, 'b'), (20, 'b'), (21, 'c'), (99, 'c')] {
            assert_eq!(history.before(end), Some(&expect), "before {end}");
        }
        history.trim_before(15);
        assert_eq!(history.before(15), Some(&'b'));
        history.trim_before(21);
        assert_eq!(history.last(), Some((20, &'c')));
    }

    #[test]
    fn a_static_voter_matches_any_directory() {
        let key = |id, dir| ReplicaKey { id, directory_id: Uuid::from_u128(dir) };
        let set = VoterSet::new([Voter::new(key(1, 0), vec![]), Voter::new(key(2, 7), vec![])]);
        assert!(set.contains(key(1, 5)) && set.contains(key(2, 7)) && set.contains(key(2, 0)));
        assert!(!set.contains(key(2, 8)) && !set.contains(key(3, 0)));
        assert_eq!(set.majority(), 2);
    }
}
