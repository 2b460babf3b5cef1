//! Which brokers are alive: soft state, rebuilt by every controller that starts.

use std::collections::BTreeMap;

use base::{BrokerId, Now, Offset};

/// Where a broker stands with the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BrokerState {
    Fenced,
    Unfenced,
    ControlledShutdown,
    ShutdownNow,
}

impl BrokerState {
    /// True when the broker leads nothing and serves nobody.
    pub(crate) fn is_fenced(self) -> bool {
        matches!(self, BrokerState::Fenced | BrokerState::ShutdownNow)
    }
}

/// What a broker says of itself in a heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) metadata_offset: Offset,
    pub(crate) want_fence: bool,
    pub(crate) want_shut_down: bool,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    fenced: bool,
    /// Up to where the broker has applied metadata; -1 when unknown.
    metadata_offset: Offset,
    /// Offset that the others have to reach before the broker may stop.
    shutdown_offset: Option<Offset>,
}

/// Heartbeats of all registered brokers.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeats {
    session_ns: u64,
    beats: BTreeMap<BrokerId, Beat>,
    /// Broker epoch and time of the last contact.
    contacts: BTreeMap<BrokerId, (i64, u64)>,
}

impl Heartbeats {
    pub(crate) fn new(session_timeout_ms: u32) -> Heartbeats {
        let session_ns = u64::from(session_timeout_ms) * 1_000_000;
        Heartbeats { session_ns, beats: BTreeMap::new(), contacts: BTreeMap::new() }
    }

    /// Notes that the broker was heard from.
    pub(crate) fn contact(&mut self, broker: BrokerId, epoch: i64, now: Now) {
        self.contacts.insert(broker, (epoch, now.mono_ns));
    }

    /// Notes that the broker is leaving: its next incarnation need not wait.
    pub(crate) fn end_session(&mut self, broker: BrokerId) {
        self.contacts.remove(&broker);
    }

    /// True when this incarnation of the broker was heard from within the session timeout.
    pub(crate) fn has_session(&self, broker: BrokerId, epoch: i64, now: Now) -> bool {
        self.contacts
            .get(&broker)
            .is_some_and(|(of, at)| *of == epoch && at.saturating_add(self.session_ns) >= now.mono_ns)
    }

    /// The broker that has been silent longest, if it is longer than the session timeout; its contact is forgotten.
    pub(crate) fn take_expired(&mut self, now: Now) -> Option<(BrokerId, i64)> {
        let (broker, (epoch, at)) = self.contacts.iter().min_by_key(|(_, (_, at))| *at)?;
        if at.saturating_add(self.session_ns) >= now.mono_ns {
            return None;
        }
        let expired = (*broker, *epoch);
        self.contacts.remove(&expired.0);
        Some(expired)
    }

    /// When the next broker may expire, monotonic ns.
    pub(crate) fn next_expiry_ns(&self) -> Option<u64> {
        self.contacts.values().map(|(_, at)| at.saturating_add(self.session_ns).saturating_add(1)).min()
    }

    /// Takes in that the log says the broker is fenced or not.
    pub(crate) fn register(&mut self, broker: BrokerId, fenced: bool) {
        let known = self.beats.get(&broker).copied();
        // A broker whose fencing changed keeps its place; one that registers anew has applied nothing yet.
        let metadata_offset = known.filter(|beat| beat.fenced != fenced).map_or(-1, |beat| beat.metadata_offset);
        self.touch(broker, fenced, metadata_offset);
    }

    pub(crate) fn touch(&mut self, broker: BrokerId, fenced: bool, metadata_offset: Offset) {
        let shutdown_offset = self.beats.get(&broker).and_then(|beat| beat.shutdown_offset).filter(|_| !fenced);
        self.beats.insert(broker, Beat { fenced, metadata_offset, shutdown_offset });
    }

    pub(crate) fn remove(&mut self, broker: BrokerId) {
        self.beats.remove(&broker);
    }

    /// The offset that the others have to reach before this broker may stop.
    pub(crate) fn begin_shutdown(&mut self, broker: BrokerId, offset: Offset) {
        if let Some(beat) = self.beats.get_mut(&broker).filter(|beat| !beat.fenced) {
            beat.shutdown_offset.get_or_insert(offset);
        }
    }

    pub(crate) fn is_shutting_down(&self, broker: BrokerId) -> bool {
        self.beats.get(&broker).is_some_and(|beat| beat.shutdown_offset.is_some())
    }

    pub(crate) fn state(&self, broker: BrokerId) -> BrokerState {
        match self.beats.get(&broker) {
            Some(Beat { shutdown_offset: Some(_), .. }) => BrokerState::ControlledShutdown,
            Some(Beat { fenced: false, .. }) => BrokerState::Unfenced,
            _ => BrokerState::Fenced,
        }
    }

