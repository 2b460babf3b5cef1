//! The independent codec of crate `kafka-protocol` reads what is written here and writes the same bytes again, for every
//! version of requests and responses that it has.

mod common;

use base::Prng;
use bytes::{Bytes, BytesMut};
use common::values::{Fill, message_bytes};
use common::{entry, hex, schemas};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};
use wiregen::Kind;

/// Messages per version and fill.
const ROUNDS: u64 = 6;

/// Versions of requests and responses that the other codec must turn out to have; it had this many when the test was
/// written.
const VERSIONS_COMPARED_MIN: usize = 577;

/// The bytes after the other codec read and wrote them; `None` when it does not have the version.
fn recode(kind: Kind, key: ApiKey, version: i16, bytes: &Bytes) -> Option<(usize, BytesMut)> {
    let mut left = bytes.clone();
    let mut out = BytesMut::new();
    match kind {
        Kind::Request => RequestKind::decode(key, &mut left, version).ok()?.encode(&mut out, version).ok()?,
        _ => ResponseKind::decode(key, &mut left, version).ok()?.encode(&mut out, version).ok()?,
    }
    Some((left.len(), out))
}

#[test]
fn every_version_that_both_have() {
    let mut compared = 0;
    for message in schemas().into_iter().filter(|m| matches!(m.kind, Kind::Request | Kind::Response)) {
        let Some(Ok(key)) = message.number.map(ApiKey::try_from) else { continue };
        let codec = entry(&message.name);
        for version in codec.min..=codec.max {
            let mut both_have_it = false;
            for (fill, seed) in
                [Fill::Full, Fill::Mixed, Fill::Least].into_iter().flat_map(|f| (0..ROUNDS).map(move |s| (f, s)))
            {
                let made = Bytes::from(message_bytes(&message, version, fill, &mut Prng::new(seed)));
                let written = (codec.recode)(&made, version, version).expect("valid").bytes.expect("valid");
                let place = format!("{} v{version} {fill:?} seed {seed}: {}", message.name, hex(&written));
                match recode(message.kind, key, version, &written) {
                    Some((left, back)) => {
                        assert_eq!((left, hex(&back)), (0, hex(&written)), "{place}");
                        both_have_it = true;
                    }
                    None => assert!(!both_have_it, "the other codec refuses {place}"),
                }
            }
            compared += usize::from(both_have_it);
        }
    }
    assert!(compared >= VERSIONS_COMPARED_MIN, "only {compared} versions were compared");
}
