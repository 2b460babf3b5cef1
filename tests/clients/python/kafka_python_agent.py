"""kafka-python."""

import sys

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

import agent

BOOTSTRAP = sys.argv[1]


def record_of(record):
    return agent.told(record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


def flat(polled):
    return [record_of(record) for records in polled.values() for record in records]


class Grouped:
    def __init__(self, group, topics):
        self.consumer = kafka.KafkaConsumer(
            *topics, bootstrap_servers=BOOTSTRAP, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            heartbeat_interval_ms=300)
        # A leader that learns of partitions after it has assigned joins again, and of such a join 3.0.12 forgets the answer when a
        # poll ends between JoinGroup and SyncGroup: `_perform_assignment` makes `need_rejoin()` false, so that nobody looks at
        # `_join_task` any more, and heartbeats stay off (coordinator/consumer.py, coordinator/base.py). It happens on Apache Kafka too.
        # A leader that knows the partitions before it joins has no reason to.
        for topic in topics:
            self.consumer.partitions_for_topic(topic)

    def poll(self):
        return flat(self.consumer.poll(timeout_ms=100))

    def assignment(self):
        return [(part.topic, part.partition) for part in self.consumer.assignment()]

    def close(self):
        self.consumer.commit()
        self.consumer.close()


class Client:
    def features(self):
        return {
            "name": "kafka-python", "version": kafka.__version__, "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
            "idempotence": [True, False], "assign": True, "protocols": ["classic"],
            "lacks": ["null header value", "null key and value"], "blurs": False,
        }

    def produce(self, ask):
        producer = kafka.KafkaProducer(
            bootstrap_servers=BOOTSTRAP, acks="all", enable_idempotence=ask["idempotent"], linger_ms=5,
            compression_type=None if ask["codec"] == "none" else ask["codec"], max_request_size=16 << 20)
        sent = [
            producer.send(ask["topic"], partition=partition, timestamp_ms=timestamp, key=key, value=value, headers=headers)
            for partition, timestamp, key, value, headers in agent.read_records(ask["file"])
        ]
        for future in sent:
            future.get(timeout=60)
        producer.close()
        return {"records": len(sent)}

    def consume(self, parts, missing):
        consumer = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=None, auto_offset_reset="none")
        names = {kafka.TopicPartition(p["topic"], p["partition"]): p["from"] for p in parts}
        consumer.assign(list(names))
        times = {name: start["timestamp"] for name, start in names.items() if "timestamp" in start}
        found = consumer.offsets_for_times(times) if times else {}
        for name, start in names.items():
            consumer.seek(name, start["offset"] if "offset" in start else found[name].offset)
        while not missing.done():
            for record in flat(consumer.poll(timeout_ms=500)):
                missing.take(record)
        consumer.close()

    def member(self, group, protocol, topics):
        if protocol != "classic":
            raise agent.Unsupported("classic groups only")
        return Grouped(group, topics)

    def create(self, ask):
        admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
        topic = NewTopic(ask["topic"], num_partitions=ask["partitions"], replication_factor=1, topic_configs=ask["configs"])
        admin.create_topics([topic])
        admin.close()
        return {}

    def describe(self, ask):
        admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
        topics = admin.describe_topics([ask["topic"]])
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, ask["topic"])], config_filter="all")
        admin.close()
        configs = {name: about["value"] for name, about in found["topic"][ask["topic"]].items()}
        return {"partitions": len(topics[0]["partitions"]), "configs": configs}

    def delete(self, ask):
        admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
        admin.delete_topics([ask["topic"]])
        left = ask["topic"] in str(admin.list_topics())
        admin.close()
        return {"left": left}


agent.serve(Client())
