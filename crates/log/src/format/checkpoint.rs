//! The text files of offsets: version line, count line, one line an entry.

use std::fmt::Write as _;

use base::{Offset, PartitionIndex};

use super::FormatError;
use crate::EpochEntry;

/// A line of one of the `*-offset-checkpoint` files of a log directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OffsetLine {
    /// Topic name.
    pub topic: String,
    /// Partition index.
    pub partition: PartitionIndex,
    /// The offset.
    pub offset: Offset,
}

/// The text of an offset checkpoint.
pub fn write_offsets<'a>(lines: impl ExactSizeIterator<Item = (&'a str, PartitionIndex, Offset)>) -> String {
    let mut text = format!("0\n{}\n", lines.len());
    for (topic, partition, offset) in lines {
        let _ = writeln!(text, "{topic} {partition} {offset}");
    }
    text
}

/// The lines of an offset checkpoint.
///
/// # Errors
/// The text is cut off, of another version, or has a line of another form.
pub fn parse_offsets(text: &str) -> Result<Vec<OffsetLine>, FormatError> {
    parse("offset checkpoint", text, |line| {
        let mut words = line.split(' ');
        let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
        if topic.is_empty() || words.next().is_some() {
            return None;
        }
        Some(OffsetLine { topic: topic.to_owned(), partition: partition.parse().ok()?, offset: offset.parse().ok()? })
    })
}

/// The text of `leader-epoch-checkpoint`.
pub fn write_epochs(entries: &[EpochEntry]) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
    }
    text
}

/// The entries of `leader-epoch-checkpoint`: epochs and offsets both increase.
///
/// # Errors
/// As [`parse_offsets`], or the order is broken.
pub fn parse_epochs(text: &str) -> Result<Vec<EpochEntry>, FormatError> {
    let entries = parse("leader epoch checkpoint", text, |line| {
        let (epoch, offset) = line.split_once(' ')?;
        let entry = EpochEntry { epoch: epoch.parse().ok()?, start_offset: offset.parse().ok()? };
        (entry.epoch >= 0 && entry.start_offset >= 0).then_some(entry)
    })?;
    let ordered = entries.windows(2).all(|w| w[0].epoch < w[1].epoch && w[0].start_offset <= w[1].start_offset);
    if !ordered {
        return Err(FormatError::new("leader epoch checkpoint", "epochs or offsets do not increase"));
    }
    Ok(entries)
}

fn parse<T>(what: &'static str, text: &str, entry: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, FormatError> {
    let bad = |reason: String| FormatError::new(what, reason);
    let mut lines = text.lines();
    match lines.next() {
        Some("0") => {}
        other => return Err(bad(format!("version line is {other:?}, not 0"))),
    }
    let count: usize = match lines.next().map(str::parse) {
        Some(Ok(count)) => count,
        _ => return Err(bad("the count line is no number".into())),
    };
    // The count is a claim of the file; the lines that are there bound what is allocated.
    let mut entries = Vec::new();
    for line in lines {
        let Some(value) = entry(line) else { return Err(bad(format!("line {:?} is malformed", line.trim_end()))) };
        entries.push(value);
    }
    if entries.len() != count {
        return Err(bad(format!("{} lines where {count} were announced", entries.len())));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_round_trip_in_kafkas_text() {
        let text = write_offsets([("a-topic", 0, 5), ("b", 12, i64::MAX)].into_iter());
        assert_eq!(text, "0\n2\na-topic 0 5\nb 12 9223372036854775807\n");
        let lines = parse_offsets(&text).unwrap();
        assert_eq!(lines[1], OffsetLine { topic: "b".into(), partition: 12, offset: i64::MAX });
        assert_eq!(parse_offsets("0\n0\n"), Ok(Vec::new()));
        for damaged in ["", "1\n0\n", "0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na 0 1 2\n", "\0\0"]
        {
            assert!(parse_offsets(damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn epochs_round_trip_and_must_increase() {
        let entries = [EpochEntry { epoch: 0, start_offset: 0 }, EpochEntry { epoch: 3, start_offset: 17 }];
        let text = write_epochs(&entries);
        assert_eq!(text, "0\n2\n0 0\n3 17\n");
        assert_eq!(parse_epochs(&text).unwrap(), entries);
        for damaged in ["0\n2\n3 0\n1 5\n", "0\n1\n-1 5\n", "0\n1\n1\n", "0\n2\n0 9\n1 5\n", "0\n9999999999\n0 0\n"] {
            assert!(parse_epochs(damaged).is_err(), "{damaged:?}");
        }
    }
}
