//! The command line, checked: what is done, with everything that can be known to be wrong found before it starts.

use std::net::SocketAddr;
use std::time::Duration;

use records::Codec;

use crate::args::{Acks, Command, Extent, From, Load, Read, Run, Spread, Target};
use crate::conn::resolve;
use crate::template::{Recipe, STAMP_BYTES};

/// Connections and partitions that one run may have: beyond that the tool, not the broker, is what is measured.
const CONNECTIONS_MAX: usize = 100_000;
/// Bytes of a batch: a request has to carry its length in an `i32`, and the variants of a batch are kept in memory.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// What is done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The sub-command's name.
    pub(crate) mode: &'static str,
    /// Where to begin.
    pub(crate) bootstrap: Vec<SocketAddr>,
    pub(crate) topics: Vec<TopicPlan>,
    pub(crate) create: bool,
    pub(crate) delete: bool,
    pub(crate) partitions: Option<i32>,
    pub(crate) replication_factor: i16,
    pub(crate) topic_configs: Vec<(String, String)>,
    /// What is sent, if anything is.
    pub(crate) load: Option<LoadPlan>,
    /// What is read, if anything is.
    pub(crate) read: Option<ReadPlan>,
    /// Connections that say nothing.
    pub(crate) connections: usize,
    pub(crate) records: Option<u64>,
    pub(crate) duration: Option<Duration>,
    pub(crate) warmup: Duration,
    pub(crate) threads: usize,
    pub(crate) run: Run,
}

/// One topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicPlan {
    pub(crate) name: String,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) producers: usize,
    pub(crate) recipe: Recipe,
    pub(crate) linger_ns: u64,
    pub(crate) acks: Acks,
    pub(crate) idempotent: bool,
    pub(crate) rate: Option<u64>,
    pub(crate) in_flight: usize,
    pub(crate) by_record: bool,
    pub(crate) batches_per_request: usize,
    pub(crate) request_timeout: Duration,
    /// Values carry the time they should be sent at.
    pub(crate) stamped: bool,
}

/// What is read.
#[derive(Clone, Debug)]
pub(crate) struct ReadPlan {
    pub(crate) consumers: usize,
    pub(crate) fanout: usize,
    pub(crate) max_wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) partition_max_bytes: i32,
    pub(crate) check_crc: bool,
    pub(crate) from: From,
    pub(crate) stop_at_end: bool,
}

impl Plan {
    /// Checks a command line.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn of(command: Command) -> Result<Plan, String> {
        match command {
            Command::Produce(args) => {
                let plan = Plan::base("produce", args.target, Some(args.extent), args.run)?;
                Plan { load: Some(load(args.load, false)?), ..plan }.checked()
            }
            Command::Consume(args) => {
                let mut plan = Plan::base("consume", args.target, Some(args.extent), args.run)?;
                plan.read = Some(ReadPlan { from: args.from, stop_at_end: args.stop_at_end, ..read(args.read)? });
                plan.checked()
            }
            Command::E2e(args) => {
                let mut plan = Plan::base("e2e", args.target, Some(args.extent), args.run)?;
                plan.load = Some(load(args.load, true)?);
                plan.read = Some(ReadPlan { from: From::End, ..read(args.read)? });
                plan.checked()
            }
            Command::Group(_) | Command::Commit(_) => unreachable!("groups have plans of their own"),
            Command::Idle(args) => {
                let mut plan = Plan::base("idle", args.target, None, args.run)?;
                plan.duration = Some(args.duration);
                plan.connections = args.connections;
                let read = ReadPlan { from: From::End, ..read(args.read)? };
                plan.read = Some(read).filter(|read| read.consumers > 0);
                plan.checked()
            }
        }
    }

    /// What every plan begins with.
    pub(crate) fn base(mode: &'static str, target: Target, extent: Option<Extent>, run: Run) -> Result<Plan, String> {
        let mut bootstrap = Vec::new();
        for text in &target.bootstrap_server {
            let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
            let (host, port) = parts.ok_or_else(|| format!("{text:?} is no HOST:PORT"))?;
            bootstrap.push(resolve(host.trim_start_matches('[').trim_end_matches(']'), port)?);
        }
        let topic_configs = key_values(&target.topic_config)?;
        let names: Vec<String> = match target.topics {
            None => target.topic,
            Some(n) => target.topic.iter().flat_map(|name| (0..n).map(move |i| format!("{name}-{i}"))).collect(),
        };
        let extent = extent.unwrap_or(Extent { records: None, duration: None, warmup: Duration::ZERO });
        Ok(Plan {
            mode,
            bootstrap,
            topics: names.into_iter().map(|name| TopicPlan { name }).collect(),
            create: target.create,
            delete: target.delete,
            partitions: target.partitions,
            replication_factor: target.replication_factor,
            topic_configs,
            load: None,
            read: None,
            connections: 0,
            records: extent.records,
            duration: extent.duration,
            warmup: extent.warmup,
            threads: run.threads.unwrap_or(0),
            run,
        })
    }

    fn checked(mut self) -> Result<Plan, String> {
        let producers = self.load.as_ref().map_or(0, |load| load.producers);
        let consumers = self.read.as_ref().map_or(0, |read| read.consumers * read.fanout);
        let connections = producers + consumers + self.connections;
        within("connections", connections, 1, CONNECTIONS_MAX)?;
        within("--topics", self.topics.len(), 1, CONNECTIONS_MAX)?;
        if let Some(partitions) = self.partitions {
            within("--partitions", usize::try_from(partitions).unwrap_or(0), 1, CONNECTIONS_MAX)?;
        }
        let endless = self.records.is_none() && self.duration.is_none();
        if endless && !self.read.as_ref().is_some_and(|read| read.stop_at_end) {
            return Err("say when to stop: --records or --duration".to_owned());
        }
        if self.records == Some(0) || self.duration == Some(Duration::ZERO) {
            return Err("--records and --duration must be positive".to_owned());
        }
        enough_files(connections)?;
        let half = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
        let threads = if self.threads == 0 { half } else { self.threads };
        within("--threads", threads, 1, 256)?;
        self.threads = threads.min(connections);
        self.run.check()?;
        Ok(self)
    }

    /// Whether what counts ends with the time given: not where records have moments, or go without an answer, and may be on
    /// their way when the time is over.
    pub(crate) fn ends_sharply(&self) -> bool {
        self.load.as_ref().is_none_or(|load| load.rate.is_none() && load.acks != Acks::None && !load.stamped)
    }

    /// Time from the start to the end of sending, if time ends it.
    pub(crate) fn span(&self) -> Option<Duration> {
        self.duration.map(|duration| self.warmup + duration)
    }
}

