//! A member of a consumer group as a value.

use std::sync::Arc;

use crate::assignor::Partitions;
use crate::classic::Protocol;
use crate::consumer::owned::Owned;

/// A static member that left for a while and may come back (KIP-848's epoch of such a leave).
pub(crate) const STATIC_LEAVE_EPOCH: i32 = -2;
/// A member that leaves for good.
pub(crate) const LEAVE_EPOCH: i32 = -1;

/// How far a member has come on the way to its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum MemberState {
    /// It has what it shall have.
    #[default]
    Stable,
    /// It must give up partitions before it moves on.
    UnrevokedPartitions,
    /// It waits for partitions that others have not given up.
    UnreleasedPartitions,
    /// A state that a newer broker wrote.
    Unknown(i8),
}

impl MemberState {
    /// The number in records.
    pub fn value(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown(value) => value,
        }
    }

    /// From the number in a record.
    pub fn from_value(value: i8) -> MemberState {
        match value {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            value => MemberState::Unknown(value),
        }
    }
}

/// What a member subscribes to. Members of a group that subscribe alike share one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Subscription {
    /// Topics by name, sorted, each once.
    pub names: Box<[Arc<str>]>,
    /// Regular expression in RE2 syntax; empty for none.
    pub regex: Arc<str>,
}

impl Subscription {
    /// Of names in any order.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, regex: Arc<str>) -> Subscription {
        let names: std::collections::BTreeSet<&str> = names.into_iter().collect();
        Subscription { names: names.into_iter().map(Arc::from).collect(), regex }
    }

    /// The regular expression; `None` for none.
    pub fn regex(&self) -> Option<&Arc<str>> {
        (!self.regex.is_empty()).then_some(&self.regex)
    }

    /// True when these names, in any order and perhaps repeated, are the names subscribed to.
    pub fn has_names<S: AsRef<str>>(&self, names: &[S]) -> bool {
        let known = |name: &S| self.names.binary_search_by(|own| (**own).cmp(name.as_ref())).is_ok();
        let sorted = names.windows(2).all(|pair| pair[0].as_ref() < pair[1].as_ref());
        if sorted || names.len() <= 1 {
            return names.len() == self.names.len() && names.iter().all(known);
        }
        let distinct: std::collections::BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
        distinct.len() == self.names.len() && names.iter().all(known)
    }
}

/// `client.id` and address of a member, as one piece of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClientName {
    text: Arc<str>,
    id_bytes: u32,
}

impl ClientName {
    /// Of an id and an address.
    pub fn new(id: &str, host: &str) -> ClientName {
        ClientName { text: Arc::from([id, host].concat()), id_bytes: id.len() as u32 }
    }

    /// `client.id`.
    pub fn id(&self) -> &str {
        &self.text[..self.id_bytes as usize]
    }

    /// The address as Kafka shows it.
    pub fn host(&self) -> &str {
        &self.text[self.id_bytes as usize..]
    }
}

impl Default for ClientName {
    fn default() -> ClientName {
        ClientName::new("", "")
    }
}

/// What only a member that speaks the classic protocol has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClassicMember {
    /// Its session timeout, ms.
    pub session_timeout_ms: i32,
    /// The protocols it supports, most wanted first, with its metadata for each.
    pub protocols: Box<[Protocol]>,
}

/// The hard state of a member: what records say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Member {
    /// The epoch it is in.
    pub epoch: i32,
    /// The epoch it was in before; a request with it is a retry.
    pub previous_epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// How long it may take to give partitions up, ms.
    pub rebalance_timeout_ms: i32,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// Who it is.
    pub client: ClientName,
    /// What it subscribes to.
    pub subscription: Arc<Subscription>,
    /// The assignor it prefers.
    pub assignor: Option<Arc<str>>,
    /// Set when it speaks the classic protocol.
    pub classic: Option<Arc<ClassicMember>>,
    /// What it has.
    pub assigned: Owned,
    /// What it must give up.
    pub revoking: Owned,
    /// What it shall have; `None` until the first assignment.
    pub target: Option<Partitions>,
}

impl Member {
    /// A member of which nothing is known yet.
    pub fn new() -> Member {
        Member { previous_epoch: -1, rebalance_timeout_ms: -1, ..Member::default() }
    }

    /// What it shall have.
    pub fn target(&self) -> &Partitions {
        self.target.as_ref().unwrap_or(&Partitions::EMPTY)
    }

    /// True when it has arrived at the target of this epoch.
    pub fn is_reconciled_to(&self, assignment_epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == assignment_epoch
    }

    /// True when it speaks the classic protocol.
    pub fn is_classic(&self) -> bool {
        self.classic.is_some()
    }

    /// Moves to an epoch; the present one becomes the previous one.
    pub fn advance(&mut self, epoch: i32) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
    }

    /// True when the part of it that the member metadata record holds is the same.
    pub fn has_same_metadata(&self, other: &Member) -> bool {
        self.rebalance_timeout_ms == other.rebalance_timeout_ms
            && self.instance_id == other.instance_id
            && self.rack_id == other.rack_id
            && self.client == other.client
            && self.subscription == other.subscription
            && self.assignor == other.assignor
            && self.classic == other.classic
    }

    /// Bytes on the heap that are this member's own, for accounting.
    #[cfg(test)]
    pub fn heap_bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len() + 16);
        let target = self.target();
        let shared = if target == self.assigned.partitions() { target.heap_bytes() } else { 0 };
        self.client.text.len()
            + 16
            + text(&self.instance_id)
            + text(&self.rack_id)
            + text(&self.assignor)
            + self.assigned.heap_bytes()
            + self.revoking.heap_bytes()
            + target.heap_bytes()
            - shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_set() {
        let subscription = Subscription::new(["b", "a", "b"], Arc::from(""));
        assert_eq!(subscription.names.iter().map(|n| &**n).collect::<Vec<_>>(), ["a", "b"]);
        for (names, same) in [
            (&["a", "b"][..], true),
            (&["b", "a"], true),
            (&["b", "a", "a"], true),
            (&["a", "a"], false),
            (&["a"], false),
            (&["a", "c"], false),
            (&["a", "b", "c"], false),
            (&[], false),
        ] {
            assert_eq!(subscription.has_names(names), same, "{names:?}");
        }
        assert!(Subscription::default().has_names::<&str>(&[]));
    }

    #[test]
    fn a_client_is_two_texts_in_one() {
        let client = ClientName::new("id", "/127.0.0.1");
        assert_eq!((client.id(), client.host()), ("id", "/127.0.0.1"));
        assert_ne!(ClientName::new("ab", "c"), ClientName::new("a", "bc"));
    }
}
