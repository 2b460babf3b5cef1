"""aiokafka. Its event loop runs in a thread of its own; the agent's threads hand it coroutines."""

import asyncio
import sys
import threading

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

import agent

BOOTSTRAP = sys.argv[1]
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(120)


def record_of(record):
    return agent.told(record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


def flat(polled):
    return [record_of(record) for records in polled.values() for record in records]


class Grouped:
    def __init__(self, group, topics):
        self.consumer = run(self._start(group, topics))

    async def _start(self, group, topics):
        consumer = aiokafka.AIOKafkaConsumer(
            *topics, bootstrap_servers=BOOTSTRAP, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            heartbeat_interval_ms=300)
        await consumer.start()
        return consumer

    def poll(self):
        return flat(run(self.consumer.getmany(timeout_ms=100)))

    def assignment(self):
        return [(part.topic, part.partition) for part in self.consumer.assignment()]

    def close(self):
        async def end():
            if self.consumer.assignment():
                await self.consumer.commit()
            await self.consumer.stop()
        run(end())


class Client:
    def features(self):
        return {
            "name": "aiokafka", "version": aiokafka.__version__, "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
            "idempotence": [True, False], "assign": True, "protocols": ["classic"], "lacks": ["null key and value"], "blurs": False,
        }

    def produce(self, ask):
        async def produce():
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=BOOTSTRAP, acks="all", enable_idempotence=ask["idempotent"], linger_ms=5,
                compression_type=None if ask["codec"] == "none" else ask["codec"], max_request_size=16 << 20)
            await producer.start()
            sent = [
                await producer.send(
                    ask["topic"], partition=partition, timestamp_ms=timestamp, key=key, value=value, headers=headers)
                for partition, timestamp, key, value, headers in agent.read_records(ask["file"])
            ]
            await asyncio.gather(*sent)
            await producer.stop()
            return {"records": len(sent)}
        return run(produce())

    def consume(self, parts, missing):
        async def consume():
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=None, auto_offset_reset="none")
            names = {aiokafka.TopicPartition(p["topic"], p["partition"]): p["from"] for p in parts}
            await consumer.start()
            consumer.assign(list(names))
            times = {name: start["timestamp"] for name, start in names.items() if "timestamp" in start}
            found = await consumer.offsets_for_times(times) if times else {}
            for name, start in names.items():
                consumer.seek(name, start["offset"] if "offset" in start else found[name].offset)
            while not missing.done():
                for record in flat(await consumer.getmany(timeout_ms=500)):
                    missing.take(record)
            await consumer.stop()
        run(consume())

    def member(self, group, protocol, topics):
        if protocol != "classic":
            raise agent.Unsupported("classic groups only")
        return Grouped(group, topics)

    def _with_admin(self, act):
        async def acting():
            admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
            await admin.start()
            try:
                return await act(admin)
            finally:
                await admin.close()
        return run(acting())

    def create(self, ask):
        topic = NewTopic(ask["topic"], num_partitions=ask["partitions"], replication_factor=1, topic_configs=ask["configs"])

        async def act(admin):
            answer = await admin.create_topics([topic])
            for about in answer.topic_errors:
                if about[1]:
                    raise RuntimeError(str(about))
            return {}
        return self._with_admin(act)

    def describe(self, ask):
        async def act(admin):
            topics = await admin.describe_topics([ask["topic"]])
            answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, ask["topic"])])
            configs = {entry[0]: entry[1] for answer in answers for resource in answer.resources for entry in resource[4]}
            return {"partitions": len(topics[0]["partitions"]), "configs": configs}
        return self._with_admin(act)

    def delete(self, ask):
        async def act(admin):
            await admin.delete_topics([ask["topic"]])
            return {"left": ask["topic"] in await admin.list_topics()}
        return self._with_admin(act)


agent.serve(Client())
