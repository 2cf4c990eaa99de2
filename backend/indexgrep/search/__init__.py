"""Searching a worktree: from a request to matching lines and a summary.

======== =====================================================================================
module   concern
======== =====================================================================================
session  one open worktree, searched: what server and CLI talk to
scope    the part of the tree a request asks for
shadows  the unsaved buffers, as one search sees them
running  one running search: candidates in, batches of results and the summary out
explain  why a search reads what it reads
======== =====================================================================================
"""

from .session import Session

__all__ = ["Session"]
