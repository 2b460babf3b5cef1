//! Compares this crate with what a broker of Apache Kafka answered to `oracle/scenario.txt`; its answers are in
//! `oracle/kafka.txt` and are recorded by `scripts/record-config-oracle`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use config::{
    AlterOp, BROKER, BrokerConfig, Change, ConfigEntry, ConfigError, ConfigSource, ErrorKind, GROUP, LayeredConfig,
    Properties, ResourceKind, TOPIC, Value, Wanted, applied, check_logger_changes, check_request,
    describe_client_metrics, find, incremental,
};

const SCENARIO: &str = include_str!("oracle/scenario.txt");
const KAFKA: &str = include_str!("oracle/kafka.txt");

type Options = BTreeMap<String, String>;

/// Stands for the cluster: the options of every resource, as the metadata log would hold them.
struct Cluster {
    fixed: Properties,
    layers: LayeredConfig,
    options: BTreeMap<(i8, String), Options>,
    topics: Vec<String>,
}

impl Cluster {
    fn new() -> Cluster {
        let fixed: Properties = SCENARIO
            .lines()
            .filter_map(|line| line.strip_prefix("static "))
            .map(|pair| pair.split_once('=').expect("static KEY=VALUE"))
            .collect();
        let config = BrokerConfig::from_properties(fixed.clone()).expect("the scenario's properties file");
        Cluster { fixed, layers: LayeredConfig::new(config), options: BTreeMap::new(), topics: Vec::new() }
    }

    fn options(&self, kind: ResourceKind, name: &str) -> Options {
        self.options.get(&(kind as i8, name.to_owned())).cloned().unwrap_or_default()
    }

    fn topic(&mut self, words: &[&str]) -> String {
        let options: Options =
            words[1..].iter().map(|pair| pair.split_once('=').expect("KEY=VALUE")).map(own).collect();
        self.layers
            .check_resource(ResourceKind::Topic, words[0], &Options::new(), &options)
            .expect("an accepted topic");
        self.topics.push(words[0].to_owned());
        self.options.insert((ResourceKind::Topic as i8, words[0].to_owned()), options);
        "ok\n".to_owned()
    }

    fn alter(&mut self, kind: &str, name: &str, changes: &str) -> String {
        let kind = kind_of(kind);
        let changes: Vec<Change<'_>> = changes.split(" ; ").map(change_of).collect();
        match self.try_alter(kind, name, &changes) {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => refused(&error),
        }
    }

