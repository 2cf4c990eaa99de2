--- `:checkhealth indexgrep`

local M = {}

--- How long the server may take to answer here.
local PATIENCE_MS = 5000

local function check_editor()
  vim.health.start("indexgrep: Neovim")
  local version = tostring(vim.version())
  if vim.fn.has("nvim-0.11") == 1 then
    vim.health.ok("Neovim " .. version)
  else
    vim.health.error(("Neovim %s is too old"):format(version), "Update to 0.11 or later.")
  end
  local _, faults = require("indexgrep.config").resolve(vim.g.indexgrep)
  if #faults == 0 then
    vim.health.ok("vim.g.indexgrep is valid")
  end
  for _, fault in ipairs(faults) do
    vim.health.error(fault, "See `:help indexgrep-config`.")
  end
end

--- Runs a command and waits for it.
---@param command string[]
---@return boolean ok
---@return string output its first line, or the last one on what went wrong
local function run(command)
  local ok, result = pcall(function()
    return vim.system(command, { text = true, timeout = PATIENCE_MS * 3 }):wait()
  end)
  if not ok then
    return false, tostring(result)
  end
  local output = vim.trim(result.stdout ~= "" and result.stdout or result.stderr or "")
  -- Of a traceback, the last line tells.
  return result.code == 0, output:match(result.code == 0 and "^[^\n]*" or "[^\n]*$")
end

--- The file that says which remote plugins there are.
---@return string
local function manifest_path()
  local own = vim.env.NVIM_RPLUGIN_MANIFEST
  return own and own ~= "" and own or vim.fs.joinpath(vim.fn.stdpath("data"), "rplugin.vim")
end

local function check_remote_plugin()
  vim.health.start("indexgrep: remote plugin (optional)")
  local python = ""
  for _, candidate in ipairs({ vim.g.python3_host_prog or "pynvim-python", "python3" }) do
    if python == "" and candidate ~= "" then
      python = vim.fn.exepath(vim.fs.normalize(candidate))
    end
  end
  local has_pynvim = false
  if python == "" then
    vim.health.info("No Python for remote plugins: the backend is started directly, which works as well.")
  else
    local ok, said = run({ python, "-c", "import pynvim; print(pynvim.VERSION)" })
    has_pynvim = ok
    if ok then
      vim.health.ok(("pynvim is there for %s"):format(python))
    else
      vim.health.info(
        ("%s has no pynvim: the backend is started directly, which works as well. (%s)"):format(python, said)
      )
    end
  end
  if require("indexgrep.server").is_registered() then
    if require("indexgrep.server").has_remote() then
      vim.health.ok("The remote plugin is registered.")
    else
      vim.health.warn(
        "The remote plugin is registered but failed in this session: the backend is started directly."
      )
    end
  elseif has_pynvim then
    vim.health.info(
      ("The remote plugin is not in %s: the backend is started directly, which works as well. "):format(
        manifest_path()
      ) .. "To use it, run `:UpdateRemotePlugins` and restart Neovim."
    )
  else
    vim.health.info(
      "The remote plugin is not registered. (Without pynvim, do not run `:UpdateRemotePlugins`.)"
    )
  end
end

---@return boolean
local function check_backend()
  vim.health.start("indexgrep: backend")
  local command, err = require("indexgrep.server").command()
  if not command then
    vim.health.error(err.message, err.hint)
    return false
  end
  local line = table.concat(command, " ")
  local ok, said = run(vim.list_extend(vim.deepcopy(command), { "--version" }))
  if ok then
    vim.health.ok(("%s (%s)"):format(said, line))
  else
    vim.health.error(
      ("%s does not run: %s"):format(line, said),
      "Install the backend again, or set vim.g.indexgrep.command."
    )
  end
  return ok
end

---@param status table
local function report_status(status)
  for _, line in ipairs(require("indexgrep.command").status_lines(status)) do
    vim.health.info(line)
  end
  local index = type(status.index) == "table" and status.index or {}
  if index.state == "ready" then
    vim.health.ok("The index is ready.")
  else
    vim.health.info("The index is not ready yet: searches read the files themselves until it is.")
  end
end

local function check_server()
  vim.health.start("indexgrep: server")
  local root = require("indexgrep.root").current()
  local socket, err = require("indexgrep.server").socket_path(root)
  if not socket then
    return vim.health.error(err.message, err.hint)
  end
  vim.health.info("socket " .. socket)
  local answered, failure, status = false, nil, nil
  require("indexgrep").status({ root = root }, function(fault, result)
    answered, failure, status = true, fault, result
  end)
  vim.wait(PATIENCE_MS, function()
    return answered
  end, 5)
  if failure then
    vim.health.error(failure.message, failure.hint)
  elseif status then
    vim.health.ok(("The server for %s answers."):format(root))
    report_status(status)
  elseif answered then
    vim.health.info(("No server runs for %s; a search starts one."):format(root))
  else
    vim.health.error(
      ("The server for %s does not answer."):format(root),
      { "Run `:IndexGrepServer restart`.", "If that does not help: `indexgrep server stop`." }
    )
  end
  local log = require("indexgrep.server").log_path()
  local there = vim.uv.fs_stat(log) and "" or " (nothing was logged yet)"
  vim.health.info(("log file %s%s"):format(log, there))
end

local function check_watching()
  vim.health.start("indexgrep: freshness")
  if vim.fn.has("linux") == 0 then
    return vim.health.info("Changes are found by comparing file attributes when a search comes.")
  end
  local file = io.open("/proc/sys/fs/inotify/max_user_watches")
  local watches = file and tonumber(file:read("*a"))
  if file then
    file:close()
  end
  if not watches then
    vim.health.info(
      "The limit of inotify watches is unknown; without watches each search compares file attributes."
    )
  elseif watches < 65536 then
    vim.health.warn(
      ("inotify allows %d watched directories; larger trees are checked for each search"):format(watches),
      "Raise it: `sysctl fs.inotify.max_user_watches=524288`."
    )
  else
    vim.health.ok(("inotify allows %d watched directories"):format(watches))
  end
end

local function check_unsaved()
  vim.health.start("indexgrep: unsaved buffers")
  if not require("indexgrep.config").resolve(vim.g.indexgrep).unsaved then
    return vim.health.info("Unsaved buffers are not searched (vim.g.indexgrep.unsaved is false).")
  end
  local report = require("indexgrep.buffers").report()
  if #report == 0 then
    vim.health.ok("Unsaved buffers are searched as they stand; no search has needed them yet.")
  end
  for _, server in ipairs(report) do
    local text = server.count == 1 and "1 unsaved buffer is"
      or ("%d unsaved buffers are"):format(server.count)
    vim.health.ok(("%s with the server for %s"):format(text, server.root))
    if server.refused > 0 then
      vim.health.warn(("%d more were too large for it: their files are searched."):format(server.refused))
    end
  end
end

--- Called by `:checkhealth indexgrep`.
function M.check()
  check_editor()
  check_remote_plugin()
  if check_backend() then
    check_server()
    check_unsaved()
  end
  check_watching()
end

return M
