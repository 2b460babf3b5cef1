//! Names of files and directories.

use std::sync::Arc;

use base::{Offset, PartitionIndex, Uuid};

/// Extension of a segment's record file.
pub const LOG: &str = "log";
/// Extension of the sparse offset index.
pub const INDEX: &str = "index";
/// Extension of the sparse time index.
pub const TIME_INDEX: &str = "timeindex";
/// Extension of the index of aborted transactions.
pub const TXN_INDEX: &str = "txnindex";
/// Extension of a producer state snapshot.
pub const SNAPSHOT: &str = "snapshot";
/// Second extension of a file that is to be unlinked.
pub const DELETED: &str = "deleted";
/// Second extension of a compacted segment that is not complete.
pub const CLEANED: &str = "cleaned";
/// Second extension of a compacted segment that is about to take its place.
pub const SWAP: &str = "swap";

/// `leader-epoch-checkpoint` in a partition's directory.
pub const EPOCHS: &str = "leader-epoch-checkpoint";
/// `partition.metadata` in a partition's directory.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// `recovery-point-offset-checkpoint` in a log directory.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// `log-start-offset-checkpoint` in a log directory.
pub const START_OFFSETS: &str = "log-start-offset-checkpoint";
/// `replication-offset-checkpoint` in a log directory: high watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// The lock file of a log directory.
pub const LOCK: &str = ".lock";
/// The clean shutdown marker in a log directory.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

/// Longest file name the usual file systems take, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Ending of a partition directory that is to be unlinked.
const DELETE_DIR_ENDING: &str = "-delete";

/// Name of a segment's file: the base offset in 20 digits, and an extension.
pub fn segment_file(base: Offset, extension: &str) -> String {
    format!("{base:020}.{extension}")
}

/// A file of a partition's directory whose name carries an offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFile<'a> {
    /// The offset.
    pub offset: Offset,
    /// The extension that tells the kind.
    pub extension: &'a str,
    /// What follows it: `deleted`, `swap`, `cleaned`.
    pub suffix: Option<&'a str>,
}

/// Takes a segment file's name apart; `None` for other names.
pub fn parse_segment_file(name: &str) -> Option<SegmentFile<'_>> {
    let (digits, rest) = name.split_once('.')?;
    if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let offset = digits.parse().ok()?;
    let (extension, suffix) = match rest.split_once('.') {
        Some((extension, suffix)) => (extension, Some(suffix)),
        None => (rest, None),
    };
    matches!(extension, LOG | INDEX | TIME_INDEX | TXN_INDEX | SNAPSHOT).then_some(SegmentFile {
        offset,
        extension,
        suffix,
    })
}

/// Takes `topic-partition` apart; `None` for directories that are none of a live partition.
pub fn parse_partition_dir(name: &str) -> Option<(Arc<str>, PartitionIndex)> {
    let (topic, partition) = name.rsplit_once('-')?;
    if topic.is_empty() || partition.is_empty() || !partition.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((Arc::from(topic), partition.parse().ok()?))
}

/// Name of the directory of a deleted partition, unique by `id`; the topic's name is cut where the whole gets too long.
pub fn delete_dir(topic: &str, partition: PartitionIndex, id: u128) -> String {
    let ending = format!("-{partition}.{id:032x}{DELETE_DIR_ENDING}");
    let mut room = NAME_BYTES_MAX.saturating_sub(ending.len()).min(topic.len());
    while !topic.is_char_boundary(room) {
        room -= 1;
    }
    format!("{}{ending}", &topic[..room])
}

/// True for a directory whose partition was deleted and that only waits to be unlinked.
pub fn is_delete_dir(name: &str) -> bool {
    name.ends_with(DELETE_DIR_ENDING) && name.contains('.')
}

/// Name of a journal file in the root of a log directory. Kafka ignores files it does not know there.
pub fn journal_file(core: u16, index: u32) -> String {
    format!("odradek-journal-{core:03}-{index:03}.wal")
}

