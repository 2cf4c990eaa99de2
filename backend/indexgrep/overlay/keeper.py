"""The thread that keeps an overlay in order while its server runs.

It takes file events out of the kernel's queue as they come, so that a switch of branches does not overflow
it and the next query has little left to do, and runs a step of maintenance whenever the tree rests. Without
a watch it only acts on what queries have found, and never sweeps by itself.
"""

from __future__ import annotations

import logging
import threading
import time

from ..errors import Cancelled, IndexGrepError, IndexLocked
from .overlay import Overlay

log = logging.getLogger("indexgrep.overlay")

#: Seconds until maintenance is tried again while another process builds, and after it failed.
_LOCKED_S = 1.0
_FAILED_S = 30.0
#: The shortest sleep and the longest, in seconds, unless something happens.
_LEAST_S, _SLEEP_S = 0.5, 600.0
#: How often the indexes in use are marked as such, in seconds: those that are not used are removed first.
_TOUCH_S = 3600.0


class Keeper:
    """See the module. ``close`` ends the thread, and the step of maintenance it is in."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._cancel = threading.Event()
        self._touched = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._cancel.set()
        self._overlay.monitor.wake()
        self._thread.join()

    def _run(self) -> None:
        sleep = 0.0
        while not self._cancel.is_set():
            try:
                sleep = self._keep(sleep)
            except Cancelled:
                return
            except IndexLocked:
                sleep = _LOCKED_S
            except IndexGrepError as error:
                if not self._cancel.is_set():
                    log.warning("maintenance failed: %s", error.message)
                sleep = _FAILED_S
            except Exception:
                if self._cancel.is_set():
                    return  # the session was closed meanwhile
                log.exception("maintenance failed")
                sleep = _FAILED_S

    def _keep(self, sleep: float) -> float:
        """Wait for something to do and do it; the longest time to wait for the next, in seconds."""
        monitor = self._overlay.monitor
        if monitor.wait(sleep):
            self._let_rest()
        if self._cancel.is_set():
            return 0.0
        if monitor.watching:
            self._overlay.refreshed()
        if self._overlay.maintain(self._cancel):
            # While git still writes, the next step would be for the few files since this one began.
            return self._overlay.policy.quiet_s
        if time.monotonic() > self._touched + _TOUCH_S:
            self._touched = time.monotonic()
            self._overlay.touch()
        return min(max(self._overlay.again_in, _LEAST_S), _SLEEP_S)

    def _let_rest(self) -> None:
        """Take events out of the queue until none has come for a while, or that takes too long."""
        policy = self._overlay.policy
        deadline = time.monotonic() + policy.unrest_s
        while not self._cancel.is_set() and time.monotonic() < deadline:
            self._overlay.monitor.drain()
            if not self._overlay.monitor.wait(policy.quiet_s):
                return
