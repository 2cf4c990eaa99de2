--- The real path of a file, of one that is yet to be written too.

local M = {}

--- As many links as the kernel follows in one path.
local MOST_LINKS = 40

--- Where a write to `path` ends up: symbolic links are followed, also one that leads to no file yet, and
--- directories that are yet to be made stay as they are spelled.
---@param path string absolute
---@return string
function M.resolve(path)
  local real = vim.uv.fs_realpath(path)
  if real then
    return real
  end
  for _ = 1, MOST_LINKS do
    local target = vim.uv.fs_readlink(path)
    if not target then
      break
    end
    path = vim.startswith(target, "/") and target or vim.fs.joinpath(vim.fs.dirname(path), target)
  end
  local missing = {}
  local directory = path
  repeat
    table.insert(missing, 1, vim.fs.basename(directory))
    directory = vim.fs.dirname(directory)
    real = vim.uv.fs_realpath(directory)
  until real or directory == vim.fs.dirname(directory)
  return vim.fs.joinpath(real or directory, unpack(missing))
end

--- Whether `path` lies below the directory `root`; both are real paths.
---@param root string
---@param path string
---@return boolean
function M.is_below(root, path)
  return vim.startswith(path, root == "/" and root or root .. "/")
end

--- `path` relative to `root`, which it lies below.
---@param root string
---@param path string
---@return string
function M.relative(root, path)
  return path:sub(#root + (root == "/" and 1 or 2))
end

return M
