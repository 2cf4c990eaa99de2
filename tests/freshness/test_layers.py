"""What the background makes of a HEAD that moves, of a linked worktree and of a second clone: by the figures
that ``status`` and summaries tell, bases are used again and never built anew, and few files are read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from freshness.conftest import in_memory
from indexgrep.index.store import Store
from indexgrep.overlay.policy import Policy
from support.served import Served, git, serving
from support.server_harness import eventually

#: Files on ``main``, and how many of them change on each other branch: more than stay hot for long.
FILES, CHANGED = 400, 120


def name_of(number: int) -> str:
    return f"d{number % 20:02}/file{number:03}.c"


def make_branch(root: Path, branch: str, first: int = 0) -> None:
    """A branch off ``main`` on which ``CHANGED`` files from ``first`` on differ."""
    git(root, "switch", "--quiet", "--create", branch, "main")
    for number in range(first, first + CHANGED):
        (root / name_of(number)).write_text(f"int word_{number:03}_{branch};\n")
    git(root, "commit", "--quiet", "--all", "--message", branch)


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ig-", dir=in_memory()) as base:
        yield Path(base)


@pytest.fixture(scope="module")
def original(base: Path) -> Path:
    """The repository that tests clone, or work in."""
    root = base / "original"
    git(base, "init", "--quiet", str(root))
    for number in range(FILES):
        (root / name_of(number)).parent.mkdir(exist_ok=True)
        (root / name_of(number)).write_text(f"int word_{number:03}_main;\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "main")
    make_branch(root, "other")
    git(root, "switch", "--quiet", "main")
    return root


@pytest.fixture
def tree(
    original: Path, tmp_path_factory: pytest.TempPathFactory, rg: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    """A served worktree with an index, in a cache of its own: another test's base would be the same."""
    root = original.with_name(f"tree{len(list(original.parent.iterdir()))}")
    shutil.copytree(original, root)
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    with serving(root, rg) as tree:
        tree.git("status")  # the copies have other times than git knows
        tree.index()
        assert list(tree.builds()) == [tree.git("rev-parse", "main").strip()]
        yield tree


