"""Being nobody for a while: root may read everything, and the tests often run as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
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


# Capabilities, as <linux/capability.h>, <linux/prctl.h> and <linux/securebits.h> name them.
_CAPABILITY_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2
_PR_GET_SECUREBITS, _PR_SET_SECUREBITS = 27, 28
_SECBIT_NOROOT = 1


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


@contextlib.contextmanager
def bound_by_permissions() -> Iterator[bool]:
    """Run the block without root's right to ignore permissions; whether that could be had.

    Unlike with ``unprivileged`` the user stays the same, so what belongs to root can be used (imported, run)
    as long as its modes allow that. It counts for this thread, those it starts, and child processes.
    """
    if os.geteuid() != 0:
        yield True
        return
    if sys.platform != "linux":
        yield False
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_CAPABILITY_VERSION_3, 0), (_Sets * 2)()
    bits = libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0)
    if (
        bits < 0
        or libc.capget(ctypes.byref(header), ctypes.byref(sets)) != 0
        # Without this bit a program that root runs has all rights again.
        or libc.prctl(_PR_SET_SECUREBITS, bits | _SECBIT_NOROOT, 0, 0, 0) != 0
    ):
        yield False
        return
    effective = sets[0].effective
    sets[0].effective = effective & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    try:
        yield libc.capset(ctypes.byref(header), ctypes.byref(sets)) == 0
    finally:
        sets[0].effective = effective
        libc.capset(ctypes.byref(header), ctypes.byref(sets))
        libc.prctl(_PR_SET_SECUREBITS, bits, 0, 0, 0)
