//! The shape of a row of the option table; the rows themselves are generated from `options/*.tsv`.

/// Type of an option's value, with Kafka's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// true or false, in any case.
    Boolean,
    /// Any text.
    String,
    /// 32-bit signed.
    Int,
    /// 16-bit signed.
    Short,
    /// 64-bit signed.
    Long,
    /// 64-bit floating point.
    Double,
    /// Comma-separated texts.
    List,
    /// Name of a Java class; kept as text.
    Class,
    /// A secret; never printed.
    Password,
}

impl Kind {
    /// Kafka's name of the type, as error texts print it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        }
    }

    /// The number of the type in DescribeConfigs responses (`ConfigType`, KIP-569).
    pub fn wire_id(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }
}

/// What an option is when nobody sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// There is none: it must be set.
    Required,
    /// Unset.
    Null,
    /// This text, parsed like a configured one.
    Text(&'static str),
}

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// As a number to compare with.
    pub value: f64,
    /// As error texts print it.
    pub text: &'static str,
}

/// Which values an option accepts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Valid {
    /// All of its type.
    Any,
    /// A number between two bounds, both included; null is refused.
    Range {
        /// Smallest accepted number.
        min: Option<Bound>,
        /// Largest accepted number.
        max: Option<Bound>,
    },
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts (given in upper case), in any case.
    OneOfAnyCase(&'static [&'static str]),
    /// A list without empty or repeated elements.
    List {
        /// Whether it may be empty.
        empty: bool,
        /// Whether it may be unset.
        null: bool,
        /// The accepted elements; none named means any.
        of: &'static [&'static str],
    },
    /// A text of at least one character, or unset.
    NonEmpty,
    /// Not unset.
    NonNull,
    /// 1 to 9, or -1 for the codec's own default.
    GzipLevel,
    /// `*`, or a list of `partition:broker`.
    ThrottledReplicas,
    /// A list of `id@host:port`.
    QuorumVoters,
    /// A list of `host:port`.
    QuorumBootstrapServers,
    /// `latest`, `earliest` or `by_duration:` and an ISO 8601 duration.
    ShareOffsetReset,
}

impl Valid {
    /// The accepted values in words; empty for [`Valid::Any`].
    pub fn words(&self) -> String {
        match self {
            Valid::Any => String::new(),
            Valid::Range { min: Some(min), max: Some(max) } => format!("{} to {}", min.text, max.text),
            Valid::Range { min: Some(min), max: None } => format!("{} or more", min.text),
            Valid::Range { min: None, max: Some(max) } => format!("at most {}", max.text),
            Valid::Range { min: None, max: None } => "any number".to_owned(),
            Valid::OneOf(texts) => format!("one of {}", texts.join(", ")),
            Valid::OneOfAnyCase(texts) => format!("one of {}, in any case", texts.join(", ")),
            Valid::List { empty, of, .. } => {
                let elements = if of.is_empty() { String::new() } else { format!(" out of {}", of.join(", ")) };
                let count = if *empty { "none or more" } else { "one or more" };
                format!("{count} elements{elements}, each once")
            }
            Valid::NonEmpty => "at least one character".to_owned(),
            Valid::NonNull => "anything but unset".to_owned(),
            Valid::GzipLevel => "1 to 9, or -1".to_owned(),
            Valid::ThrottledReplicas => "* or elements partition:broker".to_owned(),
            Valid::QuorumVoters => "elements id@host:port".to_owned(),
            Valid::QuorumBootstrapServers => "elements host:port".to_owned(),
            Valid::ShareOffsetReset => "earliest, latest or by_duration:PnDTnHnMn.nS".to_owned(),
        }
    }
}

/// Kafka's grading of options, printed in the documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importance {
    /// Most users set it.
    High,
    /// Some do.
    Medium,
    /// Few do.
    Low,
}

