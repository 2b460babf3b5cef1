//! `odradek start`

use std::path::{Path, PathBuf};

use broker::Identity;
use config::{BrokerConfig, Durability, NodeStorage, Properties};

use super::{Exit, Outcome, fresh_uuid};
use crate::machine::{Checked, Demand, Machine, Weight, usable_cpus};
use crate::storage::features::Wanted;
use crate::storage::format::{Request, Voters, format, is_fresh};
use crate::storage::load;
use crate::{config_file, logging};

/// Run a node.
///
/// It takes Kafka's own server.properties, with --config or, as kafka-server-start does, alone; the directories must have been formatted by `odradek format` or
/// kafka-storage. Options Kafka knows and this broker does not act on are named once in the log; unknown ones are warned
/// about; a value that is not acceptable stops the start.
///
/// Without a file it is a broker and controller in one, for trying things out: clients find it on localhost:9092, its
/// data lies in ./odradek-data, which is formatted the first time. Everything can be changed with --override.
///
/// SIGTERM and SIGINT stop it in good order.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Properties file in Kafka's format.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The same, as kafka-server-start takes it.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Set one option over the file or the built-in configuration; may be repeated.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,

    /// Where a node without a file keeps its data.
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["config", "file"])]
    data_dir: Option<PathBuf>,
}

/// The built-in configuration: one node, reachable from this machine only.
const BUILT_IN: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"),
    ("controller.listener.names", "CONTROLLER"),
    ("controller.quorum.bootstrap.servers", "localhost:9093"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
];

/// Folder of the data in the working directory, or, if that cannot be written to, in the user's data directory.
const DATA_DIR: &str = "odradek-data";

pub(crate) fn run(args: Args) -> Outcome {
    let (properties, quick) = match args.config.as_ref().or(args.file.as_ref()) {
        Some(path) => (config_file::read(path, &args.overrides)?, false),
        None => (config_file::with_overrides(built_in(args.data_dir.as_deref())?, &args.overrides)?, true),
    };
    let config = config_file::parse(properties)?;
    logging::start(&config.own.log_level)?;
    tell_options(&config, if quick { &args.overrides } else { &[] }, quick);
    let storage = reactor::block_on({
        let config = config.clone();
        async move { open(&config, quick).await }
    })?;
    tell_node(&config, &storage);
    tell_machine(&config);
    serve(config, storage)
}

/// The configuration of a node without a properties file.
pub(super) fn built_in(data_dir: Option<&Path>) -> Result<Properties, Exit> {
    let directory = match data_dir {
        Some(directory) => directory.to_owned(),
        None => default_data_dir(),
    };
    let directory = std::path::absolute(directory)?;
    let mut properties: Properties = BUILT_IN.iter().copied().collect();
    properties.set("log.dirs", directory.to_string_lossy());
    Ok(properties)
}

fn default_data_dir() -> PathBuf {
    let here = PathBuf::from(DATA_DIR);
    let writable = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| !meta.permissions().readonly());
    if here.is_dir() || writable(Path::new(".")) {
        return here;
    }
    let home = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    home.map_or(here, |home| home.join(DATA_DIR))
}

/// Verifies the directories; a node without a properties file formats them the first time.
async fn open(config: &BrokerConfig, quick: bool) -> Result<NodeStorage, Exit> {
    if quick && is_fresh(config).await {
        let dynamic = config.quorum.voters.is_empty();
        let request = Request {
            cluster_id: fresh_uuid().to_string(),
            ignore_formatted: false,
            features: Wanted::default(),
            voters: if dynamic { Voters::Standalone } else { Voters::Unsaid },
        };
        for line in format(config, &request).await? {
            tracing::info!("{line}");
        }
    }
    let (storage, notes) = load::open(config).await?;
    for note in notes {
        tracing::warn!("{note}");
    }
    Ok(storage)
}

/// Names options that have no effect; of a node without a properties file only those that the user set.
fn tell_options(config: &BrokerConfig, overrides: &[String], quick: bool) {
    let by_user = |name: &str| overrides.iter().any(|text| text.split('=').next().map(str::trim) == Some(name));
    for name in config.unknown_options() {
        tracing::warn!("option {name} is not known and has no effect");
    }
    let mut inactive = config.inactive_options();
    inactive.retain(|name| !quick || by_user(name));
    if !inactive.is_empty() {
        tracing::info!("options that are accepted and have no effect yet: {}", inactive.join(", "));
    }
}

fn tell_node(config: &BrokerConfig, storage: &NodeStorage) {
    let roles: Vec<&str> = [(config.roles.broker, "broker"), (config.roles.controller, "controller")]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect();
    tracing::info!(
        "odradek {} starts node {} ({}) of cluster {}",
        crate::VERSION,
        config.node_id,
        roles.join(", "),
        storage.cluster_id
    );
    for directory in &storage.log_dirs {
        tracing::info!("log directory {} has id {}", directory.path.display(), directory.id);
    }
    tracing::info!("metadata log directory {}", storage.metadata_dir.path.display());
    let (cores, dedicated) = config.own.layout(usable_cpus());
    tracing::info!(
        "{cores} data core{}, {}, {}",
        if cores == 1 { "" } else { "s" },
        if dedicated { "the controller on a core of its own" } else { "the controller on data core 0" },
        if config.own.core_pinning { "pinned" } else { "not pinned" }
    );
    match config.own.durability {
        Durability::Durable => tracing::info!(
            "durability is durable: acks=all is answered when the data is on the device and survives power loss"
        ),
        Durability::Written => tracing::info!(
            "durability is written: acks=all is answered when the data is written and survives the end of the process, but \
             not power loss"
        ),
    }
}

fn tell_machine(config: &BrokerConfig) {
    for Checked { what, findings } in Machine::read().check(&Demand::of(config)) {
        for finding in findings {
            match finding.weight {
                Weight::Serious => tracing::warn!("tuning: {what}: {}", finding.advice),
                Weight::Minor => tracing::info!("tuning: {what}: {}", finding.advice),
                Weight::Optional => tracing::debug!("tuning: {what}: {}", finding.advice),
            }
        }
    }
}

/// Runs the node until it is told to stop.
fn serve(mut config: BrokerConfig, storage: NodeStorage) -> Outcome {
    let identity = Identity {
        cluster_id: storage.cluster_id,
        dir_ids: storage.log_dirs.iter().map(|directory| directory.id).collect(),
        metadata_dir_id: storage.metadata_dir.id,
    };
    // Directories that cannot be read are no longer among them.
    config.log_dirs = storage.log_dirs.into_iter().map(|directory| directory.path).collect();
    broker::run(config, identity, |endpoints| {
        for endpoint in endpoints {
            tracing::info!("listener {} serves on {}", endpoint.name, endpoint.addr);
        }
    })?;
    tracing::info!("stopped");
    Ok(())
}
