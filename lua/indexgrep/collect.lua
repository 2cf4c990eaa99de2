--- A search whose answer is gathered as rows and handed to views (the results window, the quickfix list) in
--- small portions, so that the editor stays at the user's service however much comes. What somebody looks at
--- is served first; a view in the background (the quickfix list, which is slow to fill) gets the time that is
--- left.

local rows_of = require("indexgrep.rows")

local M = {}

--- How long a portion may take, and how long the editor then has to itself.
local PORTION_NS = 4e6
local PAUSE_MS = 1
--- Rows handed to the views at a time, about 1 ms of work: most of it goes into the quickfix list.
local ROWS_AT_A_TIME = 64

---@class indexgrep.View
---@field background boolean? serve the others first
--- Rows first..last are new.
---@field append fun(self: indexgrep.View, collection: indexgrep.Collection, first: integer, last: integer)
---@field update fun(self: indexgrep.View, collection: indexgrep.Collection) the state changed

---@class indexgrep.Collection
---@field title string what is searched for, as typed
---@field root string
---@field request indexgrep.ApiOptions with `pattern`
---@field limit integer
---@field rows indexgrep.Row[]
---@field files integer files with a match, so far
---@field lines integer matching lines, so far
---@field unshown integer matches that have no row
---@field errors integer files that could not be searched
---@field state 'searching'|'done'|'failed'|'stopped'
---@field summary table? with `done`
---@field error indexgrep.Error? with `failed`
---@field progress table? of the index being built, while it is
---@field private views indexgrep.View[]
---@field private queue indexgrep.File[]
---@field private taken integer files of the queue that became rows
---@field private shown table<indexgrep.View, integer> rows that each view has
---@field private outcome indexgrep.Event?
---@field private pumping boolean
---@field private last_path string?
---@field private handle indexgrep.Handle?
local Collection = {}
Collection.__index = Collection

---@param view indexgrep.View
function Collection:add_view(view)
  table.insert(self.views, view)
  self.shown[view] = 0
  view:update(self)
  self:start_pump()
end

---@return boolean
function Collection:is_running()
  return self.state == "searching"
end

--- Whether the search is over and every view has every row.
---@return boolean
function Collection:is_settled()
  return self.state ~= "searching" and not self.pumping
end

---@private
function Collection:tell_views()
  for _, view in ipairs(self.views) do
    view:update(self)
  end
end

---@private
---@param file indexgrep.File
function Collection:take(file)
  local known = self.last_path == file.path
  self.last_path = file.path
  local buf = file.source == "buffer" and require("indexgrep.buffers").holder(self.root, file.path) or nil
  self.unshown = self.unshown + rows_of.add(file, self.rows, buf)
  for _, line in ipairs(file.lines) do
    self.lines = self.lines + (line[5] and 1 or 0)
  end
  if type(file.error) == "string" then
    self.errors = self.errors + 1
  elseif not known then
    self.files = self.files + 1
  end
end

