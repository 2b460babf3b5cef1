"""The order of things: which system is measured when, what is said meanwhile, and that nothing is lost on the way."""

import json
import os
import shutil
import statistics
import sys
import time

import cgroup
import figures
import process
import run_rows
from broker import Broker, Failed
from systems import SYSTEMS, control_of, system_of
from workloads import by_name

# A run stops before the disk is so full that the file system slows down.
DISK_BYTES_FREE_MIN = 4 << 30
# Times in a pass that a system which ended by itself is started anew; then the rest of its rows is left out.
LOSSES_MAX = 2
# A system that keeps records in its memory is started anew when it has taken this much.
MEMORY_BYTES_MAX = 4 << 30


class Stop(Exception):
    """The run cannot go on, in words."""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Run:
    """One run of a set: its samples, written down after each of them."""

    def __init__(self, context, out, meta, all_passes=False):
        self.context, self.out, self.meta, self.all_passes = context, out, meta, all_passes
        self.samples = []
        self.begun = time.monotonic()
        self.done = self.total = 0

    def add(self, sample):
        self.samples.append(sample)
        self.save()

    def save(self):
        """Writes everything so far, whole or not at all."""
        temporary = self.out / "samples.json.new"
        temporary.write_text(json.dumps({"meta": self.meta, "samples": self.samples}, separators=(",", ":")) + "\n")
        os.replace(temporary, self.out / "samples.json")

    def hiccups_of(self, sample, begun):
        """The longest time, in ms, that the machine itself stood still while a sample was measured: by what its tool says of that
        time, or else since `begun`. None where that is not watched."""
        took, result = time.monotonic() - begun, sample.get("perf") or {}
        begin, end = time.time() - took, time.time()
        if result.get("started_ms") and result.get("elapsed_s"):
            begin = result["started_ms"] / 1000
            end = begin + result["elapsed_s"]
        seen = self.context.hiccups.between(begin, end)
        if seen is None:
            return None
        self.meta.setdefault("hiccups", []).extend(seen)
        return max((late for _, late in seen), default=0.0)

    def clock(self):
        spent = time.monotonic() - self.begun
        left = spent / self.done * (self.total - self.done) if self.done else 0
        return f"{self.done}/{self.total}, {int(spent // 60)}:{int(spent % 60):02d} gone" + (
            f", some {int(left // 60)}:{int(left % 60):02d} to go" if self.done else "")


def order(names, repeats, control):
    """The passes: systems forwards, then backwards. The control is the first system once more, at the other end."""
    line = [*names, control_of(names[0])] if control else list(names)
    return [line if i % 2 == 0 else line[::-1] for i in range(repeats)]


def rate_of(run, row, name, number):
    """The rate of a row: a number, a part of what this system reached in this pass, or a part of what Kafka reached."""
    if row.rate is None or isinstance(row.rate, int):
        return row.rate
    whose, part, of = row.rate
    if whose == "own":
        own = [s["records_per_s"] for s in run.samples if (s["system"], s["row"], s["pass"]) == (name, of, number)
               and s.get("cores") == run.context.cores and "records_per_s" in s]
        return own[-1] * part if own else None
    reached = run.meta["baseline"]["records_per_s"].get(of)
    return reached * part if reached else None


def baseline(run, names, rows):
    """Finds, once and before the passes, what the rates of other rows are a part of."""
    needed = sorted({r.rate[2] for r in rows if isinstance(r.rate, tuple) and r.rate[0] == "kafka"})
    name = "kafka" if "kafka" in names else next((n for n in names if SYSTEMS[n].kind in ("odradek", "kafka")), names[0])
    run.meta["baseline"] = {"system": name, "records_per_s": {}}
    if not needed:
        return
    say(f"finding the maximum of {name}, of which rates are a part")
    broker, why = started(run, name)
    if not broker:
        say(f"    {name} {why}; rows at those rates are left out")
        return
    try:
        run_rows.warm_up(run.context, broker, rows)
        for row in map(by_name, needed):
            found = run_rows.measure(run.context, broker, row, None)["records_per_s"]
            run.meta["baseline"]["records_per_s"][row.name] = found
            say(f"    {row.name}: {found:,.0f} records/s")
    except Failed as error:
        say(f"    {name} fails, and rows at those rates are left out: {error}")
    finally:
        broker.stop()


