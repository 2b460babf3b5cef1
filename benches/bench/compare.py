"""Two results side by side, and whether a difference is more than noise."""

import json
import sys

from figures import FIGURES, number
from report import Samples

FIGURES_COMPARED = ["records_per_s", "broker_cpu_s_per_gib", "requests_per_cpu_s", "p50_ms", "p99_ms", "p99_9_ms", "rss_peak_mib",
                    "idle_cores", "start_s", "restart_s", "drain_s", "stable_s", "roll_s", "heartbeats_per_cpu_s", "commits_per_s",
                    "commits_per_cpu_s", "load_s", "bytes_per_member", "bytes_per_commit"]
# Differences below this are never called more than noise: virtual machines differ by more from hour to hour.
NOISE_MIN = 0.05
# Ranges of fewer samples than this say nothing.
SAMPLES_MIN = 3


def load(folder):
    path = folder / "samples.json"
    try:
        found = json.loads(path.read_text())
        return Samples(found["meta"], found["samples"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"scripts/bench compare: {path} is no result: {error}")


def noise_of(samples, row, figure):
    """The drift of a run, by the control where the row has one, by that of all rows otherwise."""
    own = samples.drift(row, figure)
    if own is not None:
        return abs(own)
    all_rows = [abs(d) for r in samples.rows if (d := samples.drift(r, figure)) is not None]
    return max(all_rows, default=0)


def verdict(a, b, noise, more_is_better, samples=3):
    """What a difference is worth. `a` and `b` are (median, minimum, maximum)."""
    if not a[0]:
        return "", None
    change = (b[0] - a[0]) / abs(a[0])
    if samples < SAMPLES_MIN:
        return "too few samples", change
    apart = b[1] > a[2] or b[2] < a[1]
    if not apart or abs(change) <= max(noise, NOISE_MIN):
        return "noise", change
    if more_is_better is None:
        return "differs", change
    return "better" if (change > 0) == more_is_better else "WORSE", change


def main(a_folder, b_folder):
    """Prints the comparison; the status is 1 when something is worse by more than noise."""
    a, b = load(a_folder), load(b_folder)
    differing = [k for k in ("cpu", "cpus", "kernel", "file_system") if a.meta["machine"].get(k) != b.meta["machine"].get(k)]
    print(f"A: {a_folder} (commit {a.meta['machine']['commit']})\nB: {b_folder} (commit {b.meta['machine']['commit']})\n")
    if differing:
        print(f"The machines differ in {', '.join(differing)}: no verdict means anything.\n")
    print("| workload | system | figure | A | B | B against A | noise | verdict |\n|---|---|---|---:|---:|---:|---:|---|")
    worse = 0
    cores = sorted({s.get("cores") for s in a.all if s.get("cores")}) or [None]
    for row in [r for r in a.rows if r in b.rows]:
        for name in [n for n in a.meta["systems"] if n in b.meta["systems"]]:
            for figure in FIGURES_COMPARED:
                for count in cores:
                    x, y = a.median(name, row, figure, count), b.median(name, row, figure, count)
                    if not x or not y:
                        continue
                    noise = max(noise_of(a, row, figure), noise_of(b, row, figure), NOISE_MIN)
                    fewest = min(len(a.of(name, row, count)), len(b.of(name, row, count)))
                    said, change = verdict(x, y, noise, FIGURES[figure][2], fewest)
                    if change is None:
                        continue
                    worse += said == "WORSE"
                    on = f" on {count} cores" if count else ""
                    print(f"| {row}{on} | {name} | {FIGURES[figure][0]} | {number(x[0])} | {number(y[0])} | {change:+.1%} | "
                          f"{noise:.0%} | {said} |")
    print("\nnoise: the ranges of the samples overlap, or the medians differ by less than the drift of either run")
    return 1 if worse else 0
