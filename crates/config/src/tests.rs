//! Tests of the typed views as a whole.

use super::*;

/// The least a combined node needs.
const MINIMAL: &str = "
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER
";

fn config(more: &str) -> Result<BrokerConfig, Vec<ConfigError>> {
    BrokerConfig::from_properties(Properties::parse(format!("{MINIMAL}{more}").as_bytes()).unwrap())
}

#[test]
fn a_minimal_file_gives_the_defaults() {
    let config = config("").unwrap();
    assert_eq!(config.roles, Roles { broker: true, controller: true });
    assert_eq!(config.broker_listeners().map(|l| l.to_string()).collect::<Vec<_>>(), ["PLAINTEXT://:9092"]);
    assert_eq!(config.controller_listeners().map(|l| l.port).collect::<Vec<_>>(), [9093]);
    assert_eq!(config.inter_broker_listener_name, "PLAINTEXT");
    assert_eq!(config.log_dirs, [std::path::PathBuf::from("/tmp/kafka-logs")]);
    assert_eq!(config.metadata_log_dir, config.log_dirs[0]);
    assert_eq!(config.net.request_max_bytes, 104857600);
    assert_eq!(config.own.durability, Durability::Durable);
    assert_eq!(config.values.int("broker.id"), 1);
    assert_eq!(config.metadata_log.retention_bytes, Some(104857600));
}

