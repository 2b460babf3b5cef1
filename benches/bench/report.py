"""The report of a run: Markdown, with plots beside it."""

import json
import shutil
import sys

import aims
import hiccups
import plots
import workloads
from figures import COLUMNS, FIGURES, number
from passes import median
from systems import ACROSS, PAIRS, PEERS, SYSTEMS, control_of, system_of

# What the ratios tell, and the order of the overview.
RATIOS = ["records_per_s", "broker_cpu_s_per_gib", "requests_per_cpu_s", "p99_ms", "p99_9_ms", "idle_cores", "rss_mib",
          "start_s", "restart_s", "drain_s", "p99_before_ms", "p99_during_ms", "stable_s", "roll_s", "heartbeats_per_cpu_s", "commits_per_s", "commits_per_cpu_s",
          "loaded_s", "load_s", "bytes_per_member", "bytes_per_commit"]
# At a rate that the client keeps, both brokers take what is sent; the rest is where the clock stopped.
SAME_RATE = 0.005
UNMEASURED = {"start": "start", "memory": "memory"}


def cell(found):
    """Median, and the range where there is one."""
    if found is None:
        return ""
    middle, low, high = found
    return number(middle) if low == high else f"{number(middle)} ({number(low)}-{number(high)})"


class Samples:
    """The samples of a run, to be asked for medians."""

    def __init__(self, meta, samples):
        self.meta, self.all = meta, samples
        self.rows = list(dict.fromkeys(s["row"] for s in samples))
        self.names = [n for n in [*meta["systems"], control_of(meta["systems"][0])] if any(s["system"] == n for s in samples)]

    def of(self, system, row, cores=None):
        found = [s for s in self.all if s["system"] == system and s["row"] == row]
        return [s for s in found if cores is None or s.get("cores") == cores]

    def median(self, system, row, figure, cores=None):
        return median([s.get(figure) for s in self.of(system, row, cores)])

    def mark(self, system, row):
        """What limited most of the samples, and what failed."""
        samples = self.of(system, row)
        marks = [s.get("limit") for s in samples if s.get("limit")]
        text = max(set(marks), key=marks.count) if len(marks) * 2 > len(samples) else ""
        failed = sum(1 for s in samples if s.get("failed"))
        return ", ".join(filter(None, [text, f"{failed} of {len(samples)} failed" if failed else ""]))

    def drift(self, row, figure):
        """How far the first system and its control lie apart, as a part of the first."""
        first = self.meta["systems"][0]
        a, b = self.median(first, row, figure), self.median(control_of(first), row, figure)
        return (b[0] - a[0]) / a[0] if a and b and a[0] else None


def table(samples, row, cores=None):
    columns = [c for c in COLUMNS if any(samples.median(n, row, c, cores) for n in samples.names)]
    lines = ["| system | rung | " + " | ".join(FIGURES[c][0] for c in columns) + " | limit |",
             "|---|---|" + "---:|" * len(columns) + "---|"]
    for name in samples.names:
        if not samples.of(name, row, cores):
            continue
        cells = [cell(samples.median(name, row, c, cores)) for c in columns]
        lines.append(f"| {name} | {system_of(name).rung} | " + " | ".join(cells) + f" | {samples.mark(name, row)} |")
    return lines


def ratio(samples, ours, theirs, row, figure):
    a, b = samples.median(ours, row, figure), samples.median(theirs, row, figure)
    return a[0] / b[0] if a and b and b[0] else None


def is_better(row, figure, value):
    """Whether a ratio is in our favour; none where neither is."""
    more = FIGURES[figure][2]
    found = workloads.by_name(row)
    if figure == "records_per_s" and found and found.rate is not None and value is not None and abs(value - 1) < SAME_RATE:
        return None
    return None if more is None or value is None else (value >= 1) == more or value == 1


