//! From a plan to its result: asks the cluster, starts the cores, gathers what they count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};

use reactor::sync::Semaphore;
use reactor::{Class, CoreId, Runtime, RuntimeConfig, now, spawn};

use crate::args::From;
use crate::cluster::{Admin, LoadVersions, Versions, View, offsets};
use crate::core::{Core, Note, Shared};
use crate::meter::Meters;
use crate::plan::Plan;
use crate::report::{self, Outcome, Second};
use crate::watch::Snapshot;
use crate::{consume, idle, produce};

/// Submission queue entries of a core's ring.
const RING_ENTRIES: u32 = 1024;
/// ListOffsets: the first offset, and the end.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// What the cluster said before the start.
struct Setup {
    view: View,
    versions: Versions,
    begins: Vec<i64>,
    ends: Vec<i64>,
    run_id: u64,
    metadata_us: u64,
}

/// Runs a plan.
///
/// # Errors
/// Why there is no result, for people.
pub(crate) fn run(plan: Plan) -> Result<Outcome, String> {
    let asked = plan.clone();
    let setup = reactor::block_on(async move { setup(&asked).await })?;
    let load_versions = LoadVersions::of(&setup.versions)?;
    let consumers = plan.read.as_ref().map_or(0, |read| read.consumers);
    if consumers > setup.begins.len() && plan.mode != "idle" {
        let partitions = setup.begins.len();
        return Err(format!("{consumers} consumers share {partitions} partitions, so that some would have none"));
    }
    let budget =
        plan.records.filter(|_| plan.load.is_none()).map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
    let shared = Arc::new(Shared {
        sending: AtomicUsize::new(plan.load.as_ref().map_or(0, |load| load.producers)),
        budget: AtomicI64::new(budget),
        view: setup.view,
        versions: setup.versions,
        load_versions,
        begins: setup.begins,
        ends: setup.ends,
        run_id: setup.run_id,
        ready: AtomicUsize::new(0),
        begin_ns: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        acked: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        plan,
    });
    let mut config = RuntimeConfig::with_cores(shared.plan.threads);
    config.ring_entries = RING_ENTRIES;
    for (i, spec) in config.cores.iter_mut().enumerate() {
        spec.name = format!("perf-{i}");
    }
    let (notes, heard) = channel();
    let given = Arc::clone(&shared);
    let runtime = Runtime::start(config, move |id| run_core(id, Arc::clone(&given), notes.clone()))
        .map_err(|error| format!("no io_uring: {error}"))?;
    let stop = runtime.stop_handle();
    // The process has one runtime, so nobody else has the signals; without them an interruption just loses the result.
    let _ = stop.on_termination_signals();
    let outcome = Gathering::new(&shared).gather(&heard);
    runtime.join();
    if shared.plan.delete {
        let asked = shared.plan.clone();
        reactor::block_on(async move { Admin::connect(&asked.bootstrap).await?.delete(&asked.topics).await })?;
    }
    let mut outcome = outcome?;
    outcome.metadata_us = setup.metadata_us;
    outcome.interrupted = stop.is_stopping();
    Ok(outcome)
}

async fn setup(plan: &Plan) -> Result<Setup, String> {
    let mut admin = Admin::connect(&plan.bootstrap).await?;
    let view = admin.prepare(plan).await?;
    let asked_ns = now().mono_ns;
    admin.view(&plan.topics).await?;
    let metadata_us = (now().mono_ns - asked_ns) / 1000;
    let versions = admin.versions().clone();
    // Asked for whatever is done, as the answers show that the leaders are ready.
    let ends = offsets(&view, &versions, LATEST).await?;
    let begins = match plan.read.as_ref().map(|read| read.from) {
        Some(From::Beginning) => offsets(&view, &versions, EARLIEST).await?,
        _ => ends.clone(),
    };
    Ok(Setup { view, versions, begins, ends, run_id: reactor::random_u64(), metadata_us })
}

async fn run_core(id: CoreId, shared: Arc<Shared>, notes: Sender<Note>) {
    let core = Core::new(Arc::clone(&shared), notes, shared.run_id);
    let plan = &shared.plan;
    let mine = |count: usize| (0..count).filter(|i| i % plan.threads == id.index());
    let producers: Vec<usize> = mine(plan.load.as_ref().map_or(0, |load| load.producers)).collect();
    let consumers: Vec<usize> = mine(plan.read.as_ref().map_or(0, |read| read.consumers * read.fanout)).collect();
    let idlers: Vec<usize> = mine(plan.connections).collect();
    core.opening.set(producers.len() + consumers.len() + idlers.len());
    let turns = Semaphore::new(idle::CONNECTING_MAX);
    let mut tasks = Vec::new();
    tasks.extend(consumers.into_iter().map(|i| spawn(Class::Normal, consume::run(core.clone(), i))));
    tasks.extend(producers.into_iter().map(|i| spawn(Class::Normal, produce::run(core.clone(), i))));
    tasks.extend(idlers.into_iter().map(|i| spawn(Class::Normal, idle::run(core.clone(), i, turns.clone()))));
    core.open_gate().await;
    let ticking = spawn(Class::Latency, tick(core.clone(), id));
    if plan.read.is_some() || plan.connections > 0 {
        spawn(Class::Latency, core.clone().watch_for_end()).detach();
    }
    for task in tasks {
        task.await;
    }
    ticking.abort();
    let meters = Box::new(core.meters.take());
    // The main thread listens until every core has said this.
    let _ = core.notes.send(Note::Done { meters, mono_ns: now().mono_ns });
}

