//! The connections of one core: limits, idle reaping, draining.

use crate::admission::{Admission, AdmissionLimits};
use crate::connection::Link;
use crate::counts::{ConnectionCounts, Counted, Full};
use crate::limited::LogGate;
use crate::service::Service;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// One log line per core and this many milliseconds about peers that do not speak the protocol.
const BAD_FRAME_LOG_INTERVAL_MS: u64 = 5_000;

/// A peer that was granted memory for a frame while others wait for memory has this many milliseconds for its next byte.
const STALLED_FRAME_MS_MAX: u64 = 30_000;

/// A connection whose peer has been silent for this many milliseconds keeps no receive buffer of more than so many bytes. A
/// client that works sends more often, if only its heartbeats.
const BUFFER_IDLE_MS: u64 = 10_000;
const BUFFER_BYTES_KEPT: usize = 4096;

/// The sweep runs this often at most, in milliseconds, and ten times per idle time otherwise.
const SWEEP_INTERVAL_MS_MAX: u64 = 5_000;

/// How often draining looks whether the last connection is gone, in milliseconds.
const DRAIN_POLL_MS: u64 = 5;

/// How often a core that waits for room for a connection looks whether there is some, in milliseconds: connections of other
/// cores make room too, and limits change.
const ROOM_POLL_MS: u64 = 10;

/// Limits of one core's connections, from the options of the same names.
#[derive(Clone, Copy, Debug)]
pub struct NetLimits {
    /// `socket.request.max.bytes`.
    pub frame_bytes_max: usize,
    /// `connections.max.idle.ms`; `None` never reaps.
    pub idle_ms_max: Option<u64>,
    /// Request memory of the core.
    pub admission: AdmissionLimits,
}

/// The open connections of one core.
#[derive(Default)]
pub struct Registry {
    links: RefCell<BTreeMap<u64, Rc<Link>>>,
    next_id: Cell<u64>,
    closing: Cell<bool>,
}

/// A connection's entry in the registry; dropping it removes the entry.
pub(crate) struct Entered {
    registry: Rc<Registry>,
    id: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.registry.links.borrow_mut().remove(&self.id);
    }
}

impl Registry {
    pub(crate) fn enter(registry: &Rc<Registry>, id: u64, link: Rc<Link>) -> Entered {
        if registry.closing.get() {
            link.drain();
        }
        registry.links.borrow_mut().insert(id, link);
        Entered { registry: registry.clone(), id }
    }

    /// Connections open on this core.
    pub fn len(&self) -> usize {
        self.links.borrow().len()
    }

    /// Bytes of the buffers in which connections wait for their next frames.
    pub fn buffer_bytes(&self) -> usize {
        self.links.borrow().values().map(|link| link.buffer_bytes.get()).sum()
    }

    /// True when this core has no connection.
    pub fn is_empty(&self) -> bool {
        self.links.borrow().is_empty()
    }

    /// Ends the connection that has been silent for longest, one without a request in flight if there is any; none of a
    /// protected listener.
    fn close_least_recent(&self) {
        let links = self.links.borrow();
        let others = links.values().filter(|link| !link.is_protected && !link.killed());
        if let Some(link) = others.min_by_key(|link| (link.busy(), link.active_ms.get())) {
            link.kill();
        }
    }

    /// True once draining began: nothing is accepted any more.
    pub fn closing(&self) -> bool {
        self.closing.get()
    }
}

/// How long to wait before the next look for room.
fn pause(full: Full) -> Duration {
    let most = Duration::from_millis(ROOM_POLL_MS);
    match full {
        Full::Connections => most,
        Full::Rate(ns) => Duration::from_nanos(ns).min(most),
    }
}

/// Everything the connections of one core share.
pub struct NetCore<S> {
    /// The protocol.
    pub service: S,
    /// Limits.
    pub limits: NetLimits,
    /// Request memory.
    pub admission: Admission,
    /// Open connections.
    pub registry: Rc<Registry>,
    pub(crate) counts: ConnectionCounts,
    pub(crate) bad_frames: LogGate,
    pub(crate) refused: LogGate,
}

impl<S: Service> NetCore<S> {
    /// The shared state of a core without connections.
    pub fn new(service: S, limits: NetLimits, counts: ConnectionCounts) -> NetCore<S> {
        NetCore {
            service,
            limits,
            admission: Admission::new(limits.admission),
            registry: Rc::new(Registry::default()),
            counts,
            bad_frames: LogGate::new(BAD_FRAME_LOG_INTERVAL_MS),
            refused: LogGate::new(BAD_FRAME_LOG_INTERVAL_MS),
        }
    }

    pub(crate) fn next_connection_id(&self) -> u64 {
        self.registry.next_id.replace(self.registry.next_id.get() + 1)
    }

    /// Counts a connection as soon as there is room for it (`max.connections`, `max.connection.creation.rate`). `None` when
    /// draining began before.
    pub(crate) async fn count(&self, listener: &str) -> Option<Counted> {
        while !self.registry.closing.get() {
            let limits = self.service.limits(listener);
            let now = reactor::now();
            match self.counts.try_enter(listener, &limits, now.mono_ns) {
                Ok(counted) => {
                    if limits.is_protected && self.counts.beside(listener) > limits.all.connections {
                        self.registry.close_least_recent();
                    }
                    return Some(counted);
                }
                Err(full) => {
                    if let Some(held_back) = self.refused.open(now) {
                        let (option, until) = match full {
                            Full::Connections => ("max.connections", "others close"),
                            Full::Rate(_) => ("max.connection.creation.rate", "it is their turn"),
                        };
                        tracing::warn!(listener, held_back, "{option} is reached: new connections wait until {until}");
                    }
                    reactor::sleep(pause(full)).await;
                }
            }
        }
        None
    }

    /// Closes connections that were silent for too long, until draining begins. A connection with a request in flight
    /// (a long poll, say) is never idle.
    pub async fn sweep(self: Rc<Self>) {
        let idle_ms = self.limits.idle_ms_max.unwrap_or(u64::MAX);
        let interval_ms = (idle_ms / 10).clamp(1, SWEEP_INTERVAL_MS_MAX);
        while !self.registry.closing.get() {
            reactor::sleep(Duration::from_millis(interval_ms)).await;
            let now_ms = reactor::now().mono_ms();
            let contended = self.admission.contended();
            for link in self.registry.links.borrow().values() {
                let silent_ms = now_ms.saturating_sub(link.active_ms.get());
                let stalled = contended && link.holds_memory.get() && silent_ms > STALLED_FRAME_MS_MAX;
                if stalled || (silent_ms > idle_ms && !link.busy()) {
                    link.kill();
                } else if silent_ms > BUFFER_IDLE_MS && link.buffer_bytes.get() > BUFFER_BYTES_KEPT {
                    link.slim();
                }
            }
        }
    }

    /// Accepts and begins nothing more, lets what is in flight be answered for up to `grace_ms`, then closes.
    pub async fn drain(&self, grace_ms: u64) {
        self.registry.closing.set(true);
        for link in self.registry.links.borrow().values() {
            link.drain();
        }
        let deadline_ms = reactor::now().mono_ms() + grace_ms;
        while !self.registry.is_empty() && reactor::now().mono_ms() < deadline_ms {
            reactor::sleep(Duration::from_millis(DRAIN_POLL_MS)).await;
        }
        for link in self.registry.links.borrow().values() {
            link.kill();
        }
    }
}
