"""What is mounted in a tree, from the kernel's table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from indexgrep.tree.mounts import Mounts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def test_the_mount_that_holds_the_root(tmp_path: Path) -> None:
    mounts = Mounts(bytes(tmp_path))
    point, kind = mounts.table[0]
    assert str(tmp_path).startswith(point.decode())
    assert kind
    assert not mounts.changed()
    mounts.close()
    mounts.close()


def test_mounts_below_the_root() -> None:
    mounts = Mounts(b"/")
    assert b"/proc" in [point for point, _ in mounts.table]
    assert mounts.table[0][0] == b"/"
    mounts.close()


@pytest.mark.parametrize(
    ("kinds", "remote"),
    [
        ([b"ext4"], None),
        ([b"overlay", b"tmpfs", b"btrfs"], None),
        ([b"nfs4"], b"nfs4"),
        ([b"ext4", b"cifs"], b"cifs"),
        ([b"fuse.sshfs"], b"fuse.sshfs"),
        ([b"fuse"], b"fuse"),
        ([b"9p"], b"9p"),
        ([b"virtiofs"], b"virtiofs"),
    ],
)
def test_remote_file_systems(kinds: list[bytes], remote: bytes | None) -> None:
    mounts = Mounts(b"/")
    mounts.table = [(b"/", kind) for kind in kinds]
    assert mounts.remote() == remote
    mounts.close()
