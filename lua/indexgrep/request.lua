--- From the options of the Lua API to the search request of the protocol (doc/protocol.md).

local M = {}

---@class indexgrep.SearchOptions
---@field fixed_strings boolean? the pattern is literal text (-F)
---@field case 'sensitive'|'insensitive'|'smart'|nil default `sensitive`
---@field word boolean? whole words only (-w)
---@field line boolean? whole lines only (-x)
---@field invert boolean? lines that do not match (-v)
---@field multiline boolean? matches may span lines (-U)
---@field multiline_dotall boolean? with `multiline`, `.` matches a line feed too
---@field crlf boolean? `\r\n` ends a line too
---@field unicode boolean? default true
---@field paths string[]? files and directories, relative to `cwd`; default: everything
---@field cwd string? where `paths` and `globs` are resolved from; default: the root
---@field globs string[]? gitignore-style globs, `!` excludes (-g)
---@field iglobs string[]? the same, ignoring case
---@field types string[]? file types (-t)
---@field types_not string[]? file types to leave out (-T)
---@field hidden boolean? hidden files too
---@field no_ignore boolean? ignored files too
---@field no_ignore_vcs boolean? files ignored by git too
---@field text boolean? binary files as text (-a)
---@field binary boolean? search binary files to their end
---@field follow boolean? follow symbolic links (-L)
---@field max_depth integer?
---@field max_filesize integer? bytes
---@field before integer? lines of context before a match
---@field after integer? lines of context after a match
---@field max_count integer? matching lines in one file (-m)
---@field limit integer? matching lines in all
---@field output 'lines'|'files'|'files_without_match'|'count'|'count_matches'|nil
---@field timeout_ms integer?
---@field buffers 'own'|'all'|'none'|nil whose unsaved buffers stand for their files; |g:indexgrep.unsaved|
---@field no_index boolean? read every file

--- Where to search; not part of the request.
---@class indexgrep.ApiOptions: indexgrep.SearchOptions
---@field root string? the root of the tree to search
---@field dir string? search the repository that holds this directory; default: the current buffer's

local KINDS = {
  fixed_strings = "boolean",
  case = "string",
  word = "boolean",
  line = "boolean",
  invert = "boolean",
  multiline = "boolean",
  multiline_dotall = "boolean",
  crlf = "boolean",
  unicode = "boolean",
  paths = "strings",
  cwd = "string",
  globs = "strings",
  iglobs = "strings",
  types = "strings",
  types_not = "strings",
  hidden = "boolean",
  no_ignore = "boolean",
  no_ignore_vcs = "boolean",
  text = "boolean",
  binary = "boolean",
  follow = "boolean",
  max_depth = "integer",
  max_filesize = "integer",
  before = "integer",
  after = "integer",
  max_count = "integer",
  limit = "integer",
  output = "string",
  timeout_ms = "integer",
  buffers = "string",
  no_index = "boolean",
}

local EXPECTED = {
  boolean = "true or false",
  string = "a string",
  strings = "a list of strings",
  integer = "a whole number from 0 to 2^53 - 1",
}

--- The largest whole number that a Lua number holds exactly. Neovim's msgpack ends the editor on larger ones.
M.MOST = 2 ^ 53 - 1

--- Whether `value` is a whole number that can be sent.
---@param value any
---@return boolean
function M.is_natural(value)
  return type(value) == "number" and value >= 0 and value <= M.MOST and value % 1 == 0
end

---@param value any
---@return boolean
local function is_strings(value)
  if type(value) ~= "table" or not vim.islist(value) then
    return false
  end
  return vim.iter(value):all(function(item)
    return type(item) == "string"
  end)
end

---@param kind string
---@param value any
---@return boolean
local function is_kind(kind, value)
  if kind == "strings" then
    return is_strings(value)
  elseif kind == "integer" then
    return M.is_natural(value)
  end
  return type(value) == kind
end

--- A copy of `options` that holds nothing but fields of the request with values of the right kind.
---@param options table
---@param name string how messages call the table
---@return table<string, any>? request
---@return indexgrep.Error? err
function M.check(options, name)
  local fault = require("indexgrep.notify").fault
  local request = {}
  for field, value in pairs(options) do
    local kind = KINDS[field]
    if kind == nil then
      local known = vim.tbl_keys(KINDS)
      table.sort(known)
      local hint = "Options: " .. table.concat(known, ", ") .. "."
      return nil, fault("usage", ("%s has no option %s"):format(name, vim.inspect(field)), hint)
    end
    if not is_kind(kind, value) then
      local shown = vim.inspect(value, { newline = " ", indent = "" })
      return nil, fault("usage", ("%s.%s must be %s, not %s"):format(name, field, EXPECTED[kind], shown))
    end
    request[field] = value
  end
  return request
end

--- The request for `pattern`.
---@param pattern string|string[] one pattern or several alternatives
---@param options indexgrep.ApiOptions
---@return table<string, any>? request
---@return indexgrep.Error? err
function M.build(pattern, options)
  local fault = require("indexgrep.notify").fault
  local patterns = type(pattern) == "string" and { pattern } or pattern
  if not is_strings(patterns) or #patterns == 0 then
    return nil,
      fault("usage", ("a pattern is a string or a list of strings, not %s"):format(vim.inspect(pattern)))
  end
  local fields = {}
  for field, value in pairs(options) do
    if field ~= "root" and field ~= "dir" then
      fields[field] = value
    end
  end
  local request, err = M.check(fields, "opts")
  if request then
    request.patterns = patterns
  end
  return request, err
end

return M
