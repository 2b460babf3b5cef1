//! Offset commits of groups without members: as many as are answered, at a rate, or a given number of different ones, which a
//! broker has to load when it starts again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use reactor::{is_stopping, join_all, now};
use serde_json::{Value, json};
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_response::OffsetCommitResponse;
use wire::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::offset_fetch_response::OffsetFetchResponse;
use wire::{ApiKey, ErrorCode};

use crate::args::CommitArgs;
use crate::cluster::Admin;
use crate::conn::{Broken, answer};
use crate::coordinator::{Told, coordinators, group_name, is_passing, on_a_core, settings};
use crate::drive::{Done, Driven, Pace, drive};
use crate::link::Link;
use crate::meter::Meters;
use crate::plan::{Plan, enough_files, within};
use crate::report::latency_text;
use crate::units::grouped;
use crate::watch::Snapshot;

/// Commits of one request of --fill: what large consumers send.
const FILL_PARTITIONS_PER_COMMIT: usize = 1000;
/// Requests of --fill on their way on one connection.
const FILL_IN_FLIGHT: usize = 4;
/// Groups and connections that one run may have.
const GROUPS_MAX: usize = 1_000_000;
/// Pause before a group that is being loaded is asked for again.
const LOADING_PAUSE_MS: u64 = 2;
/// Requests whose offsets are committed by name: later ones name topics by their ids.
const COMMIT_VERSION_MAX: i16 = 9;

/// Runs `odradek perf commit`.
///
/// # Errors
/// Why there is no result, for people.
pub(crate) fn run(args: CommitArgs) -> Result<Told, String> {
    let begun_ns = now_of_process();
    on_a_core(move || commit(args, begun_ns))
}

/// The checked command line.
pub(crate) fn plan(args: &CommitArgs) -> Result<Plan, String> {
    let mut plan = Plan::base("commit", args.target.clone(), None, args.run.clone())?;
    plan.duration = Some(args.duration);
    plan.warmup = args.warmup;
    within("--topic", plan.topics.len(), 1, 1)?;
    within("--groups", args.groups, 1, GROUPS_MAX)?;
    within("--connections", args.connections, 1, GROUPS_MAX)?;
    within("--in-flight", args.in_flight, 1, GROUPS_MAX)?;
    within("--partitions-per-commit", args.partitions_per_commit, 1, GROUPS_MAX)?;
    if args.rate == Some(0) || args.fill == Some(0) || args.check == Some(0) {
        return Err("--rate, --fill and --check must be positive".to_owned());
    }
    if args.duration.is_zero() {
        return Err("--duration must be positive".to_owned());
    }
    enough_files(args.connections)?;
    args.run.check()?;
    Ok(plan)
}

/// A piece of work of --fill: partitions of one group.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    group: usize,
    partitions: Range<i32>,
}

/// `commits` different pairs in pieces: every partition of a group before the next group.
fn pieces(commits: u64, partitions: i32) -> Vec<Piece> {
    let (mut made, mut left, mut group) = (Vec::new(), commits, 0);
    while left > 0 {
        let end = i32::try_from(left).unwrap_or(i32::MAX).min(partitions);
        for from in (0..end).step_by(FILL_PARTITIONS_PER_COMMIT) {
            let until = end.min(from + FILL_PARTITIONS_PER_COMMIT as i32);
            made.push(Piece { group, partitions: from..until });
        }
        left -= end as u64;
        group += 1;
    }
    made
}

/// A connection to a coordinator, and the groups that are committed on it.
struct Lane {
    link: Rc<Link>,
    groups: Vec<usize>,
    turn: Cell<usize>,
}

/// What all commits share.
struct Committing {
    topic: String,
    partitions: i32,
    groups: Vec<String>,
    lanes: Vec<Lane>,
    commit_version: i16,
    fetch_version: i16,
    offset: Cell<i64>,
}

