"""Unsaved buffers, searched as they stand: a real editor (or two) with the real server."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexgrep.client import Client
from indexgrep.server import lifecycle
from support.editor import Editor, write_init

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(120)]

BACKEND = str(Path(sys.executable).with_name("indexgrep"))

#: Searches by the Lua API and keeps the end and the lines of each answer: path, number, text, source.
_LUA = """
vim.g.indexgrep = vim.tbl_extend('force', { command = %r, unsaved_debounce_ms = 30 }, %s)
_G.answers = {}
function _G.search(id, pattern, options)
  local lines = {}
  require('indexgrep').search(pattern, options, function(event)
    for _, file in ipairs(event.files or {}) do
      for _, line in ipairs(file.lines) do
        table.insert(lines, { file.path, line[1], line[3], file.source or 'disk' })
      end
    end
    if event.event == 'done' or event.event == 'failed' then
      _G.answers[id] = { lines = lines, summary = event.summary, error = event.error }
    end
  end)
end
"""


def git_init(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)


@pytest.fixture
def root(short_tmp: Path) -> Iterator[Path]:
    tree = short_tmp.resolve() / "r"
    (tree / "sub").mkdir(parents=True)
    git_init(tree)
    (tree / "a.c").write_text("int disk;\nint both;\n")
    (tree / "b.c").write_text("int other;\n")
    (tree / "sub" / "c.lua").write_text("local disk = 1\n")
    yield tree
    lifecycle.stop_server(tree)


@contextlib.contextmanager
def editor(
    nvim: str,
    root: Path,
    *files: str,
    size: tuple[int, int] | None = None,
    config: str = "{}",
    extra: str = "",
) -> Iterator[Editor]:
    init = write_init(root.parent / "init.lua", _LUA % (BACKEND, config) + extra)
    with Editor(nvim, init, cwd=root, size=size, arguments=files) as started:
        yield started


_ids = iter(range(1, 1_000_000))


def search(vim: Editor, pattern: str, **options: Any) -> dict[str, Any]:
    """The answer of a search asked now."""
    number = next(_ids)
    vim.lua("_G.search(...)", number, pattern, options or vim.lua("return vim.empty_dict()"))
    answer = vim.wait(lambda: vim.lua("return _G.answers[...]", number), 30)
    assert answer.get("error") is None, answer["error"]
    return dict(answer)


def found(vim: Editor, pattern: str, **options: Any) -> list[tuple[str, int, str]]:
    """Where a search asked now finds something: path (marked as the window does) and line."""
    marks = {"disk": "", "buffer": " [+]"}
    return [
        (path + marks[source], number, text)
        for path, number, text, source in search(vim, pattern, **options)["lines"]
    ]


def seen_by_others(root: Path, pattern: str) -> list[tuple[str, str]]:
    """What a client of the server that asks for all buffers finds."""
    with Client(root, start=False) as client:
        return [(match.path, match.source) for match in client.search(pattern, buffers="all")]


def held(root: Path) -> int:
    """How many buffers the server of ``root`` holds."""
    status = lifecycle.server_status(root)
    assert status is not None
    return int(status["buffers"]["count"])


SET = "vim.api.nvim_buf_set_lines(0, 0, -1, false, { ... })"


def test_what_was_typed_is_found_and_what_was_deleted_is_not(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.keys("ccint typed;<Esc>")
        assert found(vim, "typed|disk|both") == [
            ("a.c [+]", 1, "int typed;\n"),
            ("a.c [+]", 2, "int both;\n"),
            ("sub/c.lua", 1, "local disk = 1\n"),
        ]
        vim.keys("Goint more;<Esc>")
        assert found(vim, "typed|more") == [("a.c [+]", 1, "int typed;\n"), ("a.c [+]", 3, "int more;\n")]
        vim.keys("u")
        assert found(vim, "more") == []
        # Undone to what is on disk, it is not modified any more.
        vim.keys("u")
        assert found(vim, "int") == [
            ("a.c", 1, "int disk;\n"),
            ("a.c", 2, "int both;\n"),
            ("b.c", 1, "int other;\n"),
        ]
        vim.keys("<C-r>")
        assert found(vim, "typed") == [("a.c [+]", 1, "int typed;\n")]
        vim.command("write")
        assert found(vim, "typed") == [("a.c", 1, "int typed;\n")]
        vim.wait(lambda: held(root) == 0)
        assert vim.notices() == []


def test_a_file_that_does_not_exist_yet(nvim: str, root: Path) -> None:
    with editor(nvim, root, "sub/deep/new.c") as vim:
        vim.lua(SET, "", "fresh")
        assert found(vim, "fresh") == [("sub/deep/new.c [+]", 2, "fresh\n")]
        assert found(vim, "fresh", globs=["*.lua"]) == []
        assert found(vim, "fresh", paths=["sub/deep/new.c"]) == [("sub/deep/new.c [+]", 2, "fresh\n")]
        (root / ".gitignore").write_text("deep/\n")
        assert found(vim, "fresh") == []
        assert found(vim, "fresh", no_ignore=True) == [("sub/deep/new.c [+]", 2, "fresh\n")]


def test_every_tab_and_every_hidden_buffer_counts(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.lua(SET, "needle a")
        vim.command("tabedit b.c")
        vim.lua(SET, "needle b")
        vim.command("tabfirst | edit sub/c.lua")
        vim.lua(SET, "needle c")
        vim.command("setlocal nobuflisted | edit! none.txt")
        vim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufadd('d.c'), 0, -1, false, {'x'})")
        vim.lua(
            "local buf = vim.fn.bufadd('d.c'); vim.fn.bufload(buf);"
            "vim.api.nvim_buf_set_lines(buf, 0, -1, false, { 'needle d' })"
        )
        assert [path for path, _, _ in found(vim, "needle")] == [
            "a.c [+]",
            "b.c [+]",
            "d.c [+]",
            "sub/c.lua [+]",
        ]
        assert search(vim, "nothing")["summary"]["buffers"] == 4


def test_only_files_of_the_tree_are_sent(nvim: str, root: Path) -> None:
    """Never an error, whatever kinds of buffers there are."""
    outside = root.parent / "outside.c"
    with editor(nvim, root, "a.c") as vim:
        vim.lua(
            """
            local outside = ...
            local function buffer(name, option)
              vim.cmd.enew({ bang = true })
              if name then vim.api.nvim_buf_set_name(0, name) end
              vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'needle' })
              if option then vim.bo.buftype = option end
              vim.bo.modified = true
            end
            vim.o.hidden = true
            buffer(nil)
            buffer('sub/scratch', 'nofile')
            buffer('sub/written', 'acwrite')
            buffer('oil://' .. vim.fn.getcwd() .. '/sub/', 'acwrite')
            for _, scheme in ipairs({ 'oil', 'fugitive', 'http', 'zipfile', 'term' }) do
              buffer(scheme .. '://' .. vim.fn.getcwd() .. '/a.c')
            end
            buffer(outside)
            vim.cmd('help | split | terminal echo needle')
            vim.cmd('copen')
            """,
            str(outside),
        )
        assert found(vim, "needle") == []
        assert held(root) == 0
        assert vim.notices() == []
        vim.command("setlocal buftype= | wincmd p | edit! b.c")
        vim.lua(SET, "needle")
        assert found(vim, "needle") == [("b.c [+]", 1, "needle\n")]
        vim.command("setlocal buftype=nofile")
        assert found(vim, "needle|other") == [("b.c", 1, "int other;\n")]


def test_links_lead_to_their_files(nvim: str, root: Path) -> None:
    (root / "link.c").symlink_to("a.c")
    (root / "way").symlink_to("sub")
    (root / "dangling.c").symlink_to("sub/made.c")
    (root / "out.c").symlink_to(root.parent / "outside.c")
    with editor(nvim, root, "link.c") as vim:
        vim.lua(SET, "needle 1")
        assert found(vim, "needle") == [("a.c [+]", 1, "needle 1\n")]
        vim.command("edit way/c.lua")
        vim.lua(SET, "needle 2")
        vim.command("edit dangling.c")
        vim.lua(SET, "needle 3")
        vim.command("edit out.c")
        vim.lua(SET, "needle 4")
        assert found(vim, "needle") == [
            ("a.c [+]", 1, "needle 1\n"),
            ("sub/c.lua [+]", 1, "needle 2\n"),
            ("sub/made.c [+]", 1, "needle 3\n"),
        ]
        assert [path for path, _, _ in found(vim, "needle", paths=["link.c", "way"])] == [
            "link.c [+]",
            "way/c.lua [+]",
            "way/made.c [+]",
        ]


def test_of_two_buffers_of_one_file_the_one_changed_last_counts(nvim: str, root: Path) -> None:
    with editor(nvim, root, "sub/new.c") as vim:
        vim.lua(SET, "needle first")
        # Neovim resolves what is there, so the link comes later.
        vim.command("edit way/new.c")
        (root / "way").symlink_to("sub")
        vim.lua(SET, "needle second")
        assert vim.lua("return vim.fn.bufnr('sub/new.c') ~= vim.fn.bufnr('way/new.c')")
        for _ in range(2):
            assert found(vim, "needle") == [("sub/new.c [+]", 1, "needle second\n")]
        vim.command("buffer sub/new.c")
        vim.lua(SET, "needle third")
        assert found(vim, "needle") == [("sub/new.c [+]", 1, "needle third\n")]
        vim.command("bwipeout!")
        assert found(vim, "needle") == [("sub/new.c [+]", 1, "needle second\n")]
        assert held(root) == 1


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("file sub/renamed.c", [("sub/renamed.c [+]", 1, "needle\n")]),
        ("saveas sub/renamed.c", [("sub/renamed.c", 1, "needle\n")]),
        ("write", [("a.c", 1, "needle\n")]),
        ("noautocmd write", [("a.c", 1, "needle\n")]),
        ("write sub/copy.c", [("a.c [+]", 1, "needle\n"), ("sub/copy.c", 1, "needle\n")]),
        ("1write sub/part.c", [("a.c [+]", 1, "needle\n"), ("sub/part.c", 1, "needle\n")]),
        ("write >> b.c", [("a.c [+]", 1, "needle\n"), ("b.c", 2, "needle\n")]),
        ("edit!", []),
        ("bunload!", []),
        ("bdelete!", []),
        ("bwipeout!", []),
        ("noautocmd bwipeout!", []),
        ("setlocal nomodified", []),
        ("setlocal buftype=nowrite", []),
        ("file /somewhere/else.c", []),
        ("file oil://a.c", []),
        ("hide enew", [("a.c [+]", 1, "needle\n")]),
        ("setlocal nobuflisted", [("a.c [+]", 1, "needle\n")]),
    ],
)
@pytest.mark.parametrize("way", ["asked", "others"])
def test_what_becomes_of_a_buffer(
    nvim: str, root: Path, command: str, after: list[tuple[str, int, str]], way: str
) -> None:
    """Seen by the next search, and without one by others who ask the server."""
    config = "{ unsaved_debounce_ms = 100000 }" if way == "asked" else "{}"
    with editor(nvim, root, "a.c", config=config) as vim:
        vim.command("set hidden | badd b.c")
        vim.lua(SET, "needle")
        assert found(vim, "needle|disk", globs=["*.c"]) == [("a.c [+]", 1, "needle\n")]
        vim.command(command)
        if way == "asked":
            assert found(vim, "needle") == after
        else:
            marks = {"disk": "", "buffer": " [+]"}
            vim.wait(
                lambda: (
                    [path + marks[source] for path, source in seen_by_others(root, "needle")]
                    == [path for path, _, _ in after]
                )
            )
        # Nothing of the old text is left behind under the old name.
        if not any(path.startswith("a.c") for path, _, _ in after) and command != "write":
            assert [path for path, _, _ in found(vim, "disk", globs=["*.c"])] == ["a.c"]


def test_changes_of_options_alone(nvim: str, root: Path) -> None:
    """They make a buffer modified, and change its bytes, with no change of the text."""
    with editor(nvim, root, "a.c") as vim:
        vim.command("set fileformat=dos")
        assert found(vim, r"disk;\r$") == [("a.c [+]", 1, "int disk;\r\n")]
        vim.command("set fileformat=unix")
        assert found(vim, r"disk;\r$") == []
        vim.lua(SET, "caf\u00e9")
        assert found(vim, "caf\u00e9") == [("a.c [+]", 1, "caf\u00e9\n")]
        vim.command("set fileencoding=latin1")
        assert found(vim, "caf\u00e9") == []
        assert len(found(vim, r"(?-u)caf\xe9")) == 1
        vim.command("set nofixendofline noendofline fileencoding=utf-8")
        assert found(vim, "caf") == [("a.c [+]", 1, "caf\u00e9")]


def test_whose_buffers_are_searched(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as one, editor(nvim, root, "b.c") as two:
        one.lua(SET, "needle one")
        two.lua(SET, "needle two")
        assert found(one, "needle") == [("a.c [+]", 1, "needle one\n")]
        assert found(two, "needle") == [("b.c [+]", 1, "needle two\n")]
        assert found(one, "needle") == [("a.c [+]", 1, "needle one\n")]
        assert found(one, "needle", buffers="none") == []
        both = [("a.c [+]", 1, "needle one\n"), ("b.c [+]", 1, "needle two\n")]
        assert found(one, "needle", buffers="all") == both
        one.command("IndexGrep --buffers=all needle")
        one.wait(lambda: len(one.quickfix()) == 2)
        one.command("IndexGrep needle")
        one.wait(lambda: len(one.quickfix()) == 1)
        one.command("IndexGrep --buffers=none needle")
        one.wait(lambda: "(0 lines in 0 files)" in one.quickfix_title())
        with Client(root, start=False) as client:
            assert list(client.search("needle")) == []
            assert list(client.search("needle", buffers="own")) == []


def test_a_killed_editor_leaves_nothing_behind(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as one, editor(nvim, root, "b.c") as two:
        one.lua(SET, "needle one")
        assert len(found(one, "needle")) == 1
        assert found(two, "needle", buffers="all") == [("a.c [+]", 1, "needle one\n")]
        os.kill(one.lua("return vim.uv.os_getpid()"), signal.SIGKILL)
        two.wait(lambda: held(root) == 0)
        assert found(two, "needle|disk", buffers="all", globs=["*.c"]) == [("a.c", 1, "int disk;\n")]


def test_others_see_what_is_typed_without_a_search(nvim: str, root: Path) -> None:
    """Also what is changed from Lua in a buffer that nobody looks at."""
    with editor(nvim, root, "a.c") as vim:
        vim.lua("vim.fn.bufload(vim.fn.bufadd('b.c'))")
        assert found(vim, "needle") == []
        vim.keys("oneedle<Esc>")
        vim.wait(lambda: seen_by_others(root, "needle") == [("a.c", "buffer")])
        vim.keys("Aneedle")  # and goes on in Insert mode
        vim.wait(lambda: seen_by_others(root, "needleneedle") == [("a.c", "buffer")])
        vim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('b.c'), 0, -1, false, { 'hidden' })")
        vim.wait(lambda: seen_by_others(root, "hidden") == [("b.c", "buffer")])
        vim.keys("<Esc>")
        vim.command("edit new.c")
        vim.keys("ilater<Esc>")
        vim.wait(lambda: seen_by_others(root, "later") == [("new.c", "buffer")])


def test_a_server_that_others_started_after_a_kill_is_told_while_typing(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.lua(SET, "needle one")
        assert len(found(vim, "needle")) == 1
        os.kill(lifecycle.server_status(root)["pid"], signal.SIGKILL)  # type: ignore[index]
        lifecycle.ensure_server(root, 30)
        vim.keys("Aneedle two<Esc>")
        vim.wait(lambda: seen_by_others(root, "oneneedle two") == [("a.c", "buffer")])
        assert vim.notices() == []


def test_what_was_changed_before_the_first_search_is_sent_when_a_session_opens(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.lua(SET, "needle")
        lifecycle.ensure_server(root, 30)
        vim.command("IndexGrepStatus")
        vim.wait(lambda: seen_by_others(root, "needle") == [("a.c", "buffer")])


def test_nothing_is_loaded_or_started_before_the_first_search(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.keys("ccneedle<Esc>:write<CR>")
        vim.lua("vim.wait(100)")
        loaded = (
            "return vim.tbl_filter(function(n) return n:find('^indexgrep') end, vim.tbl_keys(package.loaded))"
        )
        autocommands = "return #vim.api.nvim_get_autocmds({ group = 'indexgrep_buffers' })"
        assert vim.lua(loaded) == []
        assert not vim.lua("return (pcall(vim.api.nvim_get_autocmds, { group = 'indexgrep_buffers' }))")
        assert lifecycle.server_status(root) is None
        assert len(found(vim, "needle")) == 1
        assert vim.lua(autocommands) > 0
        lifecycle.stop_server(root)
        vim.keys("ccneedle 2<Esc>:write<CR>")
        vim.lua("vim.wait(100)")
        assert lifecycle.server_status(root) is None
        assert vim.notices() == []


@pytest.mark.parametrize("how", ["kill", "stop", "restart"])
def test_a_new_server_gets_everything_again(nvim: str, root: Path, how: str) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.lua(SET, "needle a")
        vim.command("edit b.c")
        vim.lua(SET, "needle b")
        assert len(found(vim, "needle")) == 2
        if how == "kill":
            os.kill(lifecycle.server_status(root)["pid"], signal.SIGKILL)  # type: ignore[index]
        elif how == "stop":
            lifecycle.stop_server(root)
        else:
            vim.command("IndexGrepServer restart")
            vim.wait(lambda: any("is running" in notice for notice in vim.notices()))
        assert found(vim, "needle") == [("a.c [+]", 1, "needle a\n"), ("b.c [+]", 1, "needle b\n")]


def test_each_buffer_goes_to_the_servers_whose_root_holds_it(nvim: str, root: Path) -> None:
    inner = root / "sub"
    git_init(inner)
    other = root.parent / "other"
    git_init(other)
    (other / "o.c").write_text("int o;\n")
    try:
        with editor(nvim, root, "sub/c.lua") as vim:
            vim.lua(SET, "needle c")
            vim.command(f"edit {other / 'o.c'}")
            vim.lua(SET, "needle o")
            assert found(vim, "needle", root=str(root)) == [("sub/c.lua [+]", 1, "needle c\n")]
            assert found(vim, "needle", root=str(inner)) == [("c.lua [+]", 1, "needle c\n")]
            assert found(vim, "needle", root=str(other)) == [("o.c [+]", 1, "needle o\n")]
            assert [held(tree) for tree in (root, inner, other)] == [1, 1, 1]
            vim.command("buffer sub/c.lua")
            vim.lua(SET, "needle again")
            for tree, path in ((root, "sub/c.lua"), (inner, "c.lua")):
                vim.wait(lambda tree=tree, path=path: seen_by_others(tree, "again") == [(path, "buffer")])
            vim.command("write")
            for tree, path in ((root, "sub/c.lua"), (inner, "c.lua")):
                assert found(vim, "again", root=str(tree)) == [(path, 1, "needle again\n")]
    finally:
        for tree in (inner, other):
            lifecycle.stop_server(tree)


def test_turned_off(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c", config="{ unsaved = false }") as vim:
        vim.lua(SET, "needle")
        assert found(vim, "needle") == []
        vim.lua("vim.wait(100)")
        assert held(root) == 0
        assert len(found(vim, "needle", buffers="own")) == 1
        assert found(vim, "needle") == []
        vim.lua("vim.g.indexgrep = vim.tbl_extend('force', vim.g.indexgrep, { unsaved = true })")
        assert len(found(vim, "needle")) == 1
        vim.lua("vim.g.indexgrep = vim.tbl_extend('force', vim.g.indexgrep, { unsaved = false })")
        vim.keys("ox<Esc>")
        vim.wait(lambda: held(root) == 0)


def test_a_large_buffer_comes_in_parts_and_only_for_a_search(nvim: str, root: Path) -> None:
    with editor(nvim, root, "large.txt") as vim:
        assert found(vim, "needle") == []
        vim.lua(
            """
            local lines = vim.fn.map(vim.fn.range(200000), '"a line of some length, " .. v:val')
            lines[150000] = 'the needle'
            vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
            """
        )
        vim.lua("vim.wait(300)")
        assert held(root) == 0
        assert found(vim, "needle") == [("large.txt [+]", 150_000, "the needle\n")]
        assert len(search(vim, "^a line of some length, [0-9]+$", limit=10)["lines"]) == 10
        # It is not held when it is outdated either.
        assert seen_by_others(root, "the needle") == [("large.txt", "buffer")]
        vim.keys("ccchanged<Esc>")
        vim.wait(lambda: held(root) == 0)
        assert len(found(vim, "the needle|^changed")) == 2
        vim.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { ('x'):rep(9 * 1024 * 1024) .. 'needle' })")
        assert [(path, number) for path, number, _ in found(vim, "xneedle$")] == [("large.txt [+]", 1)]


def test_a_huge_buffer_is_named_once_and_its_file_searched(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as vim:
        vim.lua(SET, "needle")
        assert len(found(vim, "needle")) == 1
        vim.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'needle', ('x'):rep(17 * 1024 * 1024) })")
        for _ in range(2):
            assert found(vim, "needle|disk", globs=["*.c"]) == [("a.c", 1, "int disk;\n")]
        vim.wait(lambda: held(root) == 0)
        assert len(vim.notices()) == 1
        assert f"{root / 'a.c'} has more than 16 MiB" in vim.notices()[0]
        vim.lua(SET, "needle")
        assert found(vim, "needle") == [("a.c [+]", 1, "needle\n")]


def test_what_does_not_fit_beside_the_others_is_named_once(nvim: str, root: Path) -> None:
    """64 MiB together are the server's limit; there is room again when others are written."""
    with editor(nvim, root) as vim:
        vim.lua(
            """
            for number = 1, 5 do
              vim.cmd.edit(number .. '.txt')
              vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'needle', ('x'):rep(15 * 1024 * 1024) })
            end
            """
        )
        for _ in range(2):
            assert len(found(vim, "needle")) == 4
        assert len(vim.notices()) == 1
        assert "64 MiB together" in vim.notices()[0]
        vim.command("bwipeout! 1.txt | bwipeout! 2.txt")
        assert len(found(vim, "needle")) == 3


