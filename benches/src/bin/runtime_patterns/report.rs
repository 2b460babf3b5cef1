//! Medians and ratios.

use std::fmt;

/// Two figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub first: f64,
    pub second: f64,
}

impl Outcome {
    /// Median and 99th percentile in microseconds.
    pub fn of_latencies(mut nanos: Vec<u64>) -> Outcome {
        nanos.sort_unstable();
        let at = |part: f64| nanos[((nanos.len() - 1) as f64 * part) as usize] as f64 / 1000.0;
        Outcome { first: at(0.5), second: at(0.99) }
    }
}

/// Outcomes of one pattern by contender, in order of appearance.
pub struct Table {
    title: &'static str,
    columns: [&'static str; 2],
    rows: Vec<(&'static str, Vec<Outcome>)>,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Table {
    pub fn new(title: &'static str, first: &'static str, second: &'static str) -> Table {
        Table { title, columns: [first, second], rows: Vec::new() }
    }

    pub fn add(&mut self, name: &'static str, outcome: Outcome) {
        match self.rows.iter_mut().find(|(row, _)| *row == name) {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => self.rows.push((name, vec![outcome])),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | {} | ratio | {} | ratio |", self.title, self.columns[0], self.columns[1])?;
        writeln!(f, "|---|---|---|---|---|")?;
        let mut base = None;
        let mut rows: Vec<_> = self.rows.iter().collect();
        // The reactor comes first, whoever had the first turn.
        rows.sort_by_key(|(name, _)| !name.starts_with("reactor"));
        for (name, outcomes) in rows {
            let first = median(outcomes.iter().map(|o| o.first));
            let second = median(outcomes.iter().map(|o| o.second));
            let (base_first, base_second) = *base.get_or_insert((first, second));
            let (to_first, to_second) = (first / base_first, second / base_second);
            writeln!(f, "| {name} | {first:.2} | x{to_first:.2} | {second:.3} | x{to_second:.2} |")?;
        }
        Ok(())
    }
}