    /// The state after a heartbeat. `registered_at` is the offset of the broker's registration; it may serve once it has
    /// applied that.
    pub(crate) fn next_state(
        &self,
        broker: BrokerId,
        wish: Wish,
        registered_at: Offset,
        leads: impl Fn() -> bool,
    ) -> BrokerState {
        match self.state(broker) {
            BrokerState::Fenced if wish.want_shut_down => BrokerState::ShutdownNow,
            BrokerState::Fenced if !wish.want_fence && wish.metadata_offset >= registered_at => BrokerState::Unfenced,
            BrokerState::Fenced => BrokerState::Fenced,
            BrokerState::Unfenced if wish.want_fence && wish.want_shut_down => BrokerState::ShutdownNow,
            BrokerState::Unfenced if wish.want_fence => BrokerState::Fenced,
            BrokerState::Unfenced if wish.want_shut_down && leads() => BrokerState::ControlledShutdown,
            BrokerState::Unfenced if wish.want_shut_down => BrokerState::ShutdownNow,
            BrokerState::Unfenced => BrokerState::Unfenced,
            BrokerState::ControlledShutdown if !leads() && self.others_have_caught_up(broker) => {
                BrokerState::ShutdownNow
            }
            BrokerState::ControlledShutdown => BrokerState::ControlledShutdown,
            BrokerState::ShutdownNow => BrokerState::ShutdownNow,
        }
    }

    /// True when every serving broker has applied the change that took this broker's leaderships away.
    fn others_have_caught_up(&self, broker: BrokerId) -> bool {
        let wanted = self.beats.get(&broker).and_then(|beat| beat.shutdown_offset).unwrap_or(0);
        self.beats
            .values()
            .filter(|beat| !beat.fenced && beat.shutdown_offset.is_none())
            .all(|beat| beat.metadata_offset >= wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { mono_ns: 1_000_000_000, wall_ms: 0 };

    fn wish(metadata_offset: Offset, want_fence: bool, want_shut_down: bool) -> Wish {
        Wish { metadata_offset, want_fence, want_shut_down }
    }

    #[test]
    fn a_broker_walks_through_its_states() {
        use BrokerState::*;
        let mut beats = Heartbeats::new(1_000);
        beats.register(1, true);
        for (asked, leads, expect) in [
            (wish(4, false, false), false, Fenced),
            (wish(5, false, false), false, Unfenced),
            (wish(5, true, false), false, Fenced),
            (wish(5, false, true), true, ShutdownNow),
        ] {
            assert_eq!(beats.next_state(1, asked, 5, || leads), expect, "fenced, {asked:?}");
        }
        beats.touch(1, false, 5);
        for (asked, leads, expect) in [
            (wish(5, false, false), true, Unfenced),
            (wish(5, true, false), true, Fenced),
            (wish(5, true, true), true, ShutdownNow),
            (wish(5, false, true), true, ControlledShutdown),
            (wish(5, false, true), false, ShutdownNow),
        ] {
            assert_eq!(beats.next_state(1, asked, 5, || leads), expect, "unfenced, {asked:?}");
        }
        beats.begin_shutdown(1, 9);
        beats.register(2, false);
        beats.touch(2, false, 8);
        let asked = wish(5, false, true);
        assert_eq!(beats.next_state(1, asked, 5, || true), ControlledShutdown);
        assert_eq!(beats.next_state(1, asked, 5, || false), ControlledShutdown, "broker 2 is behind");
        beats.touch(2, false, 9);
        assert_eq!(beats.next_state(1, asked, 5, || false), ShutdownNow);
        beats.touch(1, true, 9);
        assert!(!beats.is_shutting_down(1), "a fenced broker has left its shutdown");
    }

    #[test]
    fn silence_ends_a_session() {
        let mut beats = Heartbeats::new(1_000);
        beats.contact(1, 7, NOW);
        beats.contact(2, 8, NOW.plus_ms(500));
        assert!(beats.has_session(1, 7, NOW.plus_ms(1_000)) && !beats.has_session(1, 6, NOW));
        assert_eq!(beats.take_expired(NOW.plus_ms(1_000)), None);
        assert_eq!(beats.next_expiry_ns(), Some(NOW.plus_ms(1_000).mono_ns + 1));
        assert_eq!(beats.take_expired(NOW.plus_ms(1_001)), Some((1, 7)));
        assert_eq!(beats.take_expired(NOW.plus_ms(1_001)), None);
        assert_eq!(beats.take_expired(NOW.plus_ms(2_000)), Some((2, 8)));
    }
}
