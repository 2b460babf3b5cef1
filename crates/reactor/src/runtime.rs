//! Starting real cores: one pinned thread each.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::CoreId;

use crate::counters::Counters;
use crate::exec::{Class, spawn_on};
use crate::percore::{Backend, Core, CoreParts};
use crate::shared::CoreShared;
use crate::stop::{RuntimeShared, StopHandle};
use crate::uring::{self, RingOptions, Uring};

/// Cores of one runtime: mailboxes are one lane per pair, and a machine with more is better served by several nodes.
const CORES_MAX: usize = 256;

/// One core to start.
#[derive(Clone, Debug)]
pub struct CoreSpec {
    /// Name of the thread; the system shows the first 15 bytes.
    pub name: String,
    /// The CPU to pin the thread to; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
}

/// What happens when a core panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnPanic {
    /// The process stops at once: an invariant is broken, and going on could acknowledge what is not stored.
    StopProcess,
    /// The other cores are asked to stop and [`Runtime::join`] continues the panic: for tests.
    Resume,
}

/// How to start a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// The cores, in the order of their ids.
    pub cores: Vec<CoreSpec>,
    /// Submission queue entries per ring; rounded up to a power of two, made smaller where RLIMIT_MEMLOCK demands it.
    pub ring_entries: u32,
    /// How long an idle core looks for work before it sleeps in the kernel. Saves tens of microseconds per hop between
    /// cores and costs CPU; zero by default.
    pub spin: Duration,
    /// Slots in each ring's table of registered files (see [`crate::fs::File::register`]); 0 for none.
    pub registered_files: u32,
    /// Bytes of pool buffers per core that are registered with the ring, if RLIMIT_MEMLOCK allows; 0 for none.
    pub registered_bytes: usize,
    /// What happens when a core panics.
    pub on_panic: OnPanic,
}

impl RuntimeConfig {
    /// `cores` unpinned cores with the defaults.
    pub fn with_cores(cores: usize) -> RuntimeConfig {
        let specs = (0..cores).map(|core| CoreSpec { name: format!("core-{core}"), cpu: None });
        RuntimeConfig {
            cores: specs.collect(),
            ring_entries: 1024,
            spin: Duration::ZERO,
            registered_files: 1024,
            registered_bytes: 0,
            on_panic: OnPanic::StopProcess,
        }
    }
}

/// Running cores. Dropping it without [`Runtime::join`] leaves them running.
pub struct Runtime {
    threads: Vec<JoinHandle<()>>,
    stop: StopHandle,
    counters: Arc<Mutex<Vec<Counters>>>,
}

/// What a core's thread is given.
struct Seat {
    id: CoreId,
    spec: CoreSpec,
    options: RingOptions,
    shared: Arc<CoreShared>,
    stop: Arc<RuntimeShared>,
    on_panic: OnPanic,
    /// Cores end together: a ring is not closed while another core may still send to it.
    end: Arc<Barrier>,
    counters: Arc<Mutex<Vec<Counters>>>,
    /// Says whether the ring could be made.
    ready: Sender<io::Result<()>>,
    /// Says whether all cores are ready.
    go: Receiver<()>,
}

