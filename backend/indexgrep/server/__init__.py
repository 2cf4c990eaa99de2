"""The server of one worktree: msgpack-RPC over a private Unix socket (``doc/protocol.md``).

============== ================================================================================
module         concern
============== ================================================================================
protocol       framing: constants, packers, the bytes of each message; shared with the client
interface      what the server asks of a search session (``typing.Protocol``)
query          one running search: its thread, its credits, its end
connection     one client: reading requests, writing with back-pressure
service        the server itself: session, clients, builds, idle exit
lifecycle      finding, starting and stopping servers from other processes; light imports
``__main__``   the server process: daemon, lock, ``python -m indexgrep.server ROOT``
============== ================================================================================

Importing this package imports none of them: a client needs ``protocol`` and ``lifecycle`` only.
"""
