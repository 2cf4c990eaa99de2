"""Rows about git: whatever state a repository is in, what counts are the files in the working tree.

Each state is met by a server whose index is of another state, by one that has made an index in it, and after
changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshness.conftest import FILES, Make, make_tree, word
from support.served import Served, git, keep_branches, serving

PLACES = 6


@pytest.fixture(scope="module")
def shared(short_base: Path, rg: str) -> Iterator[Served]:
    root = short_base / "states"
    make_tree(root, PLACES)
    with serving(root, rg) as tree:
        tree.index()
        yield tree


@pytest.fixture
def tree(shared: Served) -> Iterator[Served]:
    """A repository in no special state, and served by one server all the time."""
    config = shared.root / ".git" / "config"
    before = config.read_text()
    shared.expect(everywhere(*range(PLACES)))
    yield shared
    shared.git("sparse-checkout", "disable")
    config.write_text(before)
    shared.git("switch", "--quiet", "--force", "main")
    shared.git("reset", "--quiet", "--hard", shared.git("rev-list", "--max-parents=0", "main").strip())
    shared.git("clean", "--quiet", "-d", "--force", "--force", "-x")
    keep_branches(shared.root, "main")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Another repository, to be cloned or linked."""
    make_tree(tmp_path / "tree", PLACES)
    return tmp_path / "tree"


def files_of(*places: int) -> list[str]:
    return [f"p{number:02}/{file}" for number in places for file in FILES]


