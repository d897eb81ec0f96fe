"""A cluster-wide pool of KV-cache blocks: look up the longest cached prefix, load it, store what was computed."""

from ._answers import Found, Loaded, Location, Lookup, Outcome, PoolError
from ._pool import Pool

__all__ = ["Found", "Loaded", "Location", "Lookup", "Outcome", "Pool", "PoolError"]
