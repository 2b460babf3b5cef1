//! From a properties file and the command line to a configuration.

use std::path::Path;

use config::{BROKER, BrokerConfig, ConfigError, Properties, find};

use crate::commands::Exit;

/// Reads a properties file and lays overrides over it.
pub(crate) fn read(path: &Path, overrides: &[String]) -> Result<Properties, Exit> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let properties = Properties::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    with_overrides(properties, overrides)
}

/// Lays overrides `key=value` over a configuration.
pub(crate) fn with_overrides(mut properties: Properties, overrides: &[String]) -> Result<Properties, Exit> {
    for text in overrides {
        properties.set_override(text).map_err(|error| format!("--override: {error}"))?;
    }
    Ok(properties)
}

/// Parses and validates; a refusal names every option that is wrong, its value and what it accepts.
pub(crate) fn parse(properties: Properties) -> Result<BrokerConfig, Exit> {
    BrokerConfig::from_properties(properties).map_err(|errors| {
        let mut message = String::from("the configuration is not acceptable");
        for error in &errors {
            message.push_str(&format!("\n  {}", describe(error)));
        }
        Exit { message, status: 1 }
    })
}

fn describe(error: &ConfigError) -> String {
    let accepted = error.option.as_deref().and_then(|name| find(&BROKER, name)).map(|def| def.accepted());
    match accepted {
        Some(accepted) => format!("{error}\n    accepted: {accepted}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_accepted() {
        let properties: Properties = [
            ("process.roles", "broker,controller"),
            ("node.id", "1"),
            ("controller.listener.names", "C"),
            ("num.partitions", "0"),
            ("compression.type", "brotli"),
        ]
        .into_iter()
        .collect();
        let message = parse(properties).map(|_| ()).unwrap_err().message;
        let want = "the configuration is not acceptable\n  \
            Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, \
            snappy, gzip, producer\n    \
            accepted: string: one of uncompressed, zstd, lz4, snappy, gzip, producer; default producer\n  \
            Invalid value 0 for configuration num.partitions: Value must be at least 1\n    \
            accepted: int: 1 or more; default 1";
        assert_eq!(message, want);
    }
}
