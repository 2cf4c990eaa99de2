--- The bytes that `:write` would write of a buffer, gathered piece by piece, so that the editor is never held
--- for longer than somebody who types can feel.
---
--- They follow 'fileformat', 'fileencoding', 'bomb', 'binary', 'endofline', 'fixendofline' and 'endoffile'
--- as the writing itself does. A text that cannot be written in its 'fileencoding' without loss is given as
--- UTF-8. Two things only the writing knows: what autocommands for |BufWritePre| change, and that a file read
--- without its last line end is written so with both 'binary' and 'endofline' set.

local encoding = require("indexgrep.encoding")

local api = vim.api

local M = {}

--- What is fetched at a time, so many lines and about so many bytes at most: 0.1 ms of work, the grain in
--- which the clock is looked at. To convert takes longer.
local LINES, BYTES, CONVERTED_BYTES = 256, 32 * 1024, 4 * 1024

--- Options that say how a buffer is written.
M.OPTIONS = { "fileformat", "fileencoding", "bomb", "binary", "endofline", "fixendofline", "endoffile" }

---@param buf integer
---@return table<string, string|boolean>
local function options_of(buf)
  local options = {}
  for _, name in ipairs(M.OPTIONS) do
    options[name] = api.nvim_get_option_value(name, { buf = buf })
  end
  return options
end

---@param tick integer
---@param options table<string, string|boolean>
---@return string
local function stamp_of(tick, options)
  local parts = { tostring(tick) }
  for _, name in ipairs(M.OPTIONS) do
    table.insert(parts, tostring(options[name]))
  end
  return table.concat(parts, " ")
end

--- What tells two texts of a loaded buffer apart: the same stamp means the same bytes.
---@param buf integer
---@return string
function M.stamp(buf)
  return stamp_of(api.nvim_buf_get_changedtick(buf), options_of(buf))
end

--- About how many bytes the text of a loaded buffer has, without looking at it: those it has in the editor.
---@param buf integer
---@return integer
function M.size(buf)
  return api.nvim_buf_get_offset(buf, api.nvim_buf_line_count(buf))
end

--- Whether a loaded buffer is written in another encoding than the editor's own.
---@param buf integer
---@return boolean
function M.is_converted(buf)
  local name = api.nvim_get_option_value("fileencoding", { buf = buf })
  return name ~= "" and name ~= "utf-8"
end

--- Whether a loaded buffer holds nothing at all, not even one empty line.
---@param buf integer
---@return boolean
local function is_void(buf)
  if api.nvim_buf_line_count(buf) > 1 or api.nvim_buf_get_lines(buf, 0, 1, false)[1] ~= "" then
    return false
  end
  return api.nvim_buf_call(buf, function()
    return vim.fn.wordcount().chars == 0
  end)
end

--- Where the lines that are fetched next end.
---@param buf integer
---@param first integer
---@param lines integer that the buffer has
---@param most integer bytes
---@return integer
local function portion_end(buf, first, lines, most)
  local offset = api.nvim_buf_get_offset
  local count = math.min(LINES, lines - first)
  while count > 1 and offset(buf, first + count) - offset(buf, first) > most do
    count = math.floor(count / 2)
  end
  return first + count
end

--- (A pattern would be tried at each byte, which takes most of the time.)
---@param text string
---@return integer
local function count_feeds(text)
  local count, at = 0, text:find("\n", 1, true)
  while at do
    count, at = count + 1, text:find("\n", at + 1, true)
  end
  return count
end

--- Line ends as they stand in a string of Vim script.
local ESCAPED = { ["\n"] = "\\n", ["\r\n"] = "\\r\\n" }

--- Lines of a buffer as one text. Neovim joins them: as many strings as a buffer has lines, again and again,
--- would make Lua's table of strings grow and shrink, and that holds the editor for longer than the rest.
---@param buf integer
---@param first integer from 0
---@param last integer exclusive
---@param newline string
---@return string
local function lines_of(buf, first, last, newline)
  local is_mac = newline == "\r"
  local separator = is_mac and "\n" or newline
  local text =
    vim.fn.eval(('join(getbufline(%d, %d, %d), "%s")'):format(buf, first + 1, last, ESCAPED[separator]))
  if count_feeds(text) ~= last - first - 1 then
    -- There are NUL bytes, which are line feeds in that text.
    text = table.concat(api.nvim_buf_get_lines(buf, first, last, false), separator)
  end
  if is_mac then
    -- A line feed is only a character in such a file; a carriage return in the buffer stands for it.
    text = text:gsub("[\r\n]", { ["\r"] = "\n", ["\n"] = "\r" })
  end
  return text
end

--- Reads one buffer, as it is when the reading begins.
---@class indexgrep.TextReader
---@field stamp string the buffer's when the reading began
---@field pieces string[] the text so far
---@field size integer bytes of the pieces
---@field private buf integer
---@field private tick integer
---@field private lines integer
---@field private at integer lines read
---@field private newline string
---@field private encoding string? to convert to
---@field private mark string
---@field private has_end boolean the last line ends as the others do
---@field private tail string what comes after it
local Reader = {}
Reader.__index = Reader

---@private
---@param piece string
function Reader:add(piece)
  if piece ~= "" then
    table.insert(self.pieces, piece)
    self.size = self.size + #piece
  end
end

---@private
function Reader:begin()
  self.at, self.pieces, self.size = 0, {}, 0
  self:add(self.mark)
end

--- Reads the next lines.
---@private
function Reader:take()
  local most = self.encoding and CONVERTED_BYTES or BYTES
  local last = portion_end(self.buf, self.at, self.lines, most)
  local text = lines_of(self.buf, self.at, last, self.newline)
  if last < self.lines or self.has_end then
    text = text .. self.newline
  end
  self.at = last
  if self.encoding then
    local result = encoding.convert(text, self.encoding)
    if not result then
      self.encoding, self.mark = nil, ""
      return self:begin()
    end
    text = result
  end
  self:add(text)
end

--- Goes on reading until `deadline`. `moved` means that the buffer was changed or unloaded meanwhile: this
--- reader has nothing to say any more.
---@param deadline number of vim.uv.hrtime()
---@return 'done'|'more'|'moved'
function Reader:step(deadline)
  if not api.nvim_buf_is_loaded(self.buf) or api.nvim_buf_get_changedtick(self.buf) ~= self.tick then
    return "moved"
  end
  while self.at < self.lines do
    self:take()
    if self.at < self.lines and vim.uv.hrtime() >= deadline then
      return "more"
    end
  end
  self:add(self.tail)
  return "done"
end

--- A reader of a loaded buffer.
---@param buf integer
---@return indexgrep.TextReader
function M.reader(buf)
  local options = options_of(buf)
  local tick = api.nvim_buf_get_changedtick(buf)
  local binary, fixed = options.binary, options.fixendofline
  local name = options.fileencoding --[[@as string]]
  local newline = ({ unix = "\n", dos = "\r\n", mac = "\r" })[options.fileformat]
  local self = setmetatable({
    buf = buf,
    tick = tick,
    stamp = stamp_of(tick, options),
    lines = is_void(buf) and 0 or api.nvim_buf_line_count(buf),
    newline = binary and "\n" or newline,
    encoding = M.is_converted(buf) and name or nil,
    mark = options.bomb and not binary and encoding.mark(name) or "",
    has_end = options.endofline or (fixed and not binary),
    tail = options.endoffile and not fixed and "\26" or "",
  }, Reader)
  self:begin()
  return self
end

return M
