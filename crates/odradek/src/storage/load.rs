//! Reads and verifies the directories of a node before it starts. Texts are Kafka's where it has them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base::Uuid;
use config::{BrokerConfig, LogDirectory, META_PROPERTIES, MetaProperties, NodeStorage};

use super::StorageError;

/// What lies in a node's directories.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// Formatted ones.
    pub(crate) formatted: BTreeMap<PathBuf, MetaProperties>,
    /// Those without a `meta.properties`.
    pub(crate) empty: Vec<PathBuf>,
    /// Those that cannot be read, and why.
    pub(crate) failed: Vec<(PathBuf, String)>,
}

/// The directories of `log.dirs` and of the metadata log, sorted, each once.
pub(crate) fn all_of(config: &BrokerConfig) -> Vec<PathBuf> {
    let mut paths = config.log_dirs.clone();
    paths.push(config.metadata_log_dir.clone());
    paths.sort();
    paths.dedup();
    paths
}

/// Looks into the directories.
pub(crate) async fn read(paths: &[PathBuf]) -> Directories {
    let mut found = Directories::default();
    for path in paths {
        match reactor::fs::read(path.join(META_PROPERTIES)).await {
            Ok(bytes) => match MetaProperties::parse(&bytes) {
                Ok(meta) => drop(found.formatted.insert(path.clone(), meta)),
                Err(error) => found.failed.push((path.clone(), error.to_string())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => found.empty.push(path.clone()),
            Err(error) => found.failed.push((path.clone(), error.to_string())),
        }
    }
    found
}

impl Directories {
    /// Checks that the formatted directories are of one node and cluster: those expected, or those of the first.
    /// Returns the cluster id.
    pub(crate) fn verify(&self, cluster_id: Option<&str>, node_id: i32) -> Result<Option<String>, StorageError> {
        let mut expected = cluster_id.map(str::to_owned);
        let mut ids: BTreeMap<Uuid, &Path> = BTreeMap::new();
        for (path, meta) in &self.formatted {
            let file = path.join(META_PROPERTIES);
            let file = file.display();
            match (&meta.cluster_id, &expected) {
                (None, _) if meta.version == 0 => {}
                (None, _) => {
                    return Err(StorageError::new(format!("cluster.id was not specified in the v1 file: {file}")));
                }
                (Some(id), None) => expected = Some(id.clone()),
                (Some(id), Some(expected)) if id != expected => {
                    return Err(StorageError::new(format!(
                        "Invalid cluster.id in: {file}. Expected {expected}, but read {id}"
                    )));
                }
                (Some(_), Some(_)) => {}
            }
            match meta.node_id {
                Some(id) if id != node_id => {
                    return Err(StorageError::new(format!(
                        "Stored node id {id} doesn't match previous node id {node_id} in {file}. If you moved your data, \
                         make sure your configured node id matches. If you intend to create a new node, you should remove \
                         all data in your data directories."
                    )));
                }
                _ => {}
            }
            let Some(id) = meta.directory_id else { continue };
            if metadata::directory_id::is_reserved(id) {
                let path = path.display();
                return Err(StorageError::new(format!("Invalid reserved directory ID {id} found in {path}")));
            }
            if let Some(other) = ids.insert(id, path) {
                return Err(StorageError::new(format!(
                    "Duplicate directory ID {id} found. It was the ID of {}, but also of {}",
                    other.display(),
                    path.display()
                )));
            }
        }
        Ok(expected)
    }
}

/// The verified directories of a node that is about to start, and notes for its log. A directory that was added to
/// `log.dirs` is formatted, one that cannot be read is left out.
pub(crate) async fn open(config: &BrokerConfig) -> Result<(NodeStorage, Vec<String>), StorageError> {
    let paths = all_of(config);
    let mut found = read(&paths).await;
    let mut notes = Vec::new();
    for (path, error) in &found.failed {
        if *path == config.metadata_log_dir {
            return Err(StorageError::new(format!(
                "Encountered I/O error in metadata log directory {}. Cannot continue. ({error})",
                path.display()
            )));
        }
        notes.push(format!("log directory {} is left out: {error}", path.display()));
    }
    if found.formatted.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(StorageError::new(format!(
            "No readable meta.properties files found in {}. Format with `odradek format` or `kafka-storage format` first.",
            paths.join(", ")
        )));
    }
    let cluster_id = found.verify(None, config.node_id)?;
    let cluster_id = cluster_id.ok_or_else(|| StorageError::new("no directory has a cluster.id"))?;
    if let Some((path, _)) = found.formatted.iter().find(|(_, meta)| meta.version == 0) {
        return Err(StorageError::new(format!(
            "{} was formatted for a cluster that uses ZooKeeper, which Kafka 4 and this broker do not support.",
            path.display()
        )));
    }
    complete(config, &mut found, &cluster_id, &mut notes).await?;
    let directory = |path: &PathBuf| {
        let id = found.formatted.get(path)?.directory_id?;
        Some(LogDirectory { path: path.clone(), id })
    };
    let metadata_dir = directory(&config.metadata_log_dir).expect("the metadata directory has been completed");
    let log_dirs: Vec<LogDirectory> = config.log_dirs.iter().filter_map(directory).collect();
    if log_dirs.is_empty() {
        return Err(StorageError::new("No log directory can be used."));
    }
    Ok((NodeStorage { cluster_id, metadata_dir, log_dirs }, notes))
}

/// Gives directories what they lack: new ones a `meta.properties`, old ones a directory id.
async fn complete(
    config: &BrokerConfig,
    found: &mut Directories,
    cluster_id: &str,
    notes: &mut Vec<String>,
) -> Result<(), StorageError> {
    let fresh = || MetaProperties::new(cluster_id, config.node_id, crate::commands::fresh_uuid());
    let mut written = Vec::new();
    for path in found.empty.drain(..) {
        notes.push(format!("formatted the new log directory {}", path.display()));
        written.push((path, fresh()));
    }
    for (path, _) in found.formatted.iter().filter(|(_, meta)| meta.directory_id.is_none()) {
        notes.push(format!("gave log directory {} an id", path.display()));
        written.push((path.clone(), fresh()));
    }
    for (path, meta) in written {
        write(&path, &meta).await?;
        found.formatted.insert(path, meta);
    }
    Ok(())
}

/// Writes the `meta.properties` of a directory, which is made if need be.
pub(crate) async fn write(path: &Path, meta: &MetaProperties) -> Result<(), StorageError> {
    let file = path.join(META_PROPERTIES);
    let write = async {
        reactor::fs::create_dir_all(path).await?;
        reactor::fs::write_atomic_durable(&file, meta.to_text().into_bytes()).await
    };
    write.await.map_err(|error| {
        StorageError::new(format!("Error while writing meta.properties file {}: {error}", path.display()))
    })
}
