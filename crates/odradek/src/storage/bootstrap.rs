//! The first snapshot of the metadata log, `00000000000000000000-0000000000.checkpoint`: the feature levels a cluster
//! begins with and, with a dynamic quorum, its first voters. Kafka 4.4 writes this file where earlier releases wrote
//! `bootstrap.checkpoint` (which only holds the levels).

use bytes::{Bytes, BytesMut};
use metadata::features::METADATA_VERSION;
use raft::{ControlRecord, Endpoint, ReplicaKey, Voter, VoterSet};
use records::{BatchBuilder, BuildError, RecordData};
use wire::feature_level_record::FeatureLevelRecord;
use wire::metadata_record::MetadataRecord;

use super::StorageError;
use super::features::Levels;
use super::voters::InitialVoter;

/// Name of the file in the directory of the metadata log.
pub(crate) const CHECKPOINT: &str = "00000000000000000000-0000000000.checkpoint";

/// Name of the metadata log's directory.
pub(crate) const METADATA_LOG: &str = "__cluster_metadata-0";

/// Leader epoch of every batch of a snapshot.
const SNAPSHOT_EPOCH: i32 = 0;

/// Version of the feature level record.
const FEATURE_LEVEL_VERSION: i16 = 0;

/// When the parts of a snapshot are written, in ms since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// What the header gives as the time of the last record contained.
    pub(crate) contained: i64,
    /// Of the batch with the header.
    pub(crate) header: i64,
    /// Of the batch with the records.
    pub(crate) records: i64,
    /// Of the batch with the footer.
    pub(crate) footer: i64,
}

impl Times {
    /// All at once.
    pub(crate) fn all(ms: i64) -> Times {
        Times { contained: ms, header: ms, records: ms, footer: ms }
    }
}

/// The file's bytes. `voters` are the first voters of a dynamic quorum, reached on the listener named `listener`.
pub(crate) fn checkpoint(
    levels: &Levels,
    voters: Option<&[InitialVoter]>,
    listener: &str,
    times: Times,
) -> Result<Bytes, StorageError> {
    let mut header = vec![ControlRecord::SnapshotHeader { last_contained_log_timestamp: times.contained }];
    if levels.kraft > 0 {
        header.push(ControlRecord::KraftVersion(levels.kraft));
        header.extend(voters.map(|voters| ControlRecord::Voters(voter_set(voters, listener))));
    }
    let mut offset = 0;
    let mut file = BytesMut::new();
    let batch = control_batch(offset, times.header, &header)?;
    offset += header.len() as i64;
    file.extend_from_slice(&batch);
    let values = records(levels)?;
    file.extend_from_slice(&data_batch(offset, times.records, &values)?);
    offset += values.len() as i64;
    file.extend_from_slice(&control_batch(offset, times.footer, &[ControlRecord::SnapshotFooter])?);
    Ok(file.freeze())
}

fn voter_set(voters: &[InitialVoter], listener: &str) -> VoterSet {
    VoterSet::new(voters.iter().map(|voter| {
        let endpoint = Endpoint { name: listener.to_owned(), host: voter.host.clone(), port: voter.port };
        Voter::new(ReplicaKey { id: voter.id, directory_id: voter.directory_id }, vec![endpoint])
    }))
}

fn records(levels: &Levels) -> Result<Vec<Vec<u8>>, StorageError> {
    let first = (METADATA_VERSION, levels.release.level());
    let all = [first].into_iter().chain(levels.others.iter().copied());
    all.map(|(name, feature_level)| {
        let record = FeatureLevelRecord { name: name.into(), feature_level };
        MetadataRecord::FeatureLevel(record)
            .encode(FEATURE_LEVEL_VERSION)
            .map_err(|error| StorageError::new(format!("feature level {name}={feature_level}: {error}")))
    })
    .collect()
}

fn data_batch(offset: i64, ms: i64, values: &[Vec<u8>]) -> Result<Bytes, StorageError> {
    let mut batch = BatchBuilder::new(offset).leader_epoch(SNAPSHOT_EPOCH);
    for value in values {
        batch.append(&RecordData { timestamp: ms, value: Some(value), ..RecordData::default() });
    }
    batch.build().map_err(not_built)
}

fn control_batch(offset: i64, ms: i64, records: &[ControlRecord]) -> Result<Bytes, StorageError> {
    let mut batch = BatchBuilder::new(offset).control().leader_epoch(SNAPSHOT_EPOCH);
    for record in records {
        let (key, value) = record.encode();
        batch.append(&RecordData { timestamp: ms, key: Some(&key), value: Some(&value), headers: &[] });
    }
    batch.build().map_err(not_built)
}

