//! Bytes that lie: no decoder panics, none takes more memory than the bytes it was given justify, and what does decode
//! can be written and read again.

mod common;

use allocation_counter::measure;
use base::Prng;
use bytes::Bytes;
use common::values::{Fill, message_bytes, uvarint};
use common::{Entry, ITEMS, entry, hex, schemas};
use wire::{DECODED_BYTES_FREE, DECODED_BYTES_PER_WIRE_BYTE_MAX, DecodeErrorKind};

/// Places of a message that are falsified; all of them when it has fewer bytes.
const PLACES: u64 = 48;

/// Messages with random changes, per version.
const RANDOM_CHANGES: u64 = 48;

/// Bytes in memory that the types of the messages can need for one byte on the wire.
const TYPES_BYTES_PER_WIRE_BYTE_MAX: usize = 32;

/// Memory that decoding may take at its peak. An array that grows is there twice for a moment; sharing the frame for the
/// first time costs one small allocation.
fn allowed(bytes: usize) -> u64 {
    let by_types = bytes * TYPES_BYTES_PER_WIRE_BYTE_MAX;
    let by_budget = bytes * DECODED_BYTES_PER_WIRE_BYTE_MAX + DECODED_BYTES_FREE;
    (2 * by_types.min(by_budget) + 128) as u64
}

fn attack(codec: &Entry, version: i16, bytes: Vec<u8>) {
    let frame = Bytes::from(bytes);
    let place = || format!("{} v{version}: {}", codec.name, hex(&frame[..frame.len().min(4000)]));
    let mut outcome = Ok(0);
    let taken = measure(|| outcome = (codec.decode)(&frame, version));
    assert!(taken.bytes_max <= allowed(frame.len()), "{} bytes taken by {}", taken.bytes_max, place());
    if outcome.is_err() {
        return;
    }
    // A message may decode and yet have no encoding of its own only where the schema has a null without an encoding.
    let once = (codec.recode)(&frame, version, version).expect("it has just been decoded").bytes;
    let Ok(once) = once else { panic!("{once:?} after decoding {}", place()) };
    let twice = (codec.recode)(&once, version, version).unwrap_or_else(|error| panic!("{error}: {}", place())).bytes;
    assert_eq!(twice.as_ref().map(|b| hex(b)), Ok(hex(&once)), "{}", place());
}

/// Everything that a length at some place might claim, as the bytes of each of its forms.
fn lies(remaining: usize) -> Vec<Vec<u8>> {
    let mut lies = Vec::new();
    for claim in [-2, -1, 0, remaining as i32 + 1, i32::MAX, i32::MIN] {
        lies.push(claim.to_be_bytes().to_vec());
        lies.push((claim as i16).to_be_bytes().to_vec());
    }
    for claim in [0, remaining as u32 + 1, remaining as u32 + 2, 1 << 31, u32::MAX] {
        let mut lie = Vec::new();
        uvarint(claim, &mut lie);
        lies.push(lie);
    }
    lies.push(vec![0xff; 5]);
    lies.push(vec![0x80; 6]);
    lies
}

fn places(length: usize, prng: &mut Prng) -> Vec<usize> {
    match length as u64 <= PLACES {
        true => (0..length).collect(),
        false => (0..PLACES).map(|_| prng.below(length as u64) as usize).collect(),
    }
}

/// Calls `each` with every version of every schema and a message of it.
fn for_every_version(each: impl Fn(&Entry, i16, &[u8], &mut Prng)) {
    for message in schemas() {
        let codec = entry(&message.name);
        for version in codec.min..=codec.max {
            let mut prng = Prng::new(version as u64);
            let bytes = message_bytes(&message, version, Fill::Full, &mut prng);
            each(codec, version, &bytes, &mut prng);
        }
    }
}

#[test]
fn truncated_messages() {
    for_every_version(|codec, version, bytes, prng| {
        for place in places(bytes.len(), prng) {
            assert!((codec.decode)(&Bytes::copy_from_slice(&bytes[..place]), version).is_err(), "{}", codec.name);
            attack(codec, version, bytes[..place].to_vec());
        }
    });
}

#[test]
fn lengths_that_lie() {
    for_every_version(|codec, version, bytes, prng| {
        for place in places(bytes.len(), prng) {
            for lie in lies(bytes.len() - place) {
                // In place of what stands there in the classic forms, in place of one byte in the compact one.
                let behind = if lie.len() == 4 || lie.len() == 2 { lie.len() } else { 1 };
                let rest = bytes.get(place + behind..).unwrap_or_default();
                attack(codec, version, [&bytes[..place], &lie, rest].concat());
            }
        }
    });
}

#[test]
fn random_changes() {
    for_every_version(|codec, version, bytes, prng| {
        for _ in 0..RANDOM_CHANGES {
            let mut changed = bytes.to_vec();
            for _ in 0..=prng.below(4) {
                if !changed.is_empty() {
                    let place = prng.below(changed.len() as u64) as usize;
                    changed[place] = prng.next_u64() as u8;
                }
            }
            attack(codec, version, changed);
            let noise = (0..prng.below(200)).map(|_| prng.next_u64() as u8 & if version % 2 == 0 { 0xff } else { 3 });
            attack(codec, version, noise.collect());
        }
    });
}

#[test]
fn a_frame_of_empty_strings_is_too_expensive() {
    let codec = entry("DeleteTopicsRequest");
    let names = |count: u32, name: &[u8]| {
        let mut bytes = Vec::new();
        uvarint(count + 1, &mut bytes);
        (0..count).for_each(|_| bytes.extend(name));
        bytes.extend([0, 0, 0, 0, 0]);
        Bytes::from(bytes)
    };
    let kind = |frame: &Bytes| (codec.decode)(frame, 5).map_err(|error| error.kind);
    assert_eq!(kind(&names(1_000_000, &[1])), Err(DecodeErrorKind::TooExpensive));
    assert_eq!(kind(&names(40_000, &[1])), Ok(0));
    assert_eq!(kind(&names(1_000_000, b"\x05name")), Ok(0));
}

/// No small message is refused as too expensive: what its types can need is within what every message may take.
#[test]
fn types_bound_the_memory_of_small_messages() {
    let ratio = |&(_, size, wire): &(&str, usize, usize)| size.div_ceil(wire);
    let mut costly: Vec<_> = ITEMS.iter().filter(|item| ratio(item) > TYPES_BYTES_PER_WIRE_BYTE_MAX).collect();
    costly.sort_by_key(|item| ratio(item));
    assert!(costly.is_empty(), "name, bytes in memory, bytes on the wire: {costly:#?}");
}
