--- The preview: the part of a file around a match, read without blocking and bounded in every direction.
---
--- A file up to `max_bytes` is read whole; of a larger one, what is around the match, with its true line
--- numbers. Of an unsaved buffer its text is shown, bounded likewise. Long lines are cut, the matched one
--- around its match. Colours come from treesitter where there is a parser, else from syntax files; the text
--- is bounded, so both are.

local M = {}

local ns = vim.api.nvim_create_namespace("indexgrep_preview")

--- Of a file that is not read whole: so much before the match's line, and so much from there on.
local AROUND = 64 * 1024
--- Of a buffer that is not shown whole: so many lines on either side.
local AROUND_LINES = 1000

---@class indexgrep.Excerpt text of a file as it is shown
---@field path string absolute
---@field lines string[]
---@field first_lnum integer the number of lines[1] in the file
---@field complete boolean the whole file
---@field message string? shown instead of text
---@field stamp string identity of the file's state when it was read

---@class indexgrep.Preview
---@field win integer
---@field buf integer
---@field config indexgrep.config.Preview
---@field private shown indexgrep.Excerpt?
---@field private ticket integer the last request; older ones are stale
local Preview = {}
Preview.__index = Preview

---@param path string
---@param callback fun(err: string?, data: string?, stat: table?)
---@param range fun(size: integer): integer, integer offset and length to read
local function read(path, range, callback)
  local uv = vim.uv
  -- Opened only when it is a plain file: to open a FIFO waits for its writer.
  uv.fs_stat(path, function(stat_err, stat)
    if not stat then
      return callback(stat_err or "it is gone")
    elseif stat.type ~= "file" then
      return callback(("it is a %s"):format(stat.type))
    end
    uv.fs_open(path, "r", 0, function(open_err, descriptor)
      if not descriptor then
        return callback(open_err)
      end
      local offset, length = range(stat.size)
      uv.fs_read(descriptor, length, offset, function(read_err, data)
        uv.fs_close(descriptor)
        callback(read_err, data, stat)
      end)
    end)
  end)
end

--- `text` as UTF-8 where a byte-order mark says that it is UTF-16, without the mark in any case.
---@param text string
---@return string text
---@return boolean converted
local function decode(text)
  local mark = text:sub(1, 2)
  if mark == "\255\254" or mark == "\254\255" then
    return require("indexgrep.encoding").read_utf16(text:sub(3), mark == "\255\254" and "le" or "be"), true
  elseif text:sub(1, 3) == "\239\187\191" then
    return text:sub(4), false
  end
  return text, false
end

---@param line string
---@param max integer
---@return string
local function clipped(line, max)
  if line:sub(-1) == "\r" then
    line = line:sub(1, -2)
  end
  if #line > max then
    local to = max
    while to > max - 3 and (line:byte(to + 1) or 0) >= 0x80 and line:byte(to + 1) < 0xC0 do
      to = to - 1
    end
    return line:sub(1, to) .. "…"
  end
  return line
end

---@param text string
---@param max integer
---@return string[]
local function to_lines(text, max)
  local lines = vim.split(text, "\n", { plain = true })
  if #lines > 1 and lines[#lines] == "" then
    table.remove(lines)
  end
  for index, line in ipairs(lines) do
    lines[index] = clipped(line, max)
  end
  return lines
end

---@param path string
---@param message string
---@return indexgrep.Excerpt
local function message_excerpt(path, message)
  return { path = path, lines = {}, first_lnum = 1, complete = false, message = message, stamp = "" }
end

---@param stat table
---@return string
local function stamp_of(stat)
  return ("%d.%d.%d.%d"):format(stat.size, stat.mtime.sec, stat.mtime.nsec, stat.ino)
end

--- Makes an excerpt of the bytes that were read. `from` is the offset of the first of them.
---@param path string
---@param row indexgrep.Row
---@param data string
---@param from integer
---@param stat table
---@param config indexgrep.config.Preview
---@return indexgrep.Excerpt
local function excerpt_of(path, row, data, from, stat, config)
  local text, converted = data, false
  if from == 0 then
    text, converted = decode(data)
  end
  if not converted and text:find("\0", 1, true) then
    return message_excerpt(path, "This is a binary file.")
  end
  local stamp = stamp_of(stat)
  if #data >= stat.size then
    return {
      path = path,
      lines = to_lines(text, config.max_line),
      first_lnum = 1,
      complete = true,
      stamp = stamp,
    }
  elseif converted then
    return message_excerpt(path, "This file is too large to be shown in its encoding.")
  end
  -- A part: the lines that end before the match's line, then that line and the rest.
  local before = text:sub(1, row.offset - from)
  local after = text:sub(row.offset - from + 1)
  local lines = before == "" and {} or to_lines(before, config.max_line)
  if from > 0 and #lines > 0 then
    table.remove(lines, 1) -- begins in the middle of a line
  end
  local first_lnum = row.lnum - #lines
  vim.list_extend(lines, to_lines(after, config.max_line))
  return { path = path, lines = lines, first_lnum = first_lnum, complete = false, stamp = stamp }
