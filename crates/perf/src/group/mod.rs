//! Groups of members: the time until they are stable, their heartbeats, and a rolling restart.

mod assign;
mod classic;
mod consumer;
mod member;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::Uuid;
use reactor::sync::Semaphore;
use reactor::{Class, Task, is_stopping, now, spawn};
use serde_json::{Value, json};
use wire::ApiKey;

use crate::args::{GroupArgs, Protocol};
use crate::cluster::{Admin, Versions};
use crate::conn::Broken;
use crate::coordinator::{Told, coordinators, group_name, on_a_core, settings};
use crate::drive::{Done, Driven, Pace, drive};
use crate::group::member::{CLASSIC_INTERVAL_MS, Member, Order, Standing};
use crate::idle::CONNECTING_MAX;
use crate::link::Link;
use crate::meter::Meters;
use crate::plan::{Plan, enough_files, key_values, within};
use crate::report::{Usages, latency_text};
use crate::units::grouped;
use crate::watch::Snapshot;

/// Members of one run.
const MEMBERS_MAX: usize = 1_000_000;
/// How often it is looked whether the groups are stable.
const LOOK_MS: u64 = 1;
/// How long members may take to leave in the end.
const LEAVE_S_MAX: u64 = 30;
/// A member that has no heartbeat for so long may be thrown out: a third of the session timeout that brokers have by default.
const SILENCE_S_MAX: u64 = 15;

/// Runs `odradek perf group`.
///
/// # Errors
/// Why there is no result, for people.
pub(crate) fn run(args: GroupArgs) -> Result<Told, String> {
    on_a_core(move || group(args))
}

/// The checked command line.
pub(crate) fn plan(args: &GroupArgs) -> Result<Plan, String> {
    let mut plan = Plan::base("group", args.target.clone(), None, args.run.clone())?;
    key_values(&args.group_config)?;
    plan.duration = Some(args.duration);
    plan.warmup = args.warmup;
    within("--topic", plan.topics.len(), 1, 1)?;
    within("--groups", args.groups, 1, MEMBERS_MAX)?;
    within("--members", args.members, 1, MEMBERS_MAX)?;
    let members = args.groups.saturating_mul(args.members);
    within("members of all groups", members, 1, MEMBERS_MAX)?;
    within("--connections", args.connections, 1, MEMBERS_MAX)?;
    within("--in-flight", args.in_flight, 1, MEMBERS_MAX)?;
    within("--roll", args.roll, 0, args.members)?;
    if let Some(rate) = args.rate.filter(|rate| rate.saturating_mul(SILENCE_S_MAX) < members as u64) {
        return Err(format!(
            "--rate {rate} leaves {members} members without a heartbeat for more than {SILENCE_S_MAX} s, and brokers throw them out"
        ));
    }
    if args.heartbeat_interval.is_some_and(|interval| interval.is_zero()) {
        return Err("--heartbeat-interval must be positive".to_owned());
    }
    let own = if args.protocol == Protocol::Classic { members } else { 0 };
    enough_files(own + args.connections)?;
    args.run.check()?;
    Ok(plan)
}

/// Versions of what members ask.
struct GroupVersions {
    join: i16,
    sync: i16,
    heartbeat: i16,
    leave: i16,
    consumer_heartbeat: i16,
}

impl GroupVersions {
    /// Those of the protocol; the others stay 0.
    fn of(versions: &Versions, protocol: Protocol) -> Result<GroupVersions, String> {
        let classic = |key, top| if protocol == Protocol::Classic { versions.pick(key, top) } else { Ok(0) };
        Ok(GroupVersions {
            join: classic(ApiKey::JoinGroup, 9)?,
            sync: classic(ApiKey::SyncGroup, 5)?,
            heartbeat: classic(ApiKey::Heartbeat, 4)?,
            leave: classic(ApiKey::LeaveGroup, 5)?,
            consumer_heartbeat: match protocol {
                Protocol::Classic => 0,
                Protocol::Consumer => versions.pick(ApiKey::ConsumerGroupHeartbeat, 1)?,
            },
        })
    }
}

/// What all members share.
struct World {
    plan: GroupArgs,
    topic: String,
    topic_id: Uuid,
    partitions: i32,
    versions: GroupVersions,
    groups: Vec<String>,
    /// Group by group.
    members: Vec<Rc<Member>>,
    /// Heartbeats of the measurement: the members of each shared connection, and whose turn it is.
    lanes: Vec<(Vec<Rc<Member>>, Cell<usize>)>,
    meters: RefCell<Meters>,
    joins: Cell<u64>,
    /// Groups in which something changed since they were looked at.
    dirty: RefCell<BTreeSet<usize>>,
    changed_ns: Cell<u64>,
    measuring: Cell<bool>,
}

