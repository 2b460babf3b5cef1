"""How each kind of workload is run. Every function gives a dict of figures, and of what the tool itself found under `perf`."""

import json
import os
import re
import signal
import subprocess
import time

import figures
import process
from broker import Failed


def slug(name):
    """A name for topics and files."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def perf(context, broker, mode, args, limit_s, measured=True):
    """Runs `odradek perf`; gives its JSON result. Records that failed make the result one with `failed`."""
    out = broker.dir / "perf.json"
    out.unlink(missing_ok=True)
    command = [context.binary, "perf", mode, "--bootstrap-server", broker.bootstrap, "--quiet", "--json", out, *args]
    if context.threads:
        command += ["--threads", context.threads]
    if measured:
        command += ["--watch-pid", broker.pid, "--watch-disk", broker.dir]
    status, said = process.run(command, limit_s, context.client_cpus)
    if not out.exists():
        raise Failed(f"odradek perf {mode}: {said[-1500:]}")
    result = json.loads(out.read_text())
    if status != 0:
        result["failed"] = said[-500:].strip()
    return result


def sample_of(result, row, rate):
    """A sample of a result of the tool."""
    sample = {**figures.of_perf(result), "rate": rate, "client_threads": result["settings"]["threads"]}
    for key in ("failed", "interrupted"):
        if result.get(key):
            sample[key] = result[key]
    sample["perf"] = result
    return sample


def timed(context):
    """The options that bound a measurement, and the seconds after which it has failed."""
    seconds = ["--warmup", f"{context.warmup_s}s", "--duration", f"{context.seconds}s"]
    return seconds, context.seconds + context.warmup_s + 120


def loaded(context, row):
    """A row's options, with as many producers as its cores are worth."""
    args = list(row.args)
    per_core = row.extra.get("producers_per_core")
    if per_core:
        args += ["--producers", str(per_core * (context.cores or 1))]
    return args


def produce(context, broker, row, rate):
    seconds, limit = timed(context)
    args = ["--topic", slug(row.name), "--create", "--delete", *loaded(context, row), *seconds]
    if rate:
        args += ["--rate", str(int(rate))]
    return sample_of(perf(context, broker, "produce", args, limit), row, rate)


def e2e(context, broker, row, rate):
    seconds, limit = timed(context)
    args = ["--topic", slug(row.name), "--create", "--delete", *loaded(context, row), *seconds]
    if rate:
        args += ["--rate", str(int(rate))]
    elif "--fetch-max-wait-ms" not in args:
        # At the maximum records arrive at the consumer later than they are acknowledged; what counts is both at once.
        args += ["--consumers", "1"]
    return sample_of(perf(context, broker, "e2e", args, limit), row, rate)


def option(row, name):
    """The value of one of a row's options."""
    return row.args[row.args.index(name) + 1]


