"""The requests that the differential tests ask: some cut out of a corpus, some written down.

Everything is deterministic: the same corpus gives the same requests. A ``Case`` says what the index must do,
so that no test passes by scanning everything.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from indexgrep.request import SearchRequest


@dataclass(frozen=True)
class Case:
    """One request. ``name`` identifies it in reports."""

    name: str
    request: SearchRequest
    #: The pattern has a literal that the index can look up: it must serve the answer.
    indexable: bool = False
    #: The literal is so long or rare that most documents must be ruled out.
    selective: bool = False
    #: Compare the spans of the matches too. ``False`` where ripgrep's are known to be wrong.
    spans: bool = True


def case(pattern: str, *, indexable: bool = False, selective: bool = False, **fields: object) -> Case:
    """A case with one pattern; ``fields`` are those of ``SearchRequest``."""
    request = SearchRequest(patterns=(pattern,), **fields)  # type: ignore[arg-type]
    flags = " ".join(f"{name}={value}" for name, value in fields.items())
    return Case(f"{pattern!r} {flags}".strip(), request, indexable or selective, selective)


# --- patterns cut out of a corpus


#: Words that are there more often are not asked for: the time would go into reading ripgrep's answers.
MOST = 4000


class Cutter:
    """Cuts text out of the files of a corpus, the same on every run."""

    def __init__(self, root: Path, names: Iterable[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._texts: list[str] = []
        for name in sorted(names):
            data = (root / name).read_bytes()
            if b"\0" in data or not data:
                continue
            try:
                self._texts.append(data.decode())
            except UnicodeDecodeError:
                continue

        self._whole = "\n".join(self._texts)

    def choose(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, items: str | list[str]) -> str:
        return self._random.choice(items)

    def find(self, expression: str) -> str:
        """A match of ``expression`` from somewhere in a file chosen by chance."""
        compiled = re.compile(expression, re.MULTILINE)
        while True:
            text = self._random.choice(self._texts)
            start = self._random.randrange(len(text))
            found = compiled.search(text, start)
            if found and found.group():
                return found.group()

    def word(self) -> str:
        """An identifier of at least six characters."""
        while True:
            word = self.find(r"\b[A-Za-z_][A-Za-z0-9_]{5,24}\b")
            if self._whole.count(word) <= MOST:
                return word

    def inside_word(self) -> str:
        """Five to twelve characters out of the middle of a longer word."""
        while True:
            word = self.find(r"\b[A-Za-z_]{9,30}\b")
            start = self.choose(1, 3)
            inside = word[start : start + self.choose(5, 12)]
            if self._whole.count(inside) <= MOST:
                return inside

    def phrase(self) -> str:
        """Part of a line, with whatever spaces and punctuation it has."""
        return self.find(r"[!-~][ -~]{7,28}[!-~]")

    def line(self) -> str:
        return self.find(r"^[ -~]{12,60}$")


def bounded(asked: Case) -> Case:
    """``asked`` for a big corpus: a pattern that may match most lines stops early in each file."""
    if asked.indexable or asked.request.max_count is not None:
        return asked
    return dataclasses.replace(asked, request=dataclasses.replace(asked.request, max_count=5))


def escape(text: str) -> str:
    """``text`` as a pattern of the Rust dialect that matches it (``re.escape`` escapes spaces too)."""
    return re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", text)


def cut_cases(cutter: Cutter, each: int) -> Iterator[Case]:
    """``each`` cases of every kind below."""
    for kind in _KINDS:
        for _ in range(each):
            yield kind(cutter)


def _literal(cut: Cutter) -> Case:
    return case(cut.word(), indexable=True)


def _inner_literal(cut: Cutter) -> Case:
    return case(cut.inside_word(), indexable=True)


def _phrase(cut: Cutter) -> Case:
    return case(escape(cut.phrase()), selective=True)


def _fixed_phrase(cut: Cutter) -> Case:
    return case(cut.phrase(), selective=True, fixed_strings=True)


def _whole_line(cut: Cutter) -> Case:
    return case(cut.line(), selective=True, fixed_strings=True, line=True)


def _insensitive(cut: Cutter) -> Case:
    return case(cut.word().swapcase(), indexable=True, case="insensitive")


def _smart(cut: Cutter) -> Case:
    word = cut.word()
    return case(cut.pick([word, word.lower(), word.capitalize()]), indexable=True, case="smart")


def _smart_class(cut: Cutter) -> Case:
    return case(rf"{cut.word().lower()}\W[A-Z]?", indexable=True, case="smart")


def _whole_word(cut: Cutter) -> Case:
    return case(cut.pick([cut.word(), cut.inside_word()]), indexable=True, word=True)


def _alternation(cut: Cutter) -> Case:
    words = [cut.pick([cut.word(), cut.inside_word()]) for _ in range(cut.choose(2, 6))]
    return case("|".join(words), indexable=True)


def _factored_alternation(cut: Cutter) -> Case:
    word = cut.word()
    return case(f"{word[:5]}({word[5:]}|{cut.inside_word()}|x?)", indexable=True)


def _empty_alternative(cut: Cutter) -> Case:
    return case(f"({cut.word()}|){cut.inside_word()}", indexable=True)


def _class(cut: Cutter) -> Case:
    word = cut.word()
    at = cut.choose(1, len(word) - 2)
    middle = cut.pick([".", r"\w", f"[{word[at]}xyz]", "[a-f_0-9]", "[^ ]", r"[\w-]", "[[:alpha:]]"])
    return case(word[:at] + middle + word[at + 1 :], indexable=True)


def _class_end(cut: Cutter) -> Case:
    return case(cut.inside_word() + cut.pick([r"\d", r"\s", r"\(", "[A-Z]", r"\W", "[^a-z]"]), indexable=True)


def _gap(cut: Cutter) -> Case:
    return case(
        cut.find(r"\w{4,9}") + cut.pick([".*", ".+", ".{0,20}", r"\s+", r"[^)]*"]) + cut.find(r"\w{3,9}")
    )


def _plus(cut: Cutter) -> Case:
    word = cut.word()
    at = cut.choose(2, len(word) - 1)
    return case(f"{word[:at]}{cut.pick(['+', '*', '?', '{1,3}', '{2}', '+?', '{0,2}'])}{word[at:]}")


def _spaces_plus(cut: Cutter) -> Case:
    words = re.split(r" +", cut.find(r"[a-z]{3,12} [a-z]{3,12}"))
    return case(" +".join(words), indexable=True)


def _group_repeat(cut: Cutter) -> Case:
    word = cut.word()
    return case(f"({word[:3]}){cut.pick(['+', '{1,2}', '{2,}', '*'])}{word[3:]}")


def _anchor_start(cut: Cutter) -> Case:
    return case("^" + escape(cut.find(r"^[ \t]*\w{3,12}")), indexable=False)


def _anchor_end(cut: Cutter) -> Case:
    return case(escape(cut.find(r"[!-~]{5,15}$")) + "$", indexable=True)


def _boundaries(cut: Cutter) -> Case:
    return case(cut.pick([r"\b", r"\B"]) + cut.inside_word() + cut.pick([r"\b", r"\B"]), indexable=True)


def _two_lines(cut: Cutter) -> Case:
    return case(escape(cut.find(r"\S{4,20}\n[ \t]*\S{4,20}")), multiline=True)


def _multiline_gap(cut: Cutter) -> Case:
    fields = {"multiline": True, "multiline_dotall": bool(cut.choose(0, 1))}
    return case(rf"{cut.word()}.*\s+{cut.find(r'[a-z]{4,8}')}", indexable=True, **fields)


def _invert(cut: Cutter) -> Case:
    return case(cut.pick(["e", r"\w", " ", "^$"]), invert=True, max_count=3)


def _context(cut: Cutter) -> Case:
    return case(cut.word(), indexable=True, before=cut.choose(0, 3), after=cut.choose(0, 3))


def _max_count(cut: Cutter) -> Case:
    return case(cut.find(r"[a-z]{3,5}"), indexable=True, max_count=cut.choose(1, 4), after=cut.choose(0, 2))


def _several(cut: Cutter) -> Case:
    made = case(cut.word(), indexable=True)
    patterns = (*made.request.patterns, cut.inside_word(), escape(cut.phrase()))
    request = dataclasses.replace(made.request, patterns=patterns, word=bool(cut.choose(0, 1)))
    return dataclasses.replace(made, name=f"-e {' -e '.join(map(repr, patterns))}", request=request)


def _non_ascii(cut: Cutter) -> Case:
    return case(escape(cut.find(r"[^\x00-\x7f][^\n]{1,8}")), case=cut.pick(["sensitive", "insensitive"]))


def _random_regex(cut: Cutter) -> Case:
    """A regex by chance, of every operator, that still has words of the corpus in it."""
    return case(_random_node(cut, 3), max_count=5, case=cut.pick(["sensitive", "insensitive", "smart"]))


def _random_node(cut: Cutter, depth: int) -> str:
    if depth == 0:
        return cut.pick(
            [escape(cut.find(r"\S{2,6}")), cut.word(), cut.pick([".", r"\w", "[a-e]", r"\d", " "])]
        )
    shape = cut.choose(0, 5)
    if shape <= 1:
        return _random_node(cut, depth - 1) + _random_node(cut, depth - 1)
    if shape == 2:
        return f"(?:{_random_node(cut, depth - 1)}|{_random_node(cut, depth - 1)})"
    if shape == 3:
        return f"({_random_node(cut, depth - 1)}){cut.pick(['*', '+', '?', '{2}', '{1,3}', '*?'])}"
    if shape == 4:
        return (
            cut.pick([r"\b", "^", "", r"\s*"])
            + _random_node(cut, depth - 1)
            + cut.pick([r"\b", "$", "", r"\s"])
        )
    return f"(?{cut.pick(['i', 's', 'U', 'm', 'i-s'])}:{_random_node(cut, depth - 1)})"


_KINDS: tuple[Callable[[Cutter], Case], ...] = (
    _literal,
    _inner_literal,
    _phrase,
    _fixed_phrase,
    _whole_line,
    _insensitive,
    _smart,
    _smart_class,
    _whole_word,
    _alternation,
    _factored_alternation,
    _empty_alternative,
    _class,
    _class_end,
    _gap,
    _plus,
    _spaces_plus,
    _group_repeat,
    _anchor_start,
    _anchor_end,
    _boundaries,
    _two_lines,
    _multiline_gap,
    _invert,
    _context,
    _max_count,
    _several,
    _non_ascii,
    _random_regex,
    _random_regex,
)


# --- patterns written down: the reports of shared faults, and every corner of the dialect

#: Patterns that other indexed or ordinary greps got wrong, by the report.
REPORTED: tuple[Case, ...] = (
    case("TaskID +int", indexable=True),  # ripgrep#1559
    case("(?i)e.x|ex"),  # ripgrep#2884
    case("foo.x|ex", case="insensitive"),
    # ripgrep#1319, 1537. ripgrep 15.2 itself starts this match too late where a line has the word twice.
    dataclasses.replace(case(r"(?:.*\.)?(?:import|except)", indexable=True), spans=False),
    case(r"(?:[a-z]+_)?(?:return|yield)\b", indexable=True),
    case(r"\w*(?:def|class)\w*"),
    case(r"a(.*c)|^def"),  # ripgrep#1203
    case("привет", case="insensitive"),  # ripgrep#251
    case("ПРИВЕТ", case="insensitive"),
    case("ÅNGSTRÖM", case="insensitive"),
    case("kelvin", case="insensitive", indexable=True),  # rust-lang/regex#428
    case("KELVIN", case="insensitive", indexable=True),
    case("\u212aelvin", case="insensitive", indexable=True),
    case("\u212aelvin"),
    case("straſse", case="insensitive"),
    case("strasse", case="insensitive"),
    case("straße", case="insensitive"),
    case("STRASSE", case="insensitive"),
    case("ß", case="insensitive"),
    case("ſ", case="insensitive"),
    case("K", case="insensitive"),
    case("self$", indexable=True),  # ripgrep#1568
    case("self$", crlf=True, indexable=True),
    case(r"\s$"),
    case(r"\r$"),
    case(r"\r", crlf=True),
    case("crlf.$"),
    case("crlf.$", crlf=True),
    case("^"),
    case("$"),
    case("^$"),  # ripgrep#1891
    case("^$", crlf=True),
    case(r"\A", max_count=2),  # ripgrep#1878
    case(r"\z", max_count=2),
    case(r"\Aimport"),
    case(r"\Aimport", multiline=True),
    case(r"\z", multiline=True),
    case(r"return\z", multiline=True, indexable=True),
    case(r"import\n", multiline=True, max_count=1),  # ripgrep#1412
    case(r"\n\n\n", multiline=True, max_count=2),
    case(r"(?s)^def.{1,80}return", multiline=True, indexable=True, max_count=2),
    case(r"else:\s+pass", multiline=True, indexable=True),
    case("else:.pass", multiline=True, multiline_dotall=True, indexable=True),
    case("[^a]{3}zip"),
    case(r"\W\Wzip\W"),
    case(r"TypeError\W", case="smart", indexable=True),  # fzf-lua#825
    case(r"typeerror\W", case="smart", indexable=True),
    case(r"typeerror[A-Z]?", case="smart", indexable=True),
    case(r"\Sypeerror", case="smart", indexable=True),
    case("-dash", indexable=True),  # telescope.nvim#1613
    case("--flag", indexable=True),
    case("-e"),
    case('"quoted"', indexable=True),
    case("it's", indexable=True),
    case("$HOME `x` $(y)", fixed_strings=True),
    case("{", fixed_strings=True),
    case("a{", fixed_strings=True),
    case("f(", fixed_strings=True),
    case("[", fixed_strings=True),
    case("\\", fixed_strings=True),
    case("*", fixed_strings=True),
    case(" leading", fixed_strings=True),
    case("two  spaces", fixed_strings=True),
    case("|".join(f"needle{number}" for number in range(3000)), indexable=True),  # ripgrep#362
    case("(a+)+$"),  # backtracking
    case("(x+x+)+y"),
    case("(?:a|aa)+b"),
    case("(.*)(.*)(.*)(.*)(.*)zzzz"),
)

#: Patterns that match nearly everywhere: for the small corpus only, since all of it answers.
BROAD: tuple[Case, ...] = (
    case("a*"),  # ripgrep#980
    case("x*", max_count=2),
    case(""),
    case("|x", max_count=2),
    case("()", max_count=1),
    case(r"\b", max_count=2),
    # Not with -m: ripgrep 15.2 then shows lines with the pattern as lines without it.
    case("e", invert=True, after=1),
)

#: Every construct of the dialect.
DIALECT: tuple[Case, ...] = (
    case(r"\d{4}-\d{2}"),
    case(r"[[:digit:]]{3,}\.[[:xdigit:]]+"),
    case(r"\x41\x42"),
    case(r"\x{1F600}|\u{e9}"),
    case(r"\u00e9"),
    case(r"\U0001F600"),
    case(r"\t\w+"),
    case(r"\a|\f|\v"),
    case(r"\.py\b"),
    case(r"\pL{30,}"),
    case(r"\p{Greek}"),
    case(r"\p{Lu}\p{Ll}+Error", indexable=True),
    case(r"\P{ASCII}{3}"),
    case(r"[^\x00-\x7F]"),
    case(r"[\p{Greek}&&\pL]+"),
    case(r"[a-z&&[^aeiou]]{8,}"),
    case(r"[\w--\d]{20,}"),
    case(r"[a-g~~c-j]{7,}"),
    case(r"[]a]\]"),
    case(r"[^]a]\]"),
    case(r"[-a]b-"),
    case("[a-]b"),
    case("(?i)select(?-i) From"),
    case("(?i:select) from"),
    case("(?x) sel f \\. # comment\n [a-c]+", indexable=True, max_count=2),
    case("(?P<name>impor)t os", indexable=True),
    case("(?<name>impor)t re", indexable=True),
    case("(?:self|cls)", indexable=True, max_count=2),
    case(r"(?m)^import$"),
    case("(?s)a.b", multiline=True, max_count=2),
    case("(?U)a.*b", max_count=1),
    case("a.*?b", max_count=1),
    case(r"\bself\.\w{12,}\(\)", indexable=True),
    case(r"\b{start}wor"),
    case(r"ing\b{end}", max_count=2),
    case(r"\b{start-half}self", indexable=True, max_count=2),
    case(r"\<def\>", indexable=True, max_count=2),
    case(r"(?-u:\xe9)"),
    case(r"(?-u:\xff)"),
    case(r"(?-u)\w{25,}"),
    case(r"caf(?-u:\xc3\xa9)"),
    case(r"\w{25,}", unicode=False),
    case("é", unicode=False),
    case(r"\bé\b"),
    case("e{3}", max_count=1),
    case("(ab|cd){2}"),
    case(r"(?:\d+,){4}"),
    case("x{0}import os", indexable=True),
    case("self", word=True, indexable=True, max_count=2),
    case("foo|bar", word=True, indexable=True),
    case("-x", word=True),
    case(r"\(", word=True, max_count=2),
    case("import os|import sys", line=True, indexable=True),
    case("a|b", line=True),
    case("", line=True, max_count=2),
    case("self", invert=True, max_count=1),
    case("^", invert=True),
    case("import", text=True, indexable=True, max_count=2),
    case("libc", binary=True, indexable=True),
    case("GLIBC"),
    case("python", indexable=True, max_count=1),
    case("python", text=True, indexable=True, max_count=1),
    case("the", indexable=True, max_count=1),
    case("of"),
    case("q.z"),
    case("zq"),
    case("q"),
)

#: Which files: each flag that chooses some.
SCOPES: tuple[dict[str, object], ...] = (
    {},
    {"hidden": True},
    {"no_ignore": True},
    {"hidden": True, "no_ignore": True},
    {"no_ignore_vcs": True},
    {"globs": ("*.py",)},
    {"globs": ("!*.py",)},
    {"globs": ("*.{c,h,txt}", "!*_test*")},
    {"globs": ("/a*",)},
    {"iglobs": ("*.PY",)},
    {"types": ("py",)},
    {"types": ("py", "md")},
    {"types_not": ("py",)},
    {"max_depth": 1},
    {"max_depth": 2, "hidden": True},
    {"max_filesize": 2000},
    {"text": True},
    {"binary": True},
    {"follow": True},
)


def scoped(pattern: str, indexable: bool = False) -> Iterator[Case]:
    """``pattern`` with each choice of files."""
    for scope in SCOPES:
        yield case(pattern, indexable=indexable and not scope, **scope)
