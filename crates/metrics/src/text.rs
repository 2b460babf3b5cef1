//! Prometheus text exposition, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::histogram::HistogramSnapshot;
use crate::registry::{Desc, Labels, Sample, Snapshot, Unit};

/// Printed histogram bounds are these powers of two: 16 us to 17 s for durations, 64 B to 1 GiB for sizes, 1 to 64 Ki
/// for counts.
fn bounds(unit: Unit) -> std::ops::RangeInclusive<u32> {
    match unit {
        Unit::Count => 0..=16,
        Unit::Bytes => 6..=30,
        Unit::Nanoseconds => 14..=34,
    }
}

/// Adds up the series of all snapshots that have the same name and labels, and prints them.
pub fn render(snapshots: &[Snapshot]) -> String {
    let mut sums: BTreeMap<&(&'static str, Labels), (&'static Desc, Sample)> = BTreeMap::new();
    for snapshot in snapshots {
        for (key, (desc, sample)) in &snapshot.series {
            match sums.get_mut(key) {
                Some((_, sum)) => sum.add(sample),
                None => drop(sums.insert(key, (desc, sample.clone()))),
            }
        }
    }
    let mut text = String::new();
    let mut family = "";
    for ((name, labels), (desc, sample)) in sums {
        if *name != family {
            family = name;
            let kind = match sample {
                Sample::Counter(_) => "counter",
                Sample::Gauge(_) => "gauge",
                Sample::Histogram(_) => "histogram",
            };
            let help = desc.help.replace('\\', "\\\\").replace('\n', "\\n");
            put(&mut text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        }
        match sample {
            Sample::Counter(value) => line(&mut text, name, labels, None, scaled(value as f64, desc.unit)),
            Sample::Gauge(value) => line(&mut text, name, labels, None, scaled(value as f64, desc.unit)),
            Sample::Histogram(snapshot) => histogram(&mut text, name, labels, desc.unit, &snapshot),
        }
    }
    text
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    text.write_fmt(args).expect("writing to a string does not fail");
}

fn scaled(value: f64, unit: Unit) -> f64 {
    if unit == Unit::Nanoseconds { value / 1e9 } else { value }
}

fn histogram(text: &mut String, name: &str, labels: &Labels, unit: Unit, snapshot: &HistogramSnapshot) {
    let bucket = format!("{name}_bucket");
    for exponent in bounds(unit) {
        // A printed bound is inclusive, and the values are whole numbers.
        let bound = scaled(((1u64 << exponent) - 1) as f64, unit);
        let below = snapshot.below_power(exponent) as f64;
        line(text, &bucket, labels, Some(&bound.to_string()), below);
    }
    line(text, &bucket, labels, Some("+Inf"), snapshot.count() as f64);
    line(text, &format!("{name}_sum"), labels, None, scaled(snapshot.sum() as f64, unit));
    line(text, &format!("{name}_count"), labels, None, snapshot.count() as f64);
}

fn line(text: &mut String, name: &str, labels: &Labels, bound: Option<&str>, value: f64) {
    text.push_str(name);
    let all = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (label, value) in all {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        put(text, format_args!("{separator}{label}=\"{value}\""));
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    put(text, format_args!(" {value}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    static REQUESTS: Desc = Desc::new("test_requests_total", "Requests.\nAll of them.", Unit::Count);
    static OPEN: Desc = Desc::new("test_open", "Open connections.", Unit::Count);
    static TIME: Desc = Desc::new("test_seconds", "Time.", Unit::Nanoseconds);

    #[test]
    fn cores_are_added_up() {
        let cores: Vec<Registry> = (0..3).map(|_| Registry::new(&[])).collect();
        for (number, core) in cores.iter().enumerate() {
            core.counter(&REQUESTS, &[("api", "Fetch")]).add(number as u64);
            core.counter(&REQUESTS, &[("api", "a\"b\\c\nd")]).inc();
            core.gauge(&OPEN, &[]).set(-1);
        }
        let text = render(&cores.iter().map(Registry::snapshot).collect::<Vec<_>>());
        let want = "# HELP odradek_metrics_dropped_series_total Series that found the table of metrics full.\n\
                    # TYPE odradek_metrics_dropped_series_total counter\n\
                    odradek_metrics_dropped_series_total 0\n\
                    # HELP test_open Open connections.\n\
                    # TYPE test_open gauge\n\
                    test_open -3\n\
                    # HELP test_requests_total Requests.\\nAll of them.\n\
                    # TYPE test_requests_total counter\n\
                    test_requests_total{api=\"Fetch\"} 3\n\
                    test_requests_total{api=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert_eq!(text, want);
    }

    #[test]
    fn histograms_print_cumulative_buckets() {
        let registry = Registry::new(&[]);
        let time = registry.histogram(&TIME, &[("op", "append")]);
        time.record(20_000);
        time.record(2_000_000_000);
        time.record(60_000_000_000);
        let text = render(&[registry.snapshot()]);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("test_")).collect();
        assert_eq!(lines.len(), 21 + 3);
        assert_eq!(lines[0], "test_seconds_bucket{op=\"append\",le=\"0.000016383\"} 0");
        assert_eq!(lines[1], "test_seconds_bucket{op=\"append\",le=\"0.000032767\"} 1");
        assert_eq!(lines[20], "test_seconds_bucket{op=\"append\",le=\"17.179869183\"} 2");
        assert_eq!(lines[21], "test_seconds_bucket{op=\"append\",le=\"+Inf\"} 3");
        assert_eq!(lines[22], "test_seconds_sum{op=\"append\"} 62.00002");
        assert_eq!(lines[23], "test_seconds_count{op=\"append\"} 3");
    }
}