--- Hands the next few rows to a view that lacks some.
---@private
---@param background boolean to one in the background, or to one in the foreground
---@return boolean handed
function Collection:show_some(background)
  for _, view in ipairs(self.views) do
    local shown = self.shown[view]
    if shown < #self.rows and (view.background or false) == background then
      local last = math.min(shown + ROWS_AT_A_TIME, #self.rows)
      self.shown[view] = last
      view:append(self, shown + 1, last)
      return true
    end
  end
  return false
end

---@private
---@return boolean taken
function Collection:take_next()
  if self.taken < #self.queue then
    self.taken = self.taken + 1
    self:take(self.queue[self.taken])
    return true
  end
  self.queue, self.taken = {}, 0
  return false
end

--- The search is over once everybody who looks has seen all that came.
---@private
function Collection:conclude()
  if self.outcome and self.state == "searching" then
    self.state = self.outcome.event
    self.summary = self.outcome.summary
    self.error = self.outcome.error
    self.progress = nil
  end
end

--- Works for as long as a portion may last, then yields.
---@private
function Collection:pump()
  local began = vim.uv.hrtime()
  self.pumping = true
  while self.pumping and vim.uv.hrtime() - began < PORTION_NS do
    if not self:show_some(false) and not self:take_next() then
      self:conclude()
      self.pumping = self:show_some(true)
    end
  end
  self:tell_views()
  if self.pumping then
    vim.defer_fn(function()
      self:pump()
    end, PAUSE_MS)
  end
end

---@private
function Collection:start_pump()
  if not self.pumping then
    self:pump()
  end
end

---@private
---@param event indexgrep.Event
function Collection:on_event(event)
  if self.state ~= "searching" then
    return
  elseif event.event == "progress" then
    self.progress = event.state
    return self:tell_views()
  elseif event.event == "results" then
    vim.list_extend(self.queue, event.files)
  else
    self.outcome = event
  end
  self:start_pump()
end

--- Stops the search; the rows that came stay.
function Collection:stop()
  if self.state == "searching" then
    self.state = "stopped"
    self.queue, self.taken = {}, 0
    self.progress = nil
    self.handle:cancel()
    self:tell_views()
    self:start_pump()
  end
end

---@param count integer
---@param word string
---@return string
local function counted(count, word)
  return ("%d %s%s"):format(count, word, count == 1 and "" or "s")
end

--- How much was found, as words: `12 lines in 3 files`, `at least 10000 lines in 812 files`.
---@return string
function Collection:count_text()
  local cut = self.state == "stopped" or (self.summary ~= nil and self.summary.complete == false)
  local words = ("%s%s in %s"):format(
    cut and "at least " or "",
    counted(self.lines, "line"),
    counted(self.files, "file")
  )
  if self.unshown > 0 then
    words = ("%s, %d matches more in long lines"):format(words, self.unshown)
  end
  if self.errors > 0 then
    words = ("%s, %d unreadable"):format(words, self.errors)
  end
  local unsaved = self.summary and tonumber(self.summary.buffers) or 0
  if unsaved > 0 then
    words = ("%s, %s searched"):format(words, counted(unsaved, "unsaved buffer"))
  end
  return words
end

--- What the search is doing, as words; empty when it is done and complete.
---@return string
function Collection:state_text()
  if self.state == "searching" then
    local progress = self.progress
    local total = progress and tonumber(progress.documents_total) or 0
    if progress and progress.phase ~= "ready" and total > 0 then
      return ("searching… (building the index, %d %%)"):format(100 * progress.documents / total)
    end
    return "searching…"
  elseif self.state == "stopped" then
    return "stopped"
  elseif self.state == "failed" then
    -- Where rows hide it, the message is not seen otherwise.
    return #self.rows > 0 and "failed: " .. self.error.message:match("^[^\n]*") or "failed"
  end
  local reason = self.summary.reason
  if self.summary.complete == false and reason == "limit" then
    return ("cut at the limit of %d lines"):format(self.limit)
  elseif self.summary.complete == false then
    return ("incomplete: %s"):format(tostring(reason))
  end
  return ""
end

--- Starts a search.
---@param title string
---@param pattern string
---@param options indexgrep.ApiOptions
---@return indexgrep.Collection
function M.start(title, pattern, options)
  local collection = setmetatable({
    title = title,
    limit = options.limit,
    request = vim.tbl_extend("force", options, { pattern = pattern }),
    rows = {},
    files = 0,
    lines = 0,
    unshown = 0,
    errors = 0,
    state = "searching",
    views = {},
    queue = {},
    taken = 0,
    shown = {},
    pumping = false,
  }, Collection)
  collection.handle = require("indexgrep").search(pattern, options, function(event)
    collection:on_event(event)
  end)
  collection.root = collection.handle.root
  return collection
end

return M
