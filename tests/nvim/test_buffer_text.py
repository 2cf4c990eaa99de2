"""The bytes that are sent of an unsaved buffer are those that ``:write`` writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.editor import Editor, write_init

pytestmark = [pytest.mark.nvim, pytest.mark.timeout(300)]

#: Reads the current buffer in as many steps as can be, then lets Neovim write it. The bytes as hex, for a
#: string with a NUL byte may not cross as it is; the error of a write that failed, or (the buffer stays
#: modified) put something else in the place of what the encoding lacks.
_COMPARE = """
local buf = vim.api.nvim_get_current_buf()
local function read()
  local reader = require('indexgrep.buffer_text').reader(buf)
  repeat local state = reader:step(0) until state ~= 'more'
  return vim.text.hexencode(table.concat(reader.pieces))
end
local text = read()
local ok, err = pcall(vim.cmd, 'silent write!')
local file = io.open(vim.api.nvim_buf_get_name(buf), 'rb')
local written = ok and vim.text.hexencode(file:read('*a')) or ''
file:close()
return { text, written, not ok and tostring(err) or vim.bo.modified and 'E513: written with gaps' or '' }
"""

_SETUP = """
local content, options, edit = ...
local function decoded(hex)
  return hex == '' and '' or vim.text.hexdecode(hex)
end
local name = vim.api.nvim_buf_get_name(0)
local file = assert(io.open(name, 'wb'))
file:write(decoded(content))
file:close()
vim.cmd('silent edit! ++enc=utf-8 ++bad=keep')
vim.cmd('setlocal undolevels=-1')
if edit ~= vim.NIL then
  local last = vim.api.nvim_buf_line_count(0)
  vim.api.nvim_buf_set_lines(0, edit[1] % last, edit[1] % last + edit[2], false,
    vim.tbl_map(decoded, edit[3]))
end
for option, value in pairs(options) do
  vim.api.nvim_set_option_value(option, value, { scope = 'local' })
