"""A session: right answers whatever happens to the tree and to the index, and summaries that say how."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexgrep.errors import Cancelled, IndexFault, PatternError, RootError
from indexgrep.match import pool
from indexgrep.overlay import bases
from indexgrep.request import SearchRequest
from indexgrep.search import Session, running
from support.hostile import build_hostile
from support.oracle import ask_ripgrep, difference, records
from support.privileges import bound_by_permissions, unprivileged

from .conftest import found, git

Open = Callable[..., Session]


def agree(session: Session, rg: str, root: Path, *patterns: str, **options: object) -> SearchRequest:
    """Assert that a search answers what ripgrep does."""
    request = SearchRequest(patterns, **options)  # type: ignore[arg-type]
    ours = records(session.search(request))
    for _ in range(5):  # where it stops at a late NUL byte depends on what the same thread has read before
        wrong = difference(ours, ask_ripgrep(rg, root, request))
        if not wrong:
            break
    assert wrong == ""
    return request


def summary_of(session: Session, pattern: str, **options: object):  # type: ignore[no-untyped-def]
    search = session.search(SearchRequest((pattern,), **options))  # type: ignore[arg-type]
    for _ in search:
        pass
    return search.summary


def test_without_an_index_everything_is_scanned_and_marked(repository: Path, open_session: Open) -> None:
    session = open_session(repository)
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    summary = summary_of(session, "needle_one")
    assert summary.served_by == "scan"
    assert summary.scan_reason == "there is no index yet"
    assert summary.candidates == summary.documents == 43
    assert session.status()["index"]["state"] == "absent"


def test_with_an_index_only_candidates_are_read(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    summary = summary_of(session, "needle_one")
    assert summary.served_by == "index"
    assert (summary.candidates, summary.verified, summary.documents) == (2, 2, 43)
    assert (summary.matched_files, summary.matched_lines, summary.matches) == (2, 2, 2)
    assert summary.commit == git(repository, "rev-parse", "HEAD").strip()
    assert summary.overlay == 0
    assert summary.complete
    status = session.status()
    assert status["index"]["state"] == "ready"
    assert status["index"]["documents"] == 43


def test_an_index_is_found_again(repository: Path, open_session: Open) -> None:
    open_session(repository, build=True).close()
    summary = summary_of(open_session(repository), "needle_two")
    assert (summary.served_by, summary.candidates) == ("index", 2)


@pytest.mark.parametrize("watch", [True, False])
def test_every_change_is_seen_by_the_next_search(
    repository: Path, open_session: Open, rg: str, watch: bool
) -> None:
    session = open_session(repository, build=True, watch=watch)
    main = repository / "src" / "main.c"

    def check() -> None:
        agree(session, rg, repository, r"needle_\w+")
        agree(session, rg, repository, "fresh")

    check()
    main.write_text("int fresh;\n")
    check()
    (repository / "untracked.txt").write_text("fresh needle_three\n")
    check()
    (repository / "ignored.log").write_text("fresh needle_three\n")
    check()
    (repository / "readme.md").unlink()
    check()
    (repository / "src" / "deep").rename(repository / "src" / "moved")
    check()
    (repository / ".gitignore").write_text("*.txt\n")
    check()
    git(repository, "checkout", "-q", "-f", "HEAD")
    check()
    git(repository, "rm", "-qr", "src/deep", "-f")
    check()


def test_an_edit_that_keeps_size_and_mtime_is_seen(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    path = repository / "src" / "main.c"
    before = path.stat()
    path.write_text(path.read_text().replace("needle_one", "needle_ONE"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(session, "needle_ONE") == [("src/main.c", 3)]
    session.close()
    assert found(open_session(repository), "needle_ONE") == [("src/main.c", 3)]


def test_a_file_written_while_the_index_is_built_is_not_trusted(repository: Path, open_session: Open) -> None:
    path = repository / "src" / "main.c"
    path.write_text("int racy_first;\n")
    session = open_session(repository, build=True)
    path.write_text("int racy_again;\n")  # perhaps within the same tick of the clock, same size
    assert found(session, "racy_again") == [("src/main.c", 1)]
    assert found(session, "racy_first") == []


def test_a_changed_file_counts_in_the_index_as_committed(repository: Path, open_session: Open) -> None:
    path = repository / "src" / "main.c"
    path.write_text("int uncommitted;\n")
    session = open_session(repository, build=True)
    summary = summary_of(session, "uncommitted")
    assert (summary.overlay, summary.candidates, summary.matched_files) == (1, 1, 1)


@pytest.mark.parametrize("state", ["plain", "unborn", "detached"])
def test_any_state_of_a_repository_works(repository: Path, open_session: Open, rg: str, state: str) -> None:
    if state == "plain":
        shutil.rmtree(repository / ".git")
    elif state == "unborn":
        git(repository, "checkout", "-q", "--orphan", "other")
    else:
        git(repository, "checkout", "-q", "--detach")
    session = open_session(repository, build=True)
    agree(session, rg, repository, "needle_two")
    summary = summary_of(session, "needle_two")
    assert summary.served_by == "index"
    assert summary.documents == (44 if state == "plain" else 43)  # without git, .gitignore counts for nothing
    assert summary.candidates == 2
    assert bool(summary.commit) == (state == "detached")


def test_an_index_of_no_document_serves_every_scope(tmp_path: Path, open_session: Open, rg: str) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-qm", "empty", "--allow-empty")
    (tmp_path / "new").write_text("needle\n")
    session = open_session(tmp_path, build=True)
    assert session.status()["index"]["documents"] == 0
    for options in ({}, {"hidden": True}, {"no_ignore": True}, {"globs": ("*",)}):
        agree(session, rg, tmp_path, "needle", **options)


def test_a_linked_worktree_has_an_overlay_of_its_own(repository: Path, open_session: Open, rg: str) -> None:
    first = open_session(repository, build=True)
    other = repository.parent / "linked"
    git(repository, "worktree", "add", "-q", str(other))
    (other / "src" / "main.c").write_text("needle_linked\n")
    time.sleep(0.05)  # so that no file is racy
    second = open_session(other, build=True)
    agree(second, rg, other, r"needle_\w+")
    agree(first, rg, repository, r"needle_\w+")
    assert summary_of(second, "needle_two").candidates == 2
    assert summary_of(second, "needle_linked").candidates == 1
    assert summary_of(first, "needle_linked").candidates == 0
    assert first.status()["index"]["dir"] == second.status()["index"]["dir"]


@pytest.mark.parametrize(
    "options",
    [
        {"paths": ("src",)},
        {"paths": ("src/deep", "src/main.c")},
        {"paths": ("src/main.c",)},
        {"paths": ("build",)},
        {"paths": ("deep",), "cwd": "src"},
        {"cwd": "src"},
        {"paths": ("..",), "cwd": "src/deep"},
        {"hidden": True},
        {"no_ignore": True},
        {"globs": ("*.c",)},
        {"globs": ("!*.c",)},
        {"iglobs": ("*.C",)},
        {"types": ("c",)},
        {"types_not": ("c",)},
        {"max_depth": 1},
        {"max_filesize": 30},
        {"follow": True},
    ],
    ids=str,
)
def test_the_scope_is_ripgreps(
    repository: Path, open_session: Open, rg: str, options: dict[str, object]
) -> None:
    session = open_session(repository, build=True)
    if "cwd" in options:
        options = options | {"cwd": str(repository / str(options["cwd"]))}
    (repository / "link").symlink_to("src/deep")
    (repository / ".hidden").write_text("needle_one\n")
    for _ in range(2):  # the first search sweeps, the second watches
        agree(session, rg, repository, "needle_one", "needle_two", **options)


def test_paths_outside_the_root_are_searched_where_they_are(
    repository: Path, open_session: Open, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file.txt").write_text("needle_one\n")
    session = open_session(repository, build=True)
    assert found(session, "needle_one", paths=(str(tmp_path / "outside"),)) == [
        (str(tmp_path / "outside" / "file.txt"), 1)
    ]


def test_a_missing_path_is_an_error_and_the_rest_goes_on(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    search = session.search(SearchRequest(("needle_one",), paths=("nope", "src")))
    files = [file for batch in search for file in batch]
    assert [(file.path, file.error) for file in files if file.error] == [
        ("nope", "No such file or directory (os error 2)")
    ]
    assert [file.path for file in files if not file.error] == ["src/main.c"]
    assert search.summary.errors == 1


def test_an_unreadable_file_is_reported(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    (repository / "src" / "main.c").chmod(0)
    with unprivileged(repository):
        files = [file for batch in session.search(SearchRequest(("needle_one",))) for file in batch]
    assert [(file.path, file.error) for file in files if file.error] == [
        ("src/main.c", "Permission denied (os error 13)")
    ]


@pytest.mark.parametrize("watch", [True, False])
def test_files_that_cannot_be_looked_at_are_reported_as_far_as_they_are_wanted(
    repository: Path, open_session: Open, watch: bool
) -> None:
    """A directory that may be listed but not entered: ripgrep names each file in it."""
    with bound_by_permissions() as bound:
        if not bound:
            pytest.skip("root cannot be bound by permissions here")
        session = open_session(repository, build=True, watch=watch)
        deep = repository / "src" / "deep"
        (deep / "third.py").write_text("needle_three\n")
        deep.chmod(0o644)
        try:
            for options, names in (
                ({}, ["other.c", "third.py"]),
                ({"types": ("c",)}, ["other.c"]),
                ({"globs": ("!third.py",)}, ["other.c"]),
                ({"paths": ("readme.md",)}, []),
            ):
                search = session.search(SearchRequest(("needle_two",), **options))  # type: ignore[arg-type]
                errors = [(file.path, file.error) for batch in search for file in batch if file.error]
                denied = "Permission denied (os error 13)"
                assert errors == [(f"src/deep/{name}", denied) for name in names]
                assert search.summary.errors == len(names)
        finally:
            deep.chmod(0o755)
        assert len(found(session, "needle_t")) == 4


@pytest.mark.parametrize("watch", [True, False])
def test_an_unreadable_directory_is_reported_by_every_search(
    repository: Path, open_session: Open, watch: bool
) -> None:
    session = open_session(repository, build=True, watch=watch)
    found(session, "needle_one")

    def errors(**options: object) -> list[tuple[str, str]]:
        search = session.search(SearchRequest(("needle_one",), **options))  # type: ignore[arg-type]
        return [(file.path, file.error) for batch in search for file in batch if file.error]

    # Root can read any directory but one whose path is too long.
    with contextlib.ExitStack() as stack:
        directory = os.open(repository, os.O_RDONLY)
        stack.callback(os.close, directory)
        for _ in range(20):
            os.mkdir("x" * 250, dir_fd=directory)
            directory = os.open("x" * 250, os.O_RDONLY, dir_fd=directory)
            stack.callback(os.close, directory)
    for _ in range(2):
        [(path, error)] = errors()
        assert path.startswith("x" * 250 + "/x")
        assert error == f"{os.strerror(errno.ENAMETOOLONG)} (os error {errno.ENAMETOOLONG})"
    assert len(errors(globs=("*.c",))) == len(errors(hidden=True)) == len(errors(paths=("x" * 250,))) == 1
    assert errors(globs=("!x*/",)) == errors(paths=("src",)) == []
    shutil.rmtree(repository / ("x" * 250))
    assert errors() == []


def test_the_hostile_tree(tmp_path: Path, open_session: Open, rg: str) -> None:
    root = build_hostile(tmp_path / "hostile")
    session = open_session(root, build=True)
    for pattern in ("needle", "(?i)NEEDLE", r"\bneedle\b", "k", "^$", "s.o.t"):
        agree(session, rg, root, pattern)
    for options in (
        {"hidden": True},
        {"no_ignore": True},
        {"text": True},
        {"invert": True},
    ):
        agree(session, rg, root, "needle", **options)


@pytest.mark.parametrize(
    ("option", "pattern"),
    [("text", "needle_behind"), ("binary", "needle_behind"), ("multiline", "needle_behind$")],
)
def test_text_behind_a_nul_byte_is_found_where_ripgrep_finds_it(
    repository: Path, open_session: Open, rg: str, option: str, pattern: str
) -> None:
    late = b"filler\n" * 20_000 + b"\0\n" + b"needle_behind\n"
    (repository / "late.bin").write_bytes(late)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "binary")
    time.sleep(0.05)
    session = open_session(repository, build=True)
    request = SearchRequest((pattern,), **{option: True})
    search = session.search(request)
    assert [file.path for batch in search for file in batch] == list(ask_ripgrep(rg, repository, request))
    assert (search.summary.served_by, search.summary.overlay) == ("index", 0)


# Limits


def test_a_limit_cuts_exactly_and_says_so(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    everything = found(session, "needle")
    for limit in range(len(everything) + 2):
        assert found(session, "needle", limit=limit) == everything[:limit]
        summary = summary_of(session, "needle", limit=limit)
        assert summary.complete == (limit >= len(everything))
        assert summary.reason == ("" if summary.complete else "limit")
        assert summary.matched_lines == min(limit, len(everything))


def test_a_deadline_ends_a_search(repository: Path, open_session: Open) -> None:
    summary = summary_of(open_session(repository), "needle", timeout_ms=0)
    assert (summary.complete, summary.reason) == (False, "timeout")


def test_a_cancelled_search_ends(repository: Path, open_session: Open) -> None:
    session = open_session(repository)
    cancel = threading.Event()
    search = session.search(SearchRequest(("filler",)), cancel)
    batches = iter(search)
    next(batches)
    cancel.set()
    rest = list(batches)
    assert sum(len(batch) for batch in rest) < 39
    assert (search.summary.complete, search.summary.reason) == (False, "cancelled")


def test_closing_a_search_ends_it(repository: Path, open_session: Open) -> None:
    search = open_session(repository).search(SearchRequest(("filler",)))
    batches = iter(search)
    next(batches)
    search.close()
    list(batches)
    assert search.summary.reason == "cancelled"


# Bad input


def test_a_pattern_that_does_not_parse_is_refused_at_once(repository: Path, open_session: Open) -> None:
    with pytest.raises(PatternError) as caught:
        open_session(repository).search(SearchRequest(("a(b",)))
    assert (caught.value.start, caught.value.reason) == (1, "unclosed group")


def test_home_is_refused_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RootError, match="home directory"):
        Session.open(str(tmp_path))
    Session.open(str(tmp_path), force_root=True).close()


def test_a_root_that_vanishes_is_an_error_not_an_empty_answer(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    found(session, "needle")
    repository.rename(repository.with_name("elsewhere"))
    with pytest.raises(RootError, match="cannot search"):
        found(session, "needle")
    repository.with_name("elsewhere").rename(repository)
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]


# Files that come and go while a search runs


def during_the_search(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Have the changes made when the tree has been looked at and no file has been read, one a look."""
    left = list(changes)

    def search_files(*arguments: object, **options: object) -> object:
        if left:
            left.pop(0)()
        return pool.search_files(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "search_files", search_files)


