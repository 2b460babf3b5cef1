//! `odradek format`: what `kafka-storage format` does to directories.

use std::path::Path;

use config::{BrokerConfig, MetaProperties};

use super::StorageError;
use super::bootstrap::{CHECKPOINT, METADATA_LOG, Times, checkpoint};
use super::features::{Levels, Wanted, decide};
use super::load;
use super::voters::{self, InitialVoter};

/// Who votes at first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Voters {
    /// Nothing was said: those of `controller.quorum.voters`.
    Unsaid,
    /// `--standalone`: this node.
    Standalone,
    /// `--no-initial-controllers`: it will be told by others.
    None,
    /// `--initial-controllers`.
    Given(String),
}

/// What is to be formatted.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `--cluster-id`.
    pub(crate) cluster_id: String,
    /// `--ignore-formatted`.
    pub(crate) ignore_formatted: bool,
    /// `--release-version` and `--feature`.
    pub(crate) features: Wanted,
    /// First voters.
    pub(crate) voters: Voters,
}

/// What a directory is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    StaticMetadata,
    DynamicMetadata,
    DynamicMetadataVoter,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Data => "data directory",
            Kind::StaticMetadata => "metadata directory",
            Kind::DynamicMetadata => "dynamic metadata directory",
            Kind::DynamicMetadataVoter => "dynamic metadata voter directory",
        }
    }
}

/// Formats the directories of a node; returns what to tell the user, a line each.
pub(crate) async fn format(config: &BrokerConfig, request: &Request) -> Result<Vec<String>, StorageError> {
    let voters = first_voters(config, &request.voters)?;
    let mut features = request.features.clone();
    features.dynamic_quorum = config.quorum.voters.is_empty();
    let levels = decide(&features)?;
    let paths = load::all_of(config);
    let found = load::read(&paths).await;
    found.verify(Some(&request.cluster_id), config.node_id)?;
    if let (Some(path), false) = (found.formatted.keys().next(), request.ignore_formatted) {
        return Err(StorageError::new(format!(
            "Log directory {} is already formatted. Use --ignore-formatted to ignore this directory and format the others.",
            path.display()
        )));
    }
    let mut lines = Vec::new();
    for (path, error) in &found.failed {
        lines.push(format!("I/O error trying to read log directory {}. Ignoring... ({error})", path.display()));
    }
    if found.empty.is_empty() && found.formatted.is_empty() {
        return Err(StorageError::new("No available log directories to format."));
    }
    if found.empty.is_empty() {
        lines.push("All of the log directories are already formatted.".to_owned());
    }
    for path in &found.empty {
        let kind = kind_of(config, path, voters.as_deref());
        lines.push(format!(
            "Formatting {} {} with metadata.version {}.",
            kind.name(),
            path.display(),
            levels.release.name()
        ));
        let own_voter = voters.iter().flatten().find(|voter| voter.id == config.node_id);
        let id = match own_voter {
            Some(voter) if kind == Kind::DynamicMetadataVoter => voter.directory_id,
            _ => crate::commands::fresh_uuid(),
        };
        if kind != Kind::Data && config.roles.controller {
            write_checkpoint(config, path, &levels, voters.as_deref()).await?;
        }
        load::write(path, &MetaProperties::new(&request.cluster_id, config.node_id, id)).await?;
    }
    Ok(lines)
}

fn first_voters(config: &BrokerConfig, wanted: &Voters) -> Result<Option<Vec<InitialVoter>>, StorageError> {
    let static_voters = !config.quorum.voters.is_empty();
    if static_voters && matches!(wanted, Voters::Standalone | Voters::Given(_)) {
        return Err(StorageError::new(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If \
             you want to use dynamic quorum, please remove controller.quorum.voters and specify \
             controller.quorum.bootstrap.servers instead.",
        ));
    }
    match wanted {
        Voters::Given(text) => voters::parse(text).map(Some),
        Voters::Standalone => voters::standalone(config, crate::commands::fresh_uuid()).map(Some),
        Voters::None => Ok(None),
        Voters::Unsaid if static_voters || !config.roles.controller => Ok(None),
        Voters::Unsaid => Err(StorageError::new(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: \
             --standalone, --initial-controllers, or --no-initial-controllers.",
        )),
    }
}

fn kind_of(config: &BrokerConfig, path: &Path, voters: Option<&[InitialVoter]>) -> Kind {
    if path != config.metadata_log_dir {
        return Kind::Data;
    }
    match voters {
        None => Kind::StaticMetadata,
        Some(voters) if voters.iter().any(|voter| voter.id == config.node_id) => Kind::DynamicMetadataVoter,
        Some(_) => Kind::DynamicMetadata,
    }
}

/// Writes the first snapshot of the metadata log, read-only like every snapshot.
async fn write_checkpoint(
    config: &BrokerConfig,
    path: &Path,
    levels: &Levels,
    voters: Option<&[InitialVoter]>,
) -> Result<(), StorageError> {
    let listener = config.controller_listener_names.first().map_or("", String::as_str);
    let bytes = checkpoint(levels, voters, listener, Times::all(reactor::now().wall_ms))?;
    let directory = path.join(METADATA_LOG);
    let file = directory.join(CHECKPOINT);
    let write = async {
        reactor::fs::create_dir_all(&directory).await?;
        reactor::fs::write_atomic_durable(&file, bytes).await?;
        let mut permissions = std::fs::metadata(&file)?.permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&file, permissions)
    };
    write.await.map_err(|error| StorageError::new(format!("{} cannot be written: {error}", file.display())))
}

/// Whether the metadata directory of a node has not been formatted yet.
pub(crate) async fn is_fresh(config: &BrokerConfig) -> bool {
    let found = load::read(std::slice::from_ref(&config.metadata_log_dir)).await;
    found.formatted.is_empty() && found.failed.is_empty()
}