/// Core and index of a journal file.
pub fn parse_journal_file(name: &str) -> Option<(u16, u32)> {
    let (core, index) = name.strip_prefix("odradek-journal-")?.strip_suffix(".wal")?.split_once('-')?;
    Some((core.parse().ok()?, index.parse().ok()?))
}

/// The text of `partition.metadata`.
pub fn partition_metadata(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

/// The topic id in a `partition.metadata`; `None` when the text is damaged or names no id.
pub fn parse_partition_metadata(text: &str) -> Option<Uuid> {
    let mut version = None;
    let mut topic_id = None;
    for line in text.lines() {
        let (name, value) = line.split_once(':')?;
        match name.trim() {
            "version" => version = Some(value.trim()),
            "topic_id" => topic_id = value.trim().parse::<Uuid>().ok(),
            _ => return None,
        }
    }
    topic_id.filter(|id| version == Some("0") && !id.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_files() {
        assert_eq!(segment_file(42, LOG), "00000000000000000042.log");
        for (name, expect) in [
            ("00000000000000000042.log", Some((42, LOG, None))),
            ("00000000000000000042.timeindex", Some((42, TIME_INDEX, None))),
            ("00000000000000000042.index.deleted", Some((42, INDEX, Some("deleted")))),
            ("00000000000000000042.log.swap", Some((42, LOG, Some("swap")))),
            ("09223372036854775807.snapshot", Some((i64::MAX, SNAPSHOT, None))),
            ("99999999999999999999.log", None),
            ("0000000000000000042.log", None),
            ("+0000000000000000042.log", None),
            ("00000000000000000042-0000000001.checkpoint", None),
            ("leader-epoch-checkpoint", None),
            ("quorum-state", None),
        ] {
            let got = parse_segment_file(name).map(|f| (f.offset, f.extension, f.suffix));
            assert_eq!(got, expect, "{name}");
        }
    }

    #[test]
    fn partition_directories() {
        for (name, expect) in [
            ("orders-0", Some(("orders", 0))),
            ("a-b-17", Some(("a-b", 17))),
            ("__cluster_metadata-0", Some(("__cluster_metadata", 0))),
            ("orders-0.0123456789abcdef0123456789abcdef-delete", None),
            ("orders-0.0123456789abcdef0123456789abcdef-future", None),
            ("orders", None),
            ("-1", None),
            ("orders-", None),
            ("orders-+1", None),
            ("orders-99999999999", None),
        ] {
            let got = parse_partition_dir(name);
            assert_eq!(got.as_ref().map(|(t, p)| (&**t, *p)), expect, "{name}");
        }
    }

    #[test]
    fn deleted_directories_fit_a_file_name() {
        let name = delete_dir("orders", 3, 0xabc);
        assert_eq!(name, "orders-3.00000000000000000000000000000abc-delete");
        assert!(is_delete_dir(&name) && !is_delete_dir("orders-delete") && parse_partition_dir(&name).is_none());
        assert_eq!(delete_dir(&"x".repeat(249), 12345, 1).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn journal_names() {
        assert_eq!(parse_journal_file(&journal_file(12, 3)), Some((12, 3)));
        assert_eq!(parse_journal_file("odradek-journal-x-1.wal"), None);
        assert_eq!(parse_partition_dir(&journal_file(12, 3)), None);
    }

    #[test]
    fn partition_metadata_text() {
        let id = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        assert_eq!(partition_metadata(id), "version: 0\ntopic_id: ASNFZ4mrTe-BI0VniavN7w");
        assert_eq!(parse_partition_metadata(&partition_metadata(id)), Some(id));
        for damaged in ["", "version: 0\n", "version: 1\ntopic_id: ASNFZ4mrTe-BI0VniavN7w", "topic_id: x", "\0\0\0"] {
            assert_eq!(parse_partition_metadata(damaged), None, "{damaged:?}");
        }
        assert_eq!(parse_partition_metadata(&partition_metadata(Uuid::ZERO)), None);
    }
}
