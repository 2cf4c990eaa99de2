"""The results window on a real screen: its keys, its preview, odd files, odd sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indexgrep import runtime
from support.editor import Editor, write_init
from support.fake_server import FakeQuery, FakeServer, file_result

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(60)]

FILES = {
    "a.c": b"int foo;\nint x;\nfoo();\n",
    "sub/b.lua": b"local foo = 2\nreturn foo\n",
}
RESULTS = [
    file_result("a.c", (1, b"int foo;\n", [(4, 7)]), (3, b"foo();\n", [(0, 3)])),
    file_result("sub/b.lua", (1, b"local foo = 2\n", [(6, 9)]), (2, b"return foo\n", [(7, 10)])),
]


@contextmanager
def window(
    nvim: str,
    root: Path,
    files: dict[str, bytes] | None = None,
    results: list[dict[str, Any]] | None = None,
    *,
    size: tuple[int, int] = (100, 30),
    config: str = "",
) -> Iterator[Editor]:
    """An editor in which ``:IndexGrep foo`` has ended with these results."""
    (root / ".git").mkdir()
    for name, data in (FILES if files is None else files).items():
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def play(query: FakeQuery) -> None:
        query.results(RESULTS if results is None else results)
        query.done()

    init = write_init(root / ".git" / "init.lua", config)
    with (
        FakeServer(runtime.socket_path(root), play),
        Editor(nvim, init, cwd=root, size=size) as editor,
    ):
        editor.command("IndexGrep foo")
        editor.wait(lambda: "searching" not in editor.quickfix_title())
        yield editor


def at(editor: Editor) -> tuple[str, tuple[int, int]]:
    """The file and the position of the cursor."""
    name = editor.api.current.buffer.name
    line, column = editor.api.current.window.cursor
    return os.path.basename(name), (line, column)


def floats(editor: Editor) -> int:
    return int(
        editor.lua(
            "return #vim.tbl_filter(function(w) return vim.api.nvim_win_get_config(w).relative ~= '' end,"
            " vim.api.nvim_list_wins())"
        )
    )


def gone(editor: Editor) -> bool:
    """The window is closed and has left no buffer of its own behind."""
    unnamed = editor.lua(
        "return #vim.tbl_filter(function(b) return vim.bo[b].buftype == 'nofile' end,"
        " vim.api.nvim_list_bufs())"
    )
    return floats(editor) == 0 and unnamed == 0


@pytest.mark.parametrize("size", [(100, 30), (160, 40), (60, 16), (20, 6)])
def test_list_and_preview_fit_the_screen(nvim: str, short_tmp: Path, size: tuple[int, int]) -> None:
    with window(nvim, short_tmp, size=size) as editor:
        screen = editor.wait(lambda: editor.shows("a.c:1:5") and editor.screen())
        if size[0] >= 60:
            editor.wait(lambda: editor.shows("sub/b.lua:2:8: return foo"))
            editor.wait(lambda: editor.shows("4 lines in 2 files"))
        if size[1] >= 30:
            editor.wait(lambda: editor.shows("1 int foo;"))
            # The preview is beside the list on a wide screen and below it on a narrow one.
            beside = any("a.c:1:5" in line and "1 int foo;" in line for line in editor.screen())
            assert beside == (size[0] >= 140)
        assert len(screen) == size[1]
        editor.keys("q")
        editor.wait(lambda: gone(editor))
        assert editor.lua("return vim.v.errmsg") == ""


@pytest.mark.parametrize(
    ("key", "windows", "tabs"), [("<CR>", 1, 1), ("<C-s>", 2, 1), ("<C-v>", 2, 1), ("<C-t>", 1, 2)]
)
def test_keys_that_open(nvim: str, short_tmp: Path, key: str, windows: int, tabs: int) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys("jjj" + key)
        editor.wait(lambda: at(editor) == ("b.lua", (2, 7)))
        assert gone(editor)
        assert len(editor.api.current.tabpage.windows) == windows
        assert len(editor.api.tabpages) == tabs
        assert editor.lua("return vim.fn.getqflist({ idx = 0 }).idx") == 4
        assert editor.lua("return vim.bo.filetype") == "lua"
        assert len(editor.lua("return vim.fn.getbufinfo({ buflisted = 1 })")) <= 2
        editor.command("cprevious")
        assert at(editor) == ("b.lua", (1, 6))


def test_back_from_a_jump(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys("j<CR>")
        editor.wait(lambda: at(editor) == ("a.c", (3, 0)))
        editor.command("IndexGrep foo")
        editor.wait(lambda: editor.shows("sub/b.lua:2:8"))
        editor.keys("G<CR>")
        editor.wait(lambda: at(editor) == ("b.lua", (2, 7)))
        editor.keys("<C-o>")
        editor.wait(lambda: at(editor) == ("a.c", (3, 0)))


def test_quickfix_key_leaves_the_list(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys("jj<C-q>")
        editor.wait(lambda: editor.lua("return vim.bo.buftype") == "quickfix")
        assert floats(editor) == 0
        assert at(editor)[1][0] == 3
        editor.wait(lambda: editor.shows("sub/b.lua|1 col 7-10| local foo = 2"))
        context = editor.lua("return vim.fn.getqflist({ context = 0 }).context")
        assert context["indexgrep"]["request"]["pattern"] == "foo"
        assert context["indexgrep"]["root"] == str(short_tmp.resolve())
        # From the list, a new search opens files in the window for files.
        editor.command("IndexGrep foo")
        editor.wait(lambda: editor.shows("sub/b.lua:2:8"))
        editor.keys("<CR>")
        editor.wait(lambda: at(editor) == ("a.c", (1, 4)))
        assert len(editor.api.current.tabpage.windows) == 2


def test_moving_moves_the_preview(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.wait(lambda: editor.shows("1 int foo;"))
        editor.keys("G")
        editor.wait(lambda: editor.shows("1 local foo = 2"))
        current = editor.lua(
            """
            local marks = {}
            for _, win in ipairs(vim.api.nvim_list_wins()) do
              local ns = vim.api.nvim_get_namespaces().indexgrep_preview
              for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(vim.api.nvim_win_get_buf(win), ns, 0, -1,
                  { details = true })) do
                table.insert(marks, { mark[2], mark[3], mark[4].end_col, mark[4].hl_group })
              end
            end
            return marks
            """
        )
        assert sorted(current) == [
            [0, 6, 9, "IndexGrepPreviewMatch"],
            [1, 7, 10, "IndexGrepPreviewCurrent"],
        ]
        # A parser for Lua ships with Neovim.
        assert editor.lua(
            "return #vim.tbl_filter(function(b) return vim.treesitter.highlighter.active[b] ~= nil end,"
            " vim.api.nvim_list_bufs()) == 1"
        )


def test_resize(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        for size in ((160, 40), (50, 10), (100, 30)):
            editor.api.ui_try_resize(*size)
            editor.wait(lambda size=size: editor.lua("return vim.o.columns") == size[0])
            editor.wait(lambda: editor.shows("a.c:1:5") and editor.shows("4 lines in 2 files"))
            assert floats(editor) == (1 if size[1] == 10 else 2)
        editor.wait(lambda: editor.shows("1 int foo;"))


@pytest.mark.parametrize(
    "close", ["close", "preview", "other", "both", "only", "tab", "wipe"], ids=lambda name: str(name)
)
def test_windows_closed_in_odd_ways(nvim: str, short_tmp: Path, close: str) -> None:
    with window(nvim, short_tmp) as editor:
        editor.lua(
            """
            local preview
            for _, win in ipairs(vim.api.nvim_list_wins()) do
              local config = vim.api.nvim_win_get_config(win)
              if config.relative ~= '' and win ~= vim.api.nvim_get_current_win() then preview = win end
            end
            local ways = {
              close = function() vim.cmd.close() end,
              preview = function() vim.api.nvim_win_close(preview, true); vim.cmd('normal! G') end,
              other = function() vim.cmd('1wincmd w') end,
              both = function() vim.api.nvim_win_close(preview, true); vim.cmd.close() end,
              only = function() vim.cmd('wincmd p | only') end,
              tab = function() vim.cmd.tabnew() end,
              wipe = function() vim.cmd('bwipeout!') end,
            }
            ways[...]()
            """,
            close,
        )
        editor.lua("vim.wait(150)")
        if close == "preview":
            assert floats(editor) == 1
            editor.keys("q")
        editor.wait(lambda: floats(editor) == 0)
        assert editor.lua("return vim.v.errmsg") == ""
        editor.command("IndexGrep foo")
        editor.wait(lambda: editor.shows("a.c:1:5"))


ODD_NAMES = [
    "new\nline.c",
    "with space.c",
    "percent%name#.c",
    "a:12:b.c",
    "-dash.c",
    "paren(1) [x] {y}.c",
    "dollar$HOME~`x`|y.c",
    "quote'\".c",
    "latin-\udce9.c",
    "ünï.c",
    "back\\slash*.c",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_file_names_open(nvim: str, short_tmp: Path, name: str) -> None:
    results = [file_result(name, (2, b"foo();\n", [(0, 3)]))]
    with window(nvim, short_tmp, {name: b"x\nfoo();\n"}, results) as editor:
        editor.wait(lambda: editor.shows(":2:1: foo();"))
        editor.wait(lambda: editor.shows("2 foo();"))
        editor.keys("<CR>")
        editor.wait(lambda: at(editor)[1] == (2, 0))
        assert editor.lua("return vim.api.nvim_get_current_line()") == "foo();"
        wanted = os.fsencode(short_tmp.resolve() / name)
        found = editor.lua("return vim.fn.sha256(vim.api.nvim_buf_get_name(0))")
        assert found == editor.lua("return vim.fn.sha256(...)", wanted)
        editor.command("enew | cfirst")
        assert editor.lua("return vim.api.nvim_get_current_line()") == "foo();"
        assert editor.lua("return #vim.fn.getqflist()") == 1


def preview_text(editor: Editor) -> str:
    return "\n".join(editor.screen()[12:])


@pytest.mark.parametrize(
    ("name", "data", "line", "shown"),
    [
        ("binary", b"foo\0\1\2", (1, b"foo\n", [(0, 3)]), "This is a binary file."),
        ("missing", None, (1, b"foo\n", [(0, 3)]), "No preview: ENOENT"),
        ("empty", b"", (1, b"foo\n", [(0, 3)]), ""),
        ("utf-16", "x\nfoo é\n".encode("utf-16"), (2, "foo é\n".encode(), [(0, 3)]), "2 foo é"),
        (
            "cut utf-16",
            "x\nfoo\n".encode("utf-16-be").join([b"\xfe\xff", b"\0"]),
            (2, b"foo\n", [(0, 3)]),
            "2 foo",
        ),
        (
            "half a pair",
            b"\xff\xfe" + "x\nfoo \0\n".encode("utf-16-le") + b"\x00\xd8\x00",
            (2, b"foo\n", [(0, 3)]),
            "2 foo",
        ),
        ("bom", b"\xef\xbb\xbffoo\n", (1, b"foo\n", [(0, 3)]), "1 foo"),
        ("latin-1", b"caf\xe9 foo\n", (1, b"caf\xe9 foo\n", [(5, 8)]), "caf<e9> foo"),
        ("crlf", b"a\r\nfoo\r\n", (2, b"foo\r\n", [(0, 3)]), "2 foo "),
    ],
)
def test_preview_of_odd_files(
    nvim: str,
    short_tmp: Path,
    name: str,
    data: bytes | None,
    line: tuple[int, bytes, list[tuple[int, int]]],
    shown: str,
) -> None:
    files = {} if data is None else {name: data}
    with window(nvim, short_tmp, files, [file_result(name, line)]) as editor:
        editor.wait(lambda: shown in preview_text(editor))
        assert "^M" not in "\n".join(editor.screen())
        assert editor.lua("return vim.v.errmsg") == ""


def test_preview_of_a_long_line_that_is_gone_shows_what_is_there(nvim: str, short_tmp: Path) -> None:
    results = [file_result("shrunk", (50, b"gone " + b"z" * 2000 + b"\n", [(0, 4)]))]
    with window(nvim, short_tmp, {"shrunk": b"only line\n"}, results) as editor:
        editor.wait(lambda: "only line" in preview_text(editor))
        assert "gone" not in preview_text(editor)


def test_preview_of_a_fifo_does_not_wait(nvim: str, short_tmp: Path) -> None:
    os.mkfifo(short_tmp / "pipe")
    with window(nvim, short_tmp, {}, [file_result("pipe", (1, b"foo\n", [(0, 3)]))]) as editor:
        editor.wait(lambda: "it is a fifo" in preview_text(editor))


def test_preview_of_one_line_of_10_megabytes(nvim: str, short_tmp: Path) -> None:
    text = b"x=1;" * 1_300_000 + b"var foo=1;" + b"y=2;" * 1_300_000
    column = text.index(b"foo")
    results = [file_result("min.js", (1, text, [(column, column + 3)]))]
    with window(nvim, short_tmp, {"min.js": text}, results) as editor:
        editor.wait(lambda: "x=1;var foo=1;y=2;" in preview_text(editor))
        assert any("min.js:1:" in row and "var foo=1;" in row for row in editor.screen())
        editor.keys("<CR>")
        editor.wait(lambda: at(editor) == ("min.js", (1, column)))


def test_preview_deep_in_a_large_file(nvim: str, short_tmp: Path) -> None:
    """Only what is around the match is read; the line numbers are the file's."""
    lines = [b"line %07d" % number for number in range(1, 1_000_001)]
    lines[699_999] = b"here is foo"
    data = b"\n".join(lines) + b"\n"
    offset = data.index(b"here is foo")
    result = file_result("large.txt", (700_000, b"here is foo\n", [(8, 11)]))
    result["lines"][0][1] = offset
    with window(nvim, short_tmp, {"large.txt": data}, [result]) as editor:
        editor.wait(lambda: "700000 here is foo" in preview_text(editor))
        assert "699999 line 0699999" in preview_text(editor)
        assert "700001 line 0700001" in preview_text(editor)
        assert (
            editor.lua(
                "local n = 0; for _, b in ipairs(vim.api.nvim_list_bufs()) do"
                " n = math.max(n, vim.api.nvim_buf_line_count(b)) end; return n"
            )
            < 15000
        )


