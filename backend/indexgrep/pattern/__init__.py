"""Patterns: the Rust ``regex`` dialect from text to everything the engine needs to know.

>>> from indexgrep.pattern import PatternOptions, compile_patterns
>>> compiled = compile_patterns([r"TaskID +int"], PatternOptions())
>>> compiled.rust
'TaskID +int'
>>> print(compiled.query)
AND
  "taskid "
  " int"

=========== =========================================================================
ast         the syntax tree
parser      text to tree, with positioned errors
unicode     Unicode facts, asked of the engine
classes     character classes
printer     tree to Rust syntax for whole buffers; line mode
python      tree to the ``regex`` module's syntax
query       trees of string conditions
literals    tree to string conditions
compiler    options, joining of patterns, smart case, ``-w``, ``-x``
=========== =========================================================================
"""

from __future__ import annotations

from .compiler import CompiledPattern, PatternOptions, compile_patterns
from .query import All, And, Literal, Nothing, Or, Query

__all__ = [
    "All",
    "And",
    "CompiledPattern",
    "Literal",
    "Nothing",
    "Or",
    "PatternOptions",
    "Query",
    "compile_patterns",
]
