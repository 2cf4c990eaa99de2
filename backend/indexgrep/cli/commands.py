"""The sub-commands: ``index``, ``status``, ``server`` and ``explain``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..runtime import log_path
from .output import Messages, Output
from .paths import current_directory

if TYPE_CHECKING:
    from .options import Options

_USAGE = {
    "index": "indexgrep index [--force] [--no-server] [--force-root] [PATH]",
    "status": "indexgrep status [--json] [PATH]",
    "server": "indexgrep server start|stop|status|run [--force-root] [PATH]",
    "explain": "indexgrep explain [OPTIONS] PATTERN [PATH…]",
}


def run_command(name: str, arguments: list[str]) -> int:
    """Runs the sub-command ``name``; the exit code. Raises ``IndexGrepError`` where it cannot be done."""
    if any(argument in ("-h", "--help") for argument in arguments):
        _print(f"usage: {_USAGE[name]}")
        return 0
    commands: dict[str, Callable[[list[str]], int]] = {
        "index": _index,
        "status": _status,
        "server": _server,
        "explain": _explain,
    }
    return commands[name](arguments)


def _split(name: str, arguments: Sequence[str], flags: Sequence[str]) -> tuple[set[str], list[str]]:
    """The flags given, all of ``flags``, and the other arguments."""
    given: set[str] = set()
    rest: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            rest.extend(arguments[at + 1 :])
            break
        if not argument.startswith("-") or argument == "-":
            rest.append(argument)
        elif argument in flags:
            given.add(argument)
        else:
            raise UsageError(f"unrecognized flag {argument}", f"Usage: {_USAGE[name]}")
    return given, rest


def _directory(name: str, arguments: Sequence[str]) -> str:
    """The one path of a sub-command, the current directory where none is given."""
    if len(arguments) > 1:
        raise UsageError(f"one path at most, not {len(arguments)}", f"Usage: {_USAGE[name]}")
    return arguments[0] if arguments else current_directory()


def _print(text: str) -> None:
    output = Output()
    output.write(os.fsencode(text + "\n"))
    output.flush()


def _index(arguments: list[str]) -> int:
    from .progress import Progress

    flags, rest = _split("index", arguments, ("--force", "--no-server", "--force-root"))
    path = _directory("index", rest)
    force, force_root = "--force" in flags, "--force-root" in flags
    progress = Progress()
    if "--no-server" in flags:
        from ..search import Session

        session = Session.open(path, force_root=force_root)
        try:
            built = force or session.status()["index"]["state"] != "ready"
            if built:
                session.build(progress.update, None, force)
            status = session.status()
        finally:
            session.close()
    else:
        from ..client import Client

        with Client(path, force_root=force_root) as client:
            built = client.index(progress.update, force=force)
            status = client.status()
    progress.end()
    index = status["index"]
    verb = "indexed" if built else "already fresh:"
    took = f" in {progress.elapsed:.1f} s" if built else ""
    _print(
        f"{verb} {index.get('documents', 0):,} documents{took}; index of {human(index.get('bytes', 0))} "
        f"in {index.get('dir', 'memory')}"
    )
    return 0


def human(size: float) -> str:
    """A number of bytes for people, in powers of 1,000."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _status(arguments: list[str]) -> int:
    from ..server.lifecycle import server_status

    flags, rest = _split("status", arguments, ("--json",))
    path = _directory("status", rest)
    status = server_status(path)
    if status is None:
        from ..search import Session

        session = Session.open(path)
        try:
            status = session.status()
        finally:
            session.close()
    _show_status(status, as_json="--json" in flags)
    return 0