def test_a_line_with_a_million_matches_is_bounded(nvim: str, short_tmp: Path) -> None:
    text = b"foo " * 100_000
    spans = [(start, start + 3) for start in range(0, len(text), 4)]
    with window(nvim, short_tmp, {"a.c": text}, [file_result("a.c", (1, text, spans))]) as editor:
        editor.wait(lambda: editor.shows("1 line in 1 file, 99900 matches more in long lines"))
        editor.wait(lambda: len(editor.quickfix()) == 100)
        assert all(len(entry[3]) < 700 for entry in editor.quickfix())


def test_many_matches_in_a_huge_line(nvim: str, short_tmp: Path) -> None:
    text = (b"x" * 997 + b"foo") * 20_000
    spans = [(start, start + 3) for start in range(997, len(text), 1000)]
    code = """
      local text, spans = ...
      local rows = {}
      local unshown = require('indexgrep.rows').add(
        { path = 'a', lines = { { 1, 0, text, spans, true } } }, rows)
      return { #rows, unshown, rows[100].col }
    """
    with window(nvim, short_tmp) as editor:
        rows, unshown, column = editor.lua(code, text, spans)
    assert (rows, unshown, column) == (100, 19_900, 99_997)


def test_each_line_of_a_block_has_its_matches(nvim: str, short_tmp: Path) -> None:
    text = b"foo\r\n" * 300
    spans = [(start, start + 5) for start in range(0, len(text), 5)]
    with window(nvim, short_tmp, {"a.c": text}, [file_result("a.c", (1, text, spans))]) as editor:
        entries = editor.quickfix()
        assert [(entry[1], entry[2], entry[3]) for entry in entries] == [(n, 1, "foo") for n in range(1, 301)]
        assert "more in long lines" not in editor.quickfix_title()


