//! Rules between options of a broker. Texts are Kafka's.

use crate::broker::BrokerConfig;
use crate::error::ConfigError;
use crate::listener::SecurityProtocol;

/// Everything that is wrong with a configuration whose single values are acceptable.
pub(crate) fn check(config: &BrokerConfig) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for rule in [identity, logs, replication, roles, listeners, net, directories] {
        errors.extend(rule(config).err());
    }
    errors
}

/// The prefix is Kafka's; tools and tests look for whole texts.
fn require(holds: bool, option: &str, message: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::about(option, format!("requirement failed: {}", message()))) }
}

/// A rule whose text Kafka prints without the prefix.
fn require_plain(holds: bool, option: &str, message: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::about(option, message())) }
}

fn identity(config: &BrokerConfig) -> Result<(), ConfigError> {
    require_plain(config.node_id == config.values.int("broker.id"), "node.id", || {
        "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` instead."
            .to_owned()
    })
}

fn logs(config: &BrokerConfig) -> Result<(), ConfigError> {
    let values = &config.values;
    let at_least = |name: &str, min: i64| values.long_or_none(name).is_none_or(|ms| ms >= min);
    require(at_least("log.roll.ms", 1), "log.roll.ms", || "log.roll.ms must be greater than or equal to 1".to_owned())?;
    require(at_least("log.roll.jitter.ms", 0), "log.roll.jitter.ms", || {
        "log.roll.jitter.ms must be greater than or equal to 0".to_owned()
    })?;
    // The first unit that is set decides; 0 is refused, negative values mean "no limit".
    let units = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    let retention = units.iter().find_map(|name| values.long_or_none(name));
    require(retention != Some(0), "log.retention.ms", || {
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1".to_owned()
    })?;
    require(!config.log_dirs.is_empty(), "log.dirs", || {
        "At least one log directory must be defined via log.dirs or log.dir.".to_owned()
    })?;
    let threads = i64::from(values.int("log.cleaner.threads")).max(1);
    require(
        values.long("log.cleaner.dedupe.buffer.size") / threads > 1 << 20,
        "log.cleaner.dedupe.buffer.size",
        || "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.".to_owned(),
    )?;
    require_plain(
        values.list("group.coordinator.rebalance.protocols").iter().any(|protocol| protocol == "classic"),
        "group.coordinator.rebalance.protocols",
        || "Disabling the 'classic' protocol is not supported.".to_owned(),
    )
}

fn replication(config: &BrokerConfig) -> Result<(), ConfigError> {
    let values = &config.values;
    let wait = values.long("replica.fetch.wait.max.ms");
    require(wait <= values.long("replica.socket.timeout.ms"), "replica.fetch.wait.max.ms", || {
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts"
            .to_owned()
    })?;
    require(wait <= values.long("replica.lag.time.max.ms"), "replica.fetch.wait.max.ms", || {
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR"
            .to_owned()
    })
}

fn roles(config: &BrokerConfig) -> Result<(), ConfigError> {
    let quorum = &config.quorum;
    require_plain(
        !quorum.voters.is_empty() || !quorum.bootstrap_servers.is_empty(),
        "controller.quorum.voters",
        || {
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers \
         or controller.quorum.voters must contain a parseable set of controllers."
            .to_owned()
        },
    )?;
    let is_voter = quorum.voters.iter().any(|voter| voter.id == config.node_id);
    if !config.roles.controller {
        return broker_only(config, is_voter);
    }
    require(quorum.voters.is_empty() || is_voter, "controller.quorum.voters", || {
        let ids: Vec<String> = quorum.voters.iter().map(|voter| voter.id.to_string()).collect();
        format!(
            "If process.roles contains the 'controller' role, the node id {} must be included in the set of voters \
             controller.quorum.voters=Set({})",
            config.node_id,
            ids.join(", ")
        )
    })?;
    require(!config.advertised_controller_listeners.is_empty(), "controller.listener.names", || {
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when \
         running the KRaft controller role"
            .to_owned()
    })?;
    let named = |name: &String| config.listeners.iter().any(|listener| listener.name == *name);
    require(config.controller_listener_names.iter().all(named), "controller.listener.names", || {
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running the \
         KRaft controller role"
            .to_owned()
    })?;
    if !config.roles.broker {
        require(config.broker_listeners().next().is_none(), "listeners", || {
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when \
             process.roles=controller"
                .to_owned()
        })?;
    }
    Ok(())
}

fn broker_only(config: &BrokerConfig, is_voter: bool) -> Result<(), ConfigError> {
    require(!is_voter, "controller.quorum.voters", || {
        let ids: Vec<String> = config.quorum.voters.iter().map(|voter| voter.id.to_string()).collect();
        format!(
            "If process.roles contains just the 'broker' role, the node id {} must not be included in the set of voters \
             controller.quorum.voters=Set({})",
            config.node_id,
            ids.join(", ")
        )
    })?;
    require(!config.controller_listener_names.is_empty(), "controller.listener.names", || {
        "controller.listener.names must contain at least one value when running KRaft with just the broker role"
            .to_owned()
    })?;
    require(config.controller_listeners().next().is_none(), "controller.listener.names", || {
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft \
         with just the broker role"
            .to_owned()
    })?;
    require(!config.quorum.auto_join, "controller.quorum.auto.join.enable", || {
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role."
            .to_owned()
    })
}

