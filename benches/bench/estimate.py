"""How long a run takes, from what rows take on 2 cores: told before it begins, and kept under 90 minutes by a test."""

import re
from types import SimpleNamespace

import passes
import run_rows
import workloads
from systems import DEFAULT, FULL, SYSTEMS, system_of

# Seconds beside the measurement: a topic made and deleted, and the disk that gets quiet.
AROUND_S = {"odradek": 1, "kafka": 1.5, "tansu": 1, "reactor": 0.5}
# Seconds to format, start and stop.
BROKER_S = {"odradek": 1, "kafka": 7, "tansu": 1, "reactor": 1}
# Bytes a second in and out when a row fills a topic and drains it.
BYTES_PER_S = {"odradek": 300e6, "kafka": 150e6, "tansu": 50e6, "reactor": 1e9}
# Seconds that a JVM of a tool takes beside its records, and the records a second that it sends, produces and consumes one by one, and
# consumes.
JAVA_S = 5
JAVA_RECORDS_PER_S = {"java_produce": 30_000, "java_e2e": 500, "java_consume": 100_000}
# Rows apart, by name, for the same two. Their brokers create, load or recover much.
APART_S = {
    "10,000 idle partitions": (15, 80),
    "restart after kill -9 with 20 GB": (50, 100),
    "load of 1,000,000 offsets": (10, 50),
    "1,000 groups of 10 members, classic": (12, 25),
    "1,000 groups of 10 members, consumer": (18, 30),
    "one group of 1,000 members, classic": (17, 27),
    "one group of 1,000 members, consumer": (25, 38),
}


def of_row(context, row, system):
    """Seconds of a row with a system."""
    kind, is_kafka = system.kind, system.kind == "kafka"
    around, measured = AROUND_S[kind], context.warmup_s + context.seconds
    if row.name in APART_S:
        return APART_S[row.name][is_kafka]
    stored = row.extra.get("bytes", 0) * context.size / BYTES_PER_S[kind]
    if row.kind in JAVA_RECORDS_PER_S:
        records = row.extra.get("records", row.extra.get("bytes", 0) // 1024) * context.size
        return JAVA_S + stored + records / (row.rate or JAVA_RECORDS_PER_S[row.kind])
    if row.kind == "group":
        return 10 + measured + run_rows.GROUP_WARM_UP_S[is_kafka]
    if row.kind == "drain":
        return stored * 2 + 1 + around
    if row.kind == "backlog":
        # The limit of memory and the producers make the drain slower.
        return BROKER_S[kind] + stored * 1.5 + max(3, context.seconds) + 5
    if row.kind == "idle":
        return max(3, context.seconds) + 1 + around
    return measured + around


def of_run(context, lines, rows, all_passes=False):
    """Seconds of the passes, `lines`, each the systems in their order."""
    # The rate of Kafka, which is found first.
    warm_up_s = sum(seconds + 1 for _mode, seconds, _args in run_rows.warm_ups(rows))
    total = BROKER_S["kafka"] + warm_up_s + context.warmup_s + context.seconds + 2
    for number, line in enumerate(lines, 1):
        for name in line:
            mine = passes.rows_for(name, rows, number, all_passes)
            shared = any(not r.apart for r in mine)
            starts = len([r for r in mine if r.apart and r.kind != "backlog"]) + shared
            total += warm_up_s if shared and system_of(name).is_compiled_late else 0
            total += starts * BROKER_S[system_of(name).kind] + sum(of_row(context, r, SYSTEMS[system_of(name).name]) for r in mine)
    return total


def of_set(name, settings):
    """Seconds of a whole set with its default systems."""
    seconds, warmup, repeats, size = settings
    context = SimpleNamespace(seconds=seconds, warmup_s=warmup, size=size)
    lines = passes.order(FULL if name == "full" else DEFAULT, repeats, True)
    return of_run(context, lines, workloads.rows_of(name, re.compile(".")))
