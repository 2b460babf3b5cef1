//! Who votes in the metadata quorum, and its times.

use crate::error::ConfigError;
use crate::values::Values;

/// `process.roles`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Roles {
    /// Serves clients.
    pub broker: bool,
    /// Takes part in the metadata quorum.
    pub controller: bool,
}

/// One entry of `controller.quorum.voters`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// Its `node.id`.
    pub id: i32,
    /// Host of its controller listener.
    pub host: String,
    /// Port of its controller listener.
    pub port: u16,
}

/// The `controller.quorum.*` options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumConfig {
    /// `controller.quorum.voters`: the static voters; empty with a dynamic quorum (KIP-853).
    pub voters: Vec<Voter>,
    /// `controller.quorum.bootstrap.servers`: host and port of controllers to ask first.
    pub bootstrap_servers: Vec<(String, u16)>,
    /// `controller.quorum.election.timeout.ms`: how long a voter waits for a leader before it stands itself.
    pub election_timeout_ms: u32,
    /// `controller.quorum.election.backoff.max.ms`: bound of the random wait after a lost election.
    pub election_backoff_max_ms: u32,
    /// `controller.quorum.fetch.timeout.ms`: how long a leader may be silent.
    pub fetch_timeout_ms: u32,
    /// `controller.quorum.request.timeout.ms`.
    pub request_timeout_ms: u32,
    /// `controller.quorum.retry.backoff.ms`.
    pub retry_backoff_ms: u32,
    /// `controller.quorum.append.linger.ms`: how long the leader gathers records before it appends.
    pub append_linger_ms: u32,
    /// `controller.quorum.auto.join.enable`: a controller adds itself to the voters.
    pub auto_join: bool,
}

impl QuorumConfig {
    pub(crate) fn from_values(values: &Values) -> Result<QuorumConfig, ConfigError> {
        Ok(QuorumConfig {
            voters: parse_voters(values.list("controller.quorum.voters"))?,
            bootstrap_servers: parse_bootstrap_servers(values.list("controller.quorum.bootstrap.servers"))?,
            election_timeout_ms: values.count("controller.quorum.election.timeout.ms"),
            election_backoff_max_ms: values.count("controller.quorum.election.backoff.max.ms"),
            fetch_timeout_ms: values.count("controller.quorum.fetch.timeout.ms"),
            request_timeout_ms: values.count("controller.quorum.request.timeout.ms"),
            retry_backoff_ms: values.count("controller.quorum.retry.backoff.ms"),
            append_linger_ms: values.count("controller.quorum.append.linger.ms"),
            auto_join: values.boolean("controller.quorum.auto.join.enable"),
        })
    }
}

/// Parses `id@host:port` entries.
pub(crate) fn parse_voters(entries: &[String]) -> Result<Vec<Voter>, ConfigError> {
    const OPTION: &str = "controller.quorum.voters";
    const FORM: &str = "Each entry should be in the form `{id}@{host}:{port}`.";
    let mut voters: Vec<Voter> = Vec::with_capacity(entries.len());
    for entry in entries {
        let about = |message: String| ConfigError::about(OPTION, message);
        let Some((id, address)) = entry.split_once('@').filter(|(_, address)| !address.contains('@')) else {
            return Err(about(format!("Invalid configuration value for {OPTION}. {FORM}")));
        };
        let id = id.parse().map_err(|_| about(format!("Failed to parse voter ID as an integer from {id}")))?;
        let failed = |what: &str| {
            about(format!("Failed to parse host {what} from entry {entry} for the configuration {OPTION}. {FORM}"))
        };
        let (host, port) = parse_address(address).map_err(|part| failed(part.name()))?;
        voters.retain(|other| other.id != id);
        voters.push(Voter { id, host, port });
    }
    Ok(voters)
}

/// Parses `host:port` entries.
pub(crate) fn parse_bootstrap_servers(entries: &[String]) -> Result<Vec<(String, u16)>, ConfigError> {
    const OPTION: &str = "controller.quorum.bootstrap.servers";
    let parse = |entry: &String| {
        parse_address(entry).map_err(|part| {
            let part = part.name();
            let message = format!(
                "Failed to parse host {part} from {entry} for the configuration {OPTION}. Each entry should be in the \
                 form \"{{host}}:{{port}}\""
            );
            ConfigError::about(OPTION, message)
        })
    };
    entries.iter().map(parse).collect()
}

/// What of an address cannot be read.
pub(crate) enum AddressPart {
    Host,
    Port,
}

impl AddressPart {
    fn name(&self) -> &'static str {
        match self {
            AddressPart::Host => "name",
            AddressPart::Port => "port",
        }
    }
}

/// Parses `host:port`, the host being a name, an IPv4 address or an IPv6 address in brackets.
pub(crate) fn parse_address(text: &str) -> Result<(String, u16), AddressPart> {
    let (host, port) = text.rsplit_once(':').ok_or(AddressPart::Host)?;
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(AddressPart::Host);
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let in_host = |b: u8| b.is_ascii_alphanumeric() || b"-%._:".contains(&b);
    if bare.is_empty() || !bare.bytes().all(in_host) {
        return Err(AddressPart::Host);
    }
    Ok((bare.to_owned(), port.parse().map_err(|_| AddressPart::Port)?))
}
