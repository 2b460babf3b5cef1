"""The workloads: one row each. `benches/README.md` lists what is missing.

A row names its kind (a function of `run_rows.py`), the sets that include it, and what the tool is told. Rates are a number, or
a part of what was reached at the maximum of another row: ("own", 0.8, ROW) of the system itself, ("kafka", 0.5, ROW) of Apache
Kafka (of the first system where Kafka is not measured), found before the passes begin.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One workload."""

    name: str
    kind: str
    sets: tuple
    args: tuple = ()
    rate: object = None
    # Rows of a group make one plot: `x` along the axis.
    group: str = ""
    x: float = 0
    # Measured a second time for the first system, to show the drift.
    control: bool = False
    # Further facts for the kind.
    extra: dict = field(default_factory=dict)
    # On a broker of its own, behind the others, and in the first pass alone: it takes long, or leaves a burden behind.
    apart: bool = False
    # What bounds a system here, for the report.
    note: str = ""
    # Systems that are left out, for which it would take far too long.
    without: tuple = ()
    # The first so many passes measure it; None: as `passes` says.
    passes_max: int | None = None
    # Bytes of memory for the broker and the page cache of its files together.
    memory: int | None = None
    # Measured against the ceiling too.
    ceiling: bool = False

    @property
    def is_core(self):
        """Whether it is what every comparison is about: in `quick` too."""
        return "quick" in self.sets

    @property
    def passes(self):
        """How many of the passes measure it. Some of `full` are content with fewer than all, so that it ends in time."""
        if self.passes_max or self.apart:
            return self.passes_max or 1
        return 1000


ROWS = []


def of(count, thing):
    """A number of things."""
    return f"{count} {thing}" + ("" if count == 1 else "s")


def row(name, kind, sets, args="", **more):
    ROWS.append(Row(name, kind, tuple(sets.split()), tuple(args.split()), **more))


# Of the rows that drain what was just written.
JUST_WRITTEN = ("Kafka's writes filled the page cache, out of which it reads; Odradek writes past that cache, keeps its tail of 64 MiB and reads the "
                "rest from the disk, at 1.3-1.6 GiB/s; with a tail of 1 GiB (odradek.tail.cache.bytes), measured by itself, it drained at 3.0-4.4")

# The LinkedIn matrix of 2014: 100 bytes, 6 partitions.
MATRIX = "--partitions 6 --record-size 100 --batch-size 16k --batches-per-request 6"
row("100 B, 1 producer, acks=0", "produce", "full", f"{MATRIX} --acks 0")
row("100 B, 1 producer, acks=1", "produce", "full", f"{MATRIX} --acks 1")
row("100 B, 1 producer, acks=all", "produce", "quick full", f"{MATRIX} --acks all --idempotent", control=True)
row("100 B, 3 producers, acks=all", "produce", "full", f"{MATRIX} --acks all --idempotent --producers 3")
# The same at a rate that Kafka reaches, for the latency. What has an fsync for each batch does not: it would measure its own queue.
RATED = {"passes_max": 1, "without": ("kafka-flush1",)}
for name, args in (("1 producer, acks=0", "--acks 0"), ("1 producer, acks=1", "--acks 1"), ("1 producer, acks=all", "--acks all --idempotent"),
                   ("3 producers, acks=all", "--acks all --idempotent --producers 3")):
    row(f"100 B, {name}, 100,000 records/s", "produce", "full", f"{MATRIX} --linger-ms 1 {args}", rate=100_000, **RATED)
row("100 B, 1 consumer", "drain", "full", "--partitions 6 --record-size 100", extra={"bytes": 512 << 20, "consumers": 1}, note=JUST_WRITTEN)
row("100 B, 3 consumers", "drain", "full", "--partitions 6 --record-size 100", extra={"bytes": 512 << 20, "consumers": 3}, note=JUST_WRITTEN)
row("100 B, producer and consumer", "e2e", "full", f"{MATRIX} --acks all --idempotent")
for consumers in (1, 3):
    row(f"100 B, producer and {of(consumers, 'consumer')}, 100,000 records/s", "e2e", "full",
        f"{MATRIX} --linger-ms 1 --acks all --idempotent --consumers {consumers}", rate=100_000, **RATED)

# 1 KiB over more and more partitions, at the maximum and below it.
KIB = "--record-size 1k --batch-size 16k --producers 4 --acks all --idempotent"
KIB_MAX = "1 KiB, 16 partitions"
for partitions in (1, 16, 100, 288):
    name = f"1 KiB, {of(partitions, 'partition')}"
    at = f"--partitions {partitions} {KIB} --batches-per-request 4"
    row(name, "produce", "quick full" if partitions == 16 else "full", at, control=partitions == 16,
        group="1 KiB by partitions", x=partitions, ceiling=partitions == 16)
    for part in (50, 80, 95):
        row(f"{name}, {part} % of the own maximum", "produce", "full", f"{at} --linger-ms 1",
            rate=("own", part / 100, name), group=f"{name}, as load grows", x=part, passes_max=1)
