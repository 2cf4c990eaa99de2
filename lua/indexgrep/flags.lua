--- The argument of `:IndexGrep`: ripgrep's flags, then the pattern, taken verbatim to the end of the line.
---
--- A flag's value is one word, or quoted with ' or " where it holds spaces. `--` ends the flags; one space
--- after it is dropped and everything else, spaces included, is the pattern. Nothing here goes through a
--- shell.

local M = {}

---@class indexgrep.Flag
---@field long string without its dashes
---@field short string? one letter
---@field field string of the search request
---@field value any what the flag sets; nil when it takes a value
---@field kind 'append'|'integer'|'choice'|nil how a value is kept
---@field choices string[]? with `choice`
---@field complete 'glob'|'type'|nil

---@type indexgrep.Flag[]
local FLAGS = {
  { long = "ignore-case", short = "i", field = "case", value = "insensitive" },
  { long = "case-sensitive", short = "s", field = "case", value = "sensitive" },
  { long = "smart-case", short = "S", field = "case", value = "smart" },
  { long = "fixed-strings", short = "F", field = "fixed_strings", value = true },
  { long = "word-regexp", short = "w", field = "word", value = true },
  { long = "line-regexp", short = "x", field = "line", value = true },
  { long = "invert-match", short = "v", field = "invert", value = true },
  { long = "multiline", short = "U", field = "multiline", value = true },
  { long = "multiline-dotall", field = "multiline_dotall", value = true },
  { long = "crlf", field = "crlf", value = true },
  { long = "no-unicode", field = "unicode", value = false },
  { long = "hidden", short = ".", field = "hidden", value = true },
  { long = "no-ignore", field = "no_ignore", value = true },
  { long = "no-ignore-vcs", field = "no_ignore_vcs", value = true },
  { long = "text", short = "a", field = "text", value = true },
  { long = "binary", field = "binary", value = true },
  { long = "follow", short = "L", field = "follow", value = true },
  { long = "glob", short = "g", field = "globs", kind = "append", complete = "glob" },
  { long = "iglob", field = "iglobs", kind = "append", complete = "glob" },
  { long = "type", short = "t", field = "types", kind = "append", complete = "type" },
  { long = "type-not", short = "T", field = "types_not", kind = "append", complete = "type" },
  { long = "max-count", short = "m", field = "max_count", kind = "integer" },
  { long = "max-depth", short = "d", field = "max_depth", kind = "integer" },
  { long = "buffers", field = "buffers", kind = "choice", choices = { "own", "all", "none" } },
}

local by_long = {} ---@type table<string, indexgrep.Flag>
local by_short = {} ---@type table<string, indexgrep.Flag>
for _, flag in ipairs(FLAGS) do
  by_long[flag.long] = flag
  if flag.short then
    by_short[flag.short] = flag
  end
end

--- How a flag is called in messages.
---@param flag indexgrep.Flag
local function name_of(flag)
  return flag.short and ("-%s/--%s"):format(flag.short, flag.long) or "--" .. flag.long
end

--- The word that begins at `at`, quotes taken off, and where it ends.
---@param args string
---@param at integer
---@return string? word nil where a quote is not closed
---@return integer after
local function read_word(args, at)
  local parts = {}
  while at <= #args do
    local char = args:sub(at, at)
    if char:match("%s") then
      break
    elseif char == "'" or char == '"' then
      local close = args:find(char, at + 1, true)
      if not close then
        return nil, at
      end
      table.insert(parts, args:sub(at + 1, close - 1))
      at = close + 1
    else
      table.insert(parts, char)
      at = at + 1
    end
  end
  return table.concat(parts), at
end

---@param options indexgrep.SearchOptions
---@param flag indexgrep.Flag
---@param value string?
---@return string? err
local function apply(options, flag, value)
  if flag.value ~= nil then
    options[flag.field] = flag.value
  elseif flag.kind == "append" then
    options[flag.field] = options[flag.field] or {}
    table.insert(options[flag.field], value)
  elseif flag.kind == "choice" then
    if not vim.list_contains(flag.choices, value) then
      return ("%s needs one of %s, not %q"):format(name_of(flag), table.concat(flag.choices, ", "), value)
    end
    options[flag.field] = value
  else
    if not value or not value:match("^%d+$") then
      return ("%s needs a whole number, not %q"):format(name_of(flag), value or "")
    end
    local number = tonumber(value)
    if not require("indexgrep.request").is_natural(number) then
      return ("%s: %s is too large a number"):format(name_of(flag), value)
    end
    options[flag.field] = number
  end
end

--- Reads one word of flags: `--long`, `--long=value`, `-x`, `-xyz`, `-gVALUE`.
---@param word string
---@return {flag: indexgrep.Flag, value: string?}[]? flags the last may lack its value
---@return string? err
local function read_flags(word)
  local hint = "Put `-- ` before a pattern that begins with a dash."
  if word:sub(1, 2) == "--" then
    local long, value = word:match("^%-%-([^=]+)=(.*)$")
    long = long or word:sub(3)
    local flag = by_long[long]
    if not flag then
      return nil, ("unknown flag --%s. %s"):format(long, hint)
    elseif value and flag.value ~= nil then
      return nil, ("%s takes no value"):format(name_of(flag))
    end
    return { { flag = flag, value = value } }
  end
  local found = {}
  local at = 2
  while at <= #word do
    local flag = by_short[word:sub(at, at)]
    if not flag then
      return nil, ("unknown flag -%s. %s"):format(word:match("^.[\128-\191]*", at), hint)
    end
    local value
    if flag.value == nil and at < #word then
      value = word:sub(at + 1):gsub("^=", "")
      at = #word
    end
    table.insert(found, { flag = flag, value = value })
    at = at + 1
  end
  return found