def test_a_search_does_not_wait_for_somebody_to_stop_typing(nvim: str, root: Path) -> None:
    """A large buffer that changes faster than it can be gathered in slices is sent all the same."""
    with editor(nvim, root, "large.txt") as vim:
        vim.lua(
            """
            vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn.map(vim.fn.range(300000), '"line " .. v:val'))
            _G.typed = 0
            _G.typist = vim.uv.new_timer()
            _G.typist:start(0, 1, vim.schedule_wrap(function()
              _G.typed = _G.typed + 1
              vim.api.nvim_buf_set_lines(0, 0, 1, false, { 'needle ' .. _G.typed })
            end))
            """
        )
        for _ in range(3):
            before = vim.lua("return _G.typed")
            ((path, _, text),) = found(vim, "needle")
            assert path == "large.txt [+]"
            assert int(text.split()[1]) >= before
        vim.lua("_G.typist:stop()")


#: Keeps every state of the current buffer from now on, until another is kept.
_KEEP_STATES = """
local buf = vim.api.nvim_get_current_buf()
local states = {}
_G.states = states
local function keep()
  table.insert(states, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
end
keep()
vim.api.nvim_buf_attach(buf, false, {
  on_lines = function()
    if states ~= _G.states then
      return true
    end
    keep()
  end,
})
_G.search(..., '^.*$')
"""


