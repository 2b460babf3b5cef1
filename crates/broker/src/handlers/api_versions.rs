//! ApiVersions (key 18): what this broker serves, the first request of every client.
//!
//! Versions: 0 keys; 1 throttle time; 2 none; 3 flexible, client software (KIP-511), features as tagged fields
//! (KIP-584); 4 features whose lowest level is 0; 5 cluster id and node id, so that a client at a stale address learns
//! it (KIP-1242).
//! A version that is not known is answered in version 0 with UNSUPPORTED_VERSION and the range of this API alone, and the
//! response header is version 0 in all of them.
//! Gaps: none.

use crate::api_table::{ROWS, row};
use crate::call::{Answer, Call};
use metadata::features;
use wire::api_versions_request::ApiVersionsRequest;
use wire::api_versions_response::{ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey};
use wire::{ApiKey, ErrorCode};

/// First version that carries the client's software.
const SOFTWARE_FROM: i16 = 3;
/// First version whose clients can read a supported feature with a lowest level of 0.
const ZERO_LEVELS_FROM: i16 = 4;

/// Node id of a client that does not know which node it talks to.
const NO_NODE: i32 = -1;

/// Answers one request.
pub fn handle(call: &Call) -> Answer {
    let own = row(ApiKey::ApiVersions).expect("ApiVersions has a row");
    if !own.serves(call.version) {
        let range = own.advertised();
        let only = ApiVersion { api_key: own.api.code(), min_version: *range.start(), max_version: *range.end() };
        return call.respond_in(0, &failed(ErrorCode::UNSUPPORTED_VERSION, vec![only]));
    }
    let request: ApiVersionsRequest<'_> = call.decode()?;
    let software = (request.client_software_name.as_ref(), request.client_software_version.as_ref());
    if call.version >= SOFTWARE_FROM {
        if !is_software_token(software.0) || !is_software_token(software.1) {
            return call.respond(&failed(ErrorCode::INVALID_REQUEST, Vec::new()));
        }
        *call.session.software.borrow_mut() = Some((software.0.into(), software.1.into()));
    }
    match expected(call, request.cluster_id.as_deref(), request.node_id) {
        ErrorCode::NONE => call.respond(&served(call)),
        error => call.respond(&failed(error, Vec::new())),
    }
}

/// Compares the node that the client takes this one for. Cluster and node come together or not at all.
fn expected(call: &Call, cluster: Option<&str>, node: i32) -> ErrorCode {
    let own = &call.core.node;
    match cluster {
        None if node == NO_NODE => ErrorCode::NONE,
        Some(cluster) if node != NO_NODE && cluster == own.cluster_id && node == own.id => ErrorCode::NONE,
        Some(_) if node != NO_NODE => ErrorCode::REBOOTSTRAP_REQUIRED,
        _ => ErrorCode::INVALID_REQUEST,
    }
}

fn failed(error: ErrorCode, api_keys: Vec<ApiVersion>) -> ApiVersionsResponse<'static> {
    ApiVersionsResponse { error_code: error.0, api_keys, ..ApiVersionsResponse::default() }
}

/// A name or version of software: letters and digits, with dots and dashes inside.
fn is_software_token(text: &str) -> bool {
    let end_ok = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner_ok = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'-';
    end_ok(text.bytes().next()) && end_ok(text.bytes().last()) && text.bytes().all(inner_ok)
}

fn served(call: &Call) -> ApiVersionsResponse<'static> {
    let image = call.core.image();
    let api = |row: &crate::api_table::ApiRow| {
        let range = row.advertised();
        ApiVersion { api_key: row.api.code(), min_version: *range.start(), max_version: *range.end() }
    };
    let supported = features::SUPPORTED.iter().filter(|one| one.min > 0 || call.version >= ZERO_LEVELS_FROM);
    let finalized = image.features.finalized();
    ApiVersionsResponse {
        api_keys: ROWS.iter().filter(|row| !call.session.on_controller || row.on_controller()).map(api).collect(),
        supported_features: supported
            .map(|one| SupportedFeatureKey { name: one.name.into(), min_version: one.min, max_version: one.max })
            .collect(),
        finalized_features_epoch: image.provenance.last_offset,
        finalized_features: finalized
            .into_iter()
            .map(|(name, level)| FinalizedFeatureKey {
                name: name.to_string().into(),
                max_version_level: level,
                min_version_level: level,
            })
            .collect(),
        ..ApiVersionsResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_tokens() {
        for good in ["apache-kafka-java", "4.4.0", "a", "v2.15.0"] {
            assert!(is_software_token(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "a_b", "ä"] {
            assert!(!is_software_token(bad), "{bad}");
        }
    }
}
