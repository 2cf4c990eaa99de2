"""From a path to its root, in every state a repository can be in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pygit2
import pytest

from indexgrep.errors import RootError
from indexgrep.tree.root import Root, find_root
from support.privileges import unprivileged


def git(directory: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], check=check, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    (top / "src" / "deep").mkdir(parents=True)
    (top / "src" / "file.c").write_text("int x;\n")
    git(tmp_path, "init", "--quiet", "repo")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "one")
    return top


def test_top_of_the_worktree(repository: Path) -> None:
    expected = Root(str(repository), str(repository / ".git"), str(repository / ".git"))
    for path in ("", "src", "src/deep", "src/file.c", "src/../src/deep/"):
        assert find_root(repository / path) == expected
    assert find_root(f"{repository}/src/") == expected


def test_relative_and_linked_paths(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "src")
    assert find_root(".").path == str(repository)
    (repository.parent / "link").symlink_to(repository / "src")
    assert find_root(repository.parent / "link").path == str(repository)


def test_plain_directory(tmp_path: Path) -> None:
    (tmp_path / "plain" / "sub").mkdir(parents=True)
    (tmp_path / "plain" / "sub" / "file").write_text("x")
    assert find_root(tmp_path / "plain") == Root(str(tmp_path / "plain"))
    assert find_root(tmp_path / "plain" / "sub" / "file") == Root(str(tmp_path / "plain" / "sub"))
    root = find_root(tmp_path / "plain")
    assert root.head() == ""


def test_head_follows(repository: Path) -> None:
    root = find_root(repository)
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "two")
    head = git(repository, "rev-parse", "HEAD")
    assert root.head() == head
    git(repository, "pack-refs", "--all")
    assert root.head() == head
    git(repository, "checkout", "--quiet", "--detach", "HEAD~1")
    assert root.head() == git(repository, "rev-parse", "HEAD")


def test_linked_worktree(repository: Path) -> None:
    linked = repository.parent / "linked"
    git(repository, "worktree", "add", "--quiet", str(linked))
    root = find_root(linked / "src")
    assert root.path == str(linked)
    assert root.git_dir == str(repository / ".git" / "worktrees" / "linked")
    assert root.common_dir == str(repository / ".git")
    assert root.head() == git(linked, "rev-parse", "HEAD")


def test_worktree_of_a_bare_parent(repository: Path) -> None:
    bare, linked = repository.parent / "bare.git", repository.parent / "tree"
    git(repository.parent, "clone", "--quiet", "--bare", str(repository), str(bare))
    with pytest.raises(RootError, match="bare repository") as caught:
        find_root(bare)
    assert "worktree" in caught.value.hint
    git(bare, "worktree", "add", "--quiet", str(linked))
    root = find_root(linked)
    assert (root.path, root.common_dir) == (str(linked), str(bare))
    assert root.head()


def test_submodule_and_nested(repository: Path) -> None:
    """Each is a root of its own; searched from the outer root they are plain files."""
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "../repo", "module")
    root = find_root(repository / "module" / "src")
    assert root.path == str(repository / "module")
    assert root.git_dir == str(repository / ".git" / "modules" / "module")
    assert root.head() == git(repository / "module", "rev-parse", "HEAD")
    git(repository, "init", "--quiet", "nested")
    assert find_root(repository / "nested").path == str(repository / "nested")


def test_unborn_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    root = find_root(tmp_path / "new")
    assert (root.path, root.git_dir) == (str(tmp_path / "new"), str(tmp_path / "new" / ".git"))
    assert root.head() == ""


def test_shallow_clone(repository: Path) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "two")
    shallow = repository.parent / "shallow"
    git(repository.parent, "clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))
    assert find_root(shallow).head() == git(repository, "rev-parse", "HEAD")


def test_rebase_in_progress(repository: Path) -> None:
    for branch, text in (("other", "int y;\n"), ("main", "int z;\n")):
        git(repository, "checkout", "--quiet", "-B", branch, "main")
        (repository / "src" / "file.c").write_text(text)
        git(repository, "commit", "--quiet", "--all", "-m", branch)
    git(repository, "rebase", "other", check=False)
    assert (repository / ".git" / "rebase-merge").exists()
    assert find_root(repository).head() == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("content", ["", "garbage\n", "ref: refs/heads/../../x\n", "ref: refs/heads/none\n"])
def test_corrupt_head(repository: Path, content: str) -> None:
    """The tree is searched all the same."""
    root = find_root(repository)
    (repository / ".git" / "HEAD").write_text(content)
    assert root.head() == ""
    assert find_root(repository).path == str(repository)
    assert find_root(repository).head() == ""


def test_head_names_a_missing_object(repository: Path) -> None:
    missing = "1" * 40
    (repository / ".git" / "HEAD").write_text(f"{missing}\n")
    assert find_root(repository).head() in ("", missing)


def test_broken_git_file(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /no/such/place\n")
    assert find_root(tmp_path) == Root(str(tmp_path))


def test_repository_of_another_owner(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git refuses to open (``safe.directory``) is a plain directory."""

    def refuse(*_: object) -> None:
        raise pygit2.GitError("repository path is not owned by current user")

    monkeypatch.setattr(pygit2, "Repository", refuse)
    assert find_root(repository / "src") == Root(str(repository / "src"))


def test_inside_the_git_directory(repository: Path) -> None:
    assert find_root(repository / ".git").path in (str(repository), str(repository / ".git"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none", "No such file or directory"),
        ("none/deeper", "No such file"),
        ("src/file.c/x", "Not a directory"),
    ],
)
def test_missing(repository: Path, path: str, message: str) -> None:
    with pytest.raises(RootError, match=message) as caught:
        find_root(repository / path)
    assert caught.value.hint


def test_neither_file_nor_directory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RootError, match="neither a file nor a directory"):
        find_root(tmp_path / "fifo")


def test_link_loop(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RootError, match="symbolic links"):
        find_root(tmp_path / "loop")


def test_unreadable(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with unprivileged(tmp_path), pytest.raises(RootError, match="Permission denied"):
        find_root(tmp_path / "closed")


def test_too_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home and ``/`` are refused with a word on how to force them; what lies in them is not."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "project").mkdir(parents=True)
    for path in (str(tmp_path / "home"), "/"):
        with pytest.raises(RootError, match="refusing to search") as caught:
            find_root(path)
        assert "--force-root" in caught.value.hint
        assert find_root(path, force=True).path == path
    (tmp_path / "home" / "file").write_text("x")
    with pytest.raises(RootError, match="your home directory"):
        find_root(tmp_path / "home" / "file")
    assert find_root(tmp_path / "home" / "project").path == str(tmp_path / "home" / "project")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(name)
    assert find_root(name) == Root(name)
    git(tmp_path, "init", "--quiet", name)
    assert find_root(name).path == name
