//! Parsed values of all broker options.

use std::collections::{BTreeMap, HashMap};

use crate::error::ConfigError;
use crate::properties::Properties;
use crate::table::{BROKER, OptionDef, find};
use crate::value::{Value, ensure_valid};

/// Options set somewhere: a properties file, or the dynamic configuration of a topic, a broker or a group.
pub trait ConfigMap {
    /// The text an option is set to, or `None` if it is not set here.
    fn get(&self, name: &str) -> Option<&str>;
    /// Calls `visit` with every option that is set here.
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a str));
}

impl ConfigMap for Properties {
    fn get(&self, name: &str) -> Option<&str> {
        Properties::get(self, name)
    }
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a str)) {
        self.iter().for_each(|(name, value)| visit(name, value));
    }
}

impl ConfigMap for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<&str> {
        BTreeMap::get(self, name).map(String::as_str)
    }
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a str)) {
        self.iter().for_each(|(name, value)| visit(name, value));
    }
}

impl ConfigMap for HashMap<String, String> {
    fn get(&self, name: &str) -> Option<&str> {
        HashMap::get(self, name).map(String::as_str)
    }
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a str)) {
        self.iter().for_each(|(name, value)| visit(name, value));
    }
}

/// The values of all broker options: set ones and defaults. Getters take the option's name and panic if there is no
/// such option or it has another type, which is a mistake in the calling code, never in a configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Values {
    originals: Properties,
    parsed: Vec<Option<Value>>,
}

impl Values {
    /// Parses and validates every known option in `originals`; options it does not know are kept as text. All errors
    /// are returned together.
    pub fn parse(originals: Properties) -> Result<Values, Vec<ConfigError>> {
        let mut originals = originals;
        // `broker.id` is the old name of `node.id`; either stands for both.
        for (set, unset) in [("node.id", "broker.id"), ("broker.id", "node.id")] {
            if let (Some(id), None) = (originals.get(set), originals.get(unset)) {
                let id = id.to_owned();
                originals.set(unset, id);
            }
        }
        let mut errors = Vec::new();
        let mut parsed = Vec::with_capacity(BROKER.len());
        for def in &BROKER {
            match parse_one(def, originals.get(def.name)) {
                Ok(value) => parsed.push(value),
                Err(error) => {
                    errors.push(error);
                    parsed.push(None);
                }
            }
        }
        if errors.is_empty() { Ok(Values { originals, parsed }) } else { Err(errors) }
    }

    /// What was set, as text.
    pub fn originals(&self) -> &Properties {
        &self.originals
    }

    /// Whether the option is set, not defaulted.
    pub fn is_set(&self, name: &str) -> bool {
        self.originals.get(name).is_some()
    }

    /// The value of a broker option; `None` if it is unset and has no default.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let index = BROKER.binary_search_by(|def| def.name.cmp(name));
        self.parsed[index.unwrap_or_else(|_| panic!("no option {name}"))].as_ref()
    }

    /// A boolean option.
    pub fn boolean(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Boolean(value)) => *value,
            other => panic!("option {name} is {other:?}, not a boolean"),
        }
    }

    /// An int or short option.
    pub fn int(&self, name: &str) -> i32 {
        match self.get(name) {
            Some(Value::Int(value)) => *value,
            Some(Value::Short(value)) => i32::from(*value),
            other => panic!("option {name} is {other:?}, not an int"),
        }
    }

    /// An int option that its bounds keep from being negative.
    pub fn count(&self, name: &str) -> u32 {
        self.int(name).max(0).unsigned_abs()
    }

    /// A long or int option.
    pub fn long(&self, name: &str) -> i64 {
        self.long_or_none(name).unwrap_or_else(|| panic!("option {name} is unset"))
    }

    /// A long or int option that may be unset.
    pub fn long_or_none(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            None => None,
            Some(Value::Long(value)) => Some(*value),
            Some(Value::Int(value)) => Some(i64::from(*value)),
            other => panic!("option {name} is {other:?}, not a long"),
        }
    }

    /// A long option of which negative values mean "no limit".
    pub fn limit(&self, name: &str) -> Option<u64> {
        u64::try_from(self.long(name)).ok()
    }

    /// A double option.
    pub fn double(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Value::Double(value)) => *value,
            other => panic!("option {name} is {other:?}, not a double"),
        }
    }

    /// A string or class option that may be unset.
    pub fn text_or_none(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            None => None,
            Some(Value::String(value) | Value::Password(value)) => Some(value),
            other => panic!("option {name} is {other:?}, not a string"),
        }
    }

    /// A string option with a default.
    pub fn text(&self, name: &str) -> &str {
        self.text_or_none(name).unwrap_or_else(|| panic!("option {name} is unset"))
    }

    /// A list option that may be unset.
    pub fn list_or_none(&self, name: &str) -> Option<&[String]> {
        match self.get(name) {
            None => None,
            Some(Value::List(value)) => Some(value),
            other => panic!("option {name} is {other:?}, not a list"),
        }
    }

    /// The value of a broker option that is set for one listener, `listener.name.<name>.<option>`.
    ///
    /// # Errors
    /// The text is not a value of the option.
    pub fn of_listener(&self, listener: &str, option: &str) -> Result<Option<Value>, ConfigError> {
        let name = format!("listener.name.{}.{option}", listener.to_lowercase());
        let def = find(&BROKER, option).unwrap_or_else(|| panic!("no option {option}"));
        self.originals.get(&name).map(|text| Value::parse(def, text)).transpose()
    }

    /// A list option; empty when unset.
    pub fn list(&self, name: &str) -> &[String] {
        self.list_or_none(name).unwrap_or_default()
    }

    /// These values with dynamic ones laid over them: first the default of all brokers, then this broker's own. Setting
    /// one unit of an option (`log.retention.ms`) hides its other units.
    pub fn overlaid(&self, layers: [&dyn ConfigMap; 2]) -> Result<Values, Vec<ConfigError>> {
        let mut originals = self.originals.clone();
        for layer in layers {
            layer.for_each(&mut |name, value| {
                for synonym in find(&BROKER, name).map_or(&[][..], |def| def.synonyms) {
                    originals.remove(synonym.name);
                }
                originals.set(name, value);
            });
        }
        Values::parse(originals)
    }
}

fn parse_one(def: &'static OptionDef, text: Option<&str>) -> Result<Option<Value>, ConfigError> {
    match text {
        Some(text) => Value::parse(def, text).map(Some),
        None => {
            let value = Value::default_of(def)?;
            if value.is_some() {
                ensure_valid(def, value.as_ref())?;
            }
            Ok(value)
        }
    }
}
