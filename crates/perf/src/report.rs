//! What a run has found, as text and as JSON.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use wire::ErrorCode;

use crate::args::Acks;
use crate::meter::{Meter, Meters};
use crate::plan::Plan;
use crate::units::grouped;

/// The percentiles that are told.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
/// Points of the latency curve per halving of what is left above them.
const CURVE_TICKS: u32 = 5;
/// Records left unsent at the end are told of when they are more than one in so many: a few are always on their way.
pub(crate) const UNSENT_TOLD_BELOW: u64 = 100;
const MIB: f64 = (1 << 20) as f64;

/// One second of a run.
pub(crate) struct Second {
    measured: bool,
    records: u64,
    read: u64,
    mib: f64,
    latency_us: [u64; 3],
    failures: bool,
}

impl Second {
    /// What was counted in a second.
    pub(crate) fn of(plan: &Plan, measured: bool, meters: &Meters) -> Second {
        let main = if plan.load.is_some() { &meters.sent } else { &meters.read };
        let latency = latency_of(plan, meters);
        let at = |q| latency.value_at_quantile(q);
        Second {
            measured,
            records: main.records + main.warm_records,
            read: meters.read.records + meters.read.warm_records,
            mib: main.bytes.max(if measured { 0 } else { main.wire_bytes }) as f64 / MIB,
            latency_us: if latency.is_empty() { [0; 3] } else { [at(0.5), at(0.99), at(1.0)] },
            failures: meters.has_failures(),
        }
    }

    /// A second of operations that are only sent.
    pub(crate) fn of_sent(measured: bool, meters: &Meters) -> Second {
        let latency = &meters.sent.latency;
        let at = |q| latency.value_at_quantile(q);
        Second {
            measured,
            records: meters.sent.records,
            read: 0,
            mib: 0.0,
            latency_us: if latency.is_empty() { [0; 3] } else { [at(0.5), at(0.99), at(1.0)] },
            failures: meters.has_failures(),
        }
    }

    /// A line of progress.
    pub(crate) fn line(&self, number: usize) -> String {
        let [p50, p99, max] = self.latency_us.map(|us| us as f64 / 1000.0);
        let warm = if self.measured { "" } else { "  (warm-up)" };
        let failures = if self.failures { "  (failures)" } else { "" };
        let (records, read, mib) = (grouped(self.records), grouped(self.read), self.mib);
        format!(
            "{number:>4}: {records} records, {mib:.1} MiB, {read} read, ms p50 {p50:.3} p99 {p99:.3} max {max:.3}{warm}{failures}"
        )
    }

    /// The second for other programs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "measured": self.measured, "records": self.records, "records_read": self.read, "mib": self.mib,
            "p50_us": self.latency_us[0], "p99_us": self.latency_us[1], "max_us": self.latency_us[2],
        })
    }
}

/// The latency that the mode is about: until acknowledged, until read, or of fetches.
fn latency_of<'a>(plan: &Plan, meters: &'a Meters) -> &'a Histogram<u64> {
    let by_reader = plan.read.is_some() && plan.mode != "idle";
    if by_reader { &meters.read.latency } else { &meters.sent.latency }
}

/// What processes and disk used during the measurement.
#[derive(Default)]
pub(crate) struct Usages {
    pub(crate) own: Option<Value>,
    pub(crate) watched: Option<Value>,
    pub(crate) disk: Option<Value>,
}

/// What a run has found.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) total: Meters,
    pub(crate) seconds: Vec<Second>,
    /// From the end of the warm-up to the last record.
    pub(crate) elapsed_s: f64,
    /// Wall clock time of the end of the warm-up.
    pub(crate) started_ms: i64,
    pub(crate) usage: Usages,
    /// Versions of Produce and Fetch.
    pub(crate) versions: (i16, i16),
    pub(crate) interrupted: bool,
    /// How long the broker took to describe the topics.
    pub(crate) metadata_us: u64,
}

