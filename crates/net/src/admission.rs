//! Admission by bytes: memory for a frame is granted before the frame is read.
//!
//! Each core has a budget. A connection whose next frame does not fit waits in line, not reading its socket, so TCP
//! pushes back on the peer. Small frames have a budget of their own: metadata, heartbeats and fetches pass while large
//! produce requests queue for memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bounds of the request memory of one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionLimits {
    /// Frames up to this many bytes are admitted from the small budget.
    pub small_frame_bytes_max: usize,
    /// Bytes of small frames in memory at once.
    pub small_bytes_max: usize,
    /// Bytes of large frames in memory at once. A single frame above it is let in when it is alone.
    pub large_bytes_max: usize,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    state: Cell<WaiterState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaiterState {
    Waiting,
    Granted,
    Gone,
}

#[derive(Debug, Default)]
struct Lane {
    bytes_max: usize,
    used: usize,
    // At most one entry per connection, which the connection limit bounds.
    line: VecDeque<Rc<Waiter>>,
}

impl Lane {
    fn fits(&self, bytes: usize) -> bool {
        self.used == 0 || self.used + bytes <= self.bytes_max
    }

    /// Takes the bytes now, unless others stand in line or they do not fit.
    fn try_take(&mut self, bytes: usize) -> bool {
        let granted = self.line.is_empty() && self.fits(bytes);
        if granted {
            self.used += bytes;
        }
        granted
    }

    /// Gives bytes back and grants to those in line, first come first served, what fits now.
    fn release(&mut self, bytes: usize) -> Vec<Waker> {
        assert!(bytes <= self.used, "released {bytes} bytes of {} in use", self.used);
        self.used -= bytes;
        let mut wakers = Vec::new();
        while let Some(first) = self.line.front() {
            if first.state.get() == WaiterState::Waiting {
                if !self.fits(first.bytes) {
                    break;
                }
                self.used += first.bytes;
                first.state.set(WaiterState::Granted);
                wakers.extend(first.waker.borrow_mut().take());
            }
            self.line.pop_front();
        }
        wakers
    }
}

#[derive(Debug)]
struct Shared {
    small_frame_bytes_max: usize,
    lanes: RefCell<[Lane; 2]>,
}

impl Shared {
    fn release(&self, lane: usize, bytes: usize) {
        let wakers = self.lanes.borrow_mut()[lane].release(bytes);
        for waker in wakers {
            waker.wake();
        }
    }
}

/// The request memory of one core; clones share it.
#[derive(Clone, Debug)]
pub struct Admission(Rc<Shared>);

impl Admission {
    /// An unused budget.
    pub fn new(limits: AdmissionLimits) -> Admission {
        let lane = |bytes_max| Lane { bytes_max, ..Lane::default() };
        Admission(Rc::new(Shared {
            small_frame_bytes_max: limits.small_frame_bytes_max,
            lanes: RefCell::new([lane(limits.small_bytes_max), lane(limits.large_bytes_max)]),
        }))
    }

    /// Waits until `bytes` of memory are granted.
    pub fn acquire(&self, bytes: usize) -> Acquire {
        let lane = usize::from(bytes > self.0.small_frame_bytes_max);
        let waiter = Rc::new(Waiter { bytes, state: Cell::new(WaiterState::Waiting), waker: RefCell::new(None) });
        let mut lanes = self.0.lanes.borrow_mut();
        if lanes[lane].try_take(bytes) {
            waiter.state.set(WaiterState::Granted);
        } else {
            lanes[lane].line.push_back(waiter.clone());
        }
        Acquire { shared: self.0.clone(), lane, waiter }
    }

    /// Grants `bytes` of memory if that needs no waiting.
    pub fn try_acquire(&self, bytes: usize) -> Option<Permit> {
        let lane = usize::from(bytes > self.0.small_frame_bytes_max);
        let granted = self.0.lanes.borrow_mut()[lane].try_take(bytes);
        granted.then(|| Permit { shared: self.0.clone(), lane, bytes })
    }

    /// Bytes of frames in memory, for metrics.
    pub fn used_bytes(&self) -> usize {
        self.0.lanes.borrow().iter().map(|lane| lane.used).sum()
    }

    /// True when a connection waits for memory.
    pub fn contended(&self) -> bool {
        self.0.lanes.borrow().iter().any(|lane| !lane.line.is_empty())
    }
}

/// A place in line. Dropping it gives up the place, and the memory if it was granted in the meantime.
#[derive(Debug)]
pub struct Acquire {
    shared: Rc<Shared>,
    lane: usize,
    waiter: Rc<Waiter>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        if self.waiter.state.get() == WaiterState::Granted {
            self.waiter.state.set(WaiterState::Gone);
            return Poll::Ready(Permit { shared: self.shared.clone(), lane: self.lane, bytes: self.waiter.bytes });
        }
        *self.waiter.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if self.waiter.state.replace(WaiterState::Gone) == WaiterState::Granted {
            self.shared.release(self.lane, self.waiter.bytes);
        }
    }
}

/// Memory granted for one frame; dropping it gives the memory back.
#[derive(Debug)]
pub struct Permit {
    shared: Rc<Shared>,
    lane: usize,
    bytes: usize,
}

impl Permit {
    /// Bytes granted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.release(self.lane, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn poll(acquire: &mut Acquire) -> Option<Permit> {
        match Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    fn admission(small: usize, large: usize) -> Admission {
        Admission::new(AdmissionLimits { small_frame_bytes_max: 10, small_bytes_max: small, large_bytes_max: large })
    }

    #[test]
    fn large_frames_queue_and_small_ones_pass() {
        let admission = admission(20, 100);
        let first = poll(&mut admission.acquire(80)).expect("fits");
        let mut second = admission.acquire(30);
        assert!(poll(&mut second).is_none() && admission.contended());
        assert!(admission.try_acquire(15).is_none(), "no overtaking within a lane");
        assert!(admission.try_acquire(10).is_some(), "small frames have their own lane");
        drop(first);
        assert_eq!(poll(&mut second).expect("granted").bytes(), 30);
        assert_eq!(admission.used_bytes(), 0);
    }

    #[test]
    fn a_frame_above_the_budget_is_let_in_alone() {
        let admission = admission(20, 100);
        let small = admission.try_acquire(11).expect("fits");
        let mut huge = admission.acquire(500);
        assert!(poll(&mut huge).is_none());
        drop(small);
        let permit = poll(&mut huge).expect("alone");
        assert!(admission.try_acquire(11).is_none());
        drop(permit);
        assert!(admission.try_acquire(11).is_some());
    }

    #[test]
    fn a_dropped_place_in_line_holds_nothing_and_blocks_nobody() {
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let admission = admission(10, 100);
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                match prng.below(4) {
                    0 | 1 => waiting.push(admission.acquire(11 + prng.below(60) as usize)),
                    2 if !held.is_empty() => drop(held.swap_remove(prng.below(held.len() as u64) as usize)),
                    _ if !waiting.is_empty() => {
                        let mut one = waiting.swap_remove(prng.below(waiting.len() as u64) as usize);
                        if prng.chance(1, 2) {
                            held.extend(poll(&mut one));
                        }
                    }
                    _ => {}
                }
                assert!(admission.used_bytes() <= 100, "seed {seed}");
            }
            drop(held);
            drop(waiting);
            assert_eq!(admission.used_bytes(), 0, "seed {seed}");
            assert!(admission.try_acquire(100).is_some(), "seed {seed}");
        }
    }
}
