//! Kafka Streams: a word count with repartition and changelog topics comes to the right result across a restart of the broker.

use std::fs;
use std::thread;
use std::time::Duration;

use odradek_tests::{Node, Tool};

#[test]
fn a_word_count_survives_a_restart() {
    for kill in [false, true] {
        let mut node = Node::start();
        let (bootstrap, folder) = (node.bootstrap(), node.scratch().join("streams"));
        fs::create_dir(&folder).expect("a folder for signals and state");
        let counting = {
            let folder = folder.to_str().expect("a plain path").to_owned();
            thread::spawn(move || {
                let args = [bootstrap.as_str(), "3000", &folder];
                Tool::java("WordCount.java", &args).limit(Duration::from_secs(300)).run()
            })
        };
        while !folder.join("restart").exists() && !counting.is_finished() {
            thread::sleep(Duration::from_millis(20));
        }
        if kill {
            node.kill()
        } else {
            node.stop()
        }
        node.run();
        fs::write(folder.join("restarted"), "").expect("the answer can be written");
        counting.join().expect("the runner does not panic").ok().says(&["counted 7 words"]);
        let topics = ["--bootstrap-server", &node.bootstrap(), "--list"];
        let listed = Tool::kafka("kafka-topics", &topics).run().ok();
        listed.says(&["word-count-counts-changelog", "word-count-counts-repartition"]);
    }
}
