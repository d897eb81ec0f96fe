"""The pool. Shapes and defaults are settled here; the work is in ``_native``, without the GIL."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Union, overload

from . import _native
from ._answers import Found, Loaded, Lookup, Outcome, found_of, loaded_of, outcome_of

Key = Union[str, bytes]
#: bytes, bytearray, memoryview, a numpy array, or anything else with a C-contiguous buffer
Buffer = Any
#: one buffer, or a list of them: the block is their concatenation
Block = Union[Buffer, Sequence[Buffer]]


class Pool:
    """A connection to a Millpond cluster. Safe from any thread; every call ends by its deadline.

    What goes wrong in the world is an :class:`Outcome`, never an exception: a pool that is slow, full or dead looks like a
    miss. Wrong arguments raise ``TypeError`` or ``ValueError``; calls on a closed pool raise ``ValueError``.

    Keys are ``str`` or ``bytes`` of 1 to 4096 bytes (``str`` as UTF-8). Blocks are 1 byte to 2 GiB. Deadlines are in
    seconds; ``None`` means 0.1 for lookups, 1 + bytes / 200 MB/s for loads and stores, 1 for the rest. Not to be
    used in a child after ``os.fork()``: open one there.

    Args:
        master: ``host:port`` of the master.
        namespace: which blocks fit together: a fingerprint of model, dtype, layout and block size.
        memory: bytes of DRAM that this process gives to the pool; 0 for none. They go with the process.
        transports: comma-separated, of ``local,shm,tcp``; ``None``: the environment's MILLPOND_TRANSPORTS, else all.
        tenant: whose blocks; tenants never see each other's.
        cluster_id: must be the cluster's own.
        cluster_key: shared secret; ``None``: the environment's MILLPOND_CLUSTER_KEY, else none.
        listen: ``host:port`` for the node in this process, with ``memory``.
        open_deadline: seconds to wait for the master.

    Raises:
        PoolError: no master at that address by the deadline, or it refused; says which and what to do.
    """

    def __init__(self, master: str = "127.0.0.1:7700", namespace: str = "default", memory: int = 0,
                 transports: Optional[str] = None, *, tenant: str = "default", cluster_id: str = "default",
                 cluster_key: Optional[str] = None, listen: str = "127.0.0.1:0", open_deadline: float = 5.0) -> None:
        if memory < 0:
            raise ValueError(f"memory is {memory}; give the number of bytes, 0 for none")
        self._native = _native.Pool(master, tenant, namespace, transports or "", cluster_id, cluster_key or "", memory,
                                    listen, max(1, _ms(open_deadline)))

    def lookup(self, keys: Sequence[Key], *, deadline: Optional[float] = None) -> Lookup:
        """How many leading ``keys`` (the blocks of a prompt, in order) are cached, and where. Takes no bytes, pins nothing."""
        return Lookup(self._native.lookup(_list(keys, "keys"), _ms(deadline)))

    def locate(self, keys: Sequence[Key], *, deadline: Optional[float] = None) -> List[Found]:
        """Where each of ``keys`` is, one :class:`Found` per key; length 0 where nobody has it or nobody answers."""
        return [found_of(block) for block in self._native.locate(_list(keys, "keys"), _ms(deadline))]

    @overload
    def load(self, keys: Key, into: Block, *, found: Optional[Lookup] = None, deadline: Optional[float] = None) -> Loaded: ...
    @overload
    def load(self, keys: Sequence[Key], into: Sequence[Block], *, found: Optional[Lookup] = None,
             deadline: Optional[float] = None) -> List[Loaded]: ...
    def load(self, keys, into, *, found=None, deadline=None):
        """Scatters blocks into memory of yours, each verified where it landed.

        Args:
            keys: one key, or a list of them.
            into: for one key a block, for a list as many blocks: writable C-contiguous buffers, or lists of them, at least
                as long as the block together; what is beyond its length stays as it is. They must not be used elsewhere
                until the call returns. Where the outcome is not ``ok`` their content is undefined.
            found: the lookup that named these keys: saves the call a look-up.

        Returns:
            One :class:`Loaded`, or a list of them in the order of ``keys``.

        Raises:
            TypeError: a target is read-only or has no buffer. ValueError: not C-contiguous, or lists of different length.
        """
        single, keys, into = _pair(keys, into, "into")
        answers = self._native.load(keys, into, found._native if found is not None else None, _ms(deadline))
        loaded = [loaded_of(answer) for answer in answers]
        return loaded[0] if single else loaded

    @overload
    def store(self, keys: Key, blocks: Block, *, parent: Optional[Key] = None, chain: bool = False,
              deadline: Optional[float] = None) -> Outcome: ...
    @overload
    def store(self, keys: Sequence[Key], blocks: Sequence[Block], *,
              parent: Union[None, Key, Sequence[Optional[Key]]] = None, chain: bool = False,
              deadline: Optional[float] = None) -> List[Outcome]: ...
    def store(self, keys, blocks, *, parent=None, chain=False, deadline=None):
        """Stores blocks, gathered from memory of yours without a copy in between.

        Args:
            keys: one key, or a list of them.
            blocks: for one key a block, for a list as many blocks: C-contiguous buffers, or lists of them. Their content
                must not change until the call returns.
            parent: key of the block before it in the prompt, so that the end of a prompt leaves memory before its start.
                For a list of keys: a list of parents, or with ``chain`` the parent of the first.
            chain: ``keys`` are in prompt order: each is the parent of the next.

        Returns:
            One :class:`Outcome`, or a list of them. ``ok`` and ``exists`` (``outcome.stored``): the block is in the pool,
            and visible to every engine.

        Raises:
            TypeError: a block has no buffer. ValueError: not C-contiguous, or lists of different length.
        """
        single, keys, blocks = _pair(keys, blocks, "blocks")
        outcomes = [outcome_of(code) for code in self._native.store(keys, blocks, _parents(keys, parent, chain), _ms(deadline))]
        return outcomes[0] if single else outcomes

    def get(self, key: Key, *, deadline: Optional[float] = None) -> Optional[bytes]:
        """The block as new ``bytes``; ``None`` when it cannot be had by the deadline (twice: to look, to load)."""
        return self._native.get(key, _ms(deadline))

    def put(self, key: Key, value: Block, *, parent: Optional[Key] = None, deadline: Optional[float] = None) -> Outcome:
        """Stores one block."""
        return self.store(key, value, parent=parent, deadline=deadline)

    def remove(self, keys: Union[Key, Sequence[Key]], *, deadline: Optional[float] = None) -> int:
        """Removes blocks everywhere. Returns how many of ``keys`` were there; 0 also if the master did not answer."""
        return self._native.remove([keys] if isinstance(keys, (str, bytes)) else _list(keys, "keys"), _ms(deadline))

    def remove_all(self, *, deadline: Optional[float] = None) -> Outcome:
        """Removes everything of this tenant and namespace."""
        return outcome_of(self._native.remove_all(_ms(deadline)))

    def explain(self, key: Key, *, deadline: Optional[float] = None) -> str:
        """Why ``key`` misses, in words."""
        return self._native.explain(key, _ms(deadline))

    def stat(self, *, deadline: Optional[float] = None) -> Dict[str, Any]:
        """The master's state: nodes, blocks, removals. ``{"error": …}`` when it does not answer."""
        return json.loads(self._native.stat_json(_ms(deadline)))

    def close(self) -> None:
        """Ends the connection and gives back ``memory`` with the blocks in it. Calls in flight in other threads end first."""
        self._native.close()

    @property
    def closed(self) -> bool:
        return self._native.closed

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<millpond.Pool{' closed' if self.closed else ''}>"


