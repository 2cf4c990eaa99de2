--- Where a row is in the buffer of its file. Lines and columns of the file are not always those of the
--- editor, which converts encodings and line ends when it reads.

local encoding = require("indexgrep.encoding")

local M = {}

--- The range of a match. Lines are from 1, columns are bytes from 0, ends are exclusive.
---@class indexgrep.Place
---@field lnum integer
---@field col integer
---@field end_lnum integer
---@field end_col integer
---@field cut_left boolean? false where the file's line is several lines here
---@field cut_right boolean?

--- The column in the buffer of a byte column in the file's line. (Where the encoding is UTF-16 or its like,
--- the columns are those of UTF-8 already.)
---@param buf integer
---@param lnum integer
---@param col integer
---@return integer
local function column(buf, lnum, col)
  local name = vim.bo[buf].fileencoding
  if name == "" or name:find("^utf") or name:find("^ucs") then
    return col
  end
  local line = vim.api.nvim_buf_get_lines(buf, lnum - 1, lnum, false)[1]
  local bytes = line and encoding.convert(line, name)
  local before = bytes and encoding.read(bytes:sub(1, col), name)
  return before and #before or col
end

--- The line and column of a byte of the buffer's text, each line of which ends in one byte.
---@param buf integer
---@param offset integer
---@return integer lnum
---@return integer col
local function position(buf, offset)
  local low, high = 0, vim.api.nvim_buf_line_count(buf) - 1
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if vim.api.nvim_buf_get_offset(buf, middle) <= offset then
      low = middle
    else
      high = middle - 1
    end
  end
  return low + 1, offset - vim.api.nvim_buf_get_offset(buf, low)
end

--- The place of `row` in `buf`, which is loaded and holds its file.
---@param buf integer
---@param row indexgrep.Row
---@return indexgrep.Place
function M.of(buf, row)
  if vim.bo[buf].fileformat == "mac" and not vim.bo[buf].binary then
    -- Such a file is one line: in it, carriage returns end nothing.
    local lnum, col = position(buf, row.offset + row.col)
    local end_lnum, end_col = position(buf, row.offset + math.max(row.end_col, row.col))
    return {
      lnum = lnum,
      col = col,
      end_lnum = end_lnum,
      end_col = end_col,
      cut_left = false,
      cut_right = false,
    }
  end
  return {
    lnum = row.lnum,
    col = column(buf, row.lnum, row.col),
    end_lnum = row.end_lnum,
    end_col = column(buf, row.end_lnum, row.end_col),
  }
end

return M
