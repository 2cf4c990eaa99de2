--- Where the results window and its preview stand on the screen.

local M = {}

--- From so many columns on, list and preview stand side by side; below, one over the other.
local SIDE_BY_SIDE = 140
--- The least text height of a window that is worth its place.
local LEAST_LIST, LEAST_PREVIEW = 3, 5

---@class indexgrep.Rectangle position of the border's corner, size of the text within
---@field row integer
---@field col integer
---@field width integer
---@field height integer

---@param border string|string[]
---@return integer lines and columns that a border takes on both sides together
local function border_size(border)
  return border == "none" and 0 or 2
end

--- The border to use: the configured one, else 'winborder', else a single line.
---@param configured string|string[]?
---@return string|string[]
function M.border(configured)
  if configured and configured ~= "" then
    return configured
  end
  local option = vim.o.winborder
  if option == "" then
    return "single"
  end
  return option:find(",", 1, true) and vim.split(option, ",", { plain = true }) or option
end

--- The rectangles for a screen of `columns` by `lines` usable cells, the first line below `top`.
---@param screen { columns: integer, lines: integer, top: integer }
---@param window indexgrep.config.Window
---@return indexgrep.Rectangle list
---@return indexgrep.Rectangle? preview nil where there is no room for one or none is wanted
function M.compute(screen, window)
  local edge = border_size(M.border(window.border))
  local outer_width = math.max(math.floor(screen.columns * window.width), math.min(screen.columns, 60))
  local outer_height = math.max(math.floor(screen.lines * window.height), math.min(screen.lines, 20))
  local row = screen.top + math.floor((screen.lines - outer_height) / 2)
  local col = math.floor((screen.columns - outer_width) / 2)
  local width = math.max(outer_width - edge, 1)
  local whole = { row = row, col = col, width = width, height = math.max(outer_height - edge, 1) }
  if not window.preview then
    return whole
  end
  if outer_width >= SIDE_BY_SIDE and whole.height >= LEAST_PREVIEW then
    local left = math.floor(outer_width / 2)
    return { row = row, col = col, width = left - edge, height = whole.height }, {
      row = row,
      col = col + left,
      width = outer_width - left - edge,
      height = whole.height,
    }
  end
  local above = math.floor(outer_height * 0.45)
  local list_height, preview_height = above - edge, outer_height - above - edge
  if list_height < LEAST_LIST or preview_height < LEAST_PREVIEW then
    return whole
  end
  return { row = row, col = col, width = width, height = list_height }, {
    row = row + above,
    col = col,
    width = width,
    height = preview_height,
  }
end

--- The part of the screen that windows may cover.
---@return { columns: integer, lines: integer, top: integer }
function M.screen()
  local tabline = vim.o.showtabline == 2 or (vim.o.showtabline == 1 and #vim.api.nvim_list_tabpages() > 1)
  local top = tabline and 1 or 0
  local status = vim.o.laststatus > 0 and 1 or 0
  return {
    columns = vim.o.columns,
    lines = math.max(vim.o.lines - vim.o.cmdheight - status - top, 1),
    top = top,
  }
end

return M
