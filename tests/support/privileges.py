"""Being nobody for a while: root may read everything, and the tests often run as root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_NOBODY = 65534


@contextlib.contextmanager
def unprivileged(directory: Path) -> Iterator[None]:
    """Run the block as somebody without rights, when it is run as root; ``directory`` can be reached then.

    The rights are those of the whole process, so no other thread should be at work.
    """
    if os.geteuid() != 0:
        yield
        return
    for above in (directory, *directory.parents):
        mode = above.stat().st_mode
        if not mode & 0o001:
            above.chmod(mode | 0o055)
    os.setresuid(_NOBODY, _NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
