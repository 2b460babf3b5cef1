"""When the machine itself stood still. On every CPU a process of real-time priority wakes every two milliseconds; where it wakes late, neither a
broker nor a client could have run: the hypervisor had taken the CPU away, or its kernel did not let go of it. What was measured meanwhile
tells of the machine, not of the broker. (Gil Tene's jHiccup asks the same question.)"""

import cmath
import gc
import math
import os
import sys
import time
from pathlib import Path

import process

# A wake-up that is later than this is written down.
LATE_MS_MIN = 1.0
# Time between wake-ups.
PERIOD_S = 0.002
# Above everything that has no real-time priority; the kernel's own threads that migrate tasks are higher.
PRIORITY = 50
# CPUs that are watched, evenly chosen: what stops a whole machine shows on any of them.
CPUS_MAX = 8
# A cgroup's quota of CPU time is counted anew after this time by default, on Linux hosts of virtual machines too.
QUOTA_PERIOD_MS = 100
# From so many hiccups on it is told whether they come at one place of that period, and from this concentration on they do: 0 for evenly
# spread ones, 1 where all are at the same place.
PLACED_MIN = 8
CONCENTRATION_MIN = 0.6


class Hiccups:
    """The watchers, and what they have seen."""

    def __init__(self, folder):
        usable = sorted(os.sched_getaffinity(0))
        self.cpus = usable[::math.ceil(len(usable) / CPUS_MAX)]
        self.files = [Path(folder) / f"hiccups-{os.getpid()}-{cpu}" for cpu in self.cpus]
        # Why nothing is watched, if so.
        self.why = ""
        self.children = []
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except OSError as error:
            self.why = f"real-time priority is not allowed here ({error.strerror})"
            return
        for cpu, file in zip(self.cpus, self.files):
            file.write_text("")
            self.children.append(process.start([sys.executable, __file__, cpu, file]))

    def between(self, begin_s, end_s):
        """Wake-ups that were late between two moments of the wall clock: when, in seconds, and how late, in milliseconds. None where
        nothing is watched."""
        if self.why:
            return None
        found = []
        for file in self.files:
            for line in file.read_text().splitlines():
                when, late = map(float, line.split())
                if begin_s <= when <= end_s:
                    found.append((when, late))
        return sorted(found)

    def stop(self):
        for child in self.children:
            child.kill()
            child.wait()
        self.children = []
        for file in self.files:
            file.unlink(missing_ok=True)


def concentration(moments, period_ms=QUOTA_PERIOD_MS):
    """How much moments (seconds) cluster at one place of a period: the length of the mean of their directions on its circle."""
    if not moments:
        return 0
    return abs(sum(cmath.exp(2j * math.pi * when * 1000 / period_ms) for when in moments)) / len(moments)


def told(seen):
    """What was seen in all measurements of a run, as [seconds, milliseconds late], in a sentence."""
    if not seen:
        return f"the machine never stood still for more than {LATE_MS_MIN:g} ms while something was measured"
    times = "once" if len(seen) == 1 else f"{len(seen)} times"
    text = (f"the machine itself stood still {times} for more than {LATE_MS_MIN:g} ms while something was measured, "
            f"{max(late for _, late in seen):.1f} ms at most: so late woke a process of real-time priority, which nothing but the hypervisor "
            "or the kernel can keep from its CPU")
    placed = concentration([when for when, _ in seen])
    if len(seen) >= PLACED_MIN and placed >= CONCENTRATION_MIN:
        text += (f". They come at one place of every {QUOTA_PERIOD_MS} ms (concentration {placed:.2f}; 0 would be anywhere, 1 always the same), "
                 "as they do where the machine has a quota of CPU time from outside")
    return text


def watch(cpu, file):
    """Watches one CPU for ever."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    gc.disable()
    out = os.open(file, os.O_WRONLY | os.O_APPEND)
    due = time.monotonic()
    while True:
        due += PERIOD_S
        time.sleep(max(0, due - time.monotonic()))
        late = time.monotonic() - due
        if late * 1000 > LATE_MS_MIN:
            os.write(out, f"{time.time():.6f} {late * 1000:.3f}\n".encode())
            due += late


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
