"""`:IndexGrep` as typed: flags, the pattern verbatim, ranges, the word under the cursor, completion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexgrep import runtime
from indexgrep.tree.type_table import TYPES
from support.editor import Editor, write_init
from support.fake_server import FakeQuery, FakeServer, file_result

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(60)]

TEXT = 'int main(void) {\n\tprintf("a{b} $HOME %% # x|y");\n\treturn foo_bar;\n}\n'


def play(query: FakeQuery) -> None:
    query.results([file_result("a.c", (3, b"\treturn foo_bar;\n", [(8, 15)]))])
    query.done()


class Typed:
    """An editor on ``a.c`` whose searches a fake server receives."""

    def __init__(self, editor: Editor, server: FakeServer) -> None:
        self.editor = editor
        self.server = server

    def requests(self) -> list[dict[str, Any]]:
        return [params[1] for method, params in self.server.calls if method == "search"]

    def search(self, line: str) -> dict[str, Any]:
        """Run a command line; the request that came of it, without what every command has by default."""
        before = len(self.requests())
        self.editor.command(line)
        self.editor.wait(lambda: len(self.requests()) > before)
        request = dict(self.requests()[-1])
        assert request.pop("limit") == 10000
        if request["buffers"] == "own":
            del request["buffers"]
        return request


@pytest.fixture
def typed(nvim: str, short_tmp: Path) -> Iterator[Typed]:
    (short_tmp / ".git").mkdir()
    (short_tmp / "sub dir").mkdir()
    (short_tmp / "a.c").write_text(TEXT)
    init = write_init(short_tmp / ".git" / "init.lua")
    with (
        FakeServer(runtime.socket_path(short_tmp), play) as server,
        Editor(nvim, init, cwd=short_tmp, arguments=["a.c"]) as editor,
    ):
        yield Typed(editor, server)


@pytest.mark.parametrize(
    ("argument", "request_"),
    [
        ("foo", {"patterns": ["foo"]}),
        ("foo bar  baz ", {"patterns": ["foo bar  baz "]}),
        ("\"quoted\" 'text'", {"patterns": ["\"quoted\" 'text'"]}),
        ("a{2,3} | b", {"patterns": ["a{2,3} | b"]}),
        ("% # <cword> $HOME `x` ~", {"patterns": ["% # <cword> $HOME `x` ~"]}),
        (r"\bfoo\s+\w+\\", {"patterns": [r"\bfoo\s+\w+\\"]}),
        ("-i foo", {"patterns": ["foo"], "case": "insensitive"}),
        ("-s foo", {"patterns": ["foo"], "case": "sensitive"}),
        ("-S foo", {"patterns": ["foo"], "case": "smart"}),
        ("-Fwx a.b", {"patterns": ["a.b"], "fixed_strings": True, "word": True, "line": True}),
        ("-v -U foo", {"patterns": ["foo"], "invert": True, "multiline": True}),
        ("--hidden --no-ignore foo", {"patterns": ["foo"], "hidden": True, "no_ignore": True}),
        ("-g *.c -g '!sub dir/**' foo", {"patterns": ["foo"], "globs": ["*.c", "!sub dir/**"]}),
        ("-g*.c --glob=*.h foo", {"patterns": ["foo"], "globs": ["*.c", "*.h"]}),
        ("-t c -Tlua foo -i", {"patterns": ["foo -i"], "types": ["c"], "types_not": ["lua"]}),
        ("-m 3 --max-count=5 foo", {"patterns": ["foo"], "max_count": 5}),
        ("--buffers=all foo", {"patterns": ["foo"], "buffers": "all"}),
        ("--buffers none foo", {"patterns": ["foo"], "buffers": "none"}),
        ("-- -foo", {"patterns": ["-foo"]}),
        ("-i --  --bar ", {"patterns": [" --bar "], "case": "insensitive"}),
        ("- foo", {"patterns": ["- foo"]}),
        ("->x", None),
    ],
)
def test_argument(typed: Typed, argument: str, request_: dict[str, Any] | None) -> None:
    if request_ is None:
        typed.editor.command(f"IndexGrep {argument}")
        assert "Put `-- ` before a pattern that begins with a dash" in typed.editor.notices()[0]
        assert typed.requests() == []
    else:
        assert typed.search(f"IndexGrep {argument}") == request_
        assert typed.editor.notices() == []


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("-Z foo", "unknown flag -Z"),
        ("--nope foo", "unknown flag --nope"),
        ("-é foo", "unknown flag -é."),
        ("-m x foo", "needs a whole number"),
        # Neovim's msgpack ends the editor on a number that a Lua number does not hold exactly.
        ("-m 9007199254740992 foo", "-m/--max-count: 9007199254740992 is too large a number"),
        ("-m 99999999999999999999999 foo", "is too large a number"),
        ("-g", "-g/--glob needs a value"),
        ("--buffers=some foo", '--buffers needs one of own, all, none, not "some"'),
        ("-g 'x foo", "a quote is not closed"),
        ("--hidden=yes foo", "takes no value"),
    ],
)
def test_wrong_flags_are_one_message(typed: Typed, argument: str, message: str) -> None:
    typed.editor.command(f"IndexGrep {argument}")
    assert len(typed.editor.notices()) == 1
    assert message in typed.editor.notices()[0]
    assert typed.requests() == []


def test_word_under_the_cursor(typed: Typed) -> None:
    typed.editor.api.current.window.cursor = (3, 10)
    word = {"patterns": ["foo_bar"], "fixed_strings": True, "word": True}
    assert typed.search("IndexGrep") == word
    assert typed.search("IndexGrep -i") == word | {"case": "insensitive"}
    assert typed.search(r'exe "normal \<Plug>(indexgrep-cword)"') == word
    typed.editor.wait(lambda: typed.editor.quickfix_title().startswith("IndexGrep foo_bar (1 line"))
    typed.editor.command("enew")
    typed.editor.command("IndexGrep")
    assert "no word under the cursor" in typed.editor.notices()[0]


def test_selection(typed: Typed) -> None:
    """The text itself, of whatever shape, is searched for literally."""
    literal = {"fixed_strings": True}
    part = '"a{b} $HOME'
    typed.editor.command(f'normal! 2G0f"v{len(part) - 1}l')
    assert typed.search(r'exe "normal \<Plug>(indexgrep-visual)"') == literal | {"patterns": [part]}
    typed.editor.command(r'exe "normal! 3GV\<Esc>"')
    assert typed.search("'<,'>IndexGrep -i") == (
        literal | {"patterns": ["\treturn foo_bar;"], "case": "insensitive"}
    )
    typed.editor.command(r'exe "normal! 1G0v2G$\<Esc>"')
    two = typed.search("'<,'>IndexGrep")
    assert two["multiline"]
    assert two["patterns"][0].startswith("int main(void) {\n\tprintf(")
    typed.editor.command(r'exe "normal! 1G0\<C-v>1jl\<Esc>"')
    assert typed.search("'<,'>IndexGrep")["patterns"] == ["int main(\n\tp"]


def test_range_without_a_selection_is_whole_lines(typed: Typed) -> None:
    assert typed.search("4IndexGrep") == {"patterns": ["}"], "fixed_strings": True}
    typed.editor.command("2IndexGrep foo")
    assert typed.editor.notices() == ["indexgrep: give a range or a pattern, not both"]


def complete(editor: Editor, line: str) -> list[str]:
    return list(editor.lua("return vim.fn.getcompletion(..., 'cmdline')", line))


def test_completion(typed: Typed) -> None:
    editor = typed.editor
    assert {"--hidden", "--glob", "-i"} <= set(complete(editor, "IndexGrep -"))
    assert complete(editor, "IndexGrep --no-ig") == ["--no-ignore", "--no-ignore-vcs"]
    assert complete(editor, "IndexGrep -i -t lu") == ["lua"]
    assert "typescript" in complete(editor, "IndexGrep --type=ty")[0]
    assert complete(editor, "IndexGrep -t ") == list(TYPES)
    assert complete(editor, "IndexGrep -tlu") == ["-tlua"]
    assert complete(editor, "IndexGrep --buffers=") == [
        f"--buffers={name}" for name in ("own", "all", "none")
    ]
    assert complete(editor, "IndexGrep --buffers a") == ["all"]
    assert complete(editor, "IndexGrep -iTzi") == ["-iTzig"]
    assert complete(editor, "IndexGrep -ga") == ["-ga.c"]
    assert complete(editor, "IndexGrep -g nowhere/") == []
    assert complete(editor, "IndexGrep -g s") == ["sub?dir/"]
    assert complete(editor, "IndexGrep -g !a") == ["!a.c"]
    assert complete(editor, "IndexGrep foo") == []
    assert complete(editor, "IndexGrep foo -") == []
    assert complete(editor, "IndexGrep -- -") == []
    assert complete(editor, "IndexGrepServer st") == ["start", "status", "stop"]
    assert complete(editor, "IndexGrepServer ") == ["log", "restart", "start", "status", "stop"]


def test_a_current_directory_that_is_gone(nvim: str, short_tmp: Path) -> None:
    here = short_tmp / "gone"
    here.mkdir()
    init = write_init(short_tmp / "init.lua")
    with Editor(nvim, init, cwd=here) as editor:
        here.rmdir()
        editor.command("IndexGrep foo")
        editor.wait(editor.notices)
        editor.command("IndexGrepStatus")
        editor.wait(lambda: len(editor.notices()) == 2)
        text = "indexgrep: the current directory is gone\nChange to another one: `:cd`."
        assert editor.notices() == [text, text]


def test_api_refuses_wrong_options_by_name(typed: Typed) -> None:
    for options, message in (
        ("{ wrod = true }", 'opts has no option "wrod"'),
        ("{ word = 'yes' }", "opts.word must be true or false"),
        ("{ globs = '*.c' }", "opts.globs must be a list of strings"),
        ("{ limit = -1 }", "opts.limit must be a whole number"),
    ):
        typed.editor.lua(
            f"_G.answer = nil; require('indexgrep').search('x', {options}, function(e) _G.answer = e end)"
        )
        answer = typed.editor.wait(lambda: typed.editor.lua("return _G.answer"))
        assert answer["event"] == "failed"
        assert answer["error"]["code"] == "usage"
        assert message in answer["error"]["message"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{ limt = 5 }", 'vim.g.indexgrep has no option "limt". Options: command, keys, limit'),
        ("{ limit = 'x' }", "vim.g.indexgrep.limit must be a whole number above 0, not"),
        ("{ limit = 2 ^ 60 }", "vim.g.indexgrep.limit must be a whole number above 0, not"),
        ("{ search = { max_depth = 1e300 } }", "max_depth must be a whole number from 0 to 2^53 - 1, not"),
        (
            "{ window = { width = 7 } }",
            "vim.g.indexgrep.window.width must be a number above 0",
        ),
        ("{ window = 3 }", "vim.g.indexgrep.window must be a table, not 3"),
        ("{ keys = { jump = 1 } }", "vim.g.indexgrep.keys.jump must be a key, a list of keys, or false"),
        ("{ unsaved = 1 }", "vim.g.indexgrep.unsaved must be true or false, not 1"),
        ("{ search = { cas = 'smart' } }", 'vim.g.indexgrep.search has no option "cas"'),
        ("function() error('oops') end", "vim.g.indexgrep is a function that failed"),
        ("function() return 3 end", "vim.g.indexgrep is a function that returned 3, not a table"),
    ],
)
def test_wrong_configuration_is_said_once_and_the_search_goes_on(
    typed: Typed, config: str, message: str
) -> None:
    typed.editor.lua(f"vim.g.indexgrep = {config}")
    typed.search("IndexGrep foo")
    typed.search("IndexGrep foo")
    assert len(typed.editor.notices()) == 1
    assert message in typed.editor.notices()[0]


def test_configured_defaults(typed: Typed) -> None:
    typed.editor.lua("vim.g.indexgrep = function() return { search = { case = 'smart', hidden = true } } end")
    assert typed.search("IndexGrep -s foo") == {"patterns": ["foo"], "case": "sensitive", "hidden": True}


def test_loading_requires_nothing(nvim: str, short_tmp: Path) -> None:
    """What the plugin costs at start-up is its one file: the modules come with the first use."""
    with Editor(nvim, write_init(short_tmp / "init.lua"), cwd=short_tmp) as editor:
        loaded = editor.lua(
            "return vim.tbl_filter(function(n) return n:find('^indexgrep') end, vim.tbl_keys(package.loaded))"
        )
        assert loaded == []
        assert editor.lua("return vim.fn.exists(':IndexGrep')") == 2


def test_an_older_neovim_is_one_message(nvim: str, short_tmp: Path) -> None:
    with Editor(nvim, write_init(short_tmp / "init.lua"), cwd=short_tmp) as editor:
        said = editor.lua(
            """
            for name in pairs(vim.api.nvim_get_commands({})) do
              vim.api.nvim_del_user_command(name)
            end
            vim.g.loaded_indexgrep = nil
            local has = vim.fn.has
            vim.fn.has = function(feature) return feature == 'nvim-0.11' and 0 or has(feature) end
            vim.cmd.source(...)
            vim.fn.has = has
            return { _G.notices, vim.fn.exists(':IndexGrep') }
            """,
            str(Path(__file__).parents[2] / "plugin" / "indexgrep.lua"),
        )
        assert len(said[0]) == 1
        assert "needs Neovim 0.11" in said[0][0]
        assert said[1] == 0


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("oil://{root}/sub dir/", "{root}"),
        ("fugitive://{root}/.git//0123/a.c", "{root}"),
        ("term://{root}//42:/bin/sh", "{root}"),
        ("health://", None),
        ("oil://{root}/missing/", None),
        ("/etc/hosts", None),
        ("{root}/sub dir/x.c", "{root}"),
        ("{root}/to be/made/x.c", "{root}"),
    ],
)
def test_root_of_special_buffers(
    nvim: str, short_tmp: Path, tmp_path: Path, name: str, directory: str | None
) -> None:
    """Their directory's repository where they have one, else the current directory; never an error."""
    root = short_tmp.resolve()
    (root / ".git").mkdir()
    (root / "sub dir").mkdir()
    other = tmp_path.resolve()
    with Editor(nvim, write_init(tmp_path / "init.lua"), cwd=other) as editor:
        found = editor.lua(
            """
            local buf = vim.api.nvim_create_buf(true, false)
            vim.api.nvim_buf_set_name(buf, ...)
            vim.api.nvim_set_current_buf(buf)
            return require('indexgrep.root').current()
            """,
            name.format(root=root),
        )
        assert found == (directory.format(root=root) if directory else str(other))


def test_the_status_tells_what_is_wrong_and_why_searches_sweep(typed: Typed) -> None:
    status = {
        "version": "0.1.0",
        "pid": 7,
        "uptime_s": 3,
        "rss_bytes": 80 << 20,
        "clients": 1,
        "root": "/tree",
        "log": "/log",
        "index": {"state": "absent", "fault": "the index could not be built: disk full"},
        "freshness": "sweep",
        "freshness_reason": "the limit of watches is reached",
        "overlay": 12,
    }
    lines = typed.editor.lua("return require('indexgrep.command').status_lines(...)", status)
    assert "fault  the index could not be built: disk full" in lines
    assert "fresh  by sweep: the limit of watches is reached" in lines
    assert "beside 12 files that the index does not stand for" in lines
    assert lines[-1] == "log    /log"
