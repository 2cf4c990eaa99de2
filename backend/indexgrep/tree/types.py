"""File types by name, as ripgrep's ``-t`` and ``-T``: named lists of globs over a file's name.

The names and globs are those of ripgrep 15.2 (``type_table``, made by ``tools/make_types.py``).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..errors import UsageError
from .glob import parse_glob
from .rules import Rule, RuleSet
from .type_table import TYPES


def type_rules(types: Sequence[str], types_not: Sequence[str]) -> RuleSet | None:
    """The rules of ``-t`` (each of ``types``), then ``-T``; ``None`` when neither is given.

    A name's last matching rule decides; where any type is asked for, a name without a match is out. The name
    ``all`` stands for every type. Raises ``UsageError`` that names an unknown type.
    """
    if not types and not types_not:
        return None
    rules: list[Rule] = []
    for include, names in ((True, types), (False, types_not)):
        for name in names:
            rules += [Rule(parse_glob(f"**/{glob}"), include) for glob in _globs(name)]
    return RuleSet(rules)


def _globs(name: str) -> Sequence[str]:
    if name == "all":
        return sorted({glob for globs in TYPES.values() for glob in globs})
    globs = TYPES.get(name)
    if globs is None:
        close = difflib.get_close_matches(name, TYPES, n=3)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        raise UsageError(f"unrecognized file type: {name}", f"{hint}See --type-list for all types.")
    return globs
