--- The Lua API. Everything the plugin shows is built on it, and so can other plugins be.

local notify = require("indexgrep.notify")

local M = {}

---@class indexgrep.Handle
---@field root string the tree that is searched
---@field cancel fun(self: indexgrep.Handle) stops the search; the callback is not called any more

---@param options indexgrep.ApiOptions
---@return string
local function root_of(options)
  if options.root then
    return vim.uv.fs_realpath(options.root) or options.root
  elseif options.dir then
    return require("indexgrep.root").of(options.dir)
  end
  return require("indexgrep.root").current()
end

--- Searches the working tree, with this editor's unsaved buffers as they stand; returns at once. `callback`
--- is called on the main loop with
---
--- - `{event = 'results', files = {…}}` any number of times, in order of path, then of line;
--- - `{event = 'progress', state = {…}}` while the first index is being built;
--- - once and last `{event = 'done', summary = {…}}` or `{event = 'failed', error = {…}}`.
---
--- After `handle:cancel()` it is not called any more.
---@param pattern string|string[] a regex as ripgrep's, or several alternatives
---@param options indexgrep.ApiOptions?
---@param callback fun(event: indexgrep.Event)
---@return indexgrep.Handle
function M.search(pattern, options, callback)
  options = options or {}
  vim.validate("options", options, "table")
  vim.validate("callback", callback, "function")
  local root = root_of(options)
  local request, err = require("indexgrep.request").build(pattern, options)
  if request and not request.buffers and require("indexgrep.config").get().unsaved then
    request.buffers = "own"
  end
  local cancelled, qid = false, nil ---@type boolean, integer?
  -- Deferred, so that the callback never runs before the caller has the handle.
  vim.schedule(function()
    if cancelled then
      return
    elseif not request then
      return callback({ event = "failed", error = err })
    end
    qid = require("indexgrep.rpc").search(root, request, callback)
  end)
  return {
    root = root,
    cancel = function()
      cancelled = true
      if qid then
        require("indexgrep.rpc").cancel(qid)
      end
    end,
  }
end

--- What the index does with a pattern: its plan, grams and candidates. Starts a server where none runs.
---@param pattern string|string[]
---@param options indexgrep.ApiOptions?
---@param callback fun(err: indexgrep.Error?, result: table?)
function M.explain(pattern, options, callback)
  options = options or {}
  local request, err = require("indexgrep.request").build(pattern, options)
  local root = root_of(options)
  vim.schedule(function()
    if not request then
      return callback(err)
    end
    require("indexgrep.rpc").request(root, true, "explain", { request }, callback)
  end)
end

--- The state of the server and its index. Starts nothing: both arguments are nil where no server runs.
---@param options { root: string?, dir: string? }?
---@param callback fun(err: indexgrep.Error?, status: table?)
function M.status(options, callback)
  local root = root_of(options or {})
  vim.schedule(function()
    require("indexgrep.rpc").status(root, callback)
  end)
end

--- Error text for people: the message, then the hint on a line of its own.
M.error_text = notify.text

return M
