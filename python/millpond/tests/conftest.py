"""A cluster of real daemons for each test that asks for one. MILLPOND_BINARY names the binary."""

import os
import queue
import re
import subprocess
import threading

import pytest

import millpond

START_LIMIT = 60.0  # seconds until a daemon must have said where it listens


def binary() -> str:
    path = os.environ.get("MILLPOND_BINARY", "")
    if not path or not os.access(path, os.X_OK):
        pytest.fail(f"MILLPOND_BINARY is {path!r}: set it to the built binary, e.g. build/release/apps/millpond", pytrace=False)
    return path


class Daemon:
    def __init__(self, *arguments: str):
        self.process = subprocess.Popen([binary(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines: "queue.Queue[str]" = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        line = lines.get(timeout=START_LIMIT)
        found = re.search(r"listening on (\S+?),?\s", line + " ")
        assert found, f"millpond {' '.join(arguments)} did not start: {line!r}"
        self.address = found.group(1)

    def _read(self, lines):
        for line in self.process.stdout:
            lines.put(line)
        lines.put("")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        self.process.wait()


class Cluster:
    def __init__(self):
        self.daemons = []
        self.master = self.start("master", "--listen", "127.0.0.1:0").address

    def start(self, *arguments: str) -> Daemon:
        daemon = Daemon(*arguments, "--admin-listen", "")
        self.daemons.append(daemon)
        return daemon

    def node(self, name: str, memory: str = "64MiB") -> Daemon:
        """A node that the master knows."""
        daemon = self.start("node", "--master", self.master, "--listen", "127.0.0.1:0", "--memory", memory, "--name", name)
        with self.pool(namespace="probe") as pool:
            until_true(lambda: any(n.get("name") == name for n in pool.stat().get("nodes", [])))
        return daemon

    def pool(self, **options) -> millpond.Pool:
        return millpond.Pool(master=self.master, **options)

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.end()


def until_true(what, limit: float = 30.0):
    """Asks until the answer is yes; the pause is an event that nobody sets."""
    import time

    pause, end = threading.Event(), time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "never became true"
        pause.wait(0.01)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.end()
