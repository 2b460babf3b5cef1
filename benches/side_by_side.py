"""Runs Odradek and Apache Kafka in turn and compares throughput, latency, CPU per byte and memory.

Fair by construction: one system at a time on the same disk with a fresh directory, the same client settings, passes
interleaved A-B-B-A, the durability rung printed beside each figure. Figures are medians over the passes with their range.
Only the standard library is used; the load comes from Kafka's own tools.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")

# name: (kind, what an acknowledgement of acks=all has reached, extra server.properties)
SYSTEMS = {
    "odradek-written": ("odradek", "written", {"odradek.durability": "written"}),
    "kafka": ("kafka", "written", {}),
    "odradek-durable": ("odradek", "durable", {"odradek.durability": "durable"}),
    "kafka-flush1": ("kafka", "durable", {"log.flush.interval.messages": "1"}),
}


class Row:
    """One workload of kafka-producer-perf-test."""

    def __init__(self, name, size, records, props, partitions=6):
        self.name, self.size, self.records, self.props, self.partitions = name, size, records, props, partitions


def rows(scale):
    """The produce workloads; `scale` multiplies the number of records."""
    found = []
    for size, records in ((100, 1_000_000), (1024, 300_000), (10240, 40_000)):
        for acks in ("0", "1", "all"):
            props = [f"acks={acks}", f"enable.idempotence={'true' if acks == 'all' else 'false'}"]
            found.append(Row(f"{size} B acks={acks}", size, int(records * scale), props))
    small = ["acks=all", "linger.ms=0", "batch.size=0",
             "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"]
    found.append(Row("64 partitions, single 1 KiB records, acks=all", 1024, int(20_000 * scale), small, partitions=64))
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Broker:
    """A running system with a fresh directory."""

    def __init__(self, root, name, disk):
        self.root, self.name = root, name
        self.kind, self.rung, extra = SYSTEMS[name]
        self.dir = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=disk))
        self.port, controller = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller", "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER", "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.dir / "data"), "offsets.topic.replication.factor": "1", **extra,
        }
        self.config = self.dir / "server.properties"
        self.config.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        cluster = "MkU3OEVBNTcwNTJENDM2Qg"
        if self.kind == "kafka":
            subprocess.run([root / "scripts/kafka", "kafka-storage", "format", "-t", cluster, "-c", self.config],
                           check=True, stdout=subprocess.DEVNULL)
            command = [root / "scripts/kafka", "kafka-server-start", self.config]
        else:
            binary = os.environ.get("ODRADEK_BIN") or Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release/odradek"
            subprocess.run([binary, "format", "-t", cluster, "-c", self.config], check=True, stdout=subprocess.DEVNULL)
            command = [binary, "start", "--config", self.config]
        self.log = open(self.dir / "log", "wb")
        begun = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        while True:
            if self.process.poll() is not None:
                sys.exit(f"{name} ended at once; see {self.dir}/log")
            if self.serves():
                break
            time.sleep(0.002)
        self.start_seconds = time.monotonic() - begun

    def serves(self):
        """True once Metadata v12 lists the node itself."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as s:
                body = b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01b\x00" + b"\x01\x00\x00\x00"
                s.sendall(len(body).to_bytes(4, "big") + body)
                answer = s.recv(4096)
                return len(answer) > 14 and answer[13] > 1
        except OSError:
            return False

    def cpu(self):
        """User and system CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) / TICKS, int(fields[12]) / TICKS

    def written_bytes(self):
        text = Path(f"/proc/{self.process.pid}/io").read_text()
        return int(re.search(r"^write_bytes: (\d+)", text, re.M).group(1))

    def memory(self):
        """Resident set now and at its peak, bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return tuple(int(re.search(rf"^{k}:\s+(\d+)", text, re.M).group(1)) * 1024 for k in ("VmRSS", "VmHWM"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)

    def tool(self, name, *args):
        result = subprocess.run([self.root / "scripts/kafka", name, *args], capture_output=True, text=True, timeout=900)
        return result.stdout + result.stderr


PERF = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th")


def client_cpu():
    times = os.times()
    return times.children_user + times.children_system


def produce(broker, row):
    topic = re.sub(r"\W+", "-", row.name)
    boot = f"127.0.0.1:{broker.port}"
    broker.tool("kafka-topics", "--bootstrap-server", boot, "--create", "--topic", topic, "--partitions", str(row.partitions))

    def run(records):
        return broker.tool("kafka-producer-perf-test", "--topic", topic, "--num-records", str(records), "--record-size",
                           str(row.size), "--throughput", "-1", "--command-property", f"bootstrap.servers={boot}", *row.props)

    run(max(1000, row.records // 20))
    cpu, disk, client = broker.cpu(), broker.written_bytes(), client_cpu()
    said = run(row.records)
    match = PERF.findall(said)
    if not match:
        raise RuntimeError(f"{broker.name}, {row.name}: no result in {said[-2000:]}")
    last = match[-1]
    user, system = (b - a for a, b in zip(cpu, broker.cpu()))
    payload = row.records * row.size
    return {
        "records_per_s": float(last[1]), "latency_ms_avg": float(last[3]), "latency_ms_p50": float(last[5]),
        "latency_ms_p99": float(last[7]), "latency_ms_p999": float(last[8]), "latency_ms_max": float(last[4]),
        "broker_user_s_per_gib": user * GIB / payload, "broker_system_s_per_gib": system * GIB / payload,
        "broker_cpu_s_per_gib": (user + system) * GIB / payload,
        "client_cpu_s_per_gib": (client_cpu() - client) * GIB / payload,
        "disk_bytes_per_byte": (broker.written_bytes() - disk) / payload, "rss_bytes": broker.memory()[0],
    }


def end_to_end(broker, records):
    boot = f"127.0.0.1:{broker.port}"
    said = broker.tool("kafka-e2e-latency", "--bootstrap-server", boot, "--topic", "e2e", "--num-records", str(records),
                       "--producer-acks", "all", "--record-size", "100")
    average = re.search(r"Avg latency: ([\d.]+) ms", said)
    tail = re.search(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)", said)
    if not average or not tail:
        raise RuntimeError(f"{broker.name}, end to end: no result in {said[-2000:]}")
    return {"latency_ms_avg": float(average[1]), "latency_ms_p50": float(tail[1]), "latency_ms_p99": float(tail[2]),
            "latency_ms_p999": float(tail[3])}


def measure(args, samples):
    names = args.systems.split(",")
    wanted = [r for r in rows(args.scale) if re.search(args.rows, r.name)]
    passes = []
    for i in range(args.repeats):
        passes += names if i % 2 == 0 else names[::-1]
    for number, name in enumerate(passes, 1):
        broker = Broker(args.root, name, args.disk)
        try:
            samples.append({"system": name, "row": "start", "start_s": broker.start_seconds})
            for row in wanted:
                print(f"[pass {number}/{len(passes)}] {name}: {row.name}", file=sys.stderr, flush=True)
                samples.append({"system": name, "row": row.name, **produce(broker, row)})
            if re.search(args.rows, "end to end"):
                print(f"[pass {number}/{len(passes)}] {name}: end to end", file=sys.stderr, flush=True)
                samples.append({"system": name, "row": "end to end", **end_to_end(broker, args.e2e_records)})
            samples.append({"system": name, "row": "memory", "rss_peak_bytes": broker.memory()[1]})
        finally:
            broker.stop()


def median(samples, system, row, figure):
    values = [s[figure] for s in samples if s["system"] == system and s["row"] == row and figure in s]
    return (statistics.median(values), min(values), max(values)) if values else None


def table(samples, systems, row, figures):
    lines = [f"\n### {row}\n", "| system | rung | " + " | ".join(label for label, _, _ in figures) + " |",
             "|---|---|" + "---|" * len(figures)]
    for system in systems:
        cells = []
        for _, figure, unit in figures:
            m = median(samples, system, row, figure)
            cells.append("" if m is None else f"{m[0] / unit:,.4g} ({m[1] / unit:,.4g}-{m[2] / unit:,.4g})")
        lines.append(f"| {system} | {SYSTEMS[system][1]} | " + " | ".join(cells) + " |")
    return lines


def ratios(samples, systems, row):
    lines = []
    for ours, theirs in (("odradek-written", "kafka"), ("odradek-durable", "kafka-flush1"), ("odradek-durable", "kafka")):
        if ours not in systems or theirs not in systems:
            continue
        said = []
        for label, figure in (("records/s", "records_per_s"), ("broker CPU/GiB", "broker_cpu_s_per_gib"), ("p99", "latency_ms_p99")):
            a, b = median(samples, ours, row, figure), median(samples, theirs, row, figure)
            if a and b and b[0]:
                said.append(f"{label} x{a[0] / b[0]:.2f}")
        if said:
            across = "" if SYSTEMS[ours][1] == SYSTEMS[theirs][1] else " (another rung: Odradek promises more here)"
            lines.append(f"- {ours} / {theirs}: {', '.join(said)}{across}")
    return lines


def report(args, samples):
    systems = args.systems.split(",")
    lines = ["# Odradek and Apache Kafka 4.4.0 side by side\n",
             f"{datetime.date.today()}, {os.cpu_count()} cores, Linux {platform.release()}, "
             f"{args.repeats} passes a system; client and broker share the machine. Median (minimum-maximum).\n",
             "Kafka: KRaft, 1 GiB heap, G1. Rung: what an acknowledgement of acks=all has reached: `written` the file, "
             "`durable` the disk."]
    order = list(dict.fromkeys(s["row"] for s in samples))
    produce_figures = [("records/s", "records_per_s", 1), ("p50 ms", "latency_ms_p50", 1), ("p99 ms", "latency_ms_p99", 1),
                       ("p99.9 ms", "latency_ms_p999", 1), ("broker CPU s/GiB", "broker_cpu_s_per_gib", 1),
                       ("of it system", "broker_system_s_per_gib", 1), ("client CPU s/GiB", "client_cpu_s_per_gib", 1),
                       ("disk bytes/byte", "disk_bytes_per_byte", 1), ("RSS MiB", "rss_bytes", 1 << 20)]
    for row in order:
        if row == "start":
            lines += table(samples, systems, row, [("seconds to ready", "start_s", 1)])
        elif row == "memory":
            lines += table(samples, systems, row, [("RSS peak MiB", "rss_peak_bytes", 1 << 20)])
        elif row == "end to end":
            figures = [(f"{q} ms", f"latency_ms_{q}", 1) for q in ("avg", "p50", "p99", "p999")]
            lines += table(samples, systems, row, figures) + ratios(samples, systems, row)
        else:
            lines += table(samples, systems, row, produce_figures) + ratios(samples, systems, row)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", choices=["quick", "full"], default="quick")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--rows", default=".", help="only rows whose name matches this expression")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--disk", default=os.environ.get("TMPDIR", "/tmp"), help="folder on the disk to measure")
    args = parser.parse_args()
    args.repeats = args.repeats or (2 if args.set == "quick" else 4)
    args.scale = 0.5 if args.set == "quick" else 3
    args.e2e_records = 2000 if args.set == "quick" else 20000
    out = args.out or args.root / "benches/results" / f"{datetime.date.today()}-{os.cpu_count()}-cores"
    out.mkdir(parents=True, exist_ok=True)
    samples = []
    try:
        measure(args, samples)
    finally:
        (out / "samples.json").write_text(json.dumps(samples, indent=1))
        (out / "report.md").write_text(report(args, samples))
        print(f"written to {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
