"""The model test's machine: a session over a tree that changes in every way, asked all the while.

The model is ripgrep: whatever was done, and however far indexes, watches and caches are behind or broken,
each answer equals what ripgrep says of the tree at that moment.

A run is a list of steps, drawn before it begins (``steps``); a step is a call of one of the machine's methods
with plain values, written as in Python. So a run can be done again from its text, and a run that fails is cut
down to the few steps that make it fail.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from indexgrep.errors import Cancelled, IndexLocked
from indexgrep.index.documents import TextBuffer
from indexgrep.overlay.buffers import Buffer
from indexgrep.overlay.policy import Policy
from indexgrep.request import SearchRequest
from indexgrep.runtime import cache_dir
from indexgrep.search import Session
from indexgrep.tree.signature import GRAIN_NS
from support.crash import killed_at
from support.privileges import bound_by_permissions

from .asking import Oracle, Tally, draw_request, faults, refused, word_faults
from .stamps import coarse_time_stamps
from .tree import (
    COMMANDS,
    FOLDERS,
    IGNORE_FILES,
    IGNORE_LINES,
    MODES,
    PATHS,
    SHAPES,
    TARGETS,
    WAYS,
    WORDS,
    Tree,
    content,
    ignore_rules,
    remove,
)

#: See ``coarse_time_stamps``.
_COARSE_NS = 40_000_000


class Fault(AssertionError):
    """An answer that is not ripgrep's, or an error; the text says which, and the steps that led to it."""

    def __init__(self, what: str, steps: Sequence[str]) -> None:
        lines = "\n".join(f"    {line}" for line in steps)
        super().__init__(f"{what}\nafter these steps:\n{lines}")
        self.steps = list(steps)


@dataclass
class _Place:
    """One tree, and what is open on it."""

    tree: Tree
    oracle: Oracle
    sessions: list[Session] = field(default_factory=list)
    #: Unsaved buffers by their path.
    buffers: dict[bytes, Buffer] = field(default_factory=dict)


