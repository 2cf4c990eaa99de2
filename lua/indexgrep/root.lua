--- Which tree a search is about: the repository of the current buffer, else that of the current directory.

local M = {}

--- The directory of a buffer that is no plain file, where its name or its plugin tells.
---@param buf integer
---@param name string
---@return string?
local function special_directory(buf, name)
  local scheme, rest = name:match("^(%a[%w+.-]*)://(.*)$")
  if scheme == "oil" then
    return rest
  elseif scheme == "fugitive" then
    return (rest:match("^(.-)/%.git//"))
  elseif scheme == "term" then
    local directory = rest:match("^(.-)//%d+:")
    return directory and vim.fs.normalize(directory)
  elseif scheme == nil and vim.bo[buf].filetype == "netrw" then
    return vim.b[buf].netrw_curdir
  end
end

---@param path string?
---@return boolean
local function is_directory(path)
  return path ~= nil and path ~= "" and vim.fn.isdirectory(path) == 1
end

--- The directory that the buffer is about, or nil where it is about none.
---@param buf integer
---@return string?
local function buffer_directory(buf)
  local name = vim.api.nvim_buf_get_name(buf)
  if name == "" then
    return nil
  end
  local special = special_directory(buf, name)
  if is_directory(special) then
    return special
  elseif name:match("^%a[%w+.-]*://") or vim.bo[buf].buftype ~= "" then
    return nil
  elseif is_directory(name) then
    return name
  end
  -- A new file may be in directories that are yet to be made.
  local directory = vim.fs.dirname(name)
  while not is_directory(directory) and directory ~= vim.fs.dirname(directory) do
    directory = vim.fs.dirname(directory)
  end
  return is_directory(directory) and directory or nil
end

--- The root of the search whose results the buffer lists: the results window's or a quickfix list's.
---@param buf integer
---@return string?
local function listed_root(buf)
  if vim.fn.win_gettype() == "quickfix" then
    local context = vim.fn.getqflist({ context = 0 }).context
    local search = type(context) == "table" and context.indexgrep
    return type(search) == "table" and search.root or nil
  end
  return vim.b[buf].indexgrep_root
end

---@param path string
---@return string
local function real(path)
  return vim.uv.fs_realpath(path) or path
end

--- The work tree that holds `directory`, or nil where no directory above holds a `.git`.
---@param directory string
---@return string?
local function work_tree(directory)
  local root = vim.fs.root(real(directory), ".git")
  return root and real(root)
end

--- The root of the tree that holds `directory`: its work tree, else itself.
---@param directory string
---@return string
function M.of(directory)
  return work_tree(directory) or real(directory)
end

--- The root that a search begun in this window is about. A file outside of every repository does not make its
--- directory (`/etc`, say) a root: then the current directory counts.
---@return string
function M.current()
  local buf = vim.api.nvim_get_current_buf()
  local listed = listed_root(buf)
  if is_directory(listed) then
    return listed --[[@as string]]
  end
  local directory = buffer_directory(buf)
  return directory and work_tree(directory) or M.of(vim.fn.getcwd())
end

return M
