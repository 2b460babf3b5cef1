//! From a properties file and the command line to a configuration.

use std::path::Path;

use config::{BROKER, BrokerConfig, ConfigError, Properties, Provider, find};

use crate::commands::Exit;

/// Reads a properties file and lays overrides over it.
pub(crate) fn read(path: &Path, overrides: &[String]) -> Result<Properties, Exit> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let properties = Properties::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let properties = with_overrides(properties, overrides)?;
    Ok(config::resolve(&properties, look_up)?)
}

/// Looks up a value that the properties file refers to.
fn look_up(provider: Provider, path: &str, key: &str) -> Result<Option<String>, String> {
    let cannot = |error: std::io::Error| format!("{path}: {error}");
    match provider {
        Provider::Environment => Ok(std::env::var(key).ok()),
        Provider::File => {
            let bytes = std::fs::read(path).map_err(cannot)?;
            let properties = Properties::parse(&bytes).map_err(|error| format!("{path}: {error}"))?;
            Ok(properties.get(key).map(str::to_owned))
        }
        Provider::Directory => {
            if key.contains('/') || key == ".." {
                return Err(format!("{key:?} is not the name of a file in {path}"));
            }
            match std::fs::read_to_string(Path::new(path).join(key)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                other => other.map(Some).map_err(cannot),
            }
        }
    }
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
    fn values_are_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("secret"), "from a file").unwrap();
        std::fs::write(dir.path().join("p.properties"), "k=from an entry\n").unwrap();
        let file = format!("{path}/p.properties");
        assert_eq!(look_up(Provider::Directory, path, "secret"), Ok(Some("from a file".to_owned())));
        assert_eq!(look_up(Provider::Directory, path, "other"), Ok(None));
        assert!(look_up(Provider::Directory, path, "../x").is_err());
        assert_eq!(look_up(Provider::File, &file, "k"), Ok(Some("from an entry".to_owned())));
        assert_eq!(look_up(Provider::File, &file, "l"), Ok(None));
        assert!(look_up(Provider::File, "/nowhere", "k").is_err());
        assert_eq!(look_up(Provider::Environment, "", "ODRADEK_NO_SUCH_VARIABLE"), Ok(None));
    }

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
