"""Reading one file, whole, without ever blocking and without trusting what a path names.

A search reads thousands of small files, and most of its time goes here: one ``open``, one ``fstat``, one
``read`` and one ``close`` a file, through ``os``, not through Python's file objects.
"""

from __future__ import annotations

import errno
import os
import stat

from ..errors import os_error

#: A file is held in memory while it is searched. Beyond this size it is refused with an error that says so,
#: rather than risk the server's life; ripgrep, which streams, would search it.
MAX_SIZE = 2 << 30

# A FIFO opened without O_NONBLOCK waits for a writer. Links are followed here, as ripgrep's ``File::open``
# does: whether a link is searched at all is for the walk to decide.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)

#: At most so many bytes a ``read``: the kernel gives no more than 2 GiB less a page in one call.
_READ_LIMIT = 1 << 30


class ReadFailure(Exception):
    """A file that could not be read; ``str()`` is one line in ripgrep's words, without the path."""


def read_file(path: bytes, dir_fd: int | None = None) -> bytes | None:
    """The bytes of the regular file ``path`` (relative to ``dir_fd``, when given), as they are on disk.

    ``None`` for what is not a regular file (FIFO, socket, device): a search skips those. A file that grows
    or shrinks meanwhile gives what one pass over it meets. Raises ``ReadFailure``.
    """
    try:
        descriptor = os.open(path, _FLAGS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket, or a device without a driver
            return None
        raise ReadFailure(os_error(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise ReadFailure(os_error(OSError(errno.EISDIR, "")))
            return None
        if status.st_size > MAX_SIZE:
            raise ReadFailure(f"file of {status.st_size} bytes is too large to search (limit {MAX_SIZE})")
        # One byte more than the file has, so that a single read also tells that it did not grow.
        wanted = min(status.st_size + 1, _READ_LIMIT)
        data = os.read(descriptor, wanted)
        if len(data) < wanted and len(data) == status.st_size:
            return data
        parts = [data]
        total = len(data)
        while data:
            data = os.read(descriptor, min(max(status.st_size - total, 1 << 16), _READ_LIMIT))
            parts.append(data)
            total += len(data)
            if total > MAX_SIZE:
                raise ReadFailure(f"file is too large to search (limit {MAX_SIZE} bytes)")
        return b"".join(parts)
    except OSError as error:
        raise ReadFailure(os_error(error)) from None
    finally:
        os.close(descriptor)
