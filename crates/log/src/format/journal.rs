//! The journal's bytes. A file is a sequence of commits, each beginning on a block, or right behind the one before where
//! they are packed: a commit header, then records, each with a header of its own and, for appends, whole batches behind it. Little endian, since nobody else reads it.
//!
//! Every header carries its own checksum, seeded with the run's secret, so that neither bytes of an earlier use of the file
//! nor bytes that a client chose can pass for one. Batches carry Kafka's checksum and need no second one.

use base::{LeaderEpoch, Offset, PartitionKey, Uuid};

/// Commits begin at multiples of this, in bytes: what direct I/O wants, and what a device writes whole.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a commit header and of a record header.
pub const HEADER_BYTES: usize = 64;
/// Records begin at multiples of this, in bytes.
pub const RECORD_ALIGN: usize = 8;

const MAGIC: u32 = 0x314a_444f;
const VERSION: u16 = 1;
const CRC_AT: usize = 60;

/// What stands in front of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitHeader {
    /// The core that wrote it.
    pub core: u16,
    /// Random number of the run of the broker that wrote it.
    pub run: u64,
    /// Number of that run; grows with every start on the directory.
    pub generation: u64,
    /// Number of the commit in its run and core, without gaps.
    pub sequence: u64,
    /// Bytes of all records, headers included.
    pub body_len: u32,
    /// Number of records.
    pub records: u32,
    /// The next commit begins at the next multiple of [`HEADER_BYTES`] instead of at the next block.
    pub packed: bool,
}

impl CommitHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6..8].copy_from_slice(&self.core.to_le_bytes());
        out[8..16].copy_from_slice(&self.run.to_le_bytes());
        out[16..24].copy_from_slice(&self.generation.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..36].copy_from_slice(&self.body_len.to_le_bytes());
        out[36..40].copy_from_slice(&self.records.to_le_bytes());
        out[40] = u8::from(self.packed);
        let crc = base::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header at the start of `bytes`; `None` when there is none.
    pub fn decode(bytes: &[u8]) -> Option<CommitHeader> {
        let h = bytes.first_chunk::<HEADER_BYTES>()?;
        let sound = u32_at(h, 0) == MAGIC && u16_at(h, 4) == VERSION && u32_at(h, CRC_AT) == base::crc32c(&h[..CRC_AT]);
        sound.then(|| CommitHeader {
            core: u16_at(h, 6),
            run: u64_at(h, 8),
            generation: u64_at(h, 16),
            sequence: u64_at(h, 24),
            body_len: u32_at(h, 32),
            records: u32_at(h, 36),
            packed: h[40] & 1 == 1,
        })
    }

    /// Bytes of the whole commit in the file.
    pub fn total_len(&self) -> u64 {
        let align = if self.packed { HEADER_BYTES } else { BLOCK_BYTES };
        (HEADER_BYTES as u64 + u64::from(self.body_len)).next_multiple_of(align as u64)
    }

    /// What seeds the checksums of the records in it.
    fn seed(&self) -> u32 {
        seed(self.run, self.sequence)
    }
}

/// Seed of the record checksums of commit `sequence` of `run`.
pub fn seed(run: u64, sequence: u64) -> u32 {
    let mixed = (run ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 32) as u32
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Batches `base_offset..end_offset` of the partition.
    Append,
    /// Everything the journal said before about offsets from `base_offset` on is void: the log was cut there.
    Cut,
    /// Everything the journal said before about the partition is void.
    Removed,
}

/// The batch before the first one of a record: what ties the record to the segment it continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// The log had no batch.
    Start,
    /// The stored CRC of that batch.
    After(u32),
}

/// What stands in front of a record's batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// What it says.
    pub kind: RecordKind,
    /// Whose.
    pub key: PartitionKey,
    /// Epoch of the first batch.
    pub leader_epoch: LeaderEpoch,
    /// Offset of the first batch, or of the cut.
    pub base_offset: Offset,
    /// Offset behind the last batch.
    pub end_offset: Offset,
    /// What it continues.
    pub link: Link,
    /// Bytes of the batches.
    pub body_len: u32,
}

