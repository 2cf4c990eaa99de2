"""Where answers come from: the server of a worktree, or a search in this process (``--no-server``).

The heavy modules are imported only by the one that is used: a query over a warm server needs neither numpy
nor git.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import IndexGrepError, RootError, UsageError
from ..request import FileResult, SearchRequest, Summary

if TYPE_CHECKING:  # at run time these would only cost
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, Protocol

    from ..client import Client
    from ..client import Search as ClientSearch
    from ..search import Session
    from ..search.running import Search
    from .options import Options
    from .output import Messages

    class Answer(Protocol):
        """One running search: batches of files, target by target; ``summary`` is complete after the last."""

        @property
        def summary(self) -> Summary: ...

        def batches(self) -> Iterator[list[FileResult]]: ...

        def close(self) -> None: ...

    class Engine(Protocol):
        """What the command line asks of a worktree."""

        @property
        def root(self) -> str: ...

        def search(self, request: SearchRequest) -> Answer: ...

        def explain(self, request: SearchRequest) -> dict[str, Any]: ...

        def close(self) -> None: ...


class Engines:
    """The engines that one command has opened, by root."""

    def __init__(self, options: Options, messages: Messages) -> None:
        self._options = options
        self._messages = messages
        self._open: dict[str, Engine] = {}

    def get(self, root: str) -> Engine:
        """The engine for ``root``. Raises ``IndexGrepError`` where there can be none."""
        engine = self._open.get(root)
        if engine is None:
            engine = self._open[root] = connect(root, self._options, self._messages)
        return engine

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for engine in self._open.values():
            engine.close()


def connect(root: str, options: Options, messages: Messages) -> Engine:
    """The server of ``root``, started where none runs; a search in this process where that is asked for.

    Where no server can be had the search goes on in this process, with a warning: the answer is the same.
    Only the buffers of editors are nowhere but in a server.
    """
    if not options.server and options.buffers == "all":
        raise UsageError(
            "--buffers=all needs a server: it has the unsaved buffers of its clients",
            "Leave out --no-server, or --buffers.",
        )
    if options.server:
        from ..client import Client

        try:
            return ServerEngine(Client(root, force_root=options.force_root))
        except (RootError, UsageError):
            raise
        except IndexGrepError as error:
            if options.buffers == "all":
                raise
            messages.warn(f"{error}\nSearching without a server (--no-server does so at once).")
    from ..search import Session

    # One search only: watching the tree would cost more than it saves.
    return LocalEngine(Session.open(root, force_root=options.force_root, watch=False))


class LocalAnswer:
    """A search of a session in this process."""

    def __init__(self, search: Search) -> None:
        self._search = search

    @property
    def summary(self) -> Summary:
        return self._search.summary

    def batches(self) -> Iterator[list[FileResult]]:
        return iter(self._search)

    def close(self) -> None:
        self._search.close()


class LocalEngine:
    """A session in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.root = session.root.path

    def search(self, request: SearchRequest) -> LocalAnswer:
        return LocalAnswer(self._session.search(request))

    def explain(self, request: SearchRequest) -> dict[str, Any]:
        return self._session.explain(request)

    def close(self) -> None:
        self._session.close()


class ServerAnswer:
    """A search by the server."""

    def __init__(self, search: ClientSearch) -> None:
        self._search = search

    @property
    def summary(self) -> Summary:
        return self._search.summary or Summary(complete=False, reason="cancelled")

    def batches(self) -> Iterator[list[FileResult]]:
        return ([result] for result in self._search.files())

    def close(self) -> None:
        self._search.close()


class ServerEngine:
    """The server of a worktree, over its socket."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.root = client.root

    def search(self, request: SearchRequest) -> ServerAnswer:
        return ServerAnswer(self._client.search(request))

    def explain(self, request: SearchRequest) -> dict[str, Any]:
        return self._client.explain(request)

    def close(self) -> None:
        self._client.close()
