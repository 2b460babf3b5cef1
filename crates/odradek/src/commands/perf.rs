//! `odradek perf`

use super::{Exit, Outcome};

/// Load a broker and measure it.
///
/// Works against any broker that speaks Kafka's protocol. With --rate records are sent at even distances and their latency
/// counts from the moment when they should have been sent; without it every connection sends as fast as it is answered.
/// The result goes to standard output, with the CPU time of the tool itself; progress goes to standard error. The exit
/// status is 1 if a record or a connection failed.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ::perf::Command,
}

const EXAMPLES: &str = "\
EXAMPLES
  As many records of 1 KiB as four producers can get rid of in 10 seconds
      odradek perf produce --create --partitions 6 --producers 4 --record-size 1k --duration 10s

  The latency at 20,000 records a second, from producer to consumer
      odradek perf e2e --create --partitions 6 --record-size 1k --rate 20k --warmup 2s --duration 10s

  Everything that is in a topic, with checksums
      odradek perf consume --topic perf --stop-at-end --check-crc

  1,000 consumers that wait for nothing
      odradek perf idle --topic perf --consumers 1000 --duration 30s

  A group of 1,000 members until it is stable, as many heartbeats as are answered, and a restart of 100 members at a time
      odradek perf group --create --partitions 1000 --members 1000 --protocol consumer --roll 100

  The latency of 1,000 offset commits a second
      odradek perf commit --create --partitions 100 --groups 100 --rate 1k --duration 10s

  1,000,000 offsets of 1,000 groups; after a restart of the broker the time until they are loaded
      odradek perf commit --create --partitions 1000 --fill 1m
      odradek perf commit --partitions 1000 --check 1m";

pub(crate) fn run(args: Args) -> Outcome {
    ::perf::run(args.command).map_err(|failure| match failure {
        ::perf::Failure::Usage(message) => Exit { message, status: 2 },
        ::perf::Failure::Run(message) => Exit { message, status: 1 },
    })
}
