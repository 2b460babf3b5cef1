"""The part of the README that shows a committed result: made from its samples, so that it cannot say anything else."""

import json
import re

import aims
import report
from systems import ACROSS, PAIRS

BLOCK = re.compile(r"<!-- bench: (?P<folder>\S+); made by scripts/bench readme; do not edit -->\n.*?<!-- /bench -->", re.DOTALL)
# What a reader compares first.
FIGURES = [("records_per_s", "records/s"), ("p99_ms", "p99"), ("broker_cpu_s_per_gib", "CPU/GiB"), ("requests_per_cpu_s", "requests/CPU s"),
           ("rss_peak_mib", "memory")]
PICTURES = [("cpu.svg", "Broker CPU seconds per GiB"), ("p99.svg", "Latency p99")]


def ratios(samples):
    """One row a workload, the pairs beside each other."""
    pairs = [(ours, theirs) for ours, theirs, _ in [*PAIRS, *ACROSS] if {ours, theirs} <= set(samples.names)]
    lines = ["| workload | systems | " + " | ".join(said for _, said in FIGURES) + " | |", "|---|---|" + "---:|" * len(FIGURES) + "---|"]
    for row in samples.rows:
        for ours, theirs in pairs:
            values = [report.ratio(samples, ours, theirs, row, figure) for figure, _ in FIGURES]
            if values[0] is None and values[3] is None:
                continue
            cells = ["" if v is None else f"x{v:.3g}" for v in values]
            limit = samples.mark(ours, row)
            lines.append(f"| {row} | {ours} / {theirs} | " + " | ".join(cells) + f" | {limit} |")
    return lines


def block(folder, meta, samples):
    """The text between the marks, and the marks."""
    s = report.Samples(meta, samples)
    m = meta["machine"]
    lines = [f"<!-- bench: {folder}; made by scripts/bench readme; do not edit -->",
             f"Measured by `{meta['command']}` on {m['cpu']}, {m['cpus']} CPUs{', a virtual machine' if m['virtual'] else ''}, "
             f"{m['memory_gib']} GiB, Linux {m['kernel']}, {m['file_system']}; broker and client share the machine. Ratios of medians of "
             f"{meta['repeats']} passes to Apache Kafka {m['kafka']} in the same run; [the report]({folder}/report.md) has every figure, its "
             "range and the noise.", "",
             *[f"![{text}]({folder}/plots/{name})" for name, text in PICTURES], "",
             *ratios(s), "",
             "`odradek-durable` answers from the disk, `odradek-written` and `kafka` from the file, `kafka-flush1` is Kafka with an fsync for "
             "every batch. `client-bound` and `machine full` mark rows that do not show the broker's limit.", ""]
    lost = report.losses(s)
    lines += ["Where Odradek loses in this run:", "", *lost] if lost else ["Odradek loses nowhere in this run."]
    missed = [a for a in aims.AIMS if (found := a.of(s)) and not a.is_met(found[1])]
    if missed:
        lines += ["", "Aims of its own that it misses in this run:", "",
                  *[f"- {a.text}: {a.wanted()} wanted, {aims.told(a.of(s)[1], a)} in \"{a.of(s)[0]}\"" for a in missed]]
    return "\n".join([*lines, "<!-- /bench -->"])


def of_result(root, folder):
    found = json.loads((root / folder / "samples.json").read_text())
    return block(folder, found["meta"], found["samples"])


def shown(text):
    """The block in a README and the result that it shows, or None."""
    found = BLOCK.search(text)
    return (found.group(0), found.group("folder")) if found else None


def renew(root, out):
    """Makes the README show the result in `out`; None, or what is wrong."""
    path = root / "README.md"
    text = path.read_text()
    old = shown(text)
    if not old:
        return f"{path} has no part for a result; it begins with <!-- bench: FOLDER; made by scripts/bench readme; do not edit -->"
    if not out.resolve().is_relative_to(root.resolve()) or not (out / "samples.json").is_file():
        return f"scripts/bench readme: {out} is no result below {root}"
    folder = out.resolve().relative_to(root.resolve()).as_posix()
    path.write_text(text.replace(old[0], of_result(root, folder)))
    return None
