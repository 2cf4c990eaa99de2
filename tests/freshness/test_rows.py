"""The rows of the table of freshness, a test or more each, through the server and the command line.

Every test runs under a server that watches the tree and under one that sweeps it, on files that the index
rules out until they change. Rows about git are in ``test_git`` and ``test_states``, those about the server's
surroundings in ``test_surroundings``. What the monitor makes of each kind of change is in
``tree/test_monitor``, what an open session answers then in ``differential/test_changes``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from freshness.conftest import Place
from support.editor import Editor, write_init


def write_keeping(file: Path, data: bytes, times: tuple[int, int]) -> None:
    """Write in place, with the time of modification that is given (and the access time)."""
    with open(file, "r+b") as opened:
        opened.write(data)
        opened.truncate()
    os.utime(file, ns=times)


# An edit that keeps size and mtime


def test_edit_that_keeps_size_and_mtime(place: Place) -> None:
    file = place.path / "code.c"
    before = file.stat()
    old, new = place.word("code.c"), place.word("code.c").upper()
    write_keeping(file, file.read_bytes().replace(old.encode(), new.encode()), _times(before))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    place.expect({old: [], new: ["code.c"]})


def test_edit_that_keeps_size_and_mtime_by_another_file_in_its_place(place: Place) -> None:
    """Also the inode number may stay: the file system gives it to the next file."""
    file = place.path / "code.c"
    before = file.stat()
    old, new = place.word("code.c"), place.word("code.c").upper()
    data = file.read_bytes().replace(old.encode(), new.encode())
    file.unlink()
    file.write_bytes(data)
    os.utime(file, ns=_times(before))
    place.expect({old: [], new: ["code.c"]})
    other = place.write("copy.tmp", data.replace(new.encode(), old.encode()))
    os.utime(other, ns=_times(before))
    other.rename(file)
    place.expect({old: ["code.c"], new: []})


def _times(status: os.stat_result) -> tuple[int, int]:
    return status.st_atime_ns, status.st_mtime_ns


# Racy edits within the time stamp's grain


def _racy_words(place: Place, count: int) -> Iterator[tuple[bytes, str]]:
    """Texts of one length, and the one word that each has."""
    for number in range(count):
        word = f"{place.name}_racy_{number:04}"
        yield f"int {word} = 0;\n".encode(), word


def test_racy_edits_within_the_grain(place: Place) -> None:
    """Far faster than the kernel's clock ticks, size and mtime always the same."""
    file = place.write("racy.c", b"int start_of_the_file = 0;\n"[:24])
    times = _times(file.stat())
    last = ""
    for data, word in _racy_words(place, 60):
        write_keeping(file, data, times)
        assert place.found(word) == ["racy.c"]
        if last:
            assert place.found(last) == []
        last = word
    place.expect({last: ["racy.c"], f"{place.name}_racy_0000": []})


def test_racy_edits_while_the_index_is_made(place: Place) -> None:
    """What the builder has read of a file may be gone already, with no trace in the file's status."""
    file = place.path / "code.c"
    times = _times(file.stat())
    place.tree.client.index(force=True, wait=False)
    last = ""
    for data, word in _racy_words(place, 10_000):
        write_keeping(file, data, times)
        assert place.found(word) == ["code.c"]
        if last:
            assert place.found(last) == []
        last = word
        if place.tree.status()["index"]["state"] == "ready":
            break
    place.expect({last: ["code.c"], f"{place.name}_racy_0000": [], place.word("code.c"): []})


def test_racy_edits_of_many_files(place: Place) -> None:
    """Enough of them for the background to make something of them while they change again and again."""
    files = [place.write(f"many/{number}.c", b"int start_of_the_file = 0;\n"[:24]) for number in range(120)]
    times = _times(files[0].stat())
    now: dict[int, str] = {}
    for number, (data, word) in enumerate(_racy_words(place, 180)):
        which = number * 7 % len(files)
        write_keeping(files[which], data, times)
        assert place.found(word) == [f"many/{which}.c"]
        if which in now:
            assert place.found(now[which]) == []
        now[which] = word
    place.expect({word: [f"many/{which}.c"] for which, word in list(now.items())[:5]})
    place.expect({f"{place.name}_racy_": [f"many/{which}.c" for which in now]})


# Rename, also of a directory, also case-only


def test_rename_of_a_file(place: Place) -> None:
    word = place.word("code.c")
    (place.path / "code.c").rename(place.path / "renamed.c")
    place.expect({word: ["renamed.c"]})
    (place.path / "renamed.c").rename(place.path / "sub" / "deep" / "code.c")
    place.expect({word: ["sub/deep/code.c"]})
    (place.path / "sub" / "deep" / "code.c").rename(place.path / "notes.txt")
    place.expect({word: ["notes.txt"], place.word("notes.txt"): []})
    (place.path / "notes.txt").rename(place.path / "code.c")
    place.expect({word: ["code.c"]})


