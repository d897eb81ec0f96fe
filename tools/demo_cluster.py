"""Clusters for the demo: masters and nodes as real processes, gone when the block ends, however it ends."""
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_DEADLINE = 20.0     # seconds until a daemon must say where it listens, and a cluster that it is whole
STOP_DEADLINE = 5.0


class Failed(Exception):
    """Something that the demo cannot go on without; the message is for the person at the terminal."""


def die_with_parent():
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)   # PR_SET_PDEATHSIG: also when we are killed hard


def tail(path, lines=8):
    try:
        with open(path, errors="replace") as f:
            return "".join("    " + line for line in f.readlines()[-lines:])
    except OSError:
        return ""


class Daemon:
    """A `millpond master` or `millpond node`; its addresses are those that it prints."""

    def __init__(self, argv, log_path):
        self.argv, self.log_path = argv, log_path
        self.log = open(log_path, "w")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=die_with_parent)
        self.address = self.admin = None

    def wait_listening(self):
        deadline = time.monotonic() + START_DEADLINE
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.process.stdout], [], [], min(left, 0.5))[0]:
                continue
            line = self.process.stdout.readline()
            if not line:
                break
            self.log.write(line)
            self.log.flush()
            if found := re.search(r"listening on ([^\s,]+)", line):
                self.address = found.group(1)
                if found := re.search(r"admin (?:on )?(?:http://)?([^\s,/]+:\d+)", line):
                    self.admin = found.group(1)
                return
        raise Failed(f"{' '.join(self.argv)}\n  did not say where it listens within {START_DEADLINE:.0f} s; its log {self.log_path}:\n"
                     + tail(self.log_path))

    def state(self):
        with urllib.request.urlopen(f"http://{self.admin}/state", timeout=2) as reply:
            return json.load(reply)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()

    def reap(self):
        try:
            self.process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Clusters:
    """with Clusters(...) as c: one cluster of all nodes (pool), or one per node (every engine alone); c.masters has their
    addresses, in the order of the engines."""

    def __init__(self, binary, logs, name, nodes, node_bytes, shared, settings):
        self.binary, self.logs, self.name, self.settings = binary, logs, name, settings
        self.nodes, self.node_bytes, self.shared = nodes, node_bytes, shared
        self.daemons, self.masters = [], []
        self.sockets = None

    def __enter__(self):
        try:
            self.sockets = tempfile.mkdtemp(prefix="millpond-demo-")   # short: a Unix socket's path has 107 characters
            self.start()
            return self
        except BaseException:
            self.__exit__()
            raise

    def daemon(self, role, number, *arguments):
        log = os.path.join(self.logs, f"{self.name}-{role}{number}.log")
        daemon = Daemon([self.binary, role, "--listen", "127.0.0.1:0", *arguments], log)
        self.daemons.append(daemon)
        return daemon

    def start(self):
        masters = [self.daemon("master", i, *self.settings["master"]) for i in range(1 if self.shared else self.nodes)]
        for master in masters:
            master.wait_listening()
        self.masters = [master.address for master in masters]
        nodes = [self.daemon("node", i, "--master", self.masters[i % len(masters)], "--name", f"node{i}",
                             "--memory", str(self.node_bytes), "--socket-directory", self.sockets, *self.settings["node"])
                 for i in range(self.nodes)]
        for node in nodes:
            node.wait_listening()
        deadline = time.monotonic() + START_DEADLINE
        for node in nodes:
            while not self.joined(node):
                if time.monotonic() > deadline or node.process.poll() is not None:
                    raise Failed(f"a node did not join its master within {START_DEADLINE:.0f} s; its log {node.log_path}:\n"
                                 + tail(node.log_path))
                time.sleep(0.05)

    @staticmethod
    def joined(node):
        try:
            return bool(node.state().get("joined"))
        except (OSError, urllib.error.URLError, ValueError):
            return False

    def ended(self):
        """Daemons that ended by themselves: their logs are worth a look."""
        return [d for d in self.daemons if d.process.poll() is not None]

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.stop()
        for daemon in reversed(self.daemons):
            daemon.reap()
        if self.sockets:
            shutil.rmtree(self.sockets, ignore_errors=True)
