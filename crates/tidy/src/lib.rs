//! Keeps the house in order: the crate layers, the size ratchets and the rules that no compiler checks.
//!
//! Runs only as tests (`cargo test -p odradek-tidy`). It knows the shape of the source text, nothing of what it does.

use std::fs;
use std::path::{Path, PathBuf};

pub mod functions;

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/tidy lies in the checkout").to_path_buf()
}

/// A source file of the project.
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// True for code that only tests or benchmarks run.
    pub fn is_test(&self) -> bool {
        let p = &self.path;
        p.starts_with("tests/")
            || p.starts_with("benches/")
            || p.contains("/tests/")
            || p.contains("/benches/")
            || p.ends_with("tests.rs")
            || p.ends_with("_test.rs")
            || p.starts_with("crates/tidy/")
    }

    /// The name of the crate's folder.
    pub fn crate_name(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|p| p.split('/').next()).unwrap_or("")
    }

    /// The lines outside `#[cfg(test)] mod`, numbered from 1. Test modules stand at the end of a file by convention.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let all: Vec<&str> = self.text.lines().collect();
        let end = all
            .windows(2)
            .position(|w| w[0].trim() == "#[cfg(test)]" && w[1].trim_start().starts_with("mod ") && w[1].contains('{'))
            .unwrap_or(all.len());
        all.into_iter().take(end).enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Every Rust file below `crates`, `tests` and `benches`.
pub fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    for top in ["crates", "tests", "benches"] {
        walk(&root.join(top), &mut |path| {
            if path.extension().is_some_and(|e| e == "rs") {
                let relative = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
                found.push(Source { path: relative, text: fs::read_to_string(path).expect("source text is UTF-8") });
            }
        });
    }
    assert!(found.len() > 50, "the source files were not found below {}", root.display());
    found
}

fn walk(dir: &Path, visit: &mut dyn FnMut(&Path)) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).expect("the folder can be listed").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            if !name.starts_with("target") && !name.starts_with('.') {
                walk(&path, visit);
            }
        } else {
            visit(&path);
        }
    }
}
