"""Where runs of the model take place: a directory of their own, with nothing of the user's in sight."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from indexgrep.index import Workers, worker
from support.indexing import WorkersHere


@contextlib.contextmanager
def arena() -> Iterator[Path]:
    """An empty directory, in memory where that can be had. Builds are done in this process, not synced."""
    memory = "/dev/shm"
    directory = Path(tempfile.mkdtemp(prefix="ig-", dir=memory if os.access(memory, os.W_OK) else None))
    home = directory / "home"
    home.mkdir()
    (home / "gitconfig").write_text("[init]\n\tdefaultBranch = main\n[core]\n\tfsync = none\n")
    environment = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "INDEXGREP_CACHE_DIR": str(directory / "cache"),
        "INDEXGREP_RUNTIME_DIR": str(directory / "run"),
        "INDEXGREP_LOG": str(directory / "log"),
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Test", f"GIT_{role}_EMAIL": "test@localhost"}
    try:
        with contextlib.ExitStack() as patches:
            patches.enter_context(mock.patch.dict(os.environ, environment))
            for place, name, value in (
                (Workers, "job", WorkersHere.job),
                (worker, "TABLE_BITS", 17),  # less memory to fill, as with the next
                (worker, "RUN_POSTINGS", 1 << 17),
                (os, "fsync", _nothing),
            ):
                patches.enter_context(mock.patch.object(place, name, value))
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _nothing(_: int) -> None: ...
