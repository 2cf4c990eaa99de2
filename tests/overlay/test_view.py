"""The view: what indexes may rule out, however the tree has moved from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexgrep.index.reader import Index
from indexgrep.index.store import Store
from indexgrep.overlay.view import Chosen, Layer, View, documents_below, layer_of
from indexgrep.tree.monitor import Refresh
from indexgrep.tree.signature import NO_SIGNATURE, SIGNATURE, Signature
from indexgrep.tree.snapshot import Snapshot

NAMES = [b"a-b", b"a.c", b"a/x", b"a/y/z", b"a0", b"b/x", b"c", b"\xff/q"]
#: The documents of the newer index.
FEWER = [b"a/x", b"b/x", b"c", b"only"]

#: What a file may look like: as the older index has it, as the newer one has it, otherwise, or not at all.
OLD: Signature = (1, 1, 1, 1, 0o100644)
NEW: Signature = (2, 2, 2, 2, 0o100644)
OTHER: Signature = (3, 3, 3, 3, 0o100644)
looks = st.sampled_from([OLD, NEW, OTHER, None])
states = st.dictionaries(st.sampled_from([*NAMES, b"only", b"new", b"a/new"]), looks)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, Index]:
    """An index of ``NAMES`` and one of ``FEWER``."""
    root = tmp_path_factory.mktemp("tree")
    for name in {*NAMES, *FEWER}:
        path = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"text of " + name)
    store = Store(root, tmp_path_factory.mktemp("cache"))
    return (store.build("old", str(root), sorted(NAMES)), store.build("new", str(root), sorted(FEWER)))


def layers(indexes: tuple[Index, Index]) -> list[Layer]:
    """Both as layers, the newer first; one document of each has no stamp."""
    stack = []
    for index, look in zip(reversed(indexes), (NEW, OLD), strict=True):
        stamps = np.full(index.document_count, np.array(look, SIGNATURE))
        stamps[-1] = NO_SIGNATURE
        stack.append(layer_of(index, stamps))
    return stack


def snapshot(state: dict[bytes, Signature]) -> Refresh:
    paths = sorted(state)
    table = np.array([state[path] for path in paths], SIGNATURE)
    return Refresh(1, True, "sweep", "test", snapshot=Snapshot(paths, table))


def served(view: View) -> dict[bytes, int]:
    """The place in the stack of the document that serves each file."""
    found: dict[bytes, int] = {}
    for place, layer in enumerate(view.layers):
        live = layer.index.paths_of(np.flatnonzero(layer.live))
        assert layer.live_count == len(live)
        assert not found.keys() & live, "two documents serve one file"
        found.update(dict.fromkeys(live, place))
    return found


def expected(stack: Sequence[Layer], state: dict[bytes, Signature]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for path, signature in state.items():
        for place, layer in enumerate(stack):
            document = layer.index.find(path)
            if document is not None and tuple(layer.stamps[document].tolist()) == signature:
                found[path] = place
                break
    return found


def check(view: View, state: dict[bytes, Signature]) -> None:
    assert served(view) == expected(view.layers, state)
    assert view.hot == state.keys() - served(view).keys()
    assert view.documents == len(state)
    assert view.paths() == sorted(state)


def applied(state: dict[bytes, Signature], change: dict[bytes, Signature | None]) -> dict[bytes, Signature]:
    return {path: look for path, look in {**state, **change}.items() if look is not None}


@given(states, st.lists(states, max_size=4))
def test_every_file_is_served_by_the_first_document_that_looks_like_it(
    indexes: tuple[Index, Index],
    first: dict[bytes, Signature | None],
    later: list[dict[bytes, Signature | None]],
) -> None:
    state = applied({}, first)
    view = View(tuple(layers(indexes))).refreshed(snapshot(state))
    check(view, state)
    for change in later:
        state = applied(state, change)
        view = view.refreshed(Refresh(2, False, "watch", "", changed=change))
        check(view, state)
        assert (view.how, view.reason) == ("watch", "")
    check(view.refreshed(snapshot(state)), state)


@given(states, st.permutations([0, 1]), st.integers(0, 2), st.sets(st.sampled_from(NAMES)))
def test_another_stack_shows_the_same_files(
    indexes: tuple[Index, Index],
    change: dict[bytes, Signature | None],
    order: list[int],
    kept: int,
    stamped_anew: set[bytes],
) -> None:
    """Layers may go, come and change places, and hot files be adopted."""
    state = applied({}, change)
    view = View(tuple(layers(indexes))).refreshed(snapshot(state))
    stack = [view.layers[place] for place in order[:kept]]
    for place, layer in enumerate(stack):
        stamps = layer.stamps.copy()
        for path in stamped_anew & view.hot:
            document = layer.index.find(path)
            if document is not None:
                stamps[document] = OTHER
        stack[place] = replace(layer, stamps=stamps)
    check(view.restacked(stack, {path: state[path] for path in view.hot}, anew=True), state)
    if kept == 2 and order == [0, 1]:
        check(view.restacked(stack, {path: state[path] for path in view.hot}), state)


@given(states, st.data())
def test_what_no_index_rules_out_is_read(
    indexes: tuple[Index, Index], change: dict[bytes, Signature | None], data: st.DataObject
) -> None:
    state = applied({}, change)
    view = View(tuple(layers(indexes))).refreshed(snapshot(state))
    found = []
    wanted = set(view.hot)
    for layer in view.layers:
        numbers = data.draw(st.none() | st.sets(st.integers(0, layer.documents - 1)))
        found.append(None if numbers is None else np.array(sorted(numbers), np.uint32))
        candidates = set(range(layer.documents)) if numbers is None else numbers
        wanted.update(layer.index.path(n) for n in candidates if layer.live[n])
    chosen = Chosen(view, found)
    for prefix in (b"", b"a/", b"a/y/", b"\xff/", b"zz/"):
        assert sorted(chosen.below(prefix)) == sorted(path for path in wanted if path.startswith(prefix))
        assert chosen.count(prefix) == sum(path.startswith(prefix) for path in state)
        assert view.holds(prefix, lambda paths, at=prefix: [p for p in paths if p.startswith(at)]) == any(
            path.startswith(prefix) for path in state
        )
    elsewhere = [*state, b"not/in/the/universe"]
    assert chosen.among(elsewhere) == [path for path in elsewhere if path in wanted or path not in state]


def test_without_an_index_everything_is_hot() -> None:
    view = View().refreshed(snapshot({b"a": OTHER, b"b": OTHER}))
    assert view.hot == {b"a", b"b"}
    view = view.refreshed(Refresh(2, False, "watch", "", changed={b"a": None, b"c": OTHER}))
    assert view.paths() == [b"b", b"c"]


@pytest.mark.parametrize("prefix", [b"", b"a/", b"a/y/", b"b/", b"\xff/", b"zz/", b"a-b/"])
def test_the_documents_below_a_directory_are_a_range(indexes: tuple[Index, Index], prefix: bytes) -> None:
    index = indexes[0]
    first, last = documents_below(index, prefix)
    assert index.paths()[first:last] == [path for path in index.paths() if path.startswith(prefix)]
