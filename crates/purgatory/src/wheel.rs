//! A hierarchical timing wheel over ticks counted from 0. Level 0 has a slot for each of the next 64 ticks, every level
//! above slots 64 times as long. An entry lies in the lowest level whose slots tell it apart from the present, and moves
//! down when the wheel comes to its slot, at most once per level.

use crate::NIL;

/// Slots of a level: as many as an occupancy word has bits.
const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;
/// With eight levels of 64 every tick that a 64-bit count of nanoseconds can name has its place, so nothing wraps.
const LEVELS: usize = 8;
/// The last tick the levels can tell apart; everything later waits there.
const TICK_MAX: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - 1;
/// The place of entries whose time had come when they were put in.
const PLACE_DUE: u16 = (LEVELS * SLOTS) as u16;
/// Not in the wheel.
const PLACE_NONE: u16 = u16::MAX;

/// Entries are numbered by the owner.
#[derive(Debug)]
pub(crate) struct Wheel {
    now: u64,
    occupied: [u64; LEVELS],
    /// Head and tail of each slot's list, and of the due list at the end.
    slots: Vec<(u32, u32)>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    tick: u64,
    previous: u32,
    next: u32,
    place: u16,
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel { now: 0, occupied: [0; LEVELS], slots: vec![(NIL, NIL); LEVELS * SLOTS + 1], nodes: Vec::new() }
    }
}

impl Wheel {
    /// Puts entry `index` in, to come out at `tick`.
    pub fn insert(&mut self, index: u32, tick: u64) {
        let empty = Node { tick: 0, previous: NIL, next: NIL, place: PLACE_NONE };
        if self.nodes.len() <= index as usize {
            self.nodes.resize(index as usize + 1, empty);
        }
        assert!(self.nodes[index as usize].place == PLACE_NONE, "entry {index} is in the wheel already");
        self.nodes[index as usize].tick = tick.min(TICK_MAX);
        self.link(index);
    }

    /// Takes entry `index` out.
    pub fn remove(&mut self, index: u32) {
        let node = self.nodes[index as usize];
        assert!(node.place != PLACE_NONE, "entry {index} is not in the wheel");
        let slot = usize::from(node.place);
        match node.previous {
            NIL => self.slots[slot].0 = node.next,
            previous => self.nodes[previous as usize].next = node.next,
        }
        match node.next {
            NIL => self.slots[slot].1 = node.previous,
            next => self.nodes[next as usize].previous = node.previous,
        }
        self.nodes[index as usize].place = PLACE_NONE;
        if self.slots[slot].0 == NIL && node.place != PLACE_DUE {
            self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
        }
    }

    /// Moves the present to `tick` and appends the entries that came out, earlier ticks first. Time does not go back: an
    /// earlier tick than the last one changes nothing.
    pub fn advance(&mut self, tick: u64, out: &mut Vec<u32>) {
        let tick = tick.min(TICK_MAX);
        self.drain(usize::from(PLACE_DUE), out);
        while let Some((slot, begins)) = self.next_slot() {
            if begins > tick {
                break;
            }
            self.now = begins;
            if slot < SLOTS {
                self.drain(slot, out);
                continue;
            }
            let mut moved = Vec::new();
            self.drain(slot, &mut moved);
            for index in moved {
                // What is due at the very beginning of the slot comes out with the due list.
                self.link(index);
            }
            self.drain(usize::from(PLACE_DUE), out);
        }
        self.now = self.now.max(tick);
    }

    /// The tick at which [`Wheel::advance`] has something to do.
    pub fn next_tick(&self) -> Option<u64> {
        if self.slots[usize::from(PLACE_DUE)].0 != NIL {
            return Some(self.now);
        }
        self.next_slot().map(|(_, begins)| begins)
    }

    /// The occupied slot that begins first. Entries of a level lie before those of the levels above it, so it is in the
    /// lowest level that has any.
    fn next_slot(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = SLOT_BITS * level as u32;
        let level_begins = self.now >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
        Some((level * SLOTS + slot as usize, level_begins + (u64::from(slot) << shift)))
    }

    fn link(&mut self, index: u32) {
        let tick = self.nodes[index as usize].tick;
        let place = if tick <= self.now {
            PLACE_DUE
        } else {
            let highest_difference = 63 - (tick ^ self.now).leading_zeros();
            let level = highest_difference / SLOT_BITS;
            let slot = (tick >> (SLOT_BITS * level)) as usize % SLOTS;
            self.occupied[level as usize] |= 1 << slot;
            (level as usize * SLOTS + slot) as u16
        };
        let (first, last) = self.slots[usize::from(place)];
        self.nodes[index as usize] = Node { tick, previous: last, next: NIL, place };
        match last {
            NIL => self.slots[usize::from(place)] = (index, index),
            last => {
                self.nodes[last as usize].next = index;
                self.slots[usize::from(place)] = (first, index);
            }
        }
    }

    /// Empties a slot into `out`, oldest entry first.
    fn drain(&mut self, slot: usize, out: &mut Vec<u32>) {
        let mut at = self.slots[slot].0;
        self.slots[slot] = (NIL, NIL);
        if slot < LEVELS * SLOTS {
            self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
        }
        while at != NIL {
            out.push(at);
            let node = &mut self.nodes[at as usize];
            node.place = PLACE_NONE;
            at = node.next;
        }
    }
}
