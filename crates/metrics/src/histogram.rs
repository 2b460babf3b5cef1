//! Log-linear histograms: every power of two is divided into equal parts, so that the relative error is the same at
//! every magnitude.

use std::cell::RefCell;
use std::rc::Rc;

/// log2 of the parts of a power of two: 16 parts bound the relative error by 1/16.
const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;

/// Buckets that values up to `u64::MAX` can fall into.
const BUCKETS_MAX: usize = PARTS * (64 - PART_BITS as usize + 1);

/// Index of the bucket of a value. Values below `PARTS` have a bucket each.
fn bucket_of(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let exponent = value.ilog2() - PART_BITS;
    let part = (value >> exponent) as usize - PARTS;
    (exponent as usize + 1) * PARTS + part
}

/// Smallest value that falls into a bucket.
fn lowest_of(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let exponent = (bucket / PARTS - 1) as u32;
    ((PARTS + bucket % PARTS) as u64) << exponent
}

/// Largest value that falls into a bucket.
fn highest_of(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS_MAX { u64::MAX } else { lowest_of(bucket + 1) - 1 }
}

#[derive(Default, Debug)]
struct State {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

/// Distribution of values on one core. Clones share the state.
#[derive(Clone, Default, Debug)]
pub struct Histogram {
    state: Rc<RefCell<State>>,
}

impl Histogram {
    /// Counts one value. The table grows to the largest magnitude seen and then stays.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value that occurred several times.
    pub fn record_many(&self, value: u64, times: u64) {
        let bucket = bucket_of(value);
        let mut state = self.state.borrow_mut();
        if bucket >= state.buckets.len() {
            // Whole powers of two at a time, so that growth is rare.
            let len = (bucket / PARTS + 1) * PARTS;
            state.buckets.resize(len, 0);
        }
        state.buckets[bucket] += times;
        state.count += times;
        state.sum = state.sum.saturating_add(value.saturating_mul(times));
        state.max = state.max.max(value);
    }

    /// The state as plain data.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let state = self.state.borrow();
        HistogramSnapshot { buckets: state.buckets.clone(), count: state.count, sum: state.sum, max: state.max }
    }
}

/// State of one or, added up, several histograms.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl HistogramSnapshot {
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Largest value, exact.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Adds the values of another histogram.
    pub fn add(&mut self, other: &HistogramSnapshot) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The value below or at which the fraction `q` (0 to 1) of the values lie; at most 1/16 too high. 0 when empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Number of values below `2^exponent`.
    pub(crate) fn below_power(&self, exponent: u32) -> u64 {
        let end = bucket_of(1 << exponent).min(self.buckets.len());
        self.buckets[..end].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers() {
        for bucket in 0..BUCKETS_MAX {
            assert_eq!(bucket_of(lowest_of(bucket)), bucket);
            assert_eq!(bucket_of(highest_of(bucket)), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS_MAX - 1);
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let histogram = Histogram::default();
        for value in 1..=10_000 {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count(), snapshot.sum(), snapshot.max()), (10_000, 50_005_000, 10_000));
        for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = q * 10_000.0;
            let got = snapshot.quantile(q) as f64;
            assert!(got >= exact && got <= exact * 17.0 / 16.0, "{q}: {got} for {exact}");
        }
        assert_eq!(snapshot.quantile(1.0), 10_000);
        assert_eq!(HistogramSnapshot::default().quantile(0.5), 0);
    }

    proptest::proptest! {
        #[test]
        fn adding_snapshots_is_recording_both(a in proptest::collection::vec(0u64.., 0..50), b in proptest::collection::vec(0u64..5000, 0..50)) {
            let (left, right, both) = (Histogram::default(), Histogram::default(), Histogram::default());
            for &value in &a { left.record(value); both.record(value); }
            for &value in &b { right.record(value); both.record(value); }
            let mut sum = left.snapshot();
            sum.add(&right.snapshot());
            proptest::prop_assert_eq!(sum.quantile(0.5), both.snapshot().quantile(0.5));
            proptest::prop_assert_eq!(sum, both.snapshot());
        }
    }
}
