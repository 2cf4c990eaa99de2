"""Make the table of byte-pair weights that ships with the package (backend/indexgrep/grams/weights.*).

    .venv/bin/python tools/make_weights.py [--work DIR] [--check]

The weight of a pair of adjacent bytes is its rarity rank in a large body of source code: the most common pair
has weight 0. The body is named in ``SOURCES`` package by package: name, version and the SHA-256 of the
archive as it is fetched with the machine's own clients (``apt-get download``, ``npm pack``), which is
verified. The same archives always give the same table; ``--check`` makes it again and compares it with the
one that ships.

Each language counts the same, however much of it there is: from every language at most ``LANGUAGE_BYTES`` of
text are taken, file by file in the order of the SHA-256 of their names, folded as the index folds text, and
the pairs' frequencies, not their counts, are added up. Pairs that never occur follow those that do, in the
order of how common their two bytes are; no two pairs share a rank.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexgrep.fold import fold
from indexgrep.grams.weights import table_id

#: Text taken of each language at most.
LANGUAGE_BYTES = 8_000_000
#: Larger files are data more often than code.
FILE_BYTES = 1_000_000
#: Frequencies are added as integers of this denominator, so that the sum is exact on every machine.
DENOMINATOR = 10**12

DESTINATION = Path(__file__).resolve().parent.parent / "backend" / "indexgrep" / "grams"


@dataclass(frozen=True)
class Source:
    """One archive: ``kind`` is ``deb`` or ``npm``; ``languages`` says which of its files count as what."""

    kind: str
    name: str
    version: str
    sha256: str
    #: Language to file name patterns.
    languages: dict[str, tuple[str, ...]]


SOURCES = (
    Source(
        "deb",
        "linux-source-6.1",
        "6.1.192-3",
        "5259c57ca92092da39bd2ea803046da0e3c28f2b6a11ea20f6297468188ceb67",
        {"c": ("*.c", "*.h"), "shell": ("*.sh",), "markup": ("*.rst",)},
    ),
    Source(
        "deb",
        "libboost1.74-dev",
        "1.74.0+ds1-21",
        "ba14fe04d7f138f874bd3ab3a20c4fd1e9f654e271449b8f3e48d20f942dbb93",
        {"c++": ("*.hpp",)},
    ),
    Source(
        "deb",
        "libpython3.11-stdlib",
        "3.11.2-6+deb12u9",
        "10f13e000ee757f5f2d2d3569f9e30546214a0c850acd78695feae373bfa3e53",
        {"python": ("*.py",)},
    ),
    Source(
        "deb",
        "golang-1.19-src",
        "1.19.8-2",
        "2dfa82fe4f08f4e0193c532e561af4c91871f5235608f04f2bb8d57bb288df5a",
        {"go": ("*.go",), "markup": ("*.html",)},
    ),
    Source(
        "deb",
        "rust-src",
        "1.63.0+dfsg1-2",
        "410b8c6d464cabbe5fb3154ab8c3d374980dd597fbe7e3b7bb3ed8dd1bf11e25",
        {"rust": ("*.rs",), "markup": ("*.md",)},
    ),
    Source(
        "deb",
        "openjdk-17-source",
        "17.0.21.1+2-1~deb12u1",
        "5106aa3881e3b49568823ebdfc3755d4043f6f53bbfc996d0efee03172dc0a9b",
        {"java": ("*.java",)},
    ),
    Source(
        "deb",
        "libruby3.1",
        "3.1.7+really3.1.2-0+deb12u1",
        "16f896fdaba2eeb238171f2914f9a81a7e947e13f8ce77fcb107da4ba24c9533",
        {"ruby": ("*.rb",)},
    ),
    Source(
        "deb",
        "neovim-runtime",
        "0.7.2-7",
        "dc3861cf63e8576f887437c9925437eb118272c1bc8451e18baff9183da08cdb",
        {"lua": ("*.lua",), "vim": ("*.vim",)},
    ),
    Source(
        "deb",
        "lua-penlight",
        "1.13.1-3",
        "69918434ee650d06aa470d49ba05a1a16ae43e66b8216e135cc5075f7d5d9ff3",
        {"lua": ("*.lua",)},
    ),
    Source(
        "deb",
        "bash-completion",
        "1:2.11-6",
        "8f79fbfae64b85ea54f63c6db688f2cd8cb079f40b6164f8b1f9451e37790549",
        {"shell": ("*/completions/*",)},
    ),
    Source(
        "npm",
        "three",
        "0.187.0",
        "ff540832ded0cfe919764d24a3d88f3e2a05f23303f876423e4f893841e90728",
        {"javascript": ("*/src/*.js", "*/examples/jsm/*.js")},
    ),
    Source(
        "npm",
        "vue",
        "3.5.45",
        "c2ec36a9b719e4277785f1ad36a1bb0424d8d32f0bea24abcce862e26821d585",
        {"javascript": ("*.global.js", "*.cjs.js")},
    ),
    Source(
        "npm",
        "rxjs",
        "7.8.2",
        "2312f8ffd9726ffd7bd53ea12c5f13663d09a3dc3326f448c70b88f5ef6fac82",
        {"typescript": ("*/src/*.ts",), "markup": ("*.md",)},
    ),
    Source(
        "npm",
        "@angular/core",
        "22.2.6",
        "21bc3f74418e6ccd318edd589aa8de6466e16b448f67808d227f12468a767741",
        {"typescript": ("*.ts",)},
    ),
    Source(
        "npm",
        "bootstrap",
        "5.3.9",
        "06bdf78289c3c12ea99d40df84eedf6278c724c73eebf38f11f3a65b44ec8c94",
        {"css": ("*.scss", "*/bootstrap.css"), "typescript": ("*.ts",)},
    ),
)


def fetch(source: Source, work: Path) -> Path:
    """The archive of ``source`` in ``work``, fetched if it is not there; its hash is verified."""
    if source.kind == "deb":
        pattern = f"{source.name}_{source.version.replace(':', '%3a')}_*.deb"
        command = ["apt-get", "download", f"{source.name}={source.version}"]
    else:
        pattern = f"{source.name.lstrip('@').replace('/', '-')}-{source.version}.tgz"
        command = ["npm", "pack", "--silent", f"{source.name}@{source.version}"]
    found = sorted(work.glob(pattern))
    if not found:
        subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
        found = sorted(work.glob(pattern))
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if digest != source.sha256:
        sys.exit(f"{found[0].name}: SHA-256 is {digest}, not {source.sha256}")
    return found[0]


def files_of(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every regular file of an archive, with the archives inside it opened."""
    if archive.suffix == ".deb":
        command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        with process, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            yield from members(tar)
    else:
        with tarfile.open(archive, mode="r:gz") as tar:
            yield from members(tar)


