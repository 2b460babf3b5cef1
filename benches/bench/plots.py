"""Which plots a run has."""

import svg
from figures import FIGURES
from run_rows import slug
from systems import SYSTEMS, control_of, system_of

CONTROL = "#b3b3b3"


def colour_of(name):
    return SYSTEMS[name].colour if name in SYSTEMS else CONTROL


def brokers(samples):
    """The systems without the ceiling, which is no broker to be compared with."""
    return [name for name in samples.names if not system_of(name).is_ceiling]


def panels(samples, figure, only=lambda row: True):
    found = []
    for row in samples.rows:
        lines = []
        for name in brokers(samples):
            m = samples.median(name, row, figure)
            if m and only(row):
                lines.append((name, system_of(name).rung, colour_of(name), m, samples.mark(name, row)))
        if len(lines) > 0:
            found.append((row, lines))
    return found


def is_rated(samples, row):
    return any(s.get("rate") for s in samples.all if s["row"] == row)


def median_sample(samples, name, row):
    """The sample of the middle by p99, of those that have a curve."""
    found = [s for s in samples.of(name, row) if s.get("perf") and s.get("p99_ms") is not None]
    found.sort(key=lambda s: s["p99_ms"])
    return found[(len(found) - 1) // 2] if found else None


def latency_of(result):
    side = result.get("read") or result.get("sent")
    return (side or {}).get("latency")


def curves(samples):
    """For every row at a rate: latency by percentile, and over time."""
    for row in samples.rows:
        if not is_rated(samples, row):
            continue
        by_percentile, by_second = [], []
        for name in samples.names:
            sample = median_sample(samples, name, row) if name in SYSTEMS else None
            latency = sample and latency_of(sample["perf"])
            if not latency:
                continue
            label = f"{name}, {system_of(name).rung}"
            by_percentile.append((label, colour_of(name), latency["curve"]))
            seconds = [s for s in sample["perf"]["seconds"] if s["measured"]]
            by_second.append((label, colour_of(name), [(i + 1, s["p99_us"] / 1000, s["max_us"] / 1000) for i, s in enumerate(seconds)]))
        if by_percentile:
            yield f"Latency: {row}", f"latency-{slug(row)}.svg", svg.percentiles(f"Latency: {row}", by_percentile)
            yield f"Latency over time: {row}", f"time-{slug(row)}.svg", svg.over_time(f"Latency over time: {row}", by_second)


def groups(samples, workloads):
    """For every group of rows: how cost, rate and latency grow along it."""
    by_group = {}
    for row in workloads.ROWS:
        if row.group and row.name in samples.rows:
            by_group.setdefault(row.group, []).append(row)
    for group, rows in by_group.items():
        for figure in ("records_per_s", "broker_cpu_s_per_gib", "p99_ms"):
            lines = []
            for name in samples.names:
                points = [(r.x, samples.median(name, r.name, figure)) for r in rows]
                points = [(x, m[0]) for x, m in points if m]
                if name in SYSTEMS and len(points) > 1:
                    lines.append((f"{name}, {SYSTEMS[name].rung}", colour_of(name), points))
            if lines:
                label = FIGURES[figure][0]
                picture = svg.growth(f"{label}: {group}", group, label, lines, log_y=figure == "p99_ms")
                yield f"{label}: {group}", f"growth-{slug(group)}-{slug(figure)}.svg", picture


def scale(samples):
    """Of a scale run: each figure by the number of cores."""
    counts = sorted({s["cores"] for s in samples.all if s.get("cores")})
    for row in samples.rows:
        for figure in ("records_per_s", "requests_per_s", "broker_cpu_s_per_gib", "p99_ms", "p99_9_ms"):
            lines = []
            for name in samples.names:
                points = [(count, samples.median(name, row, figure, count)) for count in counts]
                points = [(x, m[0]) for x, m in points if m]
                if len(points) > 1:
                    lines.append((f"{name}, {system_of(name).rung}", colour_of(name), points))
            if lines:
                label = FIGURES[figure][0]
                picture = svg.growth(f"{label} by cores: {row}", "cores of the broker", label, lines, log_x=True,
                                     log_y=figure.endswith("_ms"))
                yield f"{label} by cores: {row}", f"{slug(row)}-{slug(figure)}.svg", picture


def all_of(samples, workloads):
    """Every plot as (title, file name, text)."""
    found = []
    if samples.meta["set"] == "scale":
        found += scale(samples)
    else:
        at_maximum = lambda row: not is_rated(samples, row)
        for title, name, figure, only in (
            ("Records per second at the maximum", "records.svg", "records_per_s", at_maximum),
            ("Broker CPU seconds per GiB", "cpu.svg", "broker_cpu_s_per_gib", lambda row: True),
            ("Requests per second of broker CPU", "requests.svg", "requests_per_cpu_s", lambda row: True),
            ("Latency p99", "p99.svg", "p99_ms", lambda row: True),
            ("Memory at the peak", "memory.svg", "rss_peak_mib", lambda row: row == "memory"),
            ("Start", "start.svg", "start_s", lambda row: True),
        ):
            lines = panels(samples, figure, only)
            if lines:
                unit = FIGURES[figure][0]
                again = control_of(samples.meta["systems"][0])
                note = "(again): once more, for the drift" if again in samples.names else ""
                found.append((title, name, svg.bars(title, unit, lines, note)))
        found += groups(samples, workloads)
        found += curves(samples)
    return [picture for picture in found if picture[2]]