@pytest.mark.parametrize("seed", range(4))
def test_typing_race(nvim: str, root: Path, seed: int) -> None:
    """Keys at random moments, before a search and after: the answer has the text as it was when it was asked,
    or as it became since, and never one from before.
    """
    rng = random.Random(seed)
    names = ["a.c", "b.c", "sub/new.c"]
    with editor(nvim, root, *names) as vim:
        vim.command("set hidden autoindent")
        if seed % 2:
            found(vim, "x")  # else the first search starts the server
        for round_ in range(30):
            name = rng.choice(names)
            vim.command(f"buffer {name}")
            vim.keys(rng.choice(["G", "gg"]))
            for key in rng.choice("oOASi") + f"w{round_}":
                vim.keys(key)
                time.sleep(rng.choice([0, 0, 0.002, 0.02]))
            vim.keys(rng.choice(["<Esc>", ""]))
            number = next(_ids)
            vim.lua(_KEEP_STATES, number)
            for _ in range(rng.randrange(3)):
                vim.keys(rng.choice(["x", "<Esc>u", "<Esc>dd", "<Esc>:silent write<CR>", "<CR>more"]))
                time.sleep(rng.choice([0, 0.002, 0.02]))
            answer = vim.wait(lambda number=number: vim.lua("return _G.answers[...]", number), 30)
            text = [line[2].removesuffix("\n") for line in answer["lines"] if line[0] == name]
            # An empty buffer has one empty line in the editor, and none when it is written.
            assert (text or [""]) in vim.lua("return _G.states"), f"round {round_}"
            vim.keys("<Esc>")
        assert vim.notices() == []