end

--- What tells the states of a buffer's text apart.
---@param buf integer
---@return string
local function buffer_stamp(buf)
  return ("%d %d"):format(buf, vim.api.nvim_buf_get_changedtick(buf))
end

--- How many of the `most` lines before or after line `at` (from 0) are not too much text to show.
---@param buf integer
---@param at integer
---@param most integer
---@param direction -1|1
---@return integer
local function fitting(buf, at, most, direction)
  local offset = vim.api.nvim_buf_get_offset
  local lines = math.min(most, AROUND_LINES)
  while lines > 1 and math.abs(offset(buf, at + direction * lines) - offset(buf, at)) > AROUND do
    lines = math.floor(lines / 2)
  end
  return lines
end

--- The text of a buffer, or what is around a line of it.
---@param path string
---@param buf integer
---@param lnum integer
---@param config indexgrep.config.Preview
---@return indexgrep.Excerpt
local function buffer_excerpt(path, buf, lnum, config)
  local count = vim.api.nvim_buf_line_count(buf)
  local first, last = 0, count
  if vim.api.nvim_buf_get_offset(buf, count) > config.max_bytes then
    local at = math.min(lnum, count) - 1
    first = at - fitting(buf, at, at, -1)
    last = at + fitting(buf, at, count - at, 1)
  end
  local lines = vim.api.nvim_buf_get_lines(buf, first, last, false)
  for index, line in ipairs(lines) do
    lines[index] = clipped(line, config.max_line)
  end
  return {
    path = path,
    lines = lines,
    first_lnum = first + 1,
    complete = last - first == count,
    stamp = buffer_stamp(buf),
  }
end

--- The unsaved buffer of this editor that a row is of.
---@param row indexgrep.Row
---@return integer?
local function buffer_of(row)
  return row.buf and vim.api.nvim_buf_is_loaded(row.buf) and row.buf or nil
end

--- A row as it is in the text that is shown.
---@param row indexgrep.Row
---@return indexgrep.Row
local function placed(row)
  local buf = buffer_of(row)
  return buf and vim.tbl_extend("force", row, require("indexgrep.place").of(buf, row)) or row
end

---@param row indexgrep.Row
---@param siblings indexgrep.Row[]
---@return indexgrep.Row
---@return indexgrep.Row[]
local function placed_among(row, siblings)
  local among = {}
  local own = row
  for index, sibling in ipairs(siblings) do
    among[index] = placed(sibling)
    own = sibling == row and among[index] or own
  end
  return own, among
end

--- Whether the excerpt holds the row's line.
---@param excerpt indexgrep.Excerpt?
---@param path string
---@param row indexgrep.Row
---@return boolean
local function holds(excerpt, path, row)
  if not excerpt or excerpt.path ~= path or excerpt.message then
    return false
  end
  local buf = buffer_of(row)
  if buf and excerpt.stamp ~= buffer_stamp(buf) then
    return false
  end
  local index = row.lnum - excerpt.first_lnum + 1
  -- The last line of a part may be cut off, and near an end there is too little to see around it.
  local margin = excerpt.complete and 0 or 20
  return index >= 1 and index <= #excerpt.lines - margin
end

---@return boolean
function Preview:is_valid()
  return vim.api.nvim_win_is_valid(self.win) and vim.api.nvim_buf_is_valid(self.buf)
end

---@private
---@param lines string[]
function Preview:set_lines(lines)
  vim.bo[self.buf].modifiable = true
  vim.api.nvim_buf_set_lines(self.buf, 0, -1, false, lines)
  vim.bo[self.buf].modifiable = false
end

--- A line of the excerpt's own, in place of one of the file.
---@private
---@param message string
function Preview:show_message(message)
  vim.treesitter.stop(self.buf)
  vim.bo[self.buf].syntax = ""
  self:set_lines({ "", "  " .. message })
  vim.wo[self.win].statuscolumn = ""
  vim.wo[self.win].number = false
  vim.api.nvim_buf_set_extmark(
    self.buf,
    ns,
    1,
    0,
    { end_row = 2, hl_group = "IndexGrepNote", strict = false }
  )
end

---@private
---@param excerpt indexgrep.Excerpt
function Preview:colour(excerpt)
  vim.treesitter.stop(self.buf)
  vim.bo[self.buf].syntax = ""
  if not self.config.highlight then
    return
  end
  local ok, filetype = pcall(vim.filetype.match, { filename = excerpt.path, buf = self.buf })
  if not ok or not filetype then
    return
  end
  local language = vim.treesitter.language.get_lang(filetype)
  if not (language and pcall(vim.treesitter.start, self.buf, language)) then
    vim.bo[self.buf].syntax = filetype
  end
