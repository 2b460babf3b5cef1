//! `odradek format`

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Exit, Outcome};
use crate::config_file;
use crate::storage::features::{Wanted, parse_level};
use crate::storage::format::{Request, Voters, format};

/// Prepare the directories of a node.
///
/// Writes meta.properties into every directory of log.dirs and, on a controller, the first snapshot of the metadata log
/// into metadata.log.dir, exactly as Kafka's kafka-storage format does: either tool may format for either broker. A node
/// whose controllers are listed in controller.quorum.voters needs no more options; otherwise say who votes at first with
/// --standalone, --initial-controllers or --no-initial-controllers.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the cluster, the same on all of its nodes; `odradek random-uuid` makes one.
    #[arg(short = 't', long, value_name = "ID")]
    cluster_id: String,

    /// The node's properties file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,

    /// Set one option over the file; may be repeated.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,

    /// Leave directories alone that are formatted already, instead of refusing.
    #[arg(short = 'g', long)]
    ignore_formatted: bool,

    /// Begin with the feature levels of this release, such as 4.3 or 4.3-IV0, instead of the newest.
    #[arg(short, long, value_name = "RELEASE")]
    release_version: Option<String>,

    /// Begin with this level of a feature, such as share.version=1; may be repeated.
    #[arg(short, long = "feature", value_name = "NAME=LEVEL")]
    features: Vec<String>,

    /// Begin a dynamic quorum with this controller as its only voter.
    #[arg(short, long, conflicts_with_all = ["no_initial_controllers", "initial_controllers"])]
    standalone: bool,

    /// Begin without voters: this node will join a dynamic quorum.
    #[arg(short = 'N', long, conflicts_with = "initial_controllers")]
    no_initial_controllers: bool,

    /// Begin a dynamic quorum with these voters, id@host:port:directory separated by commas, the same on all of them.
    #[arg(short = 'I', long, value_name = "VOTERS")]
    initial_controllers: Option<String>,

    /// Not supported: this broker does not authenticate clients yet. Refused.
    #[arg(short = 'S', long, value_name = "CREDENTIAL")]
    add_scram: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    if !args.add_scram.is_empty() {
        return Err(Exit::from(
            "--add-scram is not supported: this broker does not authenticate clients yet, and a credential that nobody \
             checks would be a false promise. Nothing was formatted.",
        ));
    }
    let config = config_file::parse(config_file::read(&args.config, &args.overrides)?)?;
    let mut levels = BTreeMap::new();
    for text in &args.features {
        let (name, level) = parse_level(text)?;
        levels.insert(name, level);
    }
    let voters = match (args.standalone, args.no_initial_controllers, args.initial_controllers) {
        (true, _, _) => Voters::Standalone,
        (_, true, _) => Voters::None,
        (_, _, Some(text)) => Voters::Given(text),
        _ => Voters::Unsaid,
    };
    let request = Request {
        cluster_id: args.cluster_id,
        ignore_formatted: args.ignore_formatted,
        features: Wanted { release: args.release_version, levels, dynamic_quorum: false },
        voters,
    };
    for line in reactor::block_on(async move { format(&config, &request).await })? {
        println!("{line}");
    }
    Ok(())
}
