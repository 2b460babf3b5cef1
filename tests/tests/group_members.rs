//! Members in processes of their own: many that join at once, are replaced in a rolling restart, are killed, and are stopped
//! for longer than their session and go on. Partitions always end up with one living owner each, in fair shares, and every
//! record is consumed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use odradek_tests::{Node, Talk, Tool};

/// How long a group may take until all is well again. A safety net against hangs, not a measurement.
const SETTLE_LIMIT: Duration = Duration::from_secs(120);

/// Session timeouts that are short enough for a test; both protocols.
const SESSION: [(&str, &str); 4] = [
    ("group.consumer.min.session.timeout.ms", "6000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.min.heartbeat.interval.ms", "500"),
    ("group.consumer.heartbeat.interval.ms", "500"),
];

/// A process with members of the group.
struct Process {
    talk: Talk,
    /// What each member owns, as far as it said.
    owned: BTreeMap<u32, BTreeSet<u32>>,
    /// Values of records that its members have committed.
    read: HashSet<u32>,
    /// Stopped or killed: what it owned last is out of date.
    silent: bool,
}

impl Process {
    fn start(node: &Node, topic: &str, protocol: &str) -> Process {
        let (bootstrap, group) = (node.bootstrap(), format!("group-{topic}"));
        let protocol = format!("group.protocol={protocol}");
        let mut args = vec![bootstrap.as_str(), topic, &group, &protocol];
        if protocol.ends_with("classic") {
            args.extend(["session.timeout.ms=6000", "heartbeat.interval.ms=500"]);
        }
        let talk = Tool::java("Members.java", &args).talk();
        Process { talk, owned: BTreeMap::new(), read: HashSet::new(), silent: false }
    }

    fn join(&mut self, members: std::ops::Range<u32>) {
        self.talk.say(&format!("join {} {}", members.start, members.end));
        self.owned.extend(members.map(|member| (member, BTreeSet::new())));
    }

    fn leave(&mut self, members: std::ops::Range<u32>) {
        self.talk.say(&format!("leave {} {}", members.start, members.end));
        for member in members {
            self.owned.remove(&member);
        }
    }

    /// Takes in what the process said meanwhile.
    fn listen(&mut self) {
        while let Ok(line) = self.talk.hear(Duration::from_millis(5)) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u32>().expect("a number");
            match words[0] {
                // A member that was told to leave may still say what it had.
                "owned" => {
                    let partitions = (2..words.len()).map(number).collect();
                    self.owned.entry(number(1)).and_modify(|owned| *owned = partitions);
                }
                "read" => drop(self.read.insert(number(1))),
                "left" => assert!(!self.owned.contains_key(&number(1)), "a member left by itself: {line}"),
                _ => panic!("{line}"),
            }
        }
    }
}

/// Waits until each of the partitions has one owner and no member has fewer than an equal share, rounded down.
fn settle(processes: &mut [&mut Process], partitions: u32, when: &str) {
    let started = Instant::now();
    loop {
        let mut members = Vec::new();
        for process in processes.iter_mut() {
            process.listen();
            if process.silent {
                continue;
            }
            members.extend(process.owned.values());
        }
        let share = partitions as usize / members.len();
        let owned: Vec<u32> = members.iter().flat_map(|owned| owned.iter().copied()).collect();
        let distinct: BTreeSet<u32> = owned.iter().copied().collect();
        let fair = members.iter().all(|owned| (share..=share + 1).contains(&owned.len()));
        if fair && owned.len() == distinct.len() && distinct.len() == partitions as usize {
            return;
        }
        assert!(started.elapsed() < SETTLE_LIMIT, "{when}: the group does not settle: {members:?}");
    }
}

/// Produces the numbers as records over all partitions.
fn produce(node: &Node, topic: &str, numbers: std::ops::Range<u32>) {
    let text: String = numbers.map(|n| format!("{n}:{n}\n")).collect();
    let bootstrap = node.bootstrap();
    Tool::kcat(&["-P", "-b", &bootstrap, "-t", topic, "-K", ":"]).input(text).run().ok();
}

/// Waits until every record below `count` has been committed by a member.
fn all_read(processes: &mut [&mut Process], count: u32) {
    let started = Instant::now();
    loop {
        processes.iter_mut().for_each(|process| process.listen());
        let missing: Vec<u32> = (0..count).filter(|n| !processes.iter().any(|p| p.read.contains(n))).collect();
        if missing.is_empty() {
            return;
        }
        assert!(started.elapsed() < SETTLE_LIMIT, "never read: {missing:?}");
    }
}

#[test]
fn fifty_members_join_at_once_and_are_replaced_by_tens() {
    let node = Node::start_with(&SESSION);
    for protocol in ["classic", "consumer"] {
        let (topic, partitions) = (format!("crowd-{protocol}"), 100);
        node.create_topic(&topic, partitions);
        produce(&node, &topic, 0..500);
        let mut crowd = Process::start(&node, &topic, protocol);
        crowd.join(0..50);
        settle(&mut [&mut crowd], partitions, "50 joined");
        for step in 0..5 {
            crowd.leave(step * 10..step * 10 + 10);
            crowd.join(50 + step * 10..60 + step * 10);
            settle(&mut [&mut crowd], partitions, "ten were replaced");
        }
        produce(&node, &topic, 500..1000);
        all_read(&mut [&mut crowd], 1000);
        assert_eq!(node.lags(&format!("group-{topic}")), vec!["0"; partitions as usize], "{protocol}");
    }
}

#[test]
fn members_that_die_or_pause_beyond_their_session_lose_their_partitions_and_come_back() {
    let node = Node::start_with(&SESSION);
    for protocol in ["classic", "consumer"] {
        let (topic, partitions) = (format!("faults-{protocol}"), 8);
        node.create_topic(&topic, partitions);
        produce(&node, &topic, 0..400);
        let mut steady = Process::start(&node, &topic, protocol);
        let mut doomed = Process::start(&node, &topic, protocol);
        let mut sleeper = Process::start(&node, &topic, protocol);
        steady.join(0..2);
        doomed.join(10..11);
        sleeper.join(20..21);
        settle(&mut [&mut steady, &mut doomed, &mut sleeper], partitions, "all joined");
        // What a member committed last before its end would never be told.
        all_read(&mut [&mut steady, &mut doomed, &mut sleeper], 400);
        doomed.talk.kill();
        doomed.silent = true;
        produce(&node, &topic, 400..800);
        settle(&mut [&mut steady, &mut doomed, &mut sleeper], partitions, "one was killed");
        all_read(&mut [&mut steady, &mut doomed, &mut sleeper], 800);
        sleeper.talk.signal(libc::SIGSTOP);
        sleeper.silent = true;
        settle(&mut [&mut steady, &mut doomed, &mut sleeper], partitions, "one is stopped");
        produce(&node, &topic, 800..1200);
        all_read(&mut [&mut steady, &mut doomed, &mut sleeper], 1200);
        sleeper.talk.signal(libc::SIGCONT);
        sleeper.silent = false;
        // What it believes to own is out of date until it has heard of its end.
        sleeper.owned.insert(20, BTreeSet::new());
        settle(&mut [&mut steady, &mut doomed, &mut sleeper], partitions, "the stopped one goes on");
        produce(&node, &topic, 1200..1600);
        all_read(&mut [&mut steady, &mut doomed, &mut sleeper], 1600);
        assert_eq!(node.lags(&format!("group-{topic}")), vec!["0"; partitions as usize], "{protocol}");
    }
}
