"""What Odradek aims at, as ratios to Apache Kafka in the same run, and whether a run reaches it."""

import statistics
from dataclasses import dataclass

import workloads

# Figures that one standstill of the machine decides.
TAILS = ("p99_ms", "p99_9_ms")
# A machine that stood still for longer decides them, in ms.
STILL_MS_MAX = 2


@dataclass(frozen=True)
class Aim:
    """A bound on one figure in some rows; the worst row decides."""

    text: str
    figure: str
    # Names of rows, or a test of a row.
    rows: object
    ours: str
    # None: the bound is on our own figure.
    theirs: str | None
    bound: float
    # Whether the bound is the most that is allowed, or the least.
    at_most: bool
    # Where it has been missed: the cause in a sentence, and what was tried.
    why: str = ""
    # The figure of theirs, where it is another one.
    base: str | None = None

    def of(self, samples):
        """The row that is worst and its value, or None when nothing of it was measured."""
        found = []
        for row in samples.rows:
            if not (self.rows(row) if callable(self.rows) else row in self.rows):
                continue
            ours = samples.median(self.ours, row, self.figure)
            theirs = samples.median(self.theirs, row, self.base or self.figure) if self.theirs else (1,)
            if ours and theirs and theirs[0]:
                found.append((ours[0] / theirs[0], row))
        if not found:
            return None
        value, row = (max if self.at_most else min)(found)
        return row, value

    def is_met(self, value):
        return value <= self.bound if self.at_most else value >= self.bound

    def wanted(self):
        sign = "at most" if self.at_most else "at least"
        if not self.theirs:
            return f"{sign} {self.bound:g}"
        return f"{sign} 1/{1 / self.bound:g}" if self.bound < 1 and self.at_most else f"{sign} x{self.bound:g}"


def loaded(row):
    return kind(row) == "produce"


def flat_out(*kinds):
    """Rows of these kinds in which the lean client goes as fast as it can."""
    return lambda row: kind(row) in kinds and workloads.by_name(row).rate is None


def kind(row):
    found = workloads.by_name(row)
    return found and found.kind


COPIES = ("every byte is copied out of the socket, into the tail and into the journal, and summed up once, which is two fifths of it; the rest are "
          "many small steps for each batch, none of which takes three hundredths; the bare reactor, which does the first copy alone, takes a "
          "fifth; huge pages, the mapped journal, a checksum by carry-less multiplication and a copy past the processor's cache came out of such "
          "profiles; next is a tail that lies in mapped files and is the journal at the same time, which by a loop of both steps saves the second "
          "copy, 53 us a MiB of some 650, and gives 10 of them back for direct writes from small pages")


FLOOD = ("a flood with acks=0 or of 10 MiB records fills what requests may hold, and a peak is the process's; with 64 MiB for them instead of "
         "256 it is 110-210 MiB instead of 180-370, at the same rates")


def group(figure, bound, at_most, text, why=""):
    def matches(row):
        return "group" in row or "heartbeats" in row or "offset" in row

    return [Aim(f"{text} ({ours})", figure, matches, f"odradek-{ours}", "kafka", bound, at_most, why) for ours in ("written", "durable")]


MAIN = ("1 KiB, 16 partitions",)
MANY = ("64 partitions, single 1 KiB records",)
SMALL = ("64 producers, single 100 B records",)
COLD = ("cold backlog drained while producers go on",)
WRITTEN, DURABLE, KAFKA, FLUSH = "odradek-written", "odradek-durable", "kafka", "kafka-flush1"

