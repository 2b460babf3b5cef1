//! Headers of requests and responses.

use crate::codec::{Reader, Str, Writer};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::{ApiKey, EncodeError};

/// The header of a request, without what comes in its tagged section.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestHeader<'a> {
    /// Number of the API; perhaps none that we know.
    pub api_key: i16,
    /// Version of the request; perhaps none that we know.
    pub api_version: i16,
    /// Given back in the response.
    pub correlation_id: i32,
    /// `client.id` of the sender.
    pub client_id: Option<Str<'a>>,
}

impl RequestHeader<'_> {
    /// The API, if it is one that we know.
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_i16(self.api_key)
    }
}

/// Reads the header of a request and leaves the reader at the body. The header of an unknown API is read in its oldest
/// form; that of an unknown version in the form that the version would have, so that ApiVersions can be answered
/// whatever version was asked.
pub fn decode_request_header<'a>(r: &mut Reader<'a>) -> Result<RequestHeader<'a>, DecodeError> {
    let api_key = r.i16()?;
    let api_version = r.i16()?;
    let correlation_id = r.i32()?;
    // ApiVersions is answered in whatever version it is asked.
    if api_key < 0 || (api_version < 0 && api_key != ApiKey::ApiVersions.code()) {
        return Err(r.fail(DecodeErrorKind::UnsupportedVersion));
    }
    // The client id stays in the classic form in flexible headers, which old brokers had to be able to read.
    let client_id = r.opt_string_classic()?;
    let flexible = ApiKey::from_i16(api_key).is_some_and(|key| key.info().is_flexible(api_version));
    r.set_flexible(flexible);
    r.skip_tags()?;
    Ok(RequestHeader { api_key, api_version, correlation_id, client_id })
}

/// Writes the header of a request of a version that the API has.
pub fn encode_request_header(w: &mut Writer, header: &RequestHeader<'_>) -> Result<(), EncodeError> {
    w.i16(header.api_key);
    w.i16(header.api_version);
    w.i32(header.correlation_id);
    w.opt_string_classic(&header.client_id);
    w.set_flexible(header.api().is_some_and(|key| key.info().is_flexible(header.api_version)));
    w.no_tags();
    w.check()
}

/// Writes the header of the response to a request of the given API and version.
pub fn encode_response_header(w: &mut Writer, key: ApiKey, version: i16, correlation_id: i32) {
    w.i32(correlation_id);
    w.set_flexible(key.info().response_header_version(version) == 1);
    w.no_tags();
}

/// Reads the header of the response to a request of the given API and version; gives the correlation id.
pub fn decode_response_header(r: &mut Reader<'_>, key: ApiKey, version: i16) -> Result<i32, DecodeError> {
    let correlation_id = r.i32()?;
    r.set_flexible(key.info().response_header_version(version) == 1);
    r.skip_tags()?;
    Ok(correlation_id)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api_versions_request::ApiVersionsRequest;
    use crate::api_versions_response::{ApiVersion, ApiVersionsResponse, SupportedFeatureKey};
    use crate::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
    use crate::{Decode, Encode, Records, Segment};

    #[test]
    fn a_request_survives_with_its_header() {
        for version in 0..=4 {
            let header =
                RequestHeader { api_key: 18, api_version: version, correlation_id: 7, client_id: Some("me".into()) };
            let request = ApiVersionsRequest { client_software_name: "odradek".into(), ..Default::default() };
            let mut w = Writer::frame();
            encode_request_header(&mut w, &header).expect("valid");
            request.encode(&mut w, version).expect("valid");
            let frame = w.into_bytes().expect("no external bytes");
            assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
            let body = frame.slice(4..);
            let mut r = Reader::new(&body);
            assert_eq!(decode_request_header(&mut r), Ok(header));
            let back = ApiVersionsRequest::decode(&mut r, version).expect("valid");
            assert_eq!(back.client_software_name, if version >= 3 { "odradek" } else { "" });
            assert_eq!(r.remaining(), 0);
        }
    }

    #[test]
    fn the_answer_to_api_versions_never_has_tags_in_its_header() {
        let mut w = Writer::new();
        encode_response_header(&mut w, ApiKey::ApiVersions, 4, 7);
        encode_response_header(&mut w, ApiKey::Metadata, 12, 8);
        assert_eq!(w.into_bytes(), Some(Bytes::from_static(&[0, 0, 0, 7, 0, 0, 0, 8, 0])));
    }

    #[test]
    fn records_are_passed_on_and_not_copied() {
        let records = Bytes::from(vec![7; 1000]);
        let partition = PartitionData { records: Some(Records::Bytes(records.clone())), ..Default::default() };
        let last = PartitionData { records: Some(Records::External { len: 10, token: 3 }), ..Default::default() };
        let topic = FetchableTopicResponse { partitions: vec![partition, last], ..Default::default() };
        let response = FetchResponse { responses: vec![topic], ..Default::default() };
        let mut w = Writer::frame();
        response.encode(&mut w, 17).expect("valid");
        let length = w.len();
        let segments: Vec<Segment> = w.finish().into_iter().collect();
        assert_eq!(segments.iter().map(Segment::len).sum::<usize>(), length);
        let [_, Segment::Bytes(passed), _, Segment::External { len: 10, token: 3 }, Segment::Bytes(_)] = &segments[..]
        else {
            panic!("unexpected segments {segments:?}");
        };
        assert_eq!(passed.as_ptr(), records.as_ptr());
    }

    #[test]
    fn a_tagged_value_may_need_a_size_of_several_bytes() {
        let features =
            (0..100).map(|i| SupportedFeatureKey { name: format!("feature-{i}").into(), ..Default::default() });
        let response = ApiVersionsResponse {
            api_keys: vec![ApiVersion { api_key: 1, min_version: 2, max_version: 3 }],
            supported_features: features.collect(),
            finalized_features_epoch: 5,
            ..Default::default()
        };
        let mut w = Writer::new();
        response.encode(&mut w, 4).expect("valid");
        let bytes = w.into_bytes().expect("no external bytes");
        let mut r = Reader::new(&bytes);
        assert_eq!(ApiVersionsResponse::decode(&mut r, 4), Ok(response));
        assert_eq!(r.remaining(), 0);
    }
}
