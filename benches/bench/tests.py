"""Tests of what the harness computes: python3 -m unittest discover -s benches/bench -p tests.py"""

import contextlib
import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from types import SimpleNamespace

import aims
import cgroup
import compare
import estimate
import figures
import hiccups
import hot
import passes
import plots
import process
import readme
import report
import run_rows
import svg
import systems
import workloads

SMALL = "64 producers, single 100 B records"


def runner():
    """The command itself, which is no module by name."""
    spec = importlib.util.spec_from_file_location("runner", Path(__file__).with_name("__main__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(system, row, number, **more):
    return {"system": system, "row": row, "pass": number, "rung": "written", "cores": None, **more}


META = {
    "set": "quick", "systems": ["odradek-written", "kafka"], "repeats": 3, "seconds": 2, "warmup_s": 1, "command": "scripts/bench",
    "baseline": {"system": "kafka", "records_per_s": {}},
    "machine": {"cpu": "x", "cpus": 2, "virtual": True, "memory_gib": 1, "kernel": "6", "governor": "-", "file_system": "ext4",
                "mount_options": "rw", "odradek": "0", "commit": "0", "kafka": "4.4.0"},
}


class Tests(unittest.TestCase):
    def test_passes_go_forwards_and_backwards_with_the_control_at_the_other_end(self):
        self.assertEqual(passes.order(["a", "b"], 3, True),
                         [["a", "b", "a (again)"], ["a (again)", "b", "a"], ["a", "b", "a (again)"]])
        self.assertEqual(passes.order(["a"], 1, False), [["a"]])

    def test_core_counts_end_with_all(self):
        for cpus, counts in ((1, [1]), (2, [1, 2]), (16, [1, 2, 4, 8, 16]), (12, [1, 2, 4, 8, 12])):
            self.assertEqual(passes.core_counts(cpus), counts)

    def test_every_row_can_be_run_and_its_rate_found(self):
        names = [r.name for r in workloads.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for r in workloads.ROWS:
            self.assertIn(r.kind, run_rows.KINDS)
            self.assertLessEqual(set(r.sets), {"quick", "full", "scale"})
            if isinstance(r.rate, tuple):
                self.assertIn(r.rate[2], names)
        chosen = [r.name for r in workloads.rows_of("full", re.compile("16 partitions, 80"))]
        self.assertEqual(chosen, ["1 KiB, 16 partitions", "1 KiB, 16 partitions, 80 % of the own maximum"])

    def test_rates_are_parts_of_maxima(self):
        run = SimpleNamespace(samples=[sample("kafka", "full", 1, records_per_s=100), sample("kafka", "full", 2, records_per_s=50)],
                              meta={"baseline": {"records_per_s": {"full": 80}}}, context=SimpleNamespace(cores=None))
        for rate, number, expected in ((None, 1, None), (7, 1, 7), (("own", 0.5, "full"), 2, 25), (("own", 0.5, "full"), 3, None),
                                       (("kafka", 0.5, "full"), 1, 40)):
            row = SimpleNamespace(rate=rate)
            self.assertEqual(passes.rate_of(run, row, "kafka", number), expected, rate)

    def test_verdicts_need_more_than_noise(self):
        for a, b, noise, more, expected in (
            ((100, 95, 105), (100, 95, 105), 0, True, "noise"),
            ((100, 95, 105), (120, 118, 125), 0.02, True, "better"),
            ((100, 95, 105), (120, 118, 125), 0.02, False, "WORSE"),
            ((100, 95, 105), (120, 118, 125), 0.3, False, "noise"),
            ((100, 95, 105), (120, 104, 125), 0.02, True, "noise"),
            ((100, 100, 100), (103, 103, 103), 0, True, "noise"),
            ((100, 95, 105), (80, 78, 82), 0.02, None, "differs"),
        ):
            self.assertEqual(compare.verdict(a, b, noise, more)[0], expected, (a, b, noise, more))
        self.assertEqual(compare.verdict((1, 1, 1), (2, 2, 2), 0, True, 1)[0], "too few samples")

    def test_what_limits_a_row_is_told(self):
        for client, broker, more, expected in ((0.9, 0.5, {}, "client-bound"), (0.5, 1.4, {}, "machine full"), (0.2, 1.0, {}, ""),
                                               (0.9, 0.5, {"rate": 5}, ""), (0.2, 1.0, {"foreign_cores": 0.5}, "disturbed"),
                                               (0.2, 0.2, {"cache_room_mib": 900, "backlog_mib": 800}, "the backlog fits the page cache"),
                                               (0.2, 0.2, {"cache_room_mib": 900, "backlog_mib": 1000}, "")):
            told = figures.bound({"client_cores": client, "broker_cores": broker, "client_threads": 1, **more}, 2)
            self.assertEqual(told, expected)

    def test_java_tools_are_understood(self):
        line = ("50000 records sent, 1234.5 records/sec (1.21 MB/sec), 5.10 ms avg latency, 80.00 ms max latency, "
                "4 ms 50th, 9 ms 95th, 12 ms 99th, 70 ms 99.9th.")
        self.assertEqual(figures.of_java_produce(line)["p99_ms"], 12)
        self.assertEqual(figures.of_java_e2e("Percentiles: 50th = 1, 99th = 5, 99.9th = 9")["p99_9_ms"], 9)
        self.assertIsNone(figures.of_java_produce("ERROR"))

    def test_the_consumer_of_kafka_is_understood(self):
        said = ("WARN something\n2026-11-29 21:00:00:000, 2026-11-29 21:00:05:500, 512.0000, 93.09, 524288, 95325.1, 3500, 2000, "
                "256.0000, 262144.0000\n")
        found = figures.of_java_consume(said)
        self.assertEqual((found["records_per_s"], found["mib_per_s"], found["rebalance_s"], found["drain_s"]), (262144, 256, 3.5, 2))
        self.assertIsNone(figures.of_java_consume("start.time, end.time\n"))
        self.assertIsNone(figures.of_java_consume(said.replace("524288", "0")))

    def test_groups_and_commits_are_understood(self):
        used = {"user_s": 0.5, "system_s": 0.5}
        latency = {f"{name}_us": 2000 for name in ("p50", "p95", "p99", "p99_9", "p99_99", "max")}
        result = {"elapsed_s": 2, "watched": used, "client": used, "settings": {"load": {"groups": 2, "members": 5, "rate": None}},
                  "sent": {"records": 600, "requests": 300, "records_per_s": 300, "unsent_records": 0, "latency": latency},
                  "start": {"seconds": 1.5, "watched": used}, "roll": {"seconds": 3, "steps_ms": [1000, 2000], "watched": used},
                  "rss_before_bytes": 1000, "rss_stable_bytes": 2 << 20}
        found = figures.of_group(result)
        self.assertEqual((found["stable_s"], found["roll_step_ms"], found["rss_mib"]), (1.5, 2000, 2))
        self.assertEqual((found["heartbeats_per_cpu_s"], found["p99_ms"], found["broker_cores"]), (600, 2, 0.5))
        found = figures.of_commits({**result, "disk": {"flushes": 10}})
        self.assertEqual((found["commits_per_s"], found["commits_per_cpu_s"], found["requests_per_s"]), (300, 600, 150))
        # Nothing measured but the start; nobody watched.
        found = figures.of_group({**result, "sent": None, "roll": None, "start": {"seconds": 1, "watched": None}})
        self.assertNotIn("p99_ms", found)

    def test_the_seconds_of_a_drain_are_set_apart(self):
        seconds = [{"measured": i > 0, "p99_us": us} for i, us in enumerate([99000, 1000, 2000, 8000, 9000, 3000, 50000])]
        for begun, drained, before, during in ((2, 2.1, 2, 9), (2.5, 1, 2, 9), (2, 0.5, 2, 8), (0.5, 0.1, 0, 1), (2, 60, 2, 50)):
            found = run_rows.backlog_figures({"seconds": seconds}, begun, drained)
            self.assertEqual((found["p99_before_ms"], found["p99_during_ms"]), (before, during), (begun, drained))

    def test_a_memory_group_is_made_below_our_own(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for said, files, expected in (
                ("9:name=systemd:/\n4:memory:/a/b\n0::/\n", ["memory/a/b/x"], "memory/a/b"),
                ("4:memory:/elsewhere\n0::/\n", [], None),
                ("3:cpu:/a\n", [], None),
                ("0::/own\n", ["own/cgroup.subtree_control=cpu memory"], "own"),
                ("0::/up/own\n", ["up/cgroup.subtree_control=memory", "up/own/cgroup.subtree_control="], "up"),
                ("0::/none/own\n", ["none/own/cgroup.subtree_control=cpu"], None),
            ):
                for file in files:
                    name, _, text = file.partition("=")
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
                if expected is None:
                    with self.assertRaises(cgroup.NotAllowed, msg=said):
                        cgroup.parent_of(said, root)
                else:
                    self.assertEqual(cgroup.parent_of(said, root)[0], root / expected, said)

    @unittest.skipIf(cgroup.why_not(), "no memory cgroups here")
    def test_a_memory_group_limits_the_page_cache_of_a_process_and_goes(self):
        limit = 32 << 20
        group = cgroup.Group(limit, "test")
        try:
            with tempfile.TemporaryDirectory() as folder:
                # Written outside: a slow disk must not fill the group with pages that cannot go yet.
                with open(f"{folder}/file", "wb") as file:
                    file.truncate(96 << 20)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                command = ["dd", f"if={folder}/file", "of=/dev/null", "bs=1M", "status=none"]
                self.assertEqual(process.start(command, group=group).wait(), 0)
                self.assertLessEqual(group.cached(), limit)
                self.assertGreater(group.cached(), 0)
        finally:
            group.remove()
        self.assertFalse(group.folder.exists())

    def test_rows_are_measured_as_often_as_they_say_by_those_who_can(self):
        rows = workloads.rows_of("full", re.compile("."))
        names = lambda *args: [r.name for r in passes.rows_for(*args)]
        small, cold, own = SMALL, "cold backlog drained while producers go on", "1 KiB, 1 partition, 80 % of the own maximum"
        for system, number, all_passes, there, absent in (
            ("odradek-written", 1, False, (small, cold, own), ()),
            ("odradek-written", 2, False, (small, cold), (own,)),
            ("odradek-written", 3, False, (small,), (cold, own)),
            ("odradek-written", 3, True, (small, own), (cold,)),
            ("kafka-flush1", 1, False, (small,), (cold,)),
            ("reactor", 1, False, (small,), (cold, own, "offset commits")),
            ("tansu", 3, False, (small,), (own, "offset commits")),
            ("odradek-written (again)", 1, False, ("1 KiB, 16 partitions",), (small, cold)),
        ):
            found = names(system, rows, number, all_passes)
            self.assertLessEqual(set(there), set(found), (system, number))
            self.assertFalse(set(absent) & set(found), (system, number))
        self.assertEqual(len(names("reactor", rows, 1)), 3)

    def test_the_command_is_told_without_places_of_the_machine(self):
        words = ["full", "--out", "/a", "--rows", "1 KiB", "--bin=/b", "--disk", "/c"]
        self.assertEqual(runner().told(words), ["full", "--rows", "1 KiB"])

    def test_a_full_run_ends_in_time(self):
        sets = runner().SETS
        self.assertLess(estimate.of_set("full", sets["full"]) / 60, 85)
        self.assertLess(estimate.of_set("quick", sets["quick"]) / 60, 20)
        context = SimpleNamespace(seconds=4, warmup_s=1, size=1)
        for r in workloads.ROWS:
            for system in systems.SYSTEMS.values():
                self.assertGreater(estimate.of_row(context, r, system), 1)

    def test_a_lost_system_costs_its_rows_and_not_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "broker"
            # Formats, and then ends at once instead of serving.
            program.write_text("#!/bin/sh\n[ $1 = format ] && exit 0\necho no ring; exit 3\n")
            program.chmod(0o755)
            context = SimpleNamespace(disk=Path(folder), ports=None, cores=None, broker_cpus=None, binary=program, env={}, keep=False,
                                      root=Path(folder), no_groups="", size=1)
            run = passes.Run(context, Path(folder), META)
            run.total = 2
            rows = workloads.rows_of("quick", re.compile("single"))
            with contextlib.redirect_stderr(io.StringIO()):
                passes.one_system(run, "odradek-written", 1, rows)
            self.assertEqual([s["row"] for s in run.samples], [r.name for r in rows])
            for s in run.samples:
                self.assertIn("ended at once: no ring", s["failed"])
            self.assertEqual(sorted(f.name for f in Path(folder).iterdir()), ["broker", "samples.json"])

    def test_an_interrupted_run_leaves_no_process_and_keeps_its_report(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                program, started = folder / "odradek", folder / "started"
                # Starts, and never serves.
                program.write_text(f"#!/bin/sh\ncase $1 in perf) echo produce;; --version) echo 1;; start) echo $$ > {started}.new; "
                                   f"mv {started}.new {started}; exec sleep 600;; esac\n")
                program.chmod(0o755)
                (folder / "disk").mkdir()
                # As a shell starts what goes into the background.
                run = subprocess.Popen(
                    [sys.executable, str(Path(__file__).parent), "--root", str(Path(__file__).parents[2]), "quick", "--systems",
                     "odradek-written", "--rows", "single", "--bin", program, "--disk", folder / "disk", "--out", folder / "out"],
                    stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
                try:
                    while not started.exists():
                        self.assertIsNone(run.poll(), "it ended before its broker started")
                        time.sleep(0.02)
                    run.send_signal(number)
                    said = run.communicate(timeout=60)[1]
                finally:
                    run.kill()
                self.assertEqual(run.returncode, 130, said)
                self.assertFalse(Path(f"/proc/{started.read_text().strip()}").exists())
                self.assertEqual(list((folder / "disk").iterdir()), [])
                self.assertIn("Cut short: interrupted", (folder / "out/report.md").read_text())

    def test_a_process_that_could_not_run_is_a_hiccup(self):
        with tempfile.TemporaryDirectory() as folder:
            watching, begin = hiccups.Hiccups(folder), time.time()
            try:
                if watching.why:
                    self.assertIsNone(watching.between(0, begin))
                    return
                child, seen = watching.children[0], []
                # Until it has started and been kept from running once.
                while not any(late > 40 for _, late in seen):
                    self.assertIsNone(child.poll())
                    os.kill(child.pid, signal.SIGSTOP)
                    time.sleep(0.05)
                    os.kill(child.pid, signal.SIGCONT)
                    time.sleep(0.01)
                    seen = watching.between(begin, time.time())
                self.assertEqual(watching.between(begin - 20, begin - 10), [])
            finally:
                watching.stop()
            self.assertEqual(list(Path(folder).iterdir()), [])
            self.assertFalse(Path(f"/proc/{child.pid}").exists())

    def test_hiccups_at_one_place_of_a_period_are_told_apart(self):
        placed = [[1000 + n * 0.7 + 0.085, 3.0] for n in range(10)]
        spread = [[1000 + n * 0.73, 3.0] for n in range(10)]
        self.assertAlmostEqual(hiccups.concentration([when for when, _ in placed]), 1, 3)
        self.assertLess(hiccups.concentration([when for when, _ in spread]), 0.1)
        self.assertIn("10 times for more than 1 ms while something was measured, 3.0 ms at most", hiccups.told(placed))
        self.assertIn("one place of every 100 ms", hiccups.told(placed))
        for other in (spread, placed[:3]):
            self.assertNotIn("one place", hiccups.told(other))
        self.assertIn("never stood still", hiccups.told([]))
        self.assertEqual(hiccups.concentration([]), 0)

    def test_a_tail_is_also_told_without_the_standstills_of_the_machine(self):
        row = "1 KiB, 16 partitions, 50 % of Kafka's maximum"
        samples = [sample(name, row, number, p99_9_ms=tail, still_ms=still) for name, number, tail, still in (
            ("odradek-written", 1, 12, 11), ("odradek-written", 2, 6, 5), ("odradek-written", 3, 1, 0.0),
            ("kafka", 1, 5, 0.0), ("kafka", 2, 5, 1.5), ("kafka", 3, 20, 15))]
        text = report.markdown({**META, "hiccups": [[1.0, 11.0]]}, samples, [])
        self.assertIn("no more than 2 ms (1 of 3 of odradek-written, 2 of 3 of kafka) it is x0.2.", text)
        self.assertIn("the machine itself stood still once for more than 1 ms", text)
        self.assertIn("| 6 (1-12) | 5 (0-11) |", text)
        text = report.markdown(META, samples[:2] + samples[3:], [])
        self.assertIn("(0 of 2 of odradek-written, 2 of 3 of kafka) there are too few to compare", text)
        unwatched = [{k: v for k, v in s.items() if k != "still_ms"} for s in samples]
        self.assertNotIn("stood still for no more", report.markdown(META, unwatched, []))

    def test_the_ceiling_is_told_apart_from_brokers(self):
        samples = [sample("odradek-written", SMALL, 1, requests_per_cpu_s=70, records_per_s=5),
                   sample("odradek-durable", SMALL, 1, requests_per_cpu_s=40, records_per_s=5),
                   sample("kafka", SMALL, 1, requests_per_cpu_s=10, records_per_s=5),
                   sample("reactor", SMALL, 1, requests_per_cpu_s=100, records_per_s=9)]
        meta = {**META, "systems": ["odradek-written", "kafka", "odradek-durable", "reactor"]}
        text = report.markdown(meta, samples, [])
        self.assertIn(f"| {SMALL} | 100 | odradek-written | 70 | 70% |", text)
        self.assertIn(f"| {SMALL} | 100 | odradek-durable | 40 | 40% |", text)
        self.assertIn(f"at least x0.6 | x0.7 | {SMALL} | met |", text)
        self.assertNotIn("/ reactor", text)
        self.assertIn("\n- no cgroup\n", report.markdown({**meta, "left_out": ["no cgroup"]}, samples, []))
        lines = plots.panels(report.Samples(meta, samples), "records_per_s")
        self.assertEqual([name for name, *_ in lines[0][1]], ["odradek-written", "kafka", "odradek-durable"])

    def test_functions_of_a_profile_are_understood(self):
        said = ("    25.38%  [.] broker::handlers::produce::{{closure}}      -      -            \n"
                "     2.00%  [k] copy_user_generic\n\n# (Tip: x)\n")
        self.assertEqual(hot.functions(said), [[25.38, "[.] broker::handlers::produce::{{closure}}"], [2.0, "[k] copy_user_generic"]])
        samples = [sample("odradek-written", SMALL, 1, requests_per_cpu_s=10), sample("kafka", SMALL, 1, requests_per_cpu_s=10)]
        found = hot.missed(report.Samples(META, samples))
        self.assertEqual(list(found), [(SMALL, "odradek-written")])
        text = report.markdown({**META, "hot": [{"row": SMALL, "system": "odradek-written", "aims": ["x"], "functions": [[25.38, "f"]]}]},
                               samples, [])
        self.assertIn("| 25.4 % | `f` |", text)

    def test_what_cannot_be_done_is_said_before_anything_starts(self):
        command = [sys.executable, str(Path(__file__).parent), "--root", str(Path(__file__).parents[2])]
        for args, needle in (
            (["quick", "--rows", "("], "is no expression"), (["quick", "--rows", "nothing like it"], "no workload of quick matches"),
            (["quick", "--systems", "redis"], "no system is called 'redis'"), (["quick", "--systems", "kafka,kafka"], "names a system twice"),
            (["scale", "--systems", "reactor"], "scale uses nothing but the built binary"),
            (["quick", "--repeats", "0"], "--repeats 0"), (["quick", "--seconds", "-1"], "--seconds -1"),
            (["quick", "--size", "nan"], "--size nan"), (["quick", "--port", "70000"], "--port 70000"),
            (["quick", "--disk", "/nowhere"], "--disk /nowhere is no folder"), (["quick", "--out", "/dev/null"], "--out /dev/null is no folder"),
            (["compare", "/nowhere", "/nowhere"], "is no result"), (["report", "/nowhere"], "is no result"),
            (["readme", "/nowhere"], "is no result"),
        ):
            done = subprocess.run([*command, *args], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(needle, done.stderr, args)
            self.assertNotIn("Traceback", done.stderr, args)

    def test_a_step_that_takes_more_instructions_fails(self):
        script = Path(__file__).parents[2] / "scripts/instruction-counts"
        head = "# instructions of one step; rustc 1, x86_64, glibc 2, valgrind 3, CPU with avx2\n"
        with tempfile.TemporaryDirectory() as folder:
            record, counts = Path(folder) / "record", Path(folder) / "counts"
            record.write_text(f"{head}a\t10000\nb\t20000\n")
            for text, status, needle in (
                (f"{head}a\t10500\nb\t20000\n", 0, "a: 10500 instructions, 10000 recorded\n"),
                (f"{head}a\t10600\nb\t20000\n", 1, "a: 10600 instructions, 10000 recorded: more than 5 % above"),
                (f"{head}a\t10000\nb\t20000\nc\t1\n", 1, "c: 1 instructions, not in the record"),
                (f"{head}a\t10000\n", 1, "b: in the record, and no such step exists"),
                (f"{head.replace('avx2', 'avx')}a\t10600\nb\t20000\n", 0, "NOT COMPARED"),
            ):
                counts.write_text(text)
                done = subprocess.run([script, "--counts", counts], capture_output=True, text=True,
                                      env={**os.environ, "INSTRUCTION_RECORD": str(record)})
                self.assertEqual(done.returncode, status, (text, done.stdout, done.stderr))
                self.assertIn(needle, done.stdout + done.stderr)

    def test_a_report_tells_medians_drift_and_losses(self):
        samples = []
        for number, factor in ((1, 1.0), (2, 1.2), (3, 0.9)):
            samples += [sample("odradek-written", "r", number, records_per_s=200 * factor, p99_ms=3),
                        sample("kafka", "r", number, records_per_s=100 * factor, p99_ms=2),
                        sample("odradek-written (again)", "r", number, records_per_s=210 * factor)]
        text = report.markdown(META, samples, [])
        for needle in ("200 (180-240)", "| r | x2 | x1.5 (worse) |", "r: p99 ms x1.5", "records/s +5.0%"):
            self.assertIn(needle, text)

    def test_a_kept_rate_is_no_loss(self):
        rated = "1 KiB, 16 partitions, 50 % of Kafka's maximum"
        for row, value, expected in ((rated, 0.9999, None), (rated, 0.9, False), ("1 KiB, 16 partitions", 0.9999, False)):
            self.assertEqual(report.is_better(row, "records_per_s", value), expected, (row, value))

    def test_the_worst_row_decides_an_aim(self):
        samples = []
        for row, ours in (("1 KiB, 16 partitions", 300), ("100 B, 1 producer, acks=all", 90), ("kafka-producer-perf-test", 1)):
            samples += [sample("odradek-written", row, 1, records_per_s=ours, broker_cpu_s_per_gib=1),
                        sample("kafka", row, 1, records_per_s=100, broker_cpu_s_per_gib=9)]
        text = "\n".join(aims.table(report.Samples(META, samples)))
        self.assertIn("| records/s, producing, written | at least x1.2 | x0.9 | 100 B, 1 producer, acks=all | **missed** |", text)
        self.assertIn("| CPU per GiB, written, against Kafka | at most 1/8 | x0.111 | 1 KiB, 16 partitions | met |", text)
        text = report.markdown(META, samples, [])
        self.assertIn("- records/s, producing, written: not known yet", text)
        self.assertNotIn("- CPU per GiB, written, against Kafka:", text)
        for aim in aims.AIMS:
            self.assertIn(aim.figure, figures.FIGURES)
            if not callable(aim.rows):
                self.assertTrue(all(r == "start" or workloads.by_name(r) for r in aim.rows), aim)

    def test_the_readme_shows_what_the_committed_result_says(self):
        root = Path(__file__).parents[2]
        text, folder = readme.shown((root / "README.md").read_text())
        self.assertEqual(text, readme.of_result(root, folder), "run scripts/bench readme " + folder)

    def test_a_debug_build_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "odradek"
            for version, refused in (("odradek 1 (debug build)", True), ("odradek 1", False)):
                program.write_text(f"#!/bin/sh\n[ $1 = perf ] && echo produce || echo '{version}'\n")
                program.chmod(0o755)
                args = SimpleNamespace(bin=program, root=Path(folder), set="quick")
                if refused:
                    with self.assertRaises(SystemExit):
                        runner().binary(args)
                else:
                    self.assertEqual(runner().binary(args), program.resolve())

    def test_plots_are_well_formed(self):
        pictures = [
            svg.bars("a < b & c", "records/s", [("row", [("kafka", "written", "#123456", (5, 4, 6), "client-bound")])]),
            svg.percentiles("t", [("kafka", "#123456", [[0, 10], [0.5, 100], [0.99, 1000], [1, 5000]])]),
            svg.over_time("t", [("kafka", "#123456", [(1, 2, 3), (2, 4, 8), (3, 1, 1)])]),
            svg.growth("t", "cores", "records/s", [("kafka", "#123456", [(1, 10), (2, 20), (16, 90)])], log_x=True),
        ]
        for picture in pictures:
            xml.fromstring(picture)
        self.assertIsNone(svg.growth("t", "x", "y", [("kafka", "#123456", [(1, 10)])]))
        self.assertEqual(svg.ticks((0, 100), False), [0, 20, 40, 60, 80, 100])
        self.assertEqual(svg.ticks((0.9, 1100), True), [1, 10, 100, 1000])


if __name__ == "__main__":
    unittest.main()