#[test]
fn refusals_name_option_value_and_range() {
    let cases = [
        ("num.partitions=0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions=x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        (
            "auto.create.topics.enable=yes",
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false",
        ),
        (
            "compression.type=brotli",
            "Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, \
             snappy, gzip, producer",
        ),
        (
            "log.cleanup.policy=delete,remove",
            "Invalid value remove for configuration log.cleanup.policy: String must be one of: compact, delete",
        ),
        ("log.dirs=/a,,/b", "Configuration 'log.dirs' values must not be empty."),
        (
            "log.cleaner.io.buffer.load.factor=x",
            "Invalid value x for configuration log.cleaner.io.buffer.load.factor: Not a number of type DOUBLE",
        ),
        (
            "broker.id=2",
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` instead.",
        ),
        (
            "odradek.durability=maybe",
            "Invalid value maybe for configuration odradek.durability: String must be one of: durable, written",
        ),
        (
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9092",
            "Error creating broker listeners from '[PLAINTEXT://:9092, CONTROLLER://:9092]': Each listener must have a \
             different port, listeners: [PLAINTEXT://:9092, CONTROLLER://:9092]",
        ),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            "requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        ),
        (
            "log.retention.ms=0",
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
    ];
    for (line, want) in cases {
        let errors = config(line).expect_err(line);
        let texts: Vec<&str> = errors.iter().map(ConfigError::message).collect();
        assert_eq!(texts, [want], "{line}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = config("num.partitions=0\nnum.io.threads=0").unwrap_err();
    assert_eq!(errors.len(), 2);
}

#[test]
fn required_options_are_asked_for() {
    let errors = BrokerConfig::from_properties(Properties::new()).unwrap_err();
    let texts: Vec<&str> = errors.iter().map(ConfigError::message).collect();
    assert!(
        texts.contains(&"Missing required configuration \"process.roles\" which has no default value."),
        "{texts:?}"
    );
}

#[test]
fn a_topic_falls_back_through_the_units() {
    let cases: [(&str, &str, Option<u64>); 6] = [
        ("", "", Some(604_800_000)),
        ("log.retention.hours=1", "", Some(3_600_000)),
        ("log.retention.minutes=2\nlog.retention.hours=1", "", Some(120_000)),
        ("log.retention.ms=5\nlog.retention.minutes=2", "", Some(5)),
        ("log.retention.ms=5", "retention.ms=6", Some(6)),
        ("log.retention.hours=-1", "", None),
    ];
    for (broker, topic, want) in cases {
        let broker = config(broker).unwrap();
        let topic = Properties::parse(topic.as_bytes()).unwrap();
        assert_eq!(TopicConfig::resolve(&topic, &broker.values).unwrap().retention_ms, want);
    }
}

#[test]
fn dynamic_options_hide_other_units() {
    let broker = config("log.retention.minutes=2").unwrap();
    let default: Properties = [("log.retention.hours", "3")].into_iter().collect();
    let own: Properties = [("log.retention.ms", "7")].into_iter().collect();
    let none = Properties::new();
    let with_default = broker.with_dynamic([&default, &none]).unwrap();
    assert_eq!(TopicConfig::resolve(&none, &with_default.values).unwrap().retention_ms, Some(10_800_000));
    let with_both = broker.with_dynamic([&default, &own]).unwrap();
    assert_eq!(TopicConfig::resolve(&none, &with_both.values).unwrap().retention_ms, Some(7));
}

#[test]
fn topic_defaults_are_kafkas() {
    let broker = config("").unwrap();
    let topic = TopicConfig::resolve(&Properties::new(), &broker.values).unwrap();
    assert_eq!((topic.compact, topic.delete), (false, true));
    assert_eq!(topic.compression, Compression::Producer);
    assert_eq!(topic.max_message_bytes, 1048588);
    assert_eq!(topic.segment_bytes, 1 << 30);
    assert_eq!((topic.flush_messages, topic.flush_ms), (None, None));
    assert_eq!(topic.local_retention_ms, topic.retention_ms);
}

#[test]
fn cores_are_laid_out() {
    let cases = [
        ("", 1, (1, false)),
        ("", 2, (2, false)),
        ("", 4, (3, true)),
        ("odradek.cores=4", 2, (4, false)),
        ("odradek.controller.core=dedicated", 1, (1, true)),
        ("odradek.cores=2\nodradek.controller.core=dedicated", 8, (2, true)),
        ("odradek.controller.core=shared", 8, (8, false)),
    ];
    for (line, cpus, want) in cases {
        assert_eq!(config(line).unwrap().own.layout(cpus), want, "{line} on {cpus}");
    }
}

#[test]
fn memory_goes_by_the_number_of_cores_unless_it_is_set() {
    let (by_cores, set) =
        (config("").unwrap().own, "odradek.request.memory.bytes=67108864\nodradek.tail.cache.bytes=67108864\n");
    let set = config(set).unwrap().own;
    for cores in [1, 2, 64] {
        assert_eq!((by_cores.request_share(cores), by_cores.tail_share(cores, 1)), (32 << 20, 32 << 20));
        let share = (64 << 20) / u64::from(cores);
        assert_eq!(
            (set.request_share(cores), set.tail_share(cores, 1), set.tail_share(cores, 4)),
            (share, share, share / 4)
        );
    }
    let unwritten = |own: &OwnConfig, cores, dirs| own.unwritten_share(cores, dirs) >> 20;
    assert_eq!([1, 2, 4, 64].map(|cores| unwritten(&by_cores, cores, 1)), [16, 16, 8, 4], "one disk for all of them");
    assert_eq!((unwritten(&by_cores, 2, 12), unwritten(&set, 2, 1), unwritten(&set, 16, 1)), (4, 16, 2));
    assert_eq!((by_cores.tail_share(2, 2), by_cores.tail_share(2, 12)), (16 << 20, 8 << 20), "each directory has some");
}

#[test]
fn a_listener_may_have_limits_of_its_own() {
    let all = config("").unwrap().net;
    assert!(all.listener_connections.is_empty());
    assert_eq!((all.connections_of("PLAINTEXT"), all.rate_burst_ms), (all.connections, 10_000));
    assert_eq!(all.connections, ConnectionLimits { connections_max: 2147483647, creation_rate_max: 2147483647 });
    assert_eq!((all.send_buffer_bytes, all.receive_buffer_bytes), (None, None), "unset, not 100 KiB");
    let text = "max.connections=9\nlistener.name.plaintext.max.connections=4\nlistener.name.controller.max.connection.creation.rate=7\n\
                listener.name.nobody.max.connections=1\nquota.window.num=4\nquota.window.size.seconds=2\n\
                socket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=-1\n";
    let own = config(text).unwrap();
    let of = |listener| {
        (own.net.connections_of(listener).connections_max, own.net.connections_of(listener).creation_rate_max)
    };
    assert_eq!((of("PLAINTEXT"), of("CONTROLLER")), ((4, 2147483647), (9, 7)));
    assert_eq!(
        (own.net.rate_burst_ms, own.net.send_buffer_bytes, own.net.receive_buffer_bytes),
        (6_000, Some(102400), None)
    );
    assert!(!own.is_protected_listener("PLAINTEXT"), "nobody is beside it");
    let refused = config("listener.name.plaintext.max.connections=x\n").unwrap_err();
    assert_eq!(refused[0].to_string(), "Invalid value x for configuration max.connections: Not a number of type INT");
    let dynamic =
        std::collections::BTreeMap::from([("listener.name.plaintext.max.connections".to_owned(), "2".to_owned())]);
    let nothing = std::collections::BTreeMap::new();
    let changed = own.with_dynamic([&nothing, &dynamic]).unwrap();
    assert_eq!(changed.net.connections_of("PLAINTEXT").connections_max, 2);
    let two = "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=2@localhost:9093\ncontroller.listener.names=C\n\
               listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT\nlisteners=A://:1,B://:2\n\
               inter.broker.listener.name=B\n";
    let two = BrokerConfig::from_properties(Properties::parse(two.as_bytes()).unwrap()).unwrap();
    assert_eq!(["A", "B", "C"].map(|name| two.is_protected_listener(name)), [false, true, false]);
}

#[test]
fn options_without_effect_are_named() {
    let config = config(
        "nmu.partitions=3\nlog.cleaner.backoff.ms=15000\nlog.cleaner.io.buffer.size=600000\nnum.partitions=3\n\
         listener.name.plaintext.ssl.keystore.location=/x\nrsm.config.own=1\nleader.replication.throttled.rate=5\n",
    )
    .unwrap();
    assert_eq!(config.unknown_options(), ["leader.replication.throttled.rate", "nmu.partitions"]);
    let inactive = config.inactive_options();
    assert!(inactive.contains(&"log.cleaner.io.buffer.size") && !inactive.contains(&"log.cleaner.backoff.ms"));
    assert!(inactive.contains(&"listener.name.plaintext.ssl.keystore.location"), "{inactive:?}");
}

fn changes<'a>(list: &[(AlterOp, &'a str, &'a str)]) -> Vec<Change<'a>> {
    list.iter().map(|&(op, name, value)| Change { name, op, value: Some(value) }).collect()
}

#[test]
fn incremental_changes_write_what_differs() {
    let current: Properties =
        [("retention.ms", "5"), ("cleanup.policy", "compact"), ("segment.ms", "7")].into_iter().collect();
    let list = [
        (AlterOp::Set, "retention.ms", "5"),
        (AlterOp::Set, "segment.bytes", "1048576"),
        (AlterOp::Delete, "segment.ms", ""),
        (AlterOp::Delete, "flush.ms", ""),
        (AlterOp::Append, "cleanup.policy", "delete,compact"),
        (AlterOp::Subtract, "leader.replication.throttled.replicas", "1:1"),
    ];
    let written = incremental(ResourceKind::Topic, &current, &changes(&list)).unwrap();
    let some = |value: &str| Some(value.to_owned());
    let want = [
        ("segment.bytes", some("1048576")),
        ("segment.ms", None),
        ("cleanup.policy", some("compact,delete")),
        ("leader.replication.throttled.replicas", some("")),
    ];
    assert_eq!(written, want.map(|(name, value)| (name.to_owned(), value)));
    let after = applied(&current, &written);
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        ["cleanup.policy", "leader.replication.throttled.replicas", "retention.ms", "segment.bytes"]
    );
    // A broker re-reads files that an option names, so that writing it again is a change.
    let again = changes(&[(AlterOp::Set, "retention.ms", "5")]);
    assert_eq!(incremental(ResourceKind::Broker, &current, &again).unwrap().len(), 1);
}

#[test]
fn a_replacement_unsets_what_it_does_not_name() {
    let current: Properties = [("retention.ms", "5"), ("segment.ms", "7"), ("flush.ms", "9")].into_iter().collect();
    let written = replacement(ResourceKind::Topic, &current, &[("retention.ms", "6"), ("segment.ms", "7")]).unwrap();
    assert_eq!(written, [("retention.ms".to_owned(), Some("6".to_owned())), ("flush.ms".to_owned(), None)]);
}

#[test]
fn requests_of_bad_form_are_refused() {
    let refused = |entries: &[(&'static str, bool)]| check_request(entries.iter().copied()).unwrap_err();
    let twice = refused(&[("a", false), ("b", false), ("a", true)]);
    assert_eq!((twice.kind, twice.message()), (ErrorKind::InvalidRequest, "Error due to duplicate config keys"));
    assert_eq!(refused(&[("a", true), ("b", false), ("c", true)]).message(), "Null value not supported for : a, c");
    assert_eq!(check_request([("a", false)].into_iter()), Ok(()));
    let long = "x".repeat(VALUE_UNITS_MAX + 1);
    let set = changes(&[(AlterOp::Set, "retention.ms", &long)]);
    assert!(incremental(ResourceKind::Topic, &Properties::new(), &set).is_err());
}

#[test]
fn dynamic_options_that_cannot_be_applied_are_left_out() {
    let layers = LayeredConfig::new(config("").unwrap());
    let broker: Properties =
        [("log.retention.ms", "5"), ("num.partitions", "3"), ("log.segment.bytes", "x")].into_iter().collect();
    let (layers, problems) = layers.with_dynamic(&Properties::new(), &broker);
    assert_eq!(layers.topic(&Properties::new()).unwrap().retention_ms, Some(5));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(layers.current.topics.partitions, 1);
}

#[test]
fn a_topic_of_tiers_is_judged_as_a_whole() {
    let layers = LayeredConfig::new(config("remote.log.storage.system.enable=true").unwrap());
    let judge = |pairs: &[(&str, &str)]| {
        let tiered = [("remote.storage.enable", "true")].iter().chain(pairs).copied();
        let after: Properties = tiered.collect();
        layers.check_resource(ResourceKind::Topic, "t", &Properties::new(), &after).map_err(|error| error.to_string())
    };
    assert_eq!(judge(&[]), Ok(()));
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("cleanup.policy", "compact")], "Remote log storage only supports topics with cleanup.policy=delete"),
        (
            &[("retention.ms", "5"), ("local.retention.ms", "6")],
            "Invalid value 6 for configuration local.retention.ms: Value must not be more than retention.ms property value: 5",
        ),
        (
            &[("retention.bytes", "5"), ("local.retention.bytes", "-1")],
            "Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as retention.bytes value is set \
             as 5.",
        ),
        (
            &[("remote.log.copy.disable", "true"), ("local.retention.ms", "1")],
            "When `remote.log.copy.disable` is set to true",
        ),
    ];
    for (pairs, want) in cases {
        assert!(judge(pairs).unwrap_err().starts_with(want), "{pairs:?}: {:?}", judge(pairs));
    }
}
