//! `odradek perf`: a lean load generator for any broker that speaks Kafka's protocol.
//!
//! Runs on cores of its own, one thread each, in a process of its own: every core has its share of the connections and its
//! own counters, and hands these in once a second. Batches are made before the start and only get a new header when they
//! are sent, so that the tool costs a fraction of what a broker spends on them.
//!
//! With a rate, every record has a moment at which it should be sent, whatever became of those before it, and its latency
//! counts from that moment: a broker that stalls is charged with all the records that had to wait (no coordinated
//! omission). Without one, every connection sends as fast as it is answered.
//!
//! It does not know the broker of this project. `group` and `commit` speak the protocols of groups; everything else assigns
//! partitions to consumers and negotiates nothing.

mod args;
mod cluster;
mod commit;
mod conn;
mod consume;
mod coordinator;
mod core;
mod crc_shift;
mod drive;
mod group;
mod idle;
mod link;
mod meter;
mod plan;
mod produce;
mod report;
mod run;
mod schedule;
mod template;
mod units;
mod watch;

pub use crate::args::{Command, CommitArgs, ConsumeArgs, E2eArgs, GroupArgs, IdleArgs, ProduceArgs};

/// Why a run ends without success.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for something that cannot be done.
    Usage(String),
    /// The run failed, or something in it did.
    Run(String),
}

/// Does what the command line says and prints the result to standard output, progress to standard error.
///
/// # Errors
/// [`Failure`]; when records failed, after the result was printed.
pub fn run(command: Command) -> Result<(), Failure> {
    let (file, told) = match command {
        Command::Commit(args) => {
            commit::plan(&args).map_err(Failure::Usage)?;
            (args.run.json.clone(), commit::run(args).map_err(Failure::Run)?)
        }
        Command::Group(args) => {
            group::plan(&args).map_err(Failure::Usage)?;
            (args.run.json.clone(), group::run(args).map_err(Failure::Run)?)
        }
        load => {
            let plan = plan::Plan::of(load).map_err(Failure::Usage)?;
            let file = plan.run.json.clone();
            let outcome = run::run(plan).map_err(Failure::Run)?;
            (file, coordinator::Told { text: outcome.text(), json: outcome.json(), failure: outcome.failure() })
        }
    };
    print!("{}", told.text);
    if let Some(path) = file {
        std::fs::write(&path, format!("{}\n", told.json))
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    told.failure.map_or(Ok(()), |why| Err(Failure::Run(why)))
}
