"""What the figures were measured on."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path


def said(*command, cwd=None):
    """What a command prints, or nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=cwd)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip() if done.returncode == 0 else ""


def first(pattern, path):
    try:
        found = re.search(pattern, Path(path).read_text(), re.M)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def mount(folder):
    """File system and mount options of a folder."""
    best = ("", "", "")
    folder = str(Path(folder).resolve())
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, point, kind, options = line.split()[:4]
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind, options)
    return {"file_system": best[1], "mount_options": best[2]}


def describe(disk, root, binary):
    """The machine, the disk, and the versions of everything."""
    memory = first(r"^MemTotal:\s+(\d+)", "/proc/meminfo")
    found = {
        "cpu": first(r"^model name\s*: (.*)$", "/proc/cpuinfo") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory) / (1 << 20), 1) if memory else None,
        "kernel": platform.release(),
        "governor": first(r"(\w+)", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
        "virtual": "hypervisor" in first(r"^flags\s*: (.*)$", "/proc/cpuinfo").split(),
        "odradek": said(str(binary), "--version"),
        "commit": said("git", "describe", "--always", "--dirty", cwd=root),
        "kafka": "4.4.0",
        **mount(disk),
    }
    if shutil.which("java"):
        found["java"] = said("java", "-version").splitlines()[0] if said("java", "-version") else ""
    return found
