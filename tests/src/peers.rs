//! Where the broker under test and the installed peers are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the checkout").to_path_buf()
}

/// The folder of Apache Kafka's jars: `ODRADEK_KAFKA_LIBS`, or where `scripts/install-peers` puts them.
pub fn kafka_libs() -> PathBuf {
    let libs =
        std::env::var_os("ODRADEK_KAFKA_LIBS").map_or_else(|| root().join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(libs.is_dir(), "{} is missing: run scripts/install-peers", libs.display());
    libs
}

/// What `scripts/install-peers` put at `path` below `.cache`.
pub fn installed(path: &str) -> PathBuf {
    let found = root().join(".cache").join(path);
    assert!(found.exists(), "{} is missing: run scripts/install-peers", found.display());
    found
}

/// The `odradek` binary: `ODRADEK_BIN`, or a release build made once.
pub fn odradek() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("ODRADEK_BIN") {
            return PathBuf::from(path);
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet", "-p", "odradek"])
            .current_dir(root())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the broker does not build");
        target_dir().join("release/odradek")
    })
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
