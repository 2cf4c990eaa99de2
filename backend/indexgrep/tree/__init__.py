"""The working tree: roots and git, the files ripgrep would search, stat signatures, and keeping them fresh.

========== ===================================================================================
module     concern
========== ===================================================================================
root       from a path to the root of a search: the worktree it lies in, or the directory itself
commit     the files of a commit, and which of them the working tree holds unchanged
glob       one glob of ripgrep's dialect (the ``globset`` crate's) as a regular expression
rules      an ordered list of globs with a verdict, decided for all names of a directory at once
ignore     ignore files: which are read where, and in what order they count
types      file types by name (``-t``), and the generated table ``type_table``
traverse   the directory traversal: listing, deciding, descending; used by walk and sweep
walk       ``rg --files`` for any flags
supposed   the same for files that are only supposed to be there
filter     the same decision for paths that are already known, where that is possible
signature  the stat signature of a file, and when it cannot be trusted
snapshot   the files of the standard universe with their signatures
monitor    the standard universe kept fresh, by inotify or by sweeping
mounts     what is mounted in a tree, and whether that changes
========== ===================================================================================

The *standard universe* is the set of files that plain ``rg`` searches when run in the root.
"""