def members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        stream = tar.extractfile(member) if member.isreg() else None
        if stream is None:
            continue
        if member.name.endswith(".tar.xz"):
            with tarfile.open(fileobj=stream, mode="r|xz") as inner:
                yield from members(inner)
        elif member.name.endswith("/src.zip"):
            with zipfile.ZipFile(io.BytesIO(stream.read())) as zipped:
                for name in zipped.namelist():
                    if not name.endswith("/"):
                        yield name, zipped.read(name)
        elif member.size <= FILE_BYTES:
            yield member.name, stream.read()


def texts_by_language(work: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """For each language the (order key, content) of every file that counts."""
    texts: dict[str, list[tuple[bytes, bytes]]] = {}
    for source in SOURCES:
        archive = fetch(source, work)
        taken = 0
        for name, content in files_of(archive):
            language = language_of(source, name)
            if language is None or b"\0" in content or len(content) > FILE_BYTES:
                continue
            key = hashlib.sha256(f"{source.name}\0{name}".encode("utf-8", "surrogateescape")).digest()
            chosen = texts.setdefault(language, [])
            chosen.append((key, content))
            taken += 1
            if len(chosen) % 10_000 == 0:
                texts[language] = first_bytes(chosen)
        print(f"{source.kind} {source.name} {source.version}: {taken} files", file=sys.stderr)
    return texts


def first_bytes(texts: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The files, in order of their keys, that make up the first ``LANGUAGE_BYTES`` of text."""
    kept, total = [], 0
    for key, content in sorted(texts):
        if total >= LANGUAGE_BYTES:
            break
        kept.append((key, content))
        total += len(content)
    return kept


def language_of(source: Source, name: str) -> str | None:
    for language, patterns in source.languages.items():
        if any(fnmatch.fnmatchcase("/" + name, pattern) for pattern in patterns):
            return language
    return None


def frequencies(texts: list[tuple[bytes, bytes]]) -> tuple[npt.NDArray[np.int64], int]:
    """How often each pair (first byte times 256 plus second) occurs, of ``DENOMINATOR``; bytes counted."""
    counts = np.zeros(65536, np.int64)
    total = 0
    for _, content in first_bytes(texts):
        data = np.frombuffer(fold(content), np.uint8).astype(np.int64)
        total += data.size
        counts += np.bincount(data[:-1] * 256 + data[1:], minlength=65536)
    pairs = int(counts.sum())
    return np.array([int(count) * DENOMINATOR // pairs for count in counts], np.int64), total


def ranks(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """The weight of each pair: its place among all pairs from the most common on."""
    square = sums.reshape(256, 256)
    singles = square.sum(axis=0) + square.sum(axis=1)
    singles = singles // 1_000_000 + 1  # small enough for the product of two
    common = singles[:, None] * singles[None, :]
    pairs = np.arange(65536)
    order = np.lexsort((pairs, -common.ravel(), -sums))
    table = np.empty(65536, np.uint16)
    table[order] = np.arange(65536).astype(np.uint16)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the table of byte-pair weights.")
    parser.add_argument(
        "--work", type=Path, default=Path("/tmp/indexgrep-weights"), help="folder for archives"
    )
    parser.add_argument("--check", action="store_true", help="compare with the table that ships")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    sums = np.zeros(65536, np.int64)
    languages: dict[str, int] = {}
    for language, texts in sorted(texts_by_language(arguments.work).items()):
        shares, languages[language] = frequencies(texts)
        sums += shares
    table = ranks(sums).astype("<u2").tobytes()
    origin = {
        "id": table_id(table),
        "bytes_by_language": languages,
        "sources": [[s.kind, s.name, s.version, s.sha256] for s in SOURCES],
    }
    print(json.dumps(languages), table_id(table), file=sys.stderr)
    if arguments.check:
        sys.exit(0 if (DESTINATION / "weights.bin").read_bytes() == table else "the table differs")
    (DESTINATION / "weights.bin").write_bytes(table)
    (DESTINATION / "weights.json").write_text(json.dumps(origin, indent=1) + "\n")


if __name__ == "__main__":
    main()
