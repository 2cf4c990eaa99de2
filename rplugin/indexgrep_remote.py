"""The remote plugin: starts the backend for the Lua side, and nothing else.

Neovim's Python host is often not the Python that indexgrep is installed with, so this imports the standard
library and pynvim only, and runs the backend as a command of its own. Lua asks with ``IndexGrepStart``,
which returns at once; the answer is a call of ``on_remote_start`` in ``lua/indexgrep/server.lua``. Where this
plugin is not registered (no manifest, no pynvim), Lua runs the same command itself.

Neovim finds this file as ``rplugin/python3/indexgrep.py``, a symbolic link. It resolves the link, and pynvim
imports by the name of what it finds: a module called ``indexgrep`` would be the backend's package instead,
where that is installed in the host's Python.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvim

#: A server that was started listens within a second; a slow disk may take longer.
TIMEOUT_S = 60.0

#: The directory this plugin is installed in.
PLUGIN = Path(__file__).resolve().parents[1]


def backend_command(given: Sequence[str]) -> list[str] | None:
    """The backend: the command Lua knows, else the plugin's own, else this Python's; or ``None``."""
    if given:
        return list(given)
    own = PLUGIN / ".venv" / "bin" / "indexgrep"
    if os.access(own, os.X_OK):
        return [str(own)]
    try:
        importlib.metadata.distribution("indexgrep")
    except importlib.metadata.PackageNotFoundError:
        return None
    return [sys.executable, "-P", "-m", "indexgrep"]


def start_server(root: str, given: Sequence[str]) -> str:
    """Start the server for ``root``, wait until it listens. Returns what went wrong, or an empty string."""
    command = backend_command(given)
    if command is None:
        return (
            "the indexgrep backend is not installed\n"
            f"Run `pip install {PLUGIN}` with any Python 3.11, or set vim.g.indexgrep.command."
        )
    try:
        done = subprocess.run(
            [*command, "server", "start", root],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"`{' '.join(command)} server start` did not end within {TIMEOUT_S:.0f} s"
    except (OSError, ValueError) as error:
        return f"cannot run {command[0]}: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip()
    return said or f"`{' '.join(command)} server start` ended with code {done.returncode}"


@pynvim.plugin
class IndexGrep:
    """Registered by ``:UpdateRemotePlugins``."""

    def __init__(self, nvim: Any) -> None:
        self._nvim = nvim

    @pynvim.function("IndexGrepStart", sync=False)
    def start(self, args: list[Any]) -> None:
        """``IndexGrepStart(root, command)``: the arguments of ``start_server``. Returns before it is done."""
        root, command = str(args[0]), [str(part) for part in args[1]]
        # In a thread: the host serves other plugins too.
        threading.Thread(target=self._start, args=(root, command), daemon=True).start()

    def _start(self, root: str, command: list[str]) -> None:
        try:
            failure = start_server(root, command)
        except Exception as error:
            failure = f"the remote plugin failed: {error!r}"
        self._nvim.async_call(self._report, root, failure)

    def _report(self, root: str, failure: str) -> None:
        self._nvim.exec_lua(
            "require('indexgrep.server').on_remote_start(...)", root, failure == "", failure, async_=True
        )
