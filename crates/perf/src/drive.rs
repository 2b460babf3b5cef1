//! Operations one after the other, or each at its moment, and how long they took: what heartbeats and commits have in common.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use reactor::sync::{Notify, Semaphore};
use reactor::{Class, is_stopping, now, sleep_until, spawn};
use serde_json::Value;
use wire::ErrorCode;

use crate::args::Run;
use crate::conn::Broken;
use crate::meter::Meters;
use crate::report::{Second, UNSENT_TOLD_BELOW, Usages};
use crate::units::grouped;
use crate::watch::Snapshot;

/// Operations of an open loop on their way: a broker that is further behind than this is charged with the wait before the
/// request instead of the wait for its answer.
const OUTSTANDING_MAX: usize = 16_384;
/// How long answers may take after the end: what comes later has failed.
const LAST_ANSWERS_MS_MAX: u64 = 30_000;
/// Pause of a worker that found nothing to do.
const IDLE_MS: u64 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// How operations are begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Lanes that operations are divided among in turn.
    pub(crate) lanes: usize,
    /// Operations of a lane on their way in the closed loop.
    pub(crate) in_flight: usize,
    /// Operations a second of all lanes together; without it the loop is closed.
    pub(crate) rate: Option<u64>,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
}

/// What became of an operation.
pub(crate) enum Done {
    /// It was answered: the records that count, or an error code for each of them.
    Answered { records: u64, errors: BTreeMap<i16, u64> },
    /// There was nothing to do.
    Nothing,
}

impl Done {
    /// An answer with one error code for all of it.
    pub(crate) fn of(code: i16, records: u64) -> Done {
        let errors = if code == 0 { BTreeMap::new() } else { BTreeMap::from([(code, records)]) };
        Done::Answered { records: if code == 0 { records } else { 0 }, errors }
    }
}

/// What a run of operations has found.
pub(crate) struct Driven {
    pub(crate) total: Meters,
    pub(crate) seconds: Vec<Second>,
    pub(crate) elapsed_s: f64,
    pub(crate) usage: Usages,
}

struct Tally {
    measure_ns: u64,
    end_ns: u64,
    sharp: bool,
    second: RefCell<Meters>,
    on_their_way: Cell<usize>,
    quiet: Notify,
}

impl Tally {
    /// Counts an operation that should have begun at `from_ns`.
    fn note(&self, from_ns: u64, done: Result<Done, Broken>) {
        let at_ns = now().mono_ns;
        let mut second = self.second.borrow_mut();
        match done {
            // In an open loop it was due all the same.
            Ok(Done::Nothing) => second.sent.unsent += u64::from(!self.sharp && from_ns >= self.measure_ns),
            Ok(Done::Answered { records, errors }) => {
                errors.iter().for_each(|(code, count)| second.sent.fail(*code, *count));
                let measured = if self.sharp {
                    at_ns >= self.measure_ns && at_ns < self.end_ns
                } else {
                    from_ns >= self.measure_ns
                };
                if measured {
                    second.sent.records += records;
                    second.sent.requests += 1;
                    second.sent.last_ns = at_ns;
                    second.sent.note(at_ns.saturating_sub(from_ns), 1);
                } else {
                    second.sent.warm_records += records;
                }
            }
            Err(why) => {
                second.broken += 1;
                second.trouble(why);
            }
        }
    }

    fn begun(&self) {
        self.on_their_way.set(self.on_their_way.get() + 1);
    }

    fn ended(&self) {
        self.on_their_way.set(self.on_their_way.get() - 1);
        if self.on_their_way.get() == 0 {
            self.quiet.notify_one();
        }
    }
}

/// Runs operations for the time that `pace` gives. `operation` begins one of a lane.
pub(crate) async fn drive<O, F>(pace: Pace, run: &Run, operation: O) -> Driven
where
    O: Fn(usize) -> F + 'static,
    F: Future<Output = Result<Done, Broken>> + 'static,
{
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let begin_ns = now().mono_ns;
    let measure_ns = begin_ns + nanos(pace.warmup);
    let tally = Rc::new(Tally {
        measure_ns,
        end_ns: measure_ns.saturating_add(nanos(pace.duration)),
        sharp: pace.rate.is_none(),
        second: RefCell::default(),
        on_their_way: Cell::new(0),
        quiet: Notify::new(),
    });
    let operation = Rc::new(operation);
    match pace.rate {
        None => {
            for worker in 0..pace.lanes * pace.in_flight {
                tally.begun();
                spawn(Class::Normal, closed(Rc::clone(&tally), worker % pace.lanes, Rc::clone(&operation))).detach();
            }
        }
        Some(rate) => {
            tally.begun();
            spawn(Class::Normal, open(Rc::clone(&tally), begin_ns, rate, pace.lanes, operation)).detach();
        }
    }
    watch(&tally, run).await
}

/// One operation after the other.
async fn closed<O, F>(tally: Rc<Tally>, lane: usize, operation: Rc<O>)
where
    O: Fn(usize) -> F,
    F: Future<Output = Result<Done, Broken>>,
{
    loop {
        let from_ns = now().mono_ns;
        if from_ns >= tally.end_ns || is_stopping() {
            break;
        }
        let done = operation(lane).await;
        let (idle, broken) = (matches!(done, Ok(Done::Nothing)), done.is_err());
        tally.note(from_ns, done);
        if broken {
            break;
        }
        if idle {
            reactor::sleep(Duration::from_millis(IDLE_MS)).await;
        }
    }
    tally.ended();
}