def test_rename_of_two_files_into_each_others_place(place: Place) -> None:
    """With equal sizes and times, only the inode numbers and the times of change tell."""
    first, second = place.path / "code.c", place.path / "twin.c"
    second.write_bytes(first.read_bytes().replace(b"int", b"INT"))
    os.utime(second, ns=_times(first.stat()))
    place.expect({f"INT {place.word('code.c')}": ["twin.c"]})
    spare = place.path / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    place.expect({f"INT {place.word('code.c')}": ["code.c"], f"int {place.word('code.c')}": ["twin.c"]})


def test_rename_of_a_directory(place: Place) -> None:
    (place.path / "sub").rename(place.path / "moved")
    place.expect(
        {
            place.word("sub/inner.c"): ["moved/inner.c"],
            place.word("sub/deep/leaf.py"): ["moved/deep/leaf.py"],
            place.word("sub/deep/more/end.h"): ["moved/deep/more/end.h"],
        }
    )
    # What happens below its new name is seen, and what is made under the old one is another directory.
    place.write("moved/deep/leaf.py", f"{place.name}_changed_below\n")
    place.write("sub/inner.c", f"{place.name}_made_again\n")
    place.expect(
        {
            f"{place.name}_changed_below": ["moved/deep/leaf.py"],
            f"{place.name}_made_again": ["sub/inner.c"],
            place.word("sub/deep/leaf.py"): [],
            place.word("sub/inner.c"): ["moved/inner.c"],
        }
    )


def test_rename_of_case_only(place: Place) -> None:
    (place.path / "code.c").rename(place.path / "CODE.c")
    (place.path / "sub").rename(place.path / "Sub")
    place.expect({place.word("code.c"): ["CODE.c"], place.word("sub/inner.c"): ["Sub/inner.c"]})
    (place.path / "CODE.c").rename(place.path / "code.c")
    (place.path / "Sub").rename(place.path / "sub")
    place.expect({place.word("code.c"): ["code.c"], place.word("sub/inner.c"): ["sub/inner.c"]})


# Delete; delete and recreate; file replaced by a directory


def test_delete(place: Place) -> None:
    (place.path / "code.c").unlink()
    shutil.rmtree(place.path / "sub" / "deep")
    place.expect(
        {
            place.word("code.c"): [],
            place.word("sub/deep/leaf.py"): [],
            place.word("sub/deep/more/end.h"): [],
            place.word("sub/inner.c"): ["sub/inner.c"],
        }
    )


def test_delete_and_recreate(place: Place) -> None:
    file = place.path / "code.c"
    data, word = file.read_bytes(), place.word("code.c")
    file.unlink()
    place.expect({word: []})
    file.write_bytes(data)
    place.expect({word: ["code.c"]})
    file.unlink()
    file.write_bytes(f"int {place.name}_another;\n".encode())
    place.expect({word: [], f"{place.name}_another": ["code.c"]})
    shutil.rmtree(place.path / "sub")
    place.write("sub/inner.c", data)
    place.expect({word: ["sub/inner.c"], place.word("sub/inner.c"): [], place.word("sub/deep/leaf.py"): []})


def test_file_replaced_by_directory_and_back(place: Place) -> None:
    file = place.path / "code.c"
    data, word = file.read_bytes(), place.word("code.c")
    file.unlink()
    place.write("code.c/inside.c", f"{place.name}_inside\n")
    place.expect({word: [], f"{place.name}_inside": ["code.c/inside.c"]})
    shutil.rmtree(file)
    file.write_bytes(data)
    place.expect({word: ["code.c"], f"{place.name}_inside": []})


def test_directory_replaced_by_file_and_back(place: Place) -> None:
    (place.path / "sub").rename(place.path / "kept")
    place.write("sub", f"{place.name}_a_file_now\n")
    place.expect({f"{place.name}_a_file_now": ["sub"], place.word("sub/inner.c"): ["kept/inner.c"]})
    (place.path / "sub").unlink()
    (place.path / "kept").rename(place.path / "sub")
    place.expect({f"{place.name}_a_file_now": [], place.word("sub/inner.c"): ["sub/inner.c"]})


