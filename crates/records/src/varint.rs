//! Zigzag variable-length integers as records use them.

/// Bytes of the longest 32-bit varint.
const VARINT_BYTES_MAX: usize = 5;
/// Bytes of the longest 64-bit varint.
const VARLONG_BYTES_MAX: usize = 10;

/// Reads a zigzag 32-bit integer at the start of `bytes`: the value and its length. `None` when the bytes end too early
/// or the encoding is longer than five bytes. Bits past the 32nd are dropped, as Kafka does.
#[inline(always)]
pub fn read_varint(bytes: &[u8]) -> Option<(i32, usize)> {
    // Nearly every varint of a record (offset delta, key length, header count) is one byte long.
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((unzigzag32(u32::from(first)), 1));
    }
    // Sizes of records and values mostly have two.
    let second = *bytes.get(1)?;
    let value = u32::from(first & 0x7f) | u32::from(second & 0x7f) << 7;
    if second < 0x80 {
        return Some((unzigzag32(value), 2));
    }
    long_varint(bytes, value)
}

/// The rest of [`read_varint`] when the first two bytes are not all: `value` is theirs.
#[inline(never)]
fn long_varint(bytes: &[u8], mut value: u32) -> Option<(i32, usize)> {
    for (i, &b) in bytes.iter().enumerate().take(VARINT_BYTES_MAX).skip(2) {
        value |= u32::from(b & 0x7f) << (7 * i);
        if b < 0x80 {
            return Some((unzigzag32(value), i + 1));
        }
    }
    None
}

/// Reads a zigzag 64-bit integer at the start of `bytes`: the value and its length. `None` when the bytes end too early
/// or the encoding is longer than ten bytes.
#[inline(always)]
pub fn read_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((unzigzag64(u64::from(first)), 1));
    }
    long_varlong(bytes)
}

#[inline(never)]
fn long_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0u64;
    for (i, &b) in bytes.iter().enumerate().take(VARLONG_BYTES_MAX) {
        value |= u64::from(b & 0x7f) << (7 * i);
        if b < 0x80 {
            return Some((unzigzag64(value), i + 1));
        }
    }
    None
}

fn unzigzag32(v: u32) -> i32 {
    ((v >> 1) as i32) ^ -((v & 1) as i32)
}

fn unzigzag64(v: u64) -> i64 {
    ((v >> 1) as i64) ^ -((v & 1) as i64)
}

/// Appends `value` as a zigzag varint.
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

/// Appends `value` as a zigzag varlong.
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_unsigned(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Bytes that [`put_varint`] appends for `value`.
pub fn size_of_varint(value: i32) -> usize {
    size_of_unsigned(u64::from(((value << 1) ^ (value >> 31)) as u32))
}

/// Bytes that [`put_varlong`] appends for `value`.
pub fn size_of_varlong(value: i64) -> usize {
    size_of_unsigned(((value << 1) ^ (value >> 63)) as u64)
}

fn size_of_unsigned(v: u64) -> usize {
    let bits = 64 - (v | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_encodings() {
        for (value, expect) in [
            (0, &[0x00][..]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, expect, "{value}");
            assert_eq!(size_of_varint(value), out.len());
            assert_eq!(read_varint(&out), Some((value, out.len())));
            assert_eq!(read_varlong(&out), Some((i64::from(value), out.len())));
        }
    }

    #[test]
    fn round_trips_and_refusals() {
        for shift in 0..64 {
            for value in [1i64 << shift, (1i64 << shift).wrapping_neg(), (1i64 << shift).wrapping_sub(1)] {
                let mut out = Vec::new();
                put_varlong(&mut out, value);
                assert_eq!(size_of_varlong(value), out.len());
                assert_eq!(read_varlong(&out), Some((value, out.len())));
                assert_eq!(read_varlong(&out[..out.len() - 1]), None);
            }
        }
        assert_eq!(read_varint(&[0x80; 5]), None);
        assert_eq!(read_varlong(&[0x80; 10]), None);
        assert_eq!(read_varint(&[]), None);
        // Kafka drops the bits past the 32nd of a five-byte varint.
        assert_eq!(read_varint(&[0xff, 0xff, 0xff, 0xff, 0x7f]), Some((i32::MIN, 5)));
    }
}
