"""Matching many files: batches of answers, in the order of the paths, while the search goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence

from ..request import FileResult
from .matcher import Matcher

#: Files in the first batch, which should be early, and in the later ones.
FIRST_BATCH = 16
BATCH = 128


def search_files(
    matcher: Matcher,
    paths: Sequence[bytes],
    *,
    root: bytes,
    cancel: threading.Event | None = None,
    deadline: float | None = None,
    explicit: Collection[bytes] = (),
) -> Iterator[list[FileResult]]:
    """The answers of ``paths`` (relative to ``root``), in their order, in batches that may be empty.

    A batch comes for every so many files searched, with or without answers in it, so that the caller can
    look up. Ends early when ``cancel`` is set or the clock (``time.monotonic``, seconds) passes ``deadline``;
    the caller can tell by looking at the same. ``explicit`` are the paths that the user named.
    """
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        start, size = 0, FIRST_BATCH
        while start < len(paths):
            batch = []
            for path in paths[start : start + size]:
                if cancel is not None and cancel.is_set():
                    return
                if deadline is not None and time.monotonic() > deadline:
                    return
                answer = matcher.search_file(
                    path, os.fsdecode(path), dir_fd=directory, explicit=path in explicit
                )
                if answer is not None:
                    batch.append(answer)
            yield batch
            start += size
            size = BATCH
    finally:
        os.close(directory)
