"""The Lua side against a server that answers late, wrongly, in pieces or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indexgrep import runtime
from support.editor import Editor, write_init
from support.fake_server import FakeQuery, FakeServer, file_result

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(60)]

#: Searches and keeps the events of each search in ``_G.events[name]``.
_RECORD = """
_G.events, _G.handles = {}, {}
function _G.search(name, pattern, options)
  _G.events[name] = {}
  _G.handles[name] = require('indexgrep').search(pattern, options, function(event)
    table.insert(_G.events[name], event)
  end)
end
"""

Play = Callable[[FakeQuery], None]
ONE = file_result("a.c", (1, b"int foo;\n", [(4, 7)]))
TWO = file_result("b.c", (3, b"foo(foo);\r\n", [(0, 3), (4, 7)]))


@contextmanager
def editor(
    nvim: str, root: Path, *, size: tuple[int, int] | None = None, config: str = ""
) -> Iterator[Editor]:
    (root / ".git").mkdir(exist_ok=True)
    (root / "a.c").write_bytes(b"int foo;\n")
    (root / "b.c").write_bytes(b"1\n2\nfoo(foo);\r\n")
    init = write_init(root / ".git" / "init.lua", _RECORD + config)
    with Editor(nvim, init, cwd=root, size=size) as started:
        yield started


def events(editor: Editor, name: str) -> list[dict[str, Any]]:
    return list(editor.lua("return _G.events[...]", name))


def kinds(editor: Editor, name: str) -> list[str]:
    return [event["event"] for event in events(editor, name)]


def ended(editor: Editor, name: str) -> bool:
    return bool({"done", "failed"} & set(kinds(editor, name)))


def play_all(query: FakeQuery) -> None:
    query.results([ONE])
    query.results([TWO])
    query.done(matched_lines=2)


def test_api_streams_then_ends_once(nvim: str, short_tmp: Path) -> None:
    with FakeServer(runtime.socket_path(short_tmp), play_all) as server, editor(nvim, short_tmp) as vim:
        vim.lua("search('one', 'foo', { case = 'smart', globs = { '*.c' }, limit = 5 })")
        vim.wait(lambda: ended(vim, "one"))
        assert kinds(vim, "one") == ["results", "results", "done"]
        first = events(vim, "one")[0]["files"][0]
        assert (first["path"], first["lines"][0][0], first["lines"][0][3]) == ("a.c", 1, [[4, 7]])
        request = next(params[1] for method, params in server.calls if method == "search")
        options = {"case": "smart", "globs": ["*.c"], "limit": 5, "buffers": "own"}
        assert request == {"patterns": ["foo"]} | options


def test_no_event_after_cancel(nvim: str, short_tmp: Path) -> None:
    release = threading.Event()
    told = threading.Event()

    def play(query: FakeQuery) -> None:
        query.results([ONE])
        assert release.wait(10)
        if query.cancelled.wait(10):
            told.set()
        query.results([TWO])
        query.done(complete=False, reason="cancelled")

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp) as vim:
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: kinds(vim, "one") == ["results"])
        vim.lua("_G.handles.one:cancel()")
        release.set()
        assert told.wait(10), "the server was not told"
        vim.lua("search('two', 'foo')")
        release.set()
        vim.wait(lambda: "results" in kinds(vim, "two"))
        assert kinds(vim, "one") == ["results"]


def test_cancel_before_the_connection(nvim: str, short_tmp: Path) -> None:
    with FakeServer(runtime.socket_path(short_tmp), play_all) as server, editor(nvim, short_tmp) as vim:
        vim.lua(
            "search('one', 'foo'); _G.handles.one:cancel(); _G.handles.one:cancel(); search('two', 'foo')"
        )
        vim.wait(lambda: ended(vim, "two"))
        assert kinds(vim, "one") == []
        assert server.count("search") == 1


def test_late_answers_of_an_older_search_are_dropped(nvim: str, short_tmp: Path) -> None:
    """The first query answers only when the second has been answered; the second's rows alone are shown."""
    second_done = threading.Event()

    def play(query: FakeQuery) -> None:
        if query.pattern == "first":
            query.results([file_result("old1.c", (1, b"first\n", [(0, 5)]))])
            assert second_done.wait(10)
            query.results([file_result("old2.c", (1, b"first\n", [(0, 5)]))])
            query.done()
        else:
            query.results([ONE])
            query.done()
            second_done.set()

    with (
        FakeServer(runtime.socket_path(short_tmp), play),
        editor(nvim, short_tmp, size=(100, 30)) as vim,
    ):
        vim.command("IndexGrep first")
        vim.wait(lambda: vim.shows("old1.c:1:1"))
        vim.command("IndexGrep second")
        vim.wait(lambda: vim.shows("1 line in 1 file ") and vim.shows("a.c:1:5: int foo;"))
        assert second_done.wait(10)
        vim.lua("vim.wait(50)")
        assert not vim.shows("old")
        assert [entry[3] for entry in vim.quickfix()] == ["int foo;"]
        older = vim.lua("return vim.fn.getqflist({ nr = 1, items = 0, title = 0 })")
        assert len(older["items"]) == 1
        assert "stopped" in older["title"]


