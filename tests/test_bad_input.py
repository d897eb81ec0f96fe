"""Goal: whatever is wrong is told with its value and what to do; the process stays up where it can; nothing stored is
lost or altered. Method: the list "What bad input gets", one after the other, against real processes."""
import json
import os
import re
import socket

import pytest

from cluster import millpond, until


def refused(answer, *says, status=2):
    assert answer.returncode == status, answer
    for part in says:
        assert part in answer.stderr, answer.stderr
    assert "terminate called" not in answer.stderr and "Sanitizer" not in answer.stderr, answer.stderr


def test_an_unknown_setting_names_the_nearest(tmp_path):
    (tmp_path / "m.toml").write_text('[master]\nlisten = "127.0.0.1:0"\n[node]\nmemroy = "64MiB"\n')
    for command in ["master", "node"]:
        refused(millpond(command, "-c", "m.toml", folder=tmp_path), "m.toml:4", "memroy", "did you mean memory?")
    refused(millpond("node", "--memroy", "64MiB"), "--memroy", "did you mean --memory?")
    refused(millpond("nodes"), "nodes", "did you mean node?")
    refused(millpond("node", "-c", "/nonexistent.toml"), "/nonexistent.toml")


@pytest.mark.parametrize("flag,value,says", [
    ("--memory", "64 parsecs", "GiB"), ("--memory", "1KiB", "1 MiB …"), ("--page-size", "1KiB", "64 KiB"), ("--page-size", "100KiB", "power of two"),
    ("--join-retry", "5", "ms"), ("--admin-listen", "7701", "host:port"), ("--listen", "nonsense", "host:port"),
    ("--advertise", "foo", "host:port"), ("--advertise", "1.2.3.4:99999", "host:port"), ("--advertise", "1.2.3.4:0", "host:port"),
    ("--admin-listen", "0.0.0.0:0", "admin_remote"), ("--listen", "0.0.0.0:0", "cluster_key")])
def test_a_value_out_of_range_says_the_range(tmp_path, flag, value, says):
    refused(millpond("node", flag, value, "--socket-directory", str(tmp_path)), says)


def test_a_port_in_use(cluster):
    master = cluster.start_master()
    refused(millpond("master", "--listen", master.address, "--admin-listen", ""), master.address, "in use", "listen")
    refused(millpond("master", "--listen", "127.0.0.1:0", "--admin-listen", master.admin), master.admin, "in use", "admin_listen")
    refused(millpond("node", "--listen", master.address, "--master", master.address, "--socket-directory", str(cluster.folder)), master.address, "in use")


def test_an_arena_larger_than_memory(tmp_path):
    refused(millpond("node", "--memory", "4TiB", "--socket-directory", str(tmp_path)), "4 TiB", "memory")


def test_no_master_at_the_address(cluster):
    with socket.socket() as reserved:          # bound and not listening: nobody else gets the port
        reserved.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % reserved.getsockname()[1]
        for command in [["get", "k"], ["put", "k", os.devnull + "x"], ["stat"], ["locate", "k"], ["rm", "k"]]:
            if command[0] == "put":
                (cluster.folder / "f").write_bytes(b"x")
                command[2] = str(cluster.folder / "f")
            refused(millpond(*command, "--master", address), address, status=3)
        node = cluster.start_node("--join-retry", "10ms", master=address)
        until(lambda: node.said().count(address) >= 1, "the node says that it finds no master")
        until(lambda: node.page("/healthz")[0] == 200, "the node lives")
    cluster.start_master(listen=address)
    cluster.joined()
    complaints = [line for line in node.said().splitlines() if re.search(r"warn|error", line)]
    assert len(complaints) <= 2, "one line, not a stream:\n" + "\n".join(complaints)
    assert cluster.put("k", b"v").returncode == 0
    assert cluster.get("k").stdout == b"v"


def test_a_wrong_cluster(two_nodes):
    two_nodes.put("k", b"v")
    refused(millpond("get", "k", "--master", two_nodes.master.address, "--cluster-id", "other"), "cluster", "other", status=3)
    refused(millpond("get", "k", "--master", two_nodes.master.address, "--cluster-key", "sesame"), "cluster key", status=3)
    assert two_nodes.get("k").stdout == b"v"


def test_a_cluster_key_lets_in_who_has_it(cluster):
    with_key = {"MILLPOND_CLUSTER_KEY": "open sesame"}
    cluster.start_master(**with_key)
    cluster.start_node(**with_key)
    cluster.joined()
    assert cluster.put("k", b"v", **with_key).returncode == 0
    assert cluster.get("k", **with_key).stdout == b"v"
    refused(millpond("get", "k", "--master", cluster.master.address), "cluster_key", status=3)
    refused(millpond("get", "k", "--master", cluster.master.address, "--cluster-key", "wrong"), status=3)


