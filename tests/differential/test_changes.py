"""Answers equal ripgrep's after every way a tree changes under an open session, with and without a watch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from differential.conftest import git
from differential.patterns import case, scoped
from differential.test_ripgrep import check_all, without_index
from indexgrep.client import Client
from indexgrep.search import Session
from support.oracle import ask_ripgrep

PATTERNS = (
    [
        case(pattern, indexable=True)
        for pattern in ("needle", "JSONDecodeError", "def dumps", r"class \w+Error")
    ]
    + [case("needle", word=True, indexable=True), case("NEEDLE|decoder", case="insensitive", indexable=True)]
    + [case("^$", max_count=2), case(r"\d{5,}")]
)


def _edit(root: Path) -> None:
    (root / "json" / "decoder.py").write_text("needle = JSONDecodeError\n")


def _edit_in_secret(root: Path) -> None:
    """Same size, same time of modification."""
    file = root / "json" / "scanner.py"
    before = file.stat()
    data = file.read_bytes()
    file.write_bytes(b"needle" + data[6:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(root: Path) -> None:
    """As editors write: a new file renamed over the old one."""
    new = root / "json" / ".encoder.py.tmp"
    new.write_text("def dumps(needle): pass\n")
    new.rename(root / "json" / "encoder.py")


def _add(root: Path) -> None:
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "file.py").write_text("class NeedleError(JSONDecodeError): needle = 12345\n")
    (root / "top.txt").write_text("needle\n")


def _delete(root: Path) -> None:
    (root / "json" / "tool.py").unlink()
    shutil.rmtree(root / "email")


def _rename_directory(root: Path) -> None:
    (root / "json").rename(root / "jason")


def _file_for_directory(root: Path) -> None:
    shutil.rmtree(root / "json")
    (root / "json").write_text("needle JSONDecodeError\n")


def _ignore(root: Path) -> None:
    (root / "json" / "decoder.py").write_text("needle\n")
    (root / ".gitignore").write_text("/json/\n/email/\n")


def _ignore_elsewhere(root: Path) -> None:
    (root / ".git" / "info" / "exclude").write_text("json\n")
    (root / ".ignore").write_text("!json/tool.py\n")


def _commit(root: Path) -> None:
    _edit(root)
    _add(root)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "change")


def _switch(root: Path) -> None:
    """To another commit and, with changes that are kept, back."""
    _commit(root)
    git(root, "checkout", "--quiet", "--detach", "HEAD~1")


def _reset(root: Path) -> None:
    _commit(root)
    git(root, "reset", "--quiet", "--hard", "HEAD~1")


def _stash(root: Path) -> None:
    _edit(root)
    git(root, "stash", "--quiet")


CHANGES = (
    _edit,
    _edit_in_secret,
    _replace,
    _add,
    _delete,
    _rename_directory,
    _file_for_directory,
    _ignore,
    _ignore_elsewhere,
    _commit,
    _switch,
    _reset,
    _stash,
)


@pytest.fixture
def tree(tmp_path: Path, stdlib: Path) -> Path:
    """A few packages of the standard library as a repository that may be changed."""
    root = tmp_path / "tree"
    for name in ("json", "email", "logging", "re"):
        shutil.copytree(stdlib / name, root / name)
    (root / "json" / "needle.py").write_text("needle = 0\n")
    git(root.parent, "init", "--quiet", str(root))
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "tree")
    return root


@pytest.mark.parametrize("watch", [True, False], ids=["watch", "sweep"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_change_is_in_the_next_answer(
    rg: str, tree: Path, change: Callable[[Path], None], watch: bool
) -> None:
    session = Session.open(str(tree), watch=watch)
    session.build()
    try:
        check_all(session, rg, tree, PATTERNS)
        change(tree)
        check_all(session, rg, tree, [*PATTERNS, *map(without_index, PATTERNS[:2])])
        session.build()
        check_all(session, rg, tree, PATTERNS)
    finally:
        session.close()


def test_changes_one_after_another(rg: str, tree: Path) -> None:
    session = Session.open(str(tree))
    session.build()
    try:
        for change in (_edit, _replace, _add, _delete, _ignore, _edit_in_secret, _stash, _rename_directory):
            change(tree)
            check_all(session, rg, tree, PATTERNS)
    finally:
        session.close()


@pytest.fixture
def client(tree: Path) -> Iterator[Client]:
    client = Client(tree)
    client.index()
    yield client
    client.shutdown()


def test_the_server_answers_the_same(rg: str, tree: Path, client: Client) -> None:
    cases = [*PATTERNS, *scoped("needle")]
    for change in (None, _edit, _add, _delete):
        if change is not None:
            change(tree)
        for asked in cases:
            search = client.search(asked.request)
            ours = [
                (match.path, (match.line_number, match.offset, match.text, match.spans, True))
                for match in search
            ]
            theirs = ask_ripgrep(rg, tree, asked.request)
            assert sorted(ours) == sorted(
                (path, line) for path, record in theirs.items() for line in record.lines
            ), asked.name
            assert search.summary is not None
            assert search.summary.complete