impl Outcome {
    /// Why the run does not count as a success, if it does not.
    pub(crate) fn failure(&self) -> Option<String> {
        let total = &self.total;
        let failed: u64 = total.sent.errors.values().chain(total.read.errors.values()).sum();
        if total.invalid > 0 {
            return Some(format!("{} batches were not what they should be", total.invalid));
        }
        if failed > 0 || total.broken > 0 {
            return Some(format!("{failed} records or requests failed, {} connections broke", total.broken));
        }
        None
    }

    fn rate(&self, count: u64) -> f64 {
        if self.elapsed_s > 0.0 { count as f64 / self.elapsed_s } else { 0.0 }
    }

    /// The result for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if self.interrupted {
            out.push_str("interrupted; what was measured until then:\n");
        }
        if self.plan.load.is_some() {
            let nobody = self.plan.load.as_ref().is_some_and(|load| load.acks == Acks::None);
            let what = if nobody { "given to the kernel after" } else { "acknowledged after" };
            self.meter_text(&mut out, "sent", &self.total.sent, what);
        }
        if self.plan.read.is_some() && self.plan.mode != "idle" {
            let what = if self.plan.load.is_some() { "read after" } else { "fetches took" };
            self.meter_text(&mut out, "read", &self.total.read, what);
        }
        if self.plan.mode == "idle" {
            latency_text(&mut out, "connected and answered after", &self.total.sent.latency);
        }
        if !self.total.read.age.is_empty() {
            latency_text(&mut out, "age of records read", &self.total.read.age);
        }
        if self.total.sent.unsent * UNSENT_TOLD_BELOW > self.total.sent.records {
            let late = grouped(self.total.sent.unsent);
            let _ = writeln!(out, "the rate was not reached: {late} records were due and not sent");
        }
        for (name, usage) in [("this tool", &self.usage.own), ("watched process", &self.usage.watched)] {
            if let Some(usage) = usage {
                let _ = writeln!(out, "{name}: CPU {} s user, {} s system", usage["user_s"], usage["system_s"]);
            }
        }
        for (code, count) in self.total.sent.errors.iter().chain(&self.total.read.errors) {
            let error = ErrorCode(*code);
            let _ = writeln!(out, "failed: {} with {error}: {}", grouped(*count), error.message());
        }
        for text in &self.total.troubles {
            let _ = writeln!(out, "trouble: {text}");
        }
        out
    }

    fn meter_text(&self, out: &mut String, verb: &str, meter: &Meter, what: &str) {
        let _ = writeln!(
            out,
            "{verb} {} records in {:.3} s: {} records/s, {:.2} MiB/s, {} requests, {} batches",
            grouped(meter.records),
            self.elapsed_s,
            grouped(self.rate(meter.records) as u64),
            self.rate(meter.bytes) / MIB,
            grouped(meter.requests),
            grouped(meter.batches)
        );
        latency_text(out, what, &meter.latency);
    }

    /// The result for other programs.
    pub(crate) fn json(&self) -> Value {
        let total = &self.total;
        json!({
            "tool": "odradek perf", "version": env!("CARGO_PKG_VERSION"), "mode": self.plan.mode,
            "started_ms": self.started_ms, "elapsed_s": self.elapsed_s, "interrupted": self.interrupted,
            "metadata_us": self.metadata_us, "produce_version": self.versions.0, "fetch_version": self.versions.1,
            "settings": self.settings(),
            "sent": self.plan.load.is_some().then(|| meter_json(&total.sent, self.elapsed_s)),
            "read": self.plan.read.is_some().then(|| meter_json(&total.read, self.elapsed_s)),
            "connections_made": (self.plan.connections > 0).then(|| latency_json(&total.sent.latency)),
            "broken_connections": total.broken, "invalid_batches": total.invalid, "troubles": total.troubles,
            "client": self.usage.own, "watched": self.usage.watched, "disk": self.usage.disk,
            "seconds": self.seconds.iter().map(Second::json).collect::<Vec<_>>(),
        })
    }

    fn settings(&self) -> Value {
        let plan = &self.plan;
        let mut settings = json!({
            "topics": plan.topics.len(), "partitions": plan.partitions, "threads": plan.threads,
            "connections": plan.connections, "records": plan.records,
            "duration_s": plan.duration.map(|d| d.as_secs_f64()), "warmup_s": plan.warmup.as_secs_f64(),
        });
        if let Some(load) = &plan.load {
            settings["load"] = json!({
                "producers": load.producers, "record_size": load.recipe.record_size, "batch_size": load.recipe.batch_size,
                "compression": load.recipe.codec.name(), "linger_ms": load.linger_ns as f64 / 1e6,
                "acks": load.acks.code(), "idempotent": load.idempotent, "rate": load.rate, "in_flight": load.in_flight,
                "by_record": load.by_record, "batches_per_request": load.batches_per_request,
            });
        }
        if let Some(read) = &plan.read {
            settings["read"] = json!({
                "consumers": read.consumers, "fanout": read.fanout, "max_wait_ms": read.max_wait_ms,
                "min_bytes": read.min_bytes, "max_bytes": read.max_bytes, "partition_max_bytes": read.partition_max_bytes,
                "check_crc": read.check_crc, "stop_at_end": read.stop_at_end,
            });
        }
        settings
    }
}