/// A phase that ends when the groups are stable.
struct Phase {
    seconds: f64,
    steps_ms: Vec<f64>,
    joins: u64,
    usage: Usages,
}

impl Phase {
    fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "steps_ms": self.steps_ms, "joins": self.joins,
            "client": self.usage.own, "watched": self.usage.watched, "disk": self.usage.disk,
        })
    }
}

async fn group(args: GroupArgs) -> Result<Told, String> {
    let plan = plan(&args)?;
    let configs = key_values(&args.group_config)?;
    let mut admin = Admin::connect(&plan.bootstrap).await?;
    let view = admin.prepare(&plan).await?;
    let groups: Vec<String> = (0..args.groups).map(|i| group_name(&args.group_prefix, i)).collect();
    admin.configure(&groups, &configs).await?;
    let addresses = coordinators(&mut admin, &groups).await?;
    let before = Snapshot::take(&args.run);
    let connecting_ns = now().mono_ns;
    let (members, lanes) = members(&args, &addresses).await?;
    let connected_s = (now().mono_ns - connecting_ns) as f64 / 1e9;
    let world = Rc::new(World {
        topic: view.topics[0].name.clone(),
        topic_id: view.topics[0].id,
        partitions: view.topics[0].leaders.len() as i32,
        versions: GroupVersions::of(admin.versions(), args.protocol)?,
        groups,
        members,
        lanes,
        meters: RefCell::default(),
        joins: Cell::new(0),
        dirty: RefCell::default(),
        changed_ns: Cell::new(0),
        measuring: Cell::new(false),
        plan: args,
    });
    let (start, tasks) = world.start().await?;
    let stable = Snapshot::take(&world.plan.run);
    world.say(&format!("stable after {:.3} s", start.seconds));
    let driven = if world.plan.duration.is_zero() { None } else { Some(measure(&world).await?) };
    let roll = if world.plan.roll > 0 { Some(world.roll().await?) } else { None };
    let left_s = world.leave(tasks).await?;
    if plan.delete {
        admin.delete(&plan.topics).await?;
    }
    let mut told = tell(&world, &start, driven.as_ref(), roll.as_ref());
    let json = &mut told.json;
    json["settings"] = settings(&plan);
    json["settings"]["load"] = json!({
        "protocol": world.protocol(), "groups": world.plan.groups, "members": world.plan.members,
        "connections": world.plan.connections, "in_flight": world.plan.in_flight, "rate": world.plan.rate,
        "roll": world.plan.roll, "group_configs": world.plan.group_config, "topic_partitions": world.partitions,
    });
    json["connected_s"] = connected_s.into();
    json["left_s"] = left_s.into();
    json["rss_before_bytes"] = before.rss_bytes().into();
    json["rss_stable_bytes"] = stable.rss_bytes().into();
    json["interrupted"] = is_stopping().into();
    Ok(told)
}

type Lanes = Vec<(Vec<Rc<Member>>, Cell<usize>)>;

/// Members with their connections, made but not in their groups.
async fn members(args: &GroupArgs, coordinators: &[SocketAddr]) -> Result<(Vec<Rc<Member>>, Lanes), Broken> {
    let addresses: Vec<SocketAddr> = BTreeSet::from_iter(coordinators.iter().copied()).into_iter().collect();
    let mut shared = Vec::new();
    for address in &addresses {
        let count = args.connections.min(args.groups * args.members);
        for _ in 0..count {
            shared.push((*address, Link::open(*address).await?));
        }
    }
    let default_ms = Duration::from_millis(CLASSIC_INTERVAL_MS);
    let interval_ms = args.heartbeat_interval.unwrap_or(default_ms).as_millis().max(1) as u64;
    let turns = Semaphore::new(CONNECTING_MAX);
    // A task each: joined as futures of one task, every one that gets on would have all of them looked at.
    let opening = (0..args.groups * args.members).map(|i| {
        let (turns, address, protocol) = (turns.clone(), coordinators[i / args.members], args.protocol);
        spawn(Class::Normal, async move {
            if protocol == Protocol::Consumer {
                return Ok(None);
            }
            let _turn = turns.acquire().await;
            Link::open(address).await.map(Some)
        })
    });
    let own = all(opening.collect()).await;
    let mut lanes: Lanes = shared.iter().map(|_| (Vec::new(), Cell::new(0))).collect();
    let (mut members, mut turn) = (Vec::with_capacity(own.len()), 0);
    for (i, own) in own.into_iter().enumerate() {
        let group = i / args.members;
        while shared[turn % shared.len()].0 != coordinators[group] {
            turn += 1;
        }
        let lane = turn % shared.len();
        turn += 1;
        let member = Rc::new(Member::new(group, own?, Rc::clone(&shared[lane].1), interval_ms));
        lanes[lane].0.push(Rc::clone(&member));
        members.push(member);
    }
    lanes.retain(|(members, _)| !members.is_empty());
    Ok((members, lanes))
}

