"""Goal: what Python stores, Python loads, from any buffer and over every transport; wrong arguments are told in words;
what goes wrong in the world is an outcome. Method: a master and nodes as real processes on loopback."""

import gc
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import millpond
from conftest import until_true
from millpond import Outcome


def some_bytes(count: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(count)


@pytest.fixture
def one(cluster):
    cluster.node("one")
    return cluster


@pytest.mark.parametrize("transports", ["shm", "tcp", "local,shm,tcp"])
def test_what_is_stored_is_loaded(one, transports):
    with one.pool(transports=transports) as pool:
        keys = [f"k{i}" for i in range(20)]
        blocks = [some_bytes(100_000 + i, i) for i in range(20)]
        assert pool.store(keys, blocks, chain=True) == [Outcome.ok] * 20
        assert pool.store(keys, blocks, chain=True) == [Outcome.exists] * 20
        found = pool.lookup([*keys, "nothing"])
        assert (found.matched, found.outcome) == (20, Outcome.ok)
        assert found.lengths == [100_000 + i for i in range(20)]
        assert found.blocks[3].replicas[0].node == "one"
        into = [bytearray(110_000) for _ in keys]
        loaded = pool.load(keys, into, found=found)
        for i, answer in enumerate(loaded):
            assert answer and answer.length == 100_000 + i and answer.owner == "one"
            assert answer.transport == ("tcp" if transports == "tcp" else "shm")
            assert into[i][: answer.length] == blocks[i] and not any(into[i][answer.length :])
        assert pool.get("k7") == blocks[7]
        assert pool.get("nothing") is None
        assert [f.length for f in pool.locate(["k1", "nothing"])] == [100_001, 0]


def test_pieces_of_arrays_are_gathered_and_scattered(one):
    layers = [np.random.default_rng(i).integers(0, 255, (4, 16, 64), dtype=np.uint8) for i in range(32)]
    with one.pool() as pool:
        # Block 2 of a paged cache: a part of each layer.
        assert pool.store("b", [layer[2] for layer in layers]) is Outcome.ok
        target = [np.zeros_like(layer) for layer in layers]
        assert pool.load("b", [layer[1] for layer in target])
        for layer, landed in zip(layers, target):
            assert (landed[1] == layer[2]).all() and not landed[[0, 2, 3]].any()
        halves = np.arange(1000, dtype=np.float16)
        assert pool.put("f16", halves).stored
        landed = np.empty_like(halves)
        assert pool.load("f16", landed) and (landed == halves).all()
        assert pool.load("f16", memoryview(bytearray(2000))[0:2000])
        assert pool.get("f16") == halves.tobytes()


def test_arguments_that_cannot_be(one):
    with one.pool() as pool:
        pool.put("k", b"x" * 100)
        with pytest.raises(TypeError, match="read-only"):
            pool.load("k", b"y" * 100)
        fixed = np.zeros(100, np.uint8)
        fixed.setflags(write=False)
        with pytest.raises(TypeError, match="target 0: numpy.ndarray is read-only"):
            pool.load(["k"], [fixed])
        strided = np.zeros((100, 2), np.uint8)[:, 0]
        with pytest.raises(ValueError, match="not C-contiguous"):
            pool.load("k", strided)
        with pytest.raises(ValueError, match="block 0, piece 1: numpy.ndarray is not C-contiguous"):
            pool.store("n", [b"a", strided])
        with pytest.raises(TypeError, match="int gives no buffer"):
            pool.store("n", 3)
        with pytest.raises(TypeError, match="Python objects"):
            pool.load("k", np.array([None] * 100))
        with pytest.raises(ValueError, match="2 keys but 1 blocks"):
            pool.store(["a", "b"], [b"x"])
        with pytest.raises(ValueError, match="1 keys but 2 into"):
            pool.load(["a"], [bytearray(1), bytearray(1)])
        with pytest.raises(ValueError, match="2 keys but 1 parents"):
            pool.store(["a", "b"], [b"x", b"y"], parent=["p"])
        with pytest.raises(ValueError, match="one parent for 2 keys"):
            pool.store(["a", "b"], [b"x", b"y"], parent="p")
        with pytest.raises(TypeError, match="neither str nor bytes"):
            pool.lookup([1])
        with pytest.raises(TypeError, match="give a list"):
            pool.lookup("k")
        with pytest.raises(ValueError, match="deadline"):
            pool.get("k", deadline=0)
        # Of the values themselves: an outcome each, the others go on.
        assert pool.store(["", "k" * 4097, "empty", "good"], [b"x", b"x", b"", b"x"]) == ["invalid", "invalid", "invalid", "ok"]
        small = pool.load("k", bytearray(99))
        assert (small.outcome, small.length, bool(small)) == (Outcome.invalid, 100, False)
        assert pool.load("k", bytearray(0)).outcome is Outcome.invalid
        assert pool.load("", bytearray(9)).outcome is Outcome.invalid
        assert pool.lookup([""]).outcome is Outcome.invalid
        assert pool.put("larger than the arena", bytearray(100 << 20)).stored is False
        assert pool.get("k") == b"x" * 100
        assert pool.store([], []) == [] and pool.load([], []) == [] and pool.lookup([]).matched == 0


def test_the_same_key_twice_and_other_bytes_under_it(one):
    with one.pool() as pool:
        assert pool.store(["k", "k"], [b"first", b"later"]) == ["ok", "exists"]
        assert pool.put("k", b"again") is Outcome.exists
        a, b = bytearray(5), bytearray(5)
        assert all(pool.load(["k", "k"], [a, b])) and a == b == b"first"


def test_str_and_bytes_keys_are_the_same_bytes(one):
    with one.pool() as pool:
        pool.put("schlüssel", b"x")
        assert pool.get("schlüssel".encode()) == b"x"
        assert pool.put(bytes(range(256)), b"y") is Outcome.ok
        assert pool.get(bytes(range(256))) == b"y"


def test_remove_remove_all_and_namespaces(one):
    with one.pool() as pool, one.pool(namespace="other") as other, one.pool(tenant="other") as foreign:
        assert pool.store(["a", "b", "c"], [b"1", b"2", b"3"]) == ["ok"] * 3
        assert other.get("a") is None and foreign.get("a") is None
        other.put("a", b"other")
        assert pool.remove(["a", "never"]) == 1
        assert pool.get("a") is None and pool.get("b") == b"2"
        assert "removed" in pool.explain("a")
        assert pool.remove_all() is Outcome.ok
        assert pool.get("b") is None and other.get("a") == b"other"
        assert pool.put("b", b"new") is Outcome.ok and pool.get("b") == b"new"


def test_a_node_in_this_process_serves_itself_and_others(cluster):
    with cluster.pool(memory=32 << 20) as mine, cluster.pool() as other:
        data = some_bytes(300_000, 1)
        assert mine.put("k", data) is Outcome.ok
        assert other.get("k") == data
        into = bytearray(300_000)
        assert mine.load("k", into).transport == "local" and into == data
        assert other.put("from outside", data).stored and mine.get("from outside") == data
        assert mine.stat()["nodes"]
    with cluster.pool() as other:
        assert other.get("k") is None  # its memory went with the process's pool


def test_full_goes_on(one):
    with one.pool() as pool:
        block = some_bytes(1 << 20, 1)
        for i in range(200):  # three times the arena
            assert pool.put(f"k{i}", block) is Outcome.ok
        assert pool.get("k199") == block
        assert pool.get("k0") is None


def test_a_killed_node_is_a_miss_within_the_deadline(one):
    node = one.node("two")
    with one.pool() as pool:
        keys = [f"k{i}" for i in range(40)]
        for key in keys:
            pool.put(key, b"v" * 1000)
        where = {key: f.replicas[0].node for key, f in zip(keys, pool.locate(keys))}
        lost = [key for key in keys if where[key] == "two"]
        assert lost and len(lost) < len(keys)
        node.kill()
        begun = time.monotonic()
        answers = pool.load(keys, [bytearray(1000) for _ in keys], deadline=2)
        assert time.monotonic() - begun < 4
        for key, answer in zip(keys, answers):
            assert bool(answer) == (key not in lost)
        assert pool.put("after", b"x").stored


def test_a_dead_master_is_a_miss_within_the_deadline(one):
    with one.pool() as pool:
        pool.put("k", b"v")
        one.daemons[0].kill()
        begun = time.monotonic()
        assert pool.lookup(["k"], deadline=0.5).matched == 0
        assert pool.get("k", deadline=0.5) is None
        assert pool.remove("k", deadline=0.5) == 0
        assert "error" in pool.stat(deadline=0.5)
        assert pool.remove_all(deadline=0.5) is not Outcome.ok
        assert time.monotonic() - begun < 6


def test_no_master_says_so():
    with pytest.raises(millpond.PoolError, match="127.0.0.1:1 .*millpond master") as caught:
        millpond.Pool(master="127.0.0.1:1", open_deadline=0.2)
    assert caught.value.outcome is Outcome.unavailable
    with pytest.raises(millpond.PoolError, match="rdma") as caught:
        millpond.Pool(transports="rdma")
    assert caught.value.outcome is Outcome.invalid


def test_the_wrong_cluster_is_refused(one):
    with pytest.raises(millpond.PoolError, match="cluster") as caught:
        one.pool(cluster_id="another")
    assert caught.value.outcome is Outcome.refused


def test_closed_is_closed(one):
    pool = one.pool()
    assert not pool.closed
    pool.close()
    pool.close()
    assert pool.closed and "closed" in repr(pool)
    with pytest.raises(ValueError, match="closed"):
        pool.get("k")


def test_threads_share_a_pool_and_the_gil_is_free(one):
    with one.pool() as pool:
        wrong = []

        def work(thread: int):
            for i in range(50):
                data = some_bytes(50_000 + i, thread * 1000 + i)
                key = f"{thread}/{i}"
                if not pool.put(key, data).stored or pool.get(key) != data:
                    wrong.append(key)

        threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong


def test_closing_while_others_call(one):
    pool = one.pool(memory=16 << 20)
    ended = []

    def work():
        try:
            while True:
                pool.put("k", b"x" * 1000)
                pool.get("k")
        except ValueError as e:
            ended.append(str(e))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    until_true(lambda: pool.closed or pool.get("k") is not None)
    pool.close()
    for t in threads:
        t.join()
    assert ended == ["this pool is closed"] * 3


def test_a_child_after_fork_ends_and_leaves_the_pool_to_its_parent(one):
    script = '''
import os, sys, millpond
pool = millpond.Pool(sys.argv[1], memory=16 << 20)
pool.put("k", b"x")
child = os.fork()
if child == 0:
    try:
        pool.get("k")
    except ValueError as e:
        assert "fork" in str(e), e
        pool.close()
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
child = os.fork()
if child == 0:
    sys.exit(7)  # not closed: ends with the interpreter
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert pool.get("k") == b"x"
'''
    ended = subprocess.run([sys.executable, "-c", script, one.master], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_buffers_are_let_go(one):
    with one.pool() as pool:
        data = bytearray(b"x" * 100)
        pool.put("k", data)
        pool.load("k", data)
        with pytest.raises(TypeError):
            pool.store(["a", "b"], [data, 7])
        data.extend(b"more")  # BufferError while exported
        gc.collect()


def test_importing_starts_nothing():
    script = "import os, millpond; print(len(os.listdir('/proc/self/task')))"
    count = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert count.stdout.strip() == "1"


def test_a_pool_has_at_most_four_threads(cluster):
    count = len(os.listdir("/proc/self/task"))
    with cluster.pool(memory=16 << 20) as pool:
        pool.put("k", b"x")
        assert len(os.listdir("/proc/self/task")) - count <= 4