async fn commit(args: CommitArgs, begun_ns: u64) -> Result<Told, String> {
    let plan = plan(&args)?;
    let mut admin = Admin::connect(&plan.bootstrap).await?;
    let view = admin.prepare(&plan).await?;
    let partitions = view.topics[0].leaders.len() as i32;
    within("--partitions-per-commit", args.partitions_per_commit, 1, partitions as usize)?;
    let many = args.fill.or(args.check).map(|n| n.div_ceil(partitions as u64) as usize);
    let count = many.unwrap_or(args.groups);
    within("groups that --fill takes", count, 1, GROUPS_MAX)?;
    let groups: Vec<String> = (0..count).map(|i| group_name(&args.group_prefix, i)).collect();
    let addresses = coordinators(&mut admin, &groups).await?;
    let it = Rc::new(Committing {
        topic: view.topics[0].name.clone(),
        partitions,
        lanes: lanes(&addresses, args.connections).await?,
        groups,
        commit_version: admin.versions().pick(ApiKey::OffsetCommit, COMMIT_VERSION_MAX)?,
        fetch_version: admin.versions().pick(ApiKey::OffsetFetch, COMMIT_VERSION_MAX)?,
        offset: Cell::new(0),
    });
    let before = Snapshot::take(&args.run);
    let (mut told, driven) = if let Some(commits) = args.check {
        (check(&it, commits, begun_ns).await?, None)
    } else {
        all_answer(&it).await?;
        let driven = match args.fill {
            Some(commits) => fill(&it, commits, &args).await,
            None => load(&it, &args).await,
        };
        (tell(&driven), Some(driven))
    };
    let json = &mut told.json;
    let usages = Snapshot::take(&args.run).since(&before);
    json["rss_before_bytes"] = before.rss_bytes().into();
    if driven.is_none() {
        json["watched"] = usages.watched.into();
        json["client"] = usages.own.into();
    }
    json["tool"] = "odradek perf".into();
    json["mode"] = "commit".into();
    json["settings"] = settings(&plan);
    json["settings"]["load"] = json!({
        "rate": args.rate, "groups": it.groups.len(), "partitions_per_commit": args.partitions_per_commit,
        "connections": args.connections, "in_flight": args.in_flight, "fill": args.fill, "check": args.check,
    });
    json["interrupted"] = is_stopping().into();
    it.lanes.iter().for_each(|lane| lane.link.close());
    if plan.delete {
        admin.delete(&plan.topics).await?;
    }
    Ok(told)
}

/// Connections to every coordinator, with its groups divided among them.
async fn lanes(addresses: &[SocketAddr], connections: usize) -> Result<Vec<Lane>, Broken> {
    let mut by_address = BTreeMap::<SocketAddr, Vec<usize>>::new();
    for (group, address) in addresses.iter().enumerate() {
        by_address.entry(*address).or_default().push(group);
    }
    let mut lanes = Vec::new();
    for (address, groups) in by_address {
        for lane in 0..connections.min(groups.len()) {
            let mine = groups.iter().copied().skip(lane).step_by(connections).collect();
            lanes.push(Lane { link: Link::open(address).await?, groups: mine, turn: Cell::new(0) });
        }
    }
    Ok(lanes)
}

impl Committing {
    /// Commits the next offset of some partitions of a group.
    async fn commit(&self, lane: &Lane, group: usize, partitions: impl Iterator<Item = i32>) -> Result<Done, Broken> {
        let offset = self.offset.get() + 1;
        self.offset.set(offset);
        let parts = partitions.map(|partition| OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            committed_metadata: Some("".into()),
            ..OffsetCommitRequestPartition::default()
        });
        let request = OffsetCommitRequest {
            group_id: self.groups[group].as_str().into(),
            topics: vec![OffsetCommitRequestTopic {
                name: self.topic.as_str().into(),
                partitions: parts.collect(),
                ..OffsetCommitRequestTopic::default()
            }],
            ..OffsetCommitRequest::default()
        };
        let (key, version) = (ApiKey::OffsetCommit, self.commit_version);
        let (frame, id) = lane.link.ask(key, version, &request).await?;
        let said: OffsetCommitResponse<'_> = answer(&frame, key, version, id)?;
        let (mut records, mut errors) = (0, BTreeMap::new());
        for part in said.topics.iter().flat_map(|topic| &topic.partitions) {
            match part.error_code {
                0 => records += 1,
                code => *errors.entry(code).or_default() += 1,
            }
        }
        Ok(Done::Answered { records, errors })
    }

    /// Asks for the offsets of a group: of one partition, or how many there are. An error while the group is not served.
    async fn committed(&self, lane: &Lane, group: usize, all: bool) -> Result<Result<u64, ErrorCode>, Broken> {
        let one = OffsetFetchRequestTopics {
            name: self.topic.as_str().into(),
            partition_indexes: vec![0],
            ..OffsetFetchRequestTopics::default()
        };
        let asked = OffsetFetchRequestGroup {
            group_id: self.groups[group].as_str().into(),
            topics: (!all).then(|| vec![one]),
            ..OffsetFetchRequestGroup::default()
        };
        let request = OffsetFetchRequest { groups: vec![asked], ..OffsetFetchRequest::default() };
        let (key, version) = (ApiKey::OffsetFetch, self.fetch_version);
        let (frame, id) = lane.link.ask(key, version, &request).await?;
        let said: OffsetFetchResponse<'_> = answer(&frame, key, version, id)?;
        let told = said.groups.first().ok_or("OffsetFetch is answered without the group")?;
        let error = ErrorCode(told.error_code);
        if !error.is_none() {
            return Ok(Err(error));
        }
        let parts = told.topics.iter().filter(|topic| topic.name == self.topic).flat_map(|topic| &topic.partitions);
        Ok(Ok(parts.filter(|part| part.error_code == 0 && part.committed_offset >= 0).count() as u64))
    }
}

