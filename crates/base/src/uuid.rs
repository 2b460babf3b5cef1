use std::fmt;
use std::str::FromStr;

/// A 128-bit id in Kafka's notation: unpadded URL-safe base64 of 16 bytes, 22 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid([u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// All zeroes: "no id" on the wire.
    pub const ZERO: Uuid = Uuid([0; 16]);
    /// The id of the `__cluster_metadata` topic.
    pub const METADATA_TOPIC: Uuid = Uuid::from_u128(1);

    /// From 16 big-endian bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Uuid {
        Uuid(bytes)
    }

    /// From a number.
    pub const fn from_u128(value: u128) -> Uuid {
        Uuid(value.to_be_bytes())
    }

    /// The 16 bytes as they stand on the wire.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// True for [`Uuid::ZERO`].
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// The lower 64 bits, which are random in every id Kafka makes.
    pub fn low_bits(&self) -> u64 {
        u128::from_be_bytes(self.0) as u64
    }

    /// A random id of version 4 from 128 random bits. Kafka refuses ids whose text begins with '-' (they would read as
    /// a command line flag) and the reserved ids; `None` asks for other bits.
    pub fn from_random_bits(bits: u128) -> Option<Uuid> {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = Uuid(bytes);
        (!id.to_string().starts_with('-')).then_some(id)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        let mut text = [0u8; 22];
        for (i, c) in text.iter_mut().enumerate() {
            // 22 characters carry 132 bits: the last one holds two bits of the value and four zero bits.
            let shift = 122 - 6 * i as i32;
            let six = if shift >= 0 { (value >> shift) as usize & 63 } else { ((value << -shift) as usize) & 63 };
            *c = ALPHABET[six];
        }
        f.write_str(std::str::from_utf8(&text).expect("base64 is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of URL-safe base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UuidParseError;

impl fmt::Display for UuidParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a uuid is 22 characters of URL-safe base64 without padding")
    }
}

impl std::error::Error for UuidParseError {}

impl FromStr for Uuid {
    type Err = UuidParseError;

    fn from_str(text: &str) -> Result<Uuid, UuidParseError> {
        let text = text.trim_end_matches('=').as_bytes();
        if text.len() != 22 {
            return Err(UuidParseError);
        }
        let mut value: u128 = 0;
        for (i, c) in text.iter().enumerate() {
            let six = ALPHABET.iter().position(|a| a == c).ok_or(UuidParseError)? as u128;
            value = if i == 21 { (value << 2) | (six >> 4) } else { (value << 6) | six };
        }
        Ok(Uuid::from_u128(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_kafkas() {
        assert_eq!(Uuid::METADATA_TOPIC.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        let id = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "ASNFZ4mrTe-BI0VniavN7w");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("short".parse::<Uuid>().is_err());
        assert!("ASNFZ4mrTe!BI0VniavN7w".parse::<Uuid>().is_err());
    }
}