def _ms(deadline: Optional[float]) -> int:
    if deadline is None:
        return 0
    if not deadline > 0:
        raise ValueError(f"deadline is {deadline}; give seconds above 0, or None for the default")
    return max(1, round(min(deadline, 86400.0) * 1000))


def _list(values: Sequence[Any], what: str) -> List[Any]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what}: give a list, not one {type(values).__name__}")
    return values if type(values) is list else list(values)


def _pair(keys: Any, blocks: Any, what: str):
    if isinstance(keys, (str, bytes)):
        return True, [keys], [blocks]
    keys = _list(keys, "keys")
    if isinstance(blocks, (bytearray, memoryview)):
        raise TypeError(f"{what}: give a list of blocks, one per key, not one {type(blocks).__name__}")
    blocks = _list(blocks, what)
    if len(keys) != len(blocks):
        raise ValueError(f"{len(keys)} keys but {len(blocks)} {what}; give one per key")
    return False, keys, blocks


def _parents(keys: List[Key], parent: Any, chain: bool) -> List[Optional[Key]]:
    one = parent is None or isinstance(parent, (str, bytes))
    if chain:
        if not one:
            raise TypeError("with chain, parent is the key of the block before the first, not a list")
        return [parent, *keys[:-1]] if keys else []
    if one:
        if parent is not None and len(keys) != 1:
            raise ValueError(f"one parent for {len(keys)} keys; give a list of parents, or chain=True if keys are in prompt order")
        return [parent] * len(keys)
    parents = list(parent)
    if len(parents) != len(keys):
        raise ValueError(f"{len(keys)} keys but {len(parents)} parents; give one per key")
    return parents
