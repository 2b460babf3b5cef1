"""A running system with a directory of its own."""

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import cgroup
import process
from systems import COMMON

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
# Seconds until a broker must serve; a safety net. Recovery after a kill may take long.
START_S_MAX = 300


class Failed(Exception):
    """A broker or a tool did not do what it should, in words."""


class Broker:
    """Formats a fresh directory and starts a system on it, with `memory` bytes for itself and the page cache where that is said and
    the machine allows it."""

    def __init__(self, context, system, cores=None, cpus=None, memory=None):
        self.context, self.system, self.cpus, self.cores = context, system, cpus, cores
        self.dir = Path(tempfile.mkdtemp(prefix=f"bench-{system.name}-", dir=context.disk))
        self.process = self.log = self.group = None
        try:
            if memory and not context.no_groups:
                self.group = cgroup.Group(memory, self.dir.name)
            self.port, controller, self.metrics = context.ports or process.free_ports(3)
            settings = {
                **COMMON,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "log.dirs": str(self.dir / "data"),
                **system.properties,
            }
            if system.kind == "odradek":
                settings["odradek.metrics.listener"] = f"127.0.0.1:{self.metrics}"
                if cores:
                    settings["odradek.cores"] = str(cores)
            self.config = self.dir / "server.properties"
            self.config.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
            self.format()
            self.start()
        except BaseException:
            self.stop()
            raise

    def commands(self):
        """What formats the directory, or nothing, and what starts the system."""
        kafka, url = self.context.root / "scripts/kafka", f"tcp://127.0.0.1:{self.port}"
        format_args = ["-t", CLUSTER, "-c", self.config]
        return {
            "odradek": lambda: ([self.context.binary, "format", *format_args], [self.context.binary, "start", "--config", self.config]),
            "kafka": lambda: ([kafka, "kafka-storage", "format", *format_args], [kafka, "kafka-server-start", self.config]),
            "tansu": lambda: (None, [self.context.tansu, "broker", "--listener-url", url, "--advertised-listener-url", url,
                                     "--storage-engine", "memory://bench/"]),
            "reactor": lambda: (None, [self.context.echo, "--port", self.port, *(["--cores", self.cores] if self.cores else [])]),
        }[self.system.kind]()

    def format(self):
        command, _start = self.commands()
        if not command:
            return
        status, said = process.run(command, 120)
        if status != 0:
            raise Failed(f"{self.system.name} cannot be formatted: {said[-2000:]}")

    def start(self):
        """Starts the process and waits until it serves; tells how long that took."""
        env = dict(self.context.env)
        if self.system.jvm:
            env["ODRADEK_JVM_OPTS"] = self.system.jvm
        self.log = open(self.dir / "log", "ab")
        begun = time.monotonic()
        self.process = process.start(self.commands()[1], self.log, self.cpus, env, self.group)
        while not self.serves():
            if self.process.poll() is not None:
                tail = (self.dir / "log").read_text(errors="replace")[-2000:]
                raise Failed(f"{self.system.name} ended at once: {tail}")
            if time.monotonic() - begun > START_S_MAX:
                raise Failed(f"{self.system.name} does not serve after {START_S_MAX} s")
            time.sleep(0.001)
        self.start_s = time.monotonic() - begun
        return self.start_s

    def serves(self):
        """True once Metadata v12 lists the node itself."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as s:
                body = b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01b\x00" + b"\x01\x00\x00\x00"
                s.sendall(len(body).to_bytes(4, "big") + body)
                answer = s.recv(4096)
                return len(answer) > 14 and answer[13] > 1
        except OSError:
            return False

    @property
    def pid(self):
        return self.process.pid

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def held(self):
        """Bytes that the broker's own objects take: of a JVM what is left of its heap after a full collection, of Odradek what its
        allocations hold. Neither counts what was written and is kept for readers, in the page cache or in the tails of logs, nor
        buffers for I/O. None where it cannot be told."""
        if self.system.is_compiled_late:
            return process.heap(self.pid)
        if self.system.kind != "odradek":
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=30) as answer:
                text = answer.read().decode()
        except OSError as e:
            raise Failed(f"{self.system.name} does not tell its metrics: {e}") from e
        found = re.search(r"^odradek_allocated_bytes (\d+)", text, re.M)
        return int(found.group(1)) if found else None

    def last_words(self):
        """The end of what the process said."""
        return (self.dir / "log").read_text(errors="replace")[-500:].strip()

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def end(self):
        """Asks the process to stop and waits; tells how long that took."""
        begun = time.monotonic()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.log:
            self.log.close()
        return time.monotonic() - begun

    def stop(self):
        """Stops the process in any case and removes the directory."""
        try:
            self.end()
        except BaseException:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            raise
        finally:
            if self.group:
                self.group.remove()
            if not self.context.keep:
                shutil.rmtree(self.dir, ignore_errors=True)
