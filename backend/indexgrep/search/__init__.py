"""Searching a worktree: from a request to matching lines and a summary.

======== =====================================================================================
module   concern
======== =====================================================================================
session  one open worktree: its index, its freshness, its builds; what server and CLI talk to
base     the index of a worktree: what goes into it, where it is kept, building and opening it
view     which documents of the index still stand for their files, and what stands beside them
scope    the part of the tree a request asks for
shadows  the unsaved buffers, as one search sees them
running  one running search: candidates in, batches of results and the summary out
explain  why a search reads what it reads
======== =====================================================================================
"""

from .session import Session

__all__ = ["Session"]