/// The results of tasks, which run on while it waits for one after the other.
async fn all<T>(tasks: Vec<Task<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await);
    }
    results
}

impl World {
    fn protocol(&self) -> &'static str {
        match self.plan.protocol {
            Protocol::Classic => "classic",
            Protocol::Consumer => "consumer",
        }
    }

    fn say(&self, text: &str) {
        if !self.plan.run.quiet {
            eprintln!("{text}");
        }
    }

    /// The members of a group.
    fn of_group(&self, group: usize) -> &[Rc<Member>] {
        &self.members[group * self.plan.members..][..self.plan.members]
    }

    /// Whether all members are in, and have every partition once in equal shares.
    fn is_stable(&self, group: usize) -> bool {
        let members = self.of_group(group);
        let generation = members[0].epoch.get();
        let settled = |member: &Rc<Member>| {
            member.standing.get() == Standing::In
                && !member.unsaid.get()
                && (self.plan.protocol == Protocol::Consumer || member.epoch.get() == generation)
        };
        if !members.iter().all(settled) {
            return false;
        }
        let owned: Vec<_> = members.iter().map(|member| member.owned.borrow()).collect();
        assign::is_complete(self.partitions, owned.iter().map(|partitions| partitions.as_slice()))
    }

    /// Waits until all groups are stable; gives the moment when the last one was.
    async fn stable(&self) -> Result<u64, String> {
        let limit_ns = now().mono_ns + u64::try_from(self.plan.limit.as_nanos()).unwrap_or(u64::MAX / 2);
        let mut unstable: BTreeSet<usize> = (0..self.groups.len()).collect();
        self.dirty.borrow_mut().extend(&unstable);
        loop {
            for group in self.dirty.take() {
                if self.is_stable(group) {
                    unstable.remove(&group);
                } else {
                    unstable.insert(group);
                }
            }
            if unstable.is_empty() {
                return Ok(self.changed_ns.get());
            }
            if is_stopping() {
                return Err("interrupted".to_owned());
            }
            if now().mono_ns > limit_ns || self.meters.borrow().broken > 0 {
                return Err(self.why_unstable(unstable.len()));
            }
            reactor::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }

    fn why_unstable(&self, groups: usize) -> String {
        let within = self.members.iter().filter(|member| member.standing.get() == Standing::In).count();
        format!(
            "{groups} of {} groups are not stable, {within} of {} members are in; {}",
            self.groups.len(),
            self.members.len(),
            self.meters.borrow().troubles.join("; ")
        )
    }

    /// All members join at once.
    async fn start(self: &Rc<World>) -> Result<(Phase, Vec<Task<()>>), String> {
        let before = Snapshot::take(&self.plan.run);
        let begin_ns = now().mono_ns;
        let each = self.members.iter();
        let tasks = each.map(|member| spawn(Class::Normal, member::live(Rc::clone(self), Rc::clone(member)))).collect();
        let stable_ns = self.stable().await?;
        let phase = Phase {
            seconds: stable_ns.saturating_sub(begin_ns) as f64 / 1e9,
            steps_ms: Vec::new(),
            joins: self.joins.get(),
            usage: Snapshot::take(&self.plan.run).since(&before),
        };
        Ok((phase, tasks))
    }

    /// Restarts some members of each group at a time.
    async fn roll(&self) -> Result<Phase, String> {
        let (before, joins) = (Snapshot::take(&self.plan.run), self.joins.get());
        let steps = self.plan.members.div_ceil(self.plan.roll);
        let mut steps_ms = Vec::new();
        for step in 0..self.plan.roll_steps.unwrap_or(steps).min(steps) {
            let begin_ns = now().mono_ns;
            for group in 0..self.groups.len() {
                for member in self.of_group(group).iter().skip(step * self.plan.roll).take(self.plan.roll) {
                    member.standing.set(Standing::Out);
                    self.changed(member);
                    member.order.set(Some(Order::Restart));
                    member.wake.notify_one();
                }
            }
            let stable_ns = self.stable().await?;
            steps_ms.push(stable_ns.saturating_sub(begin_ns) as f64 / 1e6);
            self.say(&format!("step {} of the rolling restart: {:.0} ms", step + 1, steps_ms[step]));
        }
        Ok(Phase {
            seconds: steps_ms.iter().sum::<f64>() / 1e3,
            steps_ms,
            joins: self.joins.get() - joins,
            usage: Snapshot::take(&self.plan.run).since(&before),
        })
    }

    /// All members leave; gives the seconds that took.
    async fn leave(&self, tasks: Vec<Task<()>>) -> Result<f64, String> {
        let begin_ns = now().mono_ns;
        for member in &self.members {
            member.order.set(Some(Order::Leave));
            member.wake.notify_one();
        }
        let gone = reactor::timeout(Duration::from_secs(LEAVE_S_MAX), all(tasks)).await;
        if gone.is_err() && self.meters.borrow().broken == 0 {
            return Err(format!("some members did not leave in {LEAVE_S_MAX} s"));
        }
        for member in &self.members {
            member.own.iter().for_each(|link| link.close());
            member.shared.close();
        }
        Ok((now().mono_ns - begin_ns) as f64 / 1e9)
    }
}