def _show_status(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        import json

        _print(json.dumps(status, indent=2, sort_keys=True, default=str))
        return
    index = status.get("index") or {}
    lines: list[tuple[str, object]] = [
        ("root", status.get("root", "")),
        ("index", index.get("state", "none")),
    ]
    if index.get("commit"):
        lines.append(("commit", index["commit"]))
    if "documents" in index:
        lines.append(("documents", f"{index['documents']:,}"))
    if "bytes" in index:
        lines.append(("size", human(index["bytes"])))
    if index.get("dir"):
        lines.append(("directory", index["dir"]))
    if index.get("fault"):
        lines.append(("fault", index["fault"]))
    progress = index.get("progress")
    if progress:
        done, total = progress.get("documents", 0), progress.get("documents_total", 0)
        lines.append(("building", f"{progress.get('phase', '')}, {done:,} of {total:,} documents"))
    if "freshness" in status:
        reason = status.get("freshness_reason")
        lines.append(("freshness", f"{status['freshness']}: {reason}" if reason else status["freshness"]))
    if "overlay" in status:
        lines.append(("overlay", _overlay(status, index)))
    if status.get("pid") and status.get("socket"):
        seconds = int(status.get("uptime_s", 0))
        lines += [
            ("server", f"running, process {status['pid']}, up {seconds // 60} min {seconds % 60} s"),
            ("memory", human(status.get("rss_bytes", 0))),
            ("clients", status.get("clients", 0)),
            ("unsaved", _unsaved(status.get("buffers") or {})),
            ("socket", status["socket"]),
        ]
    else:
        lines.append(("server", "not running"))
    lines.append(("log", status.get("log") or log_path()))
    _print("\n".join(f"{name + ':':<11} {value}" for name, value in lines))


def _overlay(status: dict[str, Any], index: dict[str, Any]) -> str:
    """The files that no base stands for, and what becomes of them."""
    text = f"{status['overlay']:,}"
    segments = sum(layer["kind"] == "segment" for layer in index.get("layers", ()))
    if "hot" in status and status["overlay"]:
        text += f": {status['hot']:,} read at every search, the rest in {segments} segments"
    return text


def _unsaved(buffers: dict[str, int]) -> str:
    """The unsaved buffers, for ``status``."""
    count, clients = buffers.get("count", 0), buffers.get("clients", 0)
    if not count:
        return "no buffers"
    parts = f"{count:,} buffer{'' if count == 1 else 's'}", f"{clients:,} client{'' if clients == 1 else 's'}"
    return f"{' of '.join(parts)}, {human(buffers['bytes'])}"


def _server(arguments: list[str]) -> int:
    from ..server import lifecycle

    flags, rest = _split("server", arguments, ("--force-root", "--json"))
    action, *rest = rest or [""]
    if action not in ("start", "stop", "status", "run"):
        given = f"not {action!r}" if action else "and none was given"
        raise UsageError(f"the action is start, stop, status or run, {given}", f"Usage: {_USAGE['server']}")
    path = _directory("server", rest)
    if action == "start":
        socket = lifecycle.ensure_server(path, wait_open=True, force_root="--force-root" in flags)
        _print(f"the server for {lifecycle.worktree(path)} answers on {socket}")
        return 0
    if action == "stop":
        stopped = lifecycle.stop_server(path)
        _print(f"{'stopped the server' if stopped else 'no server runs'} for {lifecycle.worktree(path)}")
        return 0
    if action == "status":
        status = lifecycle.server_status(path)
        if status is None:
            _print(f"no server runs for {lifecycle.worktree(path)}")
            return 1
        _show_status(status, as_json="--json" in flags)
        return 0
    # In the foreground, for service managers and for looking at faults: this process becomes the server.
    options = ["--force-root"] if "--force-root" in flags else []
    command = [sys.executable, "-P", "-m", "indexgrep.server", *options, lifecycle.worktree(path)]
    os.execv(sys.executable, command)


def _explain(arguments: list[str]) -> int:
    from . import engine
    from .explain import report
    from .flags import parse
    from .search import read_patterns, request_for

    options: Options = parse(arguments)
    patterns = read_patterns(options)
    messages = Messages(show=options.messages, debug=options.debug)
    group, request = request_for(options, patterns, messages)
    with engine.Engines(options, messages) as opened:
        explanation = opened.get(group.root).explain(request)
    if options.mode == "json":
        import json

        _print(json.dumps(explanation, indent=2, ensure_ascii=False, default=_plain))
    else:
        _print(report(explanation))
    return 0


def _plain(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