def test_server_killed_in_the_middle(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        query.results([ONE])
        query.hang_up()

    with FakeServer(runtime.socket_path(short_tmp), play) as server, editor(nvim, short_tmp) as vim:
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: ended(vim, "one"))
        assert kinds(vim, "one") == ["results", "failed"]
        error = events(vim, "one")[1]["error"]
        assert error["code"] == "server"
        assert "went away in the middle" in error["message"]
        assert server.count("search") == 1
        # The next search connects anew.
        server.play = play_all
        vim.lua("search('two', 'foo')")
        vim.wait(lambda: ended(vim, "two"))
        assert kinds(vim, "two") == ["results", "results", "done"]
        assert vim.notices() == []


def test_server_killed_in_the_middle_in_the_window(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        query.results([ONE])
        query.hang_up()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(120, 30)) as vim:
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("1 line in 1 file · failed: the indexgrep server went away"))
        vim.wait(lambda: vim.shows("a.c:1:5: int foo;"))
        vim.wait(lambda: vim.shows("Run the search again."))
        assert vim.notices() == []


def test_server_killed_before_it_answered_is_asked_again(nvim: str, short_tmp: Path) -> None:
    asked: list[int] = []

    def play(query: FakeQuery) -> None:
        asked.append(query.qid)
        if len(asked) == 1:
            query.hang_up()
        else:
            play_all(query)

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp) as vim:
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: ended(vim, "one"))
        assert kinds(vim, "one") == ["results", "results", "done"]
        assert len(asked) == 2


def test_server_that_always_dies_is_one_failure(nvim: str, short_tmp: Path) -> None:
    with (
        FakeServer(runtime.socket_path(short_tmp), lambda query: query.hang_up()) as server,
        editor(nvim, short_tmp) as vim,
    ):
        vim.command("IndexGrep foo")
        vim.wait(vim.notices)
        assert len(vim.notices()) == 1
        assert "went away" in vim.notices()[0]
        assert server.count("search") == 4


def test_connection_lost_between_searches(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        play_all(query)
        query.hang_up()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp) as vim:
        for name in ("one", "two", "three"):
            vim.lua("search(..., 'foo')", name)
            vim.wait(lambda name=name: ended(vim, name))
            assert kinds(vim, name)[-1] == "done"


def test_refusal_and_failure_are_shown_once(nvim: str, short_tmp: Path) -> None:
    refusal = {
        "code": "pattern",
        "message": "regex parse error:\n    fo(o\n      ^\nerror: unclosed group",
        "hint": "",
    }
    with FakeServer(runtime.socket_path(short_tmp), play_all) as server, editor(nvim, short_tmp) as vim:
        server.refusal = refusal
        vim.command("IndexGrep fo(o")
        vim.wait(vim.notices)
        server.refusal = None
        server.play = lambda query: query.failed("root", "the root is gone", "Search elsewhere.")
        vim.command("IndexGrep foo")
        vim.wait(lambda: len(vim.notices()) == 2)
        bad_pattern, gone = vim.notices()
        assert "      ^\nerror: unclosed group\n" in bad_pattern
        assert "-F" in bad_pattern
        assert gone == "indexgrep: the root is gone\nSearch elsewhere."


