"""Where the time goes in rows that miss an aim: the functions of the broker by their share of its samples, taken with `perf` in one
more measurement of the row, so that the figures of the run stay undisturbed."""

import re
import shutil
import signal
import subprocess

import aims
import process
import run_rows
import workloads
from broker import Broker, Failed
from systems import system_of

# Rows that are looked into, and functions that are told of each.
ROWS_MAX = 3
FUNCTIONS_MAX = 15
# Samples a second of each thread.
HERTZ = 499
# Rows whose broker is not stopped meanwhile, and whose measurement is most of what they do.
KINDS = ("produce", "e2e", "drain", "commits")


# Figures of which functions tell nothing.
NOT_OF_TIME = ("rss_mib", "rss_peak_mib")


def missed(samples):
    """The rows that miss an aim, each with the system that misses it and the aims."""
    found = {}
    for aim in aims.AIMS:
        worst = aim.of(samples)
        row = worst and workloads.by_name(worst[0])
        if row and row.kind in KINDS and not row.apart and aim.figure not in NOT_OF_TIME and not aim.is_met(worst[1]):
            found.setdefault((row.name, aim.ours), []).append(aim.text)
    return found


def functions(said):
    """(share, function) of what `perf report` printed."""
    found = re.findall(r"^\s*([\d.]+)%\s+(\[[.k]\] .*?)(?:\s{2,}.*)?$", said, re.M)
    return [[float(share), name.strip()] for share, name in found][:FUNCTIONS_MAX]


def watched(run, row, name, rate):
    """One more measurement of a row under perf."""
    broker = Broker(run.context, system_of(name))
    data = broker.dir / "perf.data"
    try:
        recorder = process.start(["perf", "record", "-q", "-F", HERTZ, "-p", broker.pid, "-o", data])
        try:
            run_rows.measure(run.context, broker, row, rate)
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(60)
        _status, said = process.run(["perf", "report", "-i", data, "--stdio", "-q", "--no-children", "--percent-limit", "1", "--sort",
                                     "symbol"], 300)
        return functions(said)
    finally:
        broker.stop()


def after(run, samples, rate_of, say):
    """Looks into the rows that a run has just missed an aim in, and keeps it in the run's facts."""
    found = missed(samples)
    run.meta["hot"] = []
    if not found:
        return
    if not shutil.which("perf"):
        say("rows miss an aim, and there is no perf to tell where the time goes (apt-get install linux-perf)")
        return
    for (name, system), texts in list(found.items())[:ROWS_MAX]:
        row = workloads.by_name(name)
        numbers = [s["pass"] for s in run.samples if s["system"] == system and s["row"] == name]
        say(f"looking into what misses an aim: {system}: {name}")
        try:
            shares = watched(run, row, system, rate_of(run, row, system, numbers[-1]))
        except (Failed, OSError, subprocess.SubprocessError) as error:
            say(f"    {error}")
            continue
        run.meta["hot"].append({"row": name, "system": system, "aims": texts, "functions": shares})
        run.save()
