#!/usr/bin/env python3
"""Write ``backend/indexgrep/tree/type_table.py`` and ``lua/indexgrep/types.lua`` from ``rg --type-list``.

Run it with the ripgrep whose file types are wanted (15.2) on PATH, or give its path as the argument.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
TARGET = REPOSITORY / "backend" / "indexgrep" / "tree" / "type_table.py"
LUA_TARGET = REPOSITORY / "lua" / "indexgrep" / "types.lua"


def split_globs(text: str) -> list[str]:
    """The globs of one line; they are separated by ``", "``, and a glob may hold a comma in braces."""
    return text.split(", ")


def render(listing: str) -> str:
    lines = [
        '"""ripgrep\'s file types and their globs. Made by ``tools/make_types.py``; do not edit."""',
        "",
        "TYPES: dict[str, tuple[str, ...]] = {",
    ]
    for line in listing.splitlines():
        name, _, globs = line.partition(": ")
        items = "".join(f"{_quoted(glob)}, " for glob in split_globs(globs)).rstrip()
        lines.append(f'    "{name}": ({items}),')
    return "\n".join([*lines, "}", ""])


def render_lua(listing: str) -> str:
    """The names only, for completion."""
    names = [line.partition(": ")[0] for line in listing.splitlines()]
    lines = [
        "--- ripgrep's file types, for completion. Made by `tools/make_types.py`; do not edit.",
        "",
        "return {",
    ]
    return "\n".join([*lines, *(f"  {_quoted(name)}," for name in names), "}", ""])


def _quoted(text: str) -> str:
    assert not set('"\\') & set(text)
    return f'"{text}"'


def main() -> None:
    rg = sys.argv[1] if len(sys.argv) > 1 else "rg"
    listing = subprocess.run([rg, "--type-list"], capture_output=True, text=True, check=True).stdout
    TARGET.write_text(render(listing), encoding="utf-8")
    LUA_TARGET.write_text(render_lua(listing), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(TARGET)], check=False)


if __name__ == "__main__":
    main()
