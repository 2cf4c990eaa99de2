"""A real Neovim, started for one test and driven over its API, with this plugin and nothing of the user's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pynvim

PLUGIN = Path(__file__).resolve().parents[2]

_INIT = """\
vim.opt.runtimepath:prepend({plugin!r})
vim.o.swapfile = false
vim.cmd('filetype plugin on')
vim.cmd('syntax on')
_G.notices = {{}}
vim.notify = function(message, level) table.insert(_G.notices, message) end
"""

_SCREEN = """
vim.cmd.redraw()
local lines = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do
    cells[column] = vim.fn.screenstring(row, column)
  end
  lines[row] = (table.concat(cells):gsub('%s+$', ''))
end
return lines
"""


def write_init(path: Path, extra: str = "") -> Path:
    """The configuration of the editor: the plugin, notices kept in ``_G.notices``, then ``extra`` (Lua)."""
    path.write_text(_INIT.format(plugin=str(PLUGIN)) + extra)
    return path


def run_headless(
    nvim: str, init: Path, *commands: str, cwd: Path, env: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a Neovim that nobody looks at to its end."""
    arguments = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        [nvim, "--headless", "-i", "NONE", "-n", "-u", str(init), *arguments],
        cwd=cwd,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=timeout,
        check=False,
    )


class Editor:
    """An embedded Neovim. ``size`` attaches a screen of so many columns and lines; without, it has none."""

    def __init__(
        self,
        nvim: str,
        init: Path,
        *,
        cwd: Path,
        env: dict[str, str] | None = None,
        size: tuple[int, int] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        argv = [nvim, "--embed", "-i", "NONE", "-n", "-u", str(init), *arguments]
        if size is None:
            argv.insert(1, "--headless")
        script = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
        before = dict(os.environ)
        os.environ.update(env or {})
        try:
            self.api = pynvim.attach("child", argv=[sys.executable, "-c", script, str(cwd), *argv])
        finally:
            os.environ.clear()
            os.environ.update(before)
        if size is not None:
            self.api.ui_attach(*size, rgb=True, ext_linegrid=True)

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.api.command("qall!", async_=True)
        except OSError:
            pass
        self.api.close()

    def lua(self, code: str, *args: Any) -> Any:
        return self.api.exec_lua(code, *args)

    def command(self, line: str) -> None:
        self.api.command(line)

    def keys(self, keys: str) -> None:
        """Type keys, as in ``<CR>``; returns when they are queued."""
        self.api.input(keys)

    def wait(self, what: Callable[[], Any], timeout: float = 10.0) -> Any:
        """Wait until ``what`` returns something true, and return that."""
        deadline = time.monotonic() + timeout
        while not (value := what()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout} s; the screen:\n" + "\n".join(self.screen()))
            time.sleep(0.005)
        return value

    def screen(self) -> list[str]:
        """The text on the screen, line by line."""
        return list(self.lua(_SCREEN))

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.screen())

    def notices(self) -> list[str]:
        """Every message so far."""
        return list(self.lua("return _G.notices"))

    def quickfix(self) -> list[tuple[str, int, int, str]]:
        """The current quickfix list: file, line, column and text of each entry."""
        items = self.lua(
            "return vim.tbl_map(function(item) "
            "return { vim.api.nvim_buf_get_name(item.bufnr), item.lnum, item.col, item.text } "
            "end, vim.fn.getqflist())"
        )
        return [(name, lnum, col, text) for name, lnum, col, text in items]

    def quickfix_title(self) -> str:
        return str(self.lua("return vim.fn.getqflist({title = 0}).title"))
