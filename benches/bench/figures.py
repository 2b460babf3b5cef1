"""From what a tool printed to named figures."""

import re

GIB = 1 << 30

# name: (label, unit the value is divided by, True when more is better, None when neither)
FIGURES = {
    "records_per_s": ("records/s", 1, True),
    "mib_per_s": ("MiB/s", 1, True),
    "requests_per_s": ("requests/s", 1, True),
    "p50_ms": ("p50 ms", 1, False),
    "p95_ms": ("p95 ms", 1, False),
    "p99_ms": ("p99 ms", 1, False),
    "p99_9_ms": ("p99.9 ms", 1, False),
    "p99_99_ms": ("p99.99 ms", 1, False),
    "max_ms": ("max ms", 1, False),
    "broker_cpu_s_per_gib": ("broker CPU s/GiB", 1, False),
    "broker_user_s_per_gib": ("of it user", 1, False),
    "broker_system_s_per_gib": ("of it system", 1, False),
    "broker_cpu_s_per_million_requests": ("broker CPU s/M requests", 1, False),
    "broker_cores": ("broker cores busy", 1, None),
    "requests_per_cpu_s": ("requests per broker CPU s", 1, True),
    "client_cpu_s_per_gib": ("client CPU s/GiB", 1, None),
    "client_cores": ("client cores busy", 1, None),
    "disk_bytes_per_byte": ("disk bytes/byte", 1, False),
    "flushes_per_s": ("disk flushes/s", 1, None),
    "switches_per_request": ("context switches/request", 1, False),
    "rss_mib": ("RSS MiB", 1, False),
    "rss_peak_mib": ("RSS peak MiB", 1, False),
    "page_cache_mib": ("page cache grown MiB", 1, None),
    "foreign_cores": ("cores others used", 1, None),
    "still_ms": ("machine stood still, ms at most", 1, None),
    "unsent_share": ("due but unsent", 1, False),
    "start_s": ("seconds to ready", 1, False),
    "stop_s": ("seconds to stop", 1, False),
    "restart_s": ("seconds to ready again", 1, False),
    "metadata_ms": ("metadata answer ms", 1, False),
    "idle_cores": ("cores busy when idle", 1, False),
    "open_files": ("open files", 1, None),
    "maps": ("memory maps", 1, None),
    "drain_s": ("seconds to drain", 1, False),
    "stable_s": ("seconds to stable", 1, False),
    "stable_cpu_s": ("broker CPU s to stable", 1, False),
    "roll_s": ("seconds of rolling restart", 1, False),
    "roll_step_ms": ("longest step of it ms", 1, False),
    "roll_cpu_s": ("broker CPU s of it", 1, False),
    "heartbeats_per_s": ("heartbeats/s", 1, True),
    "heartbeats_per_cpu_s": ("heartbeats per broker CPU s", 1, True),
    "bytes_per_member": ("bytes/member", 1, False),
    "commits_per_s": ("offsets committed/s", 1, True),
    "commits_per_cpu_s": ("offsets committed per broker CPU s", 1, True),
    "bytes_per_commit": ("bytes/committed offset", 1, False),
    "loaded_s": ("seconds to groups loaded", 1, False),
    "load_s": ("of it loading offsets", 1, False),
    "rebalance_s": ("seconds of rebalance", 1, False),
    "backlog_mib": ("backlog MiB", 1, None),
    "memory_limit_mib": ("memory limit MiB", 1, None),
    "cache_room_mib": ("of it left to the page cache", 1, None),
    "p99_before_ms": ("producer p99 ms before", 1, False),
    "p99_during_ms": ("producer p99 ms during", 1, False),
}

