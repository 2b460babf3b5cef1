//! Metrics of one core, by name and labels.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::histogram::{Histogram, HistogramSnapshot};

/// Most series of one registry. A metric with a label per topic or client must not grow with their number without end;
/// what goes beyond counts into nothing and is counted by `odradek_metrics_dropped_series_total`.
pub const SERIES_MAX: usize = 16_384;

/// What the recorded numbers are. Histograms choose their printed bounds by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A size.
    Bytes,
    /// Recorded in nanoseconds, printed in seconds.
    Nanoseconds,
}

/// Name, help text and unit of a metric; a static of the crate that measures it.
#[derive(Debug)]
pub struct Desc {
    /// Name in the exposition, `odradek_..._total` for counters.
    pub name: &'static str,
    /// One sentence on what is measured.
    pub help: &'static str,
    /// What the numbers are.
    pub unit: Unit,
}

impl Desc {
    /// Describes a metric.
    pub const fn new(name: &'static str, help: &'static str, unit: Unit) -> Desc {
        Desc { name, help, unit }
    }
}

/// A number that only grows. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct Counter(Rc<Cell<u64>>);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A number that goes up and down. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct Gauge(Rc<Cell<i64>>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: i64) {
        self.0.set(value);
    }

    /// Adds, or with a negative number subtracts.
    pub fn add(&self, n: i64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

pub(crate) type Labels = Vec<(&'static str, String)>;

/// Series by metric name and labels.
type Series<T> = BTreeMap<(&'static str, Labels), (&'static Desc, T)>;

enum Metric {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

/// The metrics of one core.
pub struct Registry {
    common: Labels,
    series: RefCell<Series<Metric>>,
    dropped: Counter,
}

static DROPPED: Desc =
    Desc::new("odradek_metrics_dropped_series_total", "Series that found the table of metrics full.", Unit::Count);

impl Registry {
    /// A registry whose metrics all carry the `common` labels. Cores that are to be added up carry the same.
    pub fn new(common: &[(&'static str, &str)]) -> Registry {
        let common = common.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        let registry = Registry { common, series: RefCell::default(), dropped: Counter::default() };
        let key = (DROPPED.name, registry.common.clone());
        registry.series.borrow_mut().insert(key, (&DROPPED, Metric::Counter(registry.dropped.clone())));
        registry
    }

    /// The counter with these labels; asked for again, the same one. Keep it: looking it up costs an allocation.
    pub fn counter(&self, desc: &'static Desc, labels: &[(&'static str, &str)]) -> Counter {
        let made = self.metric(
            desc,
            labels,
            || Metric::Counter(Counter::default()),
            |metric| match metric {
                Metric::Counter(counter) => Some(counter.clone()),
                _ => None,
            },
        );
        made.unwrap_or_default()
    }

    /// The gauge with these labels.
    pub fn gauge(&self, desc: &'static Desc, labels: &[(&'static str, &str)]) -> Gauge {
        let made = self.metric(
            desc,
            labels,
            || Metric::Gauge(Gauge::default()),
            |metric| match metric {
                Metric::Gauge(gauge) => Some(gauge.clone()),
                _ => None,
            },
        );
        made.unwrap_or_default()
    }

    /// The histogram with these labels.
    pub fn histogram(&self, desc: &'static Desc, labels: &[(&'static str, &str)]) -> Histogram {
        let made = self.metric(
            desc,
            labels,
            || Metric::Histogram(Histogram::default()),
            |metric| match metric {
                Metric::Histogram(histogram) => Some(histogram.clone()),
                _ => None,
            },
        );
        made.unwrap_or_default()
    }

    /// Finds or makes a series. `None` when the table is full.
    fn metric<T>(
        &self,
        desc: &'static Desc,
        labels: &[(&'static str, &str)],
        make: impl FnOnce() -> Metric,
        pick: impl FnOnce(&Metric) -> Option<T>,
    ) -> Option<T> {
        let mut all = self.common.clone();
        all.extend(labels.iter().map(|&(name, value)| (name, value.to_owned())));
        let mut series = self.series.borrow_mut();
        let full = series.len() >= SERIES_MAX;
        let key = (desc.name, all);
        if full && !series.contains_key(&key) {
            self.dropped.inc();
            return None;
        }
        let (known, metric) = series.entry(key).or_insert_with(|| (desc, make()));
        assert!(std::ptr::eq(*known, desc), "metric {} is described twice", desc.name);
        Some(pick(metric).unwrap_or_else(|| panic!("metric {} is of two kinds", desc.name)))
    }

    /// Forgets the series of `desc` with these labels, for instance those of a deleted topic.
    pub fn remove(&self, desc: &'static Desc, labels: &[(&'static str, &str)]) {
        let mut all = self.common.clone();
        all.extend(labels.iter().map(|&(name, value)| (name, value.to_owned())));
        self.series.borrow_mut().remove(&(desc.name, all));
    }

    /// All series as plain data.
    pub fn snapshot(&self) -> Snapshot {
        let of = |metric: &Metric| match metric {
            Metric::Counter(counter) => Sample::Counter(counter.get()),
            Metric::Gauge(gauge) => Sample::Gauge(gauge.get()),
            Metric::Histogram(histogram) => Sample::Histogram(histogram.snapshot()),
        };
        let series = self.series.borrow();
        Snapshot { series: series.iter().map(|(key, (desc, metric))| (key.clone(), (*desc, of(metric)))).collect() }
    }
}

