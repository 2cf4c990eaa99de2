--- The quickfix list of a search: filled as results come, addressed by its id, so that no other list is
--- touched.

local M = {}

--- The type of an entry from an unsaved buffer; Neovim shows it beside the position.
local UNSAVED = "+"

---@class indexgrep.Quickfix: indexgrep.View
---@field id integer
---@field private filled integer rows in the list
---@field private title string?
local Quickfix = {}
Quickfix.__index = Quickfix

--- The buffers of files that were found before. To find one by its name, Neovim compares the names of all.
local buffers = {} ---@type table<string, integer>

--- The buffer of a file: made, unlisted and not loaded, where there is none. The name is taken as it stands.
---@param path string absolute
---@return integer
local function buffer_of(path)
  local buf = buffers[path]
  if not buf or not vim.api.nvim_buf_is_valid(buf) or vim.api.nvim_buf_get_name(buf) ~= path then
    buf = vim.fn.bufadd(path)
    buffers[path] = buf
  end
  return buf
end

---@param buf integer
---@param row indexgrep.Row
---@return table
local function item_of(buf, row)
  if row.note then
    return { bufnr = buf, text = row.note, type = row.error and "E" or "I", valid = row.error and 0 or 1 }
  end
  local place = row.buf == buf and require("indexgrep.place").of(buf, row) or row
  return {
    bufnr = buf,
    type = row.unsaved and UNSAVED or nil,
    lnum = place.lnum,
    end_lnum = place.end_lnum,
    col = place.col + 1,
    end_col = place.end_col + 1,
    -- A string with a NUL byte would become a blob, which is no text.
    text = (row.cut_left and "…" or "") .. row.text:gsub("%z", "^@") .. (row.cut_right and "…" or ""),
  }
end

---@param collection indexgrep.Collection
---@param first integer
---@param last integer
function Quickfix:append(collection, first, last)
  local items = {}
  local path, buf
  for index = first, last do
    local row = collection.rows[index]
    if row.path ~= path then
      path = row.path
      buf = row.buf and vim.api.nvim_buf_is_loaded(row.buf) and row.buf
        or buffer_of(vim.fs.joinpath(collection.root, path))
    end
    table.insert(items, item_of(buf, row))
  end
  vim.fn.setqflist({}, "a", { id = self.id, items = items })
  self.filled = last
end

---@param collection indexgrep.Collection
function Quickfix:update(collection)
  local state = self.filled < #collection.rows and "searching…" or collection:state_text()
  local title = ("IndexGrep %s (%s%s)"):format(
    collection.title,
    collection:count_text(),
    state ~= "" and ", " .. state or ""
  )
  if title ~= self.title then
    self.title = title
    vim.fn.setqflist({}, "a", { id = self.id, title = title })
  end
end

--- Makes the list the current one and opens its window.
---@param row integer? the entry to stand on
function Quickfix:open(row)
  local number = vim.fn.getqflist({ id = self.id, nr = 0 }).nr
  if number == 0 then
    return
  end
  vim.cmd.chistory({ count = number, mods = { silent = true } })
  if row and row > 0 then
    vim.fn.setqflist({}, "a", { id = self.id, idx = row })
  end
  vim.cmd("botright copen")
end

--- A new list at the end of the stack, empty, for `collection`.
---@param collection indexgrep.Collection
---@return indexgrep.Quickfix
function M.new(collection)
  local context = { indexgrep = { root = collection.root, request = collection.request } }
  vim.fn.setqflist({}, " ", { nr = "$", title = "IndexGrep", context = context, items = {} })
  local id = vim.fn.getqflist({ nr = "$", id = 0 }).id
  return setmetatable({ id = id, background = true, filled = 0 }, Quickfix)
end

return M
