"""The systems that are compared, and what each promises."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A broker with its settings."""

    name: str
    # "odradek" or "kafka"
    kind: str
    # What an acknowledgement of acks=all has reached: "written", the file; "durable", the disk.
    rung: str
    properties: dict = field(default_factory=dict)
    jvm: str = ""
    note: str = ""
    colour: str = "#666666"


SYSTEMS = {
    system.name: system
    for system in (
        System("odradek-written", "odradek", "written", {"odradek.durability": "written"},
               note="survives `kill -9`, not power loss", colour="#2a7fc1"),
        System("kafka", "kafka", "written", note="defaults, KRaft, G1, 1 GiB heap", colour="#e08a2e"),
        System("kafka-zgc", "kafka", "written", jvm="-XX:+UseZGC -Xms1g -Xmx1g", note="defaults, KRaft, ZGC, 1 GiB heap",
               colour="#c9b037"),
        System("odradek-durable", "odradek", "durable", {"odradek.durability": "durable"},
               note="the default: survives power loss", colour="#0f3f66"),
        System("kafka-flush1", "kafka", "durable", {"log.flush.interval.messages": "1"},
               note="as `kafka`, with an fsync for every batch", colour="#9a4f12"),
    )
}

DEFAULT = ["odradek-written", "kafka", "odradek-durable", "kafka-flush1"]

# Settings that all systems share, beside ports and directories. Deleted topics go at once, so that rows do not fill the disk.
COMMON = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
    "message.max.bytes": str(16 << 20),
    "auto.create.topics.enable": "false",
}

# Pairs that a report compares: ours, theirs, and what is to be said about the promise.
PAIRS = [
    ("odradek-written", "kafka", ""),
    ("odradek-durable", "kafka-flush1", ""),
]
# The rungs differ here, in favour of the second: what durability costs against a system that does not give it.
ACROSS = [("odradek-durable", "kafka", "Odradek on the disk, Kafka in the file")]


def control_of(name):
    """The name under which a system is measured a second time, to show how much figures drift by themselves."""
    return f"{name} (again)"


def system_of(name):
    """The system behind a name, which may be that of a control."""
    return SYSTEMS[name.removesuffix(" (again)")]
