//! Options of client metrics subscriptions (KIP-714).

use crate::error::ConfigError;
use crate::table::{CLIENT_METRICS, find};
use crate::value::Value;
use crate::values::ConfigMap;

/// Bounds of `interval.ms`.
const INTERVAL_MS: std::ops::RangeInclusive<i32> = 100..=3_600_000;

/// What `match` can ask a client for.
const SELECTORS: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// Judges the options of a subscription as a whole.
pub(crate) fn validate(name: &str, subscription: &dyn ConfigMap) -> Result<(), ConfigError> {
    if name.is_empty() {
        return Err(ConfigError::request("Subscription name can't be empty"));
    }
    let mut unknown = None;
    subscription.for_each(&mut |option, _| {
        if unknown.is_none() && find(&CLIENT_METRICS, option).is_none() {
            unknown = Some(ConfigError::request(format!("Unknown client metrics configuration: {option}")));
        }
    });
    if let Some(error) = unknown {
        return Err(error);
    }
    for def in &CLIENT_METRICS {
        let Some(text) = subscription.get(def.name) else { continue };
        match Value::parse(def, text)? {
            Value::Int(interval) if !INTERVAL_MS.contains(&interval) => {
                return Err(ConfigError::request(format!(
                    "Invalid value {interval} for interval.ms, interval must be between {} and {} (1 hour)",
                    INTERVAL_MS.start(),
                    INTERVAL_MS.end()
                )));
            }
            Value::List(patterns) if def.name == "match" => patterns.iter().try_for_each(|pattern| check(pattern))?,
            _ => {}
        }
    }
    Ok(())
}

/// A pattern is `selector=regular expression`.
fn check(pattern: &str) -> Result<(), ConfigError> {
    let acceptable = pattern.split_once('=').is_some_and(|(selector, regex)| {
        let regex = regex.trim();
        SELECTORS.contains(&selector.trim()) && !regex.is_empty() && !regex.contains('=') && looks_like_regex(regex)
    });
    if acceptable {
        return Ok(());
    }
    Err(ConfigError::about("match", format!("Illegal client matching pattern: {pattern}")))
}

/// Whether brackets are balanced and nothing is repeated that is not there: catches what people get wrong without a
/// regular expression engine, which whoever matches with the pattern has.
fn looks_like_regex(text: &str) -> bool {
    let (mut groups, mut in_class, mut repeatable) = (0usize, false, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if chars.next().is_none() {
                    return false;
                }
                repeatable = true;
            }
            ']' if in_class => (in_class, repeatable) = (false, true),
            _ if in_class => {}
            '[' => in_class = true,
            '(' => (groups, repeatable) = (groups + 1, false),
            ')' if groups == 0 => return false,
            ')' => (groups, repeatable) = (groups - 1, true),
            '*' | '+' if !repeatable => return false,
            '|' => repeatable = false,
            _ => repeatable = true,
        }
    }
    groups == 0 && !in_class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Properties;

    fn judge(option: &str, value: &str) -> Result<(), String> {
        let properties: Properties = [(option, value)].into_iter().collect();
        validate("sub", &properties).map_err(|error| error.to_string())
    }

    #[test]
    fn subscriptions() {
        for (option, value) in [
            ("metrics", ""),
            ("metrics", "*"),
            ("metrics", "org.apache.kafka.producer,org.apache.kafka.consumer"),
            ("interval.ms", "100"),
            ("match", "client_id=a.*[0-9]+(x|y)?"),
            ("match", "client_id=a,client_source_port=90.."),
        ] {
            assert_eq!(judge(option, value), Ok(()), "{option}={value}");
        }
        let cases = [
            (
                "interval.ms",
                "99",
                "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ),
            ("interval.ms", "x", "Invalid value x for configuration interval.ms: Not a number of type INT"),
            ("push", "1", "Unknown client metrics configuration: push"),
            ("match", "client=a", "Illegal client matching pattern: client=a"),
            ("match", "client_id", "Illegal client matching pattern: client_id"),
            ("match", "client_id=[a", "Illegal client matching pattern: client_id=[a"),
            ("match", "client_id=(a", "Illegal client matching pattern: client_id=(a"),
            ("match", "client_id=*a", "Illegal client matching pattern: client_id=*a"),
        ];
        for (option, value, want) in cases {
            assert_eq!(judge(option, value), Err(want.to_owned()));
        }
    }
}
