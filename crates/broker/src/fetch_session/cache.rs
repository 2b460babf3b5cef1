use super::{Cached, FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PartitionAnswer, PartitionFetch, Session, next_epoch};
use base::Prng;
use std::collections::{BTreeMap, HashMap};

/// Bounds of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheLimits {
    /// Sessions held at once: this core's share of `max.incremental.fetch.session.cache.slots`.
    pub slots: usize,
    /// A session not used, or not new, for longer than this may be evicted
    /// (`min.incremental.fetch.session.eviction.ms`).
    pub eviction_ms: u64,
    /// Ids of this cache are `residue` modulo `modulus`, so that an id tells which core holds the session.
    pub modulus: i32,
    /// See `modulus`.
    pub residue: i32,
}

#[derive(Debug)]
struct Slot {
    used_ms: u64,
    size: usize,
    privileged: bool,
    created_ms: u64,
    /// `None` while a fetch uses it.
    session: Option<Box<Session>>,
}

/// The sessions of one core.
#[derive(Debug)]
pub struct SessionCache {
    limits: CacheLimits,
    prng: Prng,
    slots: HashMap<i32, Slot>,
}

/// What a fetch request of some session id and epoch gets.
#[derive(Debug)]
pub enum Taken {
    /// The session, at its next epoch; to be put back with [`SessionCache::put_back`].
    Session(Box<Session>),
    /// No session of this id: FETCH_SESSION_ID_NOT_FOUND.
    NotFound,
    /// The epoch is not the expected one, or a fetch of this session is running: INVALID_FETCH_SESSION_EPOCH.
    WrongEpoch,
    /// The session uses names and the request ids, or the other way round: FETCH_SESSION_TOPIC_ID_ERROR.
    TopicIdsDiffer,
}

impl SessionCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits, prng: Prng) -> SessionCache {
        assert!(limits.modulus > limits.residue && limits.residue >= 0, "residue {limits:?}");
        SessionCache { limits, prng, slots: HashMap::new() }
    }

    /// Sessions held, those in use included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when no session is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Partitions in sessions, for metrics.
    pub fn partitions(&self) -> usize {
        self.slots.values().map(|slot| slot.size).sum()
    }

    /// Ends a session, if it is there: a full fetch that names one does.
    pub fn remove(&mut self, id: i32) {
        self.slots.remove(&id);
    }

    /// Takes a session out for one incremental fetch.
    pub fn take(&mut self, id: i32, epoch: i32, by_topic_id: bool, now_ms: u64) -> Taken {
        assert!(epoch != INITIAL_EPOCH && epoch != FINAL_EPOCH, "a full fetch takes no session");
        let Some(slot) = self.slots.get_mut(&id) else { return Taken::NotFound };
        let Some(session) = slot.session.as_mut().filter(|session| session.epoch == epoch) else {
            return Taken::WrongEpoch;
        };
        if session.by_topic_id != by_topic_id {
            return Taken::TopicIdsDiffer;
        }
        session.epoch = next_epoch(epoch);
        slot.used_ms = now_ms;
        Taken::Session(slot.session.take().expect("just looked at"))
    }

    /// Puts a session back after its fetch. One that was ended or emptied in the meantime is dropped.
    pub fn put_back(&mut self, session: Box<Session>, now_ms: u64) {
        let id = session.id;
        if session.is_empty() {
            self.slots.remove(&id);
            return;
        }
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.session.is_none()
            && slot.created_ms == session.created_ms
        {
            slot.used_ms = now_ms;
            slot.size = session.len();
            slot.session = Some(session);
        }
    }

    /// Makes a session out of a full fetch and its answers. Returns its id, or 0 when there is no room.
    pub fn create(
        &mut self,
        answered: Vec<(PartitionFetch, PartitionAnswer)>,
        by_topic_id: bool,
        privileged: bool,
        now_ms: u64,
    ) -> i32 {
        if answered.is_empty() || !self.make_room(answered.len(), privileged, now_ms) {
            return NO_SESSION;
        }
        let id = self.new_id();
        let mut session = Session {
            id,
            epoch: next_epoch(INITIAL_EPOCH),
            by_topic_id,
            privileged,
            created_ms: now_ms,
            order: BTreeMap::new(),
            index: HashMap::new(),
            next: 0,
        };
        for (fetch, answer) in answered {
            session.push(Cached {
                topic: fetch.topic,
                name: fetch.name,
                partition: fetch.partition,
                ask: fetch.ask,
                high_watermark: answer.high_watermark,
                log_start_offset: answer.log_start_offset,
            });
        }
        let slot = Slot {
            used_ms: now_ms,
            size: session.len(),
            privileged: session.privileged,
            created_ms: now_ms,
            session: Some(Box::new(session)),
        };
        self.slots.insert(id, slot);
        id
    }

    fn new_id(&mut self) -> i32 {
        let (modulus, residue) = (self.limits.modulus, self.limits.residue);
        loop {
            let id = (self.prng.below(i32::MAX as u64 / modulus as u64) as i32) * modulus + residue;
            if id > NO_SESSION && !self.slots.contains_key(&id) {
                return id;
            }
        }
    }

    /// True when there is room for a session of `size` partitions, evicting one if the rules of KIP-227 allow it: one
    /// that was not used for long; or a lesser one (not a follower's, or of fewer partitions) that is not young, where a
    /// follower's session displaces a consumer's of any age. The scan is bounded by `slots` and runs only when full.
    fn make_room(&mut self, size: usize, privileged: bool, now_ms: u64) -> bool {
        if self.slots.len() < self.limits.slots {
            return true;
        }
        let eviction_ms = self.limits.eviction_ms;
        let stale = self.slots.iter().min_by_key(|(id, slot)| (slot.used_ms, **id));
        let stale = stale.filter(|(_, slot)| now_ms.saturating_sub(slot.used_ms) > eviction_ms).map(|(id, _)| *id);
        let victim = stale.or_else(|| {
            let evictable = |slot: &Slot| {
                let settled = now_ms.saturating_sub(slot.created_ms) > eviction_ms;
                if privileged { !slot.privileged || settled } else { !slot.privileged && settled }
            };
            let least = self
                .slots
                .iter()
                .filter(|(_, slot)| evictable(slot))
                .min_by_key(|(id, slot)| (slot.privileged, slot.size, **id));
            least.filter(|(_, slot)| (slot.privileged, slot.size) < (privileged, size)).map(|(id, _)| *id)
        });
        victim.is_some_and(|id| self.slots.remove(&id).is_some())
    }
}
