//! CRC-32C (Castagnoli), the checksum of Kafka's batches and of what is our own on disk.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of what `crc` is the checksum of, with `bytes` behind it.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    /// By definition: the remainder bit by bit, with the reflected polynomial.
    fn slow(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
        })
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // The check value and the examples of RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn every_length_and_every_cut_agree_with_the_definition() {
        let mut prng = Prng::new(11);
        let bytes: Vec<u8> = (0..70_000).map(|_| prng.next_u64() as u8).collect();
        for len in (0..1_500).chain([4_095, 16_384, 65_537, 69_000]) {
            let from = prng.below(900) as usize;
            let bytes = &bytes[from..from + len];
            let expect = slow(bytes);
            assert_eq!(crc32c(bytes), expect, "{len} bytes");
            let cut = prng.below(len as u64 + 1) as usize;
            assert_eq!(crc32c_append(crc32c(&bytes[..cut]), &bytes[cut..]), expect, "{len} bytes cut at {cut}");
        }
    }
}