def test_saving_and_typing_wait_for_no_server(nvim: str, root: Path) -> None:
    """The server stands still: the editor goes on, and does not pile up what nobody takes. What was done is
    searched when the server goes on.
    """
    memory = "collectgarbage(); return collectgarbage('count') / 1024"
    with editor(nvim, root, "a.c", config="{ unsaved_debounce_ms = 1 }") as vim:
        assert found(vim, "needle") == []
        before = vim.lua(memory)
        pid = lifecycle.server_status(root)["pid"]  # type: ignore[index]
        os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(50):
                vim.lua(SET, *(["x" * 10_000] * 50), f"needle {number}")
                vim.command("silent write")
                vim.lua(SET, *(["y" * 10_000] * 50), f"needle {number} unsaved")
                vim.lua("vim.wait(10)")  # long enough for the text of half a megabyte to go
            vim.command("edit! b.c")
            vim.lua(SET, "needle b")
            assert vim.lua(memory) - before < 8
        finally:
            os.kill(pid, signal.SIGCONT)
        assert found(vim, "needle") == [
            ("a.c [+]", 51, "needle 49 unsaved\n"),
            ("b.c [+]", 1, "needle b\n"),
        ]
        assert vim.notices() == []


def marks(vim: Editor) -> list[dict[str, Any]]:
    items = vim.lua("return vim.fn.getqflist()")
    return [{key: item[key] for key in ("bufnr", "lnum", "col", "type", "text")} for item in items]