end
"""


@pytest.fixture(scope="module")
def editor(nvim: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    directory = tmp_path_factory.mktemp("text")
    init = write_init(directory / "init.lua", "vim.o.fsync = false\n")
    with Editor(nvim, init, cwd=directory, arguments=["file.txt"]) as started:
        yield started


@dataclass(frozen=True)
class Edit:
    """Lines put in the place of others."""

    at: int
    replaced: int
    lines: list[bytes]


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\n")
#: Words that some encodings have and others lack, and what means something where line ends or marks are read.
PIECES = st.sampled_from(["foo", "é", "Ω", "日本", "\U0001f600", "\r", "\0", "\x1a", "\ufeff", "", " "])
TEXT_LINES = st.lists(PIECES | st.text(CHARACTERS, max_size=5), max_size=4).map("".join)
RAW_LINES = st.binary(max_size=6).map(lambda data: data.replace(b"\n", b""))
CONTENTS = st.lists(RAW_LINES | TEXT_LINES.map(str.encode), max_size=8).flatmap(
    lambda lines: st.sampled_from([b"\n", b"\r\n", b"\r"]).flatmap(
        lambda end: st.sampled_from([b"", end]).map(lambda last: end.join(lines) + last)
    )
)
EDITS = st.none() | st.builds(
    Edit,
    st.integers(0, 9),
    st.integers(0, 9),
    st.lists(TEXT_LINES.map(str.encode) | RAW_LINES, max_size=4),
)
FLAGS = ["bomb", "binary", "endofline", "fixendofline", "endoffile"]
WRITING = st.fixed_dictionaries(
    {"fileformat": st.sampled_from(["unix", "dos", "mac"]), **{name: st.booleans() for name in FLAGS}}
)


def compare(
    editor: Editor, content: bytes, options: dict[str, object], edit: Edit | None
) -> tuple[bytes, bytes, str]:
    wire = None if edit is None else [edit.at, edit.replaced, [line.hex() for line in edit.lines]]
    editor.lua(_SETUP, content.hex(), options, wire)
    text, written, error = editor.lua(_COMPARE)
    return bytes.fromhex(text), bytes.fromhex(written), error


@settings(max_examples=400)
@given(CONTENTS, WRITING, EDITS)
@example(b"", {}, None)
@example(b"\n", {}, None)
@example(b"x", {"fixendofline": False}, None)
@example(b"x\n", {}, Edit(0, 1, []))
@example(b"x\n", {}, Edit(0, 1, [b""]))
@example(b"a\nb\n", {"bomb": True}, Edit(0, 2, []))
@example(b"a\rb\n\rc", {"fileformat": "mac"}, None)
@example(b"a\r\nb\x1a", {"fixendofline": False, "endoffile": True}, None)
def test_bytes_are_those_of_write(
    editor: Editor, content: bytes, options: dict[str, object], edit: Edit | None
) -> None:
    if options.get("binary") and options.get("endofline"):
        # A file read without its last line end is written so: the one thing that only Neovim knows.
        content = content and content + b"\n"
    text, written, error = compare(editor, content, options, edit)
    assert error == ""
    assert text == written


ENCODINGS = ["latin1", "iso-8859-15", "cp1252", "koi8-r", "cp932", "euc-jp", "gb18030"]
ENCODINGS += ["ucs-2", "ucs-2le", "utf-16", "utf-16le", "ucs-4", "ucs-4le", "utf-8"]


@settings(max_examples=400)
@given(st.lists(TEXT_LINES, max_size=8), st.sampled_from(ENCODINGS), WRITING)
@example(["é"] * 700, "latin1", {})
@example([*["a"] * 700, "Ω"], "latin1", {"bomb": True})
def test_bytes_are_those_of_write_in_every_encoding(
    editor: Editor, lines: list[str], encoding: str, options: dict[str, object]
) -> None:
    edit = Edit(0, 9, [line.encode() for line in lines])
    text, written, error = compare(editor, b"", options | {"fileencoding": encoding}, edit)
    if "E513" in error:  # it cannot be said in that encoding
        plain, written, error = compare(editor, b"", options | {"fileencoding": "utf-8", "bomb": False}, edit)
        assert plain == written
    assert error == ""
    assert text == written


@pytest.mark.parametrize("encoding", ["iso-2022-jp", "utf-7", "hz", "cp037", "no-such-encoding"])
def test_encodings_that_cannot_be_relied_on_are_sent_as_utf8(editor: Editor, encoding: str) -> None:
    """Also where a way back from the encoding, asked of ``vim.iconv``, would end the editor."""
    lines = ["日本\U0001f600\0é", "foo+~"]
    edit = Edit(0, 9, [line.encode() for line in lines])
    text, _, _ = compare(editor, b"", {"fileencoding": encoding}, edit)
    assert text.decode() == "".join(f"{line}\n" for line in lines)


def test_what_is_read_is_of_one_moment(editor: Editor) -> None:
    """A reader under which the buffer changes says so, and never gives a mixture of two texts."""
    editor.command("silent edit! | set ff=unix fenc=utf-8 nobomb nobinary fixeol")
    lua = """
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn.map(vim.fn.range(2000), '"old"'))
    local reader = require('indexgrep.buffer_text').reader(0)
    local first = reader:step(0)
    vim.api.nvim_buf_set_lines(0, 1999, 2000, false, { 'new' })
    return { first, reader:step(0) }
    """
    assert editor.lua(lua) == ["more", "moved"]
    assert (
        editor.lua(
            """
        local text = require('indexgrep.buffer_text')
        local reader = text.reader(vim.api.nvim_get_current_buf())
        vim.cmd('enew! | bunload! #')
        return reader:step(0)
        """
        )
        == "moved"
    )


def test_stamp_moves_with_everything_that_moves_the_text(editor: Editor) -> None:
    editor.command("silent edit! file.txt | set ff=unix fenc=utf-8 nobomb nobinary fixeol eol noeof")
    stamp = "return require('indexgrep.buffer_text').stamp(0)"
    seen = {editor.lua(stamp)}
    changes = ["call setline(1, 'x')", "set ff=dos", "set fenc=latin1", "set bomb", "set binary", "set noeol"]
    for count, change in enumerate([*changes, "set nofixeol", "set eof"], 2):
        editor.command(change)
        seen.add(editor.lua(stamp))
        assert len(seen) == count, change
