"""Neovim: time from the command to results on the screen, in an editor that is already open; and how long
the plugin holds an editor in which somebody types and saves.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvim

from .figures import Measured, percentile
from .peers import find_tool
from .queries import Query
from .stage import Stage, wait_until

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

#: Takes the time of everything that Neovim calls of the plugin from now on: events, changes, timers. What
#: runs in one turn of the loop counts as one hold. The thread's own time leaves out what others do.
_TAKE_TIMES = """
local ffi = require('ffi')
ffi.cdef('typedef struct { long s, ns; } ig_time; int clock_gettime(int, ig_time *);')
local time = ffi.new('ig_time')
local THREAD_CPUTIME = jit.os == 'OSX' and 16 or 3
local function own_ms()
  ffi.C.clock_gettime(THREAD_CPUTIME, time)
  return tonumber(time.s) * 1e3 + tonumber(time.ns) / 1e6
end
_G.holds, _G.silences = {}, {}
local function timed(callback)
  if type(callback) ~= 'function' or not debug.getinfo(callback, 'S').source:find('/indexgrep/', 1, true) then
    return callback
  end
  return function(...)
    local wall, own = vim.uv.hrtime(), own_ms()
    local results = { callback(...) }
    own, wall = own_ms() - own, (vim.uv.hrtime() - wall) / 1e6
    local turn, last = vim.uv.now(), _G.holds[#_G.holds]
    if last and last.turn == turn then
      last.wall, last.own = last.wall + wall, last.own + own
    else
      table.insert(_G.holds, { turn = turn, wall = wall, own = own })
    end
    return unpack(results)
  end
end
for _, name in ipairs({ 'schedule', 'schedule_wrap', 'defer_fn' }) do
  local plain = vim[name]
  vim[name] = function(callback, ...) return plain(timed(callback), ...) end
end
local create, attach = vim.api.nvim_create_autocmd, vim.api.nvim_buf_attach
vim.api.nvim_create_autocmd = function(events, options)
  options.callback = timed(options.callback)
  return create(events, options)
end
vim.api.nvim_buf_attach = function(buffer, send, handlers)
  return attach(buffer, send, vim.tbl_map(timed, handlers))
end
local last = vim.uv.hrtime()
_G.probe = vim.uv.new_timer()
_G.probe:start(0, 1, function()
  local now = vim.uv.hrtime()
  table.insert(_G.silences, (now - last) / 1e6)
  last = now
end)
"""

_SEARCHED = """
require('indexgrep').search('x', { limit = 1 }, function(event)
  _G.searched = event.event == 'done'
end)
"""

#: Buffers that are typed in: lines of 36 bytes. The last one is about as large as those may be that are sent
#: while somebody types (1 MiB).
_LINE = "line %06d of a file of some words"
_SIZES = {"100 lines": 100, "10,000 lines": 10_000, "1 MB": 29_000}
#: Seconds between two keys, and after every few of them: longer than the pause after which changes are sent.
_KEY_S = 0.02
_REST_S = 0.4
_KEYS_A_REST = 12
#: The most that somebody who types or saves may be held, in milliseconds.
_WANTED_MS = 2.0


@contextmanager
def _neovim(tree: Path) -> Iterator[Any]:
    """An editor in ``tree`` with the plugin and a screen; ``None`` where there is no Neovim."""
    nvim = find_tool("nvim")
    if nvim is None:
        yield None
        return
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
        yield editor
    finally:
        editor.close()


def latency(tree: Path, queries: list[Query], runs: int) -> dict[str, float]:
    """Median seconds from ``:IndexGrep`` to the first result in a drawn window, for plain literal queries.

    The editor is driven over its own RPC and polled, so each figure has up to a round trip (0.2 ms) too much.
    """
    with _neovim(tree) as editor:
        if editor is None:
            return {}
        return {query.name: statistics.median(_times(editor, query, runs)) for query in queries}


def _times(editor: Any, query: Query, runs: int) -> list[float]:
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


def typing_and_saving(stage: Stage, measured: Measured) -> None:
    """How long the plugin holds the editor at a time while its unsaved buffers go to the server."""
    scale = stage.scale
    measured.conditions = (
        f"{scale.keys} keys and {scale.saves} saves in each of {len(_SIZES)} buffers, {_KEY_S * 1000:.0f} ms "
        f"apart and {_REST_S} s after every {_KEYS_A_REST}; all that the plugin does in one turn of the "
        "editor's loop is one hold, in time of the editor's thread; a silence is the time between two ticks "
        "of a 1 ms timer, whatever the editor and the machine do"
    )
    with _neovim(stage.tree) as editor:
        if editor is None:
            measured.conditions = "skipped: there is no Neovim"
            return
        editor.exec_lua(_TAKE_TIMES)
        editor.exec_lua(_SEARCHED)
        if not wait_until(lambda: bool(editor.exec_lua("return _G.searched")), scale.patience_s, 0.01):
            raise TimeoutError("the editor's search has no end")
        for unsaved in (True, False):
            editor.exec_lua("vim.g.indexgrep = { unsaved = ... }", unsaved)
            for name, lines in _SIZES.items():
                path = stage.tree / f"held-{lines}.txt"
                path.write_text("".join(_LINE % number + "\n" for number in range(lines)))
                editor.command(f"edit! {path}")
                typed = _recorded(editor, _type, scale.keys)
                saved = _recorded(editor, _save, scale.saves)
                _add(measured, name, typed, saved, unsaved=unsaved)


def _recorded(editor: Any, act: Any, count: int) -> dict[str, list[float]]:
    """What the editor was held by while ``act`` went on: times in milliseconds."""
    editor.exec_lua("_G.holds, _G.silences = {}, {}")
    act(editor, count)
    time.sleep(_REST_S * 2)  # what comes after the last pause
    holds, silences = editor.exec_lua("return { _G.holds, _G.silences }")
    return {
        "own": [hold["own"] for hold in holds] or [0.0],
        "wall": [hold["wall"] for hold in holds] or [0.0],
        "silences": silences,
    }


def _type(editor: Any, keys: int) -> None:
    editor.input("Go")
    for number in range(1, keys + 1):
        editor.input(chr(ord("a") + number % 26))
        time.sleep(_KEY_S if number % _KEYS_A_REST else _REST_S)
    editor.input("<Esc>")


def _save(editor: Any, saves: int) -> None:
    for _ in range(saves):
        editor.input("ox<Esc>")
        editor.command("silent write")
        time.sleep(_KEY_S)


def _add(
    measured: Measured,
    name: str,
    typed: dict[str, list[float]],
    saved: dict[str, list[float]],
    *,
    unsaved: bool,
) -> None:
    if unsaved:
        measured.add(f"typing in {name}, longest hold", max(typed["own"]), "ms", _WANTED_MS)
        measured.add(f"saving {name}, longest hold", max(saved["own"]), "ms", _WANTED_MS)
        measured.details[name] = {"typing": typed, "saving": saved}
    silences = percentile(typed["silences"], 99)
    how = "sent" if unsaved else "not sent"
    measured.add(f"typing in {name}, unsaved buffers {how}: silence, 99th percentile", silences, "ms")
