--- How a row looks as one line of text.

local M = {}

--- One line of the results list, and the byte ranges of its parts (from 0, ends exclusive).
---@class indexgrep.Display
---@field text string
---@field path_end integer
---@field mark_end integer where the mark of an unsaved buffer ends
---@field position_end integer where `:line:column` ends
---@field first integer the match; first == last where there is none
---@field last integer
---@field note 'note'|'error'|nil how the text is to be coloured, when it is no line of the file

--- Text with every control character made visible and each tab one space.
---@param text string
---@return string
local function visible(text)
  return (
    text:gsub("%c", function(control)
      local byte = control:byte()
      if byte == 9 then
        return " "
      end
      return "^" .. string.char(bit.bxor(byte, 64))
    end)
  )
end

--- A path of at most `room` bytes: its end, behind an ellipsis where it is longer.
---@param path string
---@param room integer
---@return string
local function shortened(path, room)
  if #path <= room then
    return path
  end
  local from = #path - room + 4
  while from < #path and path:byte(from) >= 0x80 and path:byte(from) < 0xC0 do
    from = from + 1
  end
  return "…" .. path:sub(from)
end

--- Stands behind the path of an unsaved buffer, as Neovim marks one in its own status line.
M.UNSAVED = " [+]"

---@param row indexgrep.Row
---@param width integer columns of the window
---@return indexgrep.Display
function M.of(row, width)
  local path = shortened(visible(row.path), math.max(16, math.floor(width * 0.45)))
  local named = path .. (row.unsaved and M.UNSAVED or "")
  if row.note then
    return {
      text = ("%s: %s"):format(named, visible(row.note)),
      path_end = #path,
      mark_end = #named,
      position_end = #named,
      first = 0,
      last = 0,
      note = row.error and "error" or "note",
    }
  end
  local head = ("%s:%d:%d"):format(named, row.lnum, row.col + 1)
  -- Room left of the match, so that it is in sight in a long line.
  local left = math.max(20, width - #head - (row.last - row.first) - 10)
  local text, first, last, cut = row.text, row.first, row.last, row.cut_left
  local indent = cut and 0 or math.min(#text:match("^%s*"), first)
  if first - indent > left then
    indent = first - left
    while indent < first and text:byte(indent + 1) >= 0x80 and text:byte(indent + 1) < 0xC0 do
      indent = indent + 1
    end
    cut = true
  end
  local before = (cut and "…" or "") .. visible(text:sub(indent + 1, first))
  local match = visible(text:sub(first + 1, last))
  local after = visible(text:sub(last + 1)) .. (row.cut_right and "…" or "")
  local start = #head + 2 + #before
  return {
    text = table.concat({ head, ": ", before, match, after }),
    path_end = #path,
    mark_end = #named,
    position_end = #head,
    first = start,
    last = start + #match,
  }
end

return M
