//! What the tasks of one core share, and what the cores share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use reactor::now;
use reactor::sync::Notify;

use crate::cluster::{Admin, LoadVersions, Versions, View};
use crate::meter::Meters;
use crate::plan::Plan;
use crate::template::Template;

/// Pause before the leaders are asked for again after a failure.
const RETRY_MS: u64 = 100;
/// Time between the moment when all cores are ready and the first record.
const LEAD_NS: u64 = 20_000_000;
/// How long the last records may take to arrive at the consumers after the last one was acknowledged.
const ARRIVAL_NS_MAX: u64 = 10_000_000_000;

/// What a core tells the main thread.
pub(crate) enum Note {
    /// What was counted in one second; the measurement has begun or not.
    Interval { second: u64, measured: bool, meters: Box<Meters> },
    /// The warm-up is over.
    Measuring { mono_ns: u64, wall_ms: i64 },
    /// The time of the measurement is over; answers may still come.
    Over,
    /// The core has nothing left to do.
    Done { meters: Box<Meters>, mono_ns: u64 },
    /// It could not even begin.
    Failed(String),
}

/// What all cores share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) view: View,
    pub(crate) versions: Versions,
    pub(crate) load_versions: LoadVersions,
    /// Where the consumers begin, by the order of [`View::partitions`].
    pub(crate) begins: Vec<i64>,
    /// Where the partitions ended at the start.
    pub(crate) ends: Vec<i64>,
    /// Names this run in the stamps of its records.
    pub(crate) run_id: u64,
    pub(crate) ready: AtomicUsize,
    pub(crate) begin_ns: AtomicU64,
    pub(crate) failed: AtomicBool,
    /// Producers that still send.
    pub(crate) sending: AtomicUsize,
    /// Records acknowledged, or sent where no acknowledgement is awaited.
    pub(crate) acked: AtomicU64,
    /// Records of this run that the consumers saw.
    pub(crate) seen: AtomicU64,
    /// Records that the consumers may still read.
    pub(crate) budget: AtomicI64,
}

/// What the tasks of one core share.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) notes: Sender<Note>,
    pub(crate) view: RefCell<Rc<View>>,
    pub(crate) template: Option<RefCell<Template>>,
    pub(crate) meters: RefCell<Meters>,
    /// Tasks that have not opened their connections yet.
    pub(crate) opening: Cell<usize>,
    pub(crate) opened: Notify,
    gate_open: Cell<bool>,
    gate: Notify,
    /// Start, end of the warm-up and end, in monotonic nanoseconds; known once the gate is open.
    pub(crate) begin_ns: Cell<u64>,
    pub(crate) measure_ns: Cell<u64>,
    pub(crate) deadline_ns: Cell<u64>,
    read_over: Cell<bool>,
    read_ends: Notify,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, notes: Sender<Note>, seed: u64) -> Rc<Core> {
        let template = shared.plan.load.as_ref().map(|load| RefCell::new(Template::new(&load.recipe, seed)));
        Rc::new(Core {
            view: RefCell::new(Rc::new(shared.view.clone())),
            shared,
            notes,
            template,
            meters: RefCell::default(),
            opening: Cell::new(0),
            opened: Notify::new(),
            gate_open: Cell::new(false),
            gate: Notify::new(),
            begin_ns: Cell::new(0),
            measure_ns: Cell::new(u64::MAX),
            deadline_ns: Cell::new(u64::MAX),
            read_over: Cell::new(false),
            read_ends: Notify::new(),
        })
    }

    /// A task has its connections; waits until all tasks of all cores do.
    pub(crate) async fn wait_for_start(&self) {
        self.opening.set(self.opening.get() - 1);
        self.opened.notify_one();
        while !self.gate_open.get() {
            self.gate.notified().await;
        }
    }

    /// Waits for the tasks of this core and for the other cores, then lets everybody go.
    pub(crate) async fn open_gate(&self) {
        while self.opening.get() > 0 {
            self.opened.notified().await;
        }
        let shared = &self.shared;
        if shared.ready.fetch_add(1, Ordering::SeqCst) + 1 == shared.plan.threads {
            shared.begin_ns.store(now().mono_ns + LEAD_NS, Ordering::SeqCst);
        }
        while shared.begin_ns.load(Ordering::SeqCst) == 0 && !reactor::is_stopping() {
            reactor::sleep(Duration::from_millis(1)).await;
        }
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let begin = shared.begin_ns.load(Ordering::SeqCst);
        self.begin_ns.set(begin);
        self.measure_ns.set(begin.saturating_add(nanos(shared.plan.warmup)));
        self.deadline_ns.set(shared.plan.span().map_or(u64::MAX, |span| begin.saturating_add(nanos(span))));
        self.gate_open.set(true);
        reactor::sleep_until(begin).await;
        self.gate.notify_all();
    }

    /// Something that makes the run worthless before it begins.
    pub(crate) fn give_up(&self, why: String) {
        if !self.shared.failed.swap(true, Ordering::SeqCst) {
            // The main thread waits for notes until every core is done.
            let _ = self.notes.send(Note::Failed(why));
        }
        reactor::stop();
    }

    /// A connection that broke, for the report.
    pub(crate) fn broke(&self, why: String) {
        let mut meters = self.meters.borrow_mut();
        meters.broken += 1;
        meters.trouble(why);
    }

    /// Asks for the leaders anew, after a pause.
    pub(crate) async fn refresh(&self) {
        reactor::sleep(Duration::from_millis(RETRY_MS)).await;
        let asked = async {
            let mut known: Vec<_> = self.view.borrow().brokers.values().copied().collect();
            known.extend(&self.shared.plan.bootstrap);
            let view = Admin::connect(&known).await?.view(&self.shared.plan.topics).await?;
            let complete = view.topics.iter().all(|topic| !topic.leaders.is_empty());
            if complete { Ok(view) } else { Err("some partitions have no leader".to_owned()) }
        };
        match asked.await {
            Ok(view) => *self.view.borrow_mut() = Rc::new(view),
            Err(why) => self.meters.borrow_mut().trouble(why),
        }
    }

    /// True when consumers should stop.
    pub(crate) fn read_is_over(&self) -> bool {
        self.read_over.get()
    }

    /// Resolves when consumers should stop.
    pub(crate) async fn read_end(&self) {
        while !self.read_over.get() {
            self.read_ends.notified().await;
        }
    }

    /// Tells the consumers when to stop.
    pub(crate) async fn watch_for_end(self: Rc<Core>) {
        let shared = &self.shared;
        let fanout = shared.plan.read.as_ref().map_or(0, |read| read.fanout) as u64;
        let mut quiet_since = None;
        loop {
            let now_ns = now().mono_ns;
            let over = if shared.plan.load.is_none() {
                now_ns >= self.deadline_ns.get() || shared.budget.load(Ordering::Relaxed) <= 0
            } else if shared.sending.load(Ordering::SeqCst) > 0 {
                false
            } else {
                let since = *quiet_since.get_or_insert(now_ns);
                let expected = shared.acked.load(Ordering::SeqCst) * fanout;
                shared.seen.load(Ordering::Relaxed) >= expected || now_ns - since > ARRIVAL_NS_MAX
            };
            if over || reactor::is_stopping() {
                self.read_over.set(true);
                self.read_ends.notify_all();
                return;
            }
            reactor::sleep(Duration::from_millis(5)).await;
        }
    }
}
