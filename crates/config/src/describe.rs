//! DescribeConfigs: what every option is, and where from.

use crate::error::ConfigError;
use crate::group::GroupValues;
use crate::layered::LayeredConfig;
use crate::table::{BROKER, CLIENT_METRICS, GROUP, Kind, OptionDef, Synonym, TOPIC, Unit, Update, find};
use crate::topic::TopicValues;
use crate::value::Value;
use crate::values::ConfigMap;

/// Where a value comes from, with Kafka's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigSource {
    /// Set on the topic.
    DynamicTopic = 1,
    /// Set for this broker while running.
    DynamicBroker = 2,
    /// Set for all brokers while running.
    DynamicDefaultBroker = 3,
    /// Set in the properties file.
    StaticBroker = 4,
    /// Set nowhere.
    Default = 5,
    /// Level of a logger.
    DynamicBrokerLogger = 6,
    /// Set on the client metrics subscription.
    ClientMetrics = 7,
    /// Set on the group.
    Group = 8,
}

/// One place an option could get its value from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigSynonym {
    /// The option, or the broker option that stands in for it.
    pub name: String,
    /// Its value there; `None` if it is a secret.
    pub value: Option<String>,
    /// The place.
    pub source: ConfigSource,
}

/// One option as DescribeConfigs answers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if unset or a secret.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it is a secret. Options nobody knows are taken for secrets.
    pub sensitive: bool,
    /// Whether it can be changed only by a restart.
    pub read_only: bool,
    /// Type; `None` for options nobody knows.
    pub kind: Option<Kind>,
    /// Every place the value could come from, the one in force first. Empty if not asked for.
    pub synonyms: Vec<ConfigSynonym>,
    /// Own documentation, if asked for.
    pub documentation: Option<String>,
}

impl ConfigEntry {
    /// Whether the value is the default (`isDefault` of version 0).
    pub fn is_default(&self) -> bool {
        self.source == ConfigSource::Default
    }

    /// The type's number on the wire, 0 if unknown.
    pub fn kind_wire_id(&self) -> i8 {
        self.kind.map_or(0, Kind::wire_id)
    }
}

/// What of an answer is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Only these options; `None` or empty means all.
    pub names: Option<&'a [&'a str]>,
    /// With synonyms.
    pub synonyms: bool,
    /// With documentation.
    pub documentation: bool,
}

impl Wanted<'_> {
    fn includes(&self, name: &str) -> bool {
        self.names.is_none_or(|names| names.is_empty() || names.contains(&name))
    }
}

/// An option about to be described.
struct Found<'a> {
    name: &'a str,
    def: Option<&'static OptionDef>,
    value: Option<String>,
    read_only: bool,
    places: Vec<ConfigSynonym>,
}

impl LayeredConfig {
    /// Entries of a topic with these overrides.
    pub fn describe_topic(&self, topic: &dyn ConfigMap, wanted: Wanted<'_>) -> Result<Vec<ConfigEntry>, ConfigError> {
        let values = TopicValues::resolve(topic, self.values())?;
        let mut entries = Vec::with_capacity(TOPIC.len());
        for def in TOPIC.iter().filter(|def| wanted.includes(def.name)) {
            if def.internal && topic.get(def.name).is_none() {
                continue;
            }
            let value = values.get(def.name).map(Value::to_string);
            let mut places = Vec::new();
            if topic.get(def.name).is_some() {
                places.push(place(def.name, value.clone(), ConfigSource::DynamicTopic));
            }
            if let Some(first) = def.synonyms.first() {
                places.extend(self.broker_places(first.name));
            }
            entries.push(entry(Found { name: def.name, def: Some(def), value, read_only: false, places }, wanted));
        }
        unknown_overrides(topic, &TOPIC, ConfigSource::DynamicTopic, wanted, &mut entries);
        Ok(entries)
    }

