"""Neovim: time from the command to results on the screen, in an editor that is already open."""

from __future__ import annotations

import logging
import os
import statistics
import time
from pathlib import Path

import pynvim

from .peers import find_tool
from .queries import Query

REPOSITORY = Path(__file__).resolve().parents[1]

#: Rows of the screen that show a line of the results; the window names each file once and then its lines.
_ON_SCREEN = """
vim.cmd.redraw()
local shown = 0
for _, window in ipairs(vim.api.nvim_list_wins()) do
  local buffer = vim.api.nvim_win_get_buf(window)
  local filetype = vim.bo[buffer].filetype
  if filetype:find('indexgrep') or vim.bo[buffer].buftype == 'quickfix' then
    for _, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, 50, false)) do
      if line:find(..., 1, true) then
        shown = shown + 1
      end
    end
  end
end
return shown
"""


def latency(tree: Path, queries: list[Query], runs: int) -> dict[str, float]:
    """Median seconds from ``:IndexGrep`` to the first result in a drawn window, for plain literal queries.

    The editor is driven over its own RPC and polled, so each figure has up to a round trip (0.2 ms) too much.
    """
    nvim = find_tool("nvim")
    if nvim is None:
        return {}
    command = [nvim, "--embed", "-u", str(REPOSITORY / "tools" / "run.lua"), "-i", "NONE", "-n"]
    # The editor's end is noticed after its loop's, which asyncio would tell about.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    directory = os.getcwd()
    os.chdir(tree)
    try:
        editor = pynvim.attach("child", argv=command)
    finally:
        os.chdir(directory)
    try:
        editor.ui_attach(160, 50, rgb=True)
        return {query.name: statistics.median(_times(editor, query, runs)) for query in queries}
    finally:
        editor.close()


def _times(editor: pynvim.Nvim, query: Query, runs: int) -> list[float]:
    times = []
    for number in range(runs + 1):
        started = time.perf_counter()
        editor.command(f"IndexGrep {query.pattern}")
        while not editor.exec_lua(_ON_SCREEN, query.pattern):
            if time.perf_counter() - started > 30:
                raise TimeoutError(f"no results on the screen for {query.name}")
        if number:  # the first one connects
            times.append(time.perf_counter() - started)
        editor.command("silent! tabonly! | silent! only! | enew!")
    return times