# The columns of a row's table, as far as there are values.
COLUMNS = ["records_per_s", "mib_per_s", "requests_per_s", "p50_ms", "p99_ms", "p99_9_ms", "p99_99_ms", "max_ms",
           "broker_cpu_s_per_gib", "broker_user_s_per_gib", "broker_system_s_per_gib", "requests_per_cpu_s",
           "broker_cpu_s_per_million_requests", "broker_cores", "client_cores", "disk_bytes_per_byte", "flushes_per_s",
           "switches_per_request", "rss_mib", "rss_peak_mib", "page_cache_mib", "foreign_cores", "still_ms", "unsent_share", "start_s", "stop_s",
           "restart_s", "metadata_ms", "idle_cores", "open_files", "maps", "drain_s", "backlog_mib", "memory_limit_mib", "cache_room_mib", "p99_before_ms", "p99_during_ms",
           "stable_s", "stable_cpu_s", "roll_s", "roll_step_ms", "roll_cpu_s", "heartbeats_per_s", "heartbeats_per_cpu_s",
           "bytes_per_member", "commits_per_s", "commits_per_cpu_s", "bytes_per_commit", "loaded_s", "load_s", "rebalance_s"]


def number(value):
    """A number with four digits that count."""
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def of_perf(result):
    """The figures in a JSON result of `odradek perf`."""
    elapsed = result["elapsed_s"] or 0
    sent, read = result.get("sent"), result.get("read")
    idle = result["mode"] == "idle"
    # End to end, the latency is that of the reader, the bytes are those produced.
    main = sent or read
    latency = (read or sent)["latency"] if not idle else result.get("connections_made")
    found = {}
    if not idle:
        found.update(records_per_s=main["records_per_s"], mib_per_s=main["mib_per_s"])
        if elapsed:
            found["requests_per_s"] = main["requests"] / elapsed
    for name in ("p50", "p95", "p99", "p99_9", "p99_99", "max"):
        if latency:
            found[f"{name}_ms"] = latency[f"{name}_us"] / 1000
    if sent and main["records"] + main["unsent_records"] and result["settings"]["load"].get("rate"):
        found["unsent_share"] = main["unsent_records"] / (main["records"] + main["unsent_records"])
    duration = result["settings"]["duration_s"] or elapsed
    used, client = result.get("watched"), result.get("client")
    if used:
        found["rss_mib"] = used["rss_bytes"] / (1 << 20)
        found["rss_peak_mib"] = used["rss_peak_bytes"] / (1 << 20)
        if used["open_files"] is not None:
            found["open_files"] = used["open_files"]
        cpu = used["user_s"] + used["system_s"]
        if idle:
            found["idle_cores"] = cpu / duration
        elif elapsed and main["bytes"]:
            found.update(_broker(used, main, elapsed))
    if client and elapsed and not idle and main["bytes"]:
        cpu = client["user_s"] + client["system_s"]
        found["client_cores"] = cpu / elapsed
        found["client_cpu_s_per_gib"] = cpu * GIB / main["bytes"]
    if result.get("disk") and elapsed:
        found["flushes_per_s"] = result["disk"]["flushes"] / elapsed
    return found


def _broker(used, main, elapsed):
    """CPU, disk and switches of the broker, by what was done for them."""
    cpu, gib = used["user_s"] + used["system_s"], main["bytes"] / GIB
    requests = max(1, main["requests"])
    switches = used["context_switches_voluntary"] + used["context_switches_forced"]
    found = {
        "broker_user_s_per_gib": used["user_s"] / gib,
        "broker_system_s_per_gib": used["system_s"] / gib,
        "broker_cpu_s_per_gib": cpu / gib,
        "broker_cpu_s_per_million_requests": cpu * 1e6 / requests,
        "broker_cores": cpu / elapsed,
        "switches_per_request": switches / requests,
    }
    if cpu:
        found["requests_per_cpu_s"] = requests / cpu
    if used["write_bytes"] is not None:
        found["disk_bytes_per_byte"] = used["write_bytes"] / main["bytes"]
    return found


def _cpu(used):
    """CPU seconds of a process, or none where it was not watched."""
    return used["user_s"] + used["system_s"] if used else None


def _driven(result):
    """What heartbeats and commits have in common: latency, the cores that were busy, and what was due and not sent."""
    sent, elapsed = result["sent"], result["elapsed_s"]
    found = {f"{name}_ms": sent["latency"][f"{name}_us"] / 1000
             for name in ("p50", "p95", "p99", "p99_9", "p99_99", "max") if sent["latency"]}
    for name, used in (("broker_cores", result.get("watched")), ("client_cores", result.get("client"))):
        if used and elapsed:
            found[name] = _cpu(used) / elapsed
    if result["settings"]["load"].get("rate"):
        found["unsent_share"] = sent["unsent_records"] / max(1, sent["requests"] + sent["unsent_records"])
    return found