    fn try_alter(&mut self, kind: ResourceKind, name: &str, changes: &[Change<'_>]) -> Result<(), ConfigError> {
        let missing = |change: &Change<'_>| change.op != AlterOp::Delete && change.value.is_none();
        check_request(changes.iter().map(|change| (change.name, missing(change))))?;
        if kind == ResourceKind::BrokerLogger {
            return check_logger_changes(&["root"], changes);
        }
        let before = self.options(kind, name);
        if kind == ResourceKind::Broker {
            let after = self.layers.broker_options_after(!name.is_empty(), changes)?;
            self.layers.check_broker_change(!name.is_empty(), &after)?;
        }
        let written = incremental(kind, &before, changes)?;
        let after = applied(&before, &written);
        self.layers.check_resource(kind, name, &before, &after)?;
        if kind == ResourceKind::Topic && !self.topics.iter().any(|topic| topic == name) {
            return Err(ConfigError::general(format!("The topic '{name}' does not exist.")));
        }
        self.options.insert((kind as i8, name.to_owned()), after);
        if kind == ResourceKind::Broker {
            let (cluster, broker) = (self.options(kind, ""), self.options(kind, "1"));
            let (layers, problems) = self.layers.with_dynamic(&cluster, &broker);
            assert_eq!(problems, Vec::<String>::new());
            self.layers = layers;
        }
        Ok(())
    }

    fn describe(&self, kind: &str, name: &str) -> String {
        let wanted = Wanted { names: None, synonyms: true, documentation: true };
        let kind = kind_of(kind);
        let options = self.options(kind, name);
        let entries = match kind {
            ResourceKind::Topic if !self.topics.iter().any(|topic| topic == name) => {
                return "UNKNOWN_TOPIC_OR_PARTITION: \n".to_owned();
            }
            ResourceKind::Topic => self.layers.describe_topic(&options, wanted),
            ResourceKind::Broker if name.is_empty() => Ok(self.layers.describe_broker_default(wanted)),
            ResourceKind::Broker => Ok(self.layers.describe_broker(wanted)),
            ResourceKind::Group => self.layers.describe_group(&options, wanted),
            ResourceKind::ClientMetrics => describe_client_metrics(&options, wanted),
            ResourceKind::BrokerLogger => unreachable!("not in the scenario"),
        };
        let mut entries = entries.expect("options that were accepted before");
        entries.retain(|entry| !entry.name.starts_with("odradek."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.iter().map(line_of).collect()
    }

    fn start(&self, changes: &str) -> String {
        let mut properties = self.fixed.clone();
        for change in changes.split(" ; ") {
            properties.set_override(change).expect("KEY=VALUE");
        }
        match BrokerConfig::from_properties(properties) {
            Ok(_) => "ok\n".to_owned(),
            Err(errors) => format!("{}\n", errors[0]),
        }
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn kind_of(name: &str) -> ResourceKind {
    let kinds = [2, 4, 8, 16, 32].map(|id| ResourceKind::from_wire(id).expect("a known number"));
    kinds.into_iter().find(|kind| kind.name() == name).expect("a known kind")
}

fn change_of(text: &str) -> Change<'_> {
    let (op, pair) = text.split_once(' ').expect("OP KEY[=VALUE]");
    let op = ["SET", "DELETE", "APPEND", "SUBTRACT"].iter().position(|name| *name == op).expect("a known operation");
    let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
    Change { name, op: AlterOp::from_wire(op as i8).expect("a known number"), value }
}

fn refused(error: &ConfigError) -> String {
    let kind = match error.kind {
        ErrorKind::InvalidConfig => "INVALID_CONFIG",
        ErrorKind::InvalidRequest => "INVALID_REQUEST",
    };
    format!("{kind}: {error}\n")
}

fn source_of(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
        ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
        ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
        ConfigSource::Default => "DEFAULT_CONFIG",
        ConfigSource::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
        ConfigSource::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
        ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
    }
}

fn line_of(entry: &ConfigEntry) -> String {
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
    let mut line = format!("{}={} {}", entry.name, shown(&entry.value), source_of(entry.source));
    write!(line, " {}", entry.kind.map_or("UNKNOWN", |kind| kind.name())).expect("string");
    for (set, word) in [
        (entry.sensitive, " sensitive"),
        (entry.read_only, " read-only"),
        (entry.documentation.is_none(), " undocumented"),
    ] {
        line.push_str(if set { word } else { "" });
    }
    let synonyms: Vec<String> = entry
        .synonyms
        .iter()
        .map(|synonym| format!("{}:{}={}", source_of(synonym.source), synonym.name, shown(&synonym.value)))
        .collect();
    format!("{line} [{}]\n", synonyms.join(" "))
}

fn judge(scope: &str, key: &str, text: &str) -> String {
    let table: &'static [config::OptionDef] = match scope {
        "broker" => &BROKER,
        "topic" => &TOPIC,
        _ => &GROUP,
    };
    match Value::parse(find(table, key).expect("a known option"), text) {
        Ok(value) => format!("= {value}\n"),
        Err(error) => format!("{error}\n"),
    }
}

/// The scenario's blocks: the command and what came back.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("> ") {
            Some(command) => blocks.push((command.to_owned(), String::new())),
            None => {
                let answer = &mut blocks.last_mut().expect("a command comes first").1;
                answer.push_str(line);
                answer.push('\n');
            }
        }
    }
    blocks
}

/// Where the texts differ on purpose: Kafka prints a set in no order, the bare text of a Java exception, or an empty
/// message.
fn normal(command: &str, answer: &str) -> String {
    match command {
        "value broker group.consumer.migration.policy never" => {
            answer.replace("DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL", "BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE")
        }
        "alter TOPIC nosuchtopic SET retention.ms=1" => answer.replace("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_CONFIG"),
        "start max.connections.per.ip.overrides=h:x" => answer.replace(
            "For input string: \"x\"",
            "Invalid value h:x for configuration max.connections.per.ip.overrides: x is not a number",
        ),
        _ => answer.to_owned(),
    }
}

#[test]
fn answers_are_those_of_apache_kafka() {
    let mut cluster = Cluster::new();
    let mut differences = String::new();
    let recorded = blocks(KAFKA);
    let commands: Vec<&str> = SCENARIO
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("static "))
        .collect();
    let known: Vec<&str> = recorded.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, known, "the answers are not of this scenario; run scripts/record-config-oracle");
    for (command, answer) in &recorded {
        let words: Vec<&str> = command.splitn(4, ' ').collect();
        let name = |word: &&str| if *word == "-" { String::new() } else { (*word).to_owned() };
        let got = match words[0] {
            "topic" => cluster.topic(&command.split(' ').skip(1).collect::<Vec<_>>()),
            "alter" => cluster.alter(words[1], &name(&words[2]), words[3]),
            "describe" => cluster.describe(words[1], &name(&words[2])),
            "value" => judge(words[1], words[2], words.get(3).unwrap_or(&"")),
            "start" => cluster.start(&command["start ".len()..]),
            other => panic!("unknown command {other}"),
        };
        let want = normal(command, answer);
        let (want_lines, got_lines): (Vec<&str>, Vec<&str>) = (want.lines().collect(), got.lines().collect());
        for line in want_lines.iter().filter(|line| !got_lines.contains(line)) {
            writeln!(differences, "{command}\n  kafka {line}").expect("string");
        }
        for line in got_lines.iter().filter(|line| !want_lines.contains(line)) {
            writeln!(differences, "{command}\n  here  {line}").expect("string");
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{differences}", differences.matches("\n  ").count());
}