def everywhere(*places: int, beside: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """What is expected where just these places are in the working tree as they were made."""
    expected = {"shared_word": [*files_of(*places), *beside]}
    for number in range(PLACES):
        name = word(f"p{number:02}", "code.c")
        expected[name] = [f"p{number:02}/code.c"] if number in places else []
    return expected


def indexed(tree: Served, expected: dict[str, list[str]], commit: str) -> None:
    """Right before and after an index is made of ``commit`` that rules files out."""
    tree.expect(expected)
    tree.client.index(force=True)
    tree.expect(expected)
    tree.check(word("p01", "code.c"))
    assert (tree.summary.served_by, tree.summary.commit) == ("index", commit)
    assert tree.summary.candidates < tree.summary.documents
    tree.write("p01/untracked.c", "int shared_word_untracked;\n")
    tree.expect({"shared_word_untracked": ["p01/untracked.c"]})
    (tree.root / "p01" / "untracked.c").unlink()
    tree.expect(expected)


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def test_unborn_branch(tree: Served) -> None:
    tree.git("switch", "--quiet", "--orphan", "unborn")
    assert tree.git("ls-files") == ""
    make = [tree.write(f"p01/{file}", f"int {word('p01', file)} = shared_word;\n") for file in FILES]
    for number in (2, 3):
        tree.write(f"p{number:02}/code.c", f"int {word(f'p{number:02}', 'code.c')};\n")
    tree.write(".gitignore", "p03\n")
    expected = {"shared_word": files_of(1), word("p02", "code.c"): ["p02/code.c"], word("p03", "code.c"): []}
    indexed(tree, expected, "")
    tree.git("add", "p01")
    tree.git("commit", "--quiet", "--message", "born")
    tree.expect(expected)
    make[0].write_text("int shared_words_no_more;\n")
    tree.expect({"shared_word\\b": files_of(1)[1:], "shared_words_no_more": files_of(1)[:1]})
    (tree.root / ".gitignore").unlink()
    tree.git("switch", "--quiet", "--force", "main")
    tree.expect(everywhere(*range(PLACES)))


def test_detached_head(tree: Served) -> None:
    first = head(tree.root)
    tree.write("p01/code.c", f"int shared_word, {word('p01', 'code.c')}_changed;\n")
    tree.commit_all()
    tree.git("switch", "--quiet", "--detach", first)
    indexed(tree, everywhere(*range(PLACES)), first)
    tree.git("switch", "--quiet", "main")
    tree.expect({f"{word('p01', 'code.c')}_changed": ["p01/code.c"]})
    tree.git("checkout", "--quiet", "HEAD~1")
    tree.expect(everywhere(*range(PLACES)))


def test_shallow_clone(root: Path, served: Make, tmp_path: Path) -> None:
    for number in range(3):
        (root / "p01" / "code.c").write_text(f"int shared_word, {word('p01', 'code.c')}, history_{number};\n")
        git(root, "commit", "--quiet", "--all", "--message", f"history {number}")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{root}", "shallow")
    tree = served("shallow")
    assert tree.git("rev-list", "--count", "HEAD").strip() == "1"
    indexed(tree, everywhere(*range(PLACES)), head(root))
    tree.expect({"history_2": ["p01/code.c"], "history_1": []})
    tree.git("fetch", "--quiet", "--unshallow")
    tree.git("switch", "--quiet", "--detach", "HEAD~1")
    tree.expect({"history_2": [], "history_1": ["p01/code.c"]})


def test_sparse_checkout(tree: Served) -> None:
    tree.git("sparse-checkout", "set", "p01", "p02")
    indexed(tree, everywhere(1, 2), head(tree.root))
    # Absent is not deleted, present is read: also what sparse checkout would not have put there.
    tree.write("p04/code.c", f"int {word('p04', 'code.c')};\n")
    tree.expect({word("p04", "code.c"): ["p04/code.c"]})
    (tree.root / "p04" / "code.c").unlink()
    tree.git("sparse-checkout", "add", "p03")
    tree.expect(everywhere(1, 2, 3))
    tree.git("sparse-checkout", "disable")
    tree.expect(everywhere(*range(PLACES)))
    tree.git("sparse-checkout", "set", "p05")
    tree.expect(everywhere(5))


def test_partial_clone(root: Path, served: Make, tmp_path: Path) -> None:
    """Whose repository has only those blobs that were checked out; the rest must not be asked for."""
    git(root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", "--sparse", f"file://{root}", "partial")
    root.rename(tmp_path / "away")
    tree = served("partial")
    tree.write("p02/code.c", f"int {word('p02', 'code.c')};\n")
    tree.git("config", "core.fsmonitor", "false")
    expected = {word("p02", "code.c"): ["p02/code.c"], word("p01", "code.c"): [], "shared_word": []}
    tree.expect(expected)
    tree.index()
    tree.expect(expected)
    (tmp_path / "away").rename(root)
    tree.git("sparse-checkout", "set", "p01", "p03")
    tree.expect({word("p02", "code.c"): ["p02/code.c"], "shared_word": files_of(1, 3)})


def test_linked_worktree(root: Path, served: Make, tmp_path: Path) -> None:
    """Outside the tree, and inside it, where it is searched as the plain files that it is."""
    git(root, "worktree", "add", "--quiet", "-b", "topic", str(tmp_path / "linked"))
    linked = served("linked")
    assert (linked.root / ".git").is_file()
    indexed(linked, everywhere(*range(PLACES)), head(root))
    tree = served()
    tree.expect(everywhere(*range(PLACES)))
    linked.write("p01/code.c", "int linked_only;\n")
    tree.write("p02/code.c", "int main_only;\n")
    linked.expect({"linked_only": ["p01/code.c"], "main_only": []})
    tree.expect({"linked_only": [], "main_only": ["p02/code.c"]})
    linked.commit_all()
    tree.commit_all()
    linked.expect({"linked_only": ["p01/code.c"], "main_only": []})
    tree.expect({"linked_only": [], "main_only": ["p02/code.c"]})
    linked.git("merge", "--quiet", "main")
    linked.expect({"linked_only": ["p01/code.c"], "main_only": ["p02/code.c"]})
    tree.git("worktree", "add", "--quiet", "--detach", "inside", "topic")
    tree.expect({"linked_only": ["inside/p01/code.c"], "main_only": ["p02/code.c", "inside/p02/code.c"]})
    tree.write("inside/.gitignore", "p01\n")
    tree.expect({"linked_only": []})
    tree.git("worktree", "remove", "--force", "inside")
    tree.expect({"linked_only": [], "main_only": ["p02/code.c"]})


def test_submodule(tree: Served, tmp_path: Path) -> None:
    """Searched as plain files, by its own ignore rules too; git's commit has only its name."""
    library = tmp_path / "library"
    make_tree(library, 2)
    (library / ".gitignore").write_text("*.made\n")
    git(library, "add", ".")
    git(library, "commit", "--quiet", "--message", "rules")
    file = ("-c", "protocol.file.allow=always")
    git(tree.root, *file, "submodule", "--quiet", "add", "--force", str(library), "lib")
    git(tree.root, "commit", "--quiet", "--message", "a submodule")
    expected = {
        "shared_word": files_of(*range(PLACES)) + [f"lib/{name}" for name in files_of(0, 1)],
        word("p01", "code.c"): ["p01/code.c", "lib/p01/code.c"],
        word("p02", "code.c"): ["p02/code.c"],
    }
    indexed(tree, expected, head(tree.root))
    tree.write("lib/p01/code.c", "int changed_in_the_submodule;\n")
    tree.write("lib/p01/code.made", "int ignored_in_the_submodule;\n")
    tree.expect(
        {
            "changed_in_the_submodule": ["lib/p01/code.c"],
            "ignored_in_the_submodule": [],
            word("p01", "code.c"): ["p01/code.c"],
        }
    )
    git(tree.root / "lib", "commit", "--quiet", "--all", "--message", "in the submodule")
    git(tree.root / "lib", "switch", "--quiet", "--detach", "HEAD~1")
    tree.expect(expected)
    tree.git("submodule", "--quiet", "deinit", "--force", "lib")
    tree.expect(everywhere(*range(PLACES)))
    tree.git(*file, "submodule", "--quiet", "update", "--init")
    tree.expect(expected)
    tree.git("switch", "--quiet", "--detach", "--no-recurse-submodules", "HEAD~1")
    tree.check("shared_word")


def test_skip_worktree(tree: Served) -> None:
    """Absent is not deleted, present is read, whatever git was told not to look at."""
    absent, present, later = (f"p{number:02}/code.c" for number in (1, 2, 3))
    tree.git("update-index", "--skip-worktree", absent, present, later)
    (tree.root / absent).unlink()
    (tree.root / present).write_text("int not_as_committed;\n")
    assert tree.git("status", "--porcelain") == ""
    expected = {
        word("p01", "code.c"): [],
        word("p02", "code.c"): [],
        "not_as_committed": [present],
        word("p03", "code.c"): [later],
        "shared_word": [name for name in files_of(*range(PLACES)) if name not in (absent, present)],
    }
    tree.expect(expected)
    tree.client.index(force=True)
    tree.expect(expected)
    (tree.root / later).write_text("int changed_later;\n")
    (tree.root / absent).write_text("int there_again;\n")
    tree.expect({word("p03", "code.c"): [], "changed_later": [later], "there_again": [absent]})
    tree.git("update-index", "--no-skip-worktree", absent, present, later)
    tree.git("reset", "--quiet", "--hard")
    tree.expect(everywhere(*range(PLACES)))


def test_assume_unchanged(tree: Served) -> None:
    """An edit that keeps size and mtime, on top of git's word that there is none."""
    file = tree.root / "p02" / "code.c"
    old, new = word("p02", "code.c"), word("p02", "code.c").upper()
    tree.git("update-index", "--assume-unchanged", "p02/code.c")

    def swap(before: str, after: str) -> None:
        status = file.stat()
        file.write_text(file.read_text().replace(before, after))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    swap(old, new)
    assert tree.git("status", "--porcelain") == ""
    expected = {old: [], new: ["p02/code.c"]}
    tree.expect(expected)
    tree.client.index(force=True)
    tree.expect(expected)
    swap(new, old)
    tree.expect({old: ["p02/code.c"], new: []})
    swap(old, new)
    tree.git("update-index", "--no-assume-unchanged", "p02/code.c")
    tree.git("checkout", "--quiet", "--", "p02/code.c")
    tree.check(old)
    tree.check(new)


@pytest.mark.parametrize("how", ["autocrlf", "gitattributes"])
def test_crlf_filters(tree: Served, how: str) -> None:
    """The working tree has other bytes than the commit, and git takes either form for unchanged."""
    if how == "autocrlf":
        tree.git("config", "core.autocrlf", "true")
    else:
        tree.write(".gitattributes", "*.c text eol=crlf\n")
        tree.commit_all()
    for file in tree.root.glob("p*/*.c"):
        file.unlink()
    tree.git("checkout", "--quiet", "--", ".")
    code = tree.root / "p02" / "code.c"
    assert code.read_bytes().endswith(b"\r\n\r\n")
    indexed(tree, everywhere(*range(PLACES)), head(tree.root))
    tree.expect({r"p02_code_c_word.*;\r": ["p02/code.c"], r"p02_code_c_word.*;$": []})
    assert sorted(tree.check(r"p02_code_c_word.*;$", crlf=True)) == ["p02/code.c"]
    # As it is in the commit: other bytes again, and still unchanged for git.
    code.write_bytes(code.read_bytes().replace(b"\r\n", b"\n"))
    assert tree.git("diff", "--name-only").strip() == ""
    tree.expect({r"p02_code_c_word.*;\r": [], r"p02_code_c_word.*;$": ["p02/code.c"]})
    tree.git("switch", "--quiet", "--create", "other")
    code.write_bytes(b"int on_the_other_branch;\r\n")
    tree.git("commit", "--quiet", "--all", "--message", "other")
    tree.git("switch", "--quiet", "main")
    tree.expect({r"p02_code_c_word.*;\r": ["p02/code.c"], "on_the_other_branch": []})


def test_content_filters(tree: Served) -> None:
    """What is committed is something else altogether (as by git-lfs); the working tree's text counts."""
    rot = "tr a-z n-za-m"
    tree.git("config", "filter.rot.clean", rot)
    tree.git("config", "filter.rot.smudge", rot)
    tree.write(".gitattributes", "*.rot filter=rot\n")
    tree.write("p01/secret.rot", "plain text in the tree\n")
    tree.write("p01/other.rot", "plain text of another\n")
    tree.commit_all()
    assert "cynva" in tree.git("show", "HEAD:p01/secret.rot")
    indexed(tree, {"plain text": ["p01/secret.rot", "p01/other.rot"], "cynva grkg": []}, head(tree.root))
    tree.git("switch", "--quiet", "--create", "other")
    tree.write("p01/secret.rot", "another plain word\n")
    tree.git("commit", "--quiet", "--all", "--message", "other")
    tree.write("p01/other.rot", "not committed\n")
    tree.client.index(force=True)
    # The index of a changed file is made of what is committed: that must not be what is searched.
    expected = {"plain": ["p01/secret.rot"], "cynva": [], "not committed": ["p01/other.rot"]}
    tree.expect(expected)
    tree.git("checkout", "--quiet", "--", ".")
    tree.git("switch", "--quiet", "main")
    tree.expect({"plain text": ["p01/secret.rot", "p01/other.rot"], "another plain word": [], "cynva": []})


def test_repository_that_the_library_cannot_open(served: Make) -> None:
    """With another kind of object ids: searched as a directory, by git's ignore rules none the less."""
    tree = served()
    tree.git("init", "--quiet", "--object-format=sha256")
    for number in (1, 2, 3):
        tree.write(f"p{number:02}/code.c", f"int {word(f'p{number:02}', 'code.c')};\n")
    tree.write(".gitignore", "p03\n")
    tree.commit_all()
    expected = {word(f"p{number:02}", "code.c"): [f"p{number:02}/code.c"] for number in (1, 2)}
    expected[word("p03", "code.c")] = []
    tree.expect(expected)
    tree.index()
    tree.expect(expected)
    tree.write("p01/code.c", "int changed;\n")
    tree.expect({"changed": ["p01/code.c"], word("p01", "code.c"): []})