def test_results_are_marked_and_lead_to_the_buffer(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c", size=(100, 30)) as vim:
        vim.keys("O// above<Esc>jjoint unsaved_disk;<Esc>gg")
        vim.command("IndexGrep disk")
        vim.wait(lambda: vim.shows("a.c [+]:2:5: int disk;"))
        vim.wait(lambda: vim.shows("a.c [+]:4:13: int unsaved_disk;"))
        vim.wait(lambda: vim.shows("sub/c.lua:1:7: local disk = 1"))
        vim.wait(lambda: vim.shows("3 lines in 2 files, 1 unsaved buffer searched"))
        # The preview shows the buffer, under a title that says so.
        vim.wait(lambda: vim.shows("1 // above") and vim.shows("┌ a.c [+] ─"))
        # Path, mark and position have a colour each.
        vim.keys("j")
        path, mark, number = vim.lua(
            """
            vim.cmd.redraw()
            return vim.tbl_map(function(column)
              local at = vim.fn.screenpos(0, 1, column)
              return vim.fn.screenattr(at.row, at.col)
            end, { 1, 5, 8 })
            """
        )
        assert len({path, mark, number}) == 3
        vim.wait(lambda: vim.shows("4 int unsaved_disk;"))
        vim.keys("<CR>")
        vim.wait(lambda: vim.lua("return vim.api.nvim_get_current_line()") == "int unsaved_disk;")
        assert tuple(vim.api.current.window.cursor) == (4, 12)
        buffer = vim.api.current.buffer.number
        assert [(item["type"], item["bufnr"] == buffer) for item in marks(vim)] == [
            ("+", True),
            ("+", True),
            ("", False),
        ]
        vim.command("cfirst")
        assert tuple(vim.api.current.window.cursor) == (2, 4)
        vim.command("copen")
        vim.wait(lambda: vim.shows("a.c|2 col 5-9 +| int disk;"))
        assert "1 unsaved buffer searched" in vim.quickfix_title()


def test_a_buffer_without_a_file_is_shown_and_opened(nvim: str, root: Path) -> None:
    (root / "way").symlink_to("sub")
    with editor(nvim, root, "way/new.c", size=(100, 30)) as vim:
        vim.keys("ifirst<CR>needle<Esc>gg")
        buffer = vim.api.current.buffer.number
        vim.command("IndexGrep needle")
        vim.wait(lambda: vim.shows("sub/new.c [+]:2:1: needle"))
        vim.wait(lambda: vim.shows("1 first"))
        vim.keys("<CR>")
        vim.wait(lambda: tuple(vim.api.current.window.cursor) == (2, 0))
        assert vim.api.current.buffer.number == buffer
        assert [item["bufnr"] for item in marks(vim)] == [buffer]
        assert vim.notices() == []


@pytest.mark.parametrize(
    ("options", "lines", "at"),
    [
        ("fileformat=mac", ["caf", "x", "needle é needle"], (3, 0)),
        ("fileformat=dos", ["x", "", "a needle"], (3, 2)),
        ("fileencoding=latin1", ["x", "äöü needle"], (2, 7)),
        ("fileencoding=cp932", ["x", "日本 needle"], (2, 7)),
        ("fileencoding=utf-16le bomb", ["日本", "日本 needle"], (2, 7)),
        ("fileencoding=utf-8 bomb", ["é needle", ""], (1, 3)),
        ("fileencoding=latin1", ["x" * 3000 + "é needle" + "y" * 3000], (1, 3003)),
    ],
)
def test_jumps_go_to_the_place_in_the_buffer(
    nvim: str, root: Path, options: str, lines: list[str], at: tuple[int, int]
) -> None:
    """Whatever the bytes of the file make of it."""
    with editor(nvim, root, "a.c", size=(100, 30)) as vim:
        vim.command(f"set {options}")
        vim.lua(SET, *lines)
        vim.command("IndexGrep needle")
        vim.wait(lambda: vim.shows("a.c [+]:1:") or vim.shows(f"a.c [+]:{at[0]}:"))
        vim.wait(lambda: "needle" in "\n".join(vim.screen()[12:]))
        vim.wait(lambda: (items := marks(vim)) and (items[0]["lnum"], items[0]["col"] - 1) == at)
        vim.keys("<CR>")
        vim.wait(lambda: tuple(vim.api.current.window.cursor) == at)
        vim.command("normal! G0")
        vim.command("silent cfirst")
        assert tuple(vim.api.current.window.cursor) == at


def test_the_preview_follows_the_buffer(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c", size=(100, 30)) as vim:
        vim.lua("vim.fn.setline(1, vim.fn.map(vim.fn.range(1, 30000), '\"line \" .. v:val'))")
        vim.lua(
            "vim.g.indexgrep = vim.tbl_extend('force', vim.g.indexgrep, { preview = { max_bytes = 10000 } })"
        )
        vim.command("IndexGrep line (1|15000|30000)$")
        vim.wait(lambda: vim.shows("3 lines in 1 file"))
        vim.keys("G")
        vim.wait(lambda: vim.shows("30000 line 30000"))
        vim.keys("k")
        vim.wait(lambda: vim.shows("15000 line 15000") and vim.shows("14999 line 14999"))
        longest = "local most = 0; for _, buf in ipairs(vim.api.nvim_list_bufs()) do if buf ~= ... then"
        longest += " most = math.max(most, vim.api.nvim_buf_line_count(buf)) end end; return most"
        assert vim.lua(longest, vim.lua("return vim.fn.bufnr('a.c')")) < 3000
        vim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('a.c'), 14998, 14999, false, { 'changed since' })")
        vim.keys("k")
        vim.wait(lambda: vim.shows(" 2 line 2"))
        vim.keys("j")
        vim.wait(lambda: vim.shows("14999 changed since"))


def test_the_text_of_another_editor_is_not_taken_for_the_file(nvim: str, root: Path) -> None:
    with editor(nvim, root, "a.c") as one, editor(nvim, root, "b.c", size=(100, 30)) as two:
        one.lua(SET, "int other;", "needle")
        one.command("edit new.c")
        one.lua(SET, "needle")
        assert len(found(one, "needle")) == 2
        two.command("IndexGrep --buffers=all needle")
        two.wait(lambda: two.shows("a.c [+]:2:1: needle"))
        two.wait(lambda: two.shows("This is the unsaved text of another editor."))
        two.keys("G<CR>")
        two.wait(two.notices)
        assert "new.c is another editor's, who has not written it yet" in two.notices()[0]
        two.command("cfirst")
        assert two.api.current.buffer.name.endswith("/a.c")


def test_checkhealth_tells_of_unsaved_buffers(nvim: str, root: Path) -> None:
    def report(vim: Editor) -> str:
        vim.command("checkhealth indexgrep")
        text = "\n".join(vim.api.current.buffer[:])
        vim.command("bwipeout!")
        assert "ERROR" not in text
        return text

    with editor(nvim, root, "a.c") as vim:
        assert "Unsaved buffers are searched as they stand; no search has needed them yet." in report(vim)
        vim.lua(SET, "needle")
        assert len(found(vim, "needle")) == 1
        assert f"1 unsaved buffer is with the server for {root}" in report(vim)
        assert "also   1 unsaved buffer" in report(vim)
        vim.lua("vim.g.indexgrep = vim.tbl_extend('force', vim.g.indexgrep, { unsaved = false })")
        assert "Unsaved buffers are not searched (vim.g.indexgrep.unsaved is false)." in report(vim)
