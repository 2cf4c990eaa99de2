"""Giving memory back to the system after large answers.

The C library keeps what was freed for later use, so that one very large answer would be seen in the server's
resident size for the rest of its life. glibc can be asked to return it; elsewhere there is nothing to ask.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import cast


@cache
def _trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return None
    trim.argtypes = [ctypes.c_size_t]
    return cast("Callable[[int], int]", trim)


def give_back() -> None:
    """Return freed memory to the system. Some milliseconds, during which Python's lock is not held."""
    trim = _trim()
    if trim is not None:
        trim(0)
