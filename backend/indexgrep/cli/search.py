"""The search command: from parsed options to printed results and ripgrep's exit codes.

0 when something matched and nothing went wrong, 2 when something went wrong (with ``-q`` only where nothing
matched), 1 otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import UsageError, os_error
from ..request import FileResult, SearchRequest, Summary
from . import engine as engines
from .figures import FigurePrinter, FileTotal, Stats
from .options import Options, Settings, request_of
from .output import Messages, Output
from .paths import Group, Target, current_directory, groups_of, order, targets_of

if TYPE_CHECKING:
    from typing import Protocol

    from .jsonlines import JsonPrinter

    class Printer(Protocol):
        """Prints files one after another: ``begin``, ``lines`` for each part of the file, ``end``."""

        def begin(self, path: bytes, binary: str, source: str = "disk") -> None: ...

        def lines(self, result: FileResult) -> None: ...

        def end(self, total: FileTotal) -> None: ...

    #: A result, its path as it is shown, and the target it belongs to.
    Named = tuple[FileResult, bytes, Target]


#: How long what was printed may wait in the buffer while more comes, in seconds.
_FLUSH_S = 0.02

FOUND, NOTHING, FAULT = 0, 1, 2


def run(options: Options) -> int:
    """Searches and prints; the exit code. Raises ``IndexGrepError`` where nothing could be searched."""
    from ..server.lifecycle import worktree

    started = time.perf_counter()
    patterns = read_patterns(options)
    if options.max_count == 0 or not (patterns or options.invert):
        return NOTHING
    messages = Messages(show=options.messages, debug=options.debug)
    output = Output()
    targets = targets_of(
        _checked_paths(options.positional),
        root=options.root,
        root_of=worktree,
        messages=messages,
        unsaved=options.buffers == "all",
    )
    one_file = len(options.positional) == 1 and not (targets and not targets[0].is_file)
    settings = Settings(options, terminal=os.isatty(1), one_file=one_file)
    printing = _Printing(settings, output, messages)
    documents = 0
    try:
        with engines.Engines(options, messages) as opened:
            for group in groups_of(targets):
                summary = _search_group(options, settings, patterns, group, opened, printing, output)
                documents += summary.documents
                _report(summary, group, messages)
                printing.stats.add_summary(summary)
                if printing.satisfied:
                    break
        if not options.positional and not documents and not printing.satisfied:
            messages.error(
                "No files were searched, which means that a filter probably excluded what you expected.\n"
                "Ignore rules, hidden files, -g and -t are filters; -uu switches the first two off."
            )
        if settings.stats:
            output.write(printing.statistics(time.perf_counter() - started))
        output.flush()
    except BrokenPipeError:
        pass  # the reader has seen enough
    if printing.matched and (settings.quiet or not messages.errored):
        return FOUND
    return FAULT if messages.errored else NOTHING


def read_patterns(options: Options) -> list[str]:
    """The patterns, each once; takes the first argument off where no ``-e`` or ``-f`` gave one.

    Raises ``UsageError`` where there is none, or a file of them cannot be read.
    """
    if not options.sources:
        if not options.positional:
            raise UsageError(
                "a search needs at least one pattern", "Usage: indexgrep [OPTIONS] PATTERN [PATH…]"
            )
        pattern = options.positional.pop(0)
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise UsageError("the pattern is not valid UTF-8", r"Write such bytes as (?-u:\xFF).") from None
        return [pattern]
    patterns: dict[str, None] = {}
    for kind, value in options.sources:
        if kind == "regexp":
            patterns[value] = None
        else:
            patterns.update(dict.fromkeys(_read_pattern_file(value)))
    return list(patterns)


def _read_pattern_file(name: str) -> list[str]:
    """The lines of a file of patterns; ``-`` is standard input."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(name, "rb") as file:
                data = file.read()
    except OSError as error:
        raise UsageError(f"{name}: {os_error(error)}") from None
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    patterns = []
    for number, line in enumerate(lines, 1):
        try:
            patterns.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise UsageError(
                f"{name}:{number}: the pattern is not valid UTF-8", r"Write such bytes as (?-u:\xFF)."
            ) from None
    return patterns


def _checked_paths(arguments: list[str]) -> list[str]:
    if "-" in arguments:
        raise UsageError(
            "searching standard input is not supported",
            "Use `rg` for a pipe, or say ./- if you mean a file of that name.",
        )
    return arguments


def request_for(options: Options, patterns: list[str], messages: Messages) -> tuple[Group, SearchRequest]:
    """The request that a search with these options would make, and where; of several groups the first.

    Raises ``UsageError`` where no path that was named exists.
    """
    from ..server.lifecycle import worktree

    targets = targets_of(
        _checked_paths(options.positional),
        root=options.root,
        root_of=worktree,
        messages=messages,
        unsaved=options.buffers == "all",
    )
    if not targets:
        raise UsageError("none of the paths exists", "Check their spelling.")
    group = groups_of(targets)[0]
    settings = Settings(options, terminal=False, one_file=False)
    return group, _group_request(options, settings, patterns, group)


def _group_request(options: Options, settings: Settings, patterns: list[str], group: Group) -> SearchRequest:
    cwd = current_directory()
    implicit = not options.positional and group.targets[0].path == cwd
    paths = () if implicit else tuple(target.sent for target in group.targets)
    return request_of(options, settings, patterns, paths=paths, cwd=cwd)