def overview(samples, pairs):
    """Ratios of each row for each pair of systems."""
    lines = []
    for ours, theirs, said in pairs:
        if ours not in samples.names or theirs not in samples.names:
            continue
        rungs = f"both {SYSTEMS[ours].rung}" if not said else said
        lines += [f"\n### {ours} / {theirs} ({rungs})\n"]
        figures = [f for f in RATIOS if any(ratio(samples, ours, theirs, r, f) for r in samples.rows)]
        lines += ["| workload | " + " | ".join(FIGURES[f][0] for f in figures) + " | limit |", "|---|" + "---:|" * len(figures) + "---|"]
        for row in samples.rows:
            values = [ratio(samples, ours, theirs, row, f) for f in figures]
            if not any(values):
                continue
            cells = ["" if v is None else f"x{v:.3g}" + ("" if is_better(row, f, v) is not False else " (worse)")
                     for f, v in zip(figures, values)]
            marks = [f"{n}: {samples.mark(n, row)}" for n in (ours, theirs) if samples.mark(n, row)]
            lines.append(f"| {row} | " + " | ".join(cells) + f" | {'; '.join(marks)} |")
    return lines


def losses(samples):
    """Where Odradek loses against Kafka on its rung, in a list, and what is known of why."""
    found, notes = [], {}
    for ours, theirs, _ in PAIRS:
        for row in samples.rows:
            for figure in RATIOS:
                value = ratio(samples, ours, theirs, row, figure)
                if is_better(row, figure, value) is False:
                    found.append(f"- {row}: {FIGURES[figure][0]} x{value:.3g} ({ours} / {theirs})")
                    notes.setdefault(row, workloads.note(row))
    return found + [f"\n{row}: {note}." for row, note in notes.items() if note]


def ceiling(samples):
    """What Odradek keeps of the rate of requests that the bare reactor has."""
    lines = []
    figure = "requests_per_cpu_s"
    for row in samples.rows:
        top = samples.median("reactor", row, figure)
        for name in ("odradek-written", "odradek-durable") if top else ():
            part = ratio(samples, name, "reactor", row, figure)
            if part is not None:
                lines.append(f"| {row} | {cell(top)} | {name} | {cell(samples.median(name, row, figure))} | {part:.0%} |")
    if not lines:
        return []
    return ["\n## The ceiling\n\n`reactor` is no broker: the bare reactor and the codec answer every Produce with success, keep nothing and "
            "promise nothing. What Odradek keeps of its requests per second of broker CPU is what storing, ordering and promising "
            "leave:\n", f"| workload | {FIGURES[figure][0]} of the ceiling | system | its own | kept |", "|---|---:|---|---:|---:|", *lines]


def where_time_goes(meta):
    """What of it the report shows."""
    lines = []
    for hot in meta.get("hot") or []:
        lines += [f"\n### {hot['system']}: {hot['row']}\n", f"Missed: {'; '.join(hot['aims'])}. The broker's functions by their share of its CPU "
                  "time, in one more measurement after the run:\n", "| share | function |", "|---:|---|"]
        lines += [f"| {share:.1f} % | `{name.replace('|', '/')}` |" for share, name in hot["functions"]]
    return ["\n## Where the time goes in rows that miss an aim\n", *lines] if lines else []


def drift(samples):
    first = samples.meta["systems"][0]
    lines = []
    for row in samples.rows:
        cells = []
        for figure in ("records_per_s", "broker_cpu_s_per_gib", "p50_ms", "p99_ms"):
            value = samples.drift(row, figure)
            if value is not None:
                cells.append(f"{FIGURES[figure][0]} {value:+.1%}")
        if cells:
            lines.append(f"- {row}: {', '.join(cells)}")
    if not lines:
        return []
    return [f"\n## Drift\n\n{first} was measured twice in every pass, at both ends of it. The second against the first; what differs "
            "by less than this between systems is noise:\n", *lines]


def head(meta):
    m = meta["machine"]
    lines = ["# Odradek and its peers side by side\n"]
    if meta.get("cut_short"):
        lines.append(f"**Cut short: {meta['cut_short']}.** What was measured until then:\n")
    lines += [
        f"`{meta['command']}`\n",
        f"- {m['cpu']}, {m['cpus']} CPUs{', a virtual machine' if m['virtual'] else ''}, {m['memory_gib']} GiB, Linux {m['kernel']}, "
        f"governor {m['governor']}; {m['file_system']} ({m['mount_options']})",
        f"- {m['odradek']} (commit {m['commit']}), Apache Kafka {m['kafka']}" + (f", {m['java']}" if m.get("java") else ""),
        f"- {meta['repeats']} passes, interleaved A-B-B-A, each with a fresh directory on the same disk; {meta['seconds']:g} s a measurement "
        f"after {meta['warmup_s']:g} s of warm-up; cells are median (minimum-maximum)",
        "- broker and client share the machine; `client-bound` and `machine full` mark rows that do not show the broker's limit, `disturbed` those during which other programs took more than 0.3 cores",
        "- rung: what an acknowledgement of acks=all has reached: `written` the file (survives `kill -9`), `durable` the disk (survives "
        "power loss). Ratios compare equal rungs, unless the heading says otherwise",
        "- latency at a rate counts from the moment when a record should have been sent",
    ]
    for name in meta["systems"]:
        lines.append(f"- `{name}`: {SYSTEMS[name].rung}; {SYSTEMS[name].note}")
    lines += [f"- {line}" for line in meta.get("left_out") or []]
    if "hiccups" in meta:
        lines.append(f"- {hiccups.told(meta['hiccups'])}")
    base = meta.get("baseline") or {}
    for row, reached in base.get("records_per_s", {}).items():
        lines.append(f"- the maximum of {base['system']} in \"{row}\", of which rates are a part: {reached:,.0f} records/s")
    return lines