/// Commits in turn for the groups, for as long as the plan says.
async fn load(it: &Rc<Committing>, args: &CommitArgs) -> Driven {
    let pace = Pace {
        lanes: it.lanes.len(),
        in_flight: args.in_flight,
        rate: args.rate,
        warmup: args.warmup,
        duration: args.duration,
    };
    let (it, width) = (Rc::clone(it), args.partitions_per_commit);
    drive(pace, &args.run, move |lane| {
        let it = Rc::clone(&it);
        async move {
            let lane = &it.lanes[lane];
            let turn = lane.turn.get();
            lane.turn.set(turn + 1);
            let group = lane.groups[turn % lane.groups.len()];
            // Each round of a lane's groups begins where the one before it ended.
            let from = turn / lane.groups.len() * width;
            let partitions = (from..from + width).map(|p| (p % it.partitions as usize) as i32);
            it.commit(lane, group, partitions).await
        }
    })
    .await
}

/// Commits every piece once; what fails because a coordinator is being made is sent again.
async fn fill(it: &Rc<Committing>, commits: u64, args: &CommitArgs) -> Driven {
    let begin_ns = now().mono_ns;
    let before = Snapshot::take(&args.run);
    let meters = RefCell::new(Meters::default());
    let mut by_group = BTreeMap::<usize, Vec<Piece>>::new();
    for piece in pieces(commits, it.partitions) {
        by_group.entry(piece.group).or_default().push(piece);
    }
    let workers = it.lanes.iter().map(|lane| {
        let mine = lane.groups.iter().filter_map(|group| by_group.get(group)).flatten();
        let queue = RefCell::new(mine.cloned().collect::<Vec<_>>().into_iter());
        let (it, meters) = (Rc::clone(it), &meters);
        async move {
            let (it, queue) = (&it, &queue);
            join_all((0..FILL_IN_FLIGHT).map(|_| async move {
                loop {
                    let Some(piece) = queue.borrow_mut().next() else { return };
                    fill_one(it, lane, &piece, meters).await;
                }
            }))
            .await
        }
    });
    join_all(workers).await;
    let total = meters.into_inner();
    let elapsed_s = total.sent.last_ns.saturating_sub(begin_ns) as f64 / 1e9;
    Driven { total, seconds: Vec::new(), elapsed_s, usage: Snapshot::take(&args.run).since(&before) }
}

async fn fill_one(it: &Committing, lane: &Lane, piece: &Piece, meters: &RefCell<Meters>) {
    let from_ns = now().mono_ns;
    while !is_stopping() {
        let done = it.commit(lane, piece.group, piece.partitions.clone()).await;
        let mut meters = meters.borrow_mut();
        match done {
            Ok(Done::Answered { records, errors }) => {
                if errors.keys().any(|code| is_passing(ErrorCode(*code))) {
                    drop(meters);
                    reactor::sleep(Duration::from_millis(LOADING_PAUSE_MS)).await;
                    continue;
                }
                errors.iter().for_each(|(code, count)| meters.sent.fail(*code, *count));
                meters.sent.records += records;
                meters.sent.requests += 1;
                meters.sent.last_ns = now().mono_ns;
                meters.sent.note(now().mono_ns - from_ns, 1);
            }
            Ok(Done::Nothing) => {}
            Err(why) => {
                meters.broken += 1;
                meters.trouble(why);
            }
        }
        return;
    }
}

/// Waits until every group is served: coordinators that were just made or started load first.
async fn all_answer(it: &Rc<Committing>) -> Result<(), String> {
    let waits = it.lanes.iter().map(|lane| async move {
        for group in &lane.groups {
            loop {
                match it.committed(lane, *group, false).await? {
                    Ok(_) => break,
                    Err(error) if is_passing(error) && !is_stopping() => {
                        reactor::sleep(Duration::from_millis(LOADING_PAUSE_MS)).await;
                    }
                    Err(error) => return Err(format!("OffsetFetch of {}: {error}", it.groups[*group])),
                }
            }
        }
        Ok(())
    });
    join_all(waits).await.into_iter().collect()
}

