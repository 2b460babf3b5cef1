//! The simulated backend: nodes with any number of cores on one thread, virtual time, in-memory disks and network.
//!
//! Everything that happens follows from the seed: which ready task runs next, how long operations take, where transfers are
//! cut short, what a power cut leaves on a disk. Two runs with the same seed and the same code give the same
//! [`Sim::trace_hash`]. Code under simulation must not depend on other chance: the order of a `HashMap` with the standard
//! hasher, addresses, the real clock.
//!
//! Priority classes are not honoured: a wrong program must not be saved by them.

mod disk;
mod net;
mod ops;
mod world;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CoreId, Prng};

use crate::counters::Counters;
use crate::exec::{Class, LocalFuture, Task, poll_task, spawn_on};
use crate::percore::{Backend, Core, CoreParts};
use crate::shared::CoreShared;
use crate::stop::RuntimeShared;

pub use disk::{Fault, FaultOn};
pub use world::Latencies;
pub(crate) use world::SimCore;
use world::{Event, NodeState, SharedWorld, World, node_ip};

/// How long a packet on a cut link waits before it is tried again, in nanoseconds.
const RETRANSMIT_NS: u64 = 10_000_000;

/// Names a node of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

type Make = Box<dyn Fn(CoreId) -> LocalFuture>;

struct RunningCore {
    core: Rc<Core>,
    main: Option<Task<()>>,
}

struct Node {
    cores: usize,
    boot: Rc<dyn Fn() -> Make>,
    running: Vec<RunningCore>,
    stop: Arc<RuntimeShared>,
}

/// A simulated world.
pub struct Sim {
    world: SharedWorld,
    nodes: Vec<Node>,
    seed: u64,
}

impl Sim {
    /// An empty world whose whole future follows from `seed` and what is done to it.
    pub fn new(seed: u64) -> Sim {
        Sim::with_latencies(seed, Latencies::default())
    }

    /// As [`Sim::new`] with other durations.
    pub fn with_latencies(seed: u64, latencies: Latencies) -> Sim {
        let state = Rc::new(RefCell::new(World::new(seed, latencies)));
        // Not zero, so that a deadline of zero is in the past.
        let clock = Rc::new(Cell::new(1));
        Sim { world: SharedWorld { clock, state }, nodes: Vec::new(), seed }
    }