impl Runtime {
    /// Starts the cores; each runs the future that `make` gives for its id, and ends when that future is done: tasks that
    /// are left then are dropped, operations in flight are cancelled and waited for.
    ///
    /// # Errors
    /// A ring or a thread cannot be made; no core runs then.
    pub fn start<M, F>(config: RuntimeConfig, make: M) -> io::Result<Runtime>
    where
        M: Fn(CoreId) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        let count = config.cores.len();
        if count == 0 || count > CORES_MAX {
            return Err(io::Error::other(format!("a runtime has 1 to {CORES_MAX} cores, not {count}")));
        }
        uring::sys::tune_allocator();
        let stop = RuntimeShared::new();
        let shareds = (0..count).map(|_| CoreShared::register(false)).collect::<io::Result<Vec<_>>>()?;
        stop.set_cores(shareds.clone());
        let end = Arc::new(Barrier::new(count));
        let counters = Arc::new(Mutex::new(vec![Counters::default(); count]));
        let (ready, readies) = channel();
        let mut threads = Vec::with_capacity(count);
        let mut goes = Vec::with_capacity(count);
        for (index, (spec, shared)) in config.cores.iter().zip(shareds).enumerate() {
            let (go, wait) = channel();
            goes.push(go);
            let seat = Seat {
                id: CoreId(index as u16),
                spec: spec.clone(),
                options: RingOptions {
                    entries: config.ring_entries,
                    spin_ns: u64::try_from(config.spin.as_nanos()).unwrap_or(u64::MAX),
                    registered_files: config.registered_files,
                    registered_bytes: config.registered_bytes,
                },
                shared,
                stop: Arc::clone(&stop),
                on_panic: config.on_panic,
                end: Arc::clone(&end),
                counters: Arc::clone(&counters),
                ready: ready.clone(),
                go: wait,
            };
            let make = make.clone();
            threads.push(std::thread::Builder::new().name(spec.name.clone()).spawn(move || seat.run(make))?);
        }
        // A failure returns here and drops the senders: every core that waits for its go ends.
        for _ in 0..count {
            readies.recv().unwrap_or_else(|_| Err(io::Error::other("a core ended while it started")))?;
        }
        for go in &goes {
            // A core that is ready waits for exactly this.
            let _ = go.send(());
        }
        Ok(Runtime { threads, stop: StopHandle(stop), counters })
    }

    /// A handle that asks the cores to stop.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Waits until every core is done and gives their final counters. Continues the panic of a core under
    /// [`OnPanic::Resume`].
    pub fn join(self) -> Vec<Counters> {
        let mut panic = None;
        for thread in self.threads {
            if let Err(payload) = thread.join() {
                panic.get_or_insert(payload);
            }
        }
        if let Some(payload) = panic {
            std::panic::resume_unwind(payload);
        }
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Seat {
    fn run<M, F>(self, make: M)
    where
        M: Fn(CoreId) -> F,
        F: Future<Output = ()> + 'static,
    {
        if let Some(cpu) = self.spec.cpu
            && !core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
        {
            tracing::warn!(core = %self.spec.name, cpu, "the thread could not be pinned and runs where the scheduler puts it");
        }
        let backend = match Uring::new(&self.shared, &self.options) {
            Ok(uring) => Backend::Uring(uring),
            Err(error) => {
                self.shared.unregister();
                let _ = self.ready.send(Err(error));
                return;
            }
        };
        let _ = self.ready.send(Ok(()));
        if self.go.recv().is_err() {
            self.shared.unregister();
            return;
        }
        let core = Core::new(CoreParts {
            id: self.id,
            shared: Arc::clone(&self.shared),
            stop: Arc::clone(&self.stop),
            seed: uring::sys::random_seed(),
            backend,
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| run_main(&core, || make(self.id))));
        if outcome.is_err() && self.on_panic == OnPanic::StopProcess {
            tracing::error!(core = %self.spec.name, "a core panicked: a broken invariant stops the process");
            std::process::abort();
        }
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)[self.id.index()] = core.counters.read();
        self.shared.unregister();
        if outcome.is_err() {
            StopHandle(self.stop).stop();
        }
        self.end.wait();
        uring::sys::forget_ring(&self.shared);
        drop(core);
        if let Err(payload) = outcome {
            std::panic::resume_unwind(payload);
        }
    }
}

/// Runs one core to the end of its main future, then gives everything back.
fn run_main<F: Future<Output = ()> + 'static>(core: &Rc<Core>, make: impl FnOnce() -> F) {
    let entered = core.enter();
    let main = spawn_on(core, Class::Normal, make());
    uring::run_core(core, || main.is_finished());
    drop(entered);
    core.drop_tasks();
    let _entered = core.enter();
    uring::shut_down(core);
    crate::buf::set_arena(None);
}

/// Runs a future on a core of its own, on the calling thread, without pinning: for tools, tests and benchmarks.
///
/// # Panics
/// The kernel gives no ring; or the future panicked.
pub fn block_on<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    let shared = CoreShared::register(false).expect("a descriptor for the core's eventfd");
    let defaults = RuntimeConfig::with_cores(1);
    let options = RingOptions {
        entries: 256,
        spin_ns: 0,
        registered_files: defaults.registered_files,
        registered_bytes: defaults.registered_bytes,
    };
    let uring = Uring::new(&shared, &options).expect("an io_uring of 256 entries or less");
    let stop = RuntimeShared::new();
    stop.set_cores(vec![Arc::clone(&shared)]);
    let core = Core::new(CoreParts {
        id: CoreId(0),
        shared: Arc::clone(&shared),
        stop,
        seed: uring::sys::random_seed(),
        backend: Backend::Uring(uring),
    });
    let result = Rc::new(Cell::new(None));
    let slot = Rc::clone(&result);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run_main(&core, move || async move { slot.set(Some(future.await)) });
    }));
    shared.unregister();
    uring::sys::forget_ring(&shared);
    match outcome {
        Ok(()) => result.take().expect("the core ends when the future is done"),
        Err(payload) => std::panic::resume_unwind(payload),
    }
}
