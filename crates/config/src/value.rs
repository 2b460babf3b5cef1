//! Values of options: parsing by type, validation, printing. Error texts are Kafka's.

use std::fmt;

use crate::error::ConfigError;
use crate::java;
use crate::table::{Default, Kind, OptionDef, Valid};

/// A parsed value. An unset option is `None` of `Option<Value>`.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A boolean.
    Boolean(bool),
    /// A text or the name of a class.
    String(String),
    /// A 32-bit number.
    Int(i32),
    /// A 16-bit number.
    Short(i16),
    /// A 64-bit number.
    Long(i64),
    /// A floating-point number.
    Double(f64),
    /// A list.
    List(Vec<String>),
    /// A secret.
    Password(String),
}

impl fmt::Display for Value {
    /// As DescribeConfigs prints it; lists are joined by commas. Secrets are hidden.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => write!(f, "{value}"),
            Value::String(value) => f.write_str(value),
            Value::Int(value) => write!(f, "{value}"),
            Value::Short(value) => write!(f, "{value}"),
            Value::Long(value) => write!(f, "{value}"),
            Value::Double(value) => f.write_str(&java::double_to_string(*value)),
            Value::List(values) => f.write_str(&values.join(",")),
            Value::Password(_) => f.write_str("[hidden]"),
        }
    }
}

impl Value {
    /// Parses `text` as the option's type, without judging the value.
    pub fn parse_type(def: &OptionDef, text: &str) -> Result<Value, ConfigError> {
        let trimmed = java::trim(text);
        let number = || ConfigError::invalid(def.name, text, format_args!("Not a number of type {}", def.kind.name()));
        Ok(match def.kind {
            Kind::Boolean => match trimmed {
                t if t.eq_ignore_ascii_case("true") => Value::Boolean(true),
                t if t.eq_ignore_ascii_case("false") => Value::Boolean(false),
                _ => return Err(ConfigError::invalid(def.name, text, "Expected value to be either true or false")),
            },
            Kind::String | Kind::Class => Value::String(trimmed.to_owned()),
            Kind::Password => Value::Password(trimmed.to_owned()),
            Kind::Int => Value::Int(trimmed.parse().map_err(|_| number())?),
            Kind::Short => Value::Short(trimmed.parse().map_err(|_| number())?),
            Kind::Long => Value::Long(trimmed.parse().map_err(|_| number())?),
            Kind::Double => Value::Double(java::parse_double(trimmed).ok_or_else(number)?),
            Kind::List => Value::List(java::split_list(trimmed)),
        })
    }

    /// Parses and validates a configured text.
    pub fn parse(def: &OptionDef, text: &str) -> Result<Value, ConfigError> {
        let mut value = Value::parse_type(def, text)?;
        if let (Value::List(elements), Valid::List { .. }) = (&mut value, def.valid) {
            remove_repeated(elements);
        }
        ensure_valid(def, Some(&value))?;
        Ok(value)
    }

    /// The value of an option nobody sets.
    pub fn default_of(def: &OptionDef) -> Result<Option<Value>, ConfigError> {
        match def.default {
            Default::Null => Ok(None),
            Default::Text(text) => Value::parse_type(def, text).map(Some),
            Default::Required => Err(ConfigError::about(
                def.name,
                format!("Missing required configuration \"{}\" which has no default value.", def.name),
            )),
        }
    }