def fill(context, broker, topic, row, size):
    """Writes `size` bytes of records into a topic, as fast as that goes, unmeasured."""
    text = option(row, "--record-size")
    record = int(text[:-1]) * 1024 if text.endswith("k") else int(text)
    args = ["--topic", topic, "--create", "--partitions", option(row, "--partitions"), "--record-size", text, "--acks", "1",
            "--producers", "4", "--batch-size", "64k", "--records", str(size // record)]
    result = perf(context, broker, "produce", args, 1800, measured=False)
    if result.get("failed"):
        raise Failed(f"filling {topic}: {result['failed']}")


def drain(context, broker, row, _rate):
    topic = slug(row.name)
    fill(context, broker, topic, row, int(row.extra["bytes"] * context.size))
    args = ["--topic", topic, "--consumers", str(row.extra["consumers"]), "--stop-at-end", "--delete"]
    return sample_of(perf(context, broker, "consume", args, 600), row, None)


def idle(context, broker, row, _rate):
    args = ["--topic", slug(row.name), "--create", "--delete", *row.args, "--duration", f"{max(3, context.seconds)}s"]
    return sample_of(perf(context, broker, "idle", args, context.seconds + 120), row, None)


def partitions(context, broker, row, _rate):
    """Many partitions without traffic: memory, idle CPU, files, and a restart with all of them."""
    topic = slug(row.name)
    before = process.memory(broker.pid)[0]
    args = ["--topic", topic, "--create", *row.args, "--consumers", "0", "--connections", "1", "--duration", "5s"]
    result = perf(context, broker, "idle", args, 900)
    sample = {"idle_cores": figures.of_perf(result).get("idle_cores"), "metadata_ms": result["metadata_us"] / 1000}
    sample["rss_mib"] = process.memory(broker.pid)[0] / (1 << 20)
    sample["rss_before_mib"] = before / (1 << 20)
    sample["maps"], sample["open_files"] = process.maps_and_files(broker.pid)
    sample["stop_s"] = broker.end()
    sample["restart_s"] = broker.start()
    return sample


def restart(context, broker, row, _rate):
    """kill -9 with much data written, then the time until the broker serves again and a record is acknowledged."""
    topic = slug(row.name)
    fill(context, broker, topic, row, int(row.extra["bytes"] * context.size))
    broker.kill()
    sample = {"restart_s": broker.start()}
    begun = time.monotonic()
    args = ["--topic", topic, "--records", "1000", "--acks", "all"]
    sample["perf"] = perf(context, broker, "produce", args, 600)
    sample["restart_s"] += time.monotonic() - begun
    return sample


class Background:
    """`odradek perf` in the background, until it is told to end."""

    def __init__(self, context, broker, mode, args):
        self.said = broker.dir / f"{mode}.log"
        command = [context.binary, "perf", mode, "--bootstrap-server", broker.bootstrap, *args]
        with open(self.said, "wb") as log:
            self.process = process.start(command, log, context.client_cpus)

    def words(self):
        """What it said so far."""
        return self.said.read_text(errors="replace")

    def end(self, limit_s):
        """Ends it in good order."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"odradek perf does not end within {limit_s} s: {self.words()[-1000:]}") from error

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Producers(Background):
    """Producers, and what they measured."""

    def __init__(self, context, broker, args):
        self.out = broker.dir / "producers.json"
        super().__init__(context, broker, "produce", ["--quiet", "--json", self.out, "--watch-pid", broker.pid, "--watch-disk", broker.dir,
                                                      *args])

    def end(self, limit_s):
        """Ends them in good order; what they measured until then."""
        super().end(limit_s)
        if not self.out.exists():
            raise Failed(f"producers: {self.words()[-1000:]}")
        result = json.loads(self.out.read_text())
        # They were told to.
        result.pop("interrupted", None)
        if errors := (result.get("sent") or {}).get("errors"):
            result["failed"] = f"records of the producers failed: {errors}"
        return result


def forget_cached(folder):
    """Drops what the page cache holds of the files below a folder, after they are written: reads of them are cold then."""
    os.sync()
    for parent, _folders, files in os.walk(folder):
        for name in files:
            try:
                fd = os.open(os.path.join(parent, name), os.O_RDONLY)
            except FileNotFoundError:
                # Files of deleted topics go meanwhile.
                continue
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


# Seconds within which a backlog must be drained, a safety net.
DRAIN_S_MAX = 600


def backlog(context, broker, row, rate):
    """Producers at a steady rate; after a while a consumer that drains a cold backlog, while they go on. The producers' latency
    before it and during it. Where the broker has a limit of memory, it holds from its start on."""
    old, live = f"{slug(row.name)}-old", slug(row.name)
    size = int(row.extra["bytes"] * context.size)
    fill(context, broker, old, row, size)
    forget_cached(broker.dir / "data")
    before_s = max(3, context.seconds)
    producers = Producers(context, broker, ["--topic", live, "--create", *row.args, "--rate", str(int(rate)), "--warmup", "1s",
                                            "--duration", f"{before_s + DRAIN_S_MAX}s"])
    try:
        time.sleep(before_s + 1.5)
        room = memory_left(broker)
        out, begun, begun_wall = broker.dir / "drain.json", time.monotonic(), time.time()
        command = [context.binary, "perf", "consume", "--bootstrap-server", broker.bootstrap, "--quiet", "--json", out, "--topic",
                   old, "--consumers", "2", "--stop-at-end", "--delete"]
        status, said = process.run(command, DRAIN_S_MAX, context.client_cpus)
        drained_s = time.monotonic() - begun
        if status != 0:
            raise Failed(f"draining: {said[-1000:]}")
        result = producers.end(60)
    finally:
        producers.kill()
    found = {**backlog_figures(result, begun_wall - result["started_ms"] / 1000, drained_s), **room, "rate": rate,
             "backlog_mib": size / (1 << 20), "perf": result, "drain": json.loads(out.read_text())}
    return {**found, **failed(result)}


def memory_left(broker):
    """The limit of memory and what of it is left to the page cache; nothing without a limit."""
    if not broker.group:
        return {}
    left = broker.group.limit - process.memory(broker.pid)[0]
    return {"memory_limit_mib": broker.group.limit / (1 << 20), "cache_room_mib": left / (1 << 20)}


def backlog_figures(producers, begun_s, drained_s):
    """Latencies of the seconds before the drain and of those during it: the worst second of each. The drain begins `begun_s` seconds
    after the measurement of the producers."""
    before, during = [], []
    for i, second in enumerate(s for s in producers["seconds"] if s["measured"]):
        if i + 1 <= begun_s:
            before.append(second)
        elif i < begun_s + drained_s:
            during.append(second)
    worst = lambda some: max((s["p99_us"] for s in some), default=0) / 1000
    return {"drain_s": drained_s, "p99_before_ms": worst(before), "p99_during_ms": worst(during)}


def java(context, broker, tool, *args):
    """One of Kafka's own tools; what it printed and the CPU seconds it and the broker took."""
    client = os.times()
    begun = process.cpu_seconds(broker.pid)
    # The status is not looked at: a tool may have its result and then miss an API when it closes.
    _status, said = process.run([context.root / "scripts/kafka", tool, *args], 900, context.client_cpus, context.env)
    used = [after - before for before, after in zip(begun, process.cpu_seconds(broker.pid))]
    after = os.times()
    own = after.children_user + after.children_system - client.children_user - client.children_system
    return said, used, own


def java_produce(context, broker, row, rate):
    facts, topic = row.extra, slug(row.name)
    records = int(facts["records"] * context.size)
    perf(context, broker, "idle", ["--topic", topic, "--create", "--partitions", str(facts["partitions"]), "--consumers", "0",
                                   "--connections", "1", "--duration", "1ms"], 60, measured=False)
    said, (user, system), own = java(
        context, broker, "kafka-producer-perf-test", "--topic", topic, "--num-records", str(records), "--record-size",
        str(facts["size"]), "--throughput", str(rate or -1), "--command-property", f"bootstrap.servers={broker.bootstrap}", "acks=all")
    found = figures.of_java_produce(said)
    if not found:
        raise Failed(f"kafka-producer-perf-test printed no result: {said[-1000:]}")
    found["rate"] = rate
    gib, seconds = records * facts["size"] / figures.GIB, records / found["records_per_s"]
    found.update(broker_user_s_per_gib=user / gib, broker_system_s_per_gib=system / gib,
                 broker_cpu_s_per_gib=(user + system) / gib, broker_cores=(user + system) / seconds,
                 client_cores=own / seconds, client_cpu_s_per_gib=own / gib)
    return found


def java_e2e(context, broker, row, _rate):
    topic = slug(row.name)
    perf(context, broker, "idle", ["--topic", topic, "--create", "--partitions", "1", "--consumers", "0", "--connections", "1",
                                   "--duration", "1ms"], 60, measured=False)
    records = str(int(row.extra["records"] * context.size))
    said, _used, _own = java(context, broker, "kafka-e2e-latency", "--bootstrap-server", broker.bootstrap, "--topic", topic,
                             "--num-records", records, "--producer-acks", "all", "--record-size", str(row.extra["size"]))
    found = figures.of_java_e2e(said)
    if not found:
        raise Failed(f"kafka-e2e-latency printed no result: {said[-1000:]}")
    return found


def java_consume(context, broker, row, _rate):
    """kafka-consumer-perf-test with a group of one protocol over what was written before."""
    topic, facts = slug(row.name), row.extra
    size = int(facts["bytes"] * context.size)
    fill(context, broker, topic, row, size)
    records = size // int(option(row, "--record-size")[:-1]) // 1024
    said, (user, system), own = java(
        context, broker, "kafka-consumer-perf-test", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records",
        str(records), "--timeout", "60000", "--hide-header", "--command-property", f"group.protocol={facts['protocol']}",
        f"group.id=perf-test-{facts['protocol']}")
    perf(context, broker, "idle", ["--topic", topic, "--consumers", "0", "--connections", "1", "--duration", "1ms", "--delete"], 60,
         measured=False)
    found = figures.of_java_consume(said)
    if not found:
        raise Failed(f"kafka-consumer-perf-test printed no result: {said[-1000:]}")
    gib = found["mib_per_s"] * found["drain_s"] / 1024
    found.update(broker_cpu_s_per_gib=(user + system) / gib, broker_user_s_per_gib=user / gib, broker_system_s_per_gib=system / gib,
                 broker_cores=(user + system) / found["drain_s"], client_cores=own / found["drain_s"], client_cpu_s_per_gib=own / gib)
    return found


# What warms a broker up before groups are measured: a JVM compiles meanwhile, and the topic of the offsets is made.
WARM_GROUP = ["--groups", "1", "--members", "20", "--partitions", "20", "--heartbeat-interval", "200ms"]


def group(context, broker, row, rate):
    """Members from their start until they are stable, their heartbeats, and a rolling restart."""
    topic, protocol = slug(row.name), option(row, "--protocol")
    warm = ["--topic", f"{topic}-warm", "--create", "--delete", "--group-prefix", f"{topic}-warm", "--protocol", protocol,
            *WARM_GROUP, "--duration", f"{GROUP_WARM_UP_S[broker.system.is_compiled_late]}s"]
    perf(context, broker, "group", warm, 120, measured=False)
    # Before members came and went by the thousand, of whom something may be left.
    held = held_per_member(context, broker, row, f"{topic}-held")
    seconds, limit = timed(context)
    args = ["--topic", topic, "--group-prefix", topic, "--create", "--delete", *row.args, *seconds]
    if rate:
        args += ["--rate", str(int(rate))]
    result = perf(context, broker, "group", args, limit + 600)
    sample = {**figures.of_group(result), "rate": rate, "client_threads": 1, "perf": result, **failed(result)}
    if held is not None:
        sample["bytes_per_member"] = held
    return sample


# Seconds within which members are in their groups, a safety net.
STABLE_S_MAX = 120


def held_per_member(context, broker, row, topic):
    """Bytes that a broker holds for each member once all are in their groups, as `Broker.held` counts them. None where that cannot
    be asked for."""
    # The topic does not count.
    few = ["--topic", topic, "--group-prefix", f"{topic}-few", "--create", "--partitions", option(row, "--partitions"), "--protocol",
           option(row, "--protocol"), "--members", "2", "--heartbeat-interval", "500ms", "--duration", "1s"]
    perf(context, broker, "group", few, STABLE_S_MAX, measured=False)
    settle(broker)
    before = broker.held()
    members = Background(context, broker, "group", ["--topic", topic, "--group-prefix", topic, *row.args, "--duration", f"{STABLE_S_MAX}s"])
    try:
        until = time.monotonic() + STABLE_S_MAX
        while "stable after" not in members.words():
            if members.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"members that should be counted: {members.words()[-1000:]}")
            time.sleep(0.1)
        held = broker.held()
        members.end(STABLE_S_MAX)
    finally:
        members.kill()
    if before is None or held is None:
        return None
    groups = int(option(row, "--groups")) if "--groups" in row.args else 1
    return max(0, held - before) / (groups * int(option(row, "--members")))


def failed(result):
    """What of a result says that it is no success."""
    return {key: result[key] for key in ("failed", "interrupted") if result.get(key)}


def commits(context, broker, row, rate):
    """Offset commits, at the maximum or a rate."""
    topic = slug(row.name)
    seconds, limit = timed(context)
    args = ["--topic", topic, "--group-prefix", topic, "--create", "--delete", *row.args, *seconds]
    if rate:
        args += ["--rate", str(int(rate))]
    result = perf(context, broker, "commit", args, limit)
    return {**figures.of_commits(result), "rate": rate, "client_threads": 1, "perf": result, **failed(result)}


def loading(context, broker, row, _rate):
    """Many different commits, and the time from the start of the process until all their groups are served, and its memory then,
    beside those of a start with the same partitions and next to no commits."""
    topic = slug(row.name)
    count = str(row.extra["commits"])
    args = ["--topic", topic, "--partitions", option(row, "--partitions")]
    few = [*args, "--group-prefix", f"{topic}-warm", "--groups", "1"]
    many = [*args, "--group-prefix", topic]

    def again(which, commits):
        stop_s, start_s = broker.end(), broker.start()
        check = perf(context, broker, "commit", [*which, "--check", commits], 900)
        return stop_s, start_s + check["loaded_s"], broker.held(), check

    perf(context, broker, "commit", [*few, "--create", "--duration", "1s"], 120, measured=False)
    _stop_s, empty_s, empty_bytes, _check = again(few, "1")
    # A JVM's code is compiled before commits are counted.
    perf(context, broker, "commit", [*few, "--duration", "2s"], 120, measured=False)
    result = perf(context, broker, "commit", [*many, "--fill", count], 900)
    sample = {**figures.of_commits(result), "perf": result, **failed(result)}
    sample["stop_s"], sample["loaded_s"], bytes_held, check = again(many, count)
    sample["load_s"] = max(0, sample["loaded_s"] - empty_s)
    if bytes_held is not None and empty_bytes is not None:
        sample["bytes_per_commit"] = max(0, bytes_held - empty_bytes) / int(count)
    sample["rss_mib"] = process.memory(broker.pid)[0] / (1 << 20)
    return {**sample, "check": check, **failed(check)}


KINDS = {"produce": produce, "e2e": e2e, "drain": drain, "idle": idle, "partitions": partitions, "restart": restart,
         "backlog": backlog, "java_produce": java_produce, "java_e2e": java_e2e, "java_consume": java_consume, "group": group,
         "commits": commits, "loading": loading}


def accounts(broker):
    """The time, the CPU seconds of the machine, and those of the broker and its clients."""
    return time.monotonic(), process.busy_seconds(), sum(process.cpu_seconds(broker.pid)) + process.children_seconds()


# Seconds that it may take until the disk is quiet, and for how long it has to be.
QUIET_S_MAX, QUIET_S = 30, 0.2


def settle(broker):
    """Has the disk do what earlier rows left to it: files of deleted topics go, what is to be written is written, and blocks that became
    free are discarded. Gigabytes of those keep some disks from writing for a second."""
    until = time.monotonic() + QUIET_S_MAX
    while time.monotonic() < until and any((broker.dir / "data").glob("*-delete")):
        time.sleep(0.02)
    os.sync()
    device = process.disk_of(broker.dir)
    seen, since = process.disk_work(device), time.monotonic()
    while seen and time.monotonic() < min(until, since + QUIET_S):
        time.sleep(0.02)
        now = process.disk_work(device)
        if now[0] or now != seen:
            seen, since = now, time.monotonic()


# What a JVM runs before anything of it is measured, so that its code is compiled: loads that together go the ways of the rows, with their
# seconds.
WARM_UP = (
    ("produce", 5, "--partitions 16 --record-size 1k --batch-size 16k --batches-per-request 4 --producers 4 --acks all --idempotent"),
    ("produce", 5, "--partitions 64 --record-size 100 --batch-size 1 --producers 64 --in-flight 1 --acks all --idempotent"),
    ("produce", 3, "--partitions 6 --record-size 100 --batch-size 16k --batches-per-request 6 --acks all --idempotent"),
    ("e2e", 3, "--partitions 16 --record-size 1k --batch-size 16k --producers 4 --acks all --idempotent --consumers 2"),
    ("commit", 3, "--partitions 100 --groups 100 --connections 16 --group-prefix warm"),
)
# A JVM without load that keeps less than so much of a core busy has compiled what it wants to; the step of asking, and the longest wait.
COMPILED_CORES, COMPILED_STEP_S, COMPILED_S_MAX = 0.2, 0.5, 10
# The seconds of heartbeats in a group that is not measured, before one that is.
GROUP_WARM_UP_S = {False: 2, True: 8}


def warm_ups(rows):
    """What of that these rows need: commits only where commits are measured."""
    return [load for load in WARM_UP if load[0] != "commit" or any(row.kind == "commits" for row in rows)]


def warm_up(context, broker, rows):
    """Loads a system whose code is compiled as it runs, unmeasured; the others need none."""
    if not broker.system.is_compiled_late:
        return
    for i, (mode, seconds, args) in enumerate(warm_ups(rows)):
        perf(context, broker, mode, ["--topic", f"warm-{i}", "--create", "--delete", *args.split(), "--warmup", "0s", "--duration",
                                     f"{seconds}s"], 120, measured=False)
    # What it still compiles, and deletes, is done.
    until = time.monotonic() + COMPILED_S_MAX
    while time.monotonic() < until:
        before = sum(process.cpu_seconds(broker.pid))
        time.sleep(COMPILED_STEP_S)
        if sum(process.cpu_seconds(broker.pid)) - before < COMPILED_CORES * COMPILED_STEP_S:
            break


def measure(context, broker, row, rate):
    """One sample of a row, with the page cache's growth. The disk has done what earlier rows left to it."""
    settle(broker)
    cached, _dirty = process.page_cache()
    before, pid = accounts(broker), broker.pid
    sample = KINDS[row.kind](context, broker, row, rate)
    if broker.pid == pid:
        time_s, busy_s, known_s = (b - a for a, b in zip(before, accounts(broker)))
        sample["foreign_cores"] = max(0, busy_s - known_s) / time_s
    sample["page_cache_mib"] = (process.page_cache()[0] - cached) / (1 << 20)
    return sample