fn not_built(error: BuildError) -> StorageError {
    StorageError::new(format!("the first snapshot cannot be built: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::features::{Wanted, decide};

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn levels(dynamic_quorum: bool) -> Levels {
        decide(&Wanted { dynamic_quorum, ..Wanted::default() }).unwrap()
    }

    /// Written by kafka.tools.StorageTool 4.4.0 with `controller.quorum.voters`.
    const STATIC: &str = "
        0000 0000 0000 0000 0000 0047 0000 0000 0201 7ec8 5e00 2000 0000 0000 0001 a228 39bf ea00 0001 a228 39bf
        eaff ffff ffff ffff ffff ffff ffff ff00 0000 012a 0000 0008 0000 0003 1600 0000 0001 a228 39bf c700 0000
        0000 0000 0000 0100 0000 f100 0000 0002 fcb7 1e50 0000 0000 0005 0000 01a2 2839 c01d 0000 01a2 2839 c01d
        ffff ffff ffff ffff ffff ffff ffff 0000 0006 3a00 0000 012e 010c 0011 6d65 7461 6461 7461 2e76 6572 7369
        6f6e 0021 0000 5a00 0002 014e 010c 0021 656c 6967 6962 6c65 2e6c 6561 6465 722e 7265 706c 6963 6173 2e76
        6572 7369 6f6e 0001 0000 3400 0004 0128 010c 000e 6772 6f75 702e 7665 7273 696f 6e00 0100 0034 0000 0601
        2801 0c00 0e73 6861 7265 2e76 6572 7369 6f6e 0002 0000 3800 0008 012c 010c 0010 7374 7265 616d 732e 7665
        7273 696f 6e00 0100 0040 0000 0a01 3401 0c00 1474 7261 6e73 6163 7469 6f6e 2e76 6572 7369 6f6e 0002 0000
        0000 0000 0000 0007 0000 003f 0000 0000 020b 46a3 9200 2000 0000 0000 0001 a228 39c0 2500 0001 a228 39c0
        25ff ffff ffff ffff ffff ffff ffff ff00 0000 011a 0000 0008 0000 0004 0600 0000 00";

    /// The same with `--standalone`.
    const STANDALONE: &str = "
        0000 0000 0000 0000 0000 009a 0000 0000 0221 7ead b700 2000 0000 0200 0001 a228 39c6 9e00 0001 a228 39c6
        9eff ffff ffff ffff ffff ffff ffff ff00 0000 032a 0000 0008 0000 0003 1600 0000 0001 a228 39c6 8100 001e
        0000 0208 0000 0005 0a00 0000 0100 0082 0100 0004 0800 0000 066e 0000 0200 0000 0148 f18b 4241 7345 4799
        96ab 8faa 24d2 5402 0b43 4f4e 5452 4f4c 4c45 520a 6c6f 6361 6c68 6f73 7423 8500 0000 0001 0000 0000 0000
        0000 0000 0003 0000 00f1 0000 0000 028d 8362 6c00 0000 0000 0500 0001 a228 39c6 bf00 0001 a228 39c6 bfff
        ffff ffff ffff ffff ffff ffff ff00 0000 063a 0000 0001 2e01 0c00 116d 6574 6164 6174 612e 7665 7273 696f
        6e00 2100 005a 0000 0201 4e01 0c00 2165 6c69 6769 626c 652e 6c65 6164 6572 2e72 6570 6c69 6361 732e 7665
        7273 696f 6e00 0100 0034 0000 0401 2801 0c00 0e67 726f 7570 2e76 6572 7369 6f6e 0001 0000 3400 0006 0128
        010c 000e 7368 6172 652e 7665 7273 696f 6e00 0200 0038 0000 0801 2c01 0c00 1073 7472 6561 6d73 2e76 6572
        7369 6f6e 0001 0000 4000 000a 0134 010c 0014 7472 616e 7361 6374 696f 6e2e 7665 7273 696f 6e00 0200 0000
        0000 0000 0000 0900 0000 3f00 0000 0002 df74 99cc 0020 0000 0000 0000 01a2 2839 c6c2 0000 01a2 2839 c6c2
        ffff ffff ffff ffff ffff ffff ffff 0000 0001 1a00 0000 0800 0000 0406 0000 0000";

    #[test]
    fn a_static_quorum_begins_as_kafkas() {
        let times =
            Times { contained: 0x1a22839bfc7, header: 0x1a22839bfea, records: 0x1a22839c01d, footer: 0x1a22839c025 };
        let file = checkpoint(&levels(false), None, "CONTROLLER", times).unwrap();
        assert_eq!(file[..], bytes(STATIC));
    }

    #[test]
    fn a_dynamic_quorum_begins_as_kafkas() {
        let times =
            Times { contained: 0x1a22839c681, header: 0x1a22839c69e, records: 0x1a22839c6bf, footer: 0x1a22839c6c2 };
        let voter = InitialVoter {
            id: 1,
            directory_id: "SPGLQkFzRUeZlquPqiTSVA".parse().unwrap(),
            host: "localhost".to_owned(),
            port: 9093,
        };
        let file = checkpoint(&levels(true), Some(&[voter]), "CONTROLLER", times).unwrap();
        assert_eq!(file[..], bytes(STANDALONE));
    }
}