/// The value of one series.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Sample {
    Counter(u64),
    Gauge(i64),
    Histogram(HistogramSnapshot),
}

impl Sample {
    pub(crate) fn add(&mut self, other: &Sample) {
        match (self, other) {
            (Sample::Counter(mine), Sample::Counter(theirs)) => *mine = mine.wrapping_add(*theirs),
            (Sample::Gauge(mine), Sample::Gauge(theirs)) => *mine = mine.wrapping_add(*theirs),
            (Sample::Histogram(mine), Sample::Histogram(theirs)) => mine.add(theirs),
            (mine, theirs) => panic!("one metric of two kinds: {mine:?} and {theirs:?}"),
        }
    }
}

/// The metrics of one core at one moment. Can be sent to another core.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) series: Series<Sample>,
}

impl Snapshot {
    /// The sum of a counter's series whose labels include `labels`; for tests and reports.
    pub fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let matches =
            |all: &Labels| labels.iter().all(|&(n, v)| all.iter().any(|(name, value)| *name == n && value == v));
        let values = self.series.iter().filter(|((series, all), _)| *series == name && matches(all));
        values.map(|(_, (_, sample))| if let Sample::Counter(value) = sample { *value } else { 0 }).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TOPICS: Desc = Desc::new("test_topics", "Topics.", Unit::Count);

    #[test]
    fn the_same_labels_give_the_same_metric() {
        let registry = Registry::new(&[("core", "1")]);
        registry.counter(&TOPICS, &[("t", "a")]).inc();
        registry.counter(&TOPICS, &[("t", "a")]).add(2);
        registry.counter(&TOPICS, &[("t", "b")]).inc();
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.counter("test_topics", &[("t", "a"), ("core", "1")]), 3);
        assert_eq!(snapshot.counter("test_topics", &[]), 4);
        registry.remove(&TOPICS, &[("t", "a")]);
        assert_eq!(registry.snapshot().counter("test_topics", &[]), 1);
    }

    #[test]
    fn a_full_table_counts_what_it_drops() {
        let registry = Registry::new(&[]);
        for number in 0..SERIES_MAX + 9 {
            registry.counter(&TOPICS, &[("t", &number.to_string())]).inc();
        }
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.series.len(), SERIES_MAX);
        assert_eq!(snapshot.counter("odradek_metrics_dropped_series_total", &[]), 10);
    }

    #[test]
    #[should_panic(expected = "two kinds")]
    fn a_metric_has_one_kind() {
        let registry = Registry::new(&[]);
        registry.counter(&TOPICS, &[]);
        registry.gauge(&TOPICS, &[]);
    }
}
