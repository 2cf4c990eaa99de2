--- What the commands do.

local notify = require("indexgrep.notify")

local M = {}

--- The search whose results were asked for last.
local current = nil ---@type indexgrep.Collection?

---@param text string
---@return string
local function one_line(text)
  return (text:gsub("\n", "\\n"))
end

--- The text that a range means: the Visual selection where the range is its lines, else whole lines.
---@param line1 integer
---@param line2 integer
---@return string
local function range_text(line1, line2)
  local from, to = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  if from[2] == line1 and to[2] == line2 then
    local ok, lines = pcall(vim.fn.getregion, from, to, { type = vim.fn.visualmode() })
    if ok then
      return table.concat(lines, "\n")
    end
  end
  return table.concat(vim.api.nvim_buf_get_lines(0, line1 - 1, line2, false), "\n")
end

--- What to search for where `:IndexGrep` was given no pattern.
---@param command { range: integer, line1: integer, line2: integer }
---@param options indexgrep.SearchOptions changed: the text is literal
---@return string? pattern
---@return string? err
local function implied_pattern(command, options)
  options.fixed_strings = true
  if (command.range or 0) > 0 then
    local text = range_text(command.line1, command.line2)
    if text == "" then
      return nil, "the range holds no text to search for"
    end
    if text:find("\n", 1, true) then
      options.multiline = true
    end
    return text
  end
  local word = vim.fn.expand("<cword>")
  if word == "" then
    return nil, "there is no word under the cursor; give a pattern: `:IndexGrep pattern`"
  end
  options.word = true
  return word
end

--- `:IndexGrep`: the results go to a new quickfix list and, where somebody is looking, to the results window.
--- `command` is as nvim_create_user_command() passes it.
---@param command { args: string, range: integer?, line1: integer?, line2: integer? }
---@param view indexgrep.View? shows the results, in place of the results window
---@return indexgrep.Collection? nil when there is nothing to search for; a message has said so
function M.run(command, view)
  local parsed, err = require("indexgrep.flags").parse(command.args)
  if not parsed then
    return notify.say(err, vim.log.levels.ERROR)
  end
  local config = require("indexgrep.config").get()
  local options = vim.tbl_extend("force", { limit = config.limit }, config.search, parsed.options)
  local pattern = parsed.pattern
  local title = one_line(vim.trim(command.args))
  if not pattern then
    pattern, err = implied_pattern(command, options)
    if not pattern then
      return notify.say(err, vim.log.levels.ERROR)
    end
    title = one_line(pattern)
  elseif (command.range or 0) > 0 then
    return notify.say("give a range or a pattern, not both", vim.log.levels.ERROR)
  end
  if current then
    current:stop()
  end
  local collection = require("indexgrep.collect").start(title, pattern, options)
  current = collection
  local quickfix = require("indexgrep.quickfix").new(collection)
  collection:add_view(quickfix)
  if not view and config.window.open and #vim.api.nvim_list_uis() > 0 then
    view, err = require("indexgrep.window").open(collection, quickfix, config)
    if not view then
      local text = ("the results go to the quickfix list, for no window can be opened: %s"):format(err)
      notify.say(text, vim.log.levels.WARN)
    end
  end
  collection:add_view(view or require("indexgrep.report").new())
  return collection
end

--- `:IndexGrepStop`
function M.stop()
  if current and current:is_running() then
    current:stop()
  else
    notify.say("no search is running")
  end
end

---@param bytes any
---@return string
local function megabytes(bytes)
  return type(bytes) == "number" and ("%.1f MB"):format(bytes / 1e6) or "unknown"
end