class Machine:
    """Sessions over a tree, and over its copies; each public method but ``run`` and ``close`` is a step."""

    def __init__(self, base: Path, rg: str, tally: Tally) -> None:
        """``base`` is where to make trees, ``rg`` the program to compare with."""
        self._rg = rg
        self._tally = tally
        self._directory = Path(tempfile.mkdtemp(dir=base))
        self._places: dict[str, _Place] = {}
        self._here = self._place("tree")
        self._options: dict[str, Any] = {}
        self._arrivals = itertools.count(1)
        self._exit = contextlib.ExitStack()
        own = {
            "INDEXGREP_CACHE_DIR": f"{self._directory}/cache",
            "XDG_CONFIG_HOME": f"{self._directory}/config",
        }
        self._exit.enter_context(mock.patch.dict(os.environ, own))
        self._real_time, self._real_time_ns = time.time, time.time_ns
        self._grain_s = 1.5e-9 * GRAIN_NS
        self._complaints = _Complaints()
        logging.getLogger("indexgrep").addHandler(self._complaints)

    def _place(self, name: str) -> _Place:
        if name not in self._places:
            tree = Tree(self._directory / "world" / name)
            self._places[name] = _Place(tree, Oracle(self._rg, tree.root, self._directory / "shadow"))
        return self._places[name]

    @property
    def _tree(self) -> Tree:
        return self._here.tree

    def run(self, steps: Sequence[str]) -> None:
        """Do the steps. Raises ``Fault``."""
        for number, step in enumerate(steps, 1):
            try:
                self._do(step)
                _require(self._complaints.texts)
            except Exception as error:
                what = str(error) if isinstance(error, _Wrong) else f"{type(error).__name__}: {error}"
                raise Fault(what, steps[:number]) from error

    def _do(self, step: str) -> None:
        name, words, arguments = _parsed(step)
        getattr(self, name)(*words, **arguments)

    def close(self) -> None:
        logging.getLogger("indexgrep").removeHandler(self._complaints)
        self._exit.close()
        for place in self._places.values():
            self._close_sessions(place)
            place.tree.release()
        remove(self._directory)

    # Beginning

    def start(
        self,
        git: bool,
        watch: bool,
        keep: bool = False,
        build: bool = True,
        user: bool = False,
        coarse: bool = False,
        cap: int | None = None,
        **policy: float,
    ) -> None:
        """Make the tree and open a session.

        Args:
            git: whether the tree is a repository.
            watch: see ``Session``, as for ``keep``.
            build: build an index at once.
            user: have permissions count, also for root.
            cap: the size of files above which they are not indexed.
            coarse: have time stamps as of a file system that stores coarse ones.
            policy: thresholds of maintenance, where they are not the usual ones.
        """
        if user:
            self._exit.enter_context(bound_by_permissions())
        if coarse:
            self._exit.enter_context(coarse_time_stamps(_COARSE_NS))
            self._grain_s = 2.5e-9 * _COARSE_NS
        if cap is not None:
            for method in (TextBuffer.read, TextBuffer.append):
                self._exit.enter_context(mock.patch.object(method, "__defaults__", (cap,)))
        self._tree.populate()
        if git:
            self._tree.init()
        self._options = {"watch": watch, "keep": keep, "policy": Policy(**policy)}
        self._open(self._here)
        if build:
            self._pause()
            self._here.sessions[0].build()
        self.ask_everywhere()

    def _open(self, place: _Place, **options: Any) -> None:
        place.sessions.append(Session.open(str(place.tree.root), **{**self._options, **options}))

    def _close_sessions(self, place: _Place) -> None:
        while place.sessions:
            place.sessions.pop().close()

    def go(self, name: str) -> None:
        """Go on in another tree: ``tree``, a linked worktree of it (``linked``), or a ``clone``."""
        if not self._places["tree"].tree.is_repository():
            return
        place = self._place(name)
        if not place.sessions:
            place.tree.descend(name, self._places["tree"].tree)
            if not place.tree.root.is_dir():
                return
            self._open(place)
        self._here = place

    # Asking

    def ask_for(self, *words: int) -> None:
        """Ask for each of these words alone."""
        self._ask_for(words, self._here)

    def ask_everywhere(self) -> None:
        """Ask for every word, in all trees."""
        for place in self._places.values():
            self._ask_for(range(len(WORDS)), place)

    def _ask_for(self, words: Sequence[int], place: _Place) -> None:
        if not place.sessions:  # git could not make the tree
            return
        expected = place.oracle.words()
        for session in place.sessions:
            _require(word_faults(session, words, expected, place.oracle, self._tally))

    def ask(self, cwd: str = "", **fields: Any) -> None:
        """Ask for anything, from a folder of the tree."""
        request = SearchRequest.from_wire(fields)
        for session in self._here.sessions:
            _require(faults(session, self._here.oracle, request, cwd, self._tally, self._here.buffers))

    def look(self) -> None:
        """Compare what cannot be searched, and the number of files."""
        expected = self._here.oracle.refused()
        files = self._here.oracle.files()
        for session in self._here.sessions:
            found = refused(session)
            _require([f"refused {found}, not {expected}"] if found != expected else [])
            documents = session.status()["documents"]
            # A file in a directory that may be listed but not entered is one to ripgrep.
            if not found:
                _require([f"{documents} documents, not {files}"] if documents != files else [])

    # Unsaved buffers

    def buffer(self, name: str, words: Sequence[int], shape: str) -> None:
        """Have an unsaved buffer, which later questions are asked with."""
        path = os.fsencode(name)
        if not any(
            path.startswith(other + b"/") or other.startswith(path + b"/") for other in self._here.buffers
        ):
            number = next(self._arrivals)
            self._here.buffers[path] = Buffer(path, number, content(words, shape), number)

    def drop_buffers(self) -> None:
        self._here.buffers.clear()

    def save(self, name: str, way: str) -> None:
        """Write a buffer to its file, and tell the sessions."""
        buffer = self._here.buffers.pop(os.fsencode(name), None)
        if buffer is not None:
            self._tree.write_bytes(name, buffer.text, way)
            self.tell(name)

    def tell(self, name: str) -> None:
        """Tell the sessions that a file changed, whether it did or not."""
        for session in self._here.sessions:
            session.changed([os.fsencode(name)])

    # Changing the tree

    def write(self, name: str, words: Sequence[int], shape: str, way: str, keep_time: bool) -> None:
        self._tree.write(name, words, shape, way, keep_time)

    def substitute(self, name: str, old: int, new: int, keep_time: bool) -> None:
        self._tree.substitute(name, old, new, keep_time)

    def delete(self, name: str) -> None:
        self._tree.delete(name)

    def move(self, source: str, target: str, clear: bool) -> None:
        self._tree.move(source, target, clear)

    def swap(self, name: str, words: Sequence[int]) -> None:
        self._tree.swap(name, words)

    def make_folder(self, name: str) -> None:
        self._tree.make_folder(name)

    def chmod(self, name: str, mode: int) -> None:
        self._tree.chmod(name, mode)

    def symlink(self, name: str, target: str, clear: bool) -> None:
        self._tree.symlink(name, target, clear)

    def hard_link(self, name: str, source: str) -> None:
        self._tree.hard_link(name, source)
        for session in self._here.sessions:
            session.status()  # no event would tell of writes through a name that is removed before any look

    def touch(self, name: str, seconds: float) -> None:
        self._tree.touch(name, seconds)

    def ignore(self, name: str, lines: Sequence[int] | None, way: str) -> None:
        self._tree.ignore(name, lines, way)

    def ignore_globally(self, lines: Sequence[int] | None) -> None:
        """Write the user's excludes file, or remove it."""
        path = Path(os.environ["XDG_CONFIG_HOME"], "git", "ignore")
        path.parent.mkdir(parents=True, exist_ok=True)
        if lines is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(ignore_rules(lines))

    def replace_root(self) -> None:
        self._tree.replace()

    def nest(self, name: str) -> None:
        self._tree.nest(name)

    def hold(self, name: str) -> None:
        self._tree.hold(name)

    def write_held(self, words: Sequence[int], close: bool) -> None:
        self._tree.write_held(words)
        if close:
            self._tree.release()

    def git(self, command: Sequence[str]) -> None:
        self._tree.git(*command)

    def commit(self) -> None:
        self._tree.git("add", "--all", "--force")
        self._tree.git("commit", "--message", "step")

    def unversion(self) -> None:
        self._tree.unversion()

    def version(self) -> None:
        self._tree.version()

    # The index, its sessions, and time

    def limit(self, size: int) -> None:
        """Have indexes removed once they take more than so many bytes together."""
        self._exit.enter_context(mock.patch.dict(os.environ, {"INDEXGREP_CACHE_BUDGET": str(size)}))

    def build(self, age: bool, force: bool) -> None:
        """Build the index; with ``age`` of files that are not racy, which it then serves."""
        if age:
            self._pause()
        self._here.sessions[-1].build(force=force)

    def maintain(self, steps: int, age: bool) -> None:
        """Do some steps of maintenance."""
        if age:
            self._pause()
        for session in self._here.sessions:
            self._maintain(session, None, steps)

    def _maintain(self, session: Session, cancel: threading.Event | None, steps: int = 20) -> None:
        session.status()
        with contextlib.suppress(IndexLocked):  # the thread of another session is at it
            for _ in range(steps):
                if not session.maintain(cancel):
                    break

    def amid(self, what: str, after: int, then: str) -> None:
        """Have something happen in the middle of a build or of maintenance: another step, or ``cancel()``."""
        self._pause()

        def happen() -> None:
            if then == "cancel()":
                moment.set()
            else:
                self._do(then)

        moment = _Moment(after, happen)
        with contextlib.suppress(Cancelled):
            for session in self._here.sessions:
                if what == "build":
                    session.build(None, moment, force=True)
                else:
                    self._maintain(session, moment)

    def reopen(self, watch: bool) -> None:
        """Close all sessions of the tree and open one."""
        self._close_sessions(self._here)
        self._open(self._here, watch=watch)

    def second(self, watch: bool) -> None:
        """Open a second session on the same tree and cache, or close the first."""
        if len(self._here.sessions) > 1:
            self._here.sessions.pop(0).close()
        else:
            self._open(self._here, watch=watch)

    def kill(self, after: int, force: bool) -> None:
        """Another process builds and maintains, and is killed when it is about to change the file system for
        the ``after``-th time."""
        if self._options["keep"]:  # a fork would have the locks of threads that it does not have
            for place in self._places.values():
                self._close_sessions(place)
        self._pause()
        root, policy = str(self._tree.root), self._options["policy"]
        killed_at(lambda: _keep_in_order(root, policy, force), after, below=cache_dir(), writes=False)
        for place in self._places.values():
            if not place.sessions and place.tree.root.is_dir():
                self._open(place)

    def lose(self, what: str) -> None:
        """Remove the cache, or a part of it."""
        pattern = {"repository": "repos/*", "index": "repos/*/*/", "stamps": "repos/*/*/stamps-*"}.get(what)
        for path in sorted(cache_dir().glob(pattern)) if pattern else [cache_dir()]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def damage(self, file: int, at: float, how: str) -> None:
        """Damage a file of the cache while no session has it open."""
        for place in self._places.values():
            self._close_sessions(place)
        files = sorted(path for path in cache_dir().glob("repos/*/*/*") if path.is_file())
        if files:
            _damage(files[file % len(files)], at, how)
        for place in self._places.values():
            if place.tree.root.is_dir():
                self._open(place)

    def set_clock(self, seconds: float) -> None:
        """Set the clock back; the files that were there are from the future then."""
        now, now_ns = self._real_time, self._real_time_ns
        for name, clock in (
            ("time", lambda: now() + seconds),
            ("time_ns", lambda: now_ns() + int(seconds * 1e9)),
        ):
            self._exit.enter_context(mock.patch.object(time, name, clock))

    def rest(self) -> None:
        """Let time stamps grow old enough to be relied on."""
        self._pause()

    def _pause(self) -> None:
        time.sleep(self._grain_s)


