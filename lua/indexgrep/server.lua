--- Where the server of a tree is, and how it is started: through the Python remote plugin where that is
--- registered, else by running the backend's command. Starting never blocks the editor.

local notify = require("indexgrep.notify")

local M = {}

local FIX = "Run `:checkhealth indexgrep`; it says what is missing."

--- The directory this plugin is installed in.
---@return string
function M.plugin_directory()
  local source = debug.getinfo(1, "S").source:sub(2)
  return vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.abspath(source))))
end

--- An environment variable that is set to something.
---@param name string
---@return string?
local function env(name)
  local value = vim.env[name]
  return value ~= "" and value or nil
end

--- The directory of sockets; the same rule as `indexgrep.runtime.runtime_dir` in the backend.
---@return string
function M.runtime_directory()
  local own = env("INDEXGREP_RUNTIME_DIR")
  if own then
    return own
  end
  local xdg = env("XDG_RUNTIME_DIR")
  if xdg then
    return vim.fs.joinpath(xdg, "indexgrep")
  end
  local temporary = env("TMPDIR") or env("TEMP") or env("TMP") or "/tmp"
  return vim.fs.joinpath(temporary, ("indexgrep-%d"):format(vim.uv.getuid()))
end

--- The file that the backend writes details of its faults to; the rule of `indexgrep.runtime.log_path`.
---@return string
function M.log_path()
  local own = env("INDEXGREP_LOG")
  if own then
    return own
  end
  if vim.fn.has("mac") == 1 then
    return vim.fs.normalize("~/Library/Application Support/indexgrep/log")
  end
  return vim.fs.joinpath(env("XDG_STATE_HOME") or vim.fs.normalize("~/.local/state"), "indexgrep", "log")
end

--- The socket of the server for `root`. A directory that others may enter is refused: whoever answers there
--- would be believed.
---@param root string
---@return string? path
---@return indexgrep.Error? err
function M.socket_path(root)
  local directory = M.runtime_directory()
  local stat = vim.uv.fs_lstat(directory)
  if stat and (stat.type ~= "directory" or stat.uid ~= vim.uv.getuid() or bit.band(stat.mode, 63) ~= 0) then
    return nil,
      notify.fault(
        "server",
        ("the runtime directory %s is not private to you"):format(directory),
        ("Remove it, or `chmod 700 %s`, or set INDEXGREP_RUNTIME_DIR to a directory of your own."):format(
          directory
        )
      )
  end
  local key = vim.fn.sha256(vim.uv.fs_realpath(root) or root):sub(1, 16)
  return vim.fs.joinpath(directory, key .. ".sock")
end

--- The backend's command, as a list of arguments.
---@return string[]? command
---@return indexgrep.Error? err
function M.command()
  local configured = require("indexgrep.config").get().command
  if type(configured) == "table" then
    return vim.deepcopy(configured)
  elseif configured then
    return { vim.fs.normalize(configured) }
  end
  local own = vim.fs.joinpath(M.plugin_directory(), ".venv", "bin", "indexgrep")
  if vim.fn.executable(own) == 1 then
    return { own }
  elseif vim.fn.executable("indexgrep") == 1 then
    return { vim.fn.exepath("indexgrep") }
  end
  return nil,
    notify.fault(
      "server",
      "the indexgrep backend is not installed",
      ("Run `make -C %s .venv/.run`, or `pip install %s`, or set vim.g.indexgrep.command."):format(
        vim.fn.shellescape(M.plugin_directory()),
        vim.fn.shellescape(M.plugin_directory())
      )
    )
end

---@param text string?
---@param otherwise string
---@return indexgrep.Error
local function start_fault(text, otherwise)
  text = vim.trim(text or "")
  if text:find("Traceback (most recent call last)", 1, true) then
    -- An installation that lacks a part; what is missing stands last.
    local reason = text:match("[^\n]*$")
    return notify.fault("server", ("the indexgrep backend does not run: %s"):format(reason), FIX)
  end
  local message, hint = text:match("^([^\n]*)\n?(.*)$")
  message = message:gsub("^indexgrep: ", "")
  if message == "" then
    message = otherwise
  end
  return notify.fault("server", message, hint ~= "" and hint or FIX)
