--- The quickfix list of a search: filled as results come, addressed by its id, so that no other list is
--- touched.

local M = {}

---@class indexgrep.Quickfix: indexgrep.View
---@field id integer
local Quickfix = {}
Quickfix.__index = Quickfix

---@param root string
---@param row indexgrep.Row
---@return table
local function item_of(root, row)
  local filename = vim.fs.joinpath(root, row.path)
  if row.note then
    return {
      filename = filename,
      text = row.note,
      type = row.error and "E" or "I",
      valid = row.error and 0 or 1,
    }
  end
  return {
    filename = filename,
    lnum = row.lnum,
    end_lnum = row.end_lnum,
    col = row.col + 1,
    end_col = row.end_col + 1,
    -- A string with a NUL byte would become a blob, which is no text.
    text = (row.cut_left and "…" or "") .. row.text:gsub("%z", "^@") .. (row.cut_right and "…" or ""),
  }
end

---@param collection indexgrep.Collection
---@param first integer
---@param last integer
function Quickfix:append(collection, first, last)
  local items = {}
  for index = first, last do
    table.insert(items, item_of(collection.root, collection.rows[index]))
  end
  vim.fn.setqflist({}, "a", { id = self.id, items = items })
end

---@param collection indexgrep.Collection
function Quickfix:update(collection)
  local state = collection:state_text()
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
  return setmetatable({ id = vim.fn.getqflist({ nr = "$", id = 0 }).id }, Quickfix)
end

return M