class _Moment(threading.Event):
    """An event at which something happens when it is looked at for the ``after``-th time."""

    def __init__(self, after: int, happen: Callable[[], None]) -> None:
        super().__init__()
        self._left = after
        self._happen = happen

    def is_set(self) -> bool:
        self._left -= 1
        if not self._left:
            self._happen()
        return super().is_set()


def _keep_in_order(root: str, policy: Policy, force: bool) -> None:
    session = Session.open(root, watch=False, policy=policy)
    session.build(force=force)
    session.status()
    while session.maintain():
        session.status()
    session.close()


class _Complaints(logging.Handler):
    """Keeps what is logged of errors that nobody expects, which go no further in a thread of maintenance."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


class _Wrong(AssertionError):
    """An answer that is not ripgrep's."""


def _require(found: Sequence[str]) -> None:
    if found:
        raise _Wrong("\n".join(found))


def _damage(path: Path, at: float, how: str) -> None:
    """Flip a byte, cut off what follows, or remove a file."""
    size = path.stat().st_size
    if how == "remove":
        path.unlink()
    elif how == "cut":
        os.truncate(path, int(at * size))
    elif size:
        with open(path, "r+b") as file:
            file.seek(int(at * (size - 1)))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0xFF]))


# Drawing runs

#: How often a kind of step comes, and its arguments.
_Rule = tuple[int, Callable[[Random, "_Places"], dict[str, Any]]]


