"""Another process that changes a tree: ``python -m benchmarks.outside ROOT``, and the handle on it.

It reads one JSON list a line, ``[edit, path, argument, ...]`` (``_EDITS``), makes that edit with plain system
calls, and answers with a line when the last of them has returned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]


def _write(path: str, old: str, new: str) -> None:
    """Write the file anew with ``new`` for ``old``, as most programs save."""
    text = _with(path, old, new)
    with open(path, "wb", buffering=0) as file:
        file.write(text)


def _patch(path: str, old: str, new: str) -> None:
    """Overwrite ``old`` in place with ``new``, as long, and put the time stamps back."""
    status = os.stat(path)
    with open(path, "r+b", buffering=0) as file:
        at = file.read().index(old.encode())
        os.pwrite(file.fileno(), new.encode(), at)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def _replace(path: str, old: str, new: str) -> None:
    """Write a file beside it and rename that over it, as careful programs save."""
    text = _with(path, old, new)
    beside = path + "~"
    with open(beside, "wb", buffering=0) as file:
        file.write(text)
    os.replace(beside, path)


def _append(path: str, new: str) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(new.encode())


def _create(path: str, text: str) -> None:
    """Make a file, and the folder it lies in where that is new."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "xb", buffering=0) as file:
        file.write(text.encode())


def _with(path: str, old: str, new: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        text = file.read()
    changed = text.replace(old.encode(), new.encode())
    assert changed != text
    return changed


_EDITS: dict[str, Callable[..., None]] = {
    "write": _write,
    "patch": _patch,
    "replace": _replace,
    "append": _append,
    "create": _create,
    "delete": os.unlink,
    "move": os.rename,
}


class Outside:
    """The handle on such a process, until ``close``."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.outside", str(tree)],
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def edit(self, kind: str, *arguments: str) -> None:
        """Have an edit made; it is when this returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([kind, *arguments]).encode() + b"\n")
        if not self._process.stdout.readline():
            raise RuntimeError(f"the outside process failed at {kind} {arguments[0]}")

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    os.chdir(sys.argv[1])
    for line in sys.stdin:
        kind, *arguments = json.loads(line)
        _EDITS[kind](*arguments)
        os.write(1, b"\n")


if __name__ == "__main__":
    main()
