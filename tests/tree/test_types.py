"""File types are ripgrep's."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from indexgrep.errors import UsageError
from indexgrep.tree.type_table import TYPES
from indexgrep.tree.types import type_rules


def test_table_is_that_of_ripgrep(rg: str) -> None:
    """``tools/make_types.py`` made it from this version."""
    listing = subprocess.run([rg, "--type-list"], capture_output=True, text=True, check=True).stdout
    expected = {}
    for line in listing.splitlines():
        name, globs = line.split(": ", 1)
        expected[name] = tuple(globs.split(", "))
    assert expected == TYPES
    assert len(TYPES) > 200


def test_the_tool_writes_the_table(rg: str) -> None:
    path = Path(__file__).parents[2] / "tools" / "make_types.py"
    spec = importlib.util.spec_from_file_location("make_types", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    listing = subprocess.run([rg, "--type-list"], capture_output=True, text=True, check=True).stdout
    space: dict[str, object] = {}
    exec(tool.render(listing), space)
    assert space["TYPES"] == TYPES


def test_no_type() -> None:
    assert type_rules((), ()) is None


def test_unknown_type() -> None:
    with pytest.raises(UsageError, match="unrecognized file type: pyton") as caught:
        type_rules(("pyton",), ())
    assert "py" in caught.value.hint


def test_the_last_type_counts() -> None:
    rules = type_rules(("py",), ("py",))
    assert rules is not None
    assert rules.decide(b"", [b"a.py", b"b"], b"a.py\nb", directories=False) == {b"a.py": False}
