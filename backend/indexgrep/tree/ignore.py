"""Ignore files: which are read, from where, and in what order they count; as ripgrep's ``ignore`` crate does.

For a path, the sources are asked in this order and the first that has a verdict decides:

1. ``.rgignore`` of its directory, then of each directory above;
2. ``.ignore`` likewise;
3. ``.gitignore`` likewise, but not above the directory that is the top of a git (or jj) repository;
4. ``info/exclude`` of the repositories likewise;
5. git's global excludes file (``core.excludesFile``), whose globs are relative to the working directory.

3 to 5 count only inside a repository. Directories above the one a search starts in count too. A directory
that is ignored is not entered, so nothing below it can be included again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from dataclasses import dataclass, field

from .glob import GlobError, parse_glob
from .rules import Rule, RuleSet

#: The names that make a directory's rules, besides ``.git`` and ``.jj``.
IGNORE_NAMES = (b".rgignore", b".ignore", b".gitignore")
#: The names that any rule can depend on.
MARKER_NAMES = frozenset((*IGNORE_NAMES, b".git", b".jj"))

#: See ``source_state``.
SourceState = bytes | str | int

#: What Rust's ``str::trim_end`` takes for white space.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B)
)
_EXCLUDES_FILE = re.compile(rb'^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$', re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class IgnoreOptions:
    """Which sources are obeyed."""

    #: ``.rgignore`` and ``.ignore``; any source in directories above the start.
    dot: bool = True
    #: ``.gitignore``, ``info/exclude`` and the global excludes file.
    vcs: bool = True


@dataclass(frozen=True)
class _Source:
    """A rule set and how to name a directory of the traversal relative to its base.

    The name is ``lead + directory[skip:]``, where ``directory`` is relative to the start (``b"a/b/"`` or
    empty).
    """

    rules: RuleSet
    lead: bytes
    skip: int


@dataclass(frozen=True)
class IgnoreContext:
    """The sources that count in one directory and, unless it has its own, in those below it.

    Immutable and shared by all directories that have the same sources.
    """

    rgignore: tuple[_Source, ...] = ()
    ignore: tuple[_Source, ...] = ()
    git: tuple[_Source, ...] = ()
    exclude: tuple[_Source, ...] = ()
    #: The global excludes file, consulted only in a repository.
    excludes_file: tuple[_Source, ...] = ()
    in_repository: bool = False
    #: All of them in order, as far as they count here.
    order: tuple[_Source, ...] = field(default=(), repr=False)

    def decide(
        self, directory: bytes, names: list[bytes], joined: bytes, *, directories: bool
    ) -> dict[bytes, bool]:
        """The verdict (``True`` included, ``False`` ignored) on each of ``names`` that has one.

        ``directory`` is relative to the start, ``b""`` or with a slash at its end.
        """
        verdicts: dict[bytes, bool] = {}
        for source in self.order:
            prefix = source.lead + directory[source.skip :]
            found = source.rules.decide(prefix, names, joined, directories=directories)
            if found:
                if verdicts:
                    found.update(verdicts)
                verdicts = found
        return verdicts


def _ordered(context: IgnoreContext) -> IgnoreContext:
    order = context.rgignore + context.ignore
    if context.in_repository:
        order += context.git + context.exclude + context.excludes_file
    return IgnoreContext(
        context.rgignore,
        context.ignore,
        context.git,
        context.exclude,
        context.excludes_file,
        context.in_repository,
        order,
    )


class IgnoreReader:
    """Reads ignore files and makes contexts. ``cwd`` is ripgrep's working directory (a real path).

    ``sources`` collects what contexts depend on besides the entries of the directories given to
    ``enter``, existing or not: absolute path to its state (``source_state``) just before it was read.
    """

    def __init__(self, options: IgnoreOptions, cwd: bytes) -> None:
        self.options = options
        self.cwd = cwd
        self.sources: dict[bytes, SourceState] = {}
        self._parents: dict[bytes, IgnoreContext] = {}
        self._excludes_file = self._read_excludes_file() if options.vcs else RuleSet(())

    @property
    def depends_on_cwd(self) -> bool:
        """Whether the global excludes file has globs that match more than a name."""
        return any(not rule.glob.by_name for rule in self._excludes_file.rules)

    def start(self, path: bytes, literal: bytes) -> IgnoreContext:
        """The context of what lies above the start directory ``path`` (absolute, real).

        ``literal`` is how the start is written, which is what the global excludes file's globs see: the path
        relative to the working directory, or absolute.
        """
        excludes: tuple[_Source, ...] = ()
        if self._excludes_file:
            excludes = (_Source(self._excludes_file, literal_prefix(literal, self.cwd), 0),)
        base = IgnoreContext(excludes_file=excludes)
        if not self.options.dot:
            return base
        parent = os.path.dirname(path)
        if path == parent:
            return base
        above = self._above(parent)

        # Each level's sources see the start through the path from that level down.
        def seen(sources: tuple[_Source, ...]) -> tuple[_Source, ...]:
            return tuple(_Source(s.rules, path[s.skip :].lstrip(b"/") + b"/", 0) for s in sources)

        return _ordered(
            IgnoreContext(
                seen(above.rgignore),
                seen(above.ignore),
                seen(above.git),
                seen(above.exclude),
                excludes,
                above.in_repository,
            )
        )

    def _above(self, path: bytes) -> IgnoreContext:
        """The context in ``path`` itself; here ``skip`` is the length of the base's path."""
        known = self._parents.get(path)
        if known is not None:
            return known
        parent = os.path.dirname(path)
        above = self._above(parent) if parent != path else IgnoreContext()
        names = set()
        for name in MARKER_NAMES:
            marker = os.path.join(path, name)
            self._depend(marker)
            if os.path.exists(marker):
                names.add(name)
        context = self._enter(above, path, names, len(path)) if names else above
        self._parents[path] = context
        return context

    def enter(
        self, context: IgnoreContext, path: bytes, directory: bytes, names: set[bytes]
    ) -> IgnoreContext:
        """The context inside a directory. ``path`` leads to it, ``directory`` names it relative to the start.

        ``names`` are those of ``MARKER_NAMES`` that it has.
        """
        for name in names:
            marker = os.path.join(path, name)
            if os.path.islink(marker):
                self._depend(marker)
        return self._enter(context, path, names, len(directory))

    def _enter(self, context: IgnoreContext, path: bytes, names: set[bytes], skip: int) -> IgnoreContext:
        options = self.options
        rgignore, ignore, git, exclude = context.rgignore, context.ignore, context.git, context.exclude
        in_repository = context.in_repository

        def source(file: bytes) -> tuple[_Source, ...]:
            rules = read_ignore_file(file)
            return (_Source(rules, b"", skip),) if rules else ()

        if options.dot and b".rgignore" in names:
            rgignore = source(os.path.join(path, b".rgignore")) + rgignore
        if options.dot and b".ignore" in names:
            ignore = source(os.path.join(path, b".ignore")) + ignore
        if options.vcs:
            git_dir = os.path.join(path, b".git")
            has_git = b".git" in names and os.path.exists(git_dir)
            if has_git or (b".jj" in names and os.path.exists(os.path.join(path, b".jj"))):
                # The top of a repository: git's rules from above end here.
                in_repository = True
                git, exclude = (), ()
            if b".gitignore" in names:
                git = source(os.path.join(path, b".gitignore")) + git
            if has_git:
                common = self._common_dir(git_dir)
                if common is not None:
                    file = os.path.join(common, b"info", b"exclude")
                    self._depend(file)
                    exclude = source(file) + exclude
        return _ordered(IgnoreContext(rgignore, ignore, git, exclude, context.excludes_file, in_repository))

    def _depend(self, path: bytes) -> None:
        if path not in self.sources:
            self.sources[path] = source_state(path)

    def _common_dir(self, git_dir: bytes) -> bytes | None:
        """The directory that holds ``info/exclude`` for a ``.git`` directory or file, as ripgrep finds it.

        Notably it takes a relative ``gitdir:`` from the working directory, and a git directory without a
        ``commondir`` file (a submodule's) has no excludes.
        """
        if not os.path.isfile(git_dir):
            return git_dir
        self._depend(git_dir)
        line = _first_line(git_dir)
        if line is None or not line.startswith(b"gitdir: "):
            return None
        real = os.path.join(self.cwd, line.removeprefix(b"gitdir: "))
        pointer = os.path.join(real, b"commondir")
        self._depend(pointer)
        common = _first_line(pointer)
        if common is None:
            return None
        return os.path.join(real, common) if common.startswith(b".") else os.path.join(self.cwd, common)

    def _read_excludes_file(self) -> RuleSet:
        path = self._excludes_path()
        if path is None:
            return RuleSet(())
        self._depend(path)
        return read_ignore_file(path) if os.path.isfile(path) else RuleSet(())

    def _excludes_path(self) -> bytes | None:
        """Where git's global excludes file is, found as ripgrep finds it (it does not run git)."""
        environ = os.environb
        home = environ.get(b"HOME") or os.path.expanduser(b"~")
        xdg = environ.get(b"XDG_CONFIG_HOME") or os.path.join(home, b".config")
        configs = [
            environ.get(b"GIT_CONFIG_GLOBAL"),
            os.path.join(home, b".gitconfig"),
            os.path.join(xdg, b"git", b"config"),
            environ.get(b"GIT_CONFIG_SYSTEM") or b"/etc/gitconfig",
        ]
        for config in configs:
            if not config:
                continue
            config = os.path.join(self.cwd, config)
            self._depend(config)
            try:
                with open(config, "rb") as file:
                    found = _EXCLUDES_FILE.search(file.read())
                    value = found[1].decode("utf-8") if found else None
            except (OSError, UnicodeDecodeError):
                continue
            if value is not None:
                return os.path.join(self.cwd, value.encode().replace(b"~", home))
        return os.path.join(self.cwd, xdg, b"git", b"ignore")