    /// The text a secret hides, else what `Display` prints.
    pub fn reveal(&self) -> String {
        match self {
            Value::Password(secret) => secret.clone(),
            other => other.to_string(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(f64::from(*value)),
            Value::Short(value) => Some(f64::from(*value)),
            Value::Long(value) => Some(*value as f64),
            Value::Double(value) => Some(*value),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Value::String(text) | Value::Password(text) => Some(text),
            _ => None,
        }
    }
}

/// Kafka drops repeated elements of such lists rather than refusing them; the first of each stays in place.
fn remove_repeated(elements: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    elements.retain(|element| seen.insert(element.clone()));
}

/// Judges a parsed value by the option's rule.
pub(crate) fn ensure_valid(def: &OptionDef, value: Option<&Value>) -> Result<(), ConfigError> {
    let name = def.name;
    match (def.valid, value) {
        (Valid::Any, _) => Ok(()),
        (Valid::Range { .. }, None) => Err(ConfigError::invalid(name, "null", "Value must be non-null")),
        (Valid::Range { min, max }, Some(value)) => {
            let number = value.number().expect("ranges are of number options");
            match (min, max) {
                (Some(min), _) if number < min.value => {
                    Err(ConfigError::invalid(name, value, format_args!("Value must be at least {}", min.text)))
                }
                (_, Some(max)) if number > max.value => {
                    Err(ConfigError::invalid(name, value, format_args!("Value must be no more than {}", max.text)))
                }
                _ => Ok(()),
            }
        }
        (Valid::OneOf(accepted), value) => one_of(name, accepted, value.and_then(Value::text)),
        (Valid::OneOfAnyCase(accepted), value) => {
            let text = value.and_then(Value::text);
            if text.is_some_and(|text| accepted.iter().any(|option| option.eq_ignore_ascii_case(text))) {
                return Ok(());
            }
            let why = format!("String must be one of (case insensitive): {}", accepted.join(", "));
            Err(ConfigError::invalid(name, text.unwrap_or("null"), why))
        }
        (Valid::List { empty, null, of }, value) => valid_list(name, empty, null, of, value),
        (Valid::NonEmpty, Some(value)) if value.text() == Some("") => {
            Err(ConfigError::invalid(name, "", "String must be non-empty"))
        }
        (Valid::NonNull, None) => Err(ConfigError::invalid(name, "null", "entry must be non null")),
        (Valid::NonEmpty | Valid::NonNull, _) => Ok(()),
        (Valid::GzipLevel, value) => gzip_level(name, value),
        (Valid::ThrottledReplicas, Some(Value::List(elements))) => throttled_replicas(name, elements),
        (Valid::QuorumVoters, Some(Value::List(entries))) => crate::quorum::parse_voters(entries).map(drop),
        (Valid::QuorumBootstrapServers, Some(Value::List(entries))) => {
            crate::quorum::parse_bootstrap_servers(entries).map(drop)
        }
        (Valid::ShareOffsetReset, Some(value)) => share_offset_reset(name, value),
        (
            Valid::ThrottledReplicas | Valid::QuorumVoters | Valid::QuorumBootstrapServers | Valid::ShareOffsetReset,
            other,
        ) => {
            let shown = other.map_or_else(|| "null".to_owned(), Value::to_string);
            Err(ConfigError::about(name, format!("Invalid value {shown} for configuration {name}")))
        }
    }
}

fn one_of(name: &str, accepted: &[&str], text: Option<&str>) -> Result<(), ConfigError> {
    if text.is_some_and(|text| accepted.contains(&text)) {
        return Ok(());
    }
    let why = format!("String must be one of: {}", accepted.join(", "));
    Err(ConfigError::invalid(name, text.unwrap_or("null"), why))
}

fn valid_list(name: &str, empty: bool, null: bool, of: &[&str], value: Option<&Value>) -> Result<(), ConfigError> {
    let Some(Value::List(elements)) = value else {
        if null {
            return Ok(());
        }
        return Err(ConfigError::about(name, format!("Configuration '{name}' values must not be null.")));
    };
    if elements.is_empty() && !empty {
        let accepted = if of.is_empty() { "any non-empty value".to_owned() } else { format!("[{}]", of.join(", ")) };
        let message = format!("Configuration '{name}' must not be empty. Valid values include: {accepted}");
        return Err(ConfigError::about(name, message));
    }
    for element in elements {
        if element.is_empty() {
            return Err(ConfigError::about(name, format!("Configuration '{name}' values must not be empty.")));
        }
        if !of.is_empty() {
            one_of(name, of, Some(element))?;
        }
    }
    Ok(())
}

fn gzip_level(name: &str, value: Option<&Value>) -> Result<(), ConfigError> {
    match value {
        Some(Value::Int(-1 | 1..=9)) => Ok(()),
        other => {
            let shown = other.map_or_else(|| "null".to_owned(), Value::to_string);
            Err(ConfigError::invalid(name, shown, "Value must be between 1 and 9 or equal to -1"))
        }
    }
}

/// `*` alone, or `partition:broker` elements; empty elements are overlooked.
fn throttled_replicas(name: &str, elements: &[String]) -> Result<(), ConfigError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_pair = |element: &str| element.split_once(':').is_some_and(|(left, right)| digits(left) && digits(right));
    let trimmed: Vec<&str> = elements.iter().map(|element| crate::java::trim(element)).collect();
    if trimmed.concat() == "*" || trimmed.iter().all(|element| element.is_empty() || is_pair(element)) {
        return Ok(());
    }
    let shown = format!("[{}]", elements.join(", "));
    let why = format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    );
    Err(ConfigError::invalid(name, shown, why))
}

fn share_offset_reset(name: &str, value: &Value) -> Result<(), ConfigError> {
    let text = value.text().unwrap_or_default();
    let accepted = match text.strip_prefix("by_duration:") {
        Some(duration) => iso_duration_is_valid(duration),
        None => text == "latest" || text == "earliest",
    };
    if accepted {
        return Ok(());
    }
    let why = format!(
        "Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the format \
         'by_duration:<PnDTnHnMn.nS>'."
    );
    Err(ConfigError::invalid(name, text, why))
}

/// An ISO 8601 duration of days, hours, minutes and seconds, not negative: `P1DT2H3M4.5S`.
fn iso_duration_is_valid(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['p', 'P']) else { return false };
    let (days, time) = match rest.split_once(['t', 'T']) {
        Some((days, time)) => (days, Some(time)),
        None => (rest, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !days.is_empty() && !days.strip_suffix(['d', 'D']).is_some_and(digits) {
        return false;
    }
    let Some(mut time) = time else { return !days.is_empty() };
    if time.is_empty() {
        return false;
    }
    for unit in ['h', 'm', 's'] {
        let Some(end) = time.find([unit, unit.to_ascii_uppercase()]) else { continue };
        let number = &time[..end];
        let number = if unit == 's' { number.split_once('.').map_or(number, |(whole, _)| whole) } else { number };
        if !digits(number) {
            return false;
        }
        time = &time[end + 1..];
    }
    time.is_empty()
}