end

---@private
---@param excerpt indexgrep.Excerpt
function Preview:place(excerpt)
  vim.api.nvim_buf_clear_namespace(self.buf, ns, 0, -1)
  if excerpt.message then
    return self:show_message(excerpt.message)
  end
  self:set_lines(excerpt.lines)
  vim.wo[self.win].number = true
  local ahead = excerpt.first_lnum - 1
  vim.wo[self.win].statuscolumn = ahead > 0 and ("%%=%%{v:lnum+%d} "):format(ahead) or ""
  self:colour(excerpt)
end

--- Highlights the matches of the file in the excerpt and moves to the row's.
---@private
---@param excerpt indexgrep.Excerpt
---@param row indexgrep.Row
---@param siblings indexgrep.Row[] rows of the same file, the row among them
function Preview:mark(excerpt, row, siblings)
  vim.api.nvim_buf_clear_namespace(self.buf, ns, 0, -1)
  if excerpt.message then
    return
  end
  local target = row.lnum - excerpt.first_lnum
  local first, last = row.col, row.end_lnum == row.lnum and row.end_col or -1
  local line = excerpt.lines[target + 1]
  if line and (row.cut_left or row.cut_right) then
    -- The line is too long to show: its excerpt stands for it.
    first, last = row.first, row.last
    vim.bo[self.buf].modifiable = true
    local text = clipped(row.text, #row.text)
    excerpt.lines[target + 1] = text
    vim.api.nvim_buf_set_lines(self.buf, target, target + 1, false, { text })
    vim.bo[self.buf].modifiable = false
  end
  for _, sibling in ipairs(siblings) do
    local index = sibling.lnum - excerpt.first_lnum
    local is_row = sibling == row
    local long = sibling.cut_left or sibling.cut_right
    if index >= 0 and index < #excerpt.lines and (is_row or not long) then
      vim.api.nvim_buf_set_extmark(self.buf, ns, index, is_row and first or sibling.col, {
        end_row = is_row and long and index or sibling.end_lnum - excerpt.first_lnum,
        end_col = is_row and last >= 0 and last or sibling.end_col,
        hl_group = is_row and "IndexGrepPreviewCurrent" or "IndexGrepPreviewMatch",
        priority = is_row and 210 or 200,
        strict = false,
      })
    end
  end
  local lnum = math.max(1, math.min(target + 1, vim.api.nvim_buf_line_count(self.buf)))
  vim.api.nvim_win_set_cursor(self.win, { lnum, first })
  vim.api.nvim_win_call(self.win, function()
    vim.cmd("normal! zz")
  end)
end

--- Shows the place of `row`. At once where its part of the file is shown already, else when it was read.
---@param root string
---@param row indexgrep.Row
---@param siblings indexgrep.Row[]
function Preview:show(root, row, siblings)
  self.ticket = self.ticket + 1
  local ticket = self.ticket
  local path = vim.fs.joinpath(root, row.path)
  local buf = buffer_of(row)
  if buf then
    row, siblings = placed_among(row, siblings)
  end
  if row.note then
    self.shown = message_excerpt(path, row.note)
    return self:place(self.shown)
  elseif holds(self.shown, path, row) then
    return self:mark(self.shown, row, siblings)
  elseif buf then
    self.shown = buffer_excerpt(path, buf, row.lnum, self.config)
    self:place(self.shown)
    return self:mark(self.shown, row, siblings)
  elseif row.unsaved and not row.buf then
    self.shown = message_excerpt(path, "This is the unsaved text of another editor.")
    return self:place(self.shown)
  end
  local from = 0
  read(
    path,
    function(size)
      if size <= self.config.max_bytes then
        return 0, size
      end
      from = math.max(0, row.offset - AROUND)
      return from, row.offset - from + AROUND
    end,
    vim.schedule_wrap(function(err, data, stat)
      if ticket ~= self.ticket or not self:is_valid() then
        return
      end
      if err or not data then
        self.shown = message_excerpt(path, ("No preview: %s."):format(err or "it is empty"))
      else
        self.shown = excerpt_of(path, row, data, from, stat, self.config)
      end
      self:place(self.shown)
      self:mark(self.shown, row, siblings)
    end)
  )
end

--- Whether `show` would show this row at once.
---@param root string
---@param row indexgrep.Row
---@return boolean
function Preview:is_near(root, row)
  return holds(self.shown, vim.fs.joinpath(root, row.path), placed(row))
end

--- Shows nothing.
function Preview:clear()
  self.ticket = self.ticket + 1
  self.shown = nil
  self:set_lines({})
end

---@param win integer the window to show it in
---@param buf integer a scratch buffer of its own
---@param config indexgrep.config.Preview
---@return indexgrep.Preview
function M.new(win, buf, config)
  return setmetatable({ win = win, buf = buf, config = config, ticket = 0 }, Preview)
end

return M