def check_disk(context, more=0):
    """Refuses to go on when a disk would be left with too little after `more` bytes."""
    free, need = shutil.disk_usage(context.disk).free, DISK_BYTES_FREE_MIN + more
    if free < need:
        raise Stop(f"{context.disk} has {free / (1 << 30):.1f} GiB left, and {need / (1 << 30):.1f} GiB are needed to go on")


def one_row(run, broker, name, number, row):
    """Measures a row, and goes on with the next one when it fails."""
    check_disk(run.context)
    begun = time.monotonic()
    stored = int(row.extra.get("bytes", 0) * run.context.size * 1.2)
    facts = {"system": name, "row": row.name, "pass": number, "rung": broker.system.rung, "cores": run.context.cores}
    rate = rate_of(run, row, name, number)
    head = f"[{run.clock()}] {name}: {row.name}"
    if row.rate and not rate:
        say(f"{head}: left out, nothing is known of the row that its rate is a part of")
        run.done += 1
        return
    check_disk(run.context, stored)
    try:
        sample = run_rows.measure(run.context, broker, row, rate)
    except Failed as error:
        sample = {"failed": str(error)}
    except Exception as error:  # A fault of the harness costs a row, not the run.
        sample = {"failed": f"{type(error).__name__}: {error}"}
    if (status := broker.process.poll()) is not None:
        sample["failed"] = f"{name} ended by itself with {status}: {broker.last_words()}; {sample.get('failed', '')}"
    if (late := run.hiccups_of(sample, begun)) is not None:
        sample["still_ms"] = late
    sample["limit"] = figures.bound(sample, run.context.cpus)
    sample["took_s"] = round(time.monotonic() - begun, 2)
    run.done += 1
    run.add({**facts, **sample})
    say(f"{head}: {brief(sample)}")


def lost(run, name, number, rows, why):
    """Tells of rows that cannot be measured."""
    for row in rows:
        run.done += 1
        run.add({"system": name, "row": row.name, "pass": number, "rung": system_of(name).rung, "cores": run.context.cores, "failed": why})
        say(f"[{run.clock()}] {name}: {row.name}: FAILED: {why[-200:]}")


def started(run, name, memory=None):
    """A fresh broker, or why there is none."""
    check_disk(run.context)
    try:
        return Broker(run.context, system_of(name), run.context.cores, run.context.broker_cpus, memory), ""
    except (Failed, OSError, cgroup.NotAllowed) as error:
        return None, f"cannot be started: {error}"


def brief(sample):
    """A sample in a line."""
    parts = []
    for name in ("records_per_s", "p99_ms", "broker_cpu_s_per_gib", "idle_cores", "restart_s", "stable_s", "roll_s",
                 "heartbeats_per_cpu_s", "commits_per_s", "commits_per_cpu_s", "load_s", "bytes_per_member", "bytes_per_commit",
                 "rss_mib", "drain_s"):
        if sample.get(name) is not None and not (name == "rss_mib" and parts):
            parts.append(f"{figures.FIGURES[name][0]} {figures.number(sample[name])}")
    if sample.get("unsent_share", 0) > 0.01:
        parts.append(f"rate not reached, {sample['unsent_share']:.0%} unsent")
    if sample.get("failed"):
        parts.append("FAILED: " + " ".join(sample["failed"].split())[-200:])
    return ", ".join(parts + ([sample["limit"]] if sample.get("limit") else []))