def test_bad_pattern_in_the_window(nvim: str, short_tmp: Path) -> None:
    refusal = {
        "code": "pattern",
        "message": "regex parse error:\n    fo(o\n      ^\nerror: unclosed group",
        "hint": "",
    }
    with (
        FakeServer(runtime.socket_path(short_tmp), play_all) as server,
        editor(nvim, short_tmp, size=(100, 30)) as vim,
    ):
        server.refusal = refusal
        vim.command("IndexGrep fo(o")
        vim.wait(lambda: vim.shows("error: unclosed group"))
        screen = vim.screen()
        row = next(index for index, line in enumerate(screen) if "    fo(o" in line)
        assert screen[row + 1].index("^") == screen[row].index("fo(o") + 2
        assert vim.notices() == []
        vim.keys("q")
        vim.wait(lambda: not vim.shows("unclosed"))


def test_garbage_from_the_server(nvim: str, short_tmp: Path) -> None:
    with (
        FakeServer(runtime.socket_path(short_tmp), lambda query: query.raw(b"\xc1 no msgpack")),
        editor(nvim, short_tmp) as vim,
    ):
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: ended(vim, "one"))
        assert kinds(vim, "one") == ["failed"]
        assert "msgpack-RPC" in events(vim, "one")[0]["error"]["message"]


def test_a_batch_out_of_order_fails_the_search(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        query.results([ONE])
        query.results([TWO], seq=2)
        query.done()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp) as vim:
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: ended(vim, "one"))
        vim.lua("vim.wait(20)")
        assert kinds(vim, "one") == ["results", "failed"]


def test_server_of_another_protocol(nvim: str, short_tmp: Path) -> None:
    with (
        FakeServer(runtime.socket_path(short_tmp), lambda query: None) as server,
        editor(nvim, short_tmp) as vim,
    ):
        server.protocol = 99
        vim.lua("search('one', 'foo')")
        vim.wait(lambda: ended(vim, "one"))
        error = events(vim, "one")[0]["error"]
        assert "protocol 99" in error["message"]
        assert "restart" in error["hint"]


def test_window_opens_before_the_first_result_and_fills(nvim: str, short_tmp: Path) -> None:
    go = threading.Event()
    go_on = threading.Event()

    def play(query: FakeQuery) -> None:
        assert go.wait(10)
        query.results([ONE])
        assert go_on.wait(10)
        query.results([TWO])
        query.done()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(100, 30)) as vim:
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("Searching…"))
        vim.wait(lambda: vim.shows("IndexGrep foo"))
        go.set()
        vim.wait(lambda: vim.shows("a.c:1:5: int foo;"))
        vim.wait(lambda: vim.shows("1 line in 1 file · searching…"))
        assert not vim.shows("Searching…")
        go_on.set()
        vim.wait(lambda: vim.shows("2 lines in 2 files ─"))
        # Two matches in one line are two rows, each with its own column.
        vim.wait(lambda: vim.shows("b.c:3:1: foo(foo);"))
        vim.wait(lambda: vim.shows("b.c:3:5: foo(foo);"))
        assert not vim.shows("^M")
        assert vim.notices() == []


def test_closing_the_window_stops_the_search(nvim: str, short_tmp: Path) -> None:
    cancelled = threading.Event()

    def play(query: FakeQuery) -> None:
        query.results([ONE])
        if query.cancelled.wait(10):
            cancelled.set()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(100, 30)) as vim:
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("a.c:1:5"))
        vim.keys("<Esc>")
        assert cancelled.wait(10)
        vim.wait(lambda: "stopped" in vim.quickfix_title())
        vim.wait(lambda: len(vim.quickfix()) == 1)


def test_stop_keeps_what_came(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        query.results([ONE])
        query.cancelled.wait(10)
        query.results([TWO])
        query.done(complete=False, reason="cancelled")

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(100, 30)) as vim:
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("a.c:1:5"))
        vim.command("IndexGrepStop")
        vim.wait(lambda: vim.shows("at least 1 line in 1 file · stopped"))
        vim.wait(lambda: len(vim.quickfix()) == 1)
        vim.command("IndexGrepStop")
        assert vim.notices() == ["indexgrep: no search is running"]


