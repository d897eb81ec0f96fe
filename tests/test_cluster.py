"""Goal: three processes are a pool, and losing one of them costs no more than its blocks.
Method: real daemons and the command line, over loopback; values are checked byte for byte."""
import json
import os
import signal
import time

import pytest

from cluster import DEADLINE, until


def value_of(key, size=200_000):
    return (key.encode() * (size // len(key) + 1))[:size]


@pytest.mark.parametrize("transports", ["shm", "tcp", "local,shm,tcp"])
def test_what_one_process_puts_another_gets(two_nodes, transports):
    keys = [f"{transports}-{n}" for n in range(6)]
    for key in keys:
        stored = two_nodes.put(key, value_of(key), "--transports", transports)
        assert stored.returncode == 0, stored.stderr
    for key in keys:
        got = two_nodes.get(key, "--transports", transports)
        assert got.returncode == 0, got.stderr
        assert got.stdout == value_of(key)


def test_pages_of_another_size(cluster):
    # A reader on the same host places bytes by the owner's page size, which it cannot tell from a list of pages.
    cluster.start_master()
    cluster.start_node("--page-size", "256KiB")
    cluster.joined()
    for size in [1000, 65_536, 200_000, 262_145, 3_000_001]:
        value = os.urandom(size)
        assert cluster.put(f"size {size}", value, "--transports", "shm").returncode == 0
    for size in [1000, 65_536, 200_000, 262_145, 3_000_001]:
        by_shm, by_tcp = (cluster.get(f"size {size}", "--transports", way) for way in ("shm", "tcp"))
        assert by_shm.returncode == 0 and len(by_shm.stdout) == size, by_shm.stderr
        assert by_shm.stdout == by_tcp.stdout


def test_a_block_above_a_writers_share_of_the_arena(two_nodes):
    # Over shared memory a writer may hold a quarter of the arena; what is larger goes by tcp.
    value = os.urandom(20 << 20)
    stored = two_nodes.put("large", value)
    assert stored.returncode == 0, stored.stderr
    assert two_nodes.get("large").stdout == value


def test_values_of_every_shape(two_nodes):
    for size in [1, 4095, 65_536, 65_537, 3_000_001]:
        value = os.urandom(size)
        key = f"size {size} ü"
        assert two_nodes.put(key, value).returncode == 0
        assert two_nodes.get(key).stdout == value
        target = two_nodes.folder / "target"
        assert two_nodes.get(key, "-o", str(target)).returncode == 0
        assert target.read_bytes() == value


def test_the_first_bytes_stay(two_nodes):
    assert two_nodes.put("k", b"first").returncode == 0
    again = two_nodes.put("k", b"second")
    assert again.returncode == 0
    assert two_nodes.get("k").stdout == b"first"


def test_removed_is_gone(two_nodes):
    for key in ["a", "b", "c"]:
        two_nodes.put(key, value_of(key))
    removed = two_nodes.run("rm", "a", "never-stored")
    assert (removed.returncode, removed.stdout) == (0, b"removed 1 of 2\n")
    assert two_nodes.get("a").returncode == 1
    assert two_nodes.get("b").stdout == value_of("b")
    assert two_nodes.run("rm", "--all").returncode == 0
    assert two_nodes.get("b").returncode == 1
    assert two_nodes.put("b", b"anew").returncode == 0
    assert two_nodes.get("b").stdout == b"anew"


def test_a_miss_is_explained(two_nodes):
    miss = two_nodes.get("never-stored")
    assert miss.returncode == 1
    assert miss.stdout == b""
    assert b"never-stored: miss: " in miss.stderr
    located = two_nodes.run("locate", "--json", "never-stored")
    assert located.returncode == 1
    assert json.loads(located.stdout)["why"]


def test_blocks_of_a_killed_node_are_misses_by_the_deadline(two_nodes):
    keys = [f"k{n}" for n in range(24)]
    for key in keys:
        assert two_nodes.put(key, value_of(key, 50_000)).returncode == 0
    owners = {key: two_nodes.owner(key) for key in keys}
    lost = owners[keys[0]]
    next(node for node in two_nodes.nodes if node.name == lost).kill()
    for key in keys:
        begun = time.monotonic()
        got = two_nodes.get(key)
        assert time.monotonic() - begun < 5, "a load ends by its deadline of about a second"
        if owners[key] == lost:
            assert got.returncode == 1, got
            assert got.stdout == b""
        else:
            assert got.stdout == value_of(key, 50_000)


def test_a_new_master_learns_everything_from_the_nodes(two_nodes):
    keys = [f"k{n}" for n in range(8)]
    for key in keys:
        assert two_nodes.put(key, value_of(key)).returncode == 0
    two_nodes.run("rm", keys[0])
    address = two_nodes.master.address
    two_nodes.master.kill()
    two_nodes.start_master(listen=address)
    two_nodes.joined()
    for key in keys[1:]:
        until(lambda key=key: two_nodes.get(key).stdout == value_of(key), f"{key} is found by the new master")
    assert two_nodes.get(keys[0]).returncode == 1


def test_stat_counts_nodes_and_blocks(two_nodes):
    for n in range(5):
        two_nodes.put(f"k{n}", value_of("v"))
    table = two_nodes.run("stat")
    assert table.returncode == 0
    assert b"node-0" in table.stdout and b"node-1" in table.stdout
    state = json.loads(two_nodes.run("stat", "--json").stdout)
    assert {node["name"] for node in state["nodes"]} == {"node-0", "node-1"}


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_daemons_end_cleanly_when_asked(two_nodes, by):
    for daemon in [*two_nodes.nodes, two_nodes.master]:
        begun = time.monotonic()
        assert daemon.end(by) == 0, daemon.said()
        assert time.monotonic() - begun < 5   # it takes a tenth of a second; a loaded machine takes longer
    assert not list(two_nodes.folder.glob("*.sock")), "the Unix socket went with its node"


def test_more_is_stored_than_fits(cluster):
    """The oldest leave; what is found is right."""
    cluster.start_master()
    cluster.start_node(memory="16MiB")
    cluster.joined()
    keys = [f"k{n}" for n in range(40)]
    for key in keys:
        assert cluster.put(key, value_of(key, 1 << 20)).returncode == 0
    got = {key: cluster.get(key) for key in keys}
    assert got[keys[-1]].stdout == value_of(keys[-1], 1 << 20)
    assert got[keys[0]].returncode == 1
    for key, answer in got.items():
        assert answer.returncode == 1 or answer.stdout == value_of(key, 1 << 20)


def test_bench_measures_beside_memcpy_and_a_socket(two_nodes):
    bench = two_nodes.run("bench", "--json", "--time", "20ms", "--working-set", "4MiB", "--blocks", "64KiB", "--concurrency", "2", timeout=60)
    assert bench.returncode == 0, bench.stderr
    rows = json.loads(bench.stdout)["rows"]
    assert [row["what"] for row in rows] == ["memcpy", "socket", "shm", "tcp"]
    assert all(row["load_GBps"] > 0 and row["failed"] == 0 for row in rows), rows
