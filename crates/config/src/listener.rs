//! Listeners: names, addresses and the protocol spoken on them.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::ConfigError;

/// What is spoken on a listener below the Kafka protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without encryption.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// By Kafka's name, in any case.
    pub fn from_name(name: &str) -> Option<SecurityProtocol> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// The protocol's number in registration records and requests.
    pub fn wire_id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }
}

/// One entry of `listeners` or `advertised.listeners`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Name, upper case.
    pub name: String,
    /// Host name or address; empty means every address.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// What is spoken on it.
    pub protocol: SecurityProtocol,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// `listener.security.protocol.map`, by upper-case listener name.
pub(crate) type ProtocolMap = BTreeMap<String, SecurityProtocol>;

/// Parses `NAME:PROTOCOL,...`.
pub(crate) fn parse_protocol_map(text: &str) -> Result<ProtocolMap, ConfigError> {
    const OPTION: &str = "listener.security.protocol.map";
    let mut map = ProtocolMap::new();
    for (name, protocol) in parse_csv_map(OPTION, text)? {
        let protocol = SecurityProtocol::from_name(&protocol).ok_or_else(|| {
            ConfigError::about(OPTION, format!("Invalid security protocol `{protocol}` defined in {OPTION}"))
        })?;
        map.insert(name.to_uppercase(), protocol);
    }
    Ok(map)
}

/// Parses `key:value,...`; the last colon of an element separates, so that keys may be IPv6 addresses.
pub(crate) fn parse_csv_map(option: &str, text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut map = BTreeMap::new();
    for element in crate::java::split_list(text) {
        let Some((key, value)) = element.rsplit_once(':') else {
            let message = format!("Error parsing configuration property '{option}': {element} has no colon");
            return Err(ConfigError::about(option, message));
        };
        map.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(map)
}

/// Whether ports within one list must differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    Distinct,
    MayRepeat,
}

/// Parses the entries of `listeners` or `advertised.listeners`.
pub(crate) fn parse_listeners(
    option: &str,
    entries: &[String],
    protocols: &ProtocolMap,
    ports: Ports,
) -> Result<Vec<Listener>, ConfigError> {
    let shown = format!("[{}]", entries.join(", "));
    let wrap =
        |why: String| ConfigError::about(option, format!("Error creating broker listeners from '{shown}': {why}"));
    let mut listeners = Vec::with_capacity(entries.len());
    for entry in entries {
        listeners.push(parse_listener(entry, protocols).map_err(wrap)?);
    }
    check_distinct(&listeners, &shown, ports).map_err(wrap)?;
    Ok(listeners)
}

fn parse_listener(entry: &str, protocols: &ProtocolMap) -> Result<Listener, String> {
    let unable = || format!("Unable to parse {entry} to a broker endpoint");
    // The name ends at the last "://", the host at the last colon, as in a greedy pattern.
    let (name, address) = entry.rsplit_once("://").ok_or_else(unable)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(unable)?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let in_host = |b: u8| b.is_ascii_alphanumeric() || b"-%._:".contains(&b);
    if !host.bytes().all(in_host) {
        return Err(unable());
    }
    let digits = port.strip_prefix('-').unwrap_or(port);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(unable());
    }
    let port = port.parse().map_err(|_| format!("port {port} is not between 0 and 65535"))?;
    let name = name.to_uppercase();
    let protocol = *protocols.get(&name).ok_or_else(|| format!("No security protocol defined for listener {name}"))?;
    Ok(Listener { name, host: host.to_owned(), port, protocol })
}

fn check_distinct(listeners: &[Listener], shown: &str, ports: Ports) -> Result<(), String> {
    for (index, listener) in listeners.iter().enumerate() {
        let before = &listeners[..index];
        if before.iter().any(|other| other.name == listener.name) {
            return Err(format!("Each listener must have a different name, listeners: {shown}"));
        }
        let same_port: Vec<&Listener> = before
            .iter()
            .filter(|other| ports == Ports::Distinct && listener.port != 0 && other.port == listener.port)
            .collect();
        match same_port.as_slice() {
            [] => {}
            [other] => match (ip_version(&other.host), ip_version(&listener.host)) {
                (Some(4), Some(6)) | (Some(6), Some(4)) => {}
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, \
                         listeners: {shown}, port: {}",
                        listener.port
                    ));
                }
                _ => return Err(format!("Each listener must have a different port, listeners: {shown}")),
            },
            _ => {
                return Err(format!(
                    "Each listener must have a different port unless exactly one listener has an IPv4 address and the \
                     other IPv6 address, listeners: {shown}, port: {}",
                    listener.port
                ));
            }
        }
    }
    Ok(())
}

fn ip_version(host: &str) -> Option<u8> {
    match host.parse() {
        Ok(std::net::IpAddr::V4(_)) => Some(4),
        Ok(std::net::IpAddr::V6(_)) => Some(6),
        Err(_) => None,
    }
}
