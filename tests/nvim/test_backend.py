"""With the real backend: through the remote plugin and without it, and when there is none."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexgrep.server import lifecycle
from support.editor import PLUGIN, Editor, run_headless, write_init

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(120)]

BACKEND = str(Path(sys.executable).with_name("indexgrep"))
CONFIG = f"vim.g.indexgrep = {{ command = {BACKEND!r} }}\nvim.g.python3_host_prog = {sys.executable!r}\n"


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(short_tmp: Path) -> Iterator[Path]:
    root = short_tmp / "r"
    root.mkdir()
    git(root, "init")
    (root / "a.c").write_text("int foo(void);\nint bar(int foo, char *foo2);\n")
    (root / "b c.py").write_text("foo = 1\nprint(foo)\n")
    (root / "ignored.txt").write_text("foo\n")
    (root / ".gitignore").write_text("ignored.txt\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    yield root
    lifecycle.stop_server(root)


ANSWER = [
    "a.c:1:5: int foo(void);",
    "a.c:2:13: int bar(int foo, char *foo2);",
    "a.c:2:24: int bar(int foo, char *foo2);",
    "b c.py:1:1: foo = 1",
    "b c.py:2:7: print(foo)",
]


def run(nvim: str, init: Path, root: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    call = f"lua require('indexgrep.headless').run([=[{arguments}]=])"
    return run_headless(nvim, init, call, cwd=root)


def test_headless_prints_what_ripgrep_finds(nvim: str, repository: Path, short_tmp: Path) -> None:
    init = write_init(short_tmp / "init.lua", CONFIG)
    found = run(nvim, init, repository, "foo")
    assert found.stdout.splitlines() == ANSWER
    assert found.returncode == 0
    assert found.stderr.splitlines() == ["4 lines in 2 files"]
    # Changes are seen at once, committed or not.
    (repository / "a.c").write_text("nothing\n")
    (repository / "new.c").write_text("a foo\n")
    assert run(nvim, init, repository, "-w foo").stdout.splitlines() == [*ANSWER[3:], "new.c:1:3: a foo"]
    none = run(nvim, init, repository, "no such text")
    assert (none.stdout, none.returncode) == ("", 1)
    wrong = run(nvim, init, repository, "fo(o")
    assert wrong.returncode == 2
    assert "unclosed group" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    usage = run(nvim, init, repository, "--nope foo")
    assert usage.returncode == 2


def test_the_plugin_starts_the_server_and_finds_its_socket(
    nvim: str, repository: Path, short_tmp: Path
) -> None:
    init = write_init(short_tmp / "init.lua", CONFIG)
    assert lifecycle.server_status(repository) is None
    with Editor(nvim, init, cwd=repository) as editor:
        editor.command("IndexGrep foo")
        editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 30)
        status = lifecycle.server_status(repository)
        assert status is not None
        socket = editor.lua("return (require('indexgrep.server').socket_path(...))", str(repository))
        assert socket == status["socket"]
        assert editor.lua("return require('indexgrep.server').log_path()") == status["log"]
        assert editor.notices() == []


@pytest.fixture
def manifest(nvim: str, repository: Path, short_tmp: Path) -> dict[str, str]:
    """The environment of an editor in which the remote plugin is registered, by a manifest of its own."""
    environment = {"NVIM_RPLUGIN_MANIFEST": str(short_tmp / "rplugin.vim")}
    init = write_init(short_tmp / "init.lua", CONFIG)
    done = run_headless(nvim, init, "UpdateRemotePlugins", "qall!", cwd=repository, env=environment)
    assert done.returncode == 0, done.stderr
    assert "IndexGrepStart" in (short_tmp / "rplugin.vim").read_text()
    return environment


def test_through_the_remote_plugin(
    nvim: str, repository: Path, short_tmp: Path, manifest: dict[str, str]
) -> None:
    with Editor(nvim, short_tmp / "init.lua", cwd=repository, env=manifest) as editor:
        editor.lua(
            """
            local server = require('indexgrep.server')
            local answered = server.on_remote_start
            server.on_remote_start = function(...) _G.remote = { ... }; answered(...) end
            server.run = function() error('started directly') end
            """
        )
        assert editor.lua("return require('indexgrep.server').is_registered()")
        editor.command("IndexGrep foo")
        editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 30)
        assert editor.lua("return _G.remote") == [str(repository.resolve()), True, ""]
        assert editor.quickfix()[0][1:] == (1, 5, "int foo(void);")
        assert editor.notices() == []


def test_remote_plugin_without_a_backend(
    nvim: str, repository: Path, short_tmp: Path, manifest: dict[str, str]
) -> None:
    with Editor(nvim, short_tmp / "init.lua", cwd=repository, env=manifest) as editor:
        editor.lua("vim.g.indexgrep = { command = '/nonexistent/indexgrep' }")
        editor.command("IndexGrep foo")
        editor.wait(editor.notices, 30)
        assert len(editor.notices()) == 1
        assert "cannot run /nonexistent/indexgrep" in editor.notices()[0]
        assert "checkhealth" in editor.notices()[0]
        assert "Traceback" not in editor.notices()[0]


@pytest.mark.parametrize("pynvim", ["gone", "missing"])
def test_registered_but_the_host_cannot_start(
    nvim: str, repository: Path, short_tmp: Path, manifest: dict[str, str], pynvim: str
) -> None:
    """A manifest from a Python that is no longer there, or has no pynvim: the backend is started directly."""
    python = short_tmp / "python3"
    if pynvim == "missing":
        python.write_text("#!/bin/sh\necho \"No module named 'pynvim'\" >&2\nexit 1\n")
        python.chmod(0o755)
    config = CONFIG.replace(f"python3_host_prog = {sys.executable!r}", f"python3_host_prog = {str(python)!r}")
    init = write_init(short_tmp / "init.lua", config)
    with Editor(nvim, init, cwd=repository, env=manifest) as editor:
        assert editor.lua("return require('indexgrep.server').is_registered()")
        editor.command("IndexGrep foo")
        editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 40)
        assert editor.notices() == []
        assert not editor.lua("return require('indexgrep.server').has_remote()")
        assert editor.lua("return vim.fn.execute('messages')").strip() == ""


@pytest.mark.parametrize("size", [None, (100, 30)])
def test_missing_backend_is_one_message_with_the_fix(
    nvim: str, repository: Path, short_tmp: Path, size: tuple[int, int] | None
) -> None:
    """A copy of the plugin without its environment, and nothing on PATH."""
    copy = short_tmp / "plugin-copy"
    copy.mkdir()
    for part in ("lua", "plugin"):
        (copy / part).symlink_to(PLUGIN / part)
    init = short_tmp / "init.lua"
    text = write_init(init).read_text().replace(repr(str(PLUGIN)), repr(str(copy)))
    init.write_text(text)
    environment = {"PATH": "/usr/bin:/bin"}
    with Editor(nvim, init, cwd=repository, env=environment, size=size) as editor:
        editor.command("IndexGrep foo")
        if size is None:
            editor.wait(editor.notices)
            assert len(editor.notices()) == 1
            assert "the indexgrep backend is not installed" in editor.notices()[0]
            assert "pip install" in editor.notices()[0]
        else:
            editor.wait(lambda: editor.shows("the indexgrep backend is not installed"))
            editor.wait(lambda: editor.shows("pip install"))
            assert editor.notices() == []


TRACEBACK = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'numpy'"


@pytest.mark.parametrize(
    ("said", "message", "fix"),
    [
        ("indexgrep: the disk is full\nMake room.", "the disk is full", "Make room."),
        (TRACEBACK, "backend does not run: ModuleNotFoundError: No module named 'numpy'", "checkhealth"),
        ("", "server start", "checkhealth"),
    ],
)
def test_backend_that_fails_to_start(
    nvim: str, repository: Path, short_tmp: Path, said: str, message: str, fix: str
) -> None:
    script = short_tmp / "broken"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 2\n")
    script.chmod(0o755)
    init = write_init(short_tmp / "init.lua", f"vim.g.indexgrep = {{ command = {str(script)!r} }}\n")
    with Editor(nvim, init, cwd=repository) as editor:
        editor.command("IndexGrep foo")
        editor.wait(editor.notices)
        assert len(editor.notices()) == 1
        shown, _, hint = editor.notices()[0].partition("\n")
        assert message in shown
        assert fix in hint


def test_home_as_root_is_refused_with_a_word(nvim: str, short_tmp: Path) -> None:
    init = write_init(short_tmp / "init.lua", CONFIG)
    with Editor(nvim, init, cwd=Path(os.environ["HOME"])) as editor:
        editor.command("IndexGrep foo")
        editor.wait(editor.notices, 30)
        assert len(editor.notices()) == 1
        assert "home" in editor.notices()[0]
    lifecycle.stop_server(os.environ["HOME"])


def test_runtime_directory_of_somebody_else_is_refused(nvim: str, repository: Path, short_tmp: Path) -> None:
    open_directory = short_tmp / "open"
    open_directory.mkdir(mode=0o777)
    open_directory.chmod(0o777)
    init = write_init(short_tmp / "init.lua", CONFIG)
    environment = {"INDEXGREP_RUNTIME_DIR": str(open_directory)}
    with Editor(nvim, init, cwd=repository, env=environment) as editor:
        editor.command("IndexGrep foo")
        editor.wait(editor.notices)
        assert "is not private to you" in editor.notices()[0]
        assert "chmod 700" in editor.notices()[0]


def test_server_killed_and_a_stale_socket(nvim: str, repository: Path, short_tmp: Path) -> None:
    """The next search starts another server; nothing is said."""
    init = write_init(short_tmp / "init.lua", CONFIG)
    with Editor(nvim, init, cwd=repository) as editor:
        for _ in range(2):
            editor.command("IndexGrep foo")
            editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 30)
            status = lifecycle.server_status(repository)
            assert status is not None
            os.kill(status["pid"], 9)
            editor.lua("vim.wait(100)")
            assert Path(status["socket"]).exists()
        assert editor.notices() == []


def test_server_that_hangs(nvim: str, repository: Path, short_tmp: Path) -> None:
    """Its state is known to be unknown; a restart ends it, and the search that waited is answered."""
    init = write_init(short_tmp / "init.lua", CONFIG)
    with Editor(nvim, init, cwd=repository) as editor:
        editor.command("IndexGrep foo")
        editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 30)
        status = lifecycle.server_status(repository)
        assert status is not None
        os.kill(status["pid"], signal.SIGSTOP)
        try:
            editor.command("IndexGrepStatus")
            editor.wait(lambda: len(editor.notices()) == 1)
            assert (
                "has not answered for 3 s\nIf it stays so, run `:IndexGrepServer restart`."
                in (editor.notices()[0])
            )
            editor.command("IndexGrep foo")
            editor.command("IndexGrepServer restart")
            editor.wait(lambda: len(editor.notices()) == 2, 30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(status["pid"], signal.SIGKILL)
        assert "is running" in editor.notices()[1]
        editor.wait(lambda: "4 lines in 2 files" in editor.quickfix_title(), 30)


def test_server_commands(nvim: str, repository: Path, short_tmp: Path) -> None:
    init = write_init(short_tmp / "init.lua", CONFIG)
    with Editor(nvim, init, cwd=repository) as editor:

        def said(count: int) -> str:
            editor.wait(lambda: len(editor.notices()) == count, 30)
            return editor.notices()[-1]

        editor.command("IndexGrepServer stop")
        assert "no server runs" in said(1)
        editor.command("IndexGrepServer start")
        assert "is running" in said(2)
        editor.command("IndexGrepServer status")
        assert f"root   {repository.resolve()}" in said(3)
        pid = lifecycle.server_status(repository)["pid"]  # type: ignore[index]
        editor.command("IndexGrepServer restart")
        assert "is running" in said(4)
        assert lifecycle.server_status(repository)["pid"] != pid  # type: ignore[index]
        editor.command("IndexGrepServer stop")
        assert "is stopped" in said(5)
        assert lifecycle.server_status(repository) is None
        editor.command("IndexGrepServer log")
        editor.wait(lambda: editor.api.current.buffer.name.endswith("log") or len(editor.notices()) == 6)
        editor.command("IndexGrepServer dance")
        assert "unknown action dance. Actions: log, restart, start, status, stop" in editor.notices()[-1]


def test_explain(nvim: str, repository: Path, short_tmp: Path) -> None:
    init = write_init(short_tmp / "init.lua", CONFIG)
    with Editor(nvim, init, cwd=repository) as editor:
        editor.lua("require('indexgrep').explain('foo', {}, function(err, r) _G.explained = { err, r } end)")
        editor.wait(lambda: editor.lua("return _G.explained ~= nil"), 30)
        assert editor.lua("return _G.explained[1] == nil and type(_G.explained[2]) == 'table'")
        editor.lua("require('indexgrep').explain('fo(o', {}, function(err, r) _G.fault = err end)")
        assert editor.wait(lambda: editor.lua("return _G.fault"))["code"] == "pattern"


def health(nvim: str, root: Path, init: Path, environment: dict[str, str] | None = None) -> str:
    with Editor(nvim, init, cwd=root, env=environment) as editor:
        editor.command("checkhealth indexgrep")
        return "\n".join(editor.api.current.buffer[:])


def test_checkhealth(nvim: str, repository: Path, short_tmp: Path, manifest: dict[str, str]) -> None:
    init = short_tmp / "init.lua"
    report = health(nvim, repository, init, manifest)
    for line in (
        "OK Neovim 0.1",
        "OK vim.g.indexgrep is valid",
        f"OK pynvim is there for {sys.executable}",
        "OK The remote plugin is registered.",
        f"({BACKEND})",
        "No server runs for",
        "log file ",
    ):
        assert line in report
    assert "ERROR" not in report
    run(nvim, init, repository, "foo")
    report = health(nvim, repository, init)
    assert "OK The server for" in report
    assert "The remote plugin is not in" in report
    assert "index  " in report


def test_checkhealth_names_what_is_wrong(nvim: str, repository: Path, short_tmp: Path) -> None:
    config = "vim.g.indexgrep = { command = '/nonexistent/indexgrep', limt = 3 }\n"
    config += "vim.g.python3_host_prog = '/bin/false'\n"
    report = health(nvim, repository, write_init(short_tmp / "init.lua", config))
    assert "ERROR /nonexistent/indexgrep does not run" in report
    assert 'vim.g.indexgrep has no option "limt"' in report
    assert "/bin/false has no pynvim" in report


def test_help_has_its_tags(nvim: str, short_tmp: Path) -> None:
    """Every command, option, function, mapping and highlight group has a tag, and no tag is there twice."""
    (short_tmp / "doc").mkdir()
    text = (PLUGIN / "doc" / "indexgrep.txt").read_text()
    (short_tmp / "doc" / "indexgrep.txt").write_text(text)
    with Editor(nvim, write_init(short_tmp / "init.lua"), cwd=short_tmp) as editor:
        editor.command(f"helptags {short_tmp / 'doc'}")
        tags = {line.split("\t")[0] for line in (short_tmp / "doc" / "tags").read_text().splitlines()}
        commands = editor.lua("return vim.tbl_keys(vim.api.nvim_get_commands({}))")
        for command in commands:
            if command.startswith("IndexGrep"):
                assert f":{command}" in tags
        for group in editor.lua("return vim.tbl_keys(require('indexgrep.highlights').groups)"):
            assert f"hl-{group}" in tags
        for option in editor.lua("return require('indexgrep.config').names()"):
            assert f"g:indexgrep.{option}" in tags
        for name in editor.lua("return vim.tbl_keys(require('indexgrep'))"):
            assert f"indexgrep.{name}()" in tags
        assert {"<Plug>(indexgrep-cword)", "<Plug>(indexgrep-visual)"} <= tags
        assert all(len(line) <= 79 or "\t" in line for line in text.splitlines())
