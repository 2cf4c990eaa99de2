--- `:IndexGrep` for a Neovim that nobody looks at: waits for the end, prints the quickfix list, quits.

local M = {}

--- How long a search may take, the building of the first index beside it not counted: it answers meanwhile.
local PATIENCE_MS = 10 * 60 * 1000

--- Control characters in paths and texts would break the list into lines of their own making.
---@param text string
---@return string
local function printable(text)
  return (
    text:gsub("%c", function(control)
      return control == "\t" and control or ("\\x%02x"):format(control:byte())
    end)
  )
end

--- The view of a search that is printed when it is over.
---@type indexgrep.View
local Silent = {
  append = function() end,
  update = function() end,
}

---@param collection indexgrep.Collection
---@return string[] lines `path:line:column: text`
local function lines_of(collection)
  local prefix = collection.root .. "/"
  local names = {} ---@type table<integer, string>
  return vim.tbl_map(function(item)
    local name = names[item.bufnr]
    if not name then
      name = vim.api.nvim_buf_get_name(item.bufnr)
      name = vim.startswith(name, prefix) and name:sub(#prefix + 1) or name
      names[item.bufnr] = name
    end
    if item.lnum == 0 then
      return printable(("%s: %s"):format(name, item.text))
    end
    return printable(("%s:%d:%d: %s"):format(name, item.lnum, item.col, item.text))
  end, vim.fn.getqflist())
end

--- Runs `:IndexGrep args` and prints its quickfix list, then a line on standard error that says how much was
--- found.
---@param args string
---@return integer code as ripgrep's: 0 found, 1 nothing found, 2 a fault
function M.search(args)
  local collection = require("indexgrep.command").run({ args = args, range = 0 }, Silent)
  if not collection then
    return 2
  end
  vim.wait(PATIENCE_MS, function()
    return collection:is_settled()
  end, 2)
  if collection:is_running() then
    collection:stop()
  end
  for _, line in ipairs(lines_of(collection)) do
    io.stdout:write(line, "\n")
  end
  io.stdout:flush()
  if collection.error then
    io.stderr:write("indexgrep: ", require("indexgrep.notify").text(collection.error), "\n")
  end
  if collection.state ~= "done" then
    return 2
  end
  local state = collection:state_text()
  io.stderr:write(collection:count_text(), state ~= "" and ", " .. state or "", "\n")
  return collection.lines > 0 and 0 or 1
end

--- The same, and Neovim ends with the code.
---@param args string
function M.run(args)
  vim.cmd.cquit({ count = M.search(args) })
end

return M
