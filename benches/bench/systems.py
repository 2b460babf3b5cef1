"""The systems that are compared, and what each promises."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A broker with its settings."""

    name: str
    # "odradek", "kafka", "tansu" or "reactor"
    kind: str
    # What an acknowledgement of acks=all has reached: "written", the file; "durable", the disk; "memory", what is lost with the
    # process; "nothing", not even that.
    rung: str
    properties: dict = field(default_factory=dict)
    jvm: str = ""
    note: str = ""
    colour: str = "#666666"
    # The kinds of rows that it can serve; all where none is named.
    kinds: tuple = ()
    # Measured in the rows that every comparison is about, alone.
    core_only: bool = False

    @property
    def is_compiled_late(self):
        """Whether it runs on a JVM, which is slow until it has seen its work for a while."""
        return self.kind == "kafka"

    @property
    def is_ceiling(self):
        """Whether it is no broker but what bounds one: never compared as one, and only in the rows that ask for it."""
        return self.kind == "reactor"


# The release of the Rust peer that scripts/install-peers --rust-broker builds.
TANSU = "0.6.0"

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
        System("tansu", "tansu", "memory", note=f"tansu {TANSU}, a broker in Rust, with its storage `memory://`: lost with the process",
               colour="#5b8c3a", kinds=("produce", "e2e", "drain", "idle"), core_only=True),
        System("reactor", "reactor", "nothing", note="the bare reactor and codec answer success and keep nothing: promises nothing, "
               "the ceiling of requests for a broker on this reactor", kinds=("produce",)),
    )
}

DEFAULT = ["odradek-written", "kafka", "odradek-durable", "kafka-flush1", "reactor"]
# Beside them in `full`, where it is installed or can be.
FULL = [*DEFAULT, "tansu"]

# Settings that all systems share, beside ports and directories. Deleted topics go at once, so that rows do not fill the disk, also in the
# first half minute, in which Apache Kafka deletes nothing by default.
COMMON = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "500",
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
# A peer that promises less than ours: in favour of the second again.
PEERS = [("odradek-written", "tansu", "Odradek in the file, tansu in the memory of its process")]


def control_of(name):
    """The name under which a system is measured a second time, to show how much figures drift by themselves."""
    return f"{name} (again)"


def system_of(name):
    """The system behind a name, which may be that of a control."""
    return SYSTEMS[name.removesuffix(" (again)")]
