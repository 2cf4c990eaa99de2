"""A git repository full of the files and trees that break search tools, the same at every call.

``build_hostile`` makes it; the tests compare with ripgrep on it. Most texts hold the word ``needle`` so that
one pattern reaches into every case; what a case is for stands beside it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path

#: Texts that are committed, by name (bytes: one is not UTF-8). Directories are made as needed.
COMMITTED: dict[bytes, bytes] = {
    b"plain.txt": b"first line\nneedle in plain text\nlast line\n",
    b"src/main.c": b'#include "main.h"\nint main(void)\n{\n\treturn needle(0);\n}\n',
    b"src/main.h": b"int needle(int);\n",
    b"src/util/deep/er/code.py": b"def needle():\n    return 'needle needle'\n\n\nclass Needle:\n    pass\n",
    b"src/Makefile": b"all:\n\tcc needle.c\n",
    b"src-more/order.txt": b"'-' sorts before '/': needle\n",
    # Names.
    b"new\nline.txt": b"needle under a name with a line feed\n",
    b"names/another\nline/x\ny.c": b"needle below a directory with a line feed\n",
    b"colon:name.txt": b"needle\n",
    b"names/file:12:34": b"needle\n",
    b"names/:12:": b"needle\n",
    b"names/with space.txt": b"needle\n",
    b"names/(paren) [class] {brace}.txt": b"needle\n",
    b"names/-dash": b"needle\n",
    b"--files": b"needle\n",
    b"names/star*?.txt": b"needle\n",
    b"names/back\\slash.txt": b"needle\n",
    b"names/quote'\".txt": b"needle\n",
    b"names/tab\there.txt": b"needle\n",
    b"names/dollar$HOME `id`.txt": b"needle\n",
    b"names/latin-\xe9.txt": b"needle under a Latin-1 name\n",
    b"names/\xff\xfe": b"needle\n",
    "names/ünïcödé-名前.txt".encode(): b"needle\n",
    b"names/ends-with-dot.": b"needle\n",
    b"names/...": b"needle\n",
    b"names/no-extension": b"needle\n",
    b"names/UPPER.C": b"needle\n",
    b"names/" + b"n" * 251 + b".txt": b"needle under a name as long as names can be\n",
    # Line ends and lengths.
    b"text/empty": b"",
    b"text/only-newlines": b"\n\n\n\n\n",
    b"text/one-newline": b"\n",
    b"text/no-final-newline": b"first\nneedle at the end",
    b"text/crlf.txt": b"one\r\nneedle\r\nthree needle\r\n\r\nlast\r\n",
    b"text/crlf-no-final.txt": b"needle\r\nneedle\r",
    b"text/mixed-ends.txt": b"needle\r\nneedle\nneedle\rneedle\n\r\n",
    b"text/lone-cr": b"needle\rneedle\rold Macintosh\r",
    b"text/blank-lines": b"\n  \n\t\n \t needle \n\n",
    b"text/long-line.txt": b"x" * 70_000 + b" needle " + b"y" * 70_000 + b"\nneedle\n",
    b"text/minified.js": b";".join(b"var v%d=function(a,b){return a+b+%d}" % (i, i) for i in range(8_000))
    + b";needle();",
    b"text/one-megabyte.log": b"".join(
        b"%08d some ordinary line of a log%s\n" % (i, b" with a needle" if i % 997 == 0 else b"")
        for i in range(26_000)
    ),
    b"text/many-matches": b"needle needle needle\n" * 300,
    b"text/regex.txt": b"a.c\na+b\n[x]\n(y)\n{z}\n^start$\nback\\slash\n$100\n",
    b"text/words.txt": b"foo foobar foo_bar foo-bar barfoo\nTaskID  int\nTaskID int\nFOO Foo\n",
    # Encodings.
    b"encoding/utf8-bom.txt": b"\xef\xbb\xbfneedle after a byte-order mark\nneedle\n",
    b"encoding/utf16le.txt": b"\xff\xfe" + "first\nneedle ünï\r\nlast needle\n".encode("utf-16-le"),
    b"encoding/utf16be.txt": b"\xfe\xff" + "first\nneedle ünï\nlast needle\n".encode("utf-16-be"),
    b"encoding/utf16le-cut.txt": b"\xff\xfe" + "needle\ncut off needle".encode("utf-16-le")[:-1],
    b"encoding/utf16-surrogate-cut.txt": b"\xff\xfe" + "needle \U0001f600".encode("utf-16-le")[:-2],
    b"encoding/utf16-bom-only": b"\xff\xfe",
    b"encoding/utf16-no-bom.txt": "needle without a mark\n".encode("utf-16-le"),
    b"encoding/latin1.txt": "déjà vu, needle, straße\n".encode("latin-1"),
    b"encoding/invalid.txt": b"needle \xff\xfe\x80 needle\n\xc3\x28 needle\n\xed\xa0\x80 needle\n",
    b"encoding/cut-character.txt": "needle é".encode()[:-1],
    b"encoding/controls.txt": b"needle \x01\x02\x1b[31mred\x1b[0m \x7f\n",
    # Unicode and case.
    b"unicode/kelvin.txt": "\u212aelvin, Kelvin, kelvin, 300 \u212a\n".encode(),
    b"unicode/long-s.txt": "Congre\u017fs, Congress, mi\u017fs, MISS\n".encode(),
    b"unicode/sharp-s.txt": "straße STRASSE strasse STRA\u1e9eE\n".encode(),
    b"unicode/sigma.txt": "σίγμας ΣΊΓΜΑΣ Σίγμας\n".encode(),
    b"unicode/turkish.txt": "ISTANBUL İstanbul istanbul ıstanbul\n".encode(),
    b"unicode/combining.txt": "cafe\u0301 café CAFÉ needle\n".encode(),
    b"unicode/emoji.txt": "needle 😀 needle 👩‍👩‍👧 end\n".encode(),
    b"unicode/separators.txt": "a\u2028needle\u2029b\x85needle\x0bneedle\x0cneedle\n".encode(),
    # Binary.
    b"binary/early-nul.bin": b"\x00\x01needle\n\x00needle\n",
    b"binary/middle-nul.bin": b"needle before\n" * 20 + b"\x00" + b"needle after\n" * 20,
    b"binary/late-nul.bin": b"needle in text\n" * 6_000 + b"\x00\nneedle after a late nul\n",
    b"binary/late-nul-no-match-before.bin": b"nothing here\n" * 8_000 + b"\x00\nneedle after\n",
    b"binary/nul-on-match-line.bin": b"text\nneedle \x00 needle\ntext\n",
    b"binary/png.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8,
    # Ignore rules.
    b".gitignore": (
        b"# comment\n*.o\n*.log\n!keep.log\n/build/\nignored-dir/\n\\#literal\ntrailing-space \\ \n"
        b"docs/**/draft*\n[Tt]emp[0-9]\n**/cache\nforced-tracked.txt\n*.{tmp,bak}\n/anchored\nunclosed[\n\n!/text/*.log\n"
    ),
    b"ignore/.gitignore": b"*.gen\n!important.gen\nsub/*\n!sub/kept.txt\n",
    b"ignore/.ignore": b"!by-dot-ignore.gen\n*.dotignored\n",
    b"ignore/.rgignore": b"!by-rgignore.dotignored\n*.rgignored\n",
    b"ignore/important.gen": b"needle, included again\n",
    b"ignore/sub/kept.txt": b"needle, included again\n",
    b"ignore/deeper/.gitignore": b"!*.gen\n",
    b"ignore/deeper/again.gen": b"needle, included again below\n",
    b"ignore/invalid-line/.gitignore": b"*.a\n\xff\xfe\n*.b\n",
    b"ignore/invalid-line/x.b": b"needle, after a line that is not UTF-8 rules end\n",
    b"ignore/bom/.gitignore": b"\xef\xbb\xbf*.bom\r\n*.crlf\r\n",
    b"ignore/bom/seen.txt": b"needle\n",
    b"keep.log": b"needle, included again\n",
    b"anchored-not": b"needle\n",
    b"docs/a/b/draft-1": b"needle, tracked and ignored\n",
    b"forced-tracked.txt": b"needle, tracked and ignored\n",
    # Hidden.
    b".hidden": b"needle, hidden and tracked\n",
    b".config/settings.toml": b"needle = 'hidden directory'\n",
    b"src/.hidden.py": b"needle = 'hidden and of a type'\n",
    # Changed below.
    b"state/modified.txt": b"before\nneedle as committed\n",
    b"state/deleted.txt": b"needle, deleted in the working tree\n",
    b"state/staged.txt": b"before\n",
    b"state/renamed-from.txt": b"needle, renamed in the working tree\n",
    b"state/becomes-dir": b"needle, a file in HEAD, a directory now\n",
    b"state/becomes-file/x.txt": b"needle, a directory in HEAD, a file now\n",
    b"state/becomes-link.txt": b"needle, a file in HEAD, a link now\n",
    b"state/skip-worktree.txt": b"needle, absent by sparse checkout\n",
    b"state/assume-unchanged.txt": b"before\n",
    b"state/mode.sh": b"#!/bin/sh\necho needle\n",
    b"state/same-size.txt": b"needle AAA\n",
}

#: Files that git does not know: ignored or untracked.
UNTRACKED: dict[bytes, bytes] = {
    b"untracked.txt": b"needle, untracked\n",
    b"state/renamed-to.txt": COMMITTED[b"state/renamed-from.txt"],
    b"state/becomes-dir/inside.txt": b"needle\n",
    b"state/becomes-file": b"needle\n",
    b"object.o": b"needle, ignored\n",
    b"noise.log": b"needle, ignored\n",
    b"build/out.txt": b"needle, ignored directory\n",
    b"src/build/out.txt": b"needle, the rule is anchored: not ignored\n",
    b"ignored-dir/a.txt": b"needle\n",
    b"ignored-dir/!keep.log": b"needle\n",
    b"src/ignored-dir/deep/b.txt": b"needle\n",
    b"#literal": b"needle\n",
    b"Temp1": b"needle\n",
    b"x.tmp": b"needle\n",
    b"x.bak": b"needle\n",
    b"anchored": b"needle\n",
    b"src/anchored": b"needle\n",
    b"unclosed[": b"needle\n",
    b"src/cache": b"needle\n",
    b"src/more/cache/file": b"needle\n",
    b"ignore/plain.gen": b"needle\n",
    b"ignore/by-dot-ignore.gen": b"needle, .ignore wins over .gitignore\n",
    b"ignore/x.dotignored": b"needle\n",
    b"ignore/by-rgignore.dotignored": b"needle, .rgignore wins over .ignore\n",
    b"ignore/x.rgignored": b"needle\n",
    b"ignore/sub/dropped.txt": b"needle\n",
    b"ignore/invalid-line/x.a": b"needle\n",
    b"ignore/bom/x.bom": b"needle\n",
    b"ignore/bom/x.crlf": b"needle\n",
    b"by-exclude.secret": b"needle, in info/exclude\n",
    b".hidden-untracked": b"needle\n",
    b".cache/x": b"needle\n",
    b"unreadable.txt": b"needle, mode 000\n",
}


def build_hostile(directory: Path) -> Path:
    """Make the repository in ``directory / "hostile"`` and return its path.

    ``directory`` must be empty; beside the repository it holds what links lead to (``outside``) and the
    origin of the submodule. What a platform cannot have (names that are not UTF-8, sockets) is left out.
    """
    outside = directory / "outside"
    _write(outside, {b"secret.txt": b"needle outside of the tree\n", b"dir/file.txt": b"needle outside\n"})
    origin = directory / "origin"
    _write(
        origin, {b"lib.c": b"int needle_of_submodule;\n", b"skip.o": b"needle\n", b".gitignore": b"*.skip\n"}
    )
    _git(origin, "init", "--quiet")
    _git(origin, "add", "--all", "--force")
    _git(origin, "commit", "--quiet", "--message", "origin")

    root = directory / "hostile"
    _write(root, COMMITTED)
    _git(root, "init", "--quiet")
    _git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../origin", "submodule")
    _git(root, "add", "--all", "--force")
    _git(root, "commit", "--quiet", "--message", "hostile")
    _change(root)
    _write(root, UNTRACKED)
    _write(root / "submodule", {b"x.skip": b"needle, ignored in the submodule\n", b"x.log": b"needle\n"})
    (root / ".git" / "info" / "exclude").write_bytes(b"*.secret\n/src/more/\n")
    _nested_repository(root / "nested")
    _links(root)
    _special_files(root)
    (root / "unreadable.txt").chmod(0)
    return root


def _change(root: Path) -> None:
    """Make the working tree and the index differ from HEAD."""
    state = root / "state"
    _git(root, "update-index", "--skip-worktree", "state/skip-worktree.txt")
    _git(root, "update-index", "--assume-unchanged", "state/assume-unchanged.txt")
    (state / "skip-worktree.txt").unlink()
    (state / "assume-unchanged.txt").write_bytes(b"needle, changed behind git's back\n")
    (state / "modified.txt").write_bytes(b"before\nneedle as modified\nneedle again\n")
    (state / "deleted.txt").unlink()
    (state / "renamed-from.txt").unlink()
    (state / "becomes-dir").unlink()
    (state / "becomes-file" / "x.txt").unlink()
    (state / "becomes-file").rmdir()
    (state / "becomes-link.txt").unlink()
    (state / "becomes-link.txt").symlink_to("modified.txt")
    (state / "staged.txt").write_bytes(b"needle, staged\n")
    _git(root, "add", "state/staged.txt")
    (state / "mode.sh").chmod(0o755)
    same = state / "same-size.txt"
    before = same.stat()
    same.write_bytes(b"needle BBB\n")
    os.utime(same, ns=(before.st_atime_ns, before.st_mtime_ns))


def _nested_repository(nested: Path) -> None:
    """A repository that the outer one does not know: rules above it do not reach into it."""
    _write(
        nested,
        {
            b"tracked.c": b"needle of the nested repository\n",
            b"own.skipped": b"needle, ignored by its own rules\n",
            b"outer.log": b"needle, the outer rules end here\n",
            b".gitignore": b"*.skipped\n",
            b"src/deep.c": b"needle\n",
        },
    )
    _git(nested, "init", "--quiet")
    _git(nested, "add", "tracked.c", ".gitignore")
    _git(nested, "commit", "--quiet", "--message", "nested")


def _links(root: Path) -> None:
    links = root / "links"
    links.mkdir()
    (links / "to-file").symlink_to("../plain.txt")
    (links / "to-dir").symlink_to("../src")
    (links / "to-self-dir").symlink_to(".")
    (links / "to-parent").symlink_to("..")
    (links / "loop-a").symlink_to("loop-b")
    (links / "loop-b").symlink_to("loop-a")
    (links / "broken").symlink_to("no-such-file")
    (links / "out-of-tree").symlink_to("../../outside")
    (links / "out-of-tree.txt").symlink_to("../../outside/secret.txt")
    os.link(root / "plain.txt", links / "hard-link.txt")


def _special_files(root: Path) -> None:
    special = root / "special"
    special.mkdir()
    os.mkfifo(special / "fifo")
    with contextlib.suppress(OSError):
        os.mknod(special / "socket", stat.S_IFSOCK | 0o600)
    (special / "empty-dir").mkdir()


def _write(directory: Path, files: dict[bytes, bytes]) -> None:
    top = os.fsencode(directory)
    for name, content in files.items():
        path = os.path.join(top, name)
        with contextlib.suppress(OSError) if not _is_utf8(name) else contextlib.nullcontext():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _git(directory: Path, *arguments: str) -> None:
    """Run git with nothing of the user's configuration and fixed dates, so that commits are the same."""
    environment = os.environ | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Test",
        "GIT_AUTHOR_EMAIL": "test@localhost",
        "GIT_AUTHOR_DATE": "2024-01-02T03:04:05Z",
        "GIT_COMMITTER_NAME": "Test",
        "GIT_COMMITTER_EMAIL": "test@localhost",
        "GIT_COMMITTER_DATE": "2024-01-02T03:04:05Z",
    }
    settings = ("-c", "init.defaultBranch=main", "-c", "core.autocrlf=false", "-c", "gc.auto=0")
    command = ["git", "-C", os.fspath(directory), *settings, *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)
