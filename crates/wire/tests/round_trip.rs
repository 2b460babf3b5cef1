//! Every message in every version: bytes made from the schema survive decoding and encoding.

mod common;

use base::Prng;
use bytes::Bytes;
use common::values::{Fill, message_bytes};
use common::{entry, hex, schemas};

/// Messages per version and fill.
const ROUNDS: u64 = 20;

#[test]
fn every_version_of_every_schema_survives() {
    let mut checked = 0;
    for message in schemas() {
        let codec = entry(&message.name);
        assert_eq!((codec.min, codec.max), (message.versions.lo, message.versions.hi), "{}", message.name);
        for version in message.versions.lo..=message.versions.hi {
            for (fill, seed) in
                [Fill::Full, Fill::Mixed, Fill::Least].into_iter().flat_map(|f| (0..ROUNDS).map(move |s| (f, s)))
            {
                let bytes = Bytes::from(message_bytes(&message, version, fill, &mut Prng::new(seed)));
                let place = format!("{} v{version} {fill:?} seed {seed}: {}", message.name, hex(&bytes));
                let recoded =
                    (codec.recode)(&bytes, version, version).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(recoded.remaining, 0, "{place}");
                assert_eq!(recoded.bytes.as_ref().map(|b| hex(b)), Ok(hex(&bytes)), "{place}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40_000, "only {checked} messages were checked");
}

#[test]
fn versions_outside_the_range_are_refused() {
    for message in schemas() {
        let codec = entry(&message.name);
        for version in [codec.min - 1, codec.max + 1] {
            assert!((codec.decode)(&Bytes::from_static(&[0; 64]), version).is_err(), "{} v{version}", message.name);
            assert!((codec.encode_default)(version).is_err(), "{} v{version}", message.name);
        }
    }
}
