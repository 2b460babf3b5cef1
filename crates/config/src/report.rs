//! What a configuration sets that has no effect.

use crate::broker::BrokerConfig;
use crate::describe::base_of;
use crate::table::{BROKER, OptionDef, find};

/// Prefixes under which plug-ins of Kafka keep options of their own.
const PLUG_IN_PREFIXES: [&str; 4] = ["config.providers.", "rsm.config.", "rlmm.config.", "client.quota.callback."];

impl BrokerConfig {
    /// Options that are set and that nobody knows: typing errors, or options of another release.
    pub fn unknown_options(&self) -> Vec<&str> {
        self.set_options().filter(|(_, def)| def.is_none()).map(|(name, _)| name).collect()
    }

    /// Options that are set to something else than their default and that this broker does not act on.
    pub fn inactive_options(&self) -> Vec<&str> {
        let differs = |name: &str, def: &OptionDef| {
            let set = self.values.originals().get(name).map(str::trim);
            set != Some(def.default_text().unwrap_or_default())
        };
        let inactive = |(name, def): (_, Option<&'static OptionDef>)| {
            def.is_some_and(|def| !def.active && differs(name, def)).then_some(name)
        };
        self.set_options().filter_map(inactive).collect()
    }

    fn set_options(&self) -> impl Iterator<Item = (&str, Option<&'static OptionDef>)> {
        let of_plug_in = |name: &str| PLUG_IN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        self.values.originals().iter().filter(move |(name, _)| !of_plug_in(name)).map(|(name, _)| {
            let known = find(&BROKER, name).or_else(|| base_of(name)).filter(|def| !def.dynamic_only);
            (name, known)
        })
    }
}
