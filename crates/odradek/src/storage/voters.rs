//! The voters a dynamic quorum begins with: `--standalone` and `--initial-controllers`.

use base::Uuid;
use config::BrokerConfig;

use super::StorageError;

/// One voter of a dynamic quorum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InitialVoter {
    /// Its `node.id`.
    pub(crate) id: i32,
    /// Id of its metadata log directory.
    pub(crate) directory_id: Uuid,
    /// Host of its controller listener.
    pub(crate) host: String,
    /// Port of its controller listener.
    pub(crate) port: u16,
}

/// Parses `--initial-controllers`: `id@host:port:directory,...`, sorted by id.
pub(crate) fn parse(text: &str) -> Result<Vec<InitialVoter>, StorageError> {
    let mut voters = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        voters.push(parse_one(part.trim())?);
    }
    if voters.is_empty() {
        return Err(StorageError::new("No voters given."));
    }
    voters.sort_by_key(|voter| voter.id);
    match voters.windows(2).find(|pair| pair[0].id == pair[1].id) {
        Some(pair) => Err(StorageError::new(format!("Node id {} was specified more than once.", pair[0].id))),
        None => Ok(voters),
    }
}

fn parse_one(text: &str) -> Result<InitialVoter, StorageError> {
    let refuse = |message: &str| StorageError::new(message);
    let (id, rest) = text.split_once('@').ok_or_else(|| refuse("No @ found in dynamic voter string."))?;
    if id.is_empty() {
        return Err(refuse("Invalid @ at beginning of dynamic voter string."));
    }
    let id: i32 = id.parse().map_err(|_| refuse("Failed to parse node id in dynamic voter string."))?;
    if id < 0 {
        return Err(StorageError::new(format!("Invalid negative node id {id} in dynamic voter string.")));
    }
    if rest.is_empty() {
        return Err(refuse("No hostname found after node id."));
    }
    let (host, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .ok_or_else(|| refuse("Hostname began with left bracket, but no right bracket was found."))?,
        None => {
            let end = rest.find(':').ok_or_else(|| refuse("No colon following hostname could be found."))?;
            rest.split_at(end)
        }
    };
    let rest = rest.strip_prefix(':').ok_or_else(|| refuse("Port section must start with a colon."))?;
    let (port, directory) = rest.split_once(':').ok_or_else(|| refuse("No colon following port could be found."))?;
    let port: i32 = port.parse().map_err(|_| refuse("Failed to parse port in dynamic voter string."))?;
    let port =
        u16::try_from(port).map_err(|_| StorageError::new(format!("Invalid port {port} in dynamic voter string.")))?;
    let directory_id =
        directory.parse().map_err(|_| refuse("Failed to parse directory ID in dynamic voter string."))?;
    Ok(InitialVoter { id, directory_id, host: host.to_owned(), port })
}

/// `--standalone`: this node alone, under the address it tells others.
pub(crate) fn standalone(config: &BrokerConfig, directory_id: Uuid) -> Result<Vec<InitialVoter>, StorageError> {
    if !config.roles.controller {
        return Err(StorageError::new("You can only use --standalone on a controller."));
    }
    let Some(listener) = config.advertised_controller_listeners.first() else {
        return Err(StorageError::new("No controller listeners found."));
    };
    let host = if listener.host.is_empty() { "localhost".to_owned() } else { listener.host.clone() };
    Ok(vec![InitialVoter { id: config.node_id, directory_id, host, port: listener.port }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voters_are_sorted() {
        let text = "2@[::1]:8084:07R5amHmR32VDA6jHkGbTA, 0@example.com:8082:JEXY6aqzQY-32P5TStzaFg";
        let voters = parse(text).unwrap();
        let seen: Vec<(i32, &str, u16)> = voters.iter().map(|v| (v.id, v.host.as_str(), v.port)).collect();
        assert_eq!(seen, [(0, "example.com", 8082), (2, "::1", 8084)]);
        assert_eq!(voters[0].directory_id.to_string(), "JEXY6aqzQY-32P5TStzaFg");
    }

    #[test]
    fn refusals() {
        let id = "JEXY6aqzQY-32P5TStzaFg";
        let cases = [
            (String::new(), "No voters given."),
            ("h:1:x".into(), "No @ found in dynamic voter string."),
            (format!("@h:1:{id}"), "Invalid @ at beginning of dynamic voter string."),
            (format!("x@h:1:{id}"), "Failed to parse node id in dynamic voter string."),
            (format!("-1@h:1:{id}"), "Invalid negative node id -1 in dynamic voter string."),
            ("1@".into(), "No hostname found after node id."),
            ("1@[::1:1".into(), "Hostname began with left bracket, but no right bracket was found."),
            ("1@h".into(), "No colon following hostname could be found."),
            ("1@[::1]x".into(), "Port section must start with a colon."),
            ("1@h:1".into(), "No colon following port could be found."),
            (format!("1@h:p:{id}"), "Failed to parse port in dynamic voter string."),
            (format!("1@h:70000:{id}"), "Invalid port 70000 in dynamic voter string."),
            ("1@h:1:x".into(), "Failed to parse directory ID in dynamic voter string."),
            (format!("1@h:1:{id},1@i:2:{id}"), "Node id 1 was specified more than once."),
        ];
        for (text, want) in cases {
            assert_eq!(parse(&text), Err(StorageError::new(want)), "{text}");
        }
    }
}