/// Hands in what was counted, second by second, and tells when the measurement begins.
async fn tick(core: std::rc::Rc<Core>, id: CoreId) {
    const SECOND_NS: u64 = 1_000_000_000;
    let (measure_ns, deadline_ns) = (core.measure_ns.get(), core.deadline_ns.get());
    let mut from_ns = core.begin_ns.get();
    let mut second = 0;
    loop {
        let measured = from_ns >= measure_ns;
        if from_ns == measure_ns && id.index() == 0 {
            let _ = core.notes.send(Note::Measuring { mono_ns: measure_ns, wall_ms: now().wall_ms });
        }
        let mut until_ns = from_ns + SECOND_NS;
        for border_ns in [measure_ns, deadline_ns] {
            if from_ns < border_ns {
                until_ns = until_ns.min(border_ns);
            }
        }
        reactor::sleep_until(until_ns).await;
        if until_ns == deadline_ns && id.index() == 0 {
            let _ = core.notes.send(Note::Over);
        }
        let meters = Box::new(core.meters.take());
        let _ = core.notes.send(Note::Interval { second, measured, meters });
        second += 1;
        from_ns = until_ns;
    }
}

/// The main thread's side of a run.
struct Gathering<'a> {
    shared: &'a Shared,
    /// Seconds that some cores have still to tell about.
    open: BTreeMap<u64, (usize, bool, Meters)>,
    total: Meters,
    seconds: Vec<Second>,
    measuring: Option<Start>,
    /// When the time of the measurement was over.
    over: Option<Snapshot>,
    /// The end of the last core.
    end_ns: u64,
}

/// The moment when the measurement began.
struct Start {
    mono_ns: u64,
    wall_ms: i64,
    snapshot: Snapshot,
}

impl<'a> Gathering<'a> {
    fn new(shared: &'a Shared) -> Gathering<'a> {
        Gathering {
            shared,
            open: BTreeMap::new(),
            total: Meters::default(),
            seconds: Vec::new(),
            measuring: None,
            over: None,
            end_ns: 0,
        }
    }

    fn gather(mut self, heard: &Receiver<Note>) -> Result<Outcome, String> {
        let (mut done, mut failure) = (0, None);
        while done < self.shared.plan.threads {
            match heard.recv().map_err(|_| "the cores are gone".to_owned())? {
                Note::Failed(why) => failure = Some(why),
                Note::Measuring { mono_ns, wall_ms } => {
                    self.measuring = Some(Start { mono_ns, wall_ms, snapshot: self.snapshot() });
                }
                Note::Over => self.over = Some(self.snapshot()),
                Note::Interval { second, measured, meters } => self.interval(second, measured, *meters),
                Note::Done { meters, mono_ns } => {
                    done += 1;
                    self.end_ns = self.end_ns.max(mono_ns);
                    self.total.add(*meters);
                }
            }
        }
        match failure {
            Some(why) => Err(why),
            None => Ok(self.finish()),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.shared.plan.run)
    }

    fn interval(&mut self, second: u64, measured: bool, meters: Meters) {
        let entry = self.open.entry(second).or_insert_with(|| (0, measured, Meters::default()));
        entry.0 += 1;
        entry.2.add(meters);
        if entry.0 < self.shared.plan.threads {
            return;
        }
        let (_, measured, meters) = self.open.remove(&second).expect("just seen");
        self.close(measured, meters);
    }

    fn close(&mut self, measured: bool, meters: Meters) {
        let second = Second::of(&self.shared.plan, measured, &meters);
        if !self.shared.plan.run.quiet {
            eprintln!("{}", second.line(self.seconds.len() + 1));
        }
        self.seconds.push(second);
        self.total.add(meters);
    }

    fn finish(mut self) -> Outcome {
        // A core that was done before others did not tell about every second.
        for (_, (_, measured, meters)) in std::mem::take(&mut self.open) {
            self.close(measured, meters);
        }
        let plan = &self.shared.plan;
        let end = self.over.take().filter(|_| plan.ends_sharply()).unwrap_or_else(|| self.snapshot());
        let last_ns = self.total.sent.last_ns.max(self.total.read.last_ns);
        let (mut seconds, mut usage) = (0.0, report::Usages::default());
        let mut started_ms = 0;
        if let Some(start) = &self.measuring {
            let to_last = last_ns.saturating_sub(start.mono_ns) as f64 / 1e9;
            let given = plan.duration.map_or(0.0, |duration| duration.as_secs_f64());
            let used_up = given > 0.0 && self.end_ns.saturating_sub(start.mono_ns) as f64 / 1e9 >= given;
            seconds = match (used_up, plan.ends_sharply()) {
                (false, _) => to_last,
                (true, true) => given,
                (true, false) => given.max(to_last),
            };
            started_ms = start.wall_ms;
            usage = end.since(&start.snapshot);
        }
        Outcome {
            total: self.total,
            seconds: self.seconds,
            elapsed_s: seconds,
            started_ms,
            usage,
            versions: (self.shared.load_versions.produce, self.shared.load_versions.fetch),
            plan: plan.clone(),
            interrupted: false,
            metadata_us: 0,
        }
    }
}