def _search_group(
    options: Options,
    settings: Settings,
    patterns: list[str],
    group: Group,
    opened: engines.Engines,
    printing: _Printing,
    output: Output,
) -> Summary:
    """Searches the targets of one group and prints what they answer; the summary of the search."""
    request = _group_request(options, settings, patterns, group)
    engine = opened.get(group.root)
    answer = engine.search(request)
    try:
        results = group.named(_flushing(answer.batches(), output), engine.root)
        if settings.include_zero and request.output in ("count", "count_matches"):
            results = _with_zeros(results, group, engine, request)
        for result, shown, target in results:
            printing.add(result, shown, target)
            if settings.quiet and not settings.stats:
                printing.finish()  # one result is enough to know
                if printing.satisfied:
                    break
        printing.finish()
    finally:
        answer.close()
    return answer.summary


def _flushing(batches: Iterator[list[FileResult]], output: Output) -> Iterator[FileResult]:
    """The results one by one; what was printed of them is sent off soon, on a terminal at once."""
    terminal = os.isatty(output.descriptor)
    flushed = time.monotonic()
    for batch in batches:
        yield from batch
        now = time.monotonic()
        if terminal or now - flushed > _FLUSH_S:
            output.flush()
            flushed = now


def _with_zeros(
    counted: Iterator[Named], group: Group, engine: engines.Engine, request: SearchRequest
) -> Iterator[Named]:
    """The counts with a zero for each file that has none, which takes a second search to know.

    Both come target by target in the order of the targets, and in the order of paths within each.
    """
    import heapq

    zeros = engine.search(_replaced(request, "files_without_match"))
    places = {id(target): place for place, target in enumerate(group.targets)}

    def keyed(source: Iterator[Named], rank: int) -> Iterator[tuple[tuple[int, bytes], int, Named]]:
        for named in source:
            yield (places[id(named[2])], order(os.fsencode(named[0].path))), rank, named

    def empty() -> Iterator[FileResult]:
        for batch in zeros.batches():
            for result in batch:
                if result.error is None:
                    result.count = result.matches = 0
                    yield result

    try:
        last = None
        without = keyed(group.named(empty(), engine.root), 1)
        for key, rank, named in heapq.merge(keyed(counted, 0), without, key=lambda entry: entry[:2]):
            if rank == 0 or key != last:
                yield named
            last = key
    finally:
        zeros.close()


def _replaced(request: SearchRequest, output: str) -> SearchRequest:
    wire = request.to_wire()
    wire["output"] = output
    return SearchRequest.from_wire(wire)


def _report(summary: Summary, group: Group, messages: Messages) -> None:
    """Says what the user must know of how the search went, and with ``--debug`` all of it."""
    if not summary.complete and summary.reason == "timeout":
        messages.error("the search ran out of time (--timeout); what is printed is not all there is")
    if messages.debugging:
        messages.debug(f"root: {group.root}")
        for name, value in summary.to_wire().items():
            messages.debug(f"{name}: {value}")


class _Printing:
    """Feeds results to the printer file by file and keeps what the exit code and the statistics need."""

    def __init__(self, settings: Settings, output: Output, messages: Messages) -> None:
        self.settings = settings
        self.stats = Stats()
        self.matched = False
        self._messages = messages
        self._total = FileTotal()
        self._current: tuple[Target, str] | None = None
        self._binary = "none"
        self._printers: list[Printer]
        self._json: JsonPrinter | None = None
        if settings.quiet or settings.mode not in ("lines", "json"):
            self._printers = [FigurePrinter(settings, output.write)]
        elif settings.mode == "json":
            from .jsonlines import JsonPrinter

            self._json = JsonPrinter(settings, output.write)
            self._printers = [self._json]
        else:
            from .standard import StandardPrinter

            self._printers = [StandardPrinter(settings, output.write)]
            if settings.stats:
                # Colours do not count as bytes printed: a second printer, without them, keeps the count.
                import copy

                plain = copy.copy(settings)
                plain.color = False
                self._printers.append(StandardPrinter(plain, self._count))

    @property
    def satisfied(self) -> bool:
        """Whether nothing that may come can change the outcome."""
        return self.matched and self.settings.quiet and not self.settings.stats

    def add(self, result: FileResult, shown: bytes, target: Target) -> None:
        """The next result; consecutive ones of the same file are its parts."""
        if self._current != (target, result.path):
            self.finish()
            if result.error is not None:
                self._messages.error(f"{os.fsdecode(shown)}: {result.error}")
                return
            self._current = (target, result.path)
            self._total = FileTotal()
            self._binary = self.settings.binary
            if self._binary == "quit" and target.is_file:
                self._binary = "convert"  # a file that was named is searched to its end
            for printer in self._printers:
                printer.begin(shown, self._binary, result.source)
        self._total.add(result)
        for printer in self._printers:
            printer.lines(result)

    def finish(self) -> None:
        """Ends the file that is being printed, if there is one."""
        if self._current is None:
            return
        self._current = None
        total = self._total
        if self._json is not None:
            self.stats.bytes_printed += self._json.printed
        for printer in self._printers:
            printer.end(total)
        if self.settings.mode == "files_without_match":
            self.matched = self.matched or not total.count
        elif isinstance(self._printers[0], FigurePrinter) and self._left_early(total):
            pass  # what a binary file had before its first NUL byte is no answer
        elif total.count:
            self.matched = True
        self.stats.add_file(total)

    def statistics(self, total: float) -> bytes:
        """What ``--stats`` or ``--json`` end with; ``total`` is the time since the start in seconds."""
        if self.settings.mode != "json":
            return self.stats.text(total)
        from .jsonlines import summary_message

        return summary_message(self.stats, total)

    def _left_early(self, total: FileTotal) -> bool:
        return total.binary_offset is not None and self._binary == "quit"

    def _count(self, data: bytes) -> None:
        self.stats.bytes_printed += len(data)
