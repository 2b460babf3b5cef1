//! The agent of the crate rdkafka: answers commands, one JSON object a line, as ../../README.md says.

mod form;
mod member;

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::form::{Missing, Said, number, partition, text};
use crate::member::Member;

/// Ends what hangs; the test has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(60);

struct Agent {
    bootstrap: String,
    members: HashMap<String, Member>,
}

/// Keeps the first error of a delivery.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Option<KafkaError>>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().expect("not poisoned").get_or_insert(error.clone());
        }
    }
}

impl Agent {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn answer(&mut self, ask: &Value) -> Said {
        match text(ask, "cmd") {
            "features" => Ok(features()),
            "produce" => self.produce(ask),
            "consume" => self.consume(ask),
            "join" => {
                let member = Member::join(self.config(), ask)?;
                self.members.insert(text(ask, "member").to_owned(), member);
                Ok(json!({}))
            }
            "look" => self.members[text(ask, "member")].look(),
            "leave" => {
                let member = self.members.remove(text(ask, "member")).expect("a member");
                form::write_records(text(ask, "file"), &member.leave()?)
            }
            "create" => self.create(ask),
            "describe" => self.describe(ask),
            "delete" => self.delete(ask),
            other => Err(format!("unknown command {other}").into()),
        }
    }

    fn produce(&self, ask: &Value) -> Said {
        let deliveries = Deliveries::default();
        let mut config = self.config();
        config
            .set("acks", "all")
            .set("enable.idempotence", ask["idempotent"].to_string())
            .set("compression.type", text(ask, "codec"))
            .set("linger.ms", "5")
            .set("message.max.bytes", (16 << 20).to_string());
        let producer: BaseProducer<Deliveries> = config.create_with_context(deliveries.clone())?;
        let records = form::read_records(text(ask, "file"));
        for record in &records {
            let mut headers = OwnedHeaders::new();
            for (key, value) in &record.headers {
                headers = headers.insert(Header { key, value: value.as_ref() });
            }
            let mut one: BaseRecord<'_, Vec<u8>, Vec<u8>> = BaseRecord::to(text(ask, "topic"))
                .partition(record.partition)
                .timestamp(record.timestamp)
                .headers(headers);
            one.key = record.key.as_ref();
            one.payload = record.value.as_ref();
            producer.send(one).map_err(|(error, _)| error)?;
        }
        producer.flush(PATIENCE)?;
        match deliveries.0.lock().expect("not poisoned").take() {
            Some(error) => Err(error.into()),
            None => Ok(json!({ "records": records.len() })),
        }
    }

    fn consume(&self, ask: &Value) -> Said {
        let parts = ask["parts"].as_array().expect("a list");
        let consumer: BaseConsumer =
            self.config().set("group.id", "unused").set("enable.auto.commit", "false").create()?;
        let (mut starts, mut times) = (TopicPartitionList::new(), TopicPartitionList::new());
        for part in parts {
            let (topic, from) = (text(part, "topic"), &part["from"]);
            match from["offset"].as_i64() {
                Some(offset) => starts.add_partition_offset(topic, partition(part), Offset::Offset(offset))?,
                None => {
                    times.add_partition_offset(topic, partition(part), Offset::Offset(number(from, "timestamp")))?;
                }
            }
        }
        if times.count() > 0 {
            for found in consumer.offsets_for_times(times, PATIENCE)?.elements() {
                found.error()?;
                starts.add_partition_offset(found.topic(), found.partition(), found.offset())?;
            }
        }
        consumer.assign(&starts)?;
        let mut missing = Missing::of(parts);
        while !missing.done() {
            if let Some(polled) = consumer.poll(Duration::from_millis(500)) {
                missing.take(&polled?);
            }
        }
        form::write_records(text(ask, "file"), &missing.records)
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
        self.config().create()
    }

    fn create(&self, ask: &Value) -> Said {
        let partitions = number(ask, "partitions").try_into()?;
        let mut topic = NewTopic::new(text(ask, "topic"), partitions, TopicReplication::Fixed(1));
        for (name, value) in ask["configs"].as_object().into_iter().flatten() {
            topic = topic.set(name, value.as_str().expect("a text"));
        }
        for result in block_on(self.admin()?.create_topics([&topic], &AdminOptions::new()))? {
            result.map_err(|(topic, code)| format!("{topic}: {code}"))?;
        }
        Ok(json!({}))
    }

    fn describe(&self, ask: &Value) -> Said {
        let (admin, topic) = (self.admin()?, text(ask, "topic"));
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE)?;
        let asked = [ResourceSpecifier::Topic(topic)];
        let mut configs = serde_json::Map::new();
        for resource in block_on(admin.describe_configs(&asked, &AdminOptions::new()))? {
            let entries = resource.map_err(|code| code.to_string())?.entries;
            configs.extend(entries.into_iter().map(|entry| (entry.name, entry.value.into())));
        }
        Ok(json!({ "partitions": metadata.topics()[0].partitions().len(), "configs": configs }))
    }

    fn delete(&self, ask: &Value) -> Said {
        let (admin, topic) = (self.admin()?, text(ask, "topic"));
        for result in block_on(admin.delete_topics(&[topic], &AdminOptions::new()))? {
            result.map_err(|(topic, code)| format!("{topic}: {code}"))?;
        }
        let metadata = admin.inner().fetch_metadata(None, PATIENCE)?;
        Ok(json!({ "left": metadata.topics().iter().any(|found| found.name() == topic) }))
    }
}

fn features() -> Value {
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    let manifest = include_str!("../Cargo.toml");
    let version = manifest.split_once("rdkafka = { version = \"=").and_then(|(_, rest)| rest.split('"').next());
    json!({
        "name": "rdkafka", "version": format!("{} (librdkafka {librdkafka})", version.unwrap_or("?")),
        "codecs": ["none", "gzip", "snappy", "lz4", "zstd"], "idempotence": [true, false], "assign": true,
        "protocols": ["classic", "consumer"], "lacks": [], "blurs": false,
    })
}

fn main() {
    let bootstrap = std::env::args().nth(1).expect("a bootstrap address");
    let mut agent = Agent { bootstrap, members: HashMap::new() };
    for line in std::io::stdin().lock().lines() {
        let ask = serde_json::from_str(&line.expect("a line")).expect("a JSON object");
        let answer = agent.answer(&ask).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
}