    /// Entries of this broker.
    pub fn describe_broker(&self, wanted: Wanted<'_>) -> Vec<ConfigEntry> {
        let mut entries = Vec::with_capacity(BROKER.len());
        let originals = self.values().originals();
        for def in BROKER.iter().filter(|def| wanted.includes(def.name)) {
            let hidden = def.internal || def.dynamic_only;
            if hidden && originals.get(def.name).is_none() {
                continue;
            }
            let value = match originals.get(def.name).filter(|_| hidden) {
                Some(text) => Some(text.to_owned()),
                None => self.values().get(def.name).map(Value::to_string),
            };
            entries.push(entry(self.broker_option(def.name, Some(def), value), wanted));
        }
        for (name, value) in originals.iter().filter(|(name, _)| find(&BROKER, name).is_none() && wanted.includes(name))
        {
            entries.push(entry(self.broker_option(name, base_of(name), Some(value.to_owned())), wanted));
        }
        entries
    }

    /// Entries of the default of all brokers: only what is set there.
    pub fn describe_broker_default(&self, wanted: Wanted<'_>) -> Vec<ConfigEntry> {
        let mut entries = Vec::new();
        for (name, value) in self.cluster.iter().filter(|(name, _)| wanted.includes(name)) {
            let def = find(&BROKER, name).or_else(|| base_of(name));
            let mut found = self.broker_option(name, def, Some(value.to_owned()));
            found.places.retain(|place| place.source == ConfigSource::DynamicDefaultBroker);
            entries.push(entry(found, wanted));
        }
        entries
    }

    /// Entries of a group with these overrides.
    pub fn describe_group(&self, group: &dyn ConfigMap, wanted: Wanted<'_>) -> Result<Vec<ConfigEntry>, ConfigError> {
        let values = GroupValues::resolve(group, self.values())?;
        let mut entries = Vec::with_capacity(GROUP.len());
        for def in GROUP.iter().filter(|def| wanted.includes(def.name)) {
            let synonym = def.synonyms.first();
            let set_on_broker = synonym.is_some_and(|synonym| self.values().is_set(synonym.name));
            if def.internal && group.get(def.name).is_none() && !set_on_broker {
                continue;
            }
            let value = values.get(def.name).map(Value::to_string);
            let mut places = Vec::new();
            if group.get(def.name).is_some() {
                places.push(place(def.name, value.clone(), ConfigSource::Group));
            }
            match synonym {
                Some(synonym) => places.extend(self.broker_places(synonym.name)),
                None => places.extend(
                    def.default_text().map(|text| place(def.name, Some(text.to_owned()), ConfigSource::Default)),
                ),
            }
            entries.push(entry(Found { name: def.name, def: Some(def), value, read_only: false, places }, wanted));
        }
        unknown_overrides(group, &GROUP, ConfigSource::Group, wanted, &mut entries);
        Ok(entries)
    }

    fn broker_option<'a>(&self, name: &'a str, def: Option<&'static OptionDef>, value: Option<String>) -> Found<'a> {
        let read_only = find(&BROKER, name).is_none_or(|def| def.update == Update::ReadOnly);
        let sensitive = def.is_none_or(OptionDef::sensitive);
        let mut places = self.broker_places(name);
        if sensitive {
            places.iter_mut().for_each(|place| place.value = None);
        }
        Found { name, def, value: value.filter(|_| !sensitive), read_only, places }
    }

    /// Every place a broker option could get its value from: its units and base option, layer by layer. Places before
    /// the first one of the option itself are left out, as Kafka does, even where one of them is in force.
    fn broker_places(&self, name: &str) -> Vec<ConfigSynonym> {
        let base = base_of(name);
        let own = [Synonym { name: "", unit: Unit::Same }];
        let units = find(&BROKER, name).map_or(&[][..], |def| def.synonyms);
        let units = if units.is_empty() { &own[..] } else { units };
        let names = units.iter().map(|unit| if unit.name.is_empty() { name } else { unit.name });
        let names: Vec<&str> = names.chain(base.map(|def| def.name)).collect();
        let mut places = Vec::new();
        let layers: [(&dyn ConfigMap, ConfigSource); 3] = [
            (&self.broker, ConfigSource::DynamicBroker),
            (&self.cluster, ConfigSource::DynamicDefaultBroker),
            (self.fixed.values.originals(), ConfigSource::StaticBroker),
        ];
        for (layer, source) in layers {
            let set = names.iter().filter_map(|name| layer.get(name).map(|value| (name, value)));
            places.extend(set.map(|(name, value)| place(name, Some(value.to_owned()), source)));
        }
        for name in &names {
            let def = find(&BROKER, name).filter(|def| !def.dynamic_only);
            let text = def.and_then(|def| Value::default_of(def).ok().flatten()).map(|value| value.reveal());
            places.extend(text.map(|text| place(name, Some(text), ConfigSource::Default)));
        }
        let first = places.iter().position(|place| place.name == name).unwrap_or(places.len());
        places.split_off(first)
    }
}