AIMS = [
    Aim("CPU per GiB, written, against Kafka", "broker_cpu_s_per_gib", MAIN, WRITTEN, KAFKA, 1 / 8, True, COPIES),
    Aim("CPU per GiB, durable, against Kafka without fsync", "broker_cpu_s_per_gib", MAIN, DURABLE, KAFKA, 1 / 6, True, COPIES),
    Aim("records/s, durable, against Kafka without fsync", "records_per_s", flat_out("produce"), DURABLE, KAFKA, 1, False,
        "records of 10 MiB go straight to their segment and are acknowledged at the rate of the disk, which Kafka's do not wait for"),
    Aim("p99, durable, against Kafka without fsync", "p99_ms", flat_out("produce"), DURABLE, KAFKA, 1, True,
        "at the maximum an acknowledgement waits for the disk behind all that is on its way to it, and Kafka's does not wait for a disk; "
        "two commits of the journal at a time were tried and made it worse, and taking turns behind the journal halved it"),
    Aim("records/s, durable, against Kafka with fsync", "records_per_s", MAIN, DURABLE, FLUSH, 20, False,
        "a commit of the journal takes as long as the disk does, and one is on its way at a time; two at a time were tried and gained nothing, and "
        "taking runs of 24 or 32 KiB out of large commits, straight to their segments, halves their bytes and took up to a quarter of the rate"),
    Aim("records/s, durable, small appends, against Kafka with fsync", "records_per_s", MANY, DURABLE, FLUSH, 50, False),
    Aim("small requests per CPU second, written", "requests_per_cpu_s", SMALL, WRITTEN, KAFKA, 5, False,
        "five times what Kafka does once it is warm is nine tenths of what the bare reactor does with nothing behind it; of that Odradek keeps "
        "what the table of the ceiling says, after allocations went from 24 to 6 a request"),
    Aim("requests per CPU second, written, against the bare reactor that keeps nothing", "requests_per_cpu_s", SMALL, WRITTEN, "reactor",
        0.6, False),
    Aim("p99.9 at half of Kafka's maximum, written", "p99_9_ms", ("1 KiB, 16 partitions, 50 % of Kafka's maximum",), WRITTEN, KAFKA,
        1 / 5, True, "in traces of the scheduler and the disk most of its stalls are those of the machine: nothing ran on either CPU for 1-10 ms, whoever was on "
        "them, at the same place of every 100 ms; where the disk was late for 20 ms and more, making one more file of the journal's ring took a CPU "
        "5-11 ms a MiB and waited for the disk, and does neither any more"),
    Aim("end-to-end p99, written", "p99_ms", ("end to end, 1 KiB, 6 partitions, 10,000 records/s",), WRITTEN, KAFKA, 1 / 2, True),
    # Client and broker share the CPUs: where they do not, once as many would do.
    Aim("records/s, producing, written", "records_per_s", flat_out("produce", "e2e"), WRITTEN, KAFKA, 1.2, False),
    Aim("records/s, reading, written", "records_per_s", flat_out("drain"), WRITTEN, KAFKA, 1.2, False,
        "what is in memory is read at the rate of the producers; the disk fills a bare loop of direct reads at 1.1-1.4 GiB/s, and a larger tail stays "
        "a setting since memory under load is an aim too"),
    Aim("seconds to drain a cold backlog, written", "drain_s", COLD, WRITTEN, KAFKA, 1 / 2, True,
        "reads leave the disk to the producers, a small piece at a time; Kafka drains as fast and lets its producers wait for seconds"),
    *(Aim(f"producers' p99 while a cold backlog is drained, {rung}, against that of the seconds before", "p99_during_ms", COLD, ours, ours, 1.2,
          True, "reads and writes share a disk that both fill: a bare loop of one read of 128 KiB at a time doubles the p99 of commits on it; "
          "one read handed round between the cores, and none while commits are late, took it from more than a second to milliseconds",
          base="p99_before_ms") for rung, ours in (("written", WRITTEN), ("durable", DURABLE))),
    Aim("memory under load, written", "rss_peak_mib", loaded, WRITTEN, KAFKA, 1 / 5, True,
        "the mapped files of the journal and the tail of 64 MiB count as the broker's memory, and so do the half-filled pieces of the tails of "
        "hundreds of busy partitions; a ring of files that frees its oldest in time takes 60 MiB less than one of eight, and is what runs; " + FLOOD),
    Aim("memory under load, durable", "rss_peak_mib", loaded, DURABLE, KAFKA, 1 / 5, True, FLOOD),
    Aim("memory with 10,000 idle partitions", "rss_mib", ("10,000 idle partitions",), DURABLE, KAFKA, 1 / 5, True),
    Aim("start with 10,000 idle partitions", "restart_s", ("10,000 idle partitions",), DURABLE, KAFKA, 1 / 5, True),
    Aim("start to ready", "start_s", ("start",), DURABLE, KAFKA, 1 / 30, True),
    Aim("cores busy with 1,000 idle consumers", "idle_cores", ("1,000 idle consumers",), DURABLE, None, 0.01, True),
    *group("heartbeats_per_cpu_s", 5, False, "heartbeats per CPU second",
           "half of a heartbeat's time is the kernel's part of a message in and one out, which Kafka pays too; answers that are ready together "
           "leave together, and nothing is allocated or looked up twice any more"),
    *group("commits_per_cpu_s", 5, False, "commits per CPU second",
           "an offset is decoded, encoded as a record, read back as the log's readers would, appended and answered, and none of these takes a "
           "tenth of the time; records of a commit in one buffer gained a third, and looking group and topic up once for all of its partitions "
           "as much again as there was"),
    *group("stable_s", 1 / 2, True, "time until a group is stable",
           "of a consumer group it is the second of the assignment interval and the members' heartbeats on either broker: those that joined at "
           "once beat at once, before the first of them has given partitions up, and learn a heartbeat later; where joins take Kafka tens of "
           "milliseconds they come one by one"),
    *group("load_s", 1 / 3, True, "time to load offsets"),
    *group("bytes_per_member", 1 / 5, True, "memory per member",
           "of a classic member most is its connection, where Kafka's buffers beside the heap do not count: a task of 840 bytes, 520 for what it "
           "sends next, and what tables and lists keep of both; the task took 1,224, and there was a queue and a list of answers; of a consumer "
           "group's member 250 bytes lie in the map of the group's members, and the rest are its id, subscription, assignment and target"),
    *group("bytes_per_commit", 1 / 5, True, "memory per committed offset",
           "an entry (offset, time of the commit, place in the log, leader epoch, partition) took 40 bytes, and takes 24 since what few have stands "
           "beside; where more is counted it is the growth of resident memory, with what the load took for once, as results did before allocations were counted"),
]