class _Places:
    """The paths that one run plays with: sometimes few, so that much happens to each."""

    def __init__(self, rng: Random) -> None:
        self.paths = rng.sample(PATHS, rng.choice((4, 8, len(PATHS))))
        self.everything = [*self.paths, *FOLDERS[1:]]


def _bit(rng: Random) -> bool:
    return rng.random() < 0.5


def _words(rng: Random) -> tuple[int, ...]:
    return tuple(rng.randrange(len(WORDS)) for _ in range(rng.choice((1, 2, 2, 3))))


def _lines(rng: Random) -> tuple[int, ...] | None:
    if rng.random() < 0.25:
        return None
    return tuple(rng.randrange(len(IGNORE_LINES)) for _ in range(rng.randrange(4)))


_RULES: dict[str, _Rule] = {
    "ask": (4, lambda rng, _: draw_request(rng)),
    "write": (
        6,
        lambda rng, places: {
            "name": rng.choice(places.paths),
            "words": _words(rng),
            "shape": rng.choice(SHAPES),
            "way": rng.choice(WAYS),
            "keep_time": _bit(rng),
        },
    ),
    "substitute": (
        6,
        lambda rng, places: {
            "name": rng.choice(places.paths),
            "old": rng.randrange(len(WORDS)),
            "new": rng.randrange(len(WORDS)),
            "keep_time": _bit(rng),
        },
    ),
    "delete": (2, lambda rng, places: {"name": rng.choice(places.paths)}),
    "move": (
        4,
        lambda rng, places: {
            "source": rng.choice(places.everything),
            "target": rng.choice(places.everything),
            "clear": _bit(rng),
        },
    ),
    "swap": (1, lambda rng, places: {"name": rng.choice(places.paths), "words": _words(rng)}),
    "make_folder": (1, lambda rng, places: {"name": rng.choice(places.everything)}),
    "chmod": (2, lambda rng, places: {"name": rng.choice(places.everything), "mode": rng.choice(MODES)}),
    "symlink": (
        2,
        lambda rng, places: {
            "name": rng.choice(places.everything),
            "target": rng.choice(TARGETS),
            "clear": _bit(rng),
        },
    ),
    "hard_link": (
        2,
        lambda rng, places: {"name": rng.choice(places.paths), "source": rng.choice(places.paths)},
    ),
    "touch": (
        2,
        lambda rng, places: {
            "name": rng.choice(places.everything),
            "seconds": rng.choice((-1e6, -10, 0, 10, 1e6)),
        },
    ),
    "ignore": (
        4,
        lambda rng, _: {"name": rng.choice(IGNORE_FILES), "lines": _lines(rng), "way": rng.choice(WAYS)},
    ),
    "ignore_globally": (1, lambda rng, _: {"lines": _lines(rng)}),
    "replace_root": (1, lambda rng, _: {}),
    "nest": (1, lambda rng, _: {"name": rng.choice(("a", "lib", "lib/deep", "a/b"))}),
    "hold": (2, lambda rng, places: {"name": rng.choice(places.paths)}),
    "write_held": (2, lambda rng, _: {"words": _words(rng), "close": rng.random() < 0.3}),
    "buffer": (
        2,
        lambda rng, places: {
            "name": rng.choice(places.paths),
            "words": _words(rng),
            "shape": rng.choice(SHAPES),
        },
    ),
    "drop_buffers": (1, lambda rng, _: {}),
    "save": (1, lambda rng, places: {"name": rng.choice(places.paths), "way": rng.choice(WAYS)}),
    "tell": (1, lambda rng, places: {"name": rng.choice(places.everything)}),
    "look": (1, lambda rng, _: {}),
    "maintain": (10, lambda rng, _: {"steps": rng.choice((1, 3, 10, 10)), "age": rng.random() < 0.8}),
    "build": (3, lambda rng, _: {"age": rng.random() < 0.8, "force": _bit(rng)}),
    "reopen": (2, lambda rng, _: {"watch": _bit(rng)}),
    "second": (2, lambda rng, _: {"watch": _bit(rng)}),
    "kill": (1, lambda rng, _: {"after": rng.randrange(1, 60), "force": _bit(rng)}),
    "amid": (
        3,
        lambda rng, places: {
            "what": rng.choice(("build", "maintain")),
            "after": rng.choice((1, 2, 3, 5, 8, 13)),
            "then": _then(rng, places),
        },
    ),
    "lose": (1, lambda rng, _: {"what": rng.choice(("cache", "repository", "index", "stamps"))}),
    "damage": (
        1,
        lambda rng, _: {
            "file": rng.randrange(10),
            "at": round(rng.random(), 3),
            "how": rng.choice(("flip", "cut", "remove")),
        },
    ),
    "set_clock": (1, lambda rng, _: {"seconds": rng.choice((0, -60, -1e8))}),
    "limit": (1, lambda rng, _: {"size": rng.choice((0, 3000, 10_000, 1 << 30))}),
    "rest": (1, lambda rng, _: {}),
}

