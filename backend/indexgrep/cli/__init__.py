"""The command line: ``indexgrep [OPTIONS] PATTERN [PATH…]`` and its sub-commands.

============ ==================================================================================
module       concern
============ ==================================================================================
flags        the table of flags and the parser
options      what the flags say, resolved into a request and the settings of the printers
paths        between paths as the user spells them and paths as the engine has them
engine       the server or a search in this process
search       the search command
standard     lines in the format of ``rg``
figures      counts, names and statistics
jsonlines    ``--json``
output       bytes to standard output, messages to standard error
commands     ``index``, ``status``, ``server`` and ``explain``
help         what ``--help`` prints
============ ==================================================================================

A query over a warm server must start in the time that Python needs, so everything is imported late.
"""

from __future__ import annotations

import sys

#: The first argument when it is one of these; a pattern of the same spelling is given with ``-e`` or ``--``.
SUB_COMMANDS = ("index", "status", "explain", "server")


def main(argv: list[str] | None = None) -> int:
    """Runs the command line ``argv`` (default: ``sys.argv[1:]``) and returns the exit code.

    Never raises: errors of the user's, the system's and our own end as one message on standard error, our own
    with the name of the log that has the details.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        return _failed(error)


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in SUB_COMMANDS:
        from .commands import run_command

        return run_command(arguments[0], arguments[1:])
    from .flags import parse

    options = parse(arguments)
    if options.special is not None or options.mode == "type_list":
        from .help import show

        return show(options)
    from .search import run

    return run(options)


def _failed(error: Exception) -> int:
    """Reports ``error`` in a line or two; the exit code."""
    from ..errors import IndexGrepError
    from .output import complain

    if isinstance(error, IndexGrepError):
        complain(f"{error.message}\n\n{error.hint}" if error.hint else error.message)
        return 2
    from ..runtime import log_path, setup_log

    setup_log("cli").exception("internal fault")
    complain(f"internal fault: {type(error).__name__}: {error}; details are in {log_path()}")
    return 2
