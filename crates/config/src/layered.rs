//! A broker's configuration with its dynamic layers.

use std::sync::Arc;

use crate::alter;
use crate::broker::BrokerConfig;
use crate::error::ConfigError;
use crate::properties::Properties;
use crate::topic::TopicConfig;
use crate::values::{ConfigMap, Values};

/// The static configuration, the two dynamic layers over it, and what results. A snapshot: a change of a dynamic option
/// makes a new one, which is handed to every core.
#[derive(Clone, Debug)]
pub struct LayeredConfig {
    /// From the properties file and overrides.
    pub fixed: Arc<BrokerConfig>,
    /// With the dynamic layers over it; what the broker acts on.
    pub current: Arc<BrokerConfig>,
    /// Dynamic options of all brokers (resource BROKER with an empty name).
    pub cluster: Properties,
    /// Dynamic options of this broker.
    pub broker: Properties,
}

impl LayeredConfig {
    /// Without dynamic options.
    pub fn new(fixed: BrokerConfig) -> LayeredConfig {
        let fixed = Arc::new(fixed);
        LayeredConfig { current: fixed.clone(), fixed, cluster: Properties::new(), broker: Properties::new() }
    }

    /// With the dynamic options the metadata log holds now. What cannot be applied, because it is no dynamic option or
    /// its value is not acceptable, is left out and returned as a text for the log.
    pub fn with_dynamic(&self, cluster: &dyn ConfigMap, broker: &dyn ConfigMap) -> (LayeredConfig, Vec<String>) {
        let mut problems = Vec::new();
        let mut accept = |layer: &dyn ConfigMap, per_broker: bool| {
            let mut accepted = Properties::new();
            layer.for_each(&mut |name, value| match alter::check_dynamic(name, value, per_broker) {
                Ok(()) => accepted.set(name, value),
                Err(error) => problems.push(format!("dynamic option {name} is left out: {error}")),
            });
            accepted
        };
        let cluster = accept(cluster, false);
        let broker = accept(broker, true);
        match self.fixed.with_dynamic([&cluster, &broker]) {
            Ok(current) => {
                (LayeredConfig { fixed: self.fixed.clone(), current: Arc::new(current), cluster, broker }, problems)
            }
            Err(errors) => {
                problems.extend(errors.iter().map(|error| format!("dynamic options are not applied: {error}")));
                (self.clone(), problems)
            }
        }
    }

    /// The values in force.
    pub fn values(&self) -> &Values {
        &self.current.values
    }

    /// The configuration of a topic with these overrides.
    pub fn topic(&self, overrides: &dyn ConfigMap) -> Result<TopicConfig, ConfigError> {
        TopicConfig::resolve(overrides, self.values())
    }
}
