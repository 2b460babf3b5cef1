use std::ops::RangeInclusive;

use crate::ApiKey;

/// The facts of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiInfo {
    /// Number of the API.
    pub key: ApiKey,
    /// Name, as in Kafka's protocol guide.
    pub name: &'static str,
    /// Lowest version that can be decoded.
    pub min: i16,
    /// Highest version that may be advertised.
    pub max_stable: i16,
    /// Highest version that can be decoded; above `max_stable` where a version is unfinished.
    pub max_unstable: i16,
    /// First version with flexible encoding and headers (KIP-482); `i16::MAX` when there is none.
    pub flexible_from: i16,
    /// True when the API belongs on listeners for clients and brokers.
    pub on_broker: bool,
    /// True when the API belongs on listeners of controllers.
    pub on_controller: bool,
}

/// The facts of an API.
pub const fn info(key: ApiKey) -> &'static ApiInfo {
    key.info()
}

impl ApiInfo {
    /// The versions to put into ApiVersions. Produce begins at 0 although nothing below 3 is served: older librdkafka
    /// takes a higher minimum for a broker that cannot decompress (KAFKA-18659).
    pub fn advertised(&self) -> RangeInclusive<i16> {
        let min = if self.key == ApiKey::Produce { 0 } else { self.min };
        min..=self.max_stable
    }

    /// True when requests of this version have the flexible encoding.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }

    /// Version of the request header (1 or 2) in front of requests of this version.
    pub fn request_header_version(&self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the response header (0 or 1) in front of responses of this version. ApiVersions always has 0: a client
    /// that does not know our versions yet must be able to read the answer (KIP-511).
    pub fn response_header_version(&self, version: i16) -> i16 {
        i16::from(self.key != ApiKey::ApiVersions && self.is_flexible(version))
    }
}

impl ApiKey {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}