def scale_tables(samples):
    """Of a scale run: each row by the number of cores."""
    lines = []
    counts = sorted({s["cores"] for s in samples.all if s.get("cores")})
    figures = ["records_per_s", "requests_per_s", "mib_per_s", "p50_ms", "p99_ms", "p99_9_ms", "p99_99_ms",
               "broker_cpu_s_per_gib", "requests_per_cpu_s", "broker_cores", "client_cores"]
    for row in samples.rows:
        if row in UNMEASURED:
            continue
        present = [f for f in figures if any(samples.median(n, row, f) for n in samples.names)]
        lines += [f"\n### {row}\n", "| cores | system | rung | " + " | ".join(FIGURES[f][0] for f in present) + " | CPUs |",
                  "|---:|---|---|" + "---:|" * len(present) + "---|"]
        for count in counts:
            for name in samples.names:
                found = samples.of(name, row, count)
                if found:
                    cells = [cell(samples.median(name, row, f, count)) for f in present]
                    shared = "shared with the client" if found[0].get("shared_cpus") else "its own"
                    lines.append(f"| {count} | {name} | {system_of(name).rung} | " + " | ".join(cells) + f" | {shared} |")
    return lines


def markdown(meta, samples, pictures):
    s = Samples(meta, samples)
    lines = head(meta)
    if meta["set"] == "scale":
        lines += ["\n## From one core to all\n", *scale_tables(s)]
    else:
        lines += ["\n## Ratios\n", *overview(s, PAIRS)]
        peers = overview(s, PEERS)
        if peers:
            lines += ["\n## Beside another broker in Rust\n\nThe promises differ here too, in its favour.", *peers]
        lines += ["\n## What durability costs\n\nThe promises differ here: Odradek's acknowledgement has reached the disk.",
                  *overview(s, ACROSS)]
        lines += ceiling(s)
        found = losses(s)
        lines += ["\n## Where Odradek loses\n", *(found or ["Nowhere in this run."])]
        reached = aims.table(s)
        if reached:
            lines += ["\n## Aims\n\nWhat Odradek aims at, in this run; rows that the client or the machine limits count as they are.\n", *reached]
            why = aims.reasons(s)
            lines += ["\nWhy aims are missed, and what was tried:\n", *why] if why else []
        lines += where_time_goes(meta)
    lines += drift(s)
    lines += ["\n## Plots\n", *[f"![{title}](plots/{name})\n" for title, name in pictures]]
    if meta["set"] != "scale":
        lines.append("\n## Every workload\n")
        for row in s.rows:
            lines += [f"\n### {row}\n", *table(s, row)]
    failed = [x for x in samples if x.get("failed")]
    if failed:
        lines += ["\n## Failures\n", *[f"- {x['system']}, {x['row']}, pass {x['pass']}: {' '.join(x['failed'].split())[:300]}" for x in failed]]
    return "\n".join(lines) + "\n"


def write(out, meta, samples):
    """Writes the report and its plots into a folder."""
    folder = out / "plots"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pictures = []
    if samples:
        for title, name, text in plots.all_of(Samples(meta, samples), workloads):
            (folder / name).write_text(text)
            pictures.append((title, name))
    (out / "report.md").write_text(markdown(meta, samples, pictures))


def again(out):
    """Makes a report anew from its samples."""
    try:
        found = json.loads((out / "samples.json").read_text())
        write(out, found["meta"], found["samples"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"scripts/bench report: {out} is no result: {error}")
