--- Configuration: `vim.g.indexgrep`, a table or a function that returns one; read anew for each search.
---
--- One schema says every option's kind, default and meaning. A wrong value is named in one message and its
--- default is used, so that a mistake in a configuration never takes the search away.

local M = {}

---@class indexgrep.Config
---@field command string|string[]|nil the backend; default: the plugin's `.venv/bin/indexgrep`, else PATH
---@field remote_plugin boolean start the backend through the Python remote plugin where it is registered
---@field start_timeout_ms integer how long the server may take to answer after it was started
---@field limit integer matching lines after which a search started by a command ends
---@field search indexgrep.SearchOptions options that every `:IndexGrep` begins with, before its flags
---@field unsaved boolean unsaved buffers are searched as they stand
---@field unsaved_debounce_ms integer so long after a change the server gets it, if no search needs it before
---@field window indexgrep.config.Window
---@field preview indexgrep.config.Preview
---@field keys table<string, string|string[]|false> action → key or keys in the results window

---@class indexgrep.config.Window
---@field open boolean open the results window; `false`: results go to the quickfix list only
---@field width number share of the screen's columns
---@field height number share of the screen's lines
---@field border string|string[]|nil as for nvim_open_win(); default: 'winborder', else `single`
---@field preview boolean show the preview where there is room for it

---@class indexgrep.config.Preview
---@field delay_ms integer wait so long before another file is shown
---@field max_bytes integer files larger than this are shown around the match only
---@field max_line integer bytes of a line that are shown
---@field highlight boolean syntax colours

---@class indexgrep.config.Leaf
---@field check fun(value: any): boolean
---@field expected string
---@field default any

---@param check fun(value: any): boolean
---@param expected string
---@param default any
---@return indexgrep.config.Leaf
local function leaf(check, expected, default)
  return { check = check, expected = expected, default = default }
end

local function is_boolean(value)
  return type(value) == "boolean"
end

local function is_natural(value)
  return require("indexgrep.request").is_natural(value)
end

local function is_positive_integer(value)
  return is_natural(value) and value > 0
end

local function is_share(value)
  return type(value) == "number" and value > 0 and value <= 1
end

local function is_strings(value)
  if type(value) ~= "table" or not vim.islist(value) or #value == 0 then
    return false
  end
  return vim.iter(value):all(function(item)
    return type(item) == "string" and item ~= ""
  end)
end

local function is_command(value)
  return (type(value) == "string" and value ~= "") or is_strings(value)
end

local function is_border(value)
  return type(value) == "string" or (type(value) == "table" and vim.islist(value))
end

local function is_key(value)
  return value == false or type(value) == "string" or is_strings(value)
end

local function is_table(value)
  return type(value) == "table"
end

---@param default string|string[]
local function key(default)
  return leaf(is_key, "a key, a list of keys, or false", default)
end

local POSITIVE = "a whole number above 0"

---@type table<string, any>
local SCHEMA = {
  command = leaf(is_command, "a string or a list of strings", nil),
  remote_plugin = leaf(is_boolean, "true or false", true),
  start_timeout_ms = leaf(is_positive_integer, POSITIVE, 15000),
  limit = leaf(is_positive_integer, POSITIVE, 10000),
  search = leaf(is_table, "a table of search options", {}),
  unsaved = leaf(is_boolean, "true or false", true),
  unsaved_debounce_ms = leaf(is_natural, "a whole number, 0 or above", 300),
  window = {
    open = leaf(is_boolean, "true or false", true),
    width = leaf(is_share, "a number above 0 and up to 1", 0.9),
    height = leaf(is_share, "a number above 0 and up to 1", 0.9),
    border = leaf(is_border, "a border as for nvim_open_win()", nil),
    preview = leaf(is_boolean, "true or false", true),
  },
  preview = {
    delay_ms = leaf(is_natural, "a whole number, 0 or above", 100),
    max_bytes = leaf(is_positive_integer, POSITIVE, 512 * 1024),
    max_line = leaf(is_positive_integer, POSITIVE, 1000),
    highlight = leaf(is_boolean, "true or false", true),
  },
  keys = {
    jump = key("<CR>"),
    split = key("<C-s>"),
    vsplit = key("<C-v>"),
    tab = key("<C-t>"),
    quickfix = key("<C-q>"),
    stop = key("<C-c>"),
    close = key({ "q", "<Esc>" }),
    preview_down = key("<C-f>"),
    preview_up = key("<C-b>"),
  },
}

---@param schema table
---@return boolean
local function is_leaf(schema)
  return type(schema.check) == "function"
end

---@param schema table<string, any>
---@param given any
---@param name string
---@param faults string[]
---@return table
local function merge(schema, given, name, faults)
  if type(given) ~= "table" then
    table.insert(faults, ("%s must be a table, not %s"):format(name, vim.inspect(given)))
    given = {}
  end
  for option in pairs(given) do
    if schema[option] == nil then
      local known = vim.tbl_keys(schema)
      table.sort(known)
      table.insert(
        faults,
        ("%s has no option %s. Options: %s"):format(name, vim.inspect(option), table.concat(known, ", "))
      )
    end
  end
  local merged = {}
  for option, sub in pairs(schema) do
    local value = given[option]
    local full = ("%s.%s"):format(name, option)
    if not is_leaf(sub) then
      merged[option] = merge(sub, value == nil and {} or value, full, faults)
    elseif value == nil or sub.check(value) then
      merged[option] = value == nil and vim.deepcopy(sub.default) or value
      if value == false then
        merged[option] = false
      end
    else
      table.insert(
        faults,
        ("%s must be %s, not %s"):format(
          full,
          sub.expected,
          vim.inspect(value, { newline = " ", indent = "" })
        )
      )
      merged[option] = vim.deepcopy(sub.default)
    end
  end
  return merged
end

--- The configuration with every default filled in, and what is wrong with the user's.
---@param given any what `vim.g.indexgrep` holds: a table, a function, or nil
---@return indexgrep.Config config
---@return string[] faults one sentence each, in order of name
function M.resolve(given)
  local faults = {} ---@type string[]
  if type(given) == "function" then
    local ok, value = pcall(given)
    if not ok then
      table.insert(faults, ("vim.g.indexgrep is a function that failed: %s"):format(value))
      value = {}
    elseif type(value) ~= "table" then
      table.insert(
        faults,
        ("vim.g.indexgrep is a function that returned %s, not a table"):format(vim.inspect(value))
      )
      value = {}
    end
    given = value
  end
  local config = merge(SCHEMA, given == nil and {} or given, "vim.g.indexgrep", faults)
  if next(config.search) ~= nil then
    local _, err = require("indexgrep.request").check(config.search, "vim.g.indexgrep.search")
    if err then
      table.insert(faults, err.message)
      config.search = {}
    end
  end
  table.sort(faults)
  return config, faults
end

---@param schema table<string, any>
---@param prefix string
---@param names string[]
local function collect_names(schema, prefix, names)
  for option, sub in pairs(schema) do
    if is_leaf(sub) then
      table.insert(names, prefix .. option)
    else
      collect_names(sub, prefix .. option .. ".", names)
    end
  end
end

--- The full name of every option, as in `window.width`.
---@return string[]
function M.names()
  local names = {}
  collect_names(SCHEMA, "", names)
  table.sort(names)
  return names
end

--- The configuration now in force. Each fault in it is said once.
---@return indexgrep.Config
function M.get()
  local config, faults = M.resolve(vim.g.indexgrep)
  for _, fault in ipairs(faults) do
    require("indexgrep.notify").once(fault)
  end
  return config
end

return M
