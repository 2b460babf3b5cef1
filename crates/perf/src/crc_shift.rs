//! CRC-32C of two parts joined, from the checksums of the parts.
//!
//! A batch is sent again and again with a new header of 40 checked bytes in front of the same records. The checksum of the
//! records is known, and so is what so many bytes behind it do to the checksum of the header: a linear map over bits, whose
//! 32 columns are worked out once per length. Joining then costs some thirty operations instead of a pass over the records.

/// What a number of bytes that follow do to a checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shift([u32; 32]);

/// The CRC-32C polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

impl Shift {
    /// By `bytes`.
    pub(crate) fn by(bytes: usize) -> Shift {
        let mut result = Shift(std::array::from_fn(|bit| 1 << bit));
        let mut power = Shift::one_byte();
        let mut left = bytes;
        while left > 0 {
            if left & 1 == 1 {
                result = result.then(&power);
            }
            power = power.then(&power);
            left >>= 1;
        }
        result
    }

    fn one_byte() -> Shift {
        Shift(std::array::from_fn(|bit| {
            (0..8).fold(1u32 << bit, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 })
        }))
    }

    fn then(&self, next: &Shift) -> Shift {
        Shift(std::array::from_fn(|bit| next.apply(self.0[bit])))
    }

    fn apply(&self, crc: u32) -> u32 {
        self.0.iter().enumerate().fold(0, |sum, (bit, column)| if crc >> bit & 1 == 1 { sum ^ column } else { sum })
    }

    /// The checksum of a part with checksum `first`, followed by so many bytes with checksum `second`.
    pub(crate) fn join(&self, first: u32, second: u32) -> u32 {
        self.apply(first) ^ second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use records::crc32c;

    #[test]
    fn joined_checksums_are_those_of_the_whole() {
        let mut prng = Prng::new(7);
        let bytes: Vec<u8> = (0..70_000).map(|_| prng.next_u64() as u8).collect();
        for (first, second) in [(40, 0), (0, 40), (40, 1), (40, 7), (1, 1024), (40, 65_536), (33, 69_000)] {
            let (a, b) = (&bytes[..first], &bytes[first..first + second]);
            let joined = Shift::by(second).join(crc32c(a), crc32c(b));
            assert_eq!(joined, crc32c(&bytes[..first + second]), "{first} and {second} bytes");
        }
    }
}