/// Heartbeats of all members, for as long as the plan says.
async fn measure(world: &Rc<World>) -> Result<Driven, String> {
    let plan = &world.plan;
    let pace = Pace {
        lanes: world.lanes.len(),
        in_flight: plan.in_flight,
        rate: plan.rate,
        warmup: plan.warmup,
        duration: plan.duration,
    };
    world.measuring.set(true);
    let mine = Rc::clone(world);
    let driven = drive(pace, &plan.run, move |lane| {
        let world = Rc::clone(&mine);
        async move {
            let (members, turn) = &world.lanes[lane];
            for _ in 0..members.len() {
                let member = &members[turn.get() % members.len()];
                turn.set((turn.get() + 1) % members.len());
                let free = member.standing.get() == Standing::In && !member.busy.get();
                if free && !member.unsaid.get() && !member.rejoin.get() {
                    return member::beat(&world, member).await;
                }
            }
            Ok(Done::Nothing)
        }
    })
    .await;
    world.measuring.set(false);
    // What changed meanwhile settles before the next phase.
    world.stable().await?;
    Ok(driven)
}

fn tell(world: &World, start: &Phase, driven: Option<&Driven>, roll: Option<&Phase>) -> Told {
    let mut text = format!(
        "{} groups of {} members ({}): stable after {:.3} s, {} joins\n",
        grouped(world.plan.groups as u64),
        grouped(world.plan.members as u64),
        world.protocol(),
        start.seconds,
        grouped(start.joins)
    );
    let mut json = json!({ "tool": "odradek perf", "mode": "group", "elapsed_s": 0, "sent": null, "seconds": [] });
    json["start"] = start.json();
    if let Some(driven) = driven {
        let sent = &driven.total.sent;
        let per_s = if driven.elapsed_s > 0.0 { sent.requests as f64 / driven.elapsed_s } else { 0.0 };
        let _ = writeln!(
            text,
            "{} heartbeats in {:.3} s: {} heartbeats/s",
            grouped(sent.requests),
            driven.elapsed_s,
            grouped(per_s as u64)
        );
        latency_text(&mut text, "answered after", &sent.latency);
        driven.end_of_text(&mut text);
        driven.json(&mut json);
    }
    if let Some(roll) = roll {
        let most = roll.steps_ms.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "rolling restart of {} members at once: {} steps in {:.3} s, the longest {most:.0} ms, {} joins",
            world.plan.roll,
            roll.steps_ms.len(),
            roll.seconds,
            grouped(roll.joins)
        );
        json["roll"] = roll.json();
    }
    Told { text, json, failure: driven.and_then(Driven::failure) }
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
            crate::Command::Group(args) => plan(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        for (line, reason) in [
            ("group --groups 0", "--groups"),
            ("group --members 0", "--members"),
            ("group --groups 10k", "invalid value"),
            ("group --groups 100000 --members 100000", "members of all groups"),
            ("group --protocol classic --members 900000", "ulimit"),
            ("group --members 3 --roll 4", "--roll"),
            ("group --members 100 --rate 6", "throw them out"),
            ("group --heartbeat-interval 0", "--heartbeat-interval"),
            ("group --protocol share", "invalid value"),
            ("group --topic a,b", "--topic"),
            ("group --group-config consumer.assignment.interval.ms", "KEY=VALUE"),
            ("group --json /nowhere/at/all.json", "no folder"),
        ] {
            let said = planned(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(said.contains(reason), "{line}: {said}");
        }
        let made = planned("group --protocol classic --members 5 --roll 5 --rate 100 --duration 0").expect("fine");
        assert_eq!(made.duration, Some(Duration::ZERO));
    }
}