/// Where an option can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// Only in the broker's properties file, by a restart.
    ReadOnly,
    /// While running, for one named broker.
    PerBroker,
    /// While running, for one broker or as the default of all.
    ClusterWide,
    /// On a topic.
    Topic,
    /// On a group.
    Group,
    /// On a client metrics subscription.
    ClientMetrics,
}

/// How a synonym's value is turned into the option's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// As it is.
    Same,
    /// Minutes to milliseconds.
    Minutes,
    /// Hours to milliseconds.
    Hours,
}

/// A broker option that stands in for another one that is not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synonym {
    /// Name of the broker option.
    pub name: &'static str,
    /// Conversion of its value.
    pub unit: Unit,
}

/// One option: a row of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OptionDef {
    /// Its name in files and requests.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Its value when nobody sets it.
    pub default: Default,
    /// Accepted values.
    pub valid: Valid,
    /// Kafka's grading.
    pub importance: Importance,
    /// Where it can be changed.
    pub update: Update,
    /// Topic and group options: the broker options it falls back to, in order. Broker options that exist in several
    /// units: all of them, in order of precedence, itself included.
    pub synonyms: &'static [Synonym],
    /// Hidden: accepted, but not described unless set.
    pub internal: bool,
    /// Exists only as a dynamic option and cannot stand in a properties file.
    pub dynamic_only: bool,
    /// While running it can be changed only for one listener, as `listener.name.<listener>.<option>`.
    pub listener_prefix: bool,
    /// Whether this broker acts on it; the others are accepted and named once at start.
    pub active: bool,
    /// Own documentation; empty where [`OptionDef::documentation`] derives one.
    pub doc: &'static str,
}

impl OptionDef {
    /// Whether the value is a secret.
    pub fn sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// The option in one or two sentences: what it does, or that it does nothing here yet.
    pub fn documentation(&self) -> String {
        if !self.doc.is_empty() {
            return self.doc.to_owned();
        }
        let words = self.name.replace(['.', '_'], " ");
        format!("Kafka's setting for \"{words}\". It is accepted and shown, and this broker does not act on it.")
    }

    /// Type, accepted values and default in one line, for refusals and documentation.
    pub fn accepted(&self) -> String {
        let kind = self.kind.name().to_lowercase();
        let default = match self.default {
            Default::Required => "required".to_owned(),
            Default::Null => "default unset".to_owned(),
            Default::Text("") => "default empty".to_owned(),
            Default::Text(text) => format!("default {text}"),
        };
        let values = self.valid.words();
        if values.is_empty() { format!("{kind}; {default}") } else { format!("{kind}: {values}; {default}") }
    }

    /// The default as text; `None` when unset or required.
    pub fn default_text(&self) -> Option<&'static str> {
        match self.default {
            Default::Text(text) => Some(text),
            Default::Null | Default::Required => None,
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/options.rs"));

/// The row of `name` in one of the tables, which are sorted.
pub fn find(table: &'static [OptionDef], name: &str) -> Option<&'static OptionDef> {
    table.binary_search_by(|def| def.name.cmp(name)).ok().map(|index| &table[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_complete_and_sorted() {
        let own = BROKER.iter().filter(|def| def.name.starts_with("odradek.")).count();
        let sizes = [BROKER.len() - own, TOPIC.len(), GROUP.len(), CLIENT_METRICS.len()];
        assert_eq!(sizes, [382, 38, 27, 3], "options of Kafka 4.4 by scope");
        for table in [&BROKER[..], &TOPIC, &GROUP, &CLIENT_METRICS] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
        }
    }

    #[test]
    fn synonyms_exist() {
        for def in TOPIC.iter().chain(&GROUP).chain(&BROKER) {
            for synonym in def.synonyms {
                assert!(find(&BROKER, synonym.name).is_some(), "{}: synonym {}", def.name, synonym.name);
            }
        }
    }

    #[test]
    fn active_options_are_documented() {
        for def in TOPIC.iter().chain(&GROUP).chain(&BROKER).chain(&CLIENT_METRICS) {
            assert!(!def.active || !def.doc.is_empty(), "{} is active and has no documentation", def.name);
        }
    }
}
