"""Processes that do not outlive the harness, and what `/proc` tells of them."""

import ctypes
import os
import random
import re
import signal
import socket
import subprocess
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _child(cpus, group=None):
    """What a child does before it becomes its program: it dies with the harness, stays on its CPUs, and joins a memory cgroup."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if group:
        group.join()
    # An interruption of the harness is the harness's to handle, not the children's.
    os.setpgid(0, 0)
    if cpus:
        os.sched_setaffinity(0, cpus)


def start(command, log=None, cpus=None, env=None, group=None):
    """Starts a process, inside a memory cgroup where one is given."""
    out = log or subprocess.DEVNULL
    return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                            preexec_fn=lambda: _child(cpus, group), env=env)


def run(command, timeout, cpus=None, env=None):
    """Runs a process to its end; gives its exit status and all it said. Kills it after `timeout` seconds and when the harness
    is interrupted."""
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: _child(cpus), env=env)
    try:
        said, _ = process.communicate(timeout=timeout)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        return None, f"no end after {timeout} s: {' '.join(str(c) for c in command)}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def build(command, cwd=None):
    """Runs what builds or installs something, with all its output; true when it succeeds. Interrupted, all that it started ends too."""
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, cwd=cwd, preexec_fn=lambda: _child(None))
    try:
        return process.wait() == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def cpu_seconds(pid):
    """User and system CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def memory(pid):
    """Resident set of a process now and at its peak, bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = (re.search(rf"^{key}:\s+(\d+)", text, re.M) for key in ("VmRSS", "VmHWM"))
    return tuple(int(m.group(1)) * 1024 if m else 0 for m in found)


def heap(pid):
    """Bytes that are left of a JVM's heap after a full collection. None where the JVM's own tool for it is missing."""
    try:
        said = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=120).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    total = re.search(r"^Total\s+\d+\s+(\d+)", said, re.M)
    return int(total.group(1)) if total else None


def maps_and_files(pid):
    """Memory maps and open files of a process."""
    maps = sum(1 for _ in open(f"/proc/{pid}/maps"))
    return maps, len(os.listdir(f"/proc/{pid}/fd"))


def page_cache():
    """Bytes of the page cache, and those of them that are still to be written."""
    text = Path("/proc/meminfo").read_text()
    return tuple(int(re.search(rf"^{key}:\s+(\d+)", text, re.M).group(1)) * 1024 for key in ("Cached", "Dirty"))


def disk_of(folder):
    """Major and minor number of the device below a folder, as the kernel's tables have them."""
    device = os.stat(folder).st_dev
    return os.major(device), os.minor(device)


def disk_work(device):
    """Operations that a device has on its way, and how many discards it has done; None for what is no block device."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if (int(words[0]), int(words[1])) == device:
            return int(words[11]), int(words[14]) if len(words) > 14 else 0
    return None


def busy_seconds():
    """CPU seconds that the whole machine has worked so far."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICKS


def children_seconds():
    """CPU seconds of the processes that this one has waited for, and its own."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def free_ports(count):
    """Ports that nobody listens on, below those that Linux picks for connections, which could take them before a broker does."""
    ports = []
    for port in random.sample(range(10_240, 32_768), 2_000):
        if is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"{count} free ports wanted, {len(ports)} found")


def is_free(port):
    """Whether a port can be listened on."""
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
