"""``make bench``: indexgrep and its peers on one tree, measured in one run.

============ ====================================================================================
module       concern
============ ====================================================================================
corpus       the Linux source from Debian's package, as a repository in the cache
queries      what is asked
measure      wall time, CPU time and memory of a whole process tree; medians
peers        the other tools: how each builds, answers and is cleaned up after
ours         indexgrep's server: build, index sizes, answers over the socket, memory
editor       Neovim: from the command to results on the screen; what typing and saving wait for
changing     a copy of the corpus with a second commit, for what changes files
outside      another process that edits files
stage        that copy with a server on it, ripgrep and the outside process
edits        single edits: the barrier, edit-then-search
switch       many files at once: ``git switch``, clones, linked worktrees
life         a server's starts, its first index, its memory
freshness    those measures, one after another
figures      figures beside what is wanted of them
report       tables for people, JSON for programs
``__main__`` the run
============ ====================================================================================

All indexes go to a temporary directory; the tree that is searched is only read, the copy is put back.
"""
