"""`scripts/bench`: measures Odradek and its peers side by side. See benches/README.md."""

import argparse
import datetime
import os
import re
import resource
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import cgroup
import compare
import estimate
import hot
import machine
import passes
import process
import readme
import report
import workloads
from broker import Failed
from hiccups import Hiccups
from systems import DEFAULT, FULL, SYSTEMS, TANSU

# set: seconds of a measurement, of its warm-up, passes, share of the sizes in the table
SETS = {"quick": (2, 1, 3, 0.25), "full": (3, 1, 3, 1), "scale": (3, 1, 2, 1)}
# What a row leaves on the disk while it runs, beside what it stores on purpose.
ROW_BYTES = 8 << 30
# Open files that are asked for: 10,000 members with a connection each, and the files of 10,000 partitions.
FILES = 65_536


def told(words):
    """The command line without the places of this machine, for whoever repeats the run elsewhere."""
    own = [word in ("--out", "--disk", "--bin") for word in words]
    after = [False, *own]
    return [word for word, is_own, is_place in zip(words, own, after) if not is_own and not is_place
            and not word.startswith(("--out=", "--disk=", "--bin="))]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="set", metavar="quick|full|scale|compare|list|report|readme")
    for name in SETS:
        one = commands.add_parser(name, help={"quick": "some twelve minutes", "full": "up to 90 minutes",
                                              "scale": "from one core to all, without Java"}[name])
        one.add_argument("--systems", help=f"of {', '.join(SYSTEMS)}")
        one.add_argument("--rows", default=".", help="only rows whose name matches this expression")
        one.add_argument("--repeats", type=int)
        one.add_argument("--seconds", type=float, help="seconds of a measurement")
        one.add_argument("--warmup", type=float, help="seconds before a measurement")
        one.add_argument("--size", type=float, help="factor on the sizes of backlogs and the like")
        one.add_argument("--no-control", action="store_true", help="leave out the second measurement of the first system")
        one.add_argument("--out", type=Path, help="folder of the result")
        one.add_argument("--disk", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")), help="folder on the disk to measure")
        one.add_argument("--port", type=int, help="port of the broker; the next two are its controller's and its metrics'; free ones otherwise")
        one.add_argument("--bin", type=Path, help="the odradek binary; ODRADEK_BIN, or the release build otherwise")
        one.add_argument("--keep", action="store_true", help="keep the brokers' directories")
        one.add_argument("--no-profile", action="store_true", help="do not look, after the run, into rows that miss an aim")
    two = commands.add_parser("compare", help="two results, with a verdict on what is noise")
    two.add_argument("a", type=Path)
    two.add_argument("b", type=Path)
    commands.add_parser("list", help="the workloads and the systems")
    again = commands.add_parser("report", help="the report of a result, made anew")
    again.add_argument("out", type=Path)
    shown = commands.add_parser("readme", help="makes the README show a committed result")
    shown.add_argument("out", type=Path)
    argv = sys.argv[1:]
    if not any(a in commands.choices or a in ("-h", "--help") for a in argv):
        at = argv.index("--root") + 2
        argv.insert(at, "quick")
    return parser.parse_args(argv)


def refuse(text):
    sys.exit(f"scripts/bench: {text}")


def wanted_rows(args):
    try:
        pattern = re.compile(args.rows)
    except re.error as error:
        refuse(f"--rows {args.rows!r} is no expression: {error}")
    rows = workloads.rows_of(args.set, pattern)
    if not rows:
        refuse(f"no workload of {args.set} matches {args.rows!r}; scripts/bench list tells them")
    return rows


def wanted_systems(args):
    default = {"scale": ["odradek-written", "odradek-durable"], "full": FULL}.get(args.set, DEFAULT)
    names = args.systems.split(",") if args.systems is not None else default
    if len(set(names)) < len(names):
        refuse(f"--systems {args.systems} names a system twice")
    for name in names:
        if name not in SYSTEMS:
            refuse(f"no system is called {name!r}; there are {', '.join(SYSTEMS)}")
    if args.set == "scale" and any(SYSTEMS[n].kind != "odradek" for n in names):
        refuse("scale uses nothing but the built binary; leave Kafka to quick and full")
    return names


def tansu_of(args, names):
    """The names with the Rust peer if it is there, its program, and what is to be said when it is left out. It is built when it is
    asked for by name, which takes long."""
    program = args.root / f".cache/tansu-{TANSU}/bin/tansu"
    if "tansu" not in names or os.access(program, os.X_OK):
        return names, program, []
    if args.systems is not None:
        passes.say(f"building tansu {TANSU}, for many minutes")
        built = process.build([args.root / "scripts/install-peers", "--rust-broker"])
        if not built or not os.access(program, os.X_OK):
            refuse(f"tansu {TANSU} does not build here; leave it out with --systems")
        return names, program, []
    why = f"`tansu` {TANSU} is left out: {program.parent.parent.name} is not installed (scripts/install-peers --rust-broker builds it)"
    return [n for n in names if n != "tansu"], program, [why]


def echo_broker(args, names):
    """The ceiling's program, built anew."""
    path = Path(os.environ.get("CARGO_TARGET_DIR", args.root / "target")) / "release/echo_broker"
    if "reactor" in names:
        passes.say("building the ceiling")
        command = ["cargo", "build", "--release", "--quiet", "-p", "odradek-benches", "--bin", "echo_broker"]
        if not process.build(command, args.root):
            refuse("the ceiling, echo_broker, does not build; leave it out with --systems")
    return path.resolve()


def binary(args):
    """The binary that is measured, by an absolute path."""
    given = args.bin or os.environ.get("ODRADEK_BIN")
    target = Path(os.environ.get("CARGO_TARGET_DIR", args.root / "target"))
    path = Path(given) if given else target / "release/odradek"
    if not given and not (args.set == "scale" and path.exists()):
        passes.say("building the release binary")
        if not process.build(["cargo", "build", "--release", "--quiet", "-p", "odradek"], args.root):
            refuse("the release binary does not build")
    if not os.access(path, os.X_OK):
        refuse(f"{path} is no program; build it, or say --bin")
    if "produce" not in machine.said(str(path), "perf", "--help"):
        refuse(f"{path} is no odradek with a load generator")
    if "(debug build)" in (version := machine.said(str(path), "--version")):
        refuse(f"{path} is {version}, many times slower than what people run; measure a release build")
    return path.resolve()


def result_folder(args, cpus):
    """A folder that holds no result yet."""
    if args.out:
        if (args.out / "samples.json").exists():
            refuse(f"{args.out} holds a result already")
        return args.out
    name = f"{datetime.date.today()}-{cpus}-cores{'-scale' if args.set == 'scale' else ''}"
    names = [name, *(f"{name}-{i}" for i in range(2, 100))]
    return next(folder for n in names if not (folder := args.root / "benches/results" / n).exists())


def check(args, names, rows):
    """What would spoil the run is said before it begins."""
    for name, least in (("repeats", 1), ("seconds", 0.5), ("warmup", 0), ("size", 0.001)):
        given = getattr(args, name)
        if given is not None and not least <= given <= 1000:
            refuse(f"--{name} {given:g}: {least:g} to 1000 are possible")
    if args.port is not None and not 1 <= args.port <= 65_533:
        refuse(f"--port {args.port}: 1 to 65533 are possible")
    if args.out and args.out.exists() and not (args.out.is_dir() and os.access(args.out, os.W_OK)):
        refuse(f"--out {args.out} is no folder that can be written to")
    if not args.disk.is_dir() or not os.access(args.disk, os.W_OK):
        refuse(f"--disk {args.disk} is no folder that can be written to")
    stored = max(r.extra.get("bytes", 0) for r in rows) * (args.size or SETS[args.set][3])
    need = int(stored * 1.2) + ROW_BYTES
    if shutil.disk_usage(args.disk).free < need:
        refuse(f"{args.disk} has {shutil.disk_usage(args.disk).free / (1 << 30):.1f} GiB free; these rows need {need / (1 << 30):.0f} GiB")
    for port in range(args.port, args.port + 3) if args.port else []:
        if not process.is_free(port):
            refuse(f"port {port} is in use")
    java = any(SYSTEMS[n].kind == "kafka" for n in names) or any(r.kind.startswith("java") for r in rows)
    if java and not shutil.which("java"):
        refuse("java is missing, which Apache Kafka and its tools need; install it, or leave them out with --systems and --rows")
    libs = Path(os.environ.get("ODRADEK_KAFKA_LIBS", args.root / ".cache/kafka-4.4.0/libs"))
    if java and not libs.is_dir():
        passes.say("installing the peers")
        if not process.build([args.root / "scripts/install-peers"]) or not libs.is_dir():
            refuse(f"Apache Kafka is missing from {libs} and could not be installed")
    # Raised for brokers and tools alike, where the system allows more than it gives.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, FILES if hard == resource.RLIM_INFINITY else min(FILES, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit < 10_000:
        refuse(f"only {limit} files may be open, and rows with many connections need 10,000; raise it with ulimit -n")


def interrupted(*_):
    raise KeyboardInterrupt


def measure(args):
    # Each is as good as Ctrl-C: brokers are stopped, and what was measured is reported. A shell that starts this in the background
    # has SIGINT ignored, which would last otherwise.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, interrupted)
    names, rows = wanted_systems(args), wanted_rows(args)
    check(args, names, rows)
    names, tansu, left_out = tansu_of(args, names)
    limited = [r for r in rows if r.memory]
    no_groups = cgroup.why_not() if limited else ""
    if no_groups:
        left_out.append(f"no limit of memory in {', '.join(r.name for r in limited)}: {no_groups}. The page cache may hold the whole "
                        "backlog; the files are dropped from it before the drain")
    seconds, warmup, repeats, size = SETS[args.set]
    context = SimpleNamespace(
        tansu=tansu, echo=echo_broker(args, names), no_groups=no_groups,
        root=args.root, binary=binary(args), disk=args.disk, seconds=args.seconds or seconds, keep=args.keep,
        warmup_s=warmup if args.warmup is None else args.warmup, size=args.size or size, env=dict(os.environ),
        ports=[*range(args.port, args.port + 3)] if args.port else None, cpus=len(os.sched_getaffinity(0)),
        cores=None, broker_cpus=None, client_cpus=None, threads=None)
    out = result_folder(args, context.cpus)
    out.mkdir(parents=True, exist_ok=True)
    repeats = args.repeats or repeats
    meta = {
        "set": args.set, "systems": names, "repeats": repeats, "seconds": context.seconds, "warmup_s": context.warmup_s,
        "left_out": left_out,
        "command": " ".join(["scripts/bench", *told(sys.argv[3:])]), "machine": machine.describe(args.disk, args.root, context.binary),
    }
    context.hiccups = Hiccups(args.disk)
    if context.hiccups.why:
        left_out.append(f"whether the machine itself stood still is not known: {context.hiccups.why}")
    run = passes.Run(context, out, meta, args.repeats is not None)
    for line in left_out:
        passes.say(line)
    status = 0
    try:
        if args.set == "scale":
            passes.measure_scale(run, names, rows, repeats)
        else:
            seconds = estimate.of_run(context, passes.order(names, repeats, not args.no_control), rows, run.all_passes)
            meta["estimate_s"] = round(seconds)
            passes.say(f"some {seconds / 60:.0f} minutes, by what rows usually take on 2 cores")
            passes.measure_all(run, names, rows, repeats, not args.no_control)
            # `quick` has no time for it.
            if not args.no_profile and args.set != "quick":
                hot.after(run, report.Samples(meta, run.samples), passes.rate_of, passes.say)
    except KeyboardInterrupt:
        meta["cut_short"] = "interrupted"
        status = 130
    except (Failed, passes.Stop) as error:
        meta["cut_short"] = str(error)
        passes.say(f"scripts/bench: {error}")
        status = 1
    finally:
        context.hiccups.stop()
        run.save()
        report.write(out, meta, run.samples)
        passes.say(f"written to {out}: report.md, samples.json, plots/")
    sys.exit(status)


def show_list():
    """The workloads and the systems."""
    for r in workloads.ROWS:
        print(f"{', '.join(r.sets):12} {r.name}")
    for s in SYSTEMS.values():
        print(f"{'system':12} {s.name}: {s.rung}; {s.note}")
    for name in ("quick", "full"):
        print(f"{name} takes some {estimate.of_set(name, SETS[name]) / 60:.0f} minutes on 2 cores")


def main():
    args = arguments()
    if args.set == "compare":
        sys.exit(compare.main(args.a, args.b))
    if args.set == "report":
        return report.again(args.out)
    if args.set == "readme":
        return sys.exit(readme.renew(args.root, args.out))
    if args.set == "list":
        return show_list()
    try:
        return measure(args)
    except KeyboardInterrupt:
        # While something is built, or a second time while the report is written.
        sys.exit(130)


if __name__ == "__main__":
    main()