/// Operations at even distances, whatever became of those before.
async fn open<O, F>(tally: Rc<Tally>, begin_ns: u64, rate: u64, lanes: usize, operation: Rc<O>)
where
    O: Fn(usize) -> F + 'static,
    F: Future<Output = Result<Done, Broken>> + 'static,
{
    let room = Semaphore::new(OUTSTANDING_MAX);
    let due_ns = |n: u64| begin_ns + (n as f64 * SECOND_NS as f64 / rate as f64) as u64;
    let mut n = 0;
    while due_ns(n) < tally.end_ns && !is_stopping() {
        if now().mono_ns < due_ns(n) {
            sleep_until(due_ns(n)).await;
        }
        let permit = room.acquire().await;
        if now().mono_ns >= tally.end_ns {
            break;
        }
        tally.begun();
        let (mine, operation, from_ns) = (Rc::clone(&tally), Rc::clone(&operation), due_ns(n));
        spawn(Class::Normal, async move {
            let done = operation(n as usize % lanes).await;
            mine.note(from_ns, done);
            mine.ended();
            drop(permit);
        })
        .detach();
        n += 1;
    }
    let mut second = tally.second.borrow_mut();
    while due_ns(n) < tally.end_ns {
        second.sent.unsent += 1;
        n += 1;
    }
    drop(second);
    tally.ended();
}

/// Gathers second by second, and what processes and disk used meanwhile.
async fn watch(tally: &Tally, run: &Run) -> Driven {
    let mut driven = Driven { total: Meters::default(), seconds: Vec::new(), elapsed_s: 0.0, usage: Usages::default() };
    let begin_ns = now().mono_ns;
    if begin_ns < tally.measure_ns {
        sleep_until(tally.measure_ns).await;
        driven.total.sent.warm_records += tally.second.take().sent.warm_records;
    }
    let start = Snapshot::take(run);
    let mut until_ns = tally.measure_ns;
    while until_ns < tally.end_ns && !is_stopping() {
        until_ns = (until_ns + SECOND_NS).min(tally.end_ns);
        sleep_until(until_ns).await;
        close_second(tally, run, &mut driven);
    }
    // The time of a closed loop is over now; answers to what has its moment still count.
    let end = Snapshot::take(run);
    let limit = Duration::from_millis(LAST_ANSWERS_MS_MAX);
    let over = reactor::timeout(limit, async {
        while tally.on_their_way.get() > 0 {
            tally.quiet.notified().await;
        }
    });
    if over.await.is_err() {
        tally.note(0, Err(format!("{} operations have no answer", tally.on_their_way.get())));
    }
    let last = if tally.sharp { end } else { Snapshot::take(run) };
    let rest = tally.second.take();
    driven.total.add(rest);
    driven.usage = last.since(&start);
    let given_ns = tally.end_ns.min(until_ns).saturating_sub(tally.measure_ns);
    let used_ns = driven.total.sent.last_ns.saturating_sub(tally.measure_ns);
    driven.elapsed_s = if tally.sharp { given_ns } else { given_ns.max(used_ns) } as f64 / 1e9;
    driven
}

fn close_second(tally: &Tally, run: &Run, driven: &mut Driven) {
    let meters = tally.second.take();
    let second = Second::of_sent(true, &meters);
    if !run.quiet {
        eprintln!("{}", second.line(driven.seconds.len() + 1));
    }
    driven.seconds.push(second);
    driven.total.add(meters);
}

impl Driven {
    /// Why it does not count as a success, if it does not.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed: u64 = self.total.sent.errors.values().sum();
        (failed > 0 || self.total.broken > 0)
            .then(|| format!("{failed} operations failed, {} connections broke", self.total.broken))
    }

    /// The fields that every result has.
    pub(crate) fn json(&self, into: &mut Value) {
        into["elapsed_s"] = self.elapsed_s.into();
        into["sent"] = crate::report::meter_json(&self.total.sent, self.elapsed_s);
        into["broken_connections"] = self.total.broken.into();
        into["troubles"] = self.total.troubles.clone().into();
        into["client"] = self.usage.own.clone().into();
        into["watched"] = self.usage.watched.clone().into();
        into["disk"] = self.usage.disk.clone().into();
        into["seconds"] = self.seconds.iter().map(Second::json).collect::<Vec<_>>().into();
    }

    /// What was used and what failed, in words.
    pub(crate) fn end_of_text(&self, out: &mut String) {
        let sent = &self.total.sent;
        if sent.unsent * UNSENT_TOLD_BELOW > sent.requests {
            let _ = writeln!(out, "the rate was not reached: {} were due and not sent", grouped(sent.unsent));
        }
        for (name, usage) in [("this tool", &self.usage.own), ("watched process", &self.usage.watched)] {
            if let Some(usage) = usage {
                let _ = writeln!(out, "{name}: CPU {} s user, {} s system", usage["user_s"], usage["system_s"]);
            }
        }
        for (code, count) in &sent.errors {
            let error = ErrorCode(*code);
            let _ = writeln!(out, "failed: {} with {error}: {}", grouped(*count), error.message());
        }
        for text in &self.total.troubles {
            let _ = writeln!(out, "trouble: {text}");
        }
    }
}