impl RecordHeader {
    /// A record that holds no batches.
    pub fn bare(kind: RecordKind, key: PartitionKey, offset: Offset) -> RecordHeader {
        RecordHeader {
            kind,
            key,
            leader_epoch: -1,
            base_offset: offset,
            end_offset: offset,
            link: Link::Start,
            body_len: 0,
        }
    }

    /// Its bytes, for a commit with this [`seed`].
    pub fn encode(&self, seed: u32) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = match self.kind {
            RecordKind::Append => 1,
            RecordKind::Cut => 2,
            RecordKind::Removed => 3,
        };
        let (linked, crc) = match self.link {
            Link::Start => (0, 0),
            Link::After(crc) => (1, crc),
        };
        out[1] = linked;
        out[4..8].copy_from_slice(&self.body_len.to_le_bytes());
        out[8..24].copy_from_slice(self.key.topic_id.as_bytes());
        out[24..28].copy_from_slice(&self.key.partition.to_le_bytes());
        out[28..32].copy_from_slice(&self.leader_epoch.to_le_bytes());
        out[32..40].copy_from_slice(&self.base_offset.to_le_bytes());
        out[40..48].copy_from_slice(&self.end_offset.to_le_bytes());
        out[48..52].copy_from_slice(&crc.to_le_bytes());
        let crc = base::crc32c_append(seed, &out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header at the start of `bytes`; `None` when there is none with this seed.
    pub fn decode(bytes: &[u8], seed: u32) -> Option<RecordHeader> {
        let h = bytes.first_chunk::<HEADER_BYTES>()?;
        if u32_at(h, CRC_AT) != base::crc32c_append(seed, &h[..CRC_AT]) {
            return None;
        }
        let kind = match h[0] {
            1 => RecordKind::Append,
            2 => RecordKind::Cut,
            3 => RecordKind::Removed,
            _ => return None,
        };
        let topic_id = Uuid::from_bytes(*h[8..].first_chunk::<16>()?);
        Some(RecordHeader {
            kind,
            key: PartitionKey { topic_id, partition: u32_at(h, 24) as i32 },
            leader_epoch: u32_at(h, 28) as i32,
            base_offset: u64_at(h, 32) as i64,
            end_offset: u64_at(h, 40) as i64,
            link: if h[1] == 0 { Link::Start } else { Link::After(u32_at(h, 48)) },
            body_len: u32_at(h, 4),
        })
    }
}

/// Bytes a record takes in a commit: header, batches, and padding.
pub fn record_len(body_len: usize) -> usize {
    HEADER_BYTES + body_len.next_multiple_of(RECORD_ALIGN)
}

/// Walks the records of one commit.
#[derive(Clone, Debug)]
pub struct RecordWalk<'a> {
    body: &'a [u8],
    at: usize,
    left: u32,
    seed: u32,
}

/// A commit's records end before their number does: the write was torn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Torn {
    /// Records that are missing.
    pub missing: u32,
}