def test_file_replaced_by_link_and_back(place: Place) -> None:
    """Links are not followed: what is behind one is there once, under its own name."""
    word = place.word("code.c")
    (place.path / "code.c").rename(place.path / "real.c")
    (place.path / "code.c").symlink_to("real.c")
    (place.path / "sub").rename(place.path / "real")
    (place.path / "sub").symlink_to("real")
    place.expect({word: ["real.c"], place.word("sub/inner.c"): ["real/inner.c"]})
    for name in ("code.c", "sub"):
        (place.path / name).unlink()
    (place.path / "real.c").rename(place.path / "code.c")
    (place.path / "real").rename(place.path / "sub")
    place.expect({word: ["code.c"], place.word("sub/inner.c"): ["sub/inner.c"]})


# An editor writes by rename, with swap and backup files

#: ``backup``, ``writebackup``, ``backupcopy``: all that changes how Neovim writes a file.
_WAYS = [
    (backup, writebackup, copy)
    for backup, writebackup in ((False, True), (True, True), (True, False), (False, False))
    for copy in ("no", "yes", "auto")
]


def test_editor_writes_by_rename_with_swap_and_backup_files(place: Place, nvim: str, tmp_path: Path) -> None:
    init = write_init(tmp_path / "init.lua", "vim.o.directory = '.'\nvim.o.backupdir = '.'\n")
    first = place.word("code.c")
    with Editor(nvim, init, cwd=place.path) as editor:
        # The test's editor is started with -n, which stands for updatecount=0.
        editor.lua("vim.o.updatecount = 1; vim.o.swapfile = true; vim.o.backupskip = ''")
        editor.command("edit code.c")
        saved = first
        place.expect({first: ["code.c"]})
        overlay = place.tree.summary.overlay
        for number, (backup, writebackup, copy) in enumerate(_WAYS):
            editor.lua("vim.o.backup, vim.o.writebackup, vim.o.backupcopy = ...", backup, writebackup, copy)
            (place.path / "code.c~").unlink(missing_ok=True)
            new = f"{place.name}_saved_{number:02}"
            editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { ... })", new)
            editor.command("preserve")
            assert new.encode() in (place.path / ".code.c.swp").read_bytes()
            place.expect({saved: ["code.c"], new: []})  # nothing is saved yet
            editor.command("write")
            place.expect({saved: ["code.c~"] if backup else [], new: ["code.c"]})
            saved = new
            # One change: the file, and the backup where one is kept.
            assert place.tree.summary.overlay == overlay + 1 + backup
        editor.command("bwipeout!")
    assert not (place.path / ".code.c.swp").exists()
    place.expect({first: [], saved: ["code.c"]})


def test_editor_writes_through_links(place: Place, nvim: str, tmp_path: Path) -> None:
    """A hard link is kept or broken, a symbolic link written through or replaced, as ``backupcopy`` says."""
    init = write_init(tmp_path / "init.lua", "vim.o.writebackup = true\n")
    with Editor(nvim, init, cwd=place.path) as editor:
        for number, copy in enumerate(("auto", "no", "yes", "auto,breakhardlink", "auto,breaksymlink")):
            hard, link = place.path / f"hard{number}.c", place.path / f"link{number}.c"
            target = place.write(f"target{number}.c", f"{place.name}_target_{number}\n")
            os.link(target, hard)
            link.symlink_to(target.name)
            place.expect({f"{place.name}_target_{number}": [target.name, hard.name]})
            for opened in (hard, link):
                editor.lua("vim.o.backupcopy = ...", copy)
                editor.command(f"edit! {opened.name}")
                new = f"{place.name}_through_{opened.stem}"
                editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { ... })", new)
                editor.command("write!")
                assert new in (place.path / opened.name).read_text()
                assert place.tree.check(new)
                place.tree.check(f"{place.name}_target_{number}")
            place.tree.check(f"{place.name}_through_")


def _emacs(file: Path, text: str, during: Callable[[], None]) -> None:
    """A lock that is a dangling link, an auto-save file that is not hidden, a backup by rename."""
    lock, autosave = file.with_name(f".#{file.name}"), file.with_name(f"#{file.name}#")
    lock.symlink_to("user@host.1234:5678")
    autosave.write_text(text)
    during()
    file.rename(file.with_name(f"{file.name}~"))
    file.write_text(text)
    autosave.unlink()
    lock.unlink()


