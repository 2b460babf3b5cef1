"""confluent-kafka, that is librdkafka."""

import sys

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

import agent

BOOTSTRAP = sys.argv[1]


def record_of(message):
    return agent.told(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(),
        message.headers())


def polled(consumer, seconds):
    records = []
    for message in consumer.consume(500, seconds):
        if message.error():
            raise RuntimeError(str(message.error()))
        records.append(record_of(message))
    return records


class Grouped:
    def __init__(self, group, protocol, topics):
        about = {
            "bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "group.protocol": protocol,
        }
        if protocol == "classic":
            about["heartbeat.interval.ms"] = 300
        self.consumer = Consumer(about)
        self.consumer.subscribe(topics)

    def poll(self):
        return polled(self.consumer, 0.1)

    def assignment(self):
        return [(part.topic, part.partition) for part in self.consumer.assignment()]

    def close(self):
        try:
            self.consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as why:
            # Nothing was read since the last commit.
            if why.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
                raise
        self.consumer.close()


class Client:
    def features(self):
        return {
            "name": "confluent-kafka", "version": f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
            "codecs": ["none", "gzip", "snappy", "lz4", "zstd"], "idempotence": [True, False], "assign": True,
            "protocols": ["classic", "consumer"], "lacks": [], "blurs": False,
        }

    def produce(self, ask):
        producer = Producer({
            "bootstrap.servers": BOOTSTRAP, "acks": "all", "enable.idempotence": ask["idempotent"],
            "compression.type": ask["codec"], "linger.ms": 5, "message.max.bytes": 16 << 20})
        failures = []
        sent = 0

        def delivered(error, _message):
            if error:
                failures.append(str(error))

        for partition, timestamp, key, value, headers in agent.read_records(ask["file"]):
            producer.produce(
                ask["topic"], partition=partition, timestamp=timestamp, key=key, value=value, headers=headers,
                on_delivery=delivered)
            sent += 1
        left = producer.flush(60)
        if failures or left:
            raise RuntimeError(f"{left} records were not sent; {failures}")
        return {"records": sent}

    def consume(self, parts, missing):
        consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False})
        starts = [TopicPartition(p["topic"], p["partition"], p["from"].get("offset", 0)) for p in parts if "offset" in p["from"]]
        times = [TopicPartition(p["topic"], p["partition"], p["from"]["timestamp"]) for p in parts if "timestamp" in p["from"]]
        if times:
            starts += consumer.offsets_for_times(times, 30)
        consumer.assign(starts)
        while not missing.done():
            for record in polled(consumer, 0.5):
                missing.take(record)
        consumer.close()

    def member(self, group, protocol, topics):
        return Grouped(group, protocol, topics)

    def _admin(self):
        return AdminClient({"bootstrap.servers": BOOTSTRAP})

    def create(self, ask):
        topic = NewTopic(ask["topic"], num_partitions=ask["partitions"], replication_factor=1, config=ask["configs"])
        admin = self._admin()
        for future in admin.create_topics([topic]).values():
            future.result(60)
        return {}

    def describe(self, ask):
        admin = self._admin()
        topic = admin.list_topics(ask["topic"], 30).topics[ask["topic"]]
        resource = ConfigResource(ResourceType.TOPIC, ask["topic"])
        found = admin.describe_configs([resource])[resource].result(60)
        return {"partitions": len(topic.partitions), "configs": {name: entry.value for name, entry in found.items()}}

    def delete(self, ask):
        admin = self._admin()
        for future in admin.delete_topics([ask["topic"]]).values():
            future.result(60)
        return {"left": ask["topic"] in admin.list_topics(timeout=30).topics}


agent.serve(Client())