impl<'a> RecordWalk<'a> {
    /// Over the records behind `header`; `body` is what follows it in the file, which may be too short.
    pub fn new(header: &CommitHeader, body: &'a [u8]) -> RecordWalk<'a> {
        let len = body.len().min(header.body_len as usize);
        RecordWalk { body: &body[..len], at: 0, left: header.records, seed: header.seed() }
    }

    /// The next record: its header and where its batches stand in the body.
    ///
    /// # Errors
    /// [`Torn`] at the first header that is none, after which the walk is over.
    pub fn next_record(&mut self) -> Result<Option<(RecordHeader, std::ops::Range<usize>)>, Torn> {
        if self.left == 0 {
            return Ok(None);
        }
        let torn = Torn { missing: self.left };
        let rest = self.body.get(self.at..).unwrap_or(&[]);
        let header = RecordHeader::decode(rest, self.seed).ok_or(torn)?;
        let start = self.at + HEADER_BYTES;
        let end = start.checked_add(header.body_len as usize).filter(|end| *end <= self.body.len()).ok_or(torn)?;
        self.at += record_len(header.body_len as usize);
        self.left -= 1;
        Ok(Some((header, start..end)))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn key(n: u128) -> PartitionKey {
        PartitionKey { topic_id: Uuid::from_u128(n), partition: 3 }
    }

    fn commit(run: u64, sequence: u64, bodies: &[&[u8]]) -> (CommitHeader, Vec<u8>) {
        let mut body = Vec::new();
        for (i, bytes) in bodies.iter().enumerate() {
            let header = RecordHeader {
                kind: RecordKind::Append,
                key: key(i as u128),
                leader_epoch: 4,
                base_offset: 10 * i as i64,
                end_offset: 10 * i as i64 + 10,
                link: if i == 0 { Link::Start } else { Link::After(0xdead_beef) },
                body_len: bytes.len() as u32,
            };
            body.extend_from_slice(&header.encode(seed(run, sequence)));
            body.extend_from_slice(bytes);
            body.resize(body.len().next_multiple_of(RECORD_ALIGN), 0);
        }
        let header = CommitHeader {
            core: 2,
            run,
            generation: 5,
            sequence,
            body_len: body.len() as u32,
            records: bodies.len() as u32,
            packed: false,
        };
        (header, body)
    }

    #[test]
    fn commits_and_records_round_trip() {
        let (header, body) = commit(77, 3, &[b"first", b"", b"a third record"]);
        assert_eq!(CommitHeader::decode(&header.encode()), Some(header));
        assert_eq!(header.total_len() % BLOCK_BYTES as u64, 0);
        let packed = CommitHeader { packed: true, ..header };
        assert_eq!(CommitHeader::decode(&packed.encode()), Some(packed));
        assert_eq!(packed.total_len(), (HEADER_BYTES + body.len()).next_multiple_of(HEADER_BYTES) as u64);
        let mut walk = RecordWalk::new(&header, &body);
        let mut got = Vec::new();
        while let Some((record, range)) = walk.next_record().unwrap() {
            assert_eq!(record.body_len as usize, range.len());
            got.push((record.base_offset, record.link, body[range].to_vec()));
        }
        assert_eq!(got[0], (0, Link::Start, b"first".to_vec()));
        assert_eq!(got[2], (20, Link::After(0xdead_beef), b"a third record".to_vec()));
        let bare = RecordHeader::bare(RecordKind::Cut, key(9), 55);
        assert_eq!(RecordHeader::decode(&bare.encode(1), 1), Some(bare));
    }

    #[test]
    fn records_of_another_run_or_commit_do_not_pass() {
        let (header, body) = commit(77, 3, &[b"first"]);
        for (run, sequence) in [(78, 3), (77, 4)] {
            let other = CommitHeader { run, sequence, ..header };
            assert_eq!(RecordWalk::new(&other, &body).next_record(), Err(Torn { missing: 1 }));
        }
    }

    #[test]
    fn torn_and_damaged_commits_end_early() {
        let (header, body) = commit(77, 3, &[&[1; 100], &[2; 100], &[3; 100]]);
        for cut in 0..body.len() {
            let mut walk = RecordWalk::new(&header, &body[..cut]);
            let mut seen = 0;
            while let Ok(Some(_)) = walk.next_record() {
                seen += 1;
            }
            assert_eq!(seen, (cut + 4) / record_len(100), "cut at {cut}");
        }
        let mut prng = Prng::new(9);
        for _ in 0..500 {
            let mut bytes = header.encode();
            bytes[prng.below(64) as usize] ^= 1 << prng.below(8);
            assert_eq!(CommitHeader::decode(&bytes), None);
        }
        for _ in 0..2000 {
            let mut noise = vec![0u8; prng.below(400) as usize];
            noise.iter_mut().for_each(|b| *b = prng.next_u64() as u8);
            let _ = RecordWalk::new(&header, &noise).next_record();
            assert_eq!(CommitHeader::decode(&noise), None);
        }
    }
}