/// Entries of a client metrics subscription with these options.
pub fn describe_client_metrics(
    subscription: &dyn ConfigMap,
    wanted: Wanted<'_>,
) -> Result<Vec<ConfigEntry>, ConfigError> {
    let mut entries = Vec::with_capacity(CLIENT_METRICS.len());
    for def in CLIENT_METRICS.iter().filter(|def| wanted.includes(def.name)) {
        let value = match subscription.get(def.name) {
            Some(text) => Some(Value::parse(def, text)?),
            None => Value::default_of(def)?,
        };
        let value = value.map(|value| value.to_string());
        let places = match subscription.get(def.name) {
            Some(_) => vec![place(def.name, value.clone(), ConfigSource::ClientMetrics)],
            None => Vec::new(),
        };
        entries.push(entry(Found { name: def.name, def: Some(def), value, read_only: false, places }, wanted));
    }
    Ok(entries)
}

/// Entries of a broker's loggers: name and level.
pub fn describe_loggers(loggers: &[(&str, &str)], wanted: Wanted<'_>) -> Vec<ConfigEntry> {
    let entry = |(name, level): &(&str, &str)| ConfigEntry {
        name: (*name).to_owned(),
        value: Some((*level).to_owned()),
        source: ConfigSource::DynamicBrokerLogger,
        sensitive: false,
        read_only: false,
        kind: None,
        synonyms: Vec::new(),
        documentation: None,
    };
    loggers.iter().filter(|(name, _)| wanted.includes(name)).map(entry).collect()
}

fn place(name: &str, value: Option<String>, source: ConfigSource) -> ConfigSynonym {
    ConfigSynonym { name: name.to_owned(), value, source }
}

fn entry(found: Found<'_>, wanted: Wanted<'_>) -> ConfigEntry {
    // Options set for one listener and those that are only dynamic come without documentation, as in Kafka.
    let documented = found.def.filter(|def| wanted.documentation && def.name == found.name && !def.dynamic_only);
    ConfigEntry {
        name: found.name.to_owned(),
        value: found.value,
        source: found.places.first().map_or(ConfigSource::Default, |place| place.source),
        sensitive: found.def.is_none_or(OptionDef::sensitive),
        read_only: found.read_only,
        kind: found.def.map(|def| def.kind),
        synonyms: if wanted.synonyms { found.places } else { Vec::new() },
        documentation: documented.map(OptionDef::documentation),
    }
}

/// Overrides that no table knows, for instance of a later release; they are shown without their values.
fn unknown_overrides(
    overrides: &dyn ConfigMap,
    table: &'static [OptionDef],
    source: ConfigSource,
    wanted: Wanted<'_>,
    entries: &mut Vec<ConfigEntry>,
) {
    overrides.for_each(&mut |name, _| {
        if find(table, name).is_none() && wanted.includes(name) {
            let places = vec![place(name, None, source)];
            entries.push(entry(Found { name, def: None, value: None, read_only: false, places }, wanted));
        }
    });
}

/// The option that `listener.name.<listener>.[<mechanism>.]<option>` sets for one listener.
pub(crate) fn base_of(name: &str) -> Option<&'static OptionDef> {
    const OF_MECHANISMS: [&str; 5] = [
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.server.callback.handler.class",
        "connections.max.reauth.ms",
    ];
    let (_, option) = name.strip_prefix("listener.name.")?.split_once('.')?;
    let base = OF_MECHANISMS.into_iter().find(|base| option.ends_with(base)).unwrap_or(option);
    find(&BROKER, base)
}
