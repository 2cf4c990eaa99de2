"""indexgrep: exact, always fresh regex search over a repository from a local index.

The layers, lowest first; imports point downwards only (``tests/test_layers.py`` holds them to it):

========== ===================================================================================
package    concern
========== ===================================================================================
errors     the one hierarchy of errors a user can see
runtime    where things live on disk (cache, sockets, log) and the log itself
memory     giving memory back to the system
request    one search, as every surface asks it, and the records that answer it
fold       the folding of text for the index
grams      byte-pair weights, sparse n-gram extraction, the frequent set, covering sets
pattern    the Rust ``regex`` dialect: parser, AST, printer, and the string conditions of a pattern
tree       the working tree: roots, git, the ripgrep walk, stat signatures, sweep and watch
index      the two files: format, builder, reader, candidate plans, the store of bases
match      reading files and matching them line by line, as ripgrep does
overlay    the layers of a worktree (segments over bases), kept fresh and maintained; unsaved buffers
search     a query from request to summary: plan, candidates, matching, freshness
server     msgpack-RPC over a private Unix socket, one server a worktree
client     the protocol from Python; ``cli`` the protocol (or a search in process) from the shell
========== ===================================================================================
"""

__version__ = "0.1.0"
