//! Producer snapshots and the text files of a log directory.

use crate::segment::optional_long;
use std::fmt::Write as _;

/// Bytes in front of the entries of a producer snapshot: version, checksum, count.
const SNAPSHOT_HEADER_BYTES: usize = 10;
/// Bytes of an entry.
const SNAPSHOT_ENTRY_BYTES: usize = 46;
/// The only version since Kafka 0.11.
const SNAPSHOT_VERSION: i16 = 1;

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Appends the producers of a producer snapshot.
pub fn producer_snapshot(file: &str, bytes: &[u8], out: &mut String) {
    if let Err(problem) = snapshot_entries(bytes, out) {
        let _ = writeln!(out, "{file} is corrupt: {problem}");
    }
}

fn snapshot_entries(bytes: &[u8], out: &mut String) -> Result<(), String> {
    let Some((header, entries)) = bytes.split_at_checked(SNAPSHOT_HEADER_BYTES) else {
        return Err(format!("{} bytes are less than a header", bytes.len()));
    };
    let version = i16::from_be_bytes(number(header, 0));
    if version != SNAPSHOT_VERSION {
        return Err(format!("version {version} is not supported"));
    }
    let (stored, computed) = (u32::from_be_bytes(number(header, 2)), records::crc32c(&bytes[6..]));
    if stored != computed {
        return Err(format!("checksum {stored} is stored, {computed} is computed"));
    }
    let count = i32::from_be_bytes(number(header, 6));
    if usize::try_from(count).ok().and_then(|n| n.checked_mul(SNAPSHOT_ENTRY_BYTES)) != Some(entries.len()) {
        return Err(format!("{count} entries do not have {} bytes", entries.len()));
    }
    for entry in entries.chunks_exact(SNAPSHOT_ENTRY_BYTES) {
        snapshot_entry(entry, out);
    }
    Ok(())
}

fn snapshot_entry(entry: &[u8], out: &mut String) {
    let long = |at| i64::from_be_bytes(number(entry, at));
    let int = |at| i32::from_be_bytes(number(entry, at));
    let (id, epoch, last_sequence, last_offset) = (long(0), i16::from_be_bytes(number(entry, 8)), int(10), long(14));
    let (offset_delta, timestamp, coordinator_epoch, first_offset) = (int(22), long(26), int(34), long(38));
    let transaction = optional_long((first_offset >= 0).then_some(first_offset));
    let _ = write!(out, "producerId: {id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch}");
    let _ = write!(out, " currentTxnFirstOffset: {transaction} lastTimestamp: {timestamp}");
    if last_offset >= 0 {
        let first_sequence = first_sequence(last_sequence, offset_delta);
        let _ = write!(out, " firstSequence: {first_sequence} lastSequence: {last_sequence}");
        let _ = write!(out, " lastOffset: {last_offset} offsetDelta: {offset_delta} timestamp: {timestamp}");
    }
    out.push('\n');
}

/// Sequence numbers wrap from the largest to 0.
fn first_sequence(last: i32, delta: i32) -> i32 {
    if last < delta {
        i32::MAX.wrapping_sub(delta.wrapping_sub(last)).wrapping_add(1)
    } else {
        last.wrapping_sub(delta)
    }
}

/// Appends the content of one of the text files of a log directory (checkpoints, `partition.metadata`, `meta.properties`,
/// `quorum-state`, the clean shutdown mark), spelled out where it consists of bare numbers. False when `name` is none of
/// them.
pub fn text_file(name: &str, bytes: &[u8], out: &mut String) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match name {
        "leader-epoch-checkpoint" => checkpoint(&text, &["epoch", "startOffset"], out),
        "replication-offset-checkpoint"
        | "recovery-point-offset-checkpoint"
        | "log-start-offset-checkpoint"
        | "cleaner-offset-checkpoint" => checkpoint(&text, &["topic", "partition", "offset"], out),
        "partition.metadata" | "meta.properties" | "quorum-state" | ".kafka_cleanshutdown" => {
            for line in text.lines() {
                let _ = writeln!(out, "{line}");
            }
        }
        _ => return false,
    }
    true
}

fn checkpoint(text: &str, names: &[&str], out: &mut String) {
    let mut lines = text.lines();
    let version = lines.next().unwrap_or_default();
    if version.trim() != "0" {
        let _ = writeln!(out, "version {version:?} is not supported");
        return;
    }
    let count = lines.next().unwrap_or_default();
    let mut found = 0;
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        if words.len() != names.len() {
            let _ = writeln!(out, "line {line:?} is malformed");
            continue;
        }
        found += 1;
        let named: Vec<String> = names.iter().zip(words).map(|(name, word)| format!("{name}: {word}")).collect();
        let _ = writeln!(out, "{}", named.join(" "));
    }
    if count.trim().parse() != Ok(found) {
        let _ = writeln!(out, "{count:?} entries are announced, {found} are there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, text: &str) -> String {
        let mut out = String::new();
        assert!(text_file(name, text.as_bytes(), &mut out), "{name}");
        out
    }

    #[test]
    fn checkpoints_are_spelled_out() {
        assert_eq!(
            shown("leader-epoch-checkpoint", "0\n2\n0 0\n5 77\n"),
            "epoch: 0 startOffset: 0\nepoch: 5 startOffset: 77\n"
        );
        assert_eq!(shown("recovery-point-offset-checkpoint", "0\n1\nfoo 3 9\n"), "topic: foo partition: 3 offset: 9\n");
        assert_eq!(
            shown("cleaner-offset-checkpoint", "0\n2\nfoo 3\n"),
            "line \"foo 3\" is malformed\n\"2\" entries are announced, 0 are there\n"
        );
        assert_eq!(shown("leader-epoch-checkpoint", "1\n"), "version \"1\" is not supported\n");
        assert!(!text_file("unknown", b"", &mut String::new()));
    }

    #[test]
    fn damaged_snapshots_say_so() {
        let mut good = vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        good.extend([0; 46]);
        let crc = records::crc32c(&good[6..]);
        good[2..6].copy_from_slice(&crc.to_be_bytes());
        let show = |bytes: &[u8]| {
            let mut out = String::new();
            producer_snapshot("s", bytes, &mut out);
            out
        };
        assert!(show(&good).starts_with("producerId: 0 producerEpoch: 0 coordinatorEpoch: 0"), "{}", show(&good));
        for cut in 0..good.len() {
            assert!(show(&good[..cut]).contains("s is corrupt"), "{cut}");
        }
        assert_eq!(first_sequence(3, 5), i32::MAX - 1);
    }
}