--- The answer of `status` for people, here and in `:checkhealth`.
---@param status table
---@return string[]
function M.status_lines(status)
  local index = type(status.index) == "table" and status.index or {}
  local lines = {
    ("server %s, pid %s, up for %d s, %s, %s clients"):format(
      tostring(status.version),
      tostring(status.pid),
      tonumber(status.uptime_s) or 0,
      megabytes(status.rss_bytes),
      tostring(status.clients)
    ),
    ("root   %s"):format(tostring(status.root)),
    ("index  %s"):format(tostring(index.state)),
  }
  if type(index.documents) == "number" and index.documents > 0 then
    local commit = type(index.commit) == "string" and index.commit ~= "" and index.commit:sub(1, 12)
      or "no commit"
    lines[3] = ("%s: %d documents of %s, %s"):format(
      lines[3],
      index.documents,
      commit,
      megabytes(index.bytes)
    )
  end
  if type(index.progress) == "table" and (tonumber(index.progress.documents_total) or 0) > 0 then
    local progress = index.progress
    lines[3] = ("%s (%s, %d of %d documents)"):format(
      lines[3],
      tostring(progress.phase),
      progress.documents,
      progress.documents_total
    )
  end
  if type(index.fault) == "string" and index.fault ~= "" then
    table.insert(lines, ("fault  %s"):format(index.fault))
  end
  if type(status.freshness) == "string" then
    local reason = type(status.freshness_reason) == "string" and status.freshness_reason or ""
    local text = reason ~= "" and ("%s: %s"):format(status.freshness, reason) or status.freshness
    table.insert(lines, ("fresh  by %s"):format(text))
  end
  if type(status.overlay) == "number" then
    local hot = tonumber(status.hot)
    local which = hot and hot < status.overlay and (" (%d read at every search)"):format(hot) or ""
    table.insert(lines, ("beside %d files that the index does not stand for%s"):format(status.overlay, which))
  end
  local unsaved = type(status.buffers) == "table" and status.buffers or {}
  if (tonumber(unsaved.count) or 0) > 0 then
    table.insert(
      lines,
      ("also   %d unsaved %s of %d %s"):format(
        unsaved.count,
        unsaved.count == 1 and "buffer" or "buffers",
        unsaved.clients,
        unsaved.clients == 1 and "editor" or "editors"
      )
    )
  end
  table.insert(lines, ("log    %s"):format(tostring(status.log)))
  return lines
end

--- `:IndexGrepStatus`
function M.status()
  local root = require("indexgrep.root").current()
  require("indexgrep").status({ root = root }, function(err, status)
    if err then
      notify.error(err)
    elseif not status then
      notify.say(("no server runs for %s; a search starts one"):format(root))
    else
      notify.say(table.concat(M.status_lines(status), "\n"))
    end
  end)
end

---@param root string
---@param next_step fun(was_running: boolean)
local function stop_server(root, next_step)
  require("indexgrep.rpc").shutdown(root, function(err, was_running)
    if err then
      return notify.error(err)
    end
    next_step(was_running)
  end)
end

---@param root string
local function start_server(root)
  require("indexgrep.rpc").open(root, true, function(err)
    if err then
      return notify.error(err)
    end
    notify.say(("the server for %s is running"):format(root))
  end)
end

local server_actions = {
  start = start_server,
  status = M.status,
  stop = function(root)
    stop_server(root, function(was_running)
      local text = was_running and "the server for %s is stopped" or "no server runs for %s"
      notify.say(text:format(root))
    end)
  end,
  restart = function(root)
    stop_server(root, function()
      start_server(root)
    end)
  end,
  log = function()
    local path = require("indexgrep.server").log_path()
    if vim.uv.fs_stat(path) then
      vim.cmd.tabedit(vim.fn.fnameescape(path))
    else
      notify.say(("nothing was logged yet; the log would be %s"):format(path))
    end
  end,
}

---@return string[]
local function action_names()
  local names = vim.tbl_keys(server_actions)
  table.sort(names)
  return names
end

--- `:IndexGrepServer`
---@param action string
function M.server(action)
  local run = server_actions[action]
  if not run then
    local text = ("unknown action %s. Actions: %s"):format(action, table.concat(action_names(), ", "))
    return notify.say(text, vim.log.levels.ERROR)
  end
  run(require("indexgrep.root").current())
end

---@param lead string
---@return string[]
function M.complete_server(lead)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, action_names())
end

return M