row("1 KiB, 16 partitions, 50 % of Kafka's maximum", "produce", "quick full", f"--partitions 16 {KIB} --linger-ms 1 --batches-per-request 4",
    rate=("kafka", 0.5, KIB_MAX), control=True)
row("end to end, 1 KiB, 6 partitions, 10,000 records/s", "e2e", "quick full",
    "--partitions 6 --record-size 1k --producers 2 --acks all --idempotent --fetch-max-wait-ms 500", rate=10_000)

# Many requests.
SINGLE = "--partitions 64 --record-size 100 --batch-size 1 --producers 64 --in-flight 1 --acks all --idempotent"
row("64 producers, single 100 B records", "produce", "quick full", SINGLE, ceiling=True)
row("64 producers, single 100 B records, 10,000/s", "produce", "full", SINGLE, rate=10_000, **RATED)
row("64 partitions, single 1 KiB records", "produce", "quick full",
    "--partitions 64 --record-size 1k --batch-size 1 --producers 1 --in-flight 5 --batches-per-request 64 --acks all --idempotent",
    ceiling=True)
for producers in (50, 100, 400):
    row(f"keys over 100 partitions, {of(producers, 'producer')}", "produce", "full",
        f"--partitions 100 --record-size 512 --producers {producers} --acks all --idempotent --spread record --linger-ms 5 "
        "--batches-per-request 100", rate=20_000, group="keys over 100 partitions", x=producers)
row("keys over 100 partitions, 100 producers, maximum", "produce", "full",
    "--partitions 100 --record-size 512 --producers 100 --acks all --idempotent --batch-size 1 --batches-per-request 100", passes_max=1,
    without=("kafka-flush1",))
for producers in (1, 10, 100):
    row(f"one hot partition, {of(producers, 'producer')}", "produce", "full",
        f"--partitions 1 --record-size 512 --batch-size 4k --producers {producers} --acks all --idempotent",
        group="one hot partition", x=producers)
row("one hot partition, 10 producers, 20,000 records/s", "produce", "full",
    "--partitions 1 --record-size 512 --batch-size 4k --linger-ms 1 --producers 10 --acks all --idempotent", rate=20_000, **RATED)
row("180 partitions, small steady traffic", "produce", "full",
    "--partitions 180 --record-size 200 --producers 30 --acks all --idempotent --spread record --batches-per-request 180 --linger-ms 5",
    rate=6_000)

# Reading.
row("drain 1 KiB from memory", "drain", "quick full", "--partitions 16 --record-size 1k",
    extra={"bytes": 512 << 20, "consumers": 2},
    note=JUST_WRITTEN)
for readers in (1, 3, 10):
    row(f"fan-out 1:{readers}, 1 KiB, 5,000 records/s", "e2e", "full",
        f"--partitions 16 --record-size 1k --producers 2 --acks all --idempotent --fanout {readers}", rate=5_000,
        group="fan-out", x=readers)
row("fan-out 1:3, 1 KiB, maximum", "e2e", "full",
    "--partitions 16 --record-size 1k --producers 2 --acks all --idempotent --fanout 3", passes_max=1, without=("kafka-flush1",))
# Larger than all the memory that the broker and its page cache have, of which the heap of Kafka leaves some hundred MiB.
row("cold backlog drained while producers go on", "backlog", "full", "--partitions 16 --record-size 1k --producers 4 --acks all --idempotent",
    rate=("kafka", 0.5, KIB_MAX), extra={"bytes": 3 << 30}, apart=True, passes_max=2, memory=2 << 30, without=("kafka-flush1",),
    note="the broker and the page cache of its files have 2 GiB of memory together")

# Codecs, passed through.
for codec in ("gzip", "snappy", "lz4", "zstd"):
    at = f"--partitions 16 --record-size 1k --batch-size 64k --producers 4 --acks all --idempotent --compression {codec} --payload text"
    row(f"1 KiB text, {codec}", "produce", "full", at)
    row(f"1 KiB text, {codec}, 20,000 records/s", "produce", "full", f"{at} --linger-ms 5", rate=20_000, **RATED)
LARGE = "--partitions 4 --record-size 10m --producers 2 --in-flight 1 --acks all --topic-config max.message.bytes=16777216"
row("10 MiB records", "produce", "full", LARGE)
row("10 MiB records, 10/s", "produce", "full", LARGE, rate=10, **RATED)

# Idle.
row("1,000 idle consumers", "idle", "full", "--partitions 16 --consumers 1000", passes_max=2)
row("4,000 connections", "idle", "full", "--partitions 1 --consumers 0 --connections 4000")
row("10,000 idle partitions", "partitions", "full", "--topics 100 --partitions 100", apart=True, without=("kafka-flush1",))
row("restart after kill -9 with 20 GB", "restart", "full", "--partitions 16 --record-size 1k --producers 4 --batch-size 256k",
    extra={"bytes": 20 << 30}, apart=True, without=("kafka-flush1",))

