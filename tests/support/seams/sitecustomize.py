"""On PYTHONPATH of a server process, this puts what no test can make happen for real into its surroundings.

``TEST_WATCHES``: the limit of inotify watches. ``TEST_REMOTE``: the type of network file system that the
tree is said to lie on. ``TEST_CLOCK_S``: seconds that the clock is ahead of the kernel's time stamps
(negative: the clock was set back after the files were written).
"""

import errno
import os
import time
import weakref

_watches = os.environ.get("TEST_WATCHES")
if _watches:
    import inotify_simple

    _add_watch = inotify_simple.INotify.add_watch
    _held = weakref.WeakKeyDictionary()

    def _limited(self, path, mask):
        """An instance that is closed or dropped gives its watches back, as the kernel does."""
        if sum(held for notify, held in _held.items() if not notify.closed) >= int(_watches):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _held[self] = _held.get(self, 0) + 1
        return _add_watch(self, path, mask)

    inotify_simple.INotify.add_watch = _limited

_remote = os.environ.get("TEST_REMOTE")
if _remote:
    from indexgrep.tree import mounts

    mounts.Mounts.remote = lambda self: os.fsencode(_remote)

_ahead_s = os.environ.get("TEST_CLOCK_S")
if _ahead_s:
    _time, _time_ns, _s = time.time, time.time_ns, int(_ahead_s)
    time.time = lambda: _time() + _s
    time.time_ns = lambda: _time_ns() + _s * 1_000_000_000
