"""Real servers that start in a moment: forks of this process, which has everything imported."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from indexgrep.overlay.policy import Policy
from indexgrep.runtime import socket_path
from indexgrep.search import session
from indexgrep.server import __main__ as main

#: A server that has not come up by then does not come, in seconds.
_PATIENCE_S = 60.0


class ForkedServer:
    """A server process for ``root``, with the thresholds ``policy``: a child, which may be killed."""

    def __init__(self, root: Path, policy: Policy, before: Callable[[], None] = lambda: None) -> None:
        """``before`` is called in the server's process before it serves."""
        self.root = root
        self._ended = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what threads there are hold nothing of ours
            self.pid = os.fork()
        if not self.pid:
            status = 70
            try:
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 1)
                before()
                with mock.patch.object(session, "Policy", return_value=policy):
                    status = main.main([str(root)])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def wait_until_up(self) -> None:
        """Wait until it listens, or has ended."""
        path = socket_path(self.root)
        deadline = time.monotonic() + _PATIENCE_S
        while not main.lifecycle.answers(path) and not self.ended():
            assert time.monotonic() < deadline, "the server does not come up"
            time.sleep(0.005)

    def ended(self) -> bool:
        if not self._ended:
            self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return self._ended

    def kill(self) -> None:
        """Kill it (SIGKILL), if it has not ended by itself."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._ended = True


@contextlib.contextmanager
def forked_server(
    root: Path, policy: Policy, before: Callable[[], None] = lambda: None
) -> Iterator[ForkedServer]:
    """A server that listens, killed in the end."""
    server = ForkedServer(root, policy, before)
    try:
        server.wait_until_up()
        yield server
    finally:
        server.kill()


def processes_with(variable: str, value: str) -> list[int]:
    """The processes whose environment has ``variable`` set to ``value`` (Linux)."""
    found = []
    wanted = f"{variable}={value}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
    return found