def test_match_over_several_lines(nvim: str, short_tmp: Path) -> None:
    block = b"int foo(\n  int x);\n"
    results = [file_result("a.c", (1, block, [(4, 17)]))]
    with window(nvim, short_tmp, {"a.c": block}, results) as editor:
        editor.wait(lambda: editor.shows("a.c:1:5: int foo("))
        item = editor.lua("return vim.fn.getqflist()[1]")
        assert (item["lnum"], item["col"], item["end_lnum"], item["end_col"]) == (1, 5, 2, 9)


def test_binary_and_unreadable_files_have_their_word(nvim: str, short_tmp: Path) -> None:
    results = [
        file_result("a.bin", binary_offset=7, count=1),
        file_result("secret", error="Permission denied"),
        *RESULTS,
    ]
    with window(nvim, short_tmp, results=results) as editor:
        editor.wait(lambda: editor.shows("a.bin: binary file matches (a NUL byte at offset 7)"))
        editor.wait(lambda: editor.shows("secret: Permission denied"))
        editor.wait(lambda: editor.shows("4 lines in 3 files, 1 unreadable"))
        types = editor.lua("return vim.tbl_map(function(i) return i.type end, vim.fn.getqflist())")
        assert types == ["I", "E", "", "", "", ""]


def test_control_characters_are_made_visible(nvim: str, short_tmp: Path) -> None:
    text = b"\x1b[31m\tfoo\0\x7f\n"
    with window(nvim, short_tmp, {"a.c": text}, [file_result("a.c", (1, text, [(6, 9)]))]) as editor:
        editor.wait(lambda: editor.shows("a.c:1:7: ^[[31m foo^@^?"))


