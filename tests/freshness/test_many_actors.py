"""Two editors, outside writers, an agent and git at once on one tree: each finds what it has just done, where
it is, and nothing that is gone; and when all have left, all answers are ripgrep's.

``INDEXGREP_ACTORS_S`` is for how many seconds they go on.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from freshness.conftest import Make
from indexgrep.request import SearchRequest
from support.actors import Agent, Builder, Committer, EditorActor, Writer
from support.editor import Editor, write_init
from support.oracle import ask_ripgrep
from support.served import Served, git

SECONDS = float(os.environ.get("INDEXGREP_ACTORS_S", "8"))
#: Files that git changes, and files that nobody does.
COMMITTED, UNTOUCHED = 150, 300

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(SECONDS * 3 + 240)]


@pytest.fixture
def tree(tmp_path: Path, served: Make) -> Served:
    root = tmp_path / "tree"
    for number in range(UNTOUCHED):
        file = root / f"untouched{number % 10}" / f"{number}.c"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"int untouched_word, in_{number % 50}_of_them_x;\n")
    (root / "git").mkdir()
    for number in range(COMMITTED):
        (root / "git" / f"{number}.txt").write_text(f"git_a_{number}_x\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "start")
    tree = served()
    tree.index()
    return tree


@pytest.fixture
def editors(tree: Served, nvim: str, tmp_path: Path) -> Iterator[list[Editor]]:
    init = write_init(tmp_path / "init.lua", "vim.g.indexgrep = { unsaved_debounce_ms = 20 }\n")
    with ExitStack() as stack:
        yield [stack.enter_context(Editor(nvim, init, cwd=tree.root)) for _ in range(2)]


def test_many_actors_at_once(tree: Served, editors: list[Editor]) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    typists = [EditorActor(f"editor{number}", tree.root, editor) for number, editor in enumerate(editors)]
    always = {"untouched_word": UNTOUCHED, "in_17_of_them_x": UNTOUCHED // 50}
    actors = [
        *typists,
        Writer("writer", tree.root, seed),
        Committer("git", tree.root, COMMITTED),
        Agent("agent", tree.root, always, dict(typist.unsaved for typist in typists)),
        Builder("builder", tree.root),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "support.actors", str(tree.root), str(seed + 1)]
    pid = tree.pid
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as outsider:
        for actor in actors:
            actor.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and all(actor.is_alive() for actor in actors):
            time.sleep(0.1)
        for actor in actors:
            actor.stop()
        for actor in actors:
            actor.join(60)
        rounds, complaint = outsider.communicate(timeout=60)
    assert [actor.fault for actor in actors if actor.fault] == []
    assert (outsider.returncode, complaint) == (0, "")
    assert all(actor.rounds > 0 for actor in actors)
    assert int(rounds) > 0
    print({actor.name: actor.rounds for actor in actors}, rounds)
    assert tree.pid == pid, "the server was lost on the way"
    in_the_end(tree, typists)


#: Words of every actor, of those that are gone as well, and what all files have.
PATTERNS = (
    r"word_\w+_\d+_x",
    r"word_editor\d_\w+",
    r"word_writer_\w+",
    r"word_outsider_\w+",
    r"git_[ab]_\d+_x",
    "word_git_",
    "untouched_word",
    "never_saved",
    "_x$",
)


def in_the_end(tree: Served, typists: list[EditorActor]) -> None:
    """Everybody is told the same: what ripgrep finds, and for an editor with its buffers as if written."""
    for pattern in PATTERNS:
        tree.check(pattern)
    for number, typist in enumerate(typists):
        word, path = typist.unsaved
        saved = tree.root.parent / f"saved{number}"
        shutil.copytree(tree.root, saved, symlinks=True)
        (saved / path).write_text(f"{word}\n")
        for pattern in PATTERNS:
            theirs = ask_ripgrep(tree.rg, saved, SearchRequest(patterns=(pattern,)))
            assert sorted(found for found, _ in typist.ask(pattern)) == sorted(theirs)
