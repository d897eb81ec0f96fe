"""What calls answer."""

from __future__ import annotations

import enum
from typing import List, NamedTuple, Optional

from . import _native


class Outcome(str, enum.Enum):
    """What a call answered for one key. Equal to its name: ``outcome == "ok"``.

    Only ``ok`` and ``exists`` mean that a block is in the pool; everything else, to an engine, is a miss.
    """

    ok = "ok"
    miss = "miss"                #: nobody has it
    invalid = "invalid"          #: the request is wrong: empty or too long key, no bytes, target smaller than the block
    no_space = "no_space"        #: nothing can leave in time: go on without storing
    timed_out = "timed_out"      #: the deadline passed
    unavailable = "unavailable"  #: who has it cannot be reached
    corrupt = "corrupt"          #: did not verify, twice; the target holds garbage
    stale = "stale"              #: the namespace was emptied meanwhile
    refused = "refused"          #: wrong cluster id, key or protocol: an operator must act
    overloaded = "overloaded"    #: a bounded queue is full: back off
    exists = "exists"            #: stored before; the first bytes stay
    internal = "internal"        #: a bug on the other side

    @property
    def stored(self) -> bool:
        """True for ``ok`` and ``exists``: the block is in the pool."""
        return self in (Outcome.ok, Outcome.exists)

    def __str__(self) -> str:
        return self.value


_by_code: List[Outcome] = [Outcome(_native.outcome_name(code)) for code in range(len(Outcome))]


class PoolError(RuntimeError):
    """A pool could not be opened; the message says why and what to do. ``outcome``: unavailable, refused or invalid."""

    def __init__(self, message: str, outcome: str = "internal") -> None:
        super().__init__(message)
        self.outcome = Outcome(outcome)


class Location(NamedTuple):
    """One replica of a block."""

    node: str     #: name of the node
    address: str  #: host:port
    tier: str     #: "dram"


class Found(NamedTuple):
    """Where one block is."""

    length: int               #: bytes; 0: nowhere
    replicas: List[Location]


class Loaded(NamedTuple):
    """What a load brought for one key. True if it brought the block."""

    outcome: Outcome
    length: int     #: bytes landed and verified; with ``invalid``: what the block needs, if known
    owner: str      #: name of the node that had it
    transport: str  #: "local", "shm" or "tcp"

    def __bool__(self) -> bool:
        return self.outcome is Outcome.ok


class Lookup:
    """What a lookup found. Give it to :meth:`Pool.load` as ``found``. It pins nothing: a load may still miss."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Lookup) -> None:
        self._native = native

    @property
    def matched(self) -> int:
        """How many leading keys are cached."""
        return self._native.matched

    @property
    def warming(self) -> bool:
        """The master is still learning what nodes hold: a miss may be premature."""
        return self._native.warming

    @property
    def outcome(self) -> Outcome:
        """Not ``ok``: the pool could not answer, and ``matched`` is 0."""
        return _by_code[self._native.outcome]

    @property
    def lengths(self) -> List[int]:
        """Bytes of each of the ``matched`` blocks."""
        return self._native.lengths

    @property
    def blocks(self) -> List[Found]:
        """Where each of the ``matched`` blocks is."""
        return [found_of(block) for block in self._native.blocks]

    def __repr__(self) -> str:
        return f"Lookup(matched={self.matched}, outcome={self.outcome}, warming={self.warming})"


def found_of(block: _native.FoundTuple) -> Found:
    return Found(block[0], [Location(*place) for place in block[1]])


def outcome_of(code: int) -> Outcome:
    return _by_code[code]


def loaded_of(answer: tuple) -> Loaded:
    return Loaded(_by_code[answer[0]], *answer[1:])