def test_file_that_is_gone_is_one_message(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        (short_tmp / "a.c").unlink()
        editor.keys("<CR>")
        editor.wait(editor.notices)
        assert len(editor.notices()) == 1
        assert "a.c is gone" in editor.notices()[0]


def test_changed_buffer_and_no_hidden(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys("q")
        editor.wait(lambda: gone(editor))
        editor.lua("vim.o.hidden = false; vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'changed' })")
        editor.command("IndexGrep foo")
        editor.wait(lambda: editor.shows("a.c:1:5"))
        editor.keys("<CR>")
        editor.wait(editor.notices)
        assert "E37" in editor.notices()[0]
        assert editor.lua("return vim.api.nvim_get_current_line()") == "changed"


def test_swap_file_is_a_question_not_an_error(nvim: str, short_tmp: Path) -> None:
    swap = "vim.o.updatecount = 200; vim.o.swapfile = true; vim.o.directory = ..."
    with window(nvim, short_tmp) as editor:
        init = short_tmp / ".git" / "init.lua"
        with Editor(nvim, init, cwd=short_tmp) as other:
            other.lua(swap, str(short_tmp))
            other.command("edit a.c")
            other.lua("vim.api.nvim_buf_set_lines(0, 0, 1, false, { 'changed' }); vim.cmd.preserve()")
            # As a crashed editor leaves it: Neovim itself steps aside for one that runs on.
            pid = other.lua("return vim.uv.os_getpid()")
            os.kill(pid, 9)
            editor.wait(lambda: not Path(f"/proc/{pid}/exe").exists())
        editor.lua(swap, str(short_tmp))
        editor.lua("vim.fn.confirm = function(question) _G.asked = question; return 1 end")
        editor.keys("<CR>")
        editor.wait(lambda: at(editor) == ("a.c", (1, 4)))
        assert "swap file" in editor.lua("return _G.asked")
        assert editor.lua("return vim.bo.readonly")
        assert editor.notices() == []


def test_border_none_has_its_words_in_the_winbar(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp, config="vim.o.winborder = 'none'") as editor:
        editor.wait(lambda: editor.shows("IndexGrep foo  4 lines in 2 files"))
        assert not editor.shows("┌")


def test_winborder_is_respected(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp, config="vim.o.winborder = 'double'") as editor:
        editor.wait(lambda: editor.shows("╔"))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{ window = { border = 'nope' } }", "invalid border style"),
        ("{ window = { border = { 1 } } }", "invalid border char"),
        ("{ keys = { jump = '' } }", "Invalid (empty) LHS"),
    ],
)
def test_window_that_cannot_be_opened_is_one_message(
    nvim: str, short_tmp: Path, config: str, reason: str
) -> None:
    with window(nvim, short_tmp, config=f"vim.g.indexgrep = {config}") as editor:
        assert floats(editor) == 0
        editor.wait(lambda: len(editor.quickfix()) == 4)
        assert len(editor.notices()) == 1
        assert "the results go to the quickfix list" in editor.notices()[0]
        assert reason in editor.notices()[0]


