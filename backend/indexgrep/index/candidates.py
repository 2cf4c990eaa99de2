"""From the strings a pattern needs to the documents that may hold them.

A *candidate* is a document that the index cannot rule out. ``Plan`` turns a query (``pattern.query``) into
lists to read: each literal becomes its covering grams (``grams.cover``), all keys are looked up at once, and
every part gets an upper bound of its documents before any list is read. Conjunctions are then evaluated from
the smallest part up, and stop when reading one more list costs more than the candidates it can rule out.

Skipping a list, and every other shortcut here, may only leave more candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..grams.cover import Gram, cover
from ..pattern.query import All, And, Literal, Nothing, Or, Query

if TYPE_CHECKING:
    from .reader import Entry, Index

Documents = npt.NDArray[np.int64]

#: What reading and matching one candidate costs, in microseconds; what reading a list costs, and each KB of
#: it.
CANDIDATE_COST = 20.0
LIST_COST = 25.0
LIST_COST_PER_KB = 4.0
#: Lists of one literal's grams largely hold the same documents: the share of what independent lists would
#: rule out that is expected of another list.
INDEPENDENCE = 0.25


@dataclass
class GramPart:
    """One covering gram of a literal and what became of it."""

    gram: Gram
    text: bytes
    entry: Entry | None
    #: Whether its list was needed, and why not otherwise; for ``explain``.
    used: bool = False
    why: str = "not reached"

    @property
    def bound(self) -> int:
        return self.entry.documents if self.entry is not None else 0


@dataclass
class Part:
    """A node of the plan: ``kind`` is ``all``, ``nothing``, ``literal``, ``and`` or ``or``."""

    kind: str
    #: At most so many documents satisfy it.
    bound: int = 0
    text: bytes = b""
    grams: list[GramPart] = field(default_factory=list)
    children: list[Part] = field(default_factory=list)
    why: str = ""


@dataclass
class Candidates:
    """The answer of the index to a query."""

    #: Ascending document numbers; ``None`` means every document (nothing could be ruled out).
    documents: npt.NDArray[np.uint32] | None
    #: The plan with what was read of it.
    plan: Part
    #: Documents of the index.
    total: int

    @property
    def count(self) -> int:
        return self.total if self.documents is None else len(self.documents)


def candidates(index: Index, query: Query, *, after_nul: bool = True) -> Candidates:
    """The documents of ``index`` that may satisfy ``query``.

    Documents that are not indexed are always among them. Of a binary document only the text before its first
    NUL is indexed, which is all that an ordinary search of a tree reads: pass ``after_nul=False`` for one.
    Where text after a NUL can match (``-a``, ``--binary``, ``-U``), all binary documents are candidates.

    Raises ``IndexCorrupt`` where a list is damaged, ``IndexFault`` where it cannot be read.
    """
    plan = _planned(index, query)
    documents = _Evaluation(index).run(plan)
    if documents is None:
        return Candidates(None, plan, index.document_count)
    always = [index.unindexed]
    if after_nul:
        always.append(index.binary)
    if any(map(len, always)):
        documents = _union(index, [documents, *always])
    return Candidates(documents.astype(np.uint32), plan, index.document_count)


# Planning


def _planned(index: Index, query: Query) -> Part:
    plan = _part(index, query)
    grams = list(_grams_of(plan))
    entries = index.entries([part.gram.key for part in grams])
    for part, entry in zip(grams, entries, strict=True):
        part.entry = entry
    _bound(plan, index.document_count)
    return plan


def _part(index: Index, query: Query) -> Part:
    if isinstance(query, Literal):
        found = cover(query.data, index.frequent)
        if not found:
            return Part("all", text=query.data, why="a string of fewer than three bytes has no gram")
        grams = [GramPart(gram, query.data[gram.start : gram.end], None) for gram in found]
        return Part("literal", text=query.data, grams=grams)
    if isinstance(query, And | Or):
        kind = "and" if isinstance(query, And) else "or"
        part = Part(kind, children=[_part(index, child) for child in query.children])
        if kind == "or" and any(child.kind == "all" for child in part.children):
            part.why = "one alternative needs no string"
        return part
    if isinstance(query, Nothing):
        return Part("nothing", why="nothing can match")
    assert isinstance(query, All)
    return Part("all", why="the pattern needs no string here")


def _grams_of(part: Part) -> Iterator[GramPart]:
    yield from part.grams
    for child in part.children:
        yield from _grams_of(child)


def _bound(part: Part, total: int) -> int:
    """Set the bounds of a part and all below it."""
    if part.kind == "literal":
        part.bound = min(gram.bound for gram in part.grams)
    elif part.kind == "all":
        part.bound = total
    elif part.kind == "and":
        part.bound = min((_bound(child, total) for child in part.children), default=total)
    elif part.kind == "or":
        part.bound = min(sum(_bound(child, total) for child in part.children), total)
    return part.bound


# Evaluation


class _Evaluation:
    """One evaluation of a plan. Lists are kept for its duration: alternatives often share grams."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lists: dict[int, Documents] = {}

    def run(self, part: Part, within: Documents | None = None) -> Documents | None:
        """The documents (of ``within``, if given) that may satisfy ``part``; ``None`` for all of them."""
        if part.kind == "nothing":
            return np.empty(0, np.int64)
        if part.kind == "all":
            return within
        if part.kind == "or":
            return self._any(part, within)
        return self._all(part, within)

    def _any(self, part: Part, within: Documents | None) -> Documents | None:
        if any(child.kind == "all" for child in part.children):
            return within
        found = []
        for child in part.children:
            documents = self.run(child, within)
            if documents is None:
                return within
            found.append(documents)
        if not found:
            return np.empty(0, np.int64)
        if len(found) == 1:
            return found[0]
        return _union(self._index, found)

    def _all(self, part: Part, within: Documents | None) -> Documents | None:
        """A conjunction: its grams and its children from the smallest bound up."""
        current = within
        for bound, step in sorted(_steps(part), key=lambda pair: pair[0]):
            if current is not None and not len(current):
                _mark(step, "no candidate is left")
                continue
            if isinstance(step, GramPart):
                reason = self._not_worth(step, current, bound)
                if reason:
                    step.why = reason
                    continue
                current = self._narrowed(current, step)
            elif step.kind != "all":
                if current is not None and self._saving(bound, len(current)) < LIST_COST:
                    _mark(step, "it would rule out too few candidates")
                    continue
                current = self.run(step, current)
        return current

    def _saving(self, bound: int, current: int) -> float:
        """Microseconds that narrowing ``current`` candidates to a list of ``bound`` documents may save."""
        missing = 1.0 - bound / max(1, self._index.document_count)
        return current * missing * INDEPENDENCE * CANDIDATE_COST

    def _not_worth(self, part: GramPart, current: Documents | None, bound: int) -> str:
        """Why a list is not read; empty where it is."""
        if part.entry is None or current is None or part.gram.key in self._lists:
            return ""
        cost = LIST_COST + LIST_COST_PER_KB * part.entry.length / 1024
        if self._saving(bound, len(current)) < cost:
            return f"reading {bound} documents costs more than it saves of {len(current)} candidates"
        return ""

    def _narrowed(self, current: Documents | None, part: GramPart) -> Documents:
        part.used = True
        if part.entry is None:
            part.why = "in no document"
            return np.empty(0, np.int64)
        documents = self._lists.get(part.gram.key)
        if documents is None and current is not None and part.entry.length == self._index.bitmap_size:
            result = self._index.among(part.entry, current)  # far cheaper than the whole list
        else:
            if documents is None:
                documents = self._index.documents_of(part.entry)
                self._lists[part.gram.key] = documents
            result = documents if current is None else self._common(current, documents)
        part.why = f"{len(result)} candidates left"
        return result

    def _common(self, first: Documents, second: Documents) -> Documents:
        """The documents in both."""
        if len(first) > len(second):
            first, second = second, first
        if len(first) * 32 < len(second):
            places = np.searchsorted(second, first)
            places[places == len(second)] = 0
            found: Documents = first[second[places] == first]
            return found
        mask = np.zeros(self._index.document_count, np.bool_)
        mask[second] = True
        common: Documents = first[mask[first]]
        return common


def _union(index: Index, parts: list[Documents]) -> Documents:
    mask = np.zeros(index.document_count, np.bool_)
    for documents in parts:
        mask[documents] = True
    return np.flatnonzero(mask)


def _steps(part: Part) -> list[tuple[int, GramPart | Part]]:
    """The grams and alternatives of a conjunction, also of those inside it, with their bounds."""
    steps: list[tuple[int, GramPart | Part]] = [(gram.bound, gram) for gram in part.grams]
    for child in part.children:
        if child.kind in ("and", "literal"):
            steps += _steps(child)
        else:
            steps.append((child.bound, child))
    return steps


def _mark(step: GramPart | Part, why: str) -> None:
    if isinstance(step, GramPart):
        step.why = why
        return
    step.why = step.why or why
    for gram in _grams_of(step):
        gram.why = why