_GIT_RULES: dict[str, _Rule] = {
    "git": (20, lambda rng, _: {"command": rng.choice(COMMANDS)}),
    "commit": (3, lambda rng, _: {}),
    "unversion": (1, lambda rng, _: {}),
    "version": (1, lambda rng, _: {}),
    "go": (3, lambda rng, _: {"name": rng.choice(("tree", "linked", "clone"))}),
}

#: What may happen in the middle of something.
_MEANWHILE = ("write", "substitute", "substitute", "delete", "move", "swap", "ignore")


def _then(rng: Random, places: _Places) -> str:
    if rng.random() < 0.2:
        return "cancel()"
    name = rng.choice(_MEANWHILE)
    return _text(name, _RULES[name][1](rng, places))


#: After so many of a hundred steps words are asked for, those that were written among them: several changes
#: in a row are another thing than each alone.
_ASKED = 60


@dataclass(frozen=True)
class Kind:
    """What a run has from its beginning: git, file events, a thread that maintains the index."""

    git: bool
    watch: bool
    keep: bool = False


def draw(rng: Random, length: int, kind: Kind) -> list[str]:
    """The steps of one run.

    Each run leaves some kinds of steps out and prefers others: what needs many of one kind in a row, or no
    other between, is met sooner so.
    """
    rules = _RULES | _GIT_RULES if kind.git else _RULES
    places = _Places(rng)
    weights = [weight * rng.choice((0, 1, 1, 4)) for weight, _ in rules.values()]
    if not any(weights):
        weights[0] = 1
    beginning = {
        "git": kind.git,
        "watch": kind.watch,
        "keep": kind.keep,
        "build": rng.random() < 0.8,
        "user": _bit(rng),
        "coarse": rng.random() < 0.2,
        "cap": 60 if rng.random() < 0.2 else None,
        "hot_files": rng.choice((0, 0, 1, 3)),
        "segments": rng.choice((1, 2, 4)),
        "segment_files": rng.choice((1, 10)),
        "segment_share": rng.choice((0.1, 0.5, 0.9)),
        "rebuild_files": rng.choice((1, 1000, 1000, 1000)),
        "rest": 0.0,
        "quiet_s": 0.0,
    }
    steps = [_text("start", beginning)]
    for name in rng.choices(list(rules), weights, k=length):
        arguments = rules[name][1](rng, places)
        steps.append(_text(name, arguments))
        if rng.randrange(100) < _ASKED:
            written = arguments.get("words") or [arguments.get("old", 0), arguments.get("new", 0)]
            words = sorted({*written, *rng.sample(range(len(WORDS)), 2)})
            steps.append(f"ask_for({', '.join(map(str, words))})")
    return [*steps, "ask_everywhere()"]


