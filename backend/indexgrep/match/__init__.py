"""Matching: reads candidate files and reports their matching lines, exactly as ripgrep does.

========= =========================================================================================
module    concern
========= =========================================================================================
reading   one file's bytes, without blocking
encoding  byte-order marks and UTF-16
binary    where ripgrep stops in a file with NUL bytes
engine    the Rust engine, and the backtracking one for what it refuses
lines     the lines around matches
multiline blocks of lines, for matches that span them
collector line numbers, context, limits
matcher   a pattern and a request applied to a file
pool      many files, in batches; ``worker`` is the process that helps
========= =========================================================================================
"""

from .matcher import Matcher, compile_request
from .pool import Pool, search_files

__all__ = ["Matcher", "Pool", "compile_request", "search_files"]
