//! Kafka's files as text, in the words of `kafka-dump-log`: segments with their batches and records, indexes, producer
//! snapshots, checkpoints, the metadata log and its snapshots.
//!
//! Lives on no core: it serves the `dump-log` command and tests. It does not know of files or consoles (bytes come in, lines
//! are appended to a string), nor of what a healthy log looks like beyond what the tool it follows checks.
//!
//! The input may be damaged: whatever cannot be read is said in a line, and the rest is shown.

mod checkpoint;
mod index;
mod json;
mod payload;
mod segment;

pub use checkpoint::{producer_snapshot, text_file};
pub use index::{IndexCheck, IndexFile, SegmentAt, offset_index, time_index, txn_index};
pub use payload::Decoder;
pub use segment::{SegmentDump, SegmentOptions, segment_heading};

/// What is wrong in the files shown, collected per file and told at the end, as `kafka-dump-log` does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    groups: Vec<Group>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    heading: String,
    lines: Vec<String>,
}

/// How many lines are kept under one heading; a file that is all wrong need not be told of line by line.
const FINDING_LINES_MAX: usize = 10_000;

impl Findings {
    /// True when nothing was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The findings as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for group in &self.groups {
            out.push_str(&group.heading);
            out.push('\n');
            for line in &group.lines {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }

    fn add(&mut self, heading: String, line: String) {
        let at = self.groups.iter().position(|g| g.heading == heading).unwrap_or_else(|| {
            self.groups.push(Group { heading, lines: Vec::new() });
            self.groups.len() - 1
        });
        if self.groups[at].lines.len() < FINDING_LINES_MAX {
            self.groups[at].lines.push(line);
        }
    }
}
