"""Finding, starting and stopping the server of a worktree, from another process.

There is at most one server for a root, because a server holds an exclusive record lock (``fcntl.lockf``) on
``<key>.lock`` beside its socket for as long as it lives. The kernel drops the lock with the process, however
that ends, and does not pass it on to worker processes. So whoever gets the lock may remove a socket that lies
there: nobody answers on it. Starters that come second wait for the first one's socket.

A starter runs ``python -m indexgrep.server --daemon ROOT`` and reads reports from its standard output, one
JSON map a line: ``{"event": "listening"}`` once the socket answers, then ``{"event": "open"}`` once the
session is open; ``{"event": "running"}`` when another server answers already;
``{"event": "failed", "error": {…}}``.

Imports are light: the command line pays for them at each start.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from .. import __version__, runtime
from ..errors import IndexGrepError, RootError, ServerError
from . import protocol

#: How long to wait for a server to start or to stop, in seconds.
START_TIMEOUT_S = 10.0
#: How often to look whether something has happened, in seconds.
_POLL_S = 0.01


def worktree(path: str | os.PathLike[str]) -> str:
    """The root whose server serves ``path`` (a directory, or a file in one).

    The nearest directory upwards that has a ``.git``, else the directory itself; absolute and free of
    symbolic links. What ``indexgrep.tree.find_root`` finds, without its imports. Raises ``RootError`` where
    there is nothing at ``path``.
    """
    try:
        real = os.path.realpath(os.fsdecode(path))
    except FileNotFoundError:  # a relative path
        raise RootError("the current directory is gone", "Change to another one.") from None
    if os.path.isfile(real):
        real = os.path.dirname(real)
    if not os.path.isdir(real):
        if os.path.lexists(real):
            raise RootError(
                f"cannot search {real}: it is neither a file nor a directory",
                "Give a directory, or a file in one.",
            )
        raise RootError(
            f"cannot search {real}: No such file or directory",
            "Check the spelling, or give a path that exists.",
        )
    directory = real
    while True:
        if os.path.lexists(os.path.join(directory, ".git")):
            return directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return real
        directory = parent


def lock_path(root: str) -> Path:
    """The lock file of the server for ``root``; it holds the server's process id."""
    return runtime.socket_path(root).with_suffix(".lock")


def ensure_server(
    root: str | os.PathLike[str],
    timeout: float = START_TIMEOUT_S,
    *,
    wait_open: bool = False,
    force_root: bool = False,
) -> Path:
    """The socket of a server for ``root`` that answers, started if there was none.

    A server of another version is stopped and replaced. With ``wait_open`` a server that had to be started
    must also have opened the index; otherwise such a fault is the answer to the first request. ``force_root``
    lets a server start for a root that is refused otherwise. Raises ``RootError`` or ``ServerError``.
    """
    root = worktree(root)
    path = runtime.socket_path(root)
    deadline = time.monotonic() + timeout
    while True:
        about = _hello(path, deadline)
        if about is not None and about.get("version") == __version__:
            return path
        if about is not None:
            stop_server(root, timeout=max(deadline - time.monotonic(), 1.0))
        report = _spawn(root, deadline, wait_open, force_root)
        if report.get("event") in ("listening", "open"):
            return path
        if report.get("event") != "running":
            raise protocol.error_from_wire(report.get("error"))
        if time.monotonic() > deadline:
            raise _silent(root)


def stop_server(root: str | os.PathLike[str], timeout: float = START_TIMEOUT_S) -> bool:
    """Stop the server for ``root``; ``False`` when there was none. Returns once its socket is gone.

    One that does not obey is killed. Raises ``ServerError`` where even that does not help.
    """
    root = worktree(root)
    path = runtime.socket_path(root)
    deadline = time.monotonic() + timeout
    try:
        connection = _connect(path, deadline)
    except OSError:
        return False
    with connection, contextlib.suppress(OSError, ServerError):
        connection.sendall(protocol.request(0, "shutdown", []))
        connection.settimeout(max(min(deadline - time.monotonic(), timeout / 2), 0.1))
        while connection.recv(65536):
            pass
        return True
    pid = _lock_holder(root)
    if pid is None:
        raise _silent(root)
    for kill in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kill)
        give_up = time.monotonic() + 1.0
        while time.monotonic() < give_up:
            try:
                _connect(path, give_up).close()
            except (FileNotFoundError, ConnectionError):
                return True
            except OSError:
                pass  # too many wait for it already: it is there
            time.sleep(_POLL_S)
    raise _silent(root)


def server_status(root: str | os.PathLike[str], timeout: float = START_TIMEOUT_S) -> dict[str, Any] | None:
    """What the server for ``root`` says of itself (``status`` in ``doc/protocol.md``); ``None`` without one.

    Raises ``ServerError`` when there is one that does not answer in time.
    """
    root = worktree(root)
    status: dict[str, Any] | None = _ask(runtime.socket_path(root), time.monotonic() + timeout, "status", [])
    return status