def _text(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _parsed(step: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The method, and what it is to be called with."""
    call = ast.parse(step.strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    named = {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
    return call.func.id, [ast.literal_eval(item) for item in call.args], named


def run(steps: Sequence[str], base: Path, rg: str, tally: Tally) -> Fault | None:
    """Do ``steps`` with a new machine; the fault that they meet, if they do."""
    machine = Machine(base, rg, tally)
    try:
        machine.run(steps)
    except Fault as fault:
        return fault
    finally:
        machine.close()
    return None


# Reducing

#: A run's steps and its fault are gone over for so long, in seconds.
_REDUCE_S = 60.0


def reduced(
    fails: Callable[[Sequence[str]], Fault | None], fault: Fault, seconds: float = _REDUCE_S
) -> Fault:
    """The fault of the fewest steps that still ``fails``, as far as can be found in so many seconds.

    The given one where it does not come again: then it depends on more than its steps, on time for example.
    """
    deadline = time.monotonic() + seconds
    kept = fault.steps
    for _ in range(3):
        again = fails(kept)
        if again is not None:
            break
    else:
        return fault
    size = len(kept)
    while size > 1 and time.monotonic() < deadline:
        size = -(-size // 2)
        at = 1  # the first step makes the tree
        while at < len(kept) and time.monotonic() < deadline:
            fewer = fails(kept[:at] + kept[at + size :])
            if fewer is None:
                at += size
            else:
                fault, kept = fewer, fewer.steps
        if size == 1:
            break
    return fault
