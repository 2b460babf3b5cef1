//! What is counted, on each core by itself.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Three digits of each latency are kept.
const DIGITS: u8 = 3;
/// Latencies above this count as this: beyond it a run has failed whatever the figure.
const LATENCY_US_MAX: u64 = 3_600_000_000;
/// Sentences about failures that are kept for the report; the rest are only counted.
const TROUBLES_MAX: usize = 20;

/// One direction's counts.
pub(crate) struct Meter {
    /// Records measured: acknowledged, or read.
    pub(crate) records: u64,
    /// Bytes of their values where the tool made them, of their batches where it read them.
    pub(crate) bytes: u64,
    /// Bytes of the requests that carried records, or of the batches received, warm-up included.
    pub(crate) wire_bytes: u64,
    /// Batches measured.
    pub(crate) batches: u64,
    /// Requests answered, or sent where no answer is awaited, during the measurement.
    pub(crate) requests: u64,
    /// Records of the warm-up.
    pub(crate) warm_records: u64,
    /// Records that should have been sent before the end and were not.
    pub(crate) unsent: u64,
    /// Latency in microseconds: of records, or of fetches that brought any.
    pub(crate) latency: Histogram<u64>,
    /// Age of records read, by their timestamp, in microseconds.
    pub(crate) age: Histogram<u64>,
    /// Records, or requests, that failed, by error code.
    pub(crate) errors: BTreeMap<i16, u64>,
    /// Monotonic time of the last record measured.
    pub(crate) last_ns: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        let empty = || Histogram::new(DIGITS).expect("three digits are possible");
        Meter {
            records: 0,
            bytes: 0,
            wire_bytes: 0,
            batches: 0,
            requests: 0,
            warm_records: 0,
            unsent: 0,
            latency: empty(),
            age: empty(),
            errors: BTreeMap::new(),
            last_ns: 0,
        }
    }
}

impl Meter {
    /// Notes `count` equal latencies.
    pub(crate) fn note(&mut self, latency_ns: u64, count: u64) {
        self.latency.record_n((latency_ns / 1000).min(LATENCY_US_MAX), count).expect("the histogram grows by itself");
    }

    /// Notes the age of `count` records.
    pub(crate) fn note_age(&mut self, age_ms: i64, count: u64) {
        let age_us = u64::try_from(age_ms).unwrap_or(0).saturating_mul(1000).min(LATENCY_US_MAX);
        self.age.record_n(age_us, count).expect("the histogram grows by itself");
    }

    /// Notes failures.
    pub(crate) fn fail(&mut self, code: i16, count: u64) {
        *self.errors.entry(code).or_default() += count;
    }

    /// Adds what another core, or another second, counted.
    pub(crate) fn add(&mut self, other: &Meter) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.wire_bytes += other.wire_bytes;
        self.batches += other.batches;
        self.requests += other.requests;
        self.warm_records += other.warm_records;
        self.unsent += other.unsent;
        self.latency.add(&other.latency).expect("the histogram grows by itself");
        self.age.add(&other.age).expect("the histogram grows by itself");
        for (code, count) in &other.errors {
            self.fail(*code, *count);
        }
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// Both directions.
#[derive(Default)]
pub(crate) struct Meters {
    pub(crate) sent: Meter,
    pub(crate) read: Meter,
    /// Connections that could not be made, or broke.
    pub(crate) broken: u64,
    /// Batches read with offsets missing before them, with a wrong checksum, or unreadable.
    pub(crate) invalid: u64,
    /// What went wrong, in words.
    pub(crate) troubles: Vec<String>,
}

impl Meters {
    /// Keeps a sentence for the report.
    pub(crate) fn trouble(&mut self, text: String) {
        if self.troubles.len() < TROUBLES_MAX && !self.troubles.contains(&text) {
            self.troubles.push(text);
        }
    }

    /// Adds what another core, or another second, counted.
    pub(crate) fn add(&mut self, other: Meters) {
        self.sent.add(&other.sent);
        self.read.add(&other.read);
        self.broken += other.broken;
        self.invalid += other.invalid;
        other.troubles.into_iter().for_each(|text| self.trouble(text));
    }

    /// True when anything failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.broken > 0 || self.invalid > 0 || !self.sent.errors.is_empty() || !self.read.errors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_of_cores_add_up() {
        let mut all = Meters::default();
        for core in 1..=3u64 {
            let mut one = Meters::default();
            one.sent.records = core;
            one.sent.note(core * 1_000_000, core);
            one.sent.fail(3, 2);
            one.read.last_ns = 10 - core;
            one.trouble("the same".to_owned());
            all.add(one);
        }
        assert_eq!((all.sent.records, all.sent.latency.len(), all.read.last_ns), (6, 6, 9));
        assert_eq!((all.sent.errors[&3], all.troubles.len()), (6, 1));
        assert!(all.has_failures());
        assert_eq!(all.sent.latency.max(), all.sent.latency.value_at_quantile(1.0));
        assert!((2_990..=3_010).contains(&all.sent.latency.max()), "{}", all.sent.latency.max());
    }

    #[test]
    fn latencies_without_end_are_capped() {
        let mut meter = Meter::default();
        meter.note(u64::MAX, 1);
        meter.note_age(i64::MAX, 1);
        meter.note_age(-5, 1);
        assert_eq!((meter.latency.len(), meter.age.len(), meter.age.min()), (1, 2, 0));
    }
}
