"""What ``--help``, ``--version`` and ``--type-list`` print."""

from __future__ import annotations

from .. import __version__
from .options import Options
from .output import Output

_HELP = """\
indexgrep {version}
Regex search over a working tree from a local index: ripgrep's answers, always fresh, sooner.

USAGE:
  indexgrep [OPTIONS] PATTERN [PATH ...]
  indexgrep [OPTIONS] -e PATTERN ... [PATH ...]
  indexgrep index [--force] [PATH]        make the index now, with progress
  indexgrep status [--json] [PATH]        the index, its freshness and the server
  indexgrep explain [OPTIONS] PATTERN     how a pattern is answered from the index
  indexgrep server start|stop|status|run [PATH]

Without PATH the current directory is searched, also when something is piped in. A sub-command is one only as
the first argument: search for such a word with `indexgrep -e status` or `indexgrep -- status`.

PATTERN:
  -e, --regexp=PATTERN          A pattern to search for; may be repeated.
  -f, --file=FILE               Patterns from a file, one a line.
  -F, --fixed-strings           Patterns are literal text.
  -i, --ignore-case             Letter case does not matter.
  -s, --case-sensitive          Letter case matters (default).
  -S, --smart-case              Letter case matters if the pattern has a capital.
  -w, --word-regexp             Matches are whole words.
  -x, --line-regexp             Matches are whole lines.
  -v, --invert-match            Lines that do not match.
  -U, --multiline               Matches may span lines.
      --multiline-dotall        With -U, let '.' match line terminators.
      --crlf                    CRLF ends a line too.
      --no-unicode              ASCII classes and case.
  -m, --max-count=NUM           At most NUM matching lines in a file.

FILES:
  -g, --glob=GLOB               Only (or with '!' not) paths that match.
      --iglob=GLOB              The same without letter case.
      --glob-case-insensitive   Treat all globs so.
  -t, --type=TYPE               Only files of a type (see --type-list).
  -T, --type-not=TYPE           No files of a type.
      --type-list               Show the types.
  -., --hidden                  Hidden files too.
      --no-ignore               Obey no ignore files.
      --no-ignore-vcs           Obey no ignore files of git.
  -u, -uu, -uuu                 --no-ignore, and --hidden, and --binary.
  -a, --text                    Search binary files as text.
      --binary                  Search binary files to their end.
  -L, --follow                  Follow symbolic links.
  -d, --max-depth=NUM           Descend at most NUM directories.
      --max-filesize=SIZE       Skip files larger than SIZE (K, M, G).

OUTPUT:
  -A, --after-context=NUM       Lines after each match.
  -B, --before-context=NUM      Lines before each match.
  -C, --context=NUM             Lines around each match.
      --context-separator=SEP   Between chunks (default '--').
  -n, --line-number  -N, --no-line-number
      --column                  Column of the first match.
  -b, --byte-offset             Offset of each line or, with -o, match.
  -o, --only-matching           Only what matches.
  -H, --with-filename  -I, --no-filename
      --heading  --no-heading   Path above the lines (default on a terminal).
      --color=WHEN              auto, always, never or ansi.
  -p, --pretty                  Colour, headings and line numbers.
      --field-match-separator=SEP, --field-context-separator=SEP
  -0, --null                    A NUL byte after each path.
      --trim                    No white space before a line.
  -M, --max-columns=NUM         Leave out lines longer than NUM bytes.
      --max-columns-preview     Show their beginning.
  -q, --quiet                   Nothing but the exit code.
      --sort=path               Always so.

MODES:
  -l, --files-with-matches      Paths of files that match.
      --files-without-match     Paths of files that do not.
  -c, --count                   Matching lines in each file.
      --count-matches           Matches in each file.
      --include-zero            With counts: files without a match too.
      --json                    JSON Lines, as `rg --json`.
      --vimgrep                 A line for each match, with its column.
      --stats                   Statistics at the end.

INDEXGREP'S OWN:
      --no-server               Search in this process.
      --no-index                Read every file.
      --buffers=WHOSE           Search unsaved text, too: all (of every editor), own, none (default).
      --root=DIR                The tree to search, instead of the worktree around PATH.
      --force-root              Take even / or the home directory for a root.
      --limit=NUM               Stop after NUM matching lines in all.
      --timeout=MS              Give up after MS milliseconds.
      --no-messages             Say nothing of files that cannot be read.
      --debug                   Say how the answer came about.

Exit codes: 0 found, 1 nothing found, 2 an error. `indexgrep --help` says more than `-h` about differences.
"""

_MORE = """
DIFFERENCES TO RIPGREP:
  Output comes in order of path, as that of `rg --sort path`. Standard input is never searched. There is no
  configuration file. "files searched" of --stats counts the files that the index ruled out; "bytes searched"
  counts what was really read. Flags of ripgrep that are not served are refused by name. The "begin" message
  of --json has "source": "buffer" for a file whose text is an unsaved buffer (--buffers).

ENVIRONMENT:
  INDEXGREP_CACHE_DIR, INDEXGREP_RUNTIME_DIR, INDEXGREP_LOG: where indexes, sockets and the log are.
  INDEXGREP_CACHE_BUDGET: bytes that all indexes together may take (8 GiB).
  INDEXGREP_IDLE_S: seconds that a server without clients stays (900).
"""


def show(options: Options) -> int:
    """Prints what was asked for; the exit code."""
    output = Output()
    if options.special == "version":
        output.write(f"indexgrep {__version__}\n".encode())
    elif options.special is not None:
        text = _HELP.format(version=__version__)
        output.write((text + _MORE if options.special == "long_help" else text).encode())
    else:
        from ..tree.type_table import TYPES

        for name, globs in sorted(TYPES.items()):
            output.write(f"{name}: {', '.join(globs)}\n".encode())
    output.flush()
    return 0
