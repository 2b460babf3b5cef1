use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;

/// Kinds of things that have dynamic configuration, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConfigResourceType {
    /// A topic.
    Topic,
    /// A broker by id, or all brokers when the name is empty.
    Broker,
    /// Loggers of a broker; never stored.
    BrokerLogger,
    /// A client metrics subscription (KIP-714).
    ClientMetrics,
    /// A group.
    Group,
}

impl ConfigResourceType {
    /// The number on the wire and in records.
    pub fn code(self) -> i8 {
        match self {
            ConfigResourceType::Topic => 2,
            ConfigResourceType::Broker => 4,
            ConfigResourceType::BrokerLogger => 8,
            ConfigResourceType::ClientMetrics => 16,
            ConfigResourceType::Group => 32,
        }
    }

    /// From the number; `None` for numbers without a meaning.
    pub fn from_code(code: i8) -> Option<ConfigResourceType> {
        match code {
            2 => Some(ConfigResourceType::Topic),
            4 => Some(ConfigResourceType::Broker),
            8 => Some(ConfigResourceType::BrokerLogger),
            16 => Some(ConfigResourceType::ClientMetrics),
            32 => Some(ConfigResourceType::Group),
            _ => None,
        }
    }

    /// The name that Kafka's messages use.
    pub fn name(self) -> &'static str {
        match self {
            ConfigResourceType::Topic => "TOPIC",
            ConfigResourceType::Broker => "BROKER",
            ConfigResourceType::BrokerLogger => "BROKER_LOGGER",
            ConfigResourceType::ClientMetrics => "CLIENT_METRICS",
            ConfigResourceType::Group => "GROUP",
        }
    }
}

/// What a set of dynamic configuration belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConfigResource {
    /// The kind.
    pub kind: ConfigResourceType,
    /// The name; empty for the default of all brokers.
    pub name: Arc<str>,
}

impl ConfigResource {
    /// A topic's configuration.
    pub fn topic(name: &str) -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::Topic, name: Arc::from(name) }
    }

    /// One broker's configuration.
    pub fn broker(id: base::BrokerId) -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::Broker, name: Arc::from(id.to_string()) }
    }

    /// The default for all brokers.
    pub fn default_broker() -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::Broker, name: Arc::from("") }
    }
}

impl fmt::Display for ConfigResource {
    /// The form that Kafka's messages use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigResource(type={}, name='{}')", self.kind.name(), self.name)
    }
}

/// Dynamic configuration of one resource: name to value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides(OrdMap<Arc<str>, Arc<str>>);

impl Overrides {
    /// One value.
    pub fn get(&self, name: &str) -> Option<&Arc<str>> {
        self.0.get(name)
    }

    /// All values in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a value, or removes it when `value` is `None`.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => {
                self.0.insert(Arc::from(name), Arc::from(value));
            }
            None => {
                self.0.remove(name);
            }
        }
    }
}

impl config::ConfigMap for Overrides {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a str)) {
        self.0.iter().for_each(|(name, value)| visit(name, value));
    }
}

/// Dynamic configuration of everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigsImage {
    by_resource: OrdMap<ConfigResource, Overrides>,
    /// What a resource without overrides has.
    none: Overrides,
}

impl ConfigsImage {
    /// The overrides of one resource; none set when it has none.
    pub fn overrides(&self, resource: &ConfigResource) -> &Overrides {
        self.by_resource.get(resource).unwrap_or(&self.none)
    }

    /// One value of one resource.
    pub fn value(&self, resource: &ConfigResource, name: &str) -> Option<&Arc<str>> {
        self.by_resource.get(resource)?.get(name)
    }

    /// True when the resource has overrides.
    pub fn contains(&self, resource: &ConfigResource) -> bool {
        self.by_resource.contains_key(resource)
    }

    /// All resources that have overrides, ordered by kind and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &Overrides)> {
        self.by_resource.iter()
    }

    /// Names of the resources of one kind that have overrides.
    pub fn names(&self, kind: ConfigResourceType) -> impl Iterator<Item = &Arc<str>> {
        let start = ConfigResource { kind, name: Arc::from("") };
        self.by_resource
            .range(start..)
            .take_while(move |(resource, _)| resource.kind == kind)
            .map(|(resource, _)| &resource.name)
    }

    pub(crate) fn set(&mut self, resource: ConfigResource, name: &str, value: Option<&str>) {
        let mut map = self.by_resource.get(&resource).cloned().unwrap_or_default();
        map.set(name, value);
        if map.is_empty() {
            self.by_resource.remove(&resource);
        } else {
            self.by_resource.insert(resource, map);
        }
    }

    pub(crate) fn remove(&mut self, resource: &ConfigResource) -> bool {
        self.by_resource.remove(resource).is_some()
    }
}