def unstalled(samples, aim, row):
    """What an aim at a tail of latencies comes to in the samples of a row during which the machine itself did not stand still."""
    names = [name for name in (aim.ours, aim.theirs) if name]
    watched = {name: [s for s in samples.of(name, row) if s.get(aim.figure) is not None and s.get("still_ms") is not None] for name in names}
    if aim.figure not in TAILS or aim.base or not all(watched.values()):
        return ""
    quiet = {name: [s[aim.figure] for s in found if s["still_ms"] <= STILL_MS_MAX] for name, found in watched.items()}
    passes = ", ".join(f"{len(quiet[name])} of {len(watched[name])} of {name}" for name in names)
    if not all(quiet.values()):
        return f"of the passes during which the machine stood still for no more than {STILL_MS_MAX} ms ({passes}) there are too few to compare"
    values = [statistics.median(quiet[name]) for name in names]
    value = values[0] / values[1] if aim.theirs else values[0]
    return f"in the passes during which the machine stood still for no more than {STILL_MS_MAX} ms ({passes}) it is {told(value, aim)}"


def reasons(samples):
    """Of the aims that a run misses, what is known of the cause and was tried, a line each."""
    lines = []
    for aim in AIMS:
        found = aim.of(samples)
        if found and not aim.is_met(found[1]):
            known = "; ".join(filter(None, [aim.why, workloads.note(found[0]), unstalled(samples, aim, found[0])]))
            lines.append(f"- {aim.text}: {known or 'not known yet; below is where the time goes'}.")
    return lines


def told(value, aim):
    return f"x{value:.3g}" if aim.theirs else f"{value:.3g}"


def table(samples):
    """The aims as a table; those of which nothing was measured are left out."""
    lines = ["| aim | wanted | measured | in its worst row | |", "|---|---|---:|---|---|"]
    for aim in AIMS:
        found = aim.of(samples)
        if found:
            row, value = found
            limit = samples.mark(aim.ours, row)
            where = row + (f" ({limit})" if limit else "")
            lines.append(f"| {aim.text} | {aim.wanted()} | {told(value, aim)} | {where} | {'met' if aim.is_met(value) else '**missed**'} |")
    return lines if len(lines) > 2 else []