def test_in_the_command_line_window(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys("q")
        editor.wait(lambda: gone(editor))
        editor.keys("q:")
        editor.wait(lambda: editor.lua("return vim.fn.getcmdwintype()") == ":")
        editor.keys(":IndexGrep bar<CR>")
        editor.wait(lambda: "bar (4 lines" in editor.quickfix_title())
        assert len(editor.notices()) == 1
        assert "E11: Invalid in command-line window" in editor.notices()[0]
        editor.keys(":quit<CR>")
        editor.wait(lambda: editor.lua("return vim.fn.getcmdwintype()") == "")


def test_to_the_command_line_window_and_back(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.keys(":<C-f>")
        editor.wait(lambda: editor.lua("return vim.fn.getcmdwintype()") == ":")
        editor.keys(":quit<CR>")
        editor.wait(lambda: editor.lua("return vim.fn.getcmdwintype()") == "")
        editor.wait(lambda: editor.lua("return vim.bo.filetype") == "indexgrep")
        assert editor.lua("return vim.v.errmsg") == ""
        editor.keys("j<CR>")
        editor.wait(lambda: at(editor) == ("a.c", (3, 0)))


def test_window_may_be_configured_away(nvim: str, short_tmp: Path) -> None:
    config = "vim.g.indexgrep = { window = { open = false } }"
    with window(nvim, short_tmp, config=config) as editor:
        assert floats(editor) == 0
        editor.wait(lambda: len(editor.quickfix()) == 4)


def test_a_search_from_a_list_is_of_the_same_tree(nvim: str, short_tmp: Path) -> None:
    with window(nvim, short_tmp) as editor:
        editor.command("cd /")
        root = "return require('indexgrep.root').current()"
        assert editor.lua(root) == str(short_tmp.resolve())
        editor.keys("<C-q>")
        editor.wait(lambda: editor.lua("return vim.bo.buftype") == "quickfix")
        assert editor.lua(root) == str(short_tmp.resolve())
        editor.command("call setqflist([], ' ', #{title: 'of something else'})")
        assert editor.lua(root) == "/"


def test_keys_may_be_changed(nvim: str, short_tmp: Path) -> None:
    config = "vim.g.indexgrep = { keys = { jump = { 'o', '<CR>' }, close = 'x', quickfix = false } }"
    with window(nvim, short_tmp, config=config) as editor:
        editor.keys("x")
        editor.wait(lambda: gone(editor))
        editor.command("IndexGrep foo")
        editor.wait(lambda: editor.shows("sub/b.lua:2:8"))
        editor.keys("o")
        editor.wait(lambda: at(editor) == ("a.c", (1, 4)))
