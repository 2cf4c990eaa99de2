"""The unsaved buffers of a client: ticks, parts, limits, spellings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexgrep.errors import UsageError
from indexgrep.overlay import buffers as module
from indexgrep.overlay.buffers import Buffers, inside, merged


@pytest.fixture
def buffers() -> Buffers:
    return Buffers("/r")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are easily reached."""
    monkeypatch.setattr(module, "MAX_BUFFER_BYTES", 10)
    monkeypatch.setattr(module, "MAX_CLIENT_BYTES", 25)
    monkeypatch.setattr(module, "MAX_BUFFERS", 4)


def texts(buffers: Buffers) -> dict[bytes, bytes]:
    return {path: buffer.text for path, buffer in buffers.snapshot().items()}


def test_a_newer_tick_replaces_an_older_one_and_an_older_one_is_ignored(buffers: Buffers) -> None:
    buffers.put("/r/a", 5, b"five")
    buffers.put("/r/a", 4, b"four")
    assert texts(buffers) == {b"a": b"five"}
    buffers.put("/r/a", 6, b"")
    assert texts(buffers) == {b"a": b""}
    buffers.put("/r/a", 6, b"six again")
    assert texts(buffers) == {b"a": b"six again"}
    assert buffers.drop(["/r/a", "/r/b"]) == 1
    buffers.put("/r/a", 1, b"opened anew")
    assert texts(buffers) == {b"a": b"opened anew"}
    assert buffers.size == len(b"opened anew")


def test_a_snapshot_never_changes(buffers: Buffers) -> None:
    buffers.put("/r/a", 1, b"one")
    before = buffers.snapshot()
    assert buffers.snapshot() is before
    buffers.put("/r/a", 2, b"two")
    buffers.put("/r/b", 1, b"more")
    buffers.clear()
    assert {path: buffer.text for path, buffer in before.items()} == {b"a": b"one"}
    with pytest.raises(TypeError):
        before[b"c"] = before[b"a"]  # type: ignore[index]
    assert (texts(buffers), buffers.size, len(buffers)) == ({}, 0, 0)


def test_parts_count_once_they_are_whole(buffers: Buffers) -> None:
    buffers.put("/r/a", 1, b"old")
    buffers.put("/r/a", 2, b"ne", more=True)
    buffers.put("/r/b", 1, b"other")
    buffers.put("/r/a", 2, b"", more=True)
    assert texts(buffers) == {b"a": b"old", b"b": b"other"}
    assert buffers.size == 10
    buffers.put("/r/a", 1, b"older than what is arriving")
    buffers.put("/r/a", 2, b"w")
    assert texts(buffers) == {b"a": b"new", b"b": b"other"}
    assert buffers.size == 8


def test_a_newer_tick_ends_what_is_arriving(buffers: Buffers) -> None:
    buffers.put("/r/a", 1, b"part", more=True)
    buffers.put("/r/a", 2, b"whole")
    buffers.put("/r/a", 1, b"the rest of the part")
    assert texts(buffers) == {b"a": b"whole"}
    assert buffers.size == 5
    buffers.put("/r/a", 3, b"part", more=True)
    buffers.drop(["/r/a"])
    buffers.put("/r/a", 3, b"not the rest, but all")
    assert texts(buffers) == {b"a": b"not the rest, but all"}


@pytest.mark.usefixtures("small")
def test_a_buffer_that_is_too_large_leaves_none(buffers: Buffers) -> None:
    buffers.put("/r/a", 1, b"x" * 10)
    with pytest.raises(UsageError, match=r"'/r/a' is larger than"):
        buffers.put("/r/a", 2, b"x" * 11)
    assert (texts(buffers), buffers.size) == ({}, 0)
    buffers.put("/r/a", 2, b"small")
    assert texts(buffers) == {b"a": b"small"}


