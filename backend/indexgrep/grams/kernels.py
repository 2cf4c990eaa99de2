"""The compiled form of ``scan``.

Importing this imports numba (a quarter of a second and 65 MB) and compiles, or takes from numba's cache, so
it is imported only by processes that extract in bulk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from .scan import scan


def compiled(function: Callable[..., Any]) -> Any:
    """``function`` compiled to run without the interpreter lock; cached on disk where that is possible."""
    try:
        return numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # no directory for the cache is writable
        return numba.njit(function, nogil=True)


scan_compiled = compiled(scan)
