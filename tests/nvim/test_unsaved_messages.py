"""What the editor tells a server of its buffers and files, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indexgrep import runtime
from support.editor import Editor, write_init
from support.fake_server import FakeQuery, FakeServer, file_result

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(60)]

SET = "vim.api.nvim_buf_set_lines(0, 0, -1, false, { ... })"


def play(query: FakeQuery) -> None:
    query.results([file_result("a.c", (1, b"foo\n", [(0, 3)]))])
    query.done()


class Told:
    """An editor on ``a.c`` and the messages that its server got, without greetings."""

    def __init__(self, editor: Editor, server: FakeServer, root: Path) -> None:
        self.editor = editor
        self.server = server
        self.root = root
        self._seen = 0

    def messages(self) -> list[tuple[str, Any]]:
        """What came since the last call: method, and what it is about."""
        calls = [
            (method, params) for method, params in self.server.calls if method not in ("hello", "cancel")
        ]
        new = calls[self._seen :]
        self._seen = len(calls)
        return [(method, self._about(method, params)) for method, params in new]

    def _about(self, method: str, params: list[Any]) -> Any:
        if method == "search":
            return params[1]["patterns"][0]
        if method == "buffer":
            (fields,) = params
            assert isinstance(fields["text"], bytes)
            return [self._relative(fields["path"]), fields["text"].decode(), fields["more"]]
        if method in ("changed", "buffer_gone"):
            return [self._relative(path) for path in params[0]]
        return None

    def _relative(self, path: str) -> str:
        return str(Path(path).relative_to(self.root))

    def search(self, pattern: str = "foo") -> list[tuple[str, Any]]:
        """The messages up to a search that is made now."""
        before = self.server.count("search")
        self.editor.command(f"IndexGrep {pattern}")
        self.editor.wait(lambda: self.server.count("search") > before)
        return self.messages()

    def quiet(self) -> list[tuple[str, Any]]:
        """The messages of the next while."""
        self.editor.lua("vim.wait(60)")
        return self.messages()


@contextmanager
def told(nvim: str, short_tmp: Path, pause_ms: int = 10) -> Iterator[Told]:
    root = short_tmp.resolve()
    (root / ".git").mkdir()
    (root / "a.c").write_text("foo\n")
    config = f"vim.g.indexgrep = {{ unsaved_debounce_ms = {pause_ms} }}"
    init = write_init(root / ".git" / "init.lua", config)
    with (
        FakeServer(runtime.socket_path(root), play) as server,
        Editor(nvim, init, cwd=root, arguments=["a.c"]) as editor,
    ):
        yield Told(editor, server, root)


def test_a_buffer_goes_before_the_search_and_only_when_it_changed(nvim: str, short_tmp: Path) -> None:
    with told(nvim, short_tmp, pause_ms=100_000) as vim:
        assert vim.search("one") == [("search", "one")]
        vim.editor.lua(SET, "x")
        assert vim.search("two") == [("buffer", ["a.c", "x\n", False]), ("search", "two")]
        assert vim.search("three") == [("search", "three")]
        vim.editor.command("set fileformat=dos")
        assert vim.search("four") == [("buffer", ["a.c", "x\r\n", False]), ("search", "four")]
        vim.editor.command("undo | set fileformat=unix")
        assert vim.search("five") == [
            ("changed", ["a.c"]),
            ("buffer_gone", ["a.c"]),
            ("search", "five"),
        ]
        assert vim.search("six") == [("search", "six")]


def test_ticks_rise(nvim: str, short_tmp: Path) -> None:
    """Also where a buffer is wiped, and another of the same name begins from the start."""
    with told(nvim, short_tmp) as vim:
        vim.search()
        for text in ("x", "y", "z"):
            vim.editor.lua(SET, text)
            vim.search()
        vim.editor.command("bwipeout! | edit a.c")
        vim.editor.lua(SET, "w")
        vim.search()
        ticks = [params[0]["tick"] for method, params in vim.server.calls if method == "buffer"]
        assert len(ticks) == 4
        assert ticks == sorted(set(ticks))


def test_large_texts_come_in_parts(nvim: str, short_tmp: Path) -> None:
    with told(nvim, short_tmp) as vim:
        line = "x" * 99
        vim.editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn['repeat']({ ... }, 30000))", line)
        messages = vim.search()
        texts = [about for method, about in messages if method == "buffer"]
        assert [more for _, _, more in texts] == [True, True, False]
        assert "".join(text for _, text, _ in texts) == f"{line}\n" * 30_000
        assert all(len(text) <= 1 << 20 for _, text, _ in texts)
        assert len({params[0]["tick"] for method, params in vim.server.calls if method == "buffer"}) == 1
        # One line that is larger than a message may be.
        vim.editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { ('y'):rep(9 * 1024 * 1024) })")
        texts = [about for method, about in vim.search() if method == "buffer"]
        assert all(len(text) <= 1 << 20 for _, text, _ in texts)
        assert "".join(text for _, text, _ in texts) == "y" * (9 << 20) + "\n"


def test_typing_is_told_after_a_pause_and_once(nvim: str, short_tmp: Path) -> None:
    with told(nvim, short_tmp, pause_ms=40) as vim:
        vim.editor.keys("cctyped<Esc>")
        assert vim.quiet() == []
        vim.search()
        vim.editor.keys("ccagain")
        vim.editor.wait(lambda: vim.server.count("buffer") == 2)
        vim.editor.lua("vim.wait(150)")
        assert vim.messages() == [("buffer", ["a.c", "again\n", False])]
        # Who does not pause is heard all the same, after four times as long.
        vim.editor.lua(
            """
            local typist = vim.uv.new_timer()
            typist:start(0, 10, vim.schedule_wrap(function()
              vim.api.nvim_buf_set_lines(0, 0, -1, false, { tostring(vim.uv.hrtime()) })
            end))
            _G.typist = typist
            """
        )
        vim.editor.wait(lambda: vim.server.count("buffer") >= 4)
        vim.editor.lua("_G.typist:close()")


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        ("write", [("changed", ["a.c"])]),
        ("write new.c", [("changed", ["new.c"])]),
        ("1write! new.c", [("changed", ["new.c"])]),
        ("write! >> new.c", [("changed", ["new.c"])]),
        ("saveas sub/new.c", [("changed", ["sub/new.c"])]),
        ("write ../outside.c", []),
        ("bwipeout", []),
        ("edit new.c", []),
        ("enew | setlocal buftype=acwrite | autocmd BufWriteCmd <buffer> set nomodified", []),
    ],
)
def test_files_that_are_written_are_told_at_once(
    nvim: str, short_tmp: Path, command: str, messages: list[tuple[str, Any]]
) -> None:
    (short_tmp / "sub").mkdir()
    root = short_tmp / "root"
    root.mkdir()
    (root / "sub").mkdir()
    with told(nvim, root, pause_ms=100_000) as vim:
        vim.search()
        vim.editor.command(f"silent {command}")
        assert vim.quiet() == messages


def test_a_file_that_is_read_anew_is_told(nvim: str, short_tmp: Path) -> None:
    with told(nvim, short_tmp, pause_ms=100_000) as vim:
        vim.search()
        (vim.root / "a.c").write_text("changed outside\n")
        vim.editor.command("set autoread | silent checktime")
        assert vim.editor.lua("return vim.api.nvim_get_current_line()") == "changed outside"
        assert vim.quiet() == [("changed", ["a.c"])]


def test_a_refusal_is_told_once_and_tried_again_when_others_are_gone(nvim: str, short_tmp: Path) -> None:
    with told(nvim, short_tmp) as vim:
        vim.server.buffer_refusal = {"code": "usage", "message": "it does not fit", "hint": ""}
        vim.editor.lua(SET, "x")
        vim.search()
        vim.editor.wait(vim.editor.notices)
        assert vim.search() == [("search", "foo")]
        vim.server.buffer_refusal = None
        vim.editor.command("edit b.c")
        vim.editor.lua(SET, "y")
        assert vim.search() == [("buffer", ["b.c", "y\n", False]), ("search", "foo")]
        vim.editor.command("bwipeout!")
        assert vim.search() == [
            ("changed", ["b.c"]),
            ("buffer_gone", ["b.c"]),
            ("buffer", ["a.c", "x\n", False]),
            ("search", "foo"),
        ]
        assert vim.editor.notices() == [
            "indexgrep: unsaved changes are not searched: it does not fit",
        ]


def test_a_fault_in_sending_takes_no_search_away(nvim: str, short_tmp: Path) -> None:
    """The old text does not stay with the server either."""
    fail = "require('indexgrep.buffer_text').reader = function() error('oops') end"
    with told(nvim, short_tmp, pause_ms=100_000) as vim:
        vim.editor.lua(SET, "x")
        assert vim.search() == [("buffer", ["a.c", "x\n", False]), ("search", "foo")]
        vim.editor.lua(fail)
        vim.editor.lua(SET, "y")
        assert vim.search() == [("changed", ["a.c"]), ("buffer_gone", ["a.c"]), ("search", "foo")]
        assert len(vim.editor.notices()) == 1
        assert "unsaved changes are not searched: " in vim.editor.notices()[0]
        assert "oops" in vim.editor.notices()[0]


def test_what_was_interrupted_is_tried_again(nvim: str, short_tmp: Path) -> None:
    interrupted = """
    local eval = vim.fn.eval
    vim.fn.eval = function(...)
      vim.fn.eval = eval
      error('Keyboard interrupt')
    end
    """
    with told(nvim, short_tmp, pause_ms=100_000) as vim:
        vim.search()
        vim.editor.lua(interrupted)
        vim.editor.lua(SET, "x")
        assert vim.search() == [("buffer", ["a.c", "x\n", False]), ("search", "foo")]
        assert vim.editor.notices() == []