def one_system(run, name, number, rows):
    """A fresh system, all its rows, and what it cost as a whole."""
    facts = {"system": name, "pass": number, "rung": system_of(name).rung, "cores": run.context.cores}
    broker, why = started(run, name)
    if not broker:
        return lost(run, name, number, rows, why)
    losses = 0
    try:
        run.add({**facts, "row": "start", "start_s": broker.start_s, "rss_mib": process.memory(broker.pid)[0] / (1 << 20)})
        try:
            run_rows.warm_up(run.context, broker, rows)
        except Failed as error:
            return lost(run, name, number, rows, f"warming up: {error}")
        for i, row in enumerate(rows):
            one_row(run, broker, name, number, row)
            gone = broker.process.poll() is not None
            if gone or is_full(broker):
                losses += gone
                broker.stop()
                broker, why = started(run, name) if losses <= LOSSES_MAX else (None, f"left out, as the system ended {losses} times")
                if not broker:
                    return lost(run, name, number, rows[i + 1:], why)
        run.add({**facts, "row": "memory", "rss_peak_mib": process.memory(broker.pid)[1] / (1 << 20)})
    finally:
        if broker:
            broker.stop()
    return None


def is_full(broker):
    """Whether a system that keeps records in its memory has taken so much that it must make room for what follows."""
    return broker.system.rung == "memory" and process.memory(broker.pid)[0] > MEMORY_BYTES_MAX


def one_apart(run, name, number, row):
    """A row with a broker of its own."""
    broker, why = started(run, name, row.memory)
    if not broker:
        return lost(run, name, number, [row], why)
    try:
        one_row(run, broker, name, number, row)
    finally:
        broker.stop()
    return None


def rows_for(name, rows, number, all_passes=False):
    """The rows that a system, or the control, takes part in, in a pass. Rows may be content with fewer passes, unless all were asked
    for; those apart are measured as often as they say."""
    system, control = system_of(name), name != system_of(name).name
    return [r for r in rows if (r.control or not control) and system.name not in r.without
            and (number <= r.passes or (all_passes and not r.apart))
            and (not system.kinds or r.kind in system.kinds) and (r.ceiling or not system.is_ceiling) and (r.is_core or not system.core_only)]


def measure_all(run, names, rows, repeats, control):
    """All passes."""
    control = control and any(r.control for r in rows)
    passes = order(names, repeats, control)
    run.total = sum(len(rows_for(name, rows, number, run.all_passes)) for number, line in enumerate(passes, 1) for name in line)
    baseline(run, names, rows)
    run.begun = time.monotonic()
    for number, line in enumerate(passes, 1):
        for name in line:
            say(f"pass {number} of {len(passes)}: {name}, {system_of(name).rung}")
            mine = rows_for(name, rows, number, run.all_passes)
            shared = [r for r in mine if not r.apart]
            if shared:
                one_system(run, name, number, shared)
            for row in mine:
                if row.apart:
                    one_apart(run, name, number, row)


def core_counts(cpus):
    """1, 2, 4, ... and all."""
    counts = [1]
    while counts[-1] * 2 < cpus:
        counts.append(counts[-1] * 2)
    return [*counts, cpus] if cpus > 1 else counts


def measure_scale(run, names, rows, repeats):
    """From one core to all. The client has the CPUs that the broker leaves, and all of them where it leaves fewer than half of
    what it takes."""
    context = run.context
    cpus = sorted(os.sched_getaffinity(0))
    counts = core_counts(len(cpus))
    run.total = len(counts) * len(names) * len(rows) * repeats
    run.meta["baseline"] = {"system": names[0], "records_per_s": {}}
    for number in range(1, repeats + 1):
        for count in counts if number % 2 else counts[::-1]:
            rest = cpus[count:]
            shared = len(rest) < max(1, count / 2)
            context.cores, context.broker_cpus = count, set(cpus[:count])
            context.client_cpus = set(cpus if shared else rest)
            context.threads = max(1, min(len(context.client_cpus), 2 * count))
            for name in names if number % 2 else names[::-1]:
                say(f"repeat {number} of {repeats}: {name} on {count} of {len(cpus)} CPUs{', shared with the client' if shared else ''}")
                one_system(run, name, number, rows)
                for sample in run.samples:
                    if sample["cores"] == count:
                        sample["shared_cpus"] = shared


def median(values):
    """Median, minimum and maximum; none of nothing."""
    values = [v for v in values if v is not None]
    return (statistics.median(values), min(values), max(values)) if values else None
