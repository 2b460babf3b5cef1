//! `meta.properties`: whose a directory is.

use std::path::PathBuf;

use base::Uuid;

use crate::properties::{Properties, PropertiesError};

/// Name of the file in every log directory.
pub const META_PROPERTIES: &str = "meta.properties";

/// What a formatted directory says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaProperties {
    /// `version`: 1 since KRaft; 0 was written by clusters that used ZooKeeper.
    pub version: u8,
    /// `cluster.id`: always there from version 1 on.
    pub cluster_id: Option<String>,
    /// `node.id`, in version 0 `broker.id`.
    pub node_id: Option<i32>,
    /// `directory.id` (KIP-858); directories formatted before 3.7 have none.
    pub directory_id: Option<Uuid>,
}

/// A `meta.properties` that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetaPropertiesError {
    /// It is no properties file.
    #[error(transparent)]
    Syntax(#[from] PropertiesError),
    /// An entry is missing.
    #[error("Failed to find {0}")]
    Missing(&'static str),
    /// An entry is not what it must be.
    #[error("Unable to read {name} as {what}: {value:?}")]
    Malformed {
        /// The entry.
        name: &'static str,
        /// What it must be.
        what: &'static str,
        /// What it is.
        value: String,
    },
}

impl MetaProperties {
    /// Of a directory formatted now.
    pub fn new(cluster_id: &str, node_id: i32, directory_id: Uuid) -> MetaProperties {
        MetaProperties {
            version: 1,
            cluster_id: Some(cluster_id.to_owned()),
            node_id: Some(node_id),
            directory_id: Some(directory_id),
        }
    }

    /// Reads the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<MetaProperties, MetaPropertiesError> {
        let properties = Properties::parse(bytes)?;
        let malformed =
            |name, what, value: &str| MetaPropertiesError::Malformed { name, what, value: value.to_owned() };
        let number = |name: &'static str| {
            let parse = |text: &str| text.parse::<i32>().map_err(|_| malformed(name, "a base-10 number", text));
            properties.get(name).map(parse).transpose()
        };
        let version = match number("version")?.unwrap_or(0) {
            0 => 0,
            1 => 1,
            other => return Err(malformed("version", "a version this software knows", &other.to_string())),
        };
        let node_id = match version {
            0 => number("broker.id")?,
            _ => Some(number("node.id")?.ok_or(MetaPropertiesError::Missing("node.id"))?),
        };
        let id = |text: &str| text.parse::<Uuid>().map_err(|_| malformed("directory.id", "a Uuid", text));
        Ok(MetaProperties {
            version,
            cluster_id: properties.get("cluster.id").map(str::to_owned),
            node_id,
            directory_id: properties.get("directory.id").map(id).transpose()?,
        })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut properties = Properties::new();
        properties.set("version", self.version.to_string());
        if let Some(cluster_id) = &self.cluster_id {
            properties.set("cluster.id", cluster_id.as_str());
        }
        if let Some(node_id) = self.node_id {
            properties.set(if self.version == 0 { "broker.id" } else { "node.id" }, node_id.to_string());
        }
        if let Some(directory_id) = self.directory_id {
            properties.set("directory.id", directory_id.to_string());
        }
        format!("#\n{}", properties.to_text())
    }
}

/// A formatted log directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDirectory {
    /// Where it is.
    pub path: PathBuf,
    /// Its `directory.id`.
    pub id: Uuid,
}

/// The formatted directories of a node, verified against its configuration before it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStorage {
    /// `cluster.id`.
    pub cluster_id: String,
    /// The directory of the metadata log.
    pub metadata_dir: LogDirectory,
    /// The directories of `log.dirs` that can be read, in that order.
    pub log_dirs: Vec<LogDirectory>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafka_writes_is_read() {
        let text = "#\n#Sun Nov 29 16:53:23 UTC 2026\nnode.id=1\ndirectory.id=Bml0-ORraKYef_XuciNpsg\nversion=1\n\
                    cluster.id=MkU3OEVBNTcwNTJENDM2Qk\n";
        let meta = MetaProperties::parse(text.as_bytes()).unwrap();
        let id = "Bml0-ORraKYef_XuciNpsg".parse().unwrap();
        assert_eq!(meta, MetaProperties::new("MkU3OEVBNTcwNTJENDM2Qk", 1, id));
        assert_eq!(MetaProperties::parse(meta.to_text().as_bytes()).unwrap(), meta);
    }

    #[test]
    fn older_files_are_read() {
        let meta = MetaProperties::parse(b"broker.id=3\ncluster.id=x").unwrap();
        assert_eq!((meta.version, meta.node_id, meta.directory_id), (0, Some(3), None));
    }

    #[test]
    fn malformed_files_are_refused() {
        let cases = [
            ("version=1", "Failed to find node.id"),
            ("version=1\nnode.id=x", "Unable to read node.id as a base-10 number: \"x\""),
            ("version=2\nnode.id=1", "Unable to read version as a version this software knows: \"2\""),
            ("version=1\nnode.id=1\ndirectory.id=!", "Unable to read directory.id as a Uuid: \"!\""),
        ];
        for (text, want) in cases {
            assert_eq!(MetaProperties::parse(text.as_bytes()).unwrap_err().to_string(), want);
        }
    }
}
