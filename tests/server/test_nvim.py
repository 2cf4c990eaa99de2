"""A real Neovim as a peer: pushes by ``nvim_exec_lua``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.server_harness import running_server

pytestmark = pytest.mark.nvim

SCRIPT = """
local path, out = ...
local events = {}
package.loaded['indexgrep.rpc'] = {
  on_push = function(event, params)
    local shown = {event = event, qid = params[1]}
    if event == 'results' then
      shown.seq = params[2]
      shown.files = #params[3]
      shown.path = params[3][1].path
      shown.line = params[3][1].lines[1]
    elseif event == 'done' then
      shown.matched_lines = params[2].matched_lines
      shown.complete = params[2].complete
      shown.reason = params[2].reason
    else
      shown.code = params[2].code
    end
    table.insert(events, shown)
  end,
}
local function ended(count)
  assert(vim.wait(10000, function()
    local ends = 0
    for _, event in ipairs(events) do
      ends = ends + (event.event == 'results' and 0 or 1)
    end
    return ends == count
  end, 5))
end
local channel = vim.fn.sockconnect('pipe', path, {rpc = true})
local about = vim.rpcrequest(channel, 'hello', {client = 'nvim', push = 'nvim'})
vim.rpcnotify(channel, 'search', 1, {patterns = {'files=3 lines=2 batch=2'}, globs = {}})
ended(1)
vim.rpcnotify(channel, 'search', 2, {patterns = {'files=100000 delay=0.01'}})
vim.rpcnotify(channel, 'search', 3, {patterns = {'('}, supersede = true})
ended(3)
vim.rpcnotify(channel, 'search', 4, {patterns = {'x'}, colour = true})
ended(4)
local ok, err = pcall(vim.rpcrequest, channel, 'nonsense')
vim.rpcnotify(channel, 'nonsense')
local pong = vim.rpcrequest(channel, 'ping')
local said = {about = about, events = events, ok = ok, err = tostring(err), pong = pong}
vim.fn.writefile({vim.json.encode(said)}, out)
"""


def test_neovim_runs_the_pushes(nvim: str, tmp_path: Path) -> None:
    script = tmp_path / "script.lua"
    script.write_text(SCRIPT)
    out = tmp_path / "out.json"
    with running_server() as running:
        lua = f"lua loadfile({str(script)!r})({str(running.path)!r}, {str(out)!r})"
        run = subprocess.run(
            [nvim, "--headless", "--clean", "-c", lua, "-c", "qa!"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert out.exists(), run.stderr
    said = json.loads(out.read_text())
    assert said["about"]["protocol"] == 1
    assert said["pong"] == "pong"
    assert not said["ok"]
    assert "unknown method" in said["err"]
    of = {qid: [event for event in said["events"] if event["qid"] == qid] for qid in (1, 2, 3, 4)}
    assert [event["event"] for event in of[1]] == ["results", "results", "done"]
    assert [event.get("seq") for event in of[1]] == [0, 1, None]
    assert [event.get("files") for event in of[1]] == [2, 1, None]
    assert of[1][0]["path"] == "dir/file000000.c"
    assert of[1][0]["line"] == [1, 0, "x" * 39 + "\n", [[0, 1]], True]
    assert of[1][2]["matched_lines"] == 6
    assert of[2][-1]["event"] == "done"
    assert of[2][-1]["reason"] == "cancelled"
    assert [(event["event"], event["code"]) for event in of[3]] == [("failed", "pattern")]
    assert [(event["event"], event["code"]) for event in of[4]] == [("failed", "usage")]
