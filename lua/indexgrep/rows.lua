--- From the files of an answer to rows, one a match, with no more text than can be shown.

local M = {}

--- Bytes of a line that a row keeps: enough for any screen, so that 10,000 rows from minified files stay
--- small.
M.EXCERPT = 600
--- Matches of one line that become rows. A line of a minified file can have a million.
M.MATCHES_A_LINE = 100

--- A match, or (with `lnum` 0) a word about a file. Columns are bytes from 0; ends are exclusive.
---@class indexgrep.Row
---@field path string relative to the root
---@field lnum integer from 1
---@field col integer
---@field end_lnum integer
---@field end_col integer
---@field offset integer of the row's line in the file
---@field text string the line, or an excerpt around the match
---@field first integer where the match is in `text`
---@field last integer
---@field cut_left boolean the line goes on to the left of `text`
---@field cut_right boolean
---@field note string? instead of a match: why the file is named
---@field error boolean? `note` tells of a fault
---@field unsaved boolean? the text is an unsaved buffer's
---@field buf integer? that buffer, where it is this editor's

---@param byte integer?
---@return boolean
local function is_continuation(byte)
  return byte ~= nil and byte >= 0x80 and byte < 0xC0
end

--- A position at or after `at` (from 1) that does not cut a UTF-8 character, looking at most 3 bytes on.
---@param text string
---@param at integer
---@return integer
local function character_start(text, at)
  for candidate = at, math.min(at + 3, #text) do
    if not is_continuation(text:byte(candidate)) then
      return candidate
    end
  end
  return at
end

--- A line of a block. Positions are bytes of the block from 0, ends exclusive.
---@class indexgrep.BlockLine
---@field number integer lines before it
---@field start integer
---@field stop integer without its terminator
---@field feed integer? its line feed, from 1

---@param block string
---@param number integer
---@param start integer
---@return indexgrep.BlockLine
local function line_from(block, number, start)
  local feed = block:find("\n", start + 1, true)
  local stop = feed and feed - 1 or #block
  if stop > start and block:byte(stop) == 13 then
    stop = stop - 1
  end
  return { number = number, start = start, stop = stop, feed = feed }
end

--- The line that byte `at` is in: `line` or one after it, so that a block is walked once, however many
--- matches it holds.
---@param block string
---@param line indexgrep.BlockLine
---@param at integer
---@return indexgrep.BlockLine
local function line_of(block, line, at)
  -- A match may end behind the last line feed; that is still the last line.
  while line.feed and line.feed <= at and line.feed < #block do
    line = line_from(block, line.number + 1, line.feed)
  end
  return line
end

--- The part of a line around the byte range [first, last) of it that a row keeps.
---@param block string
---@param line indexgrep.BlockLine
---@param first integer from the line's start
---@param last integer
---@return string text
---@return integer first
---@return integer last
---@return boolean cut_left
---@return boolean cut_right
local function excerpt(block, line, first, last)
  local length = line.stop - line.start
  if length <= M.EXCERPT then
    return block:sub(line.start + 1, line.stop), first, last, false, false
  end
  -- A third before the match, the rest for the match and what follows.
  local from = math.max(0, math.min(first - math.floor(M.EXCERPT / 3), length - M.EXCERPT))
  if from > 0 then
    from = character_start(block, line.start + from + 1) - line.start - 1
  end
  local to = math.min(length, from + M.EXCERPT)
  if to < length then
    to = math.min(character_start(block, line.start + to + 1) - line.start - 1, length)
  end
  return block:sub(line.start + from + 1, line.start + to),
    first - from,
    math.max(first, math.min(last, to)) - from,
    from > 0,
    to < length
end

---@param path string
---@param line any[] `{number, offset, text, spans, match}`
---@param rows indexgrep.Row[]
---@return integer unshown matches that got no row
local function add_line(path, line, rows)
  local number, offset, block, spans = line[1], line[2], line[3], line[4]
  local current, in_line, unshown = line_from(block, 0, 0), 0, 0
  -- A line that matches without a span (an inverted match) is one row, at its first column.
  for index = 1, math.max(#spans, 1) do
    local span = spans[index] or { 0, 0 }
    local first_line = line_of(block, current, span[1])
    in_line = first_line.number == current.number and in_line + 1 or 1
    current = first_line
    if in_line > M.MATCHES_A_LINE then
      unshown = unshown + 1
    else
      local last_line = line_of(block, first_line, math.max(span[1], span[2] - 1))
      local length = first_line.stop - first_line.start
      local col = math.min(span[1] - first_line.start, length)
      local end_col = math.min(span[2], last_line.stop) - last_line.start
      local visible_end = last_line.number == first_line.number and math.max(end_col, col) or length
      local text, first, last, cut_left, cut_right = excerpt(block, first_line, col, visible_end)
      table.insert(rows, {
        path = path,
        lnum = number + first_line.number,
        col = col,
        end_lnum = number + last_line.number,
        end_col = end_col,
        offset = offset + first_line.start,
        text = text,
        first = first,
        last = last,
        cut_left = cut_left,
        cut_right = cut_right,
      })
    end
  end
  return unshown
end

---@param path string
---@param note string
---@param is_error boolean
---@return indexgrep.Row
local function note_row(path, note, is_error)
  return {
    path = path,
    lnum = 0,
    col = 0,
    end_lnum = 0,
    end_col = 0,
    offset = 0,
    text = "",
    first = 0,
    last = 0,
    cut_left = false,
    cut_right = false,
    note = note,
    error = is_error,
  }
end

--- Appends the rows of one file.
---@param file indexgrep.File
---@param rows indexgrep.Row[]
---@param buf integer? this editor's unsaved buffer that the text is of
---@return integer unshown matches that got no row, for there are too many in a line
function M.add(file, rows, buf)
  local unshown, before = 0, #rows
  for _, line in ipairs(file.lines) do
    if line[5] then
      unshown = unshown + add_line(file.path, line, rows)
    end
  end
  if type(file.binary_offset) == "number" then
    local note = ("binary file matches (a NUL byte at offset %d)"):format(file.binary_offset)
    table.insert(rows, note_row(file.path, note, false))
  elseif type(file.error) == "string" then
    table.insert(rows, note_row(file.path, file.error, true))
  end
  if file.source == "buffer" then
    for index = before + 1, #rows do
      rows[index].unsaved, rows[index].buf = true, buf
    end
  end
  return unshown
end

return M
