//! The subcommands, one file each.

mod check_machine;
mod config_docs;
mod dump_log;
mod format;
mod info;
mod perf;
mod random_uuid;
mod start;

use clap::Subcommand;

pub(crate) use random_uuid::fresh_uuid;

/// Why a command ends without success.
pub(crate) struct Exit {
    /// What to tell the user; empty if everything has been said.
    pub(crate) message: String,
    /// Exit status.
    pub(crate) status: u8,
}

impl<E: std::fmt::Display> From<E> for Exit {
    fn from(error: E) -> Exit {
        Exit { message: error.to_string(), status: 1 }
    }
}

/// Outcome of a command.
pub(crate) type Outcome = Result<(), Exit>;

#[derive(Subcommand)]
pub(crate) enum Command {
    Start(start::Args),
    Format(format::Args),
    Info(info::Args),
    CheckMachine(check_machine::Args),
    DumpLog(dump_log::Args),
    Perf(Box<perf::Args>),
    RandomUuid(random_uuid::Args),
    ConfigDocs(config_docs::Args),
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Start(args) => start::run(args),
        Command::Format(args) => format::run(args),
        Command::Info(args) => info::run(args),
        Command::CheckMachine(args) => check_machine::run(args),
        Command::DumpLog(args) => dump_log::run(args),
        Command::Perf(args) => perf::run(*args),
        Command::RandomUuid(args) => random_uuid::run(args),
        Command::ConfigDocs(args) => config_docs::run(args),
    }
}
