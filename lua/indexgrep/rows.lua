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

--- The part of `line` around the byte range [first, last) that a row keeps.
---@param line string
---@param first integer
---@param last integer
---@return string text
---@return integer first
---@return integer last
---@return boolean cut_left
---@return boolean cut_right
function M.excerpt(line, first, last)
  if #line <= M.EXCERPT then
    return line, first, last, false, false
  end
  -- A third before the match, the rest for the match and what follows.
  local from = math.max(0, math.min(first - math.floor(M.EXCERPT / 3), #line - M.EXCERPT))
  if from > 0 then
    from = character_start(line, from + 1) - 1
  end
  local to = math.min(#line, from + M.EXCERPT)
  if to < #line then
    to = character_start(line, to + 1) - 1
  end
  return line:sub(from + 1, to),
    first - from,
    math.max(first, math.min(last, to)) - from,
    from > 0,
    to < #line
end

--- Where byte `at` of a block of lines is: the lines before it, and where its own line begins.
---@param block string
---@param at integer from 0
---@return integer lines
---@return integer start from 0
local function position(block, at)
  local lines, start = 0, 0
  while true do
    local feed = block:find("\n", start + 1, true)
    -- A match may end behind the last line feed; that is still the last line.
    if not feed or feed > at or feed == #block then
      return lines, start
    end
    lines, start = lines + 1, feed
  end
end

--- The line of `block` that begins at `start`, without its terminator.
---@param block string
---@param start integer from 0
---@return string
local function line_at(block, start)
  local feed = block:find("\n", start + 1, true)
  local line = block:sub(start + 1, feed and feed - 1 or #block)
  return line:sub(-1) == "\r" and line:sub(1, -2) or line
end

---@param path string
---@param line any[] `{number, offset, text, spans, match}`
---@param rows indexgrep.Row[]
---@return integer unshown matches that got no row
local function add_line(path, line, rows)
  local number, offset, block, spans = line[1], line[2], line[3], line[4]
  -- A line that matches without a span (an inverted match) is one row, at its first column.
  local total = math.max(#spans, 1)
  for index = 1, math.min(total, M.MATCHES_A_LINE) do
    local span = spans[index] or { 0, 0 }
    local before, start = position(block, span[1])
    local last_before, last_start = position(block, math.max(span[1], span[2] - 1))
    local text = line_at(block, start)
    local col = math.min(span[1] - start, #text)
    local end_col = math.min(span[2] - last_start, #line_at(block, last_start))
    local visible_end = last_before == before and math.max(end_col, col) or #text
    local excerpt, first, last, cut_left, cut_right = M.excerpt(text, col, visible_end)
    table.insert(rows, {
      path = path,
      lnum = number + before,
      col = col,
      end_lnum = number + last_before,
      end_col = end_col,
      offset = offset + start,
      text = excerpt,
      first = first,
      last = last,
      cut_left = cut_left,
      cut_right = cut_right,
    })
  end
  return math.max(total - M.MATCHES_A_LINE, 0)
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
---@return integer unshown matches that got no row, for there are too many in a line
function M.add(file, rows)
  local unshown = 0
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
  return unshown
end

return M
