//! xxHash32 with seed 0, which LZ4 frames use for their checksums.

const P1: u32 = 0x9e37_79b1;
const P2: u32 = 0x85eb_ca77;
const P3: u32 = 0xc2b2_ae3d;
const P4: u32 = 0x27d4_eb2f;
const P5: u32 = 0x1656_67b1;

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn round(lane: u32, bytes: &[u8]) -> u32 {
    lane.wrapping_add(word(bytes).wrapping_mul(P2)).rotate_left(13).wrapping_mul(P1)
}

/// The hash of `bytes`.
pub(super) fn xxhash32(bytes: &[u8]) -> u32 {
    let mut stripes = bytes.chunks_exact(16);
    let mut hash = if bytes.len() >= 16 {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, 0u32.wrapping_sub(P1)];
        for stripe in stripes.by_ref() {
            for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round(*lane, word);
            }
        }
        let [a, b, c, d] = lanes;
        a.rotate_left(1).wrapping_add(b.rotate_left(7)).wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18))
    } else {
        P5
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let mut words = stripes.remainder().chunks_exact(4);
    for w in words.by_ref() {
        hash = hash.wrapping_add(word(w).wrapping_mul(P3)).rotate_left(17).wrapping_mul(P4);
    }
    for &b in words.remainder() {
        hash = hash.wrapping_add(u32::from(b).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::xxhash32;

    #[test]
    fn reference_values() {
        assert_eq!(xxhash32(b""), 0x02cc_5d05);
        assert_eq!(xxhash32(b"a"), 0x550d_7456);
        assert_eq!(xxhash32(b"abc"), 0x32d1_53ff);
        assert_eq!(xxhash32(b"Nobody inspects the spammish repetition"), 0xe229_3b2f);
    }
}
