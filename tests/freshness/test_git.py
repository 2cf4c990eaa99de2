"""Rows about git: whatever it does to thousands of files at once is in the next answer.

No base is ever built anew for that; what the background makes of it instead is in ``test_layers``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshness.conftest import SWEEPING, in_memory
from support.served import Served, git, keep_branches, serving

#: Files on ``main``. On ``other``, the first so many are changed, the next so many deleted, as many new files
#: are added, and a directory is renamed: less than half of the files in all, above which a new base is made.
#: On ``third`` a few change that change or go on ``other`` as well (and are in no directory that is renamed).
FILES, CHANGED, DELETED, ADDED = 5000, 2000, 100, 100
DIRECTORIES, RENAMED = 60, 59
THIRD = range(1980, 2039)
#: Files with one of each fate.
SAMPLES = (17, 2050, 3059)


def name_of(number: int, branch: str = "main") -> str:
    directory = number % DIRECTORIES
    if branch == "other" and directory == RENAMED:
        return f"renamed/file{number:04}.c"
    return f"d{directory:02}/file{number:04}.c"


def text_of(number: int, branch: str) -> str:
    # The second line lets git see that a file is the same one under another name.
    return f"int word_{number:04}_{branch};\n/* what file {number:04} has on every branch */\n"


def change_most(root: Path, branch: str) -> None:
    for number in range(CHANGED):
        (root / name_of(number)).write_text(text_of(number, branch))


def make_branches(root: Path) -> None:
    for directory in range(DIRECTORIES):
        (root / f"d{directory:02}").mkdir(parents=True)
    git(root.parent, "init", "--quiet", str(root))
    for number in range(FILES):
        (root / name_of(number)).write_text(text_of(number, "main"))
    commit(root, "main")
    git(root, "switch", "--quiet", "--create", "third")
    for number in THIRD:
        (root / name_of(number)).write_text(text_of(number, "third"))
    commit(root, "third")
    git(root, "switch", "--quiet", "--create", "other", "main")
    change_most(root, "other")
    for number in range(CHANGED, CHANGED + DELETED):
        (root / name_of(number)).unlink()
    (root / "added").mkdir()
    for number in range(ADDED):
        (root / "added" / f"{number}.c").write_text(f"int added_{number:04}_other;\n")
    (root / f"d{RENAMED}").rename(root / "renamed")
    commit(root, "other")
    git(root, "switch", "--quiet", "main")


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def expect_main(tree: Served) -> None:
    """The tree is that of ``main``."""
    tree.expect({f"word_{number:04}_main": [name_of(number)] for number in SAMPLES})
    assert len(tree.paths("_main;")) == FILES
    assert tree.paths("_other;") == tree.paths("_third;") == []


def expect_other(tree: Served) -> None:
    """The tree is that of ``other``."""
    for number in SAMPLES:
        found = [name_of(number, "other")] if not CHANGED <= number < CHANGED + DELETED else []
        branch = "other" if number < CHANGED else "main"
        tree.expect({f"word_{number:04}_{branch}": found})
    tree.expect({"added_0099": ["added/99.c"]})
    assert len(tree.paths("_other;")) == CHANGED + ADDED
    assert len(tree.paths("_main;")) == FILES - CHANGED - DELETED
    assert tree.paths("_third;") == []


@pytest.fixture(scope="module")
def repository(rg: str) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="ig-", dir=in_memory()) as base:
        root = Path(base) / "big"
        make_branches(root)
        with serving(root, rg) as tree:
            tree.index()
            yield tree


@pytest.fixture
def tree(repository: Served) -> Iterator[Served]:
    """``main``, clean, most of it ruled out by the index; no other index is built than the first."""
    back_to_main(repository.root)
    repository.settle()
    builds = repository.builds()
    assert list(builds) == [repository.git("rev-parse", "main").strip()]
    expect_main(repository)
    assert repository.summary.served_by == "index"
    assert repository.summary.candidates < FILES / 2
    yield repository
    assert repository.builds() == builds


def back_to_main(root: Path) -> None:
    """From whatever a test has left, finished or not."""
    for state, end in (
        ("rebase-merge", ("rebase", "--abort")),
        ("MERGE_HEAD", ("merge", "--abort")),
        ("CHERRY_PICK_HEAD", ("cherry-pick", "--abort")),
        ("BISECT_LOG", ("bisect", "reset")),
    ):
        if (root / ".git" / state).exists():
            git(root, *end)
    git(root, "switch", "--quiet", "--force", "main")
    git(root, "reset", "--quiet", "--hard")
    git(root, "clean", "--quiet", "-d", "--force")
    keep_branches(root, "main", "other", "third")


def test_switch(tree: Served) -> None:
    tree.git("switch", "--quiet", "other")
    expect_other(tree)
    tree.git("switch", "--quiet", "main")
    expect_main(tree)
    tree.git("switch", "--quiet", "--detach", "third")
    tree.expect({"word_1999_": [name_of(1999)]})
    assert len(tree.paths("_third;")) == len(THIRD)


def test_switch_under_a_sweep(tree: Served, rg: str) -> None:
    """By a server that has no watch, with the index that the other one has made."""
    tree.close()
    with serving(tree.root, rg, **SWEEPING) as swept:
        swept.git("switch", "--quiet", "other")
        expect_other(swept)
        assert (swept.summary.freshness, swept.summary.served_by) == ("sweep", "index")
        swept.settle()
        expect_other(swept)
        swept.git("switch", "--quiet", "main")
        expect_main(swept)


def test_pull(tree: Served, tmp_path: Path) -> None:
    """From a second repository, fast-forward and merged."""
    tree.git("clone", "--quiet", "--branch", "other", str(tree.root), str(tmp_path / "second"))
    second = tmp_path / "second"
    (second / "added" / "0.c").write_text("int only_in_the_second_repository;\n")
    commit(second, "second")
    tree.git("switch", "--quiet", "--create", "pulled")
    tree.git("pull", "--quiet", "--ff-only", str(second), "other")
    tree.expect({"word_0017_": [name_of(17)], "word_0017_other": [name_of(17)], "word_2050_": []})
    tree.expect({"only_in_the_second_repository": ["added/0.c"]})
    (second / "added" / "1.c").write_text("int also_only_in_the_second_repository;\n")
    commit(second, "more")
    tree.write(name_of(3059, "other"), "int only_here;\n")
    tree.git("commit", "--quiet", "--all", "--message", "here")
    tree.git("pull", "--quiet", "--no-rebase", "--no-edit", str(second), "other")
    tree.expect({"only_in_the_second": ["added/0.c", "added/1.c"], "only_here": [name_of(3059, "other")]})


def test_reset(tree: Served) -> None:
    tree.git("switch", "--quiet", "--detach", "main")
    tree.git("reset", "--quiet", "--hard", "other")
    expect_other(tree)
    tree.git("reset", "--quiet", "--soft", "main")
    expect_other(tree)  # HEAD has moved, no file has
    tree.git("reset", "--quiet", "--mixed", "main")
    expect_other(tree)
    tree.git("reset", "--quiet", "--hard", "other")
    tree.git("reset", "--quiet", "--hard", "main")
    tree.git("clean", "--quiet", "-d", "--force")
    expect_main(tree)


def test_stash(tree: Served) -> None:
    change_most(tree.root, "stashed")
    tree.write("untracked.c", "int untracked_and_stashed;\n")
    assert len(tree.paths("_stashed;")) == CHANGED + 1
    tree.git("stash", "push", "--quiet", "--include-untracked")
    expect_main(tree)
    tree.expect({"_stashed;": []})
    tree.git("stash", "pop", "--quiet")
    tree.expect({"word_0017_": [name_of(17)], "word_0017_stashed": [name_of(17)]})
    assert len(tree.paths("_stashed;")) == CHANGED + 1
    tree.git("reset", "--quiet", "--hard")
    tree.git("clean", "--quiet", "--force")
    expect_main(tree)


def test_rebase(tree: Served) -> None:
    """Thousands of files go to and fro under it, and it stops in the middle of a conflict."""
    tree.git("switch", "--quiet", "--create", "topic")
    for number in (3000, 3001, 3059):
        tree.write(name_of(number), text_of(number, "topic"))
        tree.git("commit", "--quiet", "--all", "--message", f"topic {number}")
    tree.git("rebase", "--quiet", "other")
    tree.expect({"_topic;": [name_of(3000), name_of(3001), name_of(3059, "other")]})
    assert len(tree.paths("_other;")) == CHANGED + ADDED
    tree.git("rebase", "--quiet", "--onto", "main", "other")
    tree.expect({"_topic;": [name_of(3000), name_of(3001), name_of(3059)]})
    assert tree.paths("_other;") == []
    tree.git("switch", "--quiet", "--detach", "third")
    tree.git("rebase", "--quiet", "other", fails=True)
    assert (tree.root / ".git" / "rebase-merge").exists()
    conflict = name_of(1990)
    tree.expect(
        {"word_1990_": [conflict], "^<<<<<<< ": [name_of(number, "other") for number in range(1980, 2000)]}
    )
    tree.write(conflict, text_of(1990, "resolved"))
    tree.expect({"word_1990_other": [], "word_1990_resolved": [conflict]})
    tree.git("rebase", "--abort")
    tree.expect({"word_1990_": [conflict], "word_1990_third": [conflict], "^<<<<<<< ": []})


def test_amend(tree: Served) -> None:
    tree.git("switch", "--quiet", "--detach", "main")
    change_most(tree.root, "first")
    tree.git("commit", "--quiet", "--all", "--message", "to be amended")
    assert len(tree.paths("_first;")) == CHANGED
    tree.write(name_of(17), text_of(17, "amended"))
    tree.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    tree.expect({"word_0017_": [name_of(17)], "word_0017_amended": [name_of(17)]})
    tree.git("reset", "--quiet", "--hard", "HEAD@{1}")
    tree.expect({"word_0017_": [name_of(17)], "word_0017_first": [name_of(17)]})
    assert len(tree.paths("_first;")) == CHANGED


def test_merge_with_conflicts(tree: Served) -> None:
    tree.git("switch", "--quiet", "--detach", "other")
    tree.git("merge", "--quiet", "third", fails=True)
    both = [name_of(number, "other") for number in range(1980, 2000)]
    # What was changed there and deleted here is left as it was changed.
    deleted = [name_of(number) for number in range(2000, 2039)]
    tree.expect({"^=======": both, "word_1990_other": [name_of(1990)], "word_1990_third": [name_of(1990)]})
    assert set(tree.paths("_third;")) >= {*both, *deleted}
    tree.check("_third;")
    tree.git("merge", "--abort")
    expect_other(tree)
    tree.git("merge", "--quiet", "third", fails=True)
    tree.git("checkout", "--theirs", "--", ".")
    tree.git("add", "--all")
    tree.git("commit", "--quiet", "--no-edit")
    tree.expect({"^=======": [], "word_1990_": [name_of(1990)], "word_1990_third": [name_of(1990)]})
    assert len(tree.check("_third;")) == len(THIRD)


def test_bisect(tree: Served) -> None:
    tree.git("switch", "--quiet", "--detach", "main")
    for step in range(8):
        for number in range(0, CHANGED, 4):
            tree.write(name_of(number), text_of(number, f"step_{step}"))
        tree.git("commit", "--quiet", "--all", "--message", f"step {step}")
    tree.git("bisect", "start", "HEAD", "main")
    bad, seen = 5, set()
    while (tree.root / ".git" / "BISECT_START").exists():
        step = int(tree.git("log", "-1", "--format=%s").split()[1])
        if step in seen:
            break
        seen.add(step)
        tree.expect({"word_0016_": [name_of(16)], f"word_0016_step_{step};": [name_of(16)]})
        assert len(tree.paths(f"_step_{step};")) == CHANGED // 4
        tree.git("bisect", "bad" if step >= bad else "good")
    assert len(seen) >= 3
    tree.git("bisect", "reset")
    tree.expect({"word_0016_": [name_of(16)], "word_0016_step_7;": [name_of(16)]})


def test_cherry_pick(tree: Served) -> None:
    tree.git("switch", "--quiet", "--detach", "third")
    tree.git("cherry-pick", "other", fails=True)
    tree.expect({"^<<<<<<< ": [name_of(number, "other") for number in range(1980, 2000)]})
    assert len(tree.paths("_other;")) == CHANGED + ADDED
    tree.git("cherry-pick", "--abort")
    tree.expect({"^<<<<<<< ": [], "word_1990_": [name_of(1990)], "word_1990_third": [name_of(1990)]})
    tree.git("switch", "--quiet", "--detach", "main")
    tree.write(name_of(4999), text_of(4999, "mine"))
    tree.git("commit", "--quiet", "--all", "--message", "mine")
    tree.git("cherry-pick", "other")
    tree.expect({"word_0017_": [name_of(17)], "word_0017_other": [name_of(17)], "_mine;": [name_of(4999)]})
    assert len(tree.paths("_other;")) == CHANGED + ADDED
