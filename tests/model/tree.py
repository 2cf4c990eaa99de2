"""A small tree that changes in every way that trees change.

Every operation takes plain values, and does nothing where it does not apply (a path that is not there, a
rename that the system refuses). So any sequence of operations is valid, and so is what is left of one when
some are taken out. Nothing here depends on anything but the arguments, the tree, and the clock.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

#: What files say: all of one length, so that one can take another's place with no change of size, and with
#: no three letters in common, so that the index tells files apart.
WORDS = ("abelmosk", "cinnabar", "dulcimer", "fandango", "hyacinth", "jacquard", "kumquats", "whippets")

#: The paths that things happen to. Some are files to some operations and folders to others; their order by
#: bytes and by components differs; some are hidden, ignored by what ``IGNORE_LINES`` has, or odd.
PATHS = (
    "a",
    "a/x.c",
    "a/y.py",
    "a/b",
    "a/b/x.c",
    "a/b/z.txt",
    "a-b.txt",
    "a.c",
    "a0",
    "lib",
    "lib/x.c",
    "lib/x.log",
    "lib/deep",
    "lib/deep/y.py",
    "lib/deep/er/z",
    "build/out.c",
    "top.md",
    "x.log",
    ".hidden",
    ".conf/x.toml",
    "lib/.hidden.c",
    "é.txt",
    "new\nline.txt",
    "latin-\udce9",
)
FOLDERS = tuple(sorted({"", *(path.rpartition("/")[0] for path in PATHS), "lib/deep/er"}))

#: What files may look like; ``content`` says how.
SHAPES = (
    "plain", "plain", "plain", "crlf", "no-newline", "upper", "bom", "utf16le", "utf16be", "utf16-cut",
    "latin1", "nul", "nul-first", "kelvin", "long", "empty",
)  # fmt: skip

#: The ways to write a file.
WAYS = ("truncate", "in-place", "append", "rename", "anew", "mmap")

#: Ignore files, and what they may say.
IGNORE_FILES = (
    ".gitignore", "a/.gitignore", "lib/.gitignore", ".ignore", "lib/.ignore", "a/b/.ignore", ".rgignore",
    "lib/deep/.rgignore", ".git/info/exclude", "../.ignore", "../.gitignore",
)  # fmt: skip
IGNORE_LINES = (
    "*.log", "!x.log", "/build/", "x.c", "!x.c", "/a", "a/", "lib/deep", "deep/", "!deep/", "*", "!*.c",
    "**/er/**", "y.*", "!y.py", "!.hidden", "!.conf/", "*.txt", "é*",
)  # fmt: skip

#: Where symbolic links lead: into the tree, out of it, nowhere, in circles.
TARGETS = (
    "x.c",
    "../top.md",
    "a",
    "../a",
    ".",
    "..",
    "b",
    "../../outside",
    "../outside/secret.txt",
    "gone",
    "deep",
)

MODES = (0o000, 0o200, 0o444, 0o600, 0o644, 0o755, 0o311)

#: What git is asked to do. Most of it fails in most states, which is part of the game.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("add", "--all"),
    ("add", "--all", "--force"),
    ("commit", "--all", "--message", "all"),
    ("commit", "--amend", "--all", "--message", "amended"),
    ("switch", "main"),
    ("switch", "side"),
    ("switch", "--force", "main"),
    ("switch", "--force", "side"),
    ("switch", "--force", "--detach", "HEAD~1"),
    ("switch", "--merge", "side"),
    ("switch", "--force-create", "third"),
    ("switch", "--orphan", "unborn"),
    ("stash", "push"),
    ("stash", "push", "--include-untracked"),
    ("stash", "pop"),
    ("reset", "--hard"),
    ("reset", "--hard", "HEAD~1"),
    ("reset", "--hard", "ORIG_HEAD"),
    ("reset", "--soft", "HEAD~1"),
    ("reset", "--hard", "main"),
    ("merge", "side"),
    ("merge", "main"),
    ("merge", "--abort"),
    ("rebase", "main"),
    ("rebase", "side"),
    ("rebase", "--skip"),
    ("rebase", "--abort"),
    ("cherry-pick", "side"),
    ("cherry-pick", "--abort"),
    ("revert", "--no-edit", "HEAD"),
    ("bisect", "start", "HEAD", "HEAD~2"),
    ("bisect", "good"),
    ("bisect", "bad"),
    ("bisect", "reset"),
    ("checkout", "HEAD", "--", "."),
    ("checkout", "side", "--", "lib"),
    ("checkout", "--conflict=merge", "--", "."),
    ("restore", "--staged", "--worktree", "."),
    ("clean", "--force", "-d"),
    ("clean", "--force", "-d", "-x"),
    ("rm", "-r", "--cached", "--quiet", "a"),
    ("rm", "-r", "--force", "--quiet", "lib"),
    ("mv", "--force", "-k", "lib", "moved"),
    ("mv", "--force", "-k", "moved", "lib"),
    ("update-index", "--assume-unchanged", "a/x.c"),
    ("update-index", "--skip-worktree", "lib/x.c"),
    ("update-index", "--no-assume-unchanged", "a/x.c"),
    ("update-index", "--really-refresh"),
    ("sparse-checkout", "set", "lib"),
    ("sparse-checkout", "disable"),
    ("config", "core.autocrlf", "true"),
    ("config", "core.autocrlf", "false"),
    ("gc", "--quiet", "--prune=now"),
    ("pack-refs", "--all"),
)


def content(words: Sequence[int], shape: str) -> bytes:
    """The text of a file: a line for each of ``words`` (numbers in ``WORDS``), changed as ``shape`` says."""
    lines = [f"the {WORDS[word]} of {number}" for number, word in enumerate(words)]
    text = "".join(line + "\n" for line in lines)
    if shape == "crlf":
        return text.replace("\n", "\r\n").encode()
    if shape == "no-newline":
        return text[:-1].encode()
    if shape == "upper":
        return text.upper().encode()
    if shape == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    if shape == "utf16le":
        return b"\xff\xfe" + text.encode("utf-16-le")
    if shape == "utf16be":
        return b"\xfe\xff" + text.encode("utf-16-be")
    if shape == "utf16-cut":
        return b"\xff\xfe" + text.encode("utf-16-le")[:-3]
    if shape == "latin1":
        return "déjà ".encode("latin-1") + text.encode()
    if shape == "nul":
        return text.encode() + b"\0" + text.encode()
    if shape == "nul-first":
        return b"\0" + text.encode()
    if shape == "kelvin":
        return text.replace("k", "\u212a").replace("s", "\u017f").encode()
    if shape == "long":
        return ("x" * 5000 + text).encode()
    if shape == "empty":
        return b""
    return text.encode()


def ignore_rules(lines: Sequence[int]) -> bytes:
    """An ignore file of these lines, by their numbers in ``IGNORE_LINES``."""
    return "".join(f"{IGNORE_LINES[line]}\n" for line in lines).encode()


def remove(directory: Path) -> None:
    """Remove a directory with everything in it, whatever its modes."""
    for place, folders, _ in os.walk(directory):
        for path in (os.path.join(place, folder) for folder in folders):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(directory, ignore_errors=True)


class Tree:
    """The tree ``root``; beside it is ``outside``, which links lead to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: list[int] = []

    def populate(self) -> None:
        """Make the files to begin with."""
        self.root.mkdir(parents=True)
        for number, path in enumerate(PATHS):
            if path not in FOLDERS:
                self.write(path, (number % 8, (number // 2) % 8, 7), "plain", "truncate", False)
        outside = self.root.parent / "outside"
        outside.mkdir()
        (outside / "secret.txt").write_bytes(content(range(8), "plain"))

    def path(self, name: str) -> bytes:
        """The absolute path of ``name``. Raises ``OSError`` where links lead out of the tree on the way."""
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        parent = os.path.realpath(os.path.dirname(path))
        if not (parent + b"/").startswith(os.fsencode(self.root) + b"/"):
            raise NotADirectoryError(path)
        return path

    # Files

    def write(self, name: str, words: Sequence[int], shape: str, way: str, keep_time: bool) -> None:
        """Write a file, new or not; with ``keep_time`` its time of modification stays what it was."""
        self.write_bytes(name, content(words, shape), way, keep_time)

    def write_bytes(self, name: str, data: bytes, way: str, keep_time: bool = False) -> None:
        with self._attempt():
            path = self.path(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if stat.S_ISDIR(_mode(path)):
                return
            with self._keeping_time(path, keep_time):
                _WRITERS[way](path, data)

    def substitute(self, name: str, old: int, new: int, keep_time: bool = True) -> None:
        """Put one word in another's place: the same size, in place and, by default, the same time."""
        with self._attempt():
            path = self.path(name)
            with self._keeping_time(path, keep_time), open(path, "r+b") as file:
                data = file.read()
                file.seek(0)
                file.write(data.replace(WORDS[old].encode(), WORDS[new].encode()))

    def delete(self, name: str) -> None:
        """Remove a file, a link, or a folder with all that is in it."""
        with self._attempt():
            path = self.path(name)
            if stat.S_ISDIR(_mode(path)):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    def move(self, source: str, target: str, clear: bool) -> None:
        """Rename a file or folder; with ``clear`` what is in the way goes first."""
        with self._attempt():
            old, new = self.path(source), self.path(target)
            if _mode(old) and not (new + b"/").startswith(old + b"/"):
                if clear and not (old + b"/").startswith(new + b"/"):
                    self.delete(target)
                os.makedirs(os.path.dirname(new), exist_ok=True)
                os.rename(old, new)

    def swap(self, name: str, words: Sequence[int]) -> None:
        """A file in a folder's place, or a folder with a file in a file's."""
        with self._attempt():
            mode = _mode(self.path(name))
            self.delete(name)
            if stat.S_ISDIR(mode):
                self.write(name, words, "plain", "anew", False)
            elif mode:
                self.write(f"{name}/x.c", words, "plain", "anew", False)

    def make_folder(self, name: str) -> None:
        with self._attempt():
            os.makedirs(self.path(name), exist_ok=True)

    def chmod(self, name: str, mode: int) -> None:
        with self._attempt():
            if not stat.S_ISLNK(_mode(self.path(name))):
                os.chmod(self.path(name), mode)

    def symlink(self, name: str, target: str, clear: bool) -> None:
        """Make a symbolic link; with ``clear`` what is in its place goes first."""
        with self._attempt():
            if clear:
                self.delete(name)
            path = self.path(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)

    def hard_link(self, name: str, source: str) -> None:
        """Give a file a second name.

        A name in a directory that is not watched, hidden or ignored, is noticed only with the next event on
        the file. So there is one, where that could be.
        """
        with self._attempt():
            path, new = self.path(source), self.path(name)
            if stat.S_ISREG(_mode(path)):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                os.link(path, new)
                ignored = any(os.path.lexists(self.root / file) for file in IGNORE_FILES)
                if not ignored and not name.startswith(".conf"):
                    return
                status = os.stat(path)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def touch(self, name: str, seconds: float) -> None:
        """Set the time of modification to so many seconds from now."""
        when = time.time_ns() + int(seconds * 1e9)
        with self._attempt():
            os.utime(self.path(name), ns=(when, when), follow_symlinks=False)

    def ignore(self, name: str, lines: Sequence[int] | None, way: str) -> None:
        """Write an ignore file (``lines`` are numbers in ``IGNORE_LINES``), or remove it."""
        with self._attempt():
            above = name.startswith("../")
            path = os.fsencode(self.root.parent / name[3:]) if above else self.path(name)
            if lines is None:
                os.unlink(path)
                return
            if not name.startswith(".git/"):  # without git there is none
                os.makedirs(os.path.dirname(path), exist_ok=True)
            _WRITERS[way](path, ignore_rules(lines))

    def hold(self, name: str) -> None:
        """Open a file, to write to it later wherever it is then."""
        with self._attempt():
            if stat.S_ISREG(_mode(self.path(name))):
                self._held.append(os.open(self.path(name), os.O_RDWR))

    def write_held(self, words: Sequence[int]) -> None:
        """Write to the file that was opened last."""
        with self._attempt():
            if self._held:
                os.pwrite(self._held[-1], content(words, "plain"), 0)

    def replace(self) -> None:
        """Put a copy in the whole tree's place."""
        self.release()
        aside = self.root.with_name(f"{self.root.name}-aside")
        os.rename(self.root, aside)
        try:
            shutil.copytree(aside, self.root, symlinks=True)
        except OSError:  # permissions are in the way
            remove(self.root)
            os.rename(aside, self.root)
        else:
            remove(aside)

    def release(self) -> None:
        """Close the files that are held."""
        while self._held:
            os.close(self._held.pop())

    # Git

    def init(self) -> None:
        """Make the tree a repository with two branches that differ in most files."""
        self.version()
        self.git("switch", "--create", "side")
        for number, path in enumerate(PATHS[::2]):
            self.write(path, (number % 8, 3, 5), "plain", "truncate", False)
        self.delete("lib/deep")
        self.write("lib/deep", (1, 2), "plain", "truncate", False)
        self.write("side.c", (6,), "plain", "truncate", False)
        self.git("add", "--all", "--force")
        self.git("commit", "--message", "side")
        self.git("switch", "main")

    def version(self) -> None:
        """Make the tree a repository with one commit, if it is none."""
        if os.path.lexists(self.root / ".git"):
            return
        self.git("init", "--template=")
        for name, value in (
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("advice.detachedHead", "false"),
        ):
            self.git("config", name, value)
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        self.git("add", "--all", "--force")
        self.git("commit", "--message", "first")

    def unversion(self) -> None:
        """Take the repository away, and leave the files."""
        with self._attempt():
            if self.is_repository():
                remove(self.root / ".git")
            else:
                os.unlink(self.root / ".git")

    def nest(self, name: str) -> None:
        """Make a folder a repository of its own."""
        with self._attempt():
            path = os.fsdecode(self.path(name))
            self.git("init", "--template=", path)
            self.git("-C", path, "commit", "--allow-empty", "--message", "nested")

    def is_repository(self) -> bool:
        return (self.root / ".git").is_dir()

    def descend(self, how: str, origin: Tree) -> None:
        """Become a ``linked`` worktree of ``origin``, or a ``clone`` of it."""
        if how == "linked":
            origin.git("worktree", "add", "--force", "--detach", str(self.root))
        elif how == "clone":
            origin.git("clone", "--template=", str(origin.root), str(self.root))

    def git(self, *arguments: str) -> None:
        """Run git, whatever comes of it."""
        environment = os.environ | {"GIT_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "0"}
        subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    # Helpers

    @contextlib.contextmanager
    def _attempt(self) -> Iterator[None]:
        with contextlib.suppress(OSError):
            yield

    @contextlib.contextmanager
    def _keeping_time(self, path: bytes, keep: bool) -> Iterator[None]:
        try:
            before = os.stat(path) if keep else None
        except OSError:
            before = None
        yield
        if before is not None:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _mode(path: bytes) -> int:
    """The mode of what is at ``path``, 0 where nothing is."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _truncate(path: bytes, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _in_place(path: bytes, data: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _append(path: bytes, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def _rename(path: bytes, data: bytes) -> None:
    """As editors do: a new file beside the old one, then in its place."""
    temporary = path + b".swp"
    _truncate(temporary, data)
    os.rename(temporary, path)


def _anew(path: bytes, data: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    _truncate(path, data)


def _map(path: bytes, data: bytes) -> None:
    """Through a shared memory map, which is closed in the end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size != len(data):
            os.ftruncate(descriptor, len(data))
        if data:
            with mmap.mmap(descriptor, len(data)) as mapped:
                mapped[:] = data
    finally:
        os.close(descriptor)


_WRITERS: dict[str, Callable[[bytes, bytes], None]] = {
    "truncate": _truncate,
    "in-place": _in_place,
    "append": _append,
    "rename": _rename,
    "anew": _anew,
    "mmap": _map,
}