def test_cut_answers_say_at_least(nvim: str, short_tmp: Path) -> None:
    def play(query: FakeQuery) -> None:
        assert query.request["limit"] == 2
        query.results([ONE, TWO])
        query.done(complete=False, reason="limit")

    with (
        FakeServer(runtime.socket_path(short_tmp), play),
        editor(nvim, short_tmp, size=(100, 30), config="vim.g.indexgrep = { limit = 2 }") as vim,
    ):
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("at least 2 lines in 2 files · cut at the limit of 2 lines"))
        vim.wait(lambda: "at least 2 lines" in vim.quickfix_title())


def test_progress_of_the_first_build_is_shown(nvim: str, short_tmp: Path) -> None:
    go_on = threading.Event()

    def play(query: FakeQuery) -> None:
        query.progress(phase="extract", documents=25, documents_total=100)
        assert go_on.wait(10)
        query.done()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(100, 30)) as vim:
        vim.command("IndexGrep foo")
        vim.wait(lambda: vim.shows("building the index, 25 %"))
        go_on.set()
        vim.wait(lambda: vim.shows("Nothing was found."))


def test_a_server_may_push_through_the_editors_own_channel(nvim: str, short_tmp: Path) -> None:
    """doc/protocol.md, ``push = "nvim"``: the server runs ``on_push``; an id nobody waits for is dropped."""
    with FakeServer(runtime.socket_path(short_tmp), play_all) as server, editor(nvim, short_tmp) as vim:
        vim.lua(
            """
            local rpc = require('indexgrep.rpc')
            _G.pushed = {}
            local on_push = rpc.on_push
            rpc.on_push = function(event, params) table.insert(_G.pushed, event); on_push(event, params) end
            local channel = vim.fn.sockconnect('pipe', ..., { rpc = true })
            vim.rpcnotify(channel, 'hello', { push = 'nvim', protocol = 1, client = 'test' })
            vim.rpcnotify(channel, 'search', 1000, { patterns = { 'foo' } })
            """,
            str(server.path),
        )
        vim.wait(lambda: vim.lua("return _G.pushed") == ["results", "results", "done"])
        assert vim.lua("return vim.v.errmsg") == ""


def test_status(nvim: str, short_tmp: Path) -> None:
    with editor(nvim, short_tmp) as vim:
        vim.command("IndexGrepStatus")
        vim.wait(vim.notices)
        assert "no server runs" in vim.notices()[0]
        with FakeServer(runtime.socket_path(short_tmp), play_all):
            vim.command("IndexGrepStatus")
            vim.wait(lambda: len(vim.notices()) == 2)
            assert "index  ready: 3 documents of abc" in vim.notices()[1]
            vim.command("IndexGrepServer stop")
            vim.wait(lambda: len(vim.notices()) == 3)
            assert "is stopped" in vim.notices()[2]


def test_huge_answer(nvim: str, short_tmp: Path) -> None:
    """10,000 lines in 1,000 files."""
    lines = [
        (n, b"static int foo_bar(struct mutex *lock) { return foo; }\n", [(11, 14)]) for n in range(1, 11)
    ]
    batches = [
        [file_result(f"drivers/net/ethernet/dir{batch:02}/file{n:03}.c", *lines) for n in range(50)]
        for batch in range(20)
    ]

    def play(query: FakeQuery) -> None:
        for batch in batches:
            query.results(batch)
        query.done()

    with FakeServer(runtime.socket_path(short_tmp), play), editor(nvim, short_tmp, size=(120, 40)) as vim:
        vim.command("IndexGrep foo")
        vim.lua(
            """
            vim.wait(20000, function()
              return vim.fn.getqflist({ title = 0 }).title:find('1000 files)', 1, true) ~= nil
            end, 1)
            """
        )
        vim.wait(lambda: vim.shows("10000 lines in 1000 files"))
        vim.wait(lambda: len(vim.quickfix()) == 10000)
