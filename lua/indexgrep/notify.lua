--- Messages to the user: a prefix, the hint on a line of its own, and each kind said once where it could
--- repeat.

local M = {}

---@class indexgrep.Error
---@field code string `usage`, `pattern`, `root`, `index`, `server`…: the kind, for programs
---@field message string what went wrong
---@field hint string? what can be done about it
---@field pattern string? with `code = 'pattern'`: the pattern, and the character range of its fault
---@field start integer?
---@field end integer?
---@field reason string?

---@param code string
---@param message string
---@param hint? string
---@return indexgrep.Error
function M.fault(code, message, hint)
  return { code = code, message = message, hint = hint or "" }
end

--- The text of an error as it is shown: the message, then the hint.
---@param err indexgrep.Error
---@return string
function M.text(err)
  local hint = type(err.hint) == "string" and err.hint or ""
  if hint == "" and err.code == "pattern" then
    hint = "To search for the text as it stands: `:IndexGrep -F …`"
  end
  return hint == "" and err.message or err.message .. "\n" .. hint
end

---@param message string
---@param level? integer default INFO
function M.say(message, level)
  vim.notify("indexgrep: " .. message, level or vim.log.levels.INFO)
end

---@param err indexgrep.Error
function M.error(err)
  M.say(M.text(err), vim.log.levels.ERROR)
end

local said = {} ---@type table<string, true>

--- Says `message` unless it was said before in this session.
---@param message string
---@param level? integer default WARN
function M.once(message, level)
  if not said[message] then
    said[message] = true
    M.say(message, level or vim.log.levels.WARN)
  end
end

return M