    /// The seed, for the message of a failing test.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds a node and starts it. `boot` is called at every start and gives what makes the main future of each core, as for
    /// [`crate::Runtime::start`]; make mailboxes in `boot`.
    pub fn add_node<B, M, F>(&mut self, cores: usize, boot: B) -> NodeId
    where
        B: Fn() -> M + 'static,
        M: Fn(CoreId) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        assert!(cores > 0, "a node has at least one core");
        let id = NodeId(self.nodes.len());
        let boot = Rc::new(move || -> Make {
            let make = boot();
            Box::new(move |core| -> LocalFuture { Box::pin(make(core)) })
        });
        self.nodes.push(Node { cores, boot, running: Vec::new(), stop: RuntimeShared::new() });
        let state = NodeState { disk: disk::Disk::new(), life: 0, alive: false, skew_ms: 0 };
        self.world.state.borrow_mut().nodes.push(state);
        self.start(id);
        id
    }

    /// A node with one core that does nothing by itself: a place for clients, see [`Sim::spawn`].
    pub fn add_client(&mut self) -> NodeId {
        self.add_node(1, || |_core| std::future::pending())
    }

    /// The IP address of a node.
    pub fn ip(&self, node: NodeId) -> IpAddr {
        node_ip(node.0)
    }

    fn start(&mut self, id: NodeId) {
        let (life, seeds) = {
            let mut world = self.world.state.borrow_mut();
            world.nodes[id.0].life += 1;
            world.nodes[id.0].alive = true;
            let seeds: Vec<u64> = (0..self.nodes[id.0].cores).map(|_| world.prng.next_u64()).collect();
            (world.nodes[id.0].life, seeds)
        };
        let node = &mut self.nodes[id.0];
        node.stop = RuntimeShared::new();
        let make = (node.boot)();
        let shareds: Vec<_> = seeds
            .iter()
            .map(|_| CoreShared::register(true).expect("a simulation has a few hundred cores at most"))
            .collect();
        node.stop.set_cores(shareds.clone());
        for (index, (shared, seed)) in shareds.into_iter().zip(seeds).enumerate() {
            let core = Core::new(CoreParts {
                id: CoreId(index as u16),
                shared,
                stop: Arc::clone(&node.stop),
                seed,
                backend: Backend::Sim(SimCore { world: self.world.clone(), node: id.0, life, core: index }),
            });
            let main = {
                let _entered = core.enter();
                spawn_on(&core, Class::Normal, make(core.id))
            };
            node.running.push(RunningCore { core, main: Some(main) });
        }
    }

    /// True while a main future of the node is not done.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.nodes[node.0].running.iter().any(|running| running.main.is_some())
    }

    /// Makes [`crate::stopping`] resolve on the node; [`Sim::run_until`] it is not running any more.
    pub fn stop(&mut self, node: NodeId) {
        self.nodes[node.0].stop.stop();
    }

    /// Power cut: all tasks are gone at once; writes and names that were not synced are kept, lost or torn by chance, durable
    /// writes survive; connections are reset. The node stays down until [`Sim::restart`].
    pub fn crash(&mut self, node: NodeId) {
        self.halt(node);
        let mut world = self.world.state.borrow_mut();
        let mut prng = Prng::new(world.prng.next_u64());
        world.nodes[node.0].disk.crash(&mut prng);
    }

    /// The process dies (kill -9), the machine goes on: all tasks are gone at once, completed writes are kept whether synced or
    /// not, connections are reset.
    pub fn kill(&mut self, node: NodeId) {
        self.halt(node);
        self.world.state.borrow_mut().nodes[node.0].disk.close_all();
    }

    fn halt(&mut self, node: NodeId) {
        let now = self.world.clock.get();
        for running in &self.nodes[node.0].running {
            if let Backend::Sim(sim) = &running.core.backend {
                sim.abandon_writes(&running.core);
            }
        }
        {
            let mut world = self.world.state.borrow_mut();
            world.nodes[node.0].alive = false;
            world.drop_node(node.0, now);
        }
        for running in std::mem::take(&mut self.nodes[node.0].running) {
            drop_core(&running.core);
        }
    }

    /// Starts a node that crashed, was killed or ended; one that still runs is killed first.
    pub fn restart(&mut self, node: NodeId) {
        self.kill(node);
        self.start(node);
    }

    /// Starts a task on a core of a running node.
    pub fn spawn<T: 'static>(&self, node: NodeId, core: CoreId, future: impl Future<Output = T> + 'static) -> Task<T> {
        let core = &self.nodes[node.0].running[core.index()].core;
        let _entered = core.enter();
        spawn_on(core, Class::Normal, future)
    }

    /// Runs a future on the first core of a node to its end.
    ///
    /// # Panics
    /// It is not done after `limit` of virtual time; the message says the seed.
    pub fn run<T: 'static>(&mut self, node: NodeId, limit: Duration, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(Cell::new(None));
        let slot = Rc::clone(&result);
        let task = self.spawn(node, CoreId(0), async move { slot.set(Some(future.await)) });
        let done = self.run_until(limit, || task.is_finished());
        assert!(done, "seed {}: not done after {limit:?} of virtual time", self.seed);
        result.take().expect("a finished task has set its result")
    }

    /// Runs until `done` says so; false when it does not within `limit` of virtual time.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut() -> bool) -> bool {
        let end = self.end_of(limit);
        while !done() {
            if !self.step(end) {
                return done();
            }
        }
        true
    }

    /// Runs for this much virtual time.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.end_of(duration);
        while self.step(end) {}
        self.world.clock.set(self.world.clock.get().max(end));
    }

    /// Runs until a node has ended by itself; false when it does not within `limit`.
    pub fn run_until_ended(&mut self, node: NodeId, limit: Duration) -> bool {
        let end = self.end_of(limit);
        while self.is_running(node) {
            if !self.step(end) {
                return !self.is_running(node);
            }
        }
        true
    }

    fn end_of(&self, duration: Duration) -> u64 {
        self.world.clock.get().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// One step: what is due happens, one task is polled; or, with nothing ready, time jumps. False when time is over or
    /// nothing will ever happen again.
    fn step(&mut self, end_ns: u64) -> bool {
        if self.world.clock.get() >= end_ns {
            return false;
        }
        self.do_due();
        let ready = self.ready_cores();
        if ready.is_empty() {
            return match self.next_moment() {
                Some(next) if next < end_ns => {
                    self.world.clock.set(next.max(self.world.clock.get()));
                    true
                }
                _ => false,
            };
        }
        let pick = self.world.state.borrow_mut().prng.below(ready.len() as u64) as usize;
        let (node, index) = ready[pick];
        self.poll_one(node, index);
        true
    }

    fn cores(&self) -> impl Iterator<Item = (usize, usize, &Rc<Core>)> {
        self.nodes.iter().enumerate().flat_map(|(node, state)| {
            state.running.iter().enumerate().map(move |(index, running)| (node, index, &running.core))
        })
    }

    /// Signals, events and timers up to now.
    fn do_due(&mut self) {
        let now = self.world.clock.get();
        loop {
            let event = {
                let mut world = self.world.state.borrow_mut();
                match world.events.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => break,
                }
            };
            self.do_event(event, now);
        }
        for (_, _, core) in self.cores() {
            let _entered = core.enter();
            core.take_signals();
            core.fire_timers(now);
        }
    }

    fn do_event(&self, event: Event, now: u64) {
        match event {
            Event::Try(op) | Event::Cancel(op) => {
                let life = self.world.state.borrow().nodes[op.node].life;
                let Some(running) = self.nodes[op.node].running.get(op.core).filter(|_| life == op.life) else {
                    return;
                };
                let Backend::Sim(sim) = &running.core.backend else { return };
                let _entered = running.core.enter();
                if matches!(event, Event::Try(_)) {
                    sim.try_op(&running.core, op.id);
                } else {
                    sim.cancel_op(&running.core, op.id);
                }
            }
            Event::Deliver(handle) => {
                let mut world = self.world.state.borrow_mut();
                world.note(handle as u64);
                match world.net.deliver(handle) {
                    Ok(awake) => world.schedule_all(now, awake),
                    Err(()) => world.schedule(now + RETRANSMIT_NS, Event::Deliver(handle)),
                }
            }
        }
    }

    fn ready_cores(&self) -> Vec<(usize, usize)> {
        let ready = self.cores().filter(|(_, _, core)| core.exec.borrow().has_ready());
        ready.map(|(node, index, _)| (node, index)).collect()
    }

    fn next_moment(&self) -> Option<u64> {
        let event = self.world.state.borrow().events.first_key_value().map(|(key, _)| key.0);
        let timers = self.cores().filter_map(|(_, _, core)| core.timers.borrow().next_deadline());
        timers.chain(event).min()
    }

    fn poll_one(&mut self, node: usize, index: usize) {
        let core = Rc::clone(&self.nodes[node].running[index].core);
        {
            let _entered = core.enter();
            let task = {
                let mut world = self.world.state.borrow_mut();
                let task = core.exec.borrow_mut().pop_random(&mut world.prng);
                let cost = world.latencies.poll_ns;
                let cost = world.between(cost);
                self.world.clock.set(self.world.clock.get() + cost);
                let fact = (node as u64) << 48 | (index as u64) << 32;
                world.note(fact | task.map_or(0, |task| u64::from(task.index)));
                world.note(self.world.clock.get());
                task
            };
            if let Some(task) = task {
                poll_task(&core, task);
            }
        }
        let running = &mut self.nodes[node].running[index];
        if running.main.as_ref().is_some_and(Task::is_finished) {
            // As a thread of the real runtime ends: its tasks and what they had open go with it.
            running.main = None;
            core.drop_tasks();
        }
    }

    /// The present moment of the simulation, in nanoseconds since its start.
    pub fn now_ns(&self) -> u64 {
        self.world.clock.get()
    }

    /// A fingerprint of everything that happened so far: the same seed and program give the same one.
    pub fn trace_hash(&self) -> u64 {
        self.world.state.borrow().trace
    }

    /// 64 random bits from the seed, for the test's own decisions.
    pub fn random_u64(&mut self) -> u64 {
        self.world.state.borrow_mut().prng.next_u64()
    }

    /// Counters of a core of a running node.
    pub fn counters(&self, node: NodeId, core: CoreId) -> Counters {
        self.nodes[node.0].running[core.index()].core.counters.read()
    }

    /// How long things take from now on.
    pub fn set_latencies(&mut self, latencies: Latencies) {
        self.world.state.borrow_mut().latencies = latencies;
    }

    /// Makes a node's disk fail from now on.
    pub fn inject_fault(&mut self, node: NodeId, fault: Fault) {
        self.world.state.borrow_mut().nodes[node.0].disk.faults.push(fault);
    }

    /// Ends all faults of a node's disk.
    pub fn clear_faults(&mut self, node: NodeId) {
        self.world.state.borrow_mut().nodes[node.0].disk.faults.clear();
    }

    /// Limits the sum of file sizes on a node's disk; growing past it is ENOSPC.
    pub fn set_disk_capacity(&mut self, node: NodeId, bytes: u64) {
        self.world.state.borrow_mut().nodes[node.0].disk.capacity = bytes;
    }

    /// Flips bits of one stored byte; nothing happens past the end of the file.
    ///
    /// # Panics
    /// There is no such file.
    pub fn corrupt(&mut self, node: NodeId, path: impl AsRef<Path>, off: u64, xor: u8) {
        let done = self.world.state.borrow_mut().nodes[node.0].disk.corrupt(path.as_ref(), off, xor);
        assert!(done.is_ok(), "no file {} to corrupt", path.as_ref().display());
    }

    /// The contents of a file as the node would read it now.
    pub fn read_file(&self, node: NodeId, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let world = self.world.state.borrow();
        let disk = &world.nodes[node.0].disk;
        let inode = disk.lookup(path.as_ref()).ok()?;
        disk.read(inode, 0, usize::MAX).ok()
    }

    /// The names in a directory as the node would see them now, sorted.
    pub fn list_dir(&self, node: NodeId, path: impl AsRef<Path>) -> Option<Vec<String>> {
        let world = self.world.state.borrow();
        let names = world.nodes[node.0].disk.list(path.as_ref()).ok()?;
        Some(names.into_iter().map(|(name, _)| name).collect())
    }

    /// Cuts the link between two nodes: nothing gets through until [`Sim::heal`]; packets are kept and sent again.
    pub fn partition(&mut self, a: NodeId, b: NodeId) {
        self.world.state.borrow_mut().net.set_cut(a.0, b.0, true);
    }

    /// Restores a link.
    pub fn heal(&mut self, a: NodeId, b: NodeId) {
        self.world.state.borrow_mut().net.set_cut(a.0, b.0, false);
    }

    /// Shifts the wall clock of a node; the monotonic clock is the same everywhere.
    pub fn set_clock_skew(&mut self, node: NodeId, ms: i64) {
        self.world.state.borrow_mut().nodes[node.0].skew_ms = ms;
    }
}

/// Ends a core whose node is dead: destructors run, without effect on the world.
fn drop_core(core: &Rc<Core>) {
    core.drop_tasks();
    core.shared.unregister();
    let _entered = core.enter();
    // In memory an operation has no kernel to wait for.
    let left = core.ops.take();
    drop(left);
}

impl Drop for Sim {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            self.kill(NodeId(node));
        }
    }
}
