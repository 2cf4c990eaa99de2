"""Random work in an editor and beside it: every search is what ripgrep finds once all buffers are written.

ripgrep searches a copy of the tree, into which Neovim itself writes each modified buffer.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexgrep.server import lifecycle
from support.editor import Editor, write_init

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(300)]

BACKEND = str(Path(sys.executable).with_name("indexgrep"))

_INIT = f"""
vim.g.indexgrep = {{ command = {BACKEND!r}, unsaved_debounce_ms = 20 }}
vim.o.hidden, vim.o.fsync, vim.o.autoread = true, false, true
"""

_SEARCH = """
local pattern, options = ...
local lines = {}
_G.answer = nil
require('indexgrep').search(pattern, options, function(event)
  for _, file in ipairs(event.files or {}) do
    for _, line in ipairs(file.lines) do
      table.insert(lines, { file.path, line[1], line[3] })
    end
  end
  if event.event == 'done' or event.event == 'failed' then
    _G.answer = { lines = lines, error = event.error }
  end
end)
"""

#: Writes every modified buffer below the root to the same place below another directory.
_WRITE_ALL = """
local root, copy = ...
for _, buf in ipairs(vim.api.nvim_list_bufs()) do
  local name = vim.api.nvim_buf_get_name(buf)
  if vim.api.nvim_buf_is_loaded(buf) and vim.bo[buf].modified and vim.bo[buf].buftype == ''
      and vim.startswith(name, root .. '/') then
    local target = copy .. name:sub(#root + 1)
    if pcall(vim.fn.mkdir, vim.fs.dirname(target), 'p') then
      vim.api.nvim_buf_call(buf, function()
        pcall(vim.cmd, 'silent noautocmd keepalt write! ' .. vim.fn.fnameescape(target))
      end)
    end
  end
end
"""

NAMES = ["a.c", "b.lua", "sub/c.c", "sub/d.txt", "deep/er/e.c", "ignored/f.c", ".hidden", "a b.c"]
WORDS = ["needle", "two words", "caf\u00e9", "", "x", "\tTODO", "ends in cr\r", "nul\0"]


class Work:
    """A tree, an editor on it, and what may be done to them at random."""

    def __init__(self, editor: Editor, root: Path, rg: str, seed: int) -> None:
        self.editor = editor
        self.root = root
        self.rg = rg
        self.rng = random.Random(seed)
        self.log: list[str] = []
        self.actions: list[Callable[[], str]] = [
            *[self.edit] * 3,
            *[self.change] * 6,
            self.undo,
            self.redo,
            self.save,
            self.save,
            self.save_as,
            self.rename,
            self.wipe,
            self.set_option,
            self.set_unmodified,
            self.write_outside,
            self.write_outside,
            self.remove_outside,
            self.move_outside,
            self.ignore,
        ]

    def step(self) -> None:
        self.log.append(self.rng.choice(self.actions)())

    def _command(self, command: str) -> str:
        """Commands that fail (there is no such file to write, say) do nothing."""
        self.editor.lua("pcall(vim.cmd, ...)", f"silent! {command}")
        return command

    def _name(self) -> str:
        return self.rng.choice(NAMES)

    def _escaped(self) -> str:
        return self._name().replace(" ", r"\ ")

    def edit(self) -> str:
        return self._command(f"edit {self._escaped()}")

    def change(self) -> str:
        last = int(self.editor.lua("return vim.api.nvim_buf_line_count(0)"))
        first = self.rng.randrange(last + 1)
        lines = [self.rng.choice(WORDS) for _ in range(self.rng.randrange(3))]
        end = min(first + self.rng.randrange(3), last)
        self.editor.lua(
            "local first, last, lines = ...; vim.api.nvim_buf_set_lines(0, first, last, false, lines)",
            first,
            end,
            lines,
        )
        return f"lines {first}-{end} become {lines}"

    def undo(self) -> str:
        return self._command("undo")

    def redo(self) -> str:
        return self._command("redo")

    def save(self) -> str:
        return self._command(self.rng.choice(["write! ++p", "write! ++p", "noautocmd write! ++p", "wall!"]))

    def save_as(self) -> str:
        return self._command(f"saveas! {self._escaped()}")

    def rename(self) -> str:
        return self._command(f"file {self._escaped()}")

    def wipe(self) -> str:
        return self._command(self.rng.choice(["bwipeout!", "bdelete!", "edit!", "noautocmd bwipeout!"]))

    def set_option(self) -> str:
        options = [
            "ff=dos",
            "ff=unix",
            "bomb",
            "nobomb",
            "nofixeol noeol",
            "fixeol",
            "fenc=latin1",
            "fenc=utf-8",
        ]
        return self._command(f"setlocal {self.rng.choice(options)}")

    def set_unmodified(self) -> str:
        return self._command(self.rng.choice(["setlocal nomodified", "setlocal modified"]))

    def write_outside(self) -> str:
        path = self.root / self._name()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{self.rng.choice(WORDS)}\n" for _ in range(self.rng.randrange(4))))
        except OSError as error:
            return str(error)
        if self.rng.random() < 0.5:
            self._command("checktime")
        return f"{path.name} written outside"

    def remove_outside(self) -> str:
        path = self.root / self._name()
        path.unlink(missing_ok=True)
        return f"{path.name} removed"

    def move_outside(self) -> str:
        old, new = self.root / self._name(), self.root / self._name()
        if old.exists():
            new.parent.mkdir(parents=True, exist_ok=True)
            old.replace(new)
        return f"{old.name} moved to {new.name}"

    def ignore(self) -> str:
        rule = self.rng.choice(["ignored/", "*.lua", ""])
        (self.root / ".gitignore").write_text(rule + "\n")
        return f"ignored: {rule}"

    def search(self) -> list[tuple[bytes, int, bytes]]:
        options = {"hidden": self.rng.random() < 0.3, "globs": self.rng.choice([[], ["*.c"]])}
        self.editor.lua(_SEARCH, r"\w", options)
        # Before anything else can happen to the buffers.
        expected = self.expected(options)
        answer = self.editor.wait(lambda: self.editor.lua("return _G.answer"), 30)
        assert answer.get("error") is None, answer
        found = [
            (os.fsencode(path), number, os.fsencode(text).removesuffix(b"\n"))
            for path, number, text in answer["lines"]
        ]
        assert found == expected, "\n".join(self.log)
        return found

    def expected(self, options: dict[str, Any]) -> list[tuple[bytes, int, bytes]]:
        copy = self.root.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.root, copy, symlinks=True)
        self.editor.lua(_WRITE_ALL, str(self.root), str(copy))
        flags = ["--hidden"] if options["hidden"] else []
        flags += [f"--glob={glob}" for glob in options["globs"]]
        run = subprocess.run(
            [self.rg, "--no-config", "--sort=path", "-n0", "--no-heading", *flags, r"\w"],
            cwd=copy,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert run.returncode in (0, 1) or b"No files were searched" in run.stderr, run.stderr
        lines = []
        # ripgrep ends every line, also where the file does not.
        for line in run.stdout.removesuffix(b"\n").split(b"\n"):
            path, zero, rest = line.partition(b"\0")
            if zero and rest[:1].isdigit():
                number, _, text = rest.partition(b":")
                lines.append((path, int(number), text))
        return lines


@pytest.fixture
def root(short_tmp: Path) -> Iterator[Path]:
    tree = short_tmp.resolve() / "r"
    tree.mkdir()
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    for name in NAMES[:5]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"first line of {name}\nneedle\n")
    yield tree
    lifecycle.stop_server(tree)


@pytest.mark.parametrize("seed", range(4))
def test_every_search_is_ripgreps(nvim: str, rg: str, root: Path, seed: int) -> None:
    with Editor(nvim, write_init(root.parent / "init.lua", _INIT), cwd=root, arguments=["a.c"]) as editor:
        work = Work(editor, root, rg, seed)
        for _ in range(40):
            for _ in range(work.rng.randrange(1, 5)):
                work.step()
            work.search()
        assert editor.notices() == []
