"""The server process: ``python -m indexgrep.server [--daemon] [--idle SECONDS] [--force-root] ROOT``.

Without ``--daemon`` it stays in the foreground, for looking at it. Either way it writes reports to standard
output, see ``lifecycle``. Only what it takes to listen is imported before it listens; the engine after that.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import runtime
from ..errors import IndexGrepError, RootError, ServerError, UsageError
from . import lifecycle

if TYPE_CHECKING:
    from .interface import Session

#: How long a server that finds the lock taken waits for its holder to answer or to be gone, in seconds.
_LOCK_S = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one root until there is reason to go. Returns the exit status."""
    parser = argparse.ArgumentParser(
        "python -m indexgrep.server", description="Serve searches of one worktree."
    )
    parser.add_argument("root", metavar="ROOT")
    parser.add_argument("--daemon", action="store_true", help="go into the background once it listens")
    parser.add_argument(
        "--idle", metavar="SECONDS", help="stay so long without clients (INDEXGREP_IDLE_S, 900)"
    )
    parser.add_argument("--force-root", action="store_true", help="accept the home directory and / as root")
    parser.add_argument("--no-build", action="store_true", help="build no index unless asked to")
    options = parser.parse_args(argv)
    reports = _Reports()
    try:
        root = lifecycle.worktree(options.root)
        idle_s = _idle_seconds(options.idle or os.environ.get("INDEXGREP_IDLE_S"))
        if options.daemon:
            _daemonize(reports)
        os.environ.update(lifecycle.absolute_directories())
        os.chdir("/")  # pin no directory
        os.umask(0o077)
        return _serve(root, idle_s, options.force_root, not options.no_build, reports)
    except IndexGrepError as error:
        reports.write(lifecycle.failure(error))
        if not options.daemon:
            print(f"indexgrep: {error}", file=sys.stderr)
        return 2


class _Reports:
    """The starter's end: JSON lines on what was standard output, which a daemon gives up."""

    def __init__(self) -> None:
        self._descriptor: int | None = os.dup(1)

    def write(self, report: dict[str, Any]) -> None:
        """Write a report, if anyone still listens."""
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, json.dumps(report).encode() + b"\n")
            except OSError:
                self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _idle_seconds(text: str | None) -> float:
    from .service import DEFAULT_IDLE_S

    if not text:
        return DEFAULT_IDLE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise UsageError(f"the idle time {text!r} is not a number of seconds", "Correct INDEXGREP_IDLE_S.")
    return seconds


def _daemonize(reports: _Reports) -> None:
    """Leave the starter's session, process group and standard streams. Returns in the daemon only."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():  # not the leader of the session: it can never get a terminal
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def _serve(root: str, idle_s: float, force_root: bool, auto_build: bool, reports: _Reports) -> int:
    path = runtime.socket_path(root)
    deadline = time.monotonic() + _LOCK_S
    while (lock := lifecycle.take_lock(root)) is None:
        if lifecycle.answers(path):
            reports.write({"event": "running"})
            return 0
        if time.monotonic() > deadline:
            raise ServerError(
                f"another server for {root} holds the lock and does not answer",
                "Stop it with `indexgrep server stop`.",
            )
        time.sleep(0.02)

    import asyncio
    import signal
    import socket

    from ..memory import use_one_arena
    from .service import Server

    use_one_arena()
    log = runtime.setup_log("server")
    path.unlink(missing_ok=True)  # the lock is ours, so nobody answers there
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # a socket is born with the execute bits, too
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    listener.listen(128)
    listener.setblocking(False)

    def opened(error: IndexGrepError | None) -> None:
        reports.write({"event": "open"} if error is None else lifecycle.failure(error))
        reports.close()

    def open_session() -> Session:
        from ..search import Session as Engine

        engine = Engine.open(root, force_root=force_root, workers=True, keep=True)
        if engine.root.path != root:
            # Its paths would be relative to another directory than the client takes them to be.
            engine.close()
            raise RootError(
                f"{root} has a .git that is not a repository's; it belongs to {engine.root.path}",
                "Remove that .git, or make it a repository.",
            )
        # A search makes records by the hundred thousand and no cycles: with the engine's own objects set
        # aside and rarer collections, an answer of 60,000 lines takes a fifth less time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        return engine

    async def run() -> None:
        server = Server(
            open_session, root, listener, path, idle_s=idle_s, auto_build=auto_build, opened=opened
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, server.shutdown)
        reports.write({"event": "listening", "socket": str(path), "pid": os.getpid()})
        log.info("serving %s", root)
        await server.serve()

    asyncio.run(run())
    log.info("gone")
    os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
