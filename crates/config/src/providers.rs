//! Values that stand elsewhere: `${provider:path:key}` in a properties file (KIP-297).
//!
//! This crate reads nothing itself; whoever reads the properties file gives a function that looks a value up.

use std::collections::BTreeMap;

use crate::error::ConfigError;
use crate::properties::Properties;

/// Prefix of the options that configure providers; references in them are not followed.
const PREFIX: &str = "config.providers";

/// Where a value is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// An environment variable named by the key; there is no path.
    Environment,
    /// An entry of the properties file at the path.
    File,
    /// The content of the file named by the key in the directory at the path.
    Directory,
}

impl Provider {
    fn from_class(class: &str) -> Option<Provider> {
        match class.strip_prefix("org.apache.kafka.common.config.provider.")? {
            "EnvVarConfigProvider" => Some(Provider::Environment),
            "FileConfigProvider" => Some(Provider::File),
            "DirectoryConfigProvider" => Some(Provider::Directory),
            _ => None,
        }
    }
}

/// Replaces the references to the providers that `config.providers` names. A reference whose value `look_up` does not
/// find stays as it is, as in Kafka.
pub fn resolve(
    properties: &Properties,
    mut look_up: impl FnMut(Provider, &str, &str) -> Result<Option<String>, String>,
) -> Result<Properties, ConfigError> {
    let providers = providers(properties)?;
    if providers.is_empty() {
        return Ok(properties.clone());
    }
    let mut resolved = Properties::new();
    for (name, value) in properties.iter() {
        if name.starts_with(PREFIX) {
            resolved.set(name, value);
            continue;
        }
        let value = replace(value, &providers, &mut look_up);
        resolved.set(name, value.map_err(|why| ConfigError::about(name, format!("Could not read {name}: {why}")))?);
    }
    Ok(resolved)
}

fn providers(properties: &Properties) -> Result<BTreeMap<String, Provider>, ConfigError> {
    let mut providers = BTreeMap::new();
    for name in crate::java::split_list(properties.get(PREFIX).unwrap_or_default()) {
        let option = format!("{PREFIX}.{name}.class");
        let class = properties.get(&option).unwrap_or_default().trim();
        let provider = Provider::from_class(class).ok_or_else(|| {
            let why = "this broker has EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider of \
                       org.apache.kafka.common.config.provider";
            ConfigError::invalid(&option, class, why)
        })?;
        providers.insert(name, provider);
    }
    Ok(providers)
}

/// Replaces every `${name:path:key}` or `${name:key}` whose name is a provider's.
fn replace(
    text: &str,
    providers: &BTreeMap<String, Provider>,
    look_up: &mut impl FnMut(Provider, &str, &str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let reference = &rest[start..=start + length];
        let inner = &reference[2..reference.len() - 1];
        result.push_str(&rest[..start]);
        rest = &rest[start + length + 1..];
        let found = match inner.split_once(':').map(|(name, place)| (providers.get(name), place)) {
            Some((Some(provider), place)) => {
                let (path, key) = place.split_once(':').unwrap_or(("", place));
                look_up(*provider, path, key)?
            }
            _ => None,
        };
        result.push_str(found.as_deref().unwrap_or(reference));
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDERS: &str = "config.providers=env, f\n\
                             config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n\
                             config.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n";

    fn resolved(more: &str) -> Result<Properties, ConfigError> {
        let properties = Properties::parse(format!("{PROVIDERS}{more}").as_bytes()).unwrap();
        resolve(&properties, |provider, path, key| match (provider, path, key) {
            (Provider::Environment, "", "RACK") => Ok(Some("r1".to_owned())),
            (Provider::File, "/etc/secrets", "pw") => Ok(Some("s3cret".to_owned())),
            (Provider::File, "/nowhere", _) => Err("no such file".to_owned()),
            _ => Ok(None),
        })
    }

    #[test]
    fn references_are_replaced() {
        let cases = [
            ("${env:RACK}", "r1"),
            ("a-${env:RACK}-${f:/etc/secrets:pw}-b", "a-r1-s3cret-b"),
            ("${env:OTHER}", "${env:OTHER}"),
            ("${other:RACK}", "${other:RACK}"),
            ("${env:RACK", "${env:RACK"),
            ("$env", "$env"),
        ];
        for (value, want) in cases {
            assert_eq!(resolved(&format!("x={value}")).unwrap().get("x"), Some(want), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let error = resolved("x=${f:/nowhere:k}").unwrap_err();
        assert_eq!(error.to_string(), "Could not read x: no such file");
    }

    #[test]
    fn other_providers_are_refused() {
        let properties = Properties::parse(b"config.providers=vault\nconfig.providers.vault.class=x.Vault").unwrap();
        let error = resolve(&properties, |_, _, _| Ok(None)).unwrap_err();
        assert!(error.to_string().starts_with("Invalid value x.Vault for configuration config.providers.vault.class"));
    }

    #[test]
    fn without_providers_nothing_is_replaced() {
        let properties = Properties::parse(b"x=${env:RACK}").unwrap();
        assert_eq!(resolve(&properties, |_, _, _| panic!("nothing to look up")).unwrap(), properties);
    }
}
