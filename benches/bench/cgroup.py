"""Memory cgroups: what a broker and the page cache of its files may take together."""

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "odradek-bench-"
# Seconds that the kernel may take to notice that the last process of a group is gone.
REMOVE_S_MAX = 5


class NotAllowed(Exception):
    """This machine gives us no memory cgroup; says why."""


def parent_of(said, root=ROOT):
    """The folder in which we may make groups, and the names of the files that limit them. `said` is /proc/self/cgroup.

    Always below what limits this process itself. With version 2 that is our own group where it hands memory on, otherwise the one
    above it, as a group with processes in it cannot."""
    own = {line.split(":", 2)[1]: line.split(":", 2)[2].strip() for line in said.splitlines() if line.count(":") >= 2}
    if "memory" in own:
        folder = root / "memory" / own["memory"].lstrip("/")
        if not folder.is_dir():
            raise NotAllowed(f"{folder} is not mounted")
        return folder, "memory.limit_in_bytes", "memory.usage_in_bytes"
    if "" not in own:
        raise NotAllowed("this system has no memory cgroups")
    folder = root / own[""].lstrip("/")
    for place in [folder, folder.parent] if folder != root else [folder]:
        with contextlib.suppress(OSError):
            if "memory" in (place / "cgroup.subtree_control").read_text().split():
                return place, "memory.max", "memory.current"
    raise NotAllowed(f"{folder} hands no memory on to groups below it")


class Group:
    """A group with a limit in bytes. Who joins it pays for its own memory and for the page cache of what it reads and writes."""

    def __init__(self, limit, name=""):
        self.limit = limit
        said = Path("/proc/self/cgroup").read_text()
        parent, limit_file, self.usage_file = parent_of(said)
        forget_stale(parent)
        self.folder = parent / f"{PREFIX}{os.getpid()}-{name}"
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / limit_file).write_text(str(limit))
        except OSError as error:
            self.remove()
            raise NotAllowed(str(error)) from error

    def join(self):
        """Moves the calling process into the group."""
        (self.folder / "cgroup.procs").write_text("0")

    def cached(self):
        """Bytes of page cache that the group holds now."""
        fields = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        return int(fields.get("total_cache", fields.get("file", 0)))

    def remove(self):
        """Removes the group once its processes are gone."""
        until = time.monotonic() + REMOVE_S_MAX
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > until:
                    return
                time.sleep(0.05)


def forget_stale(parent):
    """Removes the empty groups of harnesses that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def why_not():
    """Why there can be no group here, or nothing when there can."""
    try:
        Group(1 << 30, "try").remove()
    except (NotAllowed, OSError) as error:
        return str(error)
    return ""
