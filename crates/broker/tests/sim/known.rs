//! What the members of all groups know together, and what must be true of it at every moment.

use crate::members::{FLIPPING, MIXED};
use std::collections::BTreeMap;

/// A partition as one group sees it.
pub type Place = (&'static str, i32);

/// Who has a partition, as far as it can tell itself.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its instance or member id.
    pub name: String,
    /// Generation or member epoch in which it was told.
    pub epoch: i32,
    /// Before this moment the broker cannot have given up on it, in ns.
    pub alive_until_ns: u64,
}

/// The members' common knowledge. Each of its functions checks what it is told.
#[derive(Default)]
pub struct Known {
    /// No committed offset may be read below this: it was acknowledged, or read before.
    floor: BTreeMap<Place, i64>,
    /// The highest offset that was ever sent.
    sent: BTreeMap<Place, i64>,
    /// Owner of a partition in a generation or epoch.
    owners: BTreeMap<(Place, i32), String>,
    holders: BTreeMap<Place, Owner>,
    /// No more pauses and departures.
    pub calm: bool,
    /// Acknowledged commits.
    pub commits: u64,
    /// Assignments taken.
    pub takes: u64,
}

impl Known {
    /// A member was told that a partition is its own.
    pub fn takes(&mut self, place: Place, owner: Owner, now_ns: u64) {
        self.takes += 1;
        // A group that changes its protocol while it is empty begins to count anew.
        if ![MIXED, FLIPPING].contains(&place.0) {
            let first = self.owners.entry((place, owner.epoch)).or_insert_with(|| owner.name.clone());
            assert_eq!(*first, owner.name, "{place:?} has two owners in epoch {}", owner.epoch);
        }
        if let Some(before) = self.holders.insert(place, owner.clone()) {
            let is_over = before.name == owner.name || before.alive_until_ns <= now_ns || place.0 == FLIPPING;
            assert!(is_over, "{place:?} goes to {owner:?} at {now_ns} while {before:?} has it");
        }
    }

    /// A member gave up a partition.
    pub fn releases(&mut self, place: Place, name: &str) {
        if self.holders.get(&place).is_some_and(|holder| holder.name == name) {
            self.holders.remove(&place);
        }
    }

    /// The broker acknowledged that a member is alive.
    pub fn is_alive(&mut self, name: &str, alive_until_ns: u64) {
        for holder in self.holders.values_mut().filter(|holder| holder.name == name) {
            holder.alive_until_ns = holder.alive_until_ns.max(alive_until_ns);
        }
    }

    /// A commit is about to be sent.
    pub fn sends(&mut self, place: Place, offset: i64) {
        let sent = self.sent.entry(place).or_insert(-1);
        *sent = (*sent).max(offset);
    }

    /// A commit was acknowledged.
    pub fn acknowledged(&mut self, place: Place, offset: i64) {
        let floor = self.floor.entry(place).or_insert(-1);
        *floor = (*floor).max(offset);
        self.commits += 1;
    }

    /// Below this no committed offset may be read from now on; -1 before the first commit.
    pub fn floor(&self, place: Place) -> i64 {
        self.floor.get(&place).copied().unwrap_or(-1)
    }

    /// A committed offset was read; `floor` held when it was asked for.
    pub fn reads(&mut self, place: Place, offset: i64, floor: i64) {
        let sent = self.sent.get(&place).copied().unwrap_or(-1);
        assert!(floor <= offset && offset <= sent, "{place:?} is at {offset}, not in {floor}..={sent}");
        let known = self.floor.entry(place).or_insert(-1);
        *known = (*known).max(offset);
    }

    /// Who holds what.
    pub fn map(&self) -> BTreeMap<Place, String> {
        self.holders.iter().map(|(place, holder)| (*place, holder.name.clone())).collect()
    }
}