def test_keys_and_values_that_nobody_can_store(two_nodes):
    two_nodes.put("k", b"v")
    long = "k" * 4097
    for answer in [two_nodes.put("", b"v"), two_nodes.put(long, b"v"), two_nodes.get(""), two_nodes.get(long), two_nodes.put("e", b"")]:
        assert answer.returncode in (1, 2), answer
        assert answer.stderr, answer
    too_large = two_nodes.put("large", bytes(100 << 20))
    assert too_large.returncode in (1, 2), too_large
    assert b"large" in too_large.stderr
    assert two_nodes.put("k" * 4096, b"v").returncode == 0
    assert two_nodes.get("k").stdout == b"v"


def test_a_key_or_value_that_cannot_be_is_told_by_every_command(two_nodes):
    master = two_nodes.master.address
    for command in [["get", ""], ["locate", "k", ""], ["rm", "k", ""], ["put", "", os.devnull]]:
        refused(millpond(*command, "--master", master), "the key is empty")
    refused(millpond("rm", "k" * 4097, "--master", master), "4097")
    (two_nodes.folder / "large").write_bytes(bytes(100 << 20))
    refused(millpond("put", "large", str(two_nodes.folder / "large"), "--master", master), "100 MiB", "64 MiB")
    endless = two_nodes.folder / "endless"
    with endless.open("wb") as file:
        file.truncate(1 << 40)                 # has no bytes on the disk
    refused(millpond("put", "k", str(endless), "--master", master), "endless", "2 GiB")
    assert two_nodes.put("a\nb\udcff", b"v").returncode == 0
    place = json.loads(millpond("locate", "a\nb\udcff", "--json", "--master", master).stdout)
    assert place["key"] == "a\nb\udcff" and place["length"] == 1
    assert "a\\x0ab\\xff  1 B" in millpond("locate", "a\nb\udcff", "--master", master).stdout


def test_a_wrong_environment_is_told(two_nodes):
    master = two_nodes.master.address
    refused(millpond("get", "k", "--master", master, MILLPOND_TRANSPORTS="pigeon"), "pigeon", "local, shm and tcp")
    refused(millpond("get", "k", "--master", master, MILLPOND_NODE_MEMORY="much"), "MILLPOND_NODE_MEMORY", "much")
    assert '"loud"' in millpond("get", "k", "--master", master, MILLPOND_LOG="loud").stderr


def test_wrong_command_lines(tmp_path):
    refused(millpond("put", "k"), "FILE")
    refused(millpond("get"), "KEY")
    refused(millpond("get", "a", "b"), "\"b\"")
    refused(millpond("rm"), "--all")
    refused(millpond("rm", "k", "--all"), "not both")
    refused(millpond("put", "k", "/nonexistent"), "/nonexistent")
    refused(millpond("get", "k", "--transports", "pigeon", "--master", "127.0.0.1:1"), "pigeon")
    refused(millpond("bench", "--blocks", "0"), "1 B")
    refused(millpond("replay"), "trace")
    refused(millpond("replay", str(tmp_path)), str(tmp_path), "is it a file?")
    refused(millpond("master", "surprise"), "surprise")


def test_help_is_there_for_every_command():
    overview = millpond("--help")
    assert overview.returncode == 0
    for command in re.findall(r"^  ([a-z]+) {4,}", overview.stdout, re.M):
        page = millpond(command, "--help")
        assert page.returncode == 0 and "Usage: millpond " + command in page.stdout, page
        assert max(len(line) for line in page.stdout.splitlines()) <= 120
    assert "millpond" in millpond("version").stdout


def hostile():
    yield b""
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"\xff" * 4096
    yield os.urandom(100_000)
    yield b"\x00" * 1_000_000
    yield b"MPND" + b"\xff" * 60


def test_hostile_bytes_at_every_port(two_nodes):
    two_nodes.put("k", b"v" * 100_000)
    for address in [two_nodes.master.address, two_nodes.master.admin, two_nodes.nodes[0].address, two_nodes.nodes[0].admin]:
        host, port = address.split(":")
        for bytes_in in hostile():
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                try:
                    connection.sendall(bytes_in)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass                    # cut off while we were still talking
    for daemon in two_nodes.daemons:
        assert daemon.process.poll() is None, daemon.said()
        assert daemon.page("/healthz")[0] == 200
    assert two_nodes.get("k").stdout == b"v" * 100_000
