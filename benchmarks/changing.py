"""A copy of a repository that may be changed: its second commit differs from the first in so many files.

What differs follows from the paths alone, so every run and every machine has the same second commit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

#: Branches of the copy: the source's HEAD, and the commit made of it.
FIRST, SECOND = "indexgrep-first", "indexgrep-second"
#: In every text that the second commit adds; in one of a hundred of its files (rounded up).
COMMON_WORD = "word_of_the_second_commit"
RARE_WORD = "rare_word_of_the_switch"
_RARE = 100
#: Of a hundred files that differ so many are deleted, and so many added; the others are modified.
_DELETED = _ADDED = 3
#: Only so much of a file is looked at to tell whether it is text.
_LOOKED_AT = 8192

_IDENTITY = ("-c", "user.name=indexgrep", "-c", "user.email=indexgrep@localhost")


def changing_copy(source: Path, destination: Path, files: int) -> Path:
    """The copy of ``source`` at ``destination``, made on the first call (half a minute), as it was committed.

    ``files`` is how many differ between the commits; at most half of the text files there are.
    """
    if not _is_made(source, destination, files):
        shutil.rmtree(destination, ignore_errors=True)
        partial = destination.with_name(destination.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        print(f"copying {source}", file=sys.stderr)
        subprocess.run(["cp", "-a", "--reflink=auto", source, partial], check=True)
        _commit(partial, files)
        partial.rename(destination)
    restore(destination)
    return destination


def restore(tree: Path) -> None:
    """Bring a copy back to its first commit, whatever happened to it; ignored files stay."""
    git(tree, "worktree", "prune")
    (tree / ".git" / "index.lock").unlink(missing_ok=True)
    git(tree, "checkout", "--quiet", "--force", FIRST)
    git(tree, "clean", "--quiet", "-ffd")


def git(tree: Path, *arguments: str) -> str:
    """What a git command prints. Raises ``CalledProcessError`` where it fails."""
    run = subprocess.run(
        ["git", "-C", tree, *_IDENTITY, *arguments], stdout=subprocess.PIPE, check=True, text=True
    )
    return run.stdout


def differing(tree: Path) -> int:
    """How many files differ between the two commits."""
    return git(tree, "diff", "--name-only", "--no-renames", "-z", FIRST, SECOND).count("\0")


def text_files(tree: Path) -> list[str]:
    """The tracked regular files with text in them, none of them hidden, in an order that looks random."""
    names = git(tree, "ls-files", "-z", "--stage").split("\0")[:-1]
    entries = (entry.split("\t", 1) for entry in names)
    regular = [path for attributes, path in entries if attributes.startswith("100")]
    visible = [path for path in regular if not path.startswith(".") and "/." not in path]
    return sorted(filter(lambda path: _is_text(tree / path), visible), key=_order)


def _order(path: str) -> bytes:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).digest()


def _is_text(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb", buffering=0) as file:
        start = file.read(_LOOKED_AT)
    return bool(start) and b"\0" not in start


def _is_made(source: Path, destination: Path, files: int) -> bool:
    if not destination.is_dir():
        return False
    try:
        head = git(source, "rev-parse", "HEAD")
        if git(destination, "rev-parse", FIRST) != head:
            return False
        return git(destination, "config", "indexgrep.differing").strip() == str(files)
    except subprocess.CalledProcessError:
        return False


def _commit(tree: Path, files: int) -> None:
    """Make the second commit, and go back to the first."""
    git(tree, "config", "gc.auto", "0")
    git(tree, "config", "indexgrep.differing", str(files))
    git(tree, "branch", "--force", FIRST)
    git(tree, "checkout", "--quiet", "-B", SECOND)
    paths = text_files(tree)
    files = min(files, len(paths) // 2)
    created: list[str] = []
    deleted, added = files * _DELETED // 100, files * _ADDED // 100
    for number, path in enumerate(paths[:files]):
        if number >= files - deleted:
            (tree / path).unlink()
            continue
        line = f"/* {COMMON_WORD} {_order(path).hex()} {RARE_WORD if number % _RARE == 0 else ''} */\n"
        if number >= files - deleted - added:
            new = f"{path}_{COMMON_WORD}.c"
            (tree / new).write_text(line)
            created.append(new)
        else:
            _replace_a_line(tree / path, line.encode())
    # Not all there is: files that are ignored and not tracked stay so.
    git(tree, "add", "--update")
    if created:
        git(tree, "add", "--force", "--", *created)
    git(tree, "commit", "--quiet", "--message", "Change many files")
    if differing(tree) != files:
        raise SystemExit(f"{differing(tree)} files differ between the commits of {tree}, not {files}")
    git(tree, "checkout", "--quiet", FIRST)


def _replace_a_line(path: Path, line: bytes) -> None:
    """Put a line in place of the one in the file's middle."""
    text = path.read_bytes()
    start = text.rfind(b"\n", 0, len(text) // 2) + 1
    end = text.find(b"\n", start) + 1 or len(text)
    path.write_bytes(text[:start] + line + text[end:])