end

--- Runs the backend's command with `arguments`.
---@param arguments string[]
---@param callback fun(err: indexgrep.Error?, stdout: string?)
function M.run(arguments, callback)
  local command, err = M.command()
  if not command then
    return vim.schedule(function()
      callback(err)
    end)
  end
  local line = vim.list_extend(command, arguments)
  local timeout = require("indexgrep.config").get().start_timeout_ms
  local ok, failure = pcall(
    vim.system,
    line,
    { text = true, stdin = false, timeout = timeout },
    function(result)
      vim.schedule(function()
        if result.code == 0 then
          return callback(nil, result.stdout)
        end
        local otherwise = ("`%s` ended with code %d"):format(table.concat(line, " "), result.code)
        if result.code == 124 then
          otherwise = ("`%s` did not end within %d ms"):format(table.concat(line, " "), timeout)
        end
        callback(start_fault(result.stderr, otherwise))
      end)
    end
  )
  if not ok then
    vim.schedule(function()
      local reason = tostring(failure):gsub("^.*: ", "")
      callback(notify.fault("server", ("cannot run %s: %s"):format(line[1], reason), FIX))
    end)
  end
end

--- Callbacks that wait for the remote plugin, by root.
local remote_waiting = {} ---@type table<string, fun(err: indexgrep.Error?)>
--- Set once the remote plugin could not be used: asking again would start its host, in vain, each time.
local remote_broken = false

--- Whether the remote plugin is in the manifest that Neovim read.
---@return boolean
function M.is_registered()
  -- Until it is called for the first time, the function is an autocommand that will define it.
  return vim.fn.exists("*IndexGrepStart") == 1 or vim.fn.exists("#FuncUndefined#IndexGrepStart") == 1
end

--- Whether the remote plugin is registered and has not failed in this session.
---@return boolean
function M.has_remote()
  return not remote_broken and M.is_registered()
end

--- What the remote plugin is called with next.
local remote_arguments = {} ---@type any[]

---@return any[]
function M.remote_arguments()
  return remote_arguments
end

--- Called by the remote plugin when it has tried to start a server.
---@param root string
---@param ok boolean
---@param text string what went wrong, for the user
function M.on_remote_start(root, ok, text)
  local callback = remote_waiting[root]
  remote_waiting[root] = nil
  if callback then
    callback(not ok and start_fault(text, "the server did not start") or nil)
  end
end

---@param root string
---@param callback fun(err: indexgrep.Error?)
local function start_directly(root, callback)
  M.run({ "server", "start", root }, callback)
end

---@param root string
---@param callback fun(err: indexgrep.Error?)
local function start_remotely(root, callback)
  local timeout = require("indexgrep.config").get().start_timeout_ms
  local answered = false
  local function fall_back()
    answered = true
    remote_broken = true
    remote_waiting[root] = nil
    start_directly(root, callback)
  end
  remote_waiting[root] = function(err)
    if not answered then
      answered = true
      callback(err)
    end
  end
  remote_arguments = { root, M.command() or {} }
  -- Silently: of a host that cannot start, Neovim shows where in its own scripts that happened.
  local call = "call call('IndexGrepStart', v:lua.require'indexgrep.server'.remote_arguments())"
  if not pcall(vim.fn.execute, call, "silent") then
    return fall_back()
  end
  vim.defer_fn(function()
    if not answered then
      fall_back()
    end
  end, timeout)
end

local starting = {} ---@type table<string, fun(err: indexgrep.Error?)[]>

--- Starts the server for `root` unless that is under way already; `callback` is called when it listens, or
--- with the reason why not.
---@param root string
---@param callback fun(err: indexgrep.Error?)
function M.start(root, callback)
  if starting[root] then
    table.insert(starting[root], callback)
    return
  end
  starting[root] = { callback }
  local function finish(err)
    local callbacks = starting[root]
    starting[root] = nil
    for _, waiting in ipairs(callbacks) do
      waiting(err)
    end
  end
  if require("indexgrep.config").get().remote_plugin and M.has_remote() then
    start_remotely(root, finish)
  else
    start_directly(root, finish)
  end
end

return M