end

---@class indexgrep.Parsed
---@field pattern string? nil when only flags were given
---@field options indexgrep.SearchOptions

--- What the argument of `:IndexGrep` asks for.
---@param args string
---@return indexgrep.Parsed?
---@return string? err
function M.parse(args)
  local options = {} ---@type indexgrep.SearchOptions
  local at = 1
  while true do
    at = args:find("%S", at) or #args + 1
    if at > #args then
      return { options = options }
    end
    -- A lone dash is a pattern, as is everything that does not begin with one.
    if args:sub(at, at) ~= "-" or not args:sub(at + 1, at + 1):match("%S") then
      return { pattern = args:sub(at), options = options }
    end
    if args:match("^%-%-%s", at) or args:sub(at) == "--" then
      local pattern = args:sub(at + 3)
      return { pattern = pattern ~= "" and pattern or nil, options = options }
    end
    local word, after = read_word(args, at)
    if not word then
      return nil, ("a quote is not closed in %s"):format(args:sub(at))
    end
    local found, err = read_flags(word)
    if not found then
      return nil, err
    end
    for _, item in ipairs(found) do
      local value = item.value
      if item.flag.value == nil and value == nil then
        local start = args:find("%S", after)
        if not start then
          return nil, ("%s needs a value"):format(name_of(item.flag))
        end
        value, after = read_word(args, start)
        if not value then
          return nil, ("a quote is not closed in %s"):format(args:sub(start))
        end
      end
      err = apply(options, item.flag, value)
      if err then
        return nil, err
      end
    end
    at = after
  end
end

---@param candidates string[]
---@param lead string
---@return string[]
local function beginning_with(candidates, lead)
  return vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, lead)
  end, candidates)
end

--- Files and directories below the root whose path begins with `lead`, as globs: `?` stands in for what would
--- end the argument or means something else in a glob. A leading `!` stands for itself.
---@param lead string
---@return string[]
local function complete_glob(lead)
  local negation, path = lead:match("^(!?)(.*)$")
  local root = require("indexgrep.root").current()
  local directory, prefix = path:match("^(.*/)([^/]*)$")
  directory, prefix = directory or "", prefix or path
  local found = {}
  for name, kind in vim.fs.dir(vim.fs.joinpath(root, directory)) do
    if vim.startswith(name, prefix) and (prefix ~= "" or not vim.startswith(name, ".")) then
      local glob = name:gsub("[%s%c'\"*?%[%]{}\\]", "?")
      table.insert(found, negation .. directory .. glob .. (kind == "directory" and "/" or ""))
    end
  end
  table.sort(found)
  return found
end

--- Completion of `:IndexGrep`: flags, types after -t and -T, paths after -g. The pattern has no completion.
---@param lead string the word before the cursor
---@param line string the command line
---@param cursor integer bytes of it before the cursor
---@return string[]
function M.complete(lead, line, cursor)
  local before = line:sub(1, cursor):gsub("^.-IndexGrep%s*", "", 1)
  local head = before:sub(1, #before - #lead)
  local parsed, err = M.parse(head)
  local expecting = nil ---@type indexgrep.Flag?
  if err and err:match("needs a value$") then
    local last = head:match("(%S+)%s*$") or ""
    local found = read_flags(last)
    expecting = found and found[#found].flag
  elseif not parsed or parsed.pattern or head:match("%-%-%s$") then
    return {}
  end
  local prefix = ""
  if not expecting then
    local long, value = lead:match("^%-%-([^=]+)=(.*)$")
    expecting = long and by_long[long]
    if expecting then
      prefix, lead = ("--%s="):format(long), value
    elseif lead:match("^%-[^-]") then
      -- A value attached to a short flag, as in -tlua.
      local found = read_flags(lead)
      local last = found and found[#found]
      if last and last.value then
        expecting = last.flag
        prefix, lead = lead:sub(1, #lead - #last.value), last.value
      end
    end
  end
  if expecting then
    local found = {}
    if expecting.complete == "type" then
      found = beginning_with(require("indexgrep.types"), lead)
    elseif expecting.complete == "glob" then
      found = complete_glob(lead)
    elseif expecting.choices then
      found = beginning_with(expecting.choices, lead)
    end
    return vim.tbl_map(function(candidate)
      return prefix .. candidate
    end, found)
  end
  if not vim.startswith(lead, "-") then
    return {}
  end
  local candidates = {}
  for _, flag in ipairs(FLAGS) do
    table.insert(candidates, "--" .. flag.long)
    if flag.short then
      table.insert(candidates, "-" .. flag.short)
    end
  end
  table.sort(candidates)
  return beginning_with(candidates, lead)
end

return M
