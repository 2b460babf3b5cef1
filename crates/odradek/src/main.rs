//! The `odradek` command: starts the broker, formats its directories, looks into them, loads a broker.
//!
//! One file per subcommand in `commands/`. What a subcommand prints for a user goes to standard output, what it has to
//! complain about to standard error; the running broker logs to standard output. It does not know how a broker works:
//! it puts a configuration and verified directories together and hands them to `broker`.

mod commands;
mod config_file;
mod logging;
mod machine;
mod storage;

use std::process::ExitCode;

use clap::Parser;

use commands::{Command, Exit};

/// What `--version` says. A debug build names itself: it is many times slower, so nobody should measure it by mistake.
pub(crate) const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// A Kafka 4.4 broker and controller on io_uring.
///
/// Odradek serves the Kafka protocol to unchanged clients, from Kafka's own file formats, with one pinned thread per
/// CPU. `odradek start` without further ado runs a single node on localhost:9092 for trying things out; with a
/// properties file it takes the place of Kafka's kafka-server-start.
#[derive(Parser)]
#[command(name = "odradek", version = VERSION, propagate_version = true, max_term_width = 100, after_long_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
EXAMPLES
  Try it out: a node on localhost:9092 that keeps its data in ./odradek-data
      odradek start

  A node from a Kafka properties file
      odradek format --cluster-id \"$(odradek random-uuid)\" --config server.properties --standalone
      odradek start --config server.properties

  What is in a segment
      odradek dump-log --deep-iteration --files odradek-data/orders-0/00000000000000000000.log

ENVIRONMENT
  ODRADEK_LOG   What the log prints, over the option odradek.log.level: error, warn,
                info, debug, trace, or a list such as info,log=debug.

EXIT STATUS
  0  done, or stopped in good order by SIGTERM or SIGINT
  1  refused or failed; standard error says why
  2  the command line is not understood";

fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Exit { message, status }) => {
            if !message.is_empty() {
                eprintln!("odradek: {message}");
            }
            ExitCode::from(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
