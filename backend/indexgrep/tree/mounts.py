"""What is mounted in a tree (Linux): inotify does not see changes made by other machines or hosts."""

from __future__ import annotations

import os
import re
import select
from contextlib import suppress

#: File systems whose content may change with no event here.
_REMOTE = re.compile(
    rb"nfs\d?|cifs|smb\w*|9p|afs|ceph|fuse(\..*)?|fuseblk|virtiofs|vboxsf|prl_fs|vmhgfs|lustre|gpfs|ocfs2|gfs2|"
    rb"glusterfs|beegfs|orangefs|coda|autofs"
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mounts:
    """The mounts at and below a root, and whether they changed.

    Raises ``OSError`` where the kernel does not tell (not Linux).
    """

    def __init__(self, root: bytes) -> None:
        self.root = root
        self._file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLPRI | select.POLLERR)
        self.table = self._read()

    def remote(self) -> bytes | None:
        """The type of a file system in the tree that needs sweeping, if there is one."""
        for _, kind in self.table:
            if _REMOTE.fullmatch(kind):
                return kind
        return None

    def changed(self) -> bool:
        """Whether the mounts in the tree changed since the last call (or the start). About 2 µs."""
        if not self._poll.poll(0):
            return False
        table, self.table = self.table, self._read()
        return table != self.table

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)

    def _read(self) -> list[tuple[bytes, bytes]]:
        """``(mount point, type)`` of the mount that the root is on, and of those below it."""
        data = bytearray()
        offset = 0
        while chunk := os.pread(self._file, 1 << 16, offset):
            data += chunk
            offset += len(chunk)
        below: list[tuple[bytes, bytes]] = []
        holder = (b"", b"")
        lead = self.root.rstrip(b"/") + b"/"
        for line in bytes(data).splitlines():
            # id parent major:minor root mount-point options [tag…] - type source options
            fields, _, rest = line.partition(b" - ")
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), fields.split(b" ")[4])
            kind = rest.split(b" ", 1)[0]
            if lead.startswith(point.rstrip(b"/") + b"/"):
                if len(point) >= len(holder[0]):  # a later mount on the same point covers the earlier
                    holder = (point, kind)
            elif point.startswith(lead):
                below.append((point, kind))
        return [holder, *below]