def of_group(result):
    """The figures in a JSON result of `odradek perf group`."""
    start, roll = result["start"], result.get("roll")
    found = {"stable_s": start["seconds"], "stable_cpu_s": _cpu(start["watched"])}
    if roll:
        found.update(roll_s=roll["seconds"], roll_step_ms=max(roll["steps_ms"]), roll_cpu_s=_cpu(roll["watched"]))
    if result.get("sent"):
        found.update(_driven(result), heartbeats_per_s=result["sent"]["records_per_s"])
        cpu = _cpu(result.get("watched"))
        if cpu:
            found["heartbeats_per_cpu_s"] = result["sent"]["records"] / cpu
    if result.get("rss_stable_bytes"):
        found["rss_mib"] = result["rss_stable_bytes"] / (1 << 20)
    return found


def of_commits(result):
    """The figures in a JSON result of `odradek perf commit`."""
    found = {**_driven(result), "commits_per_s": result["sent"]["records_per_s"]}
    if result["elapsed_s"]:
        found["requests_per_s"] = result["sent"]["requests"] / result["elapsed_s"]
    cpu = _cpu(result.get("watched"))
    if cpu:
        found["commits_per_cpu_s"] = result["sent"]["records"] / cpu
    if result.get("disk") and result["elapsed_s"]:
        found["flushes_per_s"] = result["disk"]["flushes"] / result["elapsed_s"]
    return found


JAVA_PRODUCE = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th")


def of_java_produce(said):
    """The figures in what kafka-producer-perf-test printed, or none."""
    found = JAVA_PRODUCE.findall(said)
    if not found:
        return None
    last = [float(x) for x in found[-1]]
    return {"records_per_s": last[1], "mib_per_s": last[2], "max_ms": last[4], "p50_ms": last[5], "p95_ms": last[6],
            "p99_ms": last[7], "p99_9_ms": last[8]}


def of_java_consume(said):
    """The figures in what kafka-consumer-perf-test printed, or none: start, end, MiB, MiB/s, records, records/s, ms of rebalance,
    ms of fetching, and the rates of fetching alone."""
    lines = [line.split(", ") for line in said.splitlines() if re.match(r"\d{4}-\d\d-\d\d [\d:]+, ", line)]
    if not lines or len(lines[-1]) < 10:
        return None
    # The rates without the rebalance: what is fetched, as the tool itself tells it.
    mib, records, rebalance_ms, fetch_ms, mib_per_s, records_per_s = (float(lines[-1][i]) for i in (2, 4, 6, 7, 8, 9))
    if not mib or not records:
        return None
    return {"records_per_s": records_per_s, "mib_per_s": mib_per_s, "rebalance_s": rebalance_ms / 1000, "drain_s": fetch_ms / 1000}


def of_java_e2e(said):
    """The figures in what kafka-e2e-latency printed, or none."""
    tail = re.search(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)", said)
    if not tail:
        return None
    return {"p50_ms": float(tail[1]), "p99_ms": float(tail[2]), "p99_9_ms": float(tail[3])}


# Cores that others may use during a measurement before it counts as disturbed: kernel threads that write pages back belong to
# the broker but are counted as others.
FOREIGN_CORES_MAX = 0.3


def bound(sample, cpus):
    """What limits a sample where it is not the broker: other programs, the client, or the machine that both share; empty
    otherwise."""
    if sample.get("foreign_cores", 0) > FOREIGN_CORES_MAX:
        return "disturbed"
    if sample.get("cache_room_mib", 0) >= sample.get("backlog_mib", float("inf")):
        return "the backlog fits the page cache"
    client, broker = sample.get("client_cores"), sample.get("broker_cores")
    if client is None or broker is None or sample.get("rate"):
        return ""
    threads = sample.get("client_threads") or 1
    if client >= 0.85 * threads and broker < 0.85 * max(1, cpus - threads):
        return "client-bound"
    if client + broker >= 0.9 * cpus:
        return "machine full"
    return ""
