"""The Linux source from Debian's package, unpacked and committed once, kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from indexgrep.runtime import root_key

PACKAGE = "linux-source-6.1"
NAME = "linux-6.1"


def cache() -> Path:
    """Where the corpus is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "indexgrep-bench")


def changing_place(tree: Path) -> Path:
    """Where the copy of ``tree`` that is changed is kept (``changing``)."""
    name = f"{tree.name}-{root_key(tree)[:8]}" if tree != cache() / NAME else NAME
    return cache() / f"{name}-changing"


def linux_source() -> Path:
    """The committed tree, fetched and made on the first call (a few minutes).

    Raises ``SystemExit`` with what to do where Debian's packages cannot be had.
    """
    tree = cache() / NAME
    if (tree / ".git").is_dir():
        return tree
    work = cache() / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    archive = _download(work)
    print(f"unpacking {archive.name}", file=sys.stderr)
    with tarfile.open(archive) as tar:
        tar.extractall(work, filter="tar")
    source = next(path for path in work.iterdir() if path.is_dir() and (path / "MAINTAINERS").exists())
    _track_everything(source)
    print("committing the source", file=sys.stderr)
    _git(source, "init", "--quiet")
    _git(source, "config", "gc.auto", "0")
    _git(source, "add", "--all")
    identity = ["-c", "user.name=indexgrep", "-c", "user.email=indexgrep@localhost"]
    _git(source, *identity, "commit", "--quiet", "--message", PACKAGE)
    source.rename(tree)
    shutil.rmtree(work)
    return tree


def _download(work: Path) -> Path:
    """The source archive inside Debian's package."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit(
            "make bench fetches its corpus from Debian's packages, and this machine has no apt-get.\n"
            "Name a repository instead: make bench BENCH_REPO=/path/to/repository"
        )
    print(f"fetching Debian's package {PACKAGE}", file=sys.stderr)
    run = subprocess.run(["apt-get", "download", "--quiet", PACKAGE], cwd=work, check=False)
    packages = list(work.glob("*.deb"))
    if run.returncode != 0 or not packages:
        raise SystemExit(f"cannot fetch {PACKAGE}: run `apt-get update`, or name a repository: BENCH_REPO=")
    subprocess.run(["dpkg-deb", "--extract", packages[0], work / "package"], check=True)
    return next((work / "package" / "usr" / "src").glob("linux-source-*.tar.*"))


def _track_everything(source: Path) -> None:
    """Debian ends the kernel's ignore file with a rule that ignores the whole tree: drop it."""
    rules = source / ".gitignore"
    lines = rules.read_text().splitlines(keepends=True)
    rules.write_text("".join(line for line in lines if line.strip() != "/*"))


def _git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", directory, *arguments], check=True)