def source_state(path: bytes) -> SourceState:
    """What tells whether a source changed: its content's digest, ``"directory"``, or the error number.

    Of a directory (``.git``) only the existence counts. Contents are compared rather than stat signatures, so
    that an edit within the time stamp's grain is seen; these are a few small files.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except IsADirectoryError:
        return "directory"
    except OSError as error:
        return error.errno or 0


def literal_prefix(literal: bytes, cwd: bytes) -> bytes:
    """The directory ``literal`` as the globs of ``-g`` and of the global excludes file see it, with a slash.

    That is the path as it was written, without one leading ``./`` and without the working directory
    before it.
    """
    path = literal + b"/" if literal and not literal.endswith(b"/") else literal
    if path.startswith(b"./"):
        path = path[2:]
    if path.startswith(cwd):
        path = path[len(cwd) :]
        path = path[1:] if path.startswith(b"/") else path
    return path


def read_ignore_file(path: bytes) -> RuleSet:
    """The rules of an ignore file; empty when it cannot be read. A line that does not parse is no rule."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return RuleSet(())
    return parse_ignore(data)


@functools.lru_cache(maxsize=256)
def parse_ignore(data: bytes) -> RuleSet:
    """The rules of an ignore file's content. Reading ends at the first line that is not UTF-8."""
    rules: list[Rule] = []
    for number, raw in enumerate(data.split(b"\n")):
        try:
            line = raw.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError:
            break
        if number == 0:
            line = line.lstrip("\ufeff")
        try:
            rule = parse_ignore_line(line, allow_unclosed_class=True)
        except GlobError:
            continue
        if rule is not None:
            rules.append(rule)
    try:
        return RuleSet(rules)
    except ValueError:  # one rule too large to compile: ripgrep drops the file's rules
        return RuleSet(())


def parse_ignore_line(
    line: str, *, ignore_case: bool = False, allow_unclosed_class: bool = False
) -> Rule | None:
    """One line of an ignore file, ``None`` where it has no rule. Raises ``GlobError``."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip(_WHITE_SPACE)
    if not line:
        return None
    include = only_directories = anchored = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        if line.startswith("!"):
            include = True
            line = line[1:]
        if line.startswith("/"):
            anchored = True
            line = line[1:]
    if line.endswith("/"):
        only_directories = True
        line = line[:-1].removesuffix("\\")
    if not anchored and "/" not in line and not (line.startswith("**/") or line == "**"):
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"
    glob = parse_glob(line, ignore_case=ignore_case, allow_unclosed_class=allow_unclosed_class)
    return Rule(glob, include, only_directories)


def _first_line(path: bytes) -> bytes | None:
    try:
        with open(path, "rb") as file:
            line = file.readline()
    except OSError:
        return None
    return line.rstrip(b"\n").removesuffix(b"\r") or None