def take_lock(root: str) -> int | None:
    """For the server itself: the descriptor that holds the lock of ``root``, or ``None`` if another has it.

    Nothing else in the server's process may open the lock file: closing it would drop the lock.
    """
    import fcntl

    descriptor = os.open(lock_path(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())
    return descriptor


def absolute_directories() -> dict[str, str]:
    """The variables that name indexgrep's directories, as a server needs them, which works in ``/``."""
    names = ("INDEXGREP_CACHE_DIR", "INDEXGREP_RUNTIME_DIR", "INDEXGREP_LOG")
    return {name: os.path.abspath(os.environ[name]) for name in names if os.environ.get(name)}


def answers(path: Path, timeout: float = 1.0) -> bool:
    """Whether a server answers on the socket at ``path``."""
    try:
        return _ask(path, time.monotonic() + timeout, "ping", []) is not None
    except ServerError:
        return False


def _silent(root: str) -> ServerError:
    pid = _lock_holder(root)
    who = "the indexgrep server" if pid is None else f"the indexgrep server (process {pid})"
    return ServerError(f"{who} for {root} does not answer", "Stop it with `indexgrep server stop`.")


def _lock_holder(root: str) -> int | None:
    """The process id in the lock file: that of the running server, or of the last one."""
    try:
        return int(lock_path(root).read_text())
    except (OSError, ValueError):
        return None


def _connect(path: Path, deadline: float) -> socket.socket:
    """A connection to a server. Raises ``OSError`` (which a timeout is, too)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(max(deadline - time.monotonic(), 0.05))
        connection.connect(os.fspath(path))
    except OSError:
        connection.close()
        raise
    return connection


def _hello(path: Path, deadline: float) -> dict[str, Any] | None:
    hello = {"client": "lifecycle"}
    about: Any = _ask(path, min(deadline, time.monotonic() + START_TIMEOUT_S / 2), "hello", [hello])
    return dict(about) if isinstance(about, dict) else None


def _ask(path: Path, deadline: float, method: str, params: list[Any]) -> Any:
    """One request to the server at ``path``; ``None`` when there is none (any more).

    Raises ``ServerError`` when it does not answer, and the error that it answers with.
    """
    try:
        connection = _connect(path, deadline)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise ServerError(f"cannot reach the server at {path}: {error}", "Remove that socket.") from error
    unpacker = protocol.unpacker()
    with connection:
        try:
            connection.sendall(protocol.request(0, method, params))
            while True:
                connection.settimeout(max(deadline - time.monotonic(), 0.05))
                data = connection.recv(65536)
                if not data:
                    return None
                unpacker.feed(data)
                for message in unpacker:
                    if message[0] == protocol.RESPONSE:
                        if message[2] is not None:
                            raise protocol.error_from_wire(message[2])
                        return message[3]
        except TimeoutError as error:
            raise ServerError(
                f"the server at {path} does not answer", "Stop it with `indexgrep server stop`."
            ) from error
        except OSError:
            return None


def _spawn(root: str, deadline: float, wait_open: bool, force_root: bool) -> dict[str, Any]:
    """Start a server process; its last report."""
    import subprocess
    import tempfile

    # -P: no module in a current directory may stand in for one of ours.
    command = [sys.executable, "-P", "-m", "indexgrep.server", "--daemon"]
    if force_root:
        command.append("--force-root")
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                [*command, root],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                cwd="/",
                env=os.environ | absolute_directories(),
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"cannot start the server: {error}", f"Python is {sys.executable}.") from error
        assert process.stdout is not None
        with process.stdout as reports:
            wanted = ("open",) if wait_open else ("listening",)
            report = _last_report(reports.fileno(), deadline, wanted)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)  # the daemon's parent, which has done its work
        if report is None:
            complaints.seek(0)
            text = complaints.read().decode(errors="replace").strip()
            late = time.monotonic() >= deadline
            silent = "it did not answer in time" if late else "it ended before it was ready"
            reason = text.splitlines()[-1] if text else silent
            return failure(ServerError(f"the server did not start: {reason}", f"See {runtime.log_path()}."))
    return report


def _last_report(descriptor: int, deadline: float, wanted: tuple[str, ...]) -> dict[str, Any] | None:
    """Read reports up to one that is wanted or final; ``None`` when there is none in time."""
    import json

    data = b""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
            return None
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return None
        data += chunk
        *lines, data = data.split(b"\n")
        for line in lines:
            report: dict[str, Any] = json.loads(line)
            if report["event"] in (*wanted, "running", "failed"):
                return report


def failure(error: IndexGrepError) -> dict[str, Any]:
    """The report of a server that cannot serve."""
    return {"event": "failed", "error": error.to_wire()}