def _atomic(file: Path, text: str, during: Callable[[], None]) -> None:
    """A temporary file beside it, synced and renamed over it, as many programs write."""
    temporary = file.with_name(f"{file.name}.tmp.12345")
    with open(temporary, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    during()
    temporary.replace(file)


@pytest.mark.parametrize(
    ("write", "meanwhile", "afterwards"),
    [(_emacs, ["#code.c#"], ["code.c~"]), (_atomic, ["code.c.tmp.12345"], [])],
    ids=["emacs", "atomic"],
)
def test_editors_of_other_kinds(
    place: Place,
    write: Callable[[Path, str, Callable[[], None]], None],
    meanwhile: list[str],
    afterwards: list[str],
) -> None:
    old, new = place.word("code.c"), f"{place.name}_new"

    def during() -> None:
        place.expect({old: ["code.c"], new: meanwhile})

    write(place.path / "code.c", f"{new}\n", during)
    place.expect({old: afterwards, new: ["code.c"]})


# A new ignore rule, a changed .gitignore


def test_new_ignore_rule(place: Place) -> None:
    words = {place.word(file): [file] for file in ("code.c", "sub/inner.c", "sub/deep/leaf.py")}
    for name in (".gitignore", ".ignore", ".rgignore"):
        rules = place.write(name, "*.c\n/sub/deep/\n")
        place.expect({word: [] for word in words})
        place.expect({place.word("notes.txt"): ["notes.txt"]})
        rules.unlink()
        place.expect(words)


def test_changed_gitignore(place: Place) -> None:
    """Rules that come, go and are negated, with a file's size and times kept, from other directories."""
    code, inner = place.word("code.c"), place.word("sub/inner.c")
    rules = place.write(".gitignore", "code.c\n")
    times = _times(rules.stat())
    place.expect({code: [], inner: ["sub/inner.c"]})
    write_keeping(rules, b"inner.*"[:6] + b"\n", times)
    place.expect({code: ["code.c"], inner: ["sub/inner.c"]})
    write_keeping(rules, b"*.c\n\n\n\n", times)
    place.expect({code: [], inner: []})
    place.write("sub/.gitignore", "!inner.c\n")
    place.expect({code: [], inner: ["sub/inner.c"]})
    rules.rename(place.path / "sub" / ".gitignore")
    place.expect({code: ["code.c"], inner: []})
    place.write(".rgignore", "!sub/inner.c\n")
    place.expect({code: ["code.c"], inner: ["sub/inner.c"]})
    # A file that is made, and one that changes, while it is ignored.
    place.write("sub/new.c", f"{place.name}_made_ignored\n")
    place.write("sub/deep/leaf.py", f"{place.name}_changed\n")
    place.expect({f"{place.name}_made_ignored": []})
    for name in ("sub/.gitignore", ".rgignore"):
        (place.path / name).unlink()
    place.expect(
        {
            f"{place.name}_made_ignored": ["sub/new.c"],
            f"{place.name}_changed": ["sub/deep/leaf.py"],
            inner: ["sub/inner.c"],
        }
    )


def test_info_exclude(place: Place) -> None:
    exclude = place.tree.root / ".git" / "info" / "exclude"
    before = exclude.read_text()
    try:
        exclude.write_text(f"/{place.name}/sub/\n")
        place.expect({place.word("code.c"): ["code.c"], place.word("sub/inner.c"): []})
    finally:
        exclude.write_text(before)
    place.expect({place.word("sub/inner.c"): ["sub/inner.c"]})


def test_global_excludes(place: Place) -> None:
    """The file that git's configuration names, and the one that it means unless told otherwise."""
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    default = Path(os.environ["XDG_CONFIG_HOME"]) / "git" / "ignore"
    before = config.read_text()
    excludes = config.with_name("excludes")
    code, inner = place.word("code.c"), place.word("sub/inner.c")
    default.parent.mkdir(parents=True, exist_ok=True)
    try:
        default.write_text("code.c\n")
        place.expect({code: [], inner: ["sub/inner.c"]})
        excludes.write_text("inner.c\n")
        config.write_text(f"{before}[core]\n\texcludesFile = {excludes}\n")
        place.expect({code: ["code.c"], inner: []})
        excludes.write_text("*.py\n")
        place.expect({code: ["code.c"], inner: ["sub/inner.c"], place.word("sub/deep/leaf.py"): []})
        excludes.unlink()
        place.expect({place.word("sub/deep/leaf.py"): ["sub/deep/leaf.py"]})
    finally:
        config.write_text(before)
        default.unlink(missing_ok=True)
        excludes.unlink(missing_ok=True)
    place.expect({code: ["code.c"], inner: ["sub/inner.c"]})


# Clock set back


def test_time_stamps_in_the_future_and_in_the_far_past(place: Place) -> None:
    """A file's own times say nothing: they are set as anybody likes, and the clock may be set back."""
    file = place.path / "code.c"
    last = place.word("code.c")
    hour = 3_600_000_000_000
    for number, stamp in enumerate((time.time_ns() + hour, time.time_ns() + 876_000 * hour, 0, 1, -hour)):
        for again in range(3):
            word = f"{place.name}_at_{number}_{again}"
            file.write_text(f"{word}\n")
            os.utime(file, ns=(stamp, stamp))
            place.expect({last: [], word: ["code.c"]})
            last = word
