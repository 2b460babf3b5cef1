"""What the Python agents share: the command loop and the form of records. The commands are described in ../README.md."""

import base64
import hashlib
import json
import sys
import threading
import traceback

# Values longer than this are told by their hash, so that answers stay readable.
SHOWN_BYTES = 256


class Unsupported(Exception):
    """The client library has no such feature."""


def show(data):
    """The form in which bytes are told: base64, a hash when they are long, None for null."""
    if data is None:
        return None
    data = bytes(data)
    if len(data) > SHOWN_BYTES:
        return "sha256:" + hashlib.sha256(data).hexdigest()
    return base64.b64encode(data).decode()


def unshow(text):
    """The bytes of a base64 text; None is null."""
    return None if text is None else base64.b64decode(text)


def told(topic, partition, offset, timestamp, key, value, headers):
    """One record as the test reads it."""
    headers = [[name if isinstance(name, str) else name.decode(), show(data)] for name, data in headers or []]
    return {
        "topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp,
        "key": show(key), "value": show(value), "headers": headers,
    }


def read_records(path):
    """The records to produce: (partition, timestamp, key, value, headers) each."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            headers = [(name, unshow(data)) for name, data in record["headers"]]
            yield record["partition"], record["timestamp"], unshow(record["key"]), unshow(record["value"]), headers


def write_records(path, records):
    """Writes what was read."""
    with open(path, "w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(record) + "\n")


class Missing:
    """What an assigned read still has to see: partitions by (topic, partition), each up to its end offset."""

    def __init__(self, parts):
        self.ends = {(p["topic"], p["partition"]): p["end"] for p in parts}
        self.records = []

    def take(self, record):
        """Keeps a record that lies before its partition's end."""
        name = (record["topic"], record["partition"])
        end = self.ends.get(name)
        if end is None or record["offset"] >= end:
            return
        self.records.append(record)
        if record["offset"] == end - 1:
            del self.ends[name]

    def done(self):
        """True when every partition was read to its end."""
        return not self.ends


class Member:
    """A member of a group that polls in a thread of its own. `make()` gives a consumer with poll() -> records,
    assignment() -> [(topic, partition)], and close(), which commits what was polled."""

    def __init__(self, make):
        self.records = []
        self.partitions = []
        self.failure = None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self.thread.start()

    def _run(self, make):
        try:
            consumer = make()
            while not self.ending.is_set():
                self.records.extend(consumer.poll())
                self.partitions = sorted(consumer.assignment())
            consumer.close()
        except Exception:
            self.failure = traceback.format_exc()

    def look(self):
        """Its partitions, and how far it has read each that it ever had."""
        if self.failure:
            raise RuntimeError(self.failure)
        ends = {}
        for record in self.records:
            ends[record["partition"]] = max(ends.get(record["partition"], 0), record["offset"] + 1)
        return {"partitions": self.partitions, "ends": ends}

    def leave(self, path):
        """Commits, leaves the group, writes what was read."""
        self.ending.set()
        self.thread.join(60)
        if self.failure:
            raise RuntimeError(self.failure)
        if self.thread.is_alive():
            raise RuntimeError("the member does not leave")
        write_records(path, self.records)
        return {"records": len(self.records)}


def serve(client):
    """Answers commands until standard input ends."""
    members = {}

    def join(ask):
        members[ask["member"]] = Member(lambda: client.member(ask["group"], ask["protocol"], ask["topics"]))
        return {}

    def consume(ask):
        missing = Missing(ask["parts"])
        if not missing.done():
            client.consume(ask["parts"], missing)
        write_records(ask["file"], missing.records)
        return {"records": len(missing.records)}

    commands = {
        "features": lambda ask: client.features(),
        "produce": client.produce,
        "consume": consume,
        "join": join,
        "look": lambda ask: members[ask["member"]].look(),
        "leave": lambda ask: members.pop(ask["member"]).leave(ask["file"]),
        "create": client.create,
        "describe": client.describe,
        "delete": client.delete,
    }
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = commands[ask["cmd"]](ask)
        except Unsupported as why:
            answer = {"unsupported": str(why)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
