"""The view: what the index may rule out, however the tree has moved from it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexgrep.index.reader import Index
from indexgrep.index.store import Store
from indexgrep.search.view import documents_below, empty_view
from indexgrep.tree.monitor import Refresh
from indexgrep.tree.signature import SIGNATURE, Signature
from indexgrep.tree.snapshot import Snapshot

NAMES = [b"a", b"a-b", b"a.c", b"a/x", b"a/y/z", b"a0", b"b/x", b"c", b"\xff/q"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the files ``NAMES``, long unchanged so that they have signatures."""
    root = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True) if b"/" in name else None
        if name == b"a":
            continue  # a directory of that name exists below
        Path(os.fsdecode(path)).write_bytes(b"text of " + name)
        os.utime(path, (1, 1))
    _age()
    paths = sorted(name for name in NAMES if name != b"a")
    return Store(root, tmp_path_factory.mktemp("cache")).build("x", str(root), paths, workers=1)


def _age() -> None:
    """Wait until no file that exists now is racy."""
    import time

    time.sleep(0.05)


def signatures_of(index: Index) -> dict[bytes, Signature]:
    return {path: tuple(index.signatures[i].tolist()) for i, path in enumerate(index.paths())}


def snapshot(state: dict[bytes, Signature]) -> Refresh:
    paths = sorted(state)
    table = np.array([state[path] for path in paths], SIGNATURE)
    return Refresh(1, True, "sweep", "test", snapshot=Snapshot(paths, table))


OTHER: Signature = (1, 2, 3, 4, 5)
#: What a path may be: as indexed, changed, or gone.
states = st.dictionaries(
    st.sampled_from([*NAMES, b"new", b"a/new"]), st.sampled_from(["same", "changed", "gone"])
)


@given(states, st.lists(states, max_size=4))
def test_changes_one_by_one_lead_to_the_view_of_the_whole(
    index: Index, first: dict[bytes, str], later: list[dict[bytes, str]]
) -> None:
    known = signatures_of(index)

    def applied(state: dict[bytes, Signature], change: dict[bytes, str]) -> dict[bytes, Signature]:
        state = dict(state)
        for path, what in change.items():
            if what == "gone" or (what == "same" and path not in known):
                state.pop(path, None)
            else:
                state[path] = known[path] if what == "same" else OTHER
        return state

    state = applied(known, first)
    view = empty_view(index).refreshed(snapshot(state))
    for change in later:
        state = applied(state, change)
        changed = {path: state.get(path) for path in change}
        view = view.refreshed(Refresh(2, False, "watch", "", changed=changed))
    whole = empty_view(index).refreshed(snapshot(state))
    assert view.extra == whole.extra == {path for path in state if state[path] != known.get(path)}
    assert (view.live == whole.live).all()
    assert view.documents == whole.documents == len(state)
    assert view.paths() == sorted(state)


def test_a_document_without_a_signature_is_never_live(index: Index) -> None:
    state = dict.fromkeys(signatures_of(index), (0, 0, 0, 0, 0))
    view = empty_view(index).refreshed(snapshot(state))
    assert not view.live.any()
    assert len(view.extra) == len(state)


def test_without_an_index_everything_is_beside_it() -> None:
    view = empty_view(None).refreshed(snapshot({b"a": OTHER, b"b": OTHER}))
    assert view.extra == {b"a", b"b"}
    view = view.refreshed(Refresh(2, False, "watch", "", changed={b"a": None, b"c": OTHER}))
    assert view.paths() == [b"b", b"c"]


@pytest.mark.parametrize("prefix", [b"", b"a/", b"a/y/", b"b/", b"\xff/", b"zz/", b"a-b/"])
def test_the_documents_below_a_directory_are_a_range(index: Index, prefix: bytes) -> None:
    first, last = documents_below(index, prefix)
    assert index.paths()[first:last] == [path for path in index.paths() if path.startswith(prefix)]