/// Descriptors the process needs beside its connections: rings, standard streams, libraries.
const OTHER_FILES: usize = 64;

fn load(args: Load, stamped: bool) -> Result<LoadPlan, String> {
    within("--producers", args.producers, 1, CONNECTIONS_MAX)?;
    within("--in-flight", args.in_flight, 1, 1_000_000)?;
    within("--batches-per-request", args.batches_per_request, 1, CONNECTIONS_MAX)?;
    within("--batch-size", args.batch_size, 1, BATCH_BYTES_MAX)?;
    within("--record-size", args.record_size, if stamped { STAMP_BYTES } else { 0 }, BATCH_BYTES_MAX)?;
    let codec = Codec::from_name(&args.compression)
        .ok_or_else(|| format!("--compression {:?}: say none, gzip, snappy, lz4 or zstd", args.compression))?;
    if args.idempotent && args.acks != Acks::All {
        return Err("--idempotent needs --acks all".to_owned());
    }
    if args.idempotent && args.in_flight > 5 {
        return Err("--idempotent allows --in-flight up to 5: brokers remember the last five batches".to_owned());
    }
    if stamped && codec != Codec::None {
        return Err("e2e stamps every record, which a batch compressed beforehand cannot be: leave --compression out"
            .to_owned());
    }
    if args.rate == Some(0) {
        return Err("--rate must be positive; leave it out to send as fast as possible".to_owned());
    }
    if !args.linger_ms.is_finite() || !(0.0..=60_000.0).contains(&args.linger_ms) {
        return Err(format!("--linger-ms {} lies outside 0 to 60000", args.linger_ms));
    }
    if args.rate.is_none() && args.linger_ms > 0.0 {
        return Err("--linger-ms has a meaning with --rate alone: without it every batch is full".to_owned());
    }
    if args.rate.is_none() && args.spread == Spread::Record {
        return Err(
            "--spread record has a meaning with --rate alone; for single records pass --batch-size 1".to_owned()
        );
    }
    Ok(LoadPlan {
        producers: args.producers,
        recipe: Recipe { record_size: args.record_size, batch_size: args.batch_size, codec, payload: args.payload },
        linger_ns: (args.linger_ms * 1e6) as u64,
        acks: args.acks,
        idempotent: args.idempotent,
        rate: args.rate,
        in_flight: args.in_flight,
        by_record: args.spread == Spread::Record,
        batches_per_request: args.batches_per_request,
        request_timeout: args.request_timeout,
        stamped,
    })
}

