//! Producer state snapshots (`.snapshot`): version, CRC-32C over what follows it, count, entries. Big endian.

use base::Offset;

use super::FormatError;
use crate::ProducerEntry;

const VERSION: i16 = 1;
const CRC_END: usize = 6;
const HEADER_BYTES: usize = 10;
const ENTRY_BYTES: usize = 46;
const WHAT: &str = "producer snapshot";

/// The bytes of a snapshot.
pub fn write(entries: &[ProducerEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(entries.len() as i32).to_be_bytes());
    for e in entries {
        out.extend_from_slice(&e.producer_id.to_be_bytes());
        out.extend_from_slice(&e.producer_epoch.to_be_bytes());
        out.extend_from_slice(&e.last_sequence.to_be_bytes());
        out.extend_from_slice(&e.last_offset.to_be_bytes());
        out.extend_from_slice(&e.offset_delta.to_be_bytes());
        out.extend_from_slice(&e.timestamp.to_be_bytes());
        out.extend_from_slice(&e.coordinator_epoch.to_be_bytes());
        out.extend_from_slice(&e.current_txn_first_offset.to_be_bytes());
    }
    let crc = base::crc32c(&out[CRC_END..]);
    out[2..CRC_END].copy_from_slice(&crc.to_be_bytes());
    out
}

/// The entries of a snapshot.
///
/// # Errors
/// Another version, a checksum that does not match, or a length that does not fit the count.
pub fn parse(bytes: &[u8]) -> Result<Vec<ProducerEntry>, FormatError> {
    let bad = |reason: String| FormatError::new(WHAT, reason);
    if bytes.len() < HEADER_BYTES {
        return Err(bad(format!("{} bytes are less than a header", bytes.len())));
    }
    let version = i16::from_be_bytes([bytes[0], bytes[1]]);
    if version != VERSION {
        return Err(bad(format!("version {version} is not {VERSION}")));
    }
    let stored = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let computed = base::crc32c(&bytes[CRC_END..]);
    if stored != computed {
        return Err(bad(format!("checksum {stored:#010x} is stored, {computed:#010x} computed")));
    }
    let count = i32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]);
    let body = &bytes[HEADER_BYTES..];
    if usize::try_from(count).ok().and_then(|c| c.checked_mul(ENTRY_BYTES)) != Some(body.len()) {
        return Err(bad(format!("{count} entries do not fill {} bytes", body.len())));
    }
    Ok(body.chunks_exact(ENTRY_BYTES).map(entry).collect())
}

fn entry(bytes: &[u8]) -> ProducerEntry {
    ProducerEntry {
        producer_id: i64_at(bytes, 0),
        producer_epoch: i16::from_be_bytes([bytes[8], bytes[9]]),
        last_sequence: i32_at(bytes, 10),
        last_offset: i64_at(bytes, 14),
        offset_delta: i32_at(bytes, 22),
        timestamp: i64_at(bytes, 26),
        coordinator_epoch: i32_at(bytes, 34),
        current_txn_first_offset: i64_at(bytes, 38),
    }
}

pub(crate) fn i64_at(bytes: &[u8], at: usize) -> Offset {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    fn sample() -> ProducerEntry {
        ProducerEntry {
            producer_id: 4000,
            producer_epoch: 2,
            last_sequence: 41,
            last_offset: 99,
            offset_delta: 9,
            timestamp: 1_700_000_000_000,
            coordinator_epoch: -1,
            current_txn_first_offset: -1,
        }
    }

    #[test]
    fn round_trip() {
        for entries in [vec![], vec![sample()], vec![sample(), ProducerEntry { producer_id: 1, ..sample() }]] {
            let bytes = write(&entries);
            assert_eq!(bytes.len(), HEADER_BYTES + entries.len() * ENTRY_BYTES);
            assert_eq!(parse(&bytes).unwrap(), entries);
        }
    }

    #[test]
    fn damage_is_refused() {
        let good = write(&[sample(), sample()]);
        let mut prng = Prng::new(1);
        for _ in 0..500 {
            let mut bad = good.clone();
            if prng.chance(1, 2) {
                bad.truncate(prng.below(good.len() as u64) as usize);
            } else {
                let at = prng.below(good.len() as u64) as usize;
                bad[at] ^= 1 << prng.below(8);
            }
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }
}