@pytest.mark.usefixtures("small")
def test_the_rest_of_a_refused_buffer_is_no_buffer(buffers: Buffers) -> None:
    buffers.put("/r/a", 1, b"old")
    buffers.put("/r/a", 2, b"123456", more=True)
    for more in (True, True, False):
        with pytest.raises(UsageError, match="is larger than"):
            buffers.put("/r/a", 2, b"78901", more=more)
        assert (texts(buffers), buffers.size) == ({}, 0)
    buffers.put("/r/a", 2, b"123", more=True)
    buffers.put("/r/a", 2, b"456")
    assert texts(buffers) == {b"a": b"123456"}


@pytest.mark.usefixtures("small")
def test_all_buffers_together_are_bounded(buffers: Buffers) -> None:
    for name in "ab":
        buffers.put(f"/r/{name}", 1, b"x" * 10)
    buffers.put("/r/c", 1, b"xx", more=True)
    with pytest.raises(UsageError, match="'/r/d' does not fit"):
        buffers.put("/r/d", 1, b"1234")
    with pytest.raises(UsageError, match="'/r/c' does not fit"):
        buffers.put("/r/c", 1, b"1234")
    buffers.put("/r/a", 2, b"y" * 10)  # what is replaced does not count
    buffers.put("/r/c", 2, b"12345")
    assert buffers.size == 25
    assert buffers.drop(["/r/b"]) == 1
    buffers.put("/r/d", 1, b"1234")
    assert buffers.size == 19


@pytest.mark.usefixtures("small")
def test_the_number_of_buffers_is_bounded(buffers: Buffers) -> None:
    for name in "abc":
        buffers.put(f"/r/{name}", 1, b"")
    buffers.put("/r/d", 1, b"", more=True)
    with pytest.raises(UsageError, match="'/r/e' is one too many"):
        buffers.put("/r/e", 1, b"")
    buffers.put("/r/a", 2, b"")
    buffers.put("/r/d", 1, b"")
    assert len(buffers) == 4


@pytest.mark.parametrize(
    "path",
    ["", "a", "./a", "r/a", "~/a", "/r/a\0b", "/" + "a" * 5000],
)
def test_what_is_no_absolute_path_is_refused(buffers: Buffers, path: str) -> None:
    with pytest.raises(UsageError, match="is no absolute path") as refused:
        buffers.put(path, 1, b"text")
    assert "text" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert texts(buffers) == {}


@pytest.mark.parametrize("path", ["/", "/r", "/r/", "/r/.", "/x", "/rr/a", "/r/../x", "/r/a/../../x"])
def test_what_is_no_file_in_the_root_is_refused(buffers: Buffers, path: str) -> None:
    with pytest.raises(UsageError, match="does not lie in /r"):
        buffers.put(path, 1, b"text")
    assert texts(buffers) == {}


def test_spellings_of_a_path(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root / "d")
    (root / "inner").symlink_to("d")
    (root / "out").symlink_to(tmp_path)
    top = os.fsencode(root)
    for spelled, key in {
        f"{root}//d/./a": b"d/a",
        f"{root}/d/../a": b"a",
        f"{root}/none/../a": b"a",
        f"{tmp_path}/link/a": b"d/a",
        f"{tmp_path}/link/../a": b"a",
        f"{root}/inner/a": b"inner/a",
        f"{root}/out/a": b"out/a",
        f"{root}/names\udcff/\udce9\n": b"names\xff/\xe9\n",
        str(root): b"",
        f"{tmp_path}/a": None,
        f"{root}/out/../..": None,
    }.items():
        assert inside(top, spelled) == key, spelled
    assert inside(b"/", "/a/b") == b"a/b"


def test_two_spellings_of_one_path_are_one_buffer(tmp_path: Path) -> None:
    buffers = Buffers(str(tmp_path))
    buffers.put(f"{tmp_path}/a", 7, b"first")
    buffers.put(f"{tmp_path}/./a", 3, b"second")
    assert texts(buffers) == {b"a": b"second"}
    buffers.drop([f"{tmp_path}/./a"])
    assert texts(buffers) == {b"a": b"first"}


