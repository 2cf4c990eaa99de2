"""Where indexgrep keeps things on this machine, and the log that details go to.

========== ============================ =========================================================
what       environment override         default
========== ============================ =========================================================
cache      ``INDEXGREP_CACHE_DIR``      the user's cache directory (``XDG_CACHE_HOME``), ``indexgrep``
runtime    ``INDEXGREP_RUNTIME_DIR``    ``XDG_RUNTIME_DIR``, ``indexgrep``; where that is not set,
                                        ``indexgrep-UID`` in the directory of temporary files
log        ``INDEXGREP_LOG``            the user's state directory (``XDG_STATE_HOME``), ``indexgrep/log``
========== ============================ =========================================================

All of it is private (0700/0600): an index reveals the code, and a peer on the socket may do anything.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import IndexGrepError

# What a client does not need at every start is imported where it is used.
if TYPE_CHECKING:
    import logging

#: A Unix socket's path may have 107 bytes on Linux and 103 on macOS.
_SOCKET_PATH_LIMIT = 100


def cache_dir() -> Path:
    """The directory that holds every index; not created here."""
    override = os.environ.get("INDEXGREP_CACHE_DIR")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_cache_dir("indexgrep", appauthor=False))


def runtime_dir() -> Path:
    """The private directory of sockets and server locks, created with mode 0700.

    Raises ``IndexGrepError`` when the directory exists but belongs to somebody else or others may enter it:
    the socket's privacy is a security boundary.
    """
    override = os.environ.get("INDEXGREP_RUNTIME_DIR")
    if override:
        path = Path(override)
    elif os.environ.get("XDG_RUNTIME_DIR"):
        path = Path(os.environ["XDG_RUNTIME_DIR"], "indexgrep")
    else:
        import tempfile

        path = Path(tempfile.gettempdir(), f"indexgrep-{os.getuid()}")
    try:
        private_dir(path)
        status = os.lstat(path)
    except OSError as error:
        raise IndexGrepError(
            f"cannot make the runtime directory {path}: {error.strerror}",
            "Set INDEXGREP_RUNTIME_DIR to a directory of your own.",
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise IndexGrepError(
            f"the runtime directory {path} is not private to you",
            f"Remove it, or `chmod 700 {path}`, or set INDEXGREP_RUNTIME_DIR to a directory of your own.",
        )
    return path


def private_dir(path: Path) -> None:
    """Make ``path`` and its missing parents with mode 0700. Raises ``OSError``."""
    if not path.parent.exists():
        private_dir(path.parent)  # ``parents=True`` would make them with the mode that the umask leaves
    path.mkdir(mode=0o700, exist_ok=True)


def root_key(root: str | os.PathLike[str]) -> str:
    """A short name for a worktree root, the same for every spelling that resolves to it."""
    import hashlib

    real = os.fsencode(os.path.realpath(root))
    return hashlib.sha256(real).hexdigest()[:16]


def socket_path(root: str | os.PathLike[str]) -> Path:
    """The socket of the server for ``root``. Raises ``IndexGrepError`` where the path would be too long."""
    path = runtime_dir() / f"{root_key(root)}.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        raise IndexGrepError(
            f"the socket path {path} is too long for this system",
            "Set INDEXGREP_RUNTIME_DIR to a shorter directory.",
        )
    return path


def log_path() -> Path:
    """The file that details of faults go to; ``indexgrep status`` and ``:checkhealth`` name it."""
    override = os.environ.get("INDEXGREP_LOG")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_state_dir("indexgrep", appauthor=False), "log")


def setup_log(process: str) -> logging.Logger:
    """The ``indexgrep`` logger, writing to ``log_path()`` (1 MB, one old file kept).

    ``process`` names the writer in each line. Where the log cannot be written it is silently not written:
    a search must not fail for it. Contents of files never go to the log.
    """
    import logging
    import logging.handlers

    logger = logging.getLogger("indexgrep")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    try:
        path = log_path()
        private_dir(path.parent)
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1, delay=True)
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.close(descriptor)
    except OSError:
        logger.addHandler(logging.NullHandler())
        return logger
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s {process}[%(process)d] %(levelname)s %(name)s: %(message)s")
    )
    logger.addHandler(handler)
    return logger