def test_a_file_that_is_renamed_during_a_search_is_not_missed(
    repository: Path, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(repository, build=True)
    deep, moved, again = (repository / "src" / name for name in ("deep", "moved", "again"))
    (repository / "readme.md").unlink()
    during_the_search(monkeypatch, lambda: deep.rename(moved), lambda: moved.rename(again))
    search = session.search(SearchRequest(("needle_two",)))
    assert [file.path for batch in search for file in batch] == ["src/again/other.c"]
    assert (search.summary.vanished, search.summary.errors) == (0, 0)
    assert search.summary.documents == 42
    during_the_search(monkeypatch, lambda: again.rename(deep))
    search = session.search(SearchRequest(("needle_(one|two)",)))
    assert [file.path for batch in search for file in batch] == ["src/main.c"]
    assert search.summary.vanished == 1  # the answer may lack something, and says so


def test_a_file_that_is_removed_during_a_search_has_no_text(
    repository: Path, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(repository, build=True)
    during_the_search(monkeypatch, (repository / "readme.md").unlink)
    search = session.search(SearchRequest(("about needles",)))
    assert list(search) == []
    assert (search.summary.complete, search.summary.errors) == (True, 0)


def test_a_file_that_is_made_anew_while_it_is_to_be_read_is_searched(
    repository: Path, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does: the old file is removed, then the new one written."""
    session = open_session(repository, build=True)
    readme = repository / "readme.md"
    away = repository.with_name("away")

    real_stat = os.stat

    def stat(path: object, **options: object) -> os.stat_result:
        if path == os.fsencode(readme) and away.exists():
            away.rename(readme)
        return real_stat(path, **options)  # type: ignore[call-overload, no-any-return]

    during_the_search(monkeypatch, lambda: readme.rename(away))
    monkeypatch.setattr(running.os, "stat", stat)
    search = session.search(SearchRequest(("about needles",)))
    assert [(file.path, file.error) for batch in search for file in batch] == [("readme.md", None)]
    assert (search.summary.errors, search.summary.vanished) == (0, 0)


# The index


def damage(session: Session, name: str, at: float) -> None:
    """Flip the bits of one byte, in place, so that an open index meets it."""
    path = Path(session.status()["index"]["dir"], name)
    with open(path, "r+b") as file:
        file.seek(int(at * (path.stat().st_size - 1)))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


def damage_lists(session: Session) -> None:
    """Flip the bits of the whole second half of the postings file, where the lists are."""
    postings = Path(session.status()["index"]["dir"], "postings")
    content = postings.read_bytes()
    half = len(content) // 2
    with open(postings, "r+b") as file:
        file.seek(half)
        file.write(bytes(byte ^ 0xFF for byte in content[half:]))


@pytest.mark.parametrize("name", ["postings", "lookup"])
def test_an_index_damaged_on_disk_is_not_used(repository: Path, open_session: Open, name: str) -> None:
    session = open_session(repository, build=True)
    directory = Path(session.status()["index"]["dir"])
    damage(session, name, 0.001)
    session.close()
    again = open_session(repository)
    assert found(again, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    assert summary_of(again, "needle_one").served_by == "scan"
    assert not directory.exists()
    again.build()
    assert summary_of(again, "needle_one").served_by == "index"


def test_damage_under_an_open_index_is_met_by_a_scan(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    directory = Path(session.status()["index"]["dir"])
    damage_lists(session)
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    summary = summary_of(session, "needle_one")
    assert (summary.served_by, summary.scan_reason) == ("scan", "the index was damaged")
    assert not directory.exists()
    session.build()
    assert summary_of(session, "needle_one").served_by == "index"


def test_a_base_that_was_replaced_is_not_moved_aside_for_the_old_ones_damage(
    repository: Path, open_session: Open
) -> None:
    session = open_session(repository, build=True)
    damage_lists(session)
    other = open_session(repository)
    other.build(force=True)  # another process renews it
    directory = Path(other.status()["index"]["dir"])
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    assert session.status()["index"]["state"] == "absent"  # it met the damage
    assert directory.exists()
    assert summary_of(open_session(repository), "needle_one").served_by == "index"


def test_building_twice_is_building_once(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    phases: list[str] = []
    session.build(lambda state: phases.append(state["phase"]))
    assert phases == []
    session.build(lambda state: phases.append(state["phase"]), force=True)
    assert phases[-1] == "ready"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_an_index_that_is_replaced_gives_its_files_back(repository: Path, open_session: Open) -> None:
    def held() -> list[str]:
        links = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                links.append(os.readlink(f"/proc/self/fd/{name}"))
        maps = Path("/proc/self/maps").read_text()
        return [link for link in links if "postings" in link] + re.findall(r"\S*/lookup\b", maps)

    before = held()
    session = open_session(repository, build=True)
    for _ in range(3):
        session.build(force=True)
        assert found(session, "needle_one")
        assert len(held()) == len(before) + 2
    session.close()
    assert held() == before


def test_searches_go_on_while_the_index_is_built(repository: Path, open_session: Open) -> None:
    session = open_session(repository)
    seen: list[list[tuple[str, int]]] = []
    session.build(lambda _: seen.append(found(session, "needle_one")))
    assert len(seen) > 1
    assert all(answer == [("readme.md", 1), ("src/main.c", 3)] for answer in seen)


def test_an_index_whose_files_were_removed_is_built_again(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    directory = Path(session.status()["index"]["dir"])
    shutil.rmtree(directory)
    assert found(session, "needle_one")
    session.build()
    assert Path(session.status()["index"]["dir"]).is_dir()


def test_a_build_that_fails_is_told_and_searches_go_on(
    repository: Path, open_session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path / "file"))  # no directory can be made below it
    session = open_session(repository)
    with pytest.raises(IndexFault, match="cannot write the index"):
        session.build()
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]
    assert "could not be built" in summary_of(session, "needle_one").scan_reason
    assert "could not be built" in session.status()["index"]["fault"]


def test_a_cancelled_build_leaves_no_index(repository: Path, open_session: Open) -> None:
    session = open_session(repository)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        session.build(None, cancel)
    assert session.status()["index"]["state"] == "absent"
    assert found(session, "needle_one") == [("readme.md", 1), ("src/main.c", 3)]


def test_a_build_waits_for_another_and_takes_what_it_made(repository: Path, open_session: Open) -> None:
    first, second = open_session(repository), open_session(repository)
    phases: list[str] = []

    def build_second(_: dict[str, object]) -> None:
        if not threads:
            threads.append(threading.Thread(target=second.build, args=(lambda s: phases.append(s["phase"]),)))
            threads[0].start()
            while "wait" not in phases:
                time.sleep(0.01)

    threads: list[threading.Thread] = []
    first.build(build_second)
    threads[0].join()
    assert set(phases) == {"wait", "ready"}
    assert second.status()["index"]["dir"] == first.status()["index"]["dir"]
    assert summary_of(second, "needle_one").served_by == "index"


def test_a_build_that_waits_can_be_cancelled(repository: Path, open_session: Open) -> None:
    session = open_session(repository)
    cancel = threading.Event()
    with bases.store_of(session.root).lock(), pytest.raises(Cancelled):
        session.build(lambda _: cancel.set(), cancel)


def test_bringing_an_index_up_to_date_waits_for_another_build(
    repository: Path, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "_LOCK_SECONDS", 0.01)
    session = open_session(repository, build=True)
    (repository / "src" / "main.c").write_text("needle_new\n")
    time.sleep(0.05)  # so that it is not racy
    phases: list[str] = []

    def progress(state: dict[str, Any]) -> None:
        phases.append(state["phase"])
        if len(phases) == 3:
            lock.close()

    with contextlib.ExitStack() as lock:
        lock.enter_context(bases.store_of(session.root).lock())
        session.build(progress)
    assert phases == ["wait"] * 3
    assert session.status()["hot"] == 0
    (repository / "src" / "main.c").write_text("needle_newer\n")
    time.sleep(0.05)
    cancel = threading.Event()
    with bases.store_of(session.root).lock(), pytest.raises(Cancelled):
        session.build(lambda _: cancel.set(), cancel)


# Explaining


def test_explain_tells_what_is_read_and_why(repository: Path, open_session: Open) -> None:
    session = open_session(repository, build=True)
    told = session.explain(SearchRequest(("needle_(one|two)",)))
    assert told["served_by"] == "index"
    assert told["candidates"] == 3
    assert told["documents"] == 43
    assert "needle_one" in told["query"]
    assert any(gram["used"] for gram in told["grams"])
    for gram in told["grams"]:
        assert len(gram["weights"]) == gram["end"] - gram["start"] - 1
        assert (gram["left_weight"], gram["right_weight"]) == (gram["weights"][0], gram["weights"][-1])
        assert gram["inner_weight"] < min(gram["left_weight"], gram["right_weight"])
    told = session.explain(SearchRequest((r"\w+",)))
    assert told["candidates"] == 43
    assert "no string" in told["all_reason"]
