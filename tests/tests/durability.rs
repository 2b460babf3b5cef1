//! What was acknowledged survives: the broker is killed again and again under idempotent load from a real client.

use std::fs;
use std::thread;
use std::time::Duration;

use base::Prng;
use odradek_tests::{Node, Tool};

const PARTITIONS: &str = "4";

/// Kills the node `kills` times at random moments while a Java producer keeps sending, then compares what it was told with
/// what is there.
fn kill_loop(properties: &[(&str, &str)], kills: u32, seed: u64) {
    let mut node = Node::start_with(properties);
    let bootstrap = node.bootstrap();
    let create = ["--bootstrap-server", &bootstrap, "--create", "--topic", "steady", "--partitions", PARTITIONS];
    Tool::kafka("kafka-topics", &create).run().ok();
    let acks = node.scratch().join("acks").to_str().expect("a plain path").to_owned();
    let stop = node.scratch().join("stop").to_str().expect("a plain path").to_owned();
    let producer = {
        let (acks, stop, bootstrap) = (acks.clone(), stop.clone(), bootstrap.clone());
        thread::spawn(move || {
            let args = [bootstrap.as_str(), "steady", PARTITIONS, &acks, &stop];
            Tool::java("SteadyProducer.java", &args).limit(Duration::from_secs(600)).run()
        })
    };
    while !fs::metadata(&acks).is_ok_and(|m| m.len() > 0) && !producer.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    let mut prng = Prng::new(seed);
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(50 + prng.below(500)));
        node.kill();
        node.run();
    }
    fs::write(&stop, "").expect("the stop file can be written");
    producer.join().expect("the runner does not panic").ok();
    node.kill();
    node.run();
    let summary = Tool::java("CheckAcked.java", &[&bootstrap, "steady", PARTITIONS, &acks]).run();
    assert_eq!(summary.code, Some(0), "seed {seed}: {} {}", summary.text(), summary.stderr);
    println!("seed {seed}: {}", summary.text().trim());
    node.stop();
}

#[test]
fn nothing_acknowledged_is_lost_over_fifty_kills() {
    kill_loop(&[("odradek.cores", "2")], 50, 0x5eed);
}

#[test]
fn nothing_acknowledged_is_lost_on_the_written_rung() {
    let properties = [("odradek.durability", "written"), ("odradek.cores", "1"), ("log.segment.bytes", "1048576")];
    kill_loop(&properties, 10, 0xd00d);
}
