"""A cluster of real processes over loopback, for the tests in this folder.

Nothing here sleeps for a fixed time: a daemon is ready when it has printed its line, and everything else is asked for
again until it is so, or the deadline of the test has passed.
"""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("MILLPOND_BINARY", ROOT / "build/release/apps/millpond"))
DEADLINE = 20  # seconds: how long a loaded machine may take for what takes milliseconds


def environment(**more):
    """The caller's, without settings of its own for millpond."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
    return {**clean, **more}


def until(holds, what, deadline=DEADLINE):
    """The first true answer of holds(), asked again and again."""
    end = time.monotonic() + deadline
    while True:
        answer = holds()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {deadline} s: {what}"
        select.select([], [], [], 0.02)


class Daemon:
    """millpond master or node. `address` and `admin` are known once it has printed its line."""

    def __init__(self, folder, name, *arguments, **env):
        self.name = name
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [BINARY, *arguments], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True,
                cwd=folder, env=environment(**env))
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        self.line = self.process.stdout.readline() if ready else ""
        found = re.match(r"millpond (?:master|node) listening on (\S+?),.*?admin http://(\S+)$", self.line)
        if not found:
            self.process.kill()
            raise AssertionError(f"{name} printed {self.line!r} and logged:\n{self.said()}")
        self.address, self.admin = found.groups()

    def said(self):
        return self.log.read_text()

    def page(self, path):
        """(status, body) of an admin page."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=DEADLINE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def state(self):
        return json.loads(self.page("/state")[1])

    def metric(self, name):
        for line in self.page("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE)

    def end(self, by=signal.SIGTERM):
        """Exit status after a signal that asks politely."""
        self.process.send_signal(by)
        return self.process.wait(DEADLINE)


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        self.master = None
        self.nodes = []

    def start_master(self, *arguments, listen="127.0.0.1:0", **env):
        self.master = self.add("master", "master", "--listen", listen, "--admin-listen", "127.0.0.1:0", *arguments, **env)
        return self.master

    def start_node(self, *arguments, memory="64MiB", master=None, **env):
        name = f"node-{len(self.nodes)}"
        node = self.add(name, "node", "--name", name, "--memory", memory, "--master", master or self.master.address,
                        "--socket-directory", str(self.folder), *arguments, **env)
        self.nodes.append(node)
        return node

    def add(self, *arguments, **env):
        daemon = Daemon(self.folder, *arguments, **env)
        self.daemons.append(daemon)
        return daemon

    def joined(self, *nodes):
        for node in nodes or self.nodes:
            until(lambda node=node: node.metric("millpond_node_joined") == 1, f"{node.name} joins; it said:\n{node.said()}")

    def run(self, command, *arguments, stdin=b"", master=None, timeout=DEADLINE, **env):
        """A command of the client; its output as bytes."""
        return subprocess.run([BINARY, command, *arguments, "--master", master or self.master.address], input=stdin,
                              capture_output=True, timeout=timeout, cwd=self.folder, env=environment(**env))

    def put(self, key, value, *arguments, **more):
        return self.run("put", key, "-", *arguments, stdin=value, **more)

    def get(self, key, *arguments, **more):
        return self.run("get", key, *arguments, **more)

    def owner(self, key):
        answer = self.run("locate", "--json", key)
        assert answer.returncode == 0, answer
        return json.loads(answer.stdout)["replicas"][0]["node"]

    def end(self):
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
            daemon.process.stdout.close()


def millpond(*arguments, folder=None, timeout=DEADLINE, stdin=None, **env):
    """Any command line, for those that are wrong."""
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=timeout, cwd=folder,
                          stdin=subprocess.DEVNULL if stdin is None else stdin, env=environment(**env))
