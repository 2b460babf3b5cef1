//! Members of Java consumers' groups come, go and are killed with the broker: every record is consumed, no committed offset
//! goes back, and the partitions are always shared out fairly.

use std::fs;
use std::thread;
use std::time::Duration;

use odradek_tests::{Node, Tool};

/// How the broker is restarted in the middle.
#[derive(Clone, Copy)]
enum Restart {
    Kill,
    Stop,
}

struct Story {
    protocol: &'static str,
    assignor: &'static str,
    fixed: bool,
    restart: Restart,
}

fn tell(node: &mut Node, story: &Story, name: &str) {
    let bootstrap = node.bootstrap();
    node.create_topic(name, 6);
    let folder = node.scratch().join(name);
    fs::create_dir(&folder).expect("a folder for signals");
    let teller = {
        let signals = folder.to_str().expect("a plain path").to_owned();
        let fixed = if story.fixed { "true" } else { "false" };
        let group = format!("group-{name}");
        let (protocol, assignor, topic) = (story.protocol, story.assignor, name.to_owned());
        thread::spawn(move || {
            let args = [bootstrap.as_str(), &topic, &group, protocol, assignor, fixed, "3000", &signals];
            Tool::java("GroupStory.java", &args).limit(Duration::from_secs(300)).run()
        })
    };
    while !folder.join("restart").exists() && !teller.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    match story.restart {
        Restart::Kill => node.kill(),
        Restart::Stop => node.stop(),
    }
    node.run();
    fs::write(folder.join("restarted"), "").expect("the answer can be written");
    let said = teller.join().expect("the runner does not panic");
    said.ok().says(&["consumed 3000 of 3000", "positions kept"]);
    assert_eq!(node.lags(&format!("group-{name}")), ["0"; 6]);
}

#[test]
fn classic_groups_with_every_assignor() {
    let mut node = Node::start();
    let kinds = [
        ("range", "org.apache.kafka.clients.consumer.RangeAssignor", false, Restart::Kill),
        ("roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor", true, Restart::Stop),
        ("sticky", "org.apache.kafka.clients.consumer.StickyAssignor", false, Restart::Stop),
        ("cooperative", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", true, Restart::Kill),
    ];
    for (name, assignor, fixed, restart) in kinds {
        tell(&mut node, &Story { protocol: "classic", assignor, fixed, restart }, name);
    }
}

#[test]
fn consumer_groups_with_every_assignor() {
    let mut node = Node::start_with(&[("group.consumer.session.timeout.ms", "45000")]);
    for (name, assignor, fixed, restart) in
        [("uniform", "uniform", false, Restart::Kill), ("server-range", "range", false, Restart::Stop)]
    {
        tell(&mut node, &Story { protocol: "consumer", assignor, fixed, restart }, name);
    }
}
