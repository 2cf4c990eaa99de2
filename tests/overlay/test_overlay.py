"""Maintenance: what it makes of hot files, what is had back for nothing, and that answers stay right."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexgrep.errors import IndexCorrupt, IndexFault, IndexLocked
from indexgrep.index.format import read_header
from indexgrep.index.reader import Index
from indexgrep.index.store import Store
from indexgrep.overlay import bases
from indexgrep.overlay.view import View, layer_of
from indexgrep.runtime import cache_dir
from indexgrep.search import Session
from support.server_harness import eventually

from .conftest import LOW, age, agree, ask, git, layers, settle, write

Open = Callable[..., Session]


def names(session: Session) -> set[str]:
    """The indexes of the session's repository on disk."""
    return {stored.name for stored in bases.store_of(session.root).stored()}


def test_a_few_hot_files_are_left_alone(tree: Path, open_session: Open) -> None:
    session = open_session(tree, build=True)
    write(tree, "new1.txt", "new2.txt")
    age()
    assert settle(session) == 0
    assert session.status()["hot"] == 2
    assert layers(session) == [("base", 20)]


def test_many_hot_files_become_a_segment(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    write(tree, "src/file00.txt", "a/new1.txt", "new2.txt", text="new thing in {}")
    age()
    assert ask(session, "new thing").candidates == 3
    settle(session)
    assert layers(session) == [("segment", 3), ("base", 19)]
    assert session.status()["hot"] == 0
    assert session.status()["overlay"] == 3
    summary = ask(session, "thing in src/file00")
    assert (summary.candidates, summary.documents, summary.served_by) == (1, 22, "index")
    agree(session, rg, tree)
    write(tree, "new2.txt", text="once more")
    (tree / "a" / "new1.txt").unlink()
    agree(session, rg, tree)
    assert layers(session) == [("segment", 1), ("base", 19)]


def test_segments_are_found_again(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    settle(session)
    session.close()
    write(tree, "new2.txt", text="changed while nobody looked")
    again = open_session(tree)
    assert layers(again) == [("segment", 2), ("base", 20)]
    assert again.status()["hot"] == 1
    agree(again, rg, tree)


def test_segments_are_joined_to_one(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    for group in ("a", "b", "c"):
        write(tree, *(f"{group}{number}.txt" for number in range(3)), text=f"new thing {group} in {{}}")
        age()
        settle(session)
    assert layers(session) == [("segment", 9), ("base", 20)]
    assert sum(name.startswith("segment-") for name in names(session)) == 1
    assert ask(session, "thing b in b1").candidates == 1
    agree(session, rg, tree)


def test_segments_that_serve_much_are_compacted_with_the_base(
    tree: Path, open_session: Open, rg: str
) -> None:
    session = open_session(tree, build=True)
    write(tree, *(f"new{number:02}.txt" for number in range(15)), text="new thing in {}")
    (tree / "src" / "file07.txt").unlink()
    age()
    settle(session)
    assert layers(session) == [("base", 34)]
    assert not any(name.startswith("segment-") for name in names(session))
    assert ask(session, "thing in new11").candidates == 1
    agree(session, rg, tree)
    session.close()
    assert layers(open_session(tree)) == [("base", 34)]


def test_touched_files_are_adopted(tree: Path, open_session: Open, rg: str) -> None:
    """Their content is the documents' still."""
    session = open_session(tree, build=True)
    for file in (tree / "src").iterdir():
        os.utime(file)
    age()
    assert session.status()["hot"] == 20
    settle(session)
    assert layers(session) == [("base", 20)]
    agree(session, rg, tree)
    session.close()
    assert layers(open_session(tree)) == [("base", 20)]  # the stamps were kept


def test_an_edit_is_not_adopted_whatever_it_keeps(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    for number in range(6):
        file = tree / "src" / f"file{number:02}.txt"
        before = file.stat()
        file.write_text(file.read_text().replace("needle", "haysta"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    age()
    settle(session)
    assert layers(session) == [("segment", 6), ("base", 14)]
    assert ask(session, "haysta").candidates == 6
    agree(session, rg, tree)


def test_switching_branches_indexes_only_what_differs_and_back_nothing(
    tree: Path, open_session: Open, rg: str
) -> None:
    session = open_session(tree, build=True)
    git(tree, "checkout", "-q", "other")
    agree(session, rg, tree)
    age()
    settle(session)
    assert layers(session) == [("segment", 5), ("base", 15)]
    agree(session, rg, tree)
    known = names(session)
    git(tree, "checkout", "-q", "main")
    agree(session, rg, tree)
    age()
    settle(session)
    assert layers(session) == [("segment", 0), ("base", 20)]
    git(tree, "checkout", "-q", "other")
    age()
    settle(session)
    assert layers(session) == [("segment", 5), ("base", 15)]
    assert names(session) == known  # nothing was built anew
    agree(session, rg, tree)


def test_the_base_of_head_is_brought_in_again(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    main = session.status()["index"]["commit"]
    git(tree, "checkout", "-q", "other")
    age()
    session.build(force=True)
    assert session.status()["index"]["commit"] == git(tree, "rev-parse", "other")
    git(tree, "checkout", "-q", "main")
    age()
    settle(session)
    assert layers(session) == [("base", 20)]
    assert session.status()["index"]["commit"] == main
    agree(session, rg, tree)
    # And a session that starts there uses the base that is nearest.
    session.close()
    assert open_session(tree).status()["index"]["commit"] == main


def test_a_linked_worktree_uses_the_base(tree: Path, open_session: Open, rg: str, tmp_path: Path) -> None:
    first = open_session(tree, build=True)
    linked = tmp_path / "linked"
    git(tree, "worktree", "add", "-q", str(linked), "other")
    age()
    session = open_session(linked)
    agree(session, rg, linked)
    settle(session)
    assert layers(session) == [("segment", 5), ("base", 15)]
    agree(session, rg, linked)
    agree(first, rg, tree)
    assert layers(first) == [("base", 20)]


def test_a_second_clone_uses_the_base(tree: Path, open_session: Open, rg: str, tmp_path: Path) -> None:
    open_session(tree, build=True)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(tree), str(clone))
    age()
    session = open_session(clone)
    assert session.status()["index"]["state"] == "ready"
    agree(session, rg, clone)
    settle(session)
    assert layers(session) == [("base", 20)]
    assert ask(session, "src/file11").candidates == 1
    assert not names(session)  # it has no index of its own
    shutil.rmtree(cache_dir())
    agree(session, rg, clone)
    assert session.status()["index"]["state"] == "stale"  # worth building
    session.build()
    assert layers(session) == [("base", 20)]
    agree(session, rg, clone)


def test_with_most_files_changed_a_full_build_is_due(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    write(tree, *(f"src/file{number:02}.txt" for number in range(15)), text="new thing in {}")
    git(tree, "commit", "-qam", "third")
    age()
    assert settle(session) <= 1
    assert session.status()["index"]["state"] == "stale"
    agree(session, rg, tree)
    session.build()
    assert session.status()["index"]["state"] == "ready"
    assert layers(session) == [("base", 20)]
    assert session.status()["index"]["commit"] == git(tree, "rev-parse", "HEAD")


def test_a_folder_without_git_has_layers_too(tmp_path: Path, open_session: Open, rg: str) -> None:
    root = tmp_path / "plain"
    write(root, *(f"file{number:02}.txt" for number in range(12)))
    age()
    session = open_session(root, build=True)
    assert layers(session) == [("base", 12)]
    write(root, "new1.txt", "new2.txt", "file03.txt", text="new thing in {}")
    age()
    settle(session)
    assert layers(session) == [("segment", 3), ("base", 11)]
    agree(session, rg, root)


def test_files_that_are_always_written_wait_and_do_not_hold_up_others(
    tree: Path, open_session: Open, rg: str
) -> None:
    session = open_session(tree, build=True, policy=replace(LOW, rest=1e6))
    busy = ("busy1.txt", "busy2.txt", "busy3.txt")
    write(tree, *busy, text="new thing in {}")
    age()
    settle(session)
    write(tree, *busy, text="once more in {}")
    age()
    settle(session)
    assert layers(session) == [("segment", 0), ("base", 20)]
    write(tree, "other1.txt", "other2.txt", "other3.txt", text="new thing in {}")
    age()
    settle(session)
    assert layers(session) == [("segment", 3), ("segment", 0), ("base", 20)]
    assert session.status()["hot"] == 3
    agree(session, rg, tree)


def test_future_files_are_not_tried_again_and_again(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    write(tree, *(f"later{number}.txt" for number in range(4)), text="new thing in {}")
    for file in tree.glob("later*"):
        os.utime(file, (2**32, 2**32))  # a clock that was set back: the next change may not show
    age()
    assert settle(session) <= 1
    assert session.status()["hot"] == 4
    assert settle(session) == 0
    agree(session, rg, tree)


def test_files_that_cannot_be_indexed_are_tried_once(
    tree: Path, open_session: Open, rg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unreadable ones, say: their documents have no stamps."""
    session = open_session(tree, build=True)
    write(tree, *(f"odd{number}.txt" for number in range(4)), text="new thing in {}")
    age()
    with monkeypatch.context() as patch:
        patch.setattr(bases, "layer_with_stamps", lambda root, index: layer_of(index))
        assert settle(session) <= 2
    assert session.status()["hot"] == 4
    assert settle(session) == 0
    for file in tree.glob("odd*"):
        file.chmod(0o600)  # they are other files now
    age()
    settle(session)
    assert session.status()["hot"] == 0
    agree(session, rg, tree)


def test_what_cannot_be_indexed_is_told_and_searched_all_the_same(
    tree: Path, open_session: Open, rg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(tree, build=True)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    with monkeypatch.context() as patch:
        fails = OSError(errno.ENOSPC, "No space left on device")
        patch.setattr("indexgrep.index.store.private_dir", lambda path: (_ for _ in ()).throw(fails))
        with pytest.raises(IndexFault, match="No space left"):
            settle(session)
        assert "No space left" in session.status()["index"]["fault"]
        agree(session, rg, tree)
    settle(session)
    assert session.status()["index"]["fault"] == ""
    assert layers(session) == [("segment", 3), ("base", 20)]


def test_while_another_builds_maintenance_waits(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    session.status()
    with bases.store_of(session.root).lock(), pytest.raises(IndexLocked):
        settle(session)
    agree(session, rg, tree)
    settle(session)
    assert layers(session) == [("segment", 3), ("base", 20)]


def damage_lists(directory: Path) -> None:
    """Spoil all posting lists, so that any search that asks for one meets the damage."""
    postings = directory / "postings"
    data = bytearray(postings.read_bytes())
    header, starts, _ = read_header(io.BytesIO(bytes(data)), "postings", len(data))
    size = header.sections["lists"][0]
    data[starts["lists"] : starts["lists"] + size] = bytes(
        byte ^ 1 for byte in data[starts["lists"] :][:size]
    )
    postings.write_bytes(data)


@pytest.mark.parametrize("kind", ["segment", "base"])
def test_a_damaged_layer_is_dropped(tree: Path, open_session: Open, rg: str, kind: str) -> None:
    session = open_session(tree, build=True)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    settle(session)
    [name] = [name for name in names(session) if name.startswith("segment-") == (kind == "segment")]
    damage_lists(bases.store_of(session.root).path(name))
    agree(session, rg, tree)
    assert layers(session) == ([("base", 20)] if kind == "segment" else [])
    settle(session)
    session.build()
    assert layers(session)[-1] == ("base", 20)
    agree(session, rg, tree)


def test_a_base_that_is_dropped_while_a_segment_is_made(
    tree: Path, open_session: Open, rg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(tree, build=True)
    base = session._overlay.refreshed().layers[-1].index
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    build = Store.build

    def dropping(*arguments: Any, **options: Any) -> Index:
        segment = build(*arguments, **options)
        session._overlay.drop(base, IndexCorrupt("damaged"))
        return segment

    monkeypatch.setattr(Store, "build", dropping)
    settle(session)
    monkeypatch.undo()
    assert session.status()["index"]["state"] == "absent"
    agree(session, rg, tree)
    session.build()
    agree(session, rg, tree)


def test_content_ids_that_are_damaged_drop_the_layer(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    postings = Path(session.status()["index"]["dir"]) / "postings"
    data = bytearray(postings.read_bytes())
    _, starts, _ = read_header(io.BytesIO(bytes(data)), "postings", len(data))
    data[starts["contents"]] ^= 1
    postings.write_bytes(data)
    for file in (tree / "src").iterdir():
        os.utime(file)
    age()
    settle(session)
    assert session.status()["index"]["state"] == "absent"
    agree(session, rg, tree)
    session.build()
    assert layers(session) == [("base", 20)]


def test_a_look_that_fails_loses_no_change(
    tree: Path, open_session: Open, rg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(tree, build=True)
    agree(session, rg, tree)
    write(tree, "src/file03.txt", text="new thing in {}")
    with monkeypatch.context() as patch:
        patch.setattr(View, "changed", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            ask(session, "new thing")
    agree(session, rg, tree)


def test_a_base_of_another_worktree_that_serves_much_is_kept(
    tree: Path, open_session: Open, rg: str, tmp_path: Path
) -> None:
    """It has another frequent set, so that it cannot be joined: neither joined nor removed by turns."""
    write(tree, *(f"src/more{number:02}.txt" for number in range(20)))
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "more")
    linked = tmp_path / "linked"
    git(tree, "worktree", "add", "-q", "--detach", str(linked), "HEAD")
    age()
    open_session(linked, build=True)
    git(tree, "checkout", "-qb", "third")
    write(tree, *(f"src/file{number:02}.txt" for number in range(15)), text="third {} frequently different")
    git(tree, "commit", "-qam", "third")
    age()
    open_session(tree, build=True).close()  # it has the base of the worktree, and a segment or a base
    session = open_session(tree)
    session.build(force=True)
    git(linked, "checkout", "-q", "--detach", "third")
    age()
    other = open_session(linked)
    settle(other)
    assert settle(other) == 0
    assert other.status()["hot"] == 0
    agree(other, rg, linked)


def test_worktrees_do_not_build_the_base_of_a_commit_by_turns(
    tree: Path, open_session: Open, rg: str, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    git(tree, "worktree", "add", "-q", "--detach", str(linked), "HEAD")
    age()
    first, second = open_session(tree), open_session(linked)  # neither finds an index
    first.build()
    second.build()
    assert first.status()["index"]["state"] == second.status()["index"]["state"] == "ready"
    first.build(force=True)
    assert second.status()["index"]["state"] == "stale"  # its base was replaced
    second.build()
    for session, root in ((first, tree), (second, linked)):
        assert session.status()["index"]["state"] == "ready"
        assert layers(session) == [("base", 20)]
        agree(session, rg, root)


def test_layers_that_others_have_removed_are_let_go(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True)
    for group in ("a", "b", "c", "d"):
        write(tree, *(f"{group}{number}.txt" for number in range(3)), text=f"new thing {group} in {{}}")
        age()
        settle(session)
        for name in names(session):
            if name.startswith("segment-"):
                bases.store_of(session.root).remove(name)
        agree(session, rg, tree)
    settle(session)
    assert len(layers(session)) <= 3
    assert session.status()["index"]["fault"] == ""


def test_edits_after_a_compaction_do_not_bring_the_old_base_back(
    tree: Path, open_session: Open, rg: str
) -> None:
    session = open_session(tree, build=True)
    write(tree, *(f"new{number:02}.txt" for number in range(15)), text="new thing in {}")
    age()
    settle(session)
    assert layers(session) == [("base", 35)]
    known = {name for name in names(session) if not name.startswith("segment-")}
    write(tree, "src/file00.txt", "src/file01.txt", "src/file02.txt", text="edited {}")
    age()
    assert settle(session) <= 2
    assert layers(session) == [("segment", 3), ("base", 32)]
    assert {name for name in names(session) if not name.startswith("segment-")} == known
    agree(session, rg, tree)


def test_many_untracked_files_are_no_reason_to_build_again(tree: Path, open_session: Open, rg: str) -> None:
    """A base has what the commit has: building it anew would leave them where they are."""
    write(tree, *(f"untracked{number:02}.txt" for number in range(30)), text="new thing in {}")
    age()
    session = open_session(tree, build=True)
    for _ in range(3):
        settle(session)
        assert session.status()["index"]["state"] == "ready"
    assert session.status()["hot"] == 0
    agree(session, rg, tree)


def test_the_keeper_does_all_this_by_itself(tree: Path, open_session: Open, rg: str) -> None:
    session = open_session(tree, build=True, keep=True)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    eventually(lambda: layers(session) == [("segment", 3), ("base", 20)])
    agree(session, rg, tree)
    git(tree, "checkout", "-q", "other")
    eventually(lambda: session.status()["hot"] == 0)
    agree(session, rg, tree)


def test_after_a_build_the_keeper_indexes_what_stays_hot(tree: Path, open_session: Open, rg: str) -> None:
    """Changed files are in the base as they were committed: nobody touches them, and no event comes."""
    session = open_session(tree, build=True, keep=True)
    shutil.rmtree(cache_dir())
    write(tree, "src/file01.txt", "src/file02.txt", "src/file03.txt", text="new thing in {}")
    age()
    eventually(lambda: session.status()["index"]["state"] == "stale")
    session.build(force=True)
    eventually(lambda: layers(session) == [("segment", 3), ("base", 17)])
    agree(session, rg, tree)


def test_an_index_in_use_stays_used(tree: Path, open_session: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it is not the first to go when the cache is full."""
    monkeypatch.setattr("indexgrep.overlay.keeper._TOUCH_S", 0.0)
    session = open_session(tree, build=True, keep=True)
    [stored] = bases.store_of(session.root).stored()
    os.utime(stored.directory / "used", (1, 1))
    write(tree, "new.txt")
    eventually(lambda: bases.store_of(session.root).stored()[0].used > 1)


def test_without_a_watch_the_keeper_acts_on_what_queries_find(
    tree: Path, open_session: Open, rg: str
) -> None:
    session = open_session(tree, build=True, keep=True, watch=False)
    write(tree, "new1.txt", "new2.txt", "new3.txt", text="new thing in {}")
    age()
    eventually(lambda: layers(session) == [("segment", 3), ("base", 20)])
    agree(session, rg, tree)
