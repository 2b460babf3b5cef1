use super::*;
use base::Prng;

/// Enough for every sample.
const LIMIT: usize = 8 << 20;

fn samples() -> Vec<Vec<u8>> {
    let mut prng = Prng::new(11);
    let noise: Vec<u8> = (0..100_000).map(|_| prng.next_u64() as u8).collect();
    let text: Vec<u8> = (0..40_000).flat_map(|i| format!("line {} of {}\n", i % 977, i).into_bytes()).collect();
    vec![
        Vec::new(),
        b"x".to_vec(),
        vec![0; 1 << 20],
        noise,
        text.clone(),
        text[..65_536].to_vec(),
        text[..65_537].to_vec(),
        text[..32_768].to_vec(),
    ]
}

fn packed(codec: Codec, level: Option<i32>, input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    compress(codec, level, input, &mut out).unwrap();
    out
}

fn unpacked(d: &mut Decompressor, codec: Codec, input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut out = Vec::new();
    d.decompress(codec, input, &mut out, limit)?;
    Ok(out)
}

#[test]
fn round_trips_in_every_codec_and_level() {
    let mut d = Decompressor::new();
    for codec in Codec::ALL {
        for input in samples() {
            for level in [None, Some(1), Some(if input.len() < 70_000 { 99 } else { 5 })] {
                // Snappy of nothing is a bare header, in Java too.
                let packed = packed(codec, level, &input);
                assert_eq!(unpacked(&mut d, codec, &packed, LIMIT).unwrap(), input, "{codec} {level:?}");
            }
        }
    }
}

#[test]
fn small_reads_give_the_same_bytes() {
    let mut d = Decompressor::new();
    let input = &samples()[4];
    for codec in Codec::ALL {
        let packed = packed(codec, None, input);
        let mut stream = d.stream(codec, &packed).unwrap();
        let (mut out, mut buf) = (Vec::new(), [0u8; 777]);
        loop {
            let n = stream.read(&mut buf).unwrap();
            if n == 0 {
                break;
            }
            out.extend_from_slice(&buf[..n]);
        }
        assert!(out == *input, "{codec}");
    }
}

#[test]
fn the_limit_is_exact_and_a_bomb_costs_no_memory() {
    let mut d = Decompressor::new();
    let zeros = vec![0u8; 1 << 20];
    for codec in Codec::ALL {
        let packed = packed(codec, None, &zeros);
        assert_eq!(unpacked(&mut d, codec, &packed, 1 << 20).unwrap().len(), 1 << 20);
        let mut out = Vec::new();
        let error = d.decompress(codec, &packed, &mut out, (1 << 20) - 1).unwrap_err();
        assert_eq!(error, BatchError::TooLarge { limit: (1 << 20) - 1 });
        let mut out = Vec::new();
        assert!(d.decompress(codec, &packed, &mut out, 1000).is_err());
        assert!(out.capacity() <= 2 * CHUNK_BYTES_MIN, "{codec} {}", out.capacity());
    }
}

#[test]
fn snappy_is_read_bare_and_concatenated() {
    let mut d = Decompressor::new();
    let bare = snap::raw::Encoder::new().compress_vec(b"hello hello hello hello").unwrap();
    assert_eq!(unpacked(&mut d, Codec::Snappy, &bare, 100).unwrap(), b"hello hello hello hello");
    let twice = [packed(Codec::Snappy, None, b"ab"), packed(Codec::Snappy, None, b"cd")].concat();
    assert_eq!(unpacked(&mut d, Codec::Snappy, &twice, 100).unwrap(), b"abcd");
    // A length of nearly 4 GiB in front of three bytes.
    let lie = [0xf0, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
    assert!(matches!(unpacked(&mut d, Codec::Snappy, &lie, LIMIT), Err(BatchError::Compression { .. })));
}

#[test]
fn gzip_members_and_optional_fields() {
    let mut d = Decompressor::new();
    let one = packed(Codec::Gzip, None, b"one");
    let twice = [&one[..], &packed(Codec::Gzip, None, b"two")].concat();
    assert_eq!(unpacked(&mut d, Codec::Gzip, &twice, 100).unwrap(), b"onetwo");
    let garbage = [&one[..], b"garbage"].concat();
    assert_eq!(unpacked(&mut d, Codec::Gzip, &garbage, 100).unwrap(), b"one");
    let mut full = one[..10].to_vec();
    full[3] = FLAGS_ALL;
    full.extend_from_slice(b"\x03\0abcname\0comment\0");
    let mut crc = flate2::Crc::new();
    crc.update(&full);
    full.extend_from_slice(&(crc.sum() as u16).to_le_bytes());
    full.extend_from_slice(&one[10..]);
    assert_eq!(unpacked(&mut d, Codec::Gzip, &full, 100).unwrap(), b"one");
}

/// Header checksum, extra field, name and comment.
const FLAGS_ALL: u8 = 2 | 4 | 8 | 16;

#[test]
fn zstd_frames_follow_each_other() {
    let mut d = Decompressor::new();
    let twice = [packed(Codec::Zstd, None, b"one"), packed(Codec::Zstd, Some(22), b"two")].concat();
    assert_eq!(unpacked(&mut d, Codec::Zstd, &twice, 100).unwrap(), b"onetwo");
}

#[test]
fn cut_off_input_is_an_error_and_never_other_bytes() {
    let mut d = Decompressor::new();
    let input = b"a text that is long enough to be worth compressing, long enough, long enough".repeat(20);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let packed = packed(codec, None, &input);
        for cut in 0..packed.len() {
            if let Ok(out) = unpacked(&mut d, codec, &packed[..cut], LIMIT) {
                // The xerial framing has no end mark: it may end between blocks.
                assert!(out.is_empty() && (codec == Codec::Snappy || cut == 0), "{codec} {cut} {}", out.len());
            }
        }
    }
}

#[test]
fn mutated_input_never_panics_and_never_exceeds_the_limit() {
    let mut d = Decompressor::new();
    let mut prng = Prng::new(2024);
    let input: Vec<u8> = (0..3000).flat_map(|i| format!("{} ", i % 91).into_bytes()).collect();
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let good = packed(codec, None, &input);
        for _ in 0..4000 {
            let mut bad = good.clone();
            for _ in 0..=prng.below(4) {
                let at = prng.below(bad.len() as u64) as usize;
                // Headers are where a lie costs most, so half of the hits go there.
                let at = if prng.chance(1, 2) { at.min(at % 24) } else { at };
                bad[at] = prng.next_u64() as u8;
            }
            bad.truncate(bad.len() - prng.below(3) as usize);
            let mut out = Vec::new();
            let result = d.decompress(codec, &bad, &mut out, 20_000);
            assert!(out.len() <= 20_001, "{codec}");
            assert!(result.is_err() || out.len() <= 20_000);
        }
    }
}