# Groups. Each row has a broker of its own, so that memory is that of its members and offsets.
for protocol in ("classic", "consumer"):
    row(f"one group of 1,000 members, {protocol}", "group", "full",
        f"--protocol {protocol} --partitions 1000 --members 1000 --heartbeat-interval 500ms --roll 100", apart=True,
        note="both brokers gather joins for group.consumer.assignment.interval.ms, a second, and members learn the outcome with their "
             "next heartbeat, of which there are two a second" if protocol == "consumer" else "",
        without=("kafka-flush1",))
# What the second above hides: each join is an assignment of its own.
row("one group of 1,000 members, consumer, no assignment interval", "group", "full",
    "--protocol consumer --partitions 1000 --members 1000 --heartbeat-interval 200ms "
    "--group-config consumer.assignment.interval.ms=0", apart=True, without=("kafka-flush1",))
for protocol in ("classic", "consumer"):
    row(f"1,000 groups of 10 members, {protocol}", "group", "full",
        f"--protocol {protocol} --partitions 10 --groups 1000 --members 10 --heartbeat-interval 3s --connections 64", apart=True,
        without=("kafka-flush1",))
row("heartbeats of 100 members, consumer, 2,000/s", "group", "full",
    "--protocol consumer --partitions 100 --members 100 --heartbeat-interval 500ms", rate=2_000)
COMMITS = "--partitions 100 --groups 100 --connections 16"
row("offset commits", "commits", "full", COMMITS)
row("offset commits, 100 partitions each", "commits", "full", f"{COMMITS} --partitions-per-commit 100")
row("offset commits, 1,000/s", "commits", "full", COMMITS, rate=1_000)
row("load of 1,000,000 offsets", "loading", "full", "--partitions 1000", extra={"commits": 1_000_000}, apart=True)

# Kafka's own tools, as a check of ours.
row("kafka-producer-perf-test, 1 KiB, 16 partitions", "java_produce", "quick full", extra={"records": 150_000, "size": 1024, "partitions": 16},
    note="the Java client takes most of the machine: it is what this row measures")
# Both at one rate, with the client's default linger: the two should tell the same.
row("kafka-producer-perf-test, 1 KiB, 5,000 records/s", "java_produce", "full", rate=5_000, passes_max=1,
    extra={"records": 50_000, "size": 1024, "partitions": 16})
row("the same by odradek perf", "produce", "full",
    "--partitions 16 --record-size 1k --batch-size 16k --batches-per-request 16 --linger-ms 5 --acks all --idempotent", rate=5_000,
    passes_max=1)
for protocol in ("classic", "consumer"):
    row(f"kafka-consumer-perf-test, 1 KiB, {protocol}", "java_consume", "full", "--partitions 16 --record-size 1k", passes_max=1,
        extra={"bytes": 512 << 20, "protocol": protocol})
row("kafka-e2e-latency, 100 B", "java_e2e", "full", extra={"records": 5_000, "size": 100}, passes_max=1)

# From one core to all, without Java.
SCALE_MAX = "scale: 1 KiB, maximum"
row(SCALE_MAX, "produce", "scale", f"--partitions 64 --record-size 1k --batch-size 16k --acks all --idempotent --batches-per-request 4",
    extra={"producers_per_core": 4})
row("scale: 1 KiB, 50 % of the own maximum", "produce", "scale",
    "--partitions 64 --record-size 1k --batch-size 16k --acks all --idempotent --batches-per-request 4 --linger-ms 1",
    rate=("own", 0.5, SCALE_MAX), extra={"producers_per_core": 4})
row("scale: single 100 B records", "produce", "scale",
    "--partitions 64 --record-size 100 --batch-size 1 --in-flight 4 --acks all --idempotent", extra={"producers_per_core": 16})
row("scale: end to end, 20,000 records/s", "e2e", "scale", "--partitions 64 --record-size 100 --acks all --idempotent",
    rate=20_000, extra={"producers_per_core": 2})


def rows_of(name, pattern):
    """The rows of a set whose names match the compiled `pattern`, in order; what they take a rate from is added."""
    in_set = [r for r in ROWS if name in r.sets]
    wanted = {r.name for r in in_set if pattern.search(r.name)}
    for r in in_set:
        if r.name in wanted and isinstance(r.rate, tuple) and r.rate[0] == "own":
            wanted.add(r.rate[2])
    return [r for r in in_set if r.name in wanted]


def by_name(name):
    """The row of that name, or None."""
    return next((r for r in ROWS if r.name == name), None)


def note(name):
    """What is to be known of a row, or nothing."""
    found = by_name(name)
    return found.note if found else ""