/// One direction as JSON.
pub(crate) fn meter_json(meter: &Meter, elapsed_s: f64) -> Value {
    let rate = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
    let errors: Map<String, Value> =
        meter.errors.iter().map(|(code, count)| (ErrorCode(*code).to_string(), json!(count))).collect();
    json!({
        "records": meter.records, "bytes": meter.bytes, "wire_bytes": meter.wire_bytes, "batches": meter.batches,
        "requests": meter.requests, "warmup_records": meter.warm_records, "unsent_records": meter.unsent,
        "records_per_s": rate(meter.records), "mib_per_s": rate(meter.bytes) / MIB,
        "latency": latency_json(&meter.latency),
        "age": (!meter.age.is_empty()).then(|| latency_json(&meter.age)),
        "errors": errors,
    })
}

/// The percentiles in a line; nothing where nothing was measured.
pub(crate) fn latency_text(out: &mut String, what: &str, latency: &Histogram<u64>) {
    if latency.is_empty() {
        return;
    }
    let _ = write!(out, "{what} (ms): ");
    for (name, quantile) in QUANTILES {
        let _ = write!(out, "{name} {:.3}  ", latency.value_at_quantile(quantile) as f64 / 1000.0);
    }
    let _ = writeln!(out, "mean {:.3}", latency.mean() / 1000.0);
}

/// The percentiles and the whole curve.
pub(crate) fn latency_json(latency: &Histogram<u64>) -> Value {
    if latency.is_empty() {
        return Value::Null;
    }
    let mut told = json!({ "count": latency.len(), "mean_us": latency.mean(), "min_us": latency.min() });
    for (name, quantile) in QUANTILES {
        told[format!("{}_us", name.replace('.', "_"))] = json!(latency.value_at_quantile(quantile));
    }
    let points = latency.iter_quantiles(CURVE_TICKS);
    let curve = points.map(|point| json!([point.quantile_iterated_to(), point.value_iterated_to()]));
    told["curve"] = json!(curve.collect::<Vec<_>>());
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_told_in_text_and_json() {
        let mut meter = Meter::default();
        (1..=1000).for_each(|ms| meter.note(ms * 1_000_000, 1));
        let mut text = String::new();
        latency_text(&mut text, "took", &meter.latency);
        assert!(text.starts_with("took (ms): p50 5") && text.contains("max 1000"), "{text}");
        let told = latency_json(&meter.latency);
        let near = |name: &str, us: u64| {
            let value = told[name].as_u64().unwrap_or_else(|| panic!("{name} in {told}"));
            assert!(value.abs_diff(us) * 500 <= us, "{name} is {value}");
        };
        near("p50_us", 500_000);
        near("p99_us", 990_000);
        near("p99_9_us", 999_000);
        near("max_us", 1_000_000);
        let curve = told["curve"].as_array().expect("a curve");
        assert!(curve.len() > 20 && curve.windows(2).all(|w| w[0][1].as_u64() <= w[1][1].as_u64()));
        assert_eq!(latency_json(&Meter::default().latency), Value::Null);
    }
}