/// Waits until every group answers, and counts the commits.
async fn check(it: &Rc<Committing>, commits: u64, begun_ns: u64) -> Result<Told, String> {
    let connected_ns = now().mono_ns;
    all_answer(it).await?;
    let loaded_ns = now().mono_ns;
    let counts = it.lanes.iter().map(|lane| async move {
        let mut found = 0;
        for group in &lane.groups {
            found += it.committed(lane, *group, true).await?.map_err(|error| format!("OffsetFetch: {error}"))?;
        }
        Ok(found)
    });
    let found: u64 = join_all(counts).await.into_iter().sum::<Result<u64, String>>()?;
    let seconds = |from: u64| loaded_ns.saturating_sub(from) as f64 / 1e9;
    let (all_s, wait_s) = (seconds(begun_ns), seconds(connected_ns));
    let text = format!(
        "{} groups answer {all_s:.3} s after the start of this tool, {wait_s:.3} s of them waited; {} of {} commits found\n",
        grouped(it.groups.len() as u64),
        grouped(found),
        grouped(commits)
    );
    Ok(Told {
        text,
        json: json!({ "loaded_s": all_s, "waited_s": wait_s, "commits": found, "elapsed_s": all_s }),
        failure: (found < commits).then(|| format!("{} commits are missing", commits - found)),
    })
}

fn tell(driven: &Driven) -> Told {
    let sent = &driven.total.sent;
    let rate = |count: u64| if driven.elapsed_s > 0.0 { (count as f64 / driven.elapsed_s) as u64 } else { 0 };
    let mut text = format!(
        "committed {} offsets in {:.3} s: {} offsets/s, {} commits, {} commits/s\n",
        grouped(sent.records),
        driven.elapsed_s,
        grouped(rate(sent.records)),
        grouped(sent.requests),
        grouped(rate(sent.requests))
    );
    latency_text(&mut text, "acknowledged after", &sent.latency);
    driven.end_of_text(&mut text);
    let mut json = Value::Object(serde_json::Map::new());
    driven.json(&mut json);
    Told { text, json, failure: driven.failure() }
}

/// The moment at which the tool began.
fn now_of_process() -> u64 {
    reactor::block_on(async { now().mono_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: crate::Command,
    }

    fn planned(line: &str) -> Result<Plan, String> {
        let words = std::iter::once("perf").chain(line.split_whitespace());
        match <Line as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?.command {
            crate::Command::Commit(args) => plan(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        for (line, reason) in [
            ("commit --groups 0", "--groups"),
            ("commit --connections 0", "--connections"),
            ("commit --partitions-per-commit 0", "--partitions-per-commit"),
            ("commit --rate 0", "must be positive"),
            ("commit --fill 0", "must be positive"),
            ("commit --duration 0s", "--duration"),
            ("commit --fill 5 --rate 3", "cannot be used with"),
            ("commit --fill 5 --check 5", "cannot be used with"),
            ("commit --topics 2", "--topic"),
            ("commit --json /nowhere/at/all.json", "no folder"),
        ] {
            let said = planned(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(said.contains(reason), "{line}: {said}");
        }
        assert!(planned("commit --rate 1k --warmup 1s").is_ok_and(|plan| plan.topics.len() == 1));
    }

    #[test]
    fn a_fill_covers_every_pair_once() {
        for (commits, partitions, groups) in
            [(1, 1, 1), (10, 3, 4), (2500, 2500, 1), (5000, 1700, 3), (1_000_000, 1000, 1000)]
        {
            let made = pieces(commits, partitions);
            let sizes = made.iter().map(|piece| piece.partitions.len() as u64);
            assert_eq!(sizes.sum::<u64>(), commits, "{commits} over {partitions}");
            assert_eq!(made.last().expect("pieces").group + 1, groups, "{commits} over {partitions}");
            assert!(
                made.iter().all(|p| p.partitions.end <= partitions && p.partitions.len() <= FILL_PARTITIONS_PER_COMMIT)
            );
            let mut pairs: Vec<_> = made.iter().map(|p| (p.group, p.partitions.start)).collect();
            pairs.dedup();
            assert_eq!(pairs.len(), made.len());
        }
    }
}