fn listeners(config: &BrokerConfig) -> Result<(), ConfigError> {
    let advertised = &config.advertised_listeners;
    let names = |list: &[crate::Listener]| list.iter().map(|l| l.name.clone()).collect::<Vec<_>>().join(",");
    if config.roles.broker {
        require(!advertised.is_empty(), "advertised.listeners", || {
            "There must be at least one broker advertised listener. Perhaps all listeners appear in \
             controller.listener.names?"
                .to_owned()
        })?;
        require(
            advertised.iter().any(|listener| listener.name == config.inter_broker_listener_name),
            "inter.broker.listener.name",
            || {
                format!(
                    "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid \
                     options based on currently configured listeners are {}",
                    names(advertised)
                )
            },
        )?;
        let listens = |listener: &crate::Listener| config.listeners.iter().any(|other| other.name == listener.name);
        require(advertised.iter().all(listens), "advertised.listeners", || {
            format!(
                "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found \
                 {}. The valid options based on the current configuration are {}",
                names(advertised),
                names(&config.listeners)
            )
        })?;
    }
    let nonroutable = |listener: &crate::Listener| listener.host == "0.0.0.0";
    let all = advertised.iter().chain(&config.advertised_controller_listeners);
    require(!{ all }.any(nonroutable), "advertised.listeners", || {
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.".to_owned()
    })?;
    require(inter_broker_mechanism_is_enabled(config), "sasl.mechanism.inter.broker.protocol", || {
        "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for \
         inter-broker communication"
            .to_owned()
    })
}

fn inter_broker_mechanism_is_enabled(config: &BrokerConfig) -> bool {
    let name = &config.inter_broker_listener_name;
    let sasl = config.listeners.iter().any(|listener| {
        listener.name == *name
            && matches!(listener.protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    });
    if !sasl {
        return true;
    }
    let prefixed = format!("listener.name.{}.sasl.enabled.mechanisms", name.to_lowercase());
    let mechanism = config.values.text("sasl.mechanism.inter.broker.protocol");
    match config.values.originals().get(&prefixed) {
        Some(text) => crate::java::split_list(text).iter().any(|enabled| enabled == mechanism),
        None => config.values.list("sasl.enabled.mechanisms").iter().any(|enabled| enabled == mechanism),
    }
}

fn net(config: &BrokerConfig) -> Result<(), ConfigError> {
    let net = &config.net;
    require(
        net.queued_request_bytes_max.is_none_or(|bytes| bytes >= u64::from(net.request_max_bytes)),
        "queued.max.request.bytes",
        || "queued.max.request.bytes must be larger or equal to socket.request.max.bytes".to_owned(),
    )?;
    require(
        net.connections_per_ip_max > 0 || !net.connections_per_ip_overrides.is_empty(),
        "max.connections.per.ip",
        || {
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
                .to_owned()
        },
    )?;
    let in_host = |b: u8| b.is_ascii_alphanumeric() || b"-%._:".contains(&b);
    let is_invalid = |host: &&String| host.is_empty() || !host.bytes().all(in_host);
    let invalid: Vec<&str> = net.connections_per_ip_overrides.keys().filter(is_invalid).map(String::as_str).collect();
    require_plain(invalid.is_empty(), "max.connections.per.ip.overrides", || {
        format!("max.connections.per.ip.overrides contains invalid addresses : {}", invalid.join(","))
    })?;
    let delay = u64::from(net.failed_authentication_delay_ms);
    require(net.idle_ms_max.is_none_or(|idle| delay < idle), "connection.failed.authentication.delay.ms", || {
        format!(
            "connection.failed.authentication.delay.ms={delay} should always be less than \
                 connections.max.idle.ms={} to prevent failed authentication responses from timing out",
            net.idle_ms_max.unwrap_or(0)
        )
    })
}

fn directories(config: &BrokerConfig) -> Result<(), ConfigError> {
    let cordoned = config.values.list("cordoned.log.dirs");
    if cordoned.iter().any(|dir| dir == "*") {
        return require(cordoned.len() == 1, "cordoned.log.dirs", || {
            "When cordoned.log.dirs is set to *, it must not contain other values".to_owned()
        });
    }
    let known = |dir: &&String| config.log_dirs.iter().any(|log_dir| log_dir.as_os_str() == dir.as_str());
    let unknown: Vec<&str> = cordoned.iter().filter(|dir| !known(dir)).map(String::as_str).collect();
    require(unknown.is_empty(), "cordoned.log.dirs", || {
        format!(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : {}",
            unknown.join(", ")
        )
    })
}