fn read(args: Read) -> Result<ReadPlan, String> {
    within("--fanout", args.fanout, 1, CONNECTIONS_MAX)?;
    let bytes = |name, value| within(name, value, 0, i32::MAX as usize).map(|()| value as i32);
    if args.fetch_max_wait_ms < 0 {
        return Err("--fetch-max-wait-ms must not be negative".to_owned());
    }
    Ok(ReadPlan {
        consumers: args.consumers,
        fanout: args.fanout,
        max_wait_ms: args.fetch_max_wait_ms,
        min_bytes: bytes("--fetch-min-bytes", args.fetch_min_bytes)?,
        max_bytes: bytes("--fetch-max-bytes", args.fetch_max_bytes)?,
        partition_max_bytes: bytes("--partition-max-bytes", args.partition_max_bytes)?,
        check_crc: args.check_crc,
        from: From::Beginning,
        stop_at_end: false,
    })
}

/// Settings as the command line has them, KEY=VALUE.
pub(crate) fn key_values(texts: &[String]) -> Result<Vec<(String, String)>, String> {
    let parse = |text: &String| {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}

/// Refuses a number outside of its bounds.
pub(crate) fn within(name: &str, value: usize, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{name}: {value} lies outside {min} to {max}")) }
}

/// Refuses connections beyond the limit of open files.
pub(crate) fn enough_files(connections: usize) -> Result<(), String> {
    match open_files_max().filter(|max| connections + OTHER_FILES > *max) {
        Some(files) => Err(format!(
            "{connections} connections need more open files than the limit of {files}; raise it with ulimit -n"
        )),
        None => Ok(()),
    }
}

impl Run {
    /// Refuses a result that cannot be written.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(path) = &self.json
            && let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.is_dir())
        {
            return Err(format!("--json: {} is no folder", folder.display()));
        }
        Ok(())
    }
}

/// The soft limit of open files.
fn open_files_max() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let words = std::iter::once("perf").chain(line.split_whitespace());
        Plan::of(Line::try_parse_from(words).map_err(|e| e.to_string())?.command)
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        for (line, reason) in [
            ("produce", "--records or --duration"),
            ("produce --records 0", "must be positive"),
            ("produce --records 1 --bootstrap-server nowhere", "HOST:PORT"),
            ("produce --records 1 --bootstrap-server 127.0.0.1:99999", "HOST:PORT"),
            ("produce --records 1 --compression rar", "gzip"),
            ("produce --records 1 --idempotent --acks 1", "--acks all"),
            ("produce --records 1 --idempotent --in-flight 6", "up to 5"),
            ("produce --records 1 --rate 0", "--rate"),
            ("produce --records 1 --linger-ms 5", "--rate"),
            ("produce --records 1 --spread record", "--rate"),
            ("produce --records 1 --linger-ms nan --rate 5", "--linger-ms"),
            ("produce --records 1 --producers 0", "--producers"),
            ("produce --records 1 --batch-size 1g", "--batch-size"),
            ("produce --records 1 --acks 2", "--acks"),
            ("produce --records many", "no count"),
            ("produce --records 1 --partitions 0", "--partitions"),
            ("produce --records 1 --topic-config cleanup", "KEY=VALUE"),
            ("produce --records 1 --json /nowhere/at/all.json", "no folder"),
            ("consume", "--records or --duration"),
            ("consume --duration 5s --fetch-max-wait-ms=-1", "--fetch-max-wait-ms"),
            ("consume --duration 5s --fanout 0", "--fanout"),
            ("e2e --records 1 --record-size 8", "--record-size"),
            ("e2e --records 1 --compression zstd", "--compression"),
            ("idle --consumers 0", "connections"),
        ] {
            let said = plan(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(said.contains(reason), "{line}: {said}");
        }
    }

    #[test]
    fn what_can_work_is_planned() {
        let made = plan("produce --records 1m --record-size 1k --rate 50k --linger-ms 1.5 --topic a --topics 3")
            .expect("fine");
        let names: Vec<_> = made.topics.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a-0", "a-1", "a-2"]);
        let load = made.load.expect("a load");
        assert_eq!((made.records, load.rate, load.linger_ns), (Some(1_000_000), Some(50_000), 1_500_000));
        assert_eq!(load.recipe.record_size, 1024);
        assert!(plan("consume --stop-at-end").is_ok_and(|p| p.read.is_some_and(|r| r.stop_at_end)));
        assert!(plan("idle --consumers 0 --connections 3").is_ok_and(|p| p.read.is_none()));
        assert!(plan("e2e --duration 1s").is_ok_and(|p| p.load.is_some_and(|l| l.stamped)));
        assert!(plan("produce --duration 1s --bootstrap-server [::1]:9092").is_ok());
    }
}