@pytest.fixture
def beside(tree: Served, rg: str) -> Iterator[Callable[[str], Served]]:
    """Serves another directory beside the tree: ``beside(name)``."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(serving(tree.root.with_name(f"{tree.root.name}-{name}"), rg))


def layers(tree: Served, kind: str) -> dict[str, dict[str, Any]]:
    """The layers of a kind in use, by name."""
    return {one["name"]: one for one in tree.status()["index"]["layers"] if one["kind"] == kind}


def segments(tree: Served) -> set[str]:
    """The segments of a repository on disk."""
    return {one.name for one in Store(tree.root / ".git").stored() if one.name.startswith("segment-")}


def quick(tree: Served, branch: str) -> None:
    """An answer comes from the index, of which few files have to be read; and it is right."""
    tree.settle()
    number = 17 if branch != "main" else FILES - 10
    tree.expect({f"word_{number:03}_{branch}": [name_of(number)]})
    assert tree.summary.served_by == "index"
    # Grams of the digits are in other files as well; all that is hot is read.
    assert tree.summary.candidates <= Policy().hot_files + 40
    assert len(tree.paths(f"_{branch};")) == (CHANGED if branch != "main" else FILES)


def test_a_switch_makes_a_segment_and_a_switch_back_nothing(tree: Served) -> None:
    builds = tree.builds()
    tree.git("switch", "--quiet", "other")
    quick(tree, "other")
    made = segments(tree)
    assert len(made) == 1
    assert CHANGED - Policy().hot_files <= layers(tree, "segment")[next(iter(made))]["live"] <= CHANGED
    for branch in ("main", "other", "main"):
        tree.git("switch", "--quiet", branch)
        quick(tree, branch)
        assert segments(tree) == made  # what they have is used again
        assert tree.builds() == builds
    assert tree.status()["overlay"] <= Policy().hot_files
    assert layers(tree, "base")[next(iter(builds))]["live"] >= FILES - Policy().hot_files


def test_a_head_that_moves_over_the_same_files_changes_nothing(tree: Served) -> None:
    """By a commit, an amended one, and resets: there is nothing to read and nothing to build."""
    builds = tree.builds()
    for number in range(CHANGED):
        tree.write(name_of(number), f"int word_{number:03}_dirty;\n")
    quick(tree, "dirty")
    made, figures = segments(tree), tree.status()["index"]["layers"]
    for command in (
        ("commit", "--quiet", "--all", "--message", "dirty"),
        ("commit", "--quiet", "--amend", "--message", "amended"),
        ("switch", "--quiet", "--create", "more"),
        ("reset", "--quiet", "--soft", "main"),
        ("reset", "--quiet", "--mixed", "other"),
    ):
        tree.git(*command)
        quick(tree, "dirty")
        assert (segments(tree), tree.status()["index"]["layers"]) == (made, figures)
        assert tree.builds() == builds


def test_many_branches_leave_few_layers(tree: Served) -> None:
    branches = [f"b{number}" for number in range(Policy().segments + 2)]
    builds = tree.builds()
    for number, branch in enumerate(branches):
        make_branch(tree.root, branch, number)
        tree.settle()
    tree.git("switch", "--quiet", "main")
    for branch in (*branches[:2], "main"):
        tree.git("switch", "--quiet", branch)
        tree.settle()
    eventually(lambda: len(layers(tree, "segment")) <= Policy().segments)
    quick(tree, "main")
    assert tree.builds() == builds


def test_a_linked_worktree_uses_the_base(tree: Served, beside: Callable[[str], Served]) -> None:
    builds = tree.builds()
    linked = beside("linked")
    tree.git("worktree", "add", "--quiet", "-b", "topic", str(linked.root), "main")
    is_served_by_the_same(linked, tree)
    both_are_right(tree, linked)
    # Also where it starts on another commit.
    other = beside("other")
    tree.git("worktree", "add", "--quiet", str(other.root), "other")
    quick(other, "other")
    assert set(layers(other, "base")) == set(builds)
    assert tree.builds() == builds
    # One is removed: of the others, nothing goes with it.
    other.close()
    tree.git("worktree", "remove", "--force", str(other.root))
    quick(tree, "main")
    quick(linked, "main")
    the_cache_entry_is_removed_under_both(tree, linked)


def test_a_second_clone_uses_the_base(tree: Served, beside: Callable[[str], Served]) -> None:
    builds = tree.builds()
    clone = beside("clone")
    git(tree.root, "clone", "--quiet", "--branch", "main", str(tree.root), str(clone.root))
    is_served_by_the_same(clone, tree)
    assert clone.builds() == {}
    both_are_right(tree, clone)
    assert (tree.builds(), clone.builds()) == (builds, {})
    the_cache_entry_is_removed_under_both(tree, clone)
    # The first one goes, with all that is its own.
    tree.close()
    shutil.rmtree(tree.root)
    clone.write(name_of(16), "int after_the_first_was_gone;\n")
    clone.expect({"after_the_first": [name_of(16)], "word_018_": [name_of(18)], "nowhere": []})


def is_served_by_the_same(other: Served, tree: Served) -> None:
    """The base that ``tree`` has serves the files of ``other`` as well, which it has adopted by content."""
    quick(other, "main")
    status = other.status()
    assert status["index"]["dir"] == tree.status()["index"]["dir"]
    assert status["index"]["state"] == "ready"
    assert [one["live"] for one in layers(other, "base").values()] == [FILES]
    assert status["overlay"] == 0


def both_are_right(tree: Served, other: Served) -> None:
    """Whichever of two that use one base is edited, before and after their servers start anew."""
    tree.write(name_of(17), "int left_only;\n")
    other.write(name_of(18), "int right_only;\n")
    for restarted in (False, True):
        if restarted:
            tree.restart()
            other.restart()
        tree.expect({"left_only": [name_of(17)], "right_only": [], "word_018_": [name_of(18)]})
        other.expect({"left_only": [], "right_only": [name_of(18)], "word_017_": [name_of(17)]})
    other.restart()
    other.git("switch", "--quiet", "--create", "edited")
    other.git("commit", "--quiet", "--all", "--message", "there")
    for number in range(CHANGED):
        other.write(name_of(number), f"int word_{number:03}_there;\n")
    quick(other, "there")  # also by a server that has only met the new commit
    tree.expect({"_there;": [], "word_018_": [name_of(18)]})
    other.git("reset", "--quiet", "--hard", "HEAD~1")
    tree.git("checkout", "--quiet", "--", ".")
    quick(other, "main")
    quick(tree, "main")


def the_cache_entry_is_removed_under_both(tree: Served, other: Served) -> None:
    """What is open goes on serving; what is missed is built again."""
    shutil.rmtree(tree.status()["index"]["dir"])
    expected = {}
    for one in (tree, other):
        one.write(name_of(17), f"int only_in_{one.root.name}_;\n")
        expected[one] = {
            f"only_in_{one.root.name}_": [name_of(17)],
            "word_017": [],
            "word_018": [name_of(18)],
        }
        one.expect(expected[one])
        assert one.summary.served_by == "index"
    for one in (tree, other):
        one.restart()
        one.expect(expected[one])
    for one in (tree, other):
        one.index()
        one.expect(expected[one])
        assert one.summary.served_by == "index"


def test_a_second_clone_with_other_line_ends_adopts_nothing(
    tree: Served, beside: Callable[[str], Served]
) -> None:
    """The same commit, and not one file with the same bytes."""
    clone = beside("clone")
    crlf = ("--config", "core.autocrlf=true")
    git(tree.root, "clone", "--quiet", "--branch", "main", *crlf, str(tree.root), str(clone.root))
    clone.expect({"word_017_main;\\r": [name_of(17)], "word_018_main;$": []})
    tree.expect({"word_017_main;\\r": [], "word_018_main;$": [name_of(18)]})
    assert not any(one["live"] for one in layers(clone, "base").values() if one["name"] in tree.builds())


def test_a_base_of_the_commit_that_is_switched_to_is_used(
    tree: Served, beside: Callable[[str], Served]
) -> None:
    """Made in a linked worktree: nearer than the base in use, which it replaces."""
    linked = beside("linked")
    tree.git("worktree", "add", "--quiet", "-b", "topic", str(linked.root), "other")
    linked.client.index(force=True)
    commit = tree.git("rev-parse", "other").strip()
    builds = tree.builds()
    assert commit in builds
    linked.close()
    tree.git("switch", "--quiet", "other")
    quick(tree, "other")
    assert layers(tree, "base")[commit]["live"] > CHANGED // 2
    assert segments(tree) == set()
    assert tree.builds() == builds
