//! A member of a group, which polls in a thread of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{Value, json};

use crate::form::{Said, number, partition, text, told};

#[derive(Default)]
struct Seen {
    records: Vec<Value>,
    partitions: Vec<Value>,
}

/// A member that polls until it leaves.
pub struct Member {
    seen: Arc<Mutex<Seen>>,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), KafkaError>>,
}

impl Member {
    /// Starts the member of a `join`.
    pub fn join(mut config: ClientConfig, ask: &Value) -> Result<Member, KafkaError> {
        config
            .set("group.id", text(ask, "group"))
            .set("group.protocol", text(ask, "protocol"))
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        if text(ask, "protocol") == "classic" {
            config.set("heartbeat.interval.ms", "300");
        }
        let consumer: BaseConsumer = config.create()?;
        let topics: Vec<&str> = ask["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        consumer.subscribe(&topics)?;
        let (seen, ending) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let (seen, ending) = (Arc::clone(&seen), Arc::clone(&ending));
            move || run(&consumer, &seen, &ending)
        });
        Ok(Member { seen, ending, thread })
    }

    /// Its partitions, and how far it has read each that it ever had.
    pub fn look(&self) -> Said {
        if self.thread.is_finished() {
            return Err("the member has ended".into());
        }
        let seen = self.seen.lock().expect("not poisoned");
        let mut ends = BTreeMap::new();
        for record in &seen.records {
            let end = ends.entry(partition(record)).or_insert(0);
            *end = (*end).max(number(record, "offset") + 1);
        }
        Ok(json!({ "partitions": seen.partitions, "ends": ends }))
    }

    /// Commits, leaves the group, gives what was read.
    pub fn leave(self) -> Result<Vec<Value>, Box<dyn Error>> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the member panicked")??;
        let mut seen = self.seen.lock().expect("not poisoned");
        Ok(std::mem::take(&mut seen.records))
    }
}

fn run(consumer: &BaseConsumer, seen: &Mutex<Seen>, ending: &AtomicBool) -> Result<(), KafkaError> {
    while !ending.load(Ordering::Relaxed) {
        let polled = consumer.poll(Duration::from_millis(100)).transpose()?;
        let assigned = consumer.assignment()?;
        let mut seen = seen.lock().expect("not poisoned");
        seen.records.extend(polled.as_ref().map(told));
        seen.partitions = assigned.elements().iter().map(|part| json!([part.topic(), part.partition()])).collect();
    }
    match consumer.commit_consumer_state(CommitMode::Sync) {
        // Nothing was read since the last commit.
        Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
        result => result,
    }
}
