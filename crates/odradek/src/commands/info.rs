//! `odradek info`

use std::path::PathBuf;

use config::META_PROPERTIES;

use super::{Exit, Outcome};
use crate::config_file;
use crate::storage::load;

/// Show what the directories of a node hold.
///
/// Prints the directories of log.dirs and metadata.log.dir, what their meta.properties say, and whatever is wrong with
/// them. The exit status is 1 if anything is.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's properties file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,

    /// Set one option over the file; may be repeated.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let config = config_file::parse(config_file::read(&args.config, &args.overrides)?)?;
    let paths = load::all_of(&config);
    let node_id = config.node_id;
    let (existing, missing): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| path.is_dir());
    let there = existing.clone();
    let found = reactor::block_on(async move { load::read(&there).await });
    let mut problems: Vec<String> =
        missing.iter().map(|path| format!("{} does not exist or is not a directory", path.display())).collect();
    problems.extend(found.empty.iter().map(|path| format!("{} is not formatted.", path.display())));
    let failed =
        |(path, error): &(PathBuf, String)| format!("Error loading {}: {error}", path.join(META_PROPERTIES).display());
    problems.extend(found.failed.iter().map(failed));
    problems.extend(found.verify(None, node_id).err().map(|error| error.to_string()));
    if !existing.is_empty() {
        println!("Found log directories:");
        existing.iter().for_each(|path| println!("  {}", path.display()));
        println!();
    }
    for (path, meta) in &found.formatted {
        let shown = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        println!(
            "Found metadata in {}: {{cluster.id={}, directory.id={}, node.id={}, version={}}}",
            path.display(),
            shown(meta.cluster_id.clone()),
            shown(meta.directory_id.map(|id| id.to_string())),
            shown(meta.node_id.map(|id| id.to_string())),
            meta.version
        );
    }
    if problems.is_empty() {
        return Ok(());
    }
    println!("\nFound problem{}:", if problems.len() == 1 { "" } else { "s" });
    problems.iter().for_each(|problem| println!("  {problem}"));
    Err(Exit { message: String::new(), status: 1 })
}