def test_a_buffer_whose_directory_has_moved_can_still_be_dropped(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    link = tmp_path / "link"
    link.symlink_to("root")
    buffers = Buffers(str(tmp_path / "root"))
    buffers.put(f"{link}/a", 1, b"text")
    link.unlink()
    with pytest.raises(UsageError, match="does not lie in"):
        buffers.put(f"{link}/a", 2, b"newer")
    assert texts(buffers) == {}
    link.symlink_to("root")
    buffers.put(f"{link}/a", 3, b"text")
    link.unlink()
    assert buffers.drop([f"{link}/a"]) == 1


def test_of_several_clients_the_last_word_counts() -> None:
    first, second = Buffers("/r"), Buffers("/r")
    first.put("/r/a", 10, b"first")
    second.put("/r/a", 1, b"second")
    second.put("/r/b", 1, b"alone")
    assert {path: buffer.text for path, buffer in merged([first, second]).items()} == {
        b"a": b"second",
        b"b": b"alone",
    }
    first.put("/r/a", 11, b"first again")
    assert merged([second, first])[b"a"].text == b"first again"
    first.clear()
    assert merged([first, second])[b"a"].text == b"second"


class Model:
    """What must be held, worked out the long way: every part is kept until its last one has come."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, bytes]] = {}
        self.parts: dict[str, tuple[int, list[bytes] | None]] = {}

    def size(self, but: str = "") -> int:
        sizes = [len(text) for name, (_, text) in self.held.items() if name != but]
        return sum(sizes) + sum(
            len(b"".join(parts or ())) for name, (_, parts) in self.parts.items() if name != but
        )

    def put(self, name: str, tick: int, text: bytes, more: bool) -> bool:
        """Whether it is to be accepted."""
        if tick < max(self.held.get(name, (0, b""))[0], self.parts.get(name, (0, []))[0]):
            return True
        before = self.parts.pop(name, (tick, []))
        parts = before[1] if before[0] == tick else []
        if parts is not None:
            parts = [*parts, text]
            whole = b"".join(parts)
            others = self.held.keys() | self.parts.keys() - {name}
            crowded = name not in self.held and len(others) >= 4
            if len(whole) > 10 or self.size(name) + len(whole) > 25 or crowded:
                parts = None
        if more:
            self.parts[name] = (tick, parts)
        elif parts is not None:
            self.held[name] = (tick, b"".join(parts))
        if parts is None:
            self.held.pop(name, None)
        return parts is not None

    def drop(self, name: str) -> None:
        self.held.pop(name, None)
        self.parts.pop(name, None)


names = st.sampled_from([f"/r/{letter}" for letter in "abcdef"])
puts = st.tuples(names, st.integers(1, 3), st.binary(max_size=12), st.booleans())


@pytest.mark.usefixtures("small")
@given(st.lists(puts | names, max_size=50))
def test_what_is_held_is_what_was_sent(steps: list[str | tuple[str, int, bytes, bool]]) -> None:
    buffers, model = Buffers("/r"), Model()
    for step in steps:
        if isinstance(step, str):
            buffers.drop([step])
            model.drop(step)
        else:
            name, tick, text, more = step
            accepted = True
            try:
                buffers.put(name, tick, text, more=more)
            except UsageError:
                accepted = False
            assert accepted == model.put(name, tick, text, more)
        assert texts(buffers) == {
            name.removeprefix("/r/").encode(): text for name, (_, text) in model.held.items()
        }
        assert buffers.size == model.size()
        assert len(buffers) == len(model.held)


@pytest.mark.usefixtures("small")
def test_refused_buffers_that_never_end_are_bounded(buffers: Buffers) -> None:
    for number in range(50):
        with pytest.raises(UsageError, match="is larger than"):
            buffers.put(f"/r/{number}", 1, b"x" * 11, more=True)
    assert len(buffers._arriving) == 2 * 4
    with pytest.raises(UsageError, match="is larger than"):
        buffers.put("/r/49", 1, b"the rest")
    assert texts(buffers) == {}
