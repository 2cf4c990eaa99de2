--- The results window: a list that fills as results come, and a preview of the row under the cursor.

local display = require("indexgrep.display")
local layout = require("indexgrep.layout")

local M = {}

local ns = vim.api.nvim_create_namespace("indexgrep_list")
local message_ns = vim.api.nvim_create_namespace("indexgrep_message")

---@class indexgrep.Window: indexgrep.View
---@field list_win integer
---@field list_buf integer
---@field preview_win integer?
---@field private origin integer the window to open files in
---@field private collection indexgrep.Collection
---@field private quickfix indexgrep.Quickfix
---@field private config indexgrep.Config
---@field private displays indexgrep.Display[]
---@field private preview indexgrep.Preview?
---@field private preview_buf integer
---@field private timer uv.uv_timer_t
---@field private group integer
---@field private closed boolean
---@field private told boolean that the search failed
---@field private footer string?
---@field private previewed integer row in the preview
local Window = {}
Window.__index = Window

--- The windows that are open, by the buffer of their list: what is drawn there is coloured from them.
local open_windows = {} ---@type table<integer, indexgrep.Window>

-- Only lines that are on the screen are coloured, whenever they are drawn.
vim.api.nvim_set_decoration_provider(ns, {
  on_win = function(_, _, buf)
    return open_windows[buf] ~= nil
  end,
  on_line = function(_, _, buf, index)
    open_windows[buf]:colour_line(index)
  end,
})

---@private
---@param index integer from 0
function Window:colour_line(index)
  local shown = self.displays[index + 1]
  if not shown then
    return
  end
  local function colour(first, last, group, priority)
    vim.api.nvim_buf_set_extmark(self.list_buf, ns, index, first, {
      end_col = last,
      hl_group = group,
      priority = priority,
      ephemeral = true,
      strict = false,
    })
  end
  colour(0, shown.path_end, "IndexGrepPath", 100)
  colour(shown.path_end, shown.mark_end, "IndexGrepUnsaved", 100)
  colour(shown.mark_end, shown.position_end, "IndexGrepPosition", 100)
  if shown.note then
    colour(
      shown.position_end,
      #shown.text,
      shown.note == "error" and "IndexGrepError" or "IndexGrepNote",
      100
    )
  elseif shown.last > shown.first then
    colour(shown.first, shown.last, "IndexGrepMatch", 110)
  end
end

---@param text string
---@param width integer
---@return string
local function fitted(text, width)
  text = text:gsub("%c", " ")
  if vim.api.nvim_strwidth(text) <= width then
    return text
  end
  return vim.fn.strcharpart(text, 0, math.max(width - 1, 0)) .. "…"
end

---@private
---@param lines string[]
---@param from integer from 0
---@param to integer exclusive; -1 is the end
function Window:set_lines(from, to, lines)
  vim.bo[self.list_buf].modifiable = true
  vim.api.nvim_buf_set_lines(self.list_buf, from, to, false, lines)
  vim.bo[self.list_buf].modifiable = false
end

---@private
---@return integer
function Window:row_index()
  return vim.api.nvim_win_get_cursor(self.list_win)[1]
end

---@private
---@return indexgrep.Row?
function Window:row()
  return self.collection.rows[self:row_index()]
end

---@param collection indexgrep.Collection
---@param first integer
---@param last integer
function Window:append(collection, first, last)
  if self.closed then
    return
  end
  local width = vim.api.nvim_win_get_width(self.list_win)
  local lines = {}
  for index = first, last do
    local shown = display.of(collection.rows[index], width)
    self.displays[index] = shown
    table.insert(lines, shown.text)
  end
  if first == 1 then
    vim.api.nvim_buf_clear_namespace(self.list_buf, message_ns, 0, -1)
  end
  -- The buffer's one empty line makes way for the first row.
  self:set_lines(first == 1 and 0 or first - 1, -1, lines)
  if self.previewed == 0 then
    self:update_preview(true)
  end
end

---@param collection indexgrep.Collection
function Window:update(collection)
  if self.closed then
    -- Nobody sees it here any more.
    if collection.state == "failed" and not self.told then
      self.told = true
      require("indexgrep.notify").error(collection.error)
    end
    return
  end
  local state = collection:state_text()
  local footer = collection:count_text() .. (state ~= "" and " · " .. state or "")
  self:decorate(footer)
  if #collection.rows > 0 and collection.state ~= "failed" then
    return
  end
  if collection.state == "failed" then
    self.told = true
    local lines = vim.split(require("indexgrep.notify").text(collection.error), "\n", { plain = true })
    self:tell(lines, "IndexGrepError")
  elseif collection.state == "searching" then
    self:tell({ "Searching…" }, "IndexGrepNote")
  else
    self:tell({ collection.state == "stopped" and "Stopped." or "Nothing was found." }, "IndexGrepNote")
  end
end

--- Says something in the list's place: below the rows where there are some.
---@private
---@param lines string[]
---@param group string
function Window:tell(lines, group)
  vim.api.nvim_buf_clear_namespace(self.list_buf, message_ns, 0, -1)
  local virtual = vim.tbl_map(function(line)
    return { { "  " .. line:gsub("%c", " "), group } }
  end, lines)
  local last = vim.api.nvim_buf_line_count(self.list_buf) - 1
  if #self.collection.rows == 0 then
    vim.api.nvim_buf_set_extmark(self.list_buf, message_ns, 0, 0, {
      virt_text = virtual[1],
      virt_text_pos = "overlay",
      virt_lines = #virtual > 1 and vim.list_slice(virtual, 2) or nil,
    })
  else
    vim.api.nvim_buf_set_extmark(self.list_buf, message_ns, last, 0, { virt_lines = virtual })
  end
end

--- Title and footer; in a 'winbar' where there is no border to write them on.
---@private
---@param footer string
function Window:decorate(footer)
  local width = vim.api.nvim_win_get_width(self.list_win)
  local title = fitted("IndexGrep " .. self.collection.title, width - 2)
  footer = fitted(footer, width - 2)
  local border = layout.border(self.config.window.border)
  if footer == self.footer then
    return
  end
  self.footer = footer
  if border == "none" then
    local bar = ("%s  %s"):format(title, footer):gsub("%%", "%%%%")
    vim.wo[self.list_win].winbar = bar
    return
  end
  vim.api.nvim_win_set_config(self.list_win, {
    title = { { " " .. title .. " ", "IndexGrepTitle" } },
    title_pos = "left",
    footer = { { " " .. footer .. " ", "IndexGrepFooter" } },
    footer_pos = "left",
  })
end

--- The rows of the same file around `index`, not more than a screen can show many times over.
---@private
---@param index integer
---@return indexgrep.Row[]
function Window:siblings(index)
  local rows = self.collection.rows
  local path = rows[index].path
  local first, last = index, index
  while first > 1 and rows[first - 1].path == path and index - first < 500 do
    first = first - 1
  end
  while rows[last + 1] and rows[last + 1].path == path and last - index < 500 do
    last = last + 1
  end
  return vim.list_slice(rows, first, last)
end

--- Shows the row under the cursor: at once where it is in the part of the file already shown, else after a
--- pause, so that holding a key down does not read every file it passes.
---@private
---@param now boolean
function Window:update_preview(now)
  local row = self:row()
  if self.closed or not self.preview or not row then
    return
  end
  local index = self:row_index()
  self.timer:stop()
  local function show()
    if not self.closed and self.preview:is_valid() and self:row() == row then
      self.previewed = index
      self.preview:show(self.collection.root, row, self:siblings(index))
      self:title_preview(row)
    end
  end
  if now or self.preview:is_near(self.collection.root, row) then
    show()
  else
    self.timer:start(self.config.preview.delay_ms, 0, vim.schedule_wrap(show))
  end
end

---@private
---@param row indexgrep.Row
function Window:title_preview(row)
  if layout.border(self.config.window.border) ~= "none" then
    local width = vim.api.nvim_win_get_width(self.preview_win)
    local mark = row.unsaved and display.UNSAVED or ""
    vim.api.nvim_win_set_config(self.preview_win, {
      title = {
        { " " .. fitted(row.path, width - 2 - #mark), "IndexGrepTitle" },
        { mark, "IndexGrepUnsaved" },
        { " ", "IndexGrepTitle" },
      },
      title_pos = "left",
    })
  end
end

---@private
---@param win integer
function Window:style(win)
  vim.wo[win].winhighlight = table.concat({
    "NormalFloat:IndexGrepNormal",
    "FloatBorder:IndexGrepBorder",
    "CursorLine:IndexGrepCursorLine",
  }, ",")
  vim.wo[win].wrap = false
  vim.wo[win].cursorline = true
  vim.wo[win].list = false
  vim.wo[win].foldenable = false
  vim.wo[win].spell = false
end

---@private
---@param buf integer
---@param at indexgrep.Rectangle
---@param enter boolean
---@return integer
function Window:open_float(buf, at, enter)
  local win = vim.api.nvim_open_win(buf, enter, {
    relative = "editor",
    row = at.row,
    col = at.col,
    width = at.width,
    height = at.height,
    style = "minimal",
    border = layout.border(self.config.window.border),
    zindex = 45,
    noautocmd = true,
  })
  self:style(win)
  return win
end

---@private
---@param at indexgrep.Rectangle
function Window:open_preview(at)
  self.preview_win = self:open_float(self.preview_buf, at, false)
  self.preview = require("indexgrep.preview").new(self.preview_win, self.preview_buf, self.config.preview)
end

--- Fits the windows to the screen after it changed.
---@private
function Window:resize()
  if self.closed then
    return
  end
  local list, preview = layout.compute(layout.screen(), self.config.window)
  vim.api.nvim_win_set_config(self.list_win, vim.tbl_extend("error", { relative = "editor" }, list))
  if self.preview_win and not preview then
    vim.api.nvim_win_close(self.preview_win, true)
    self.preview_win, self.preview = nil, nil
  elseif self.preview_win then
    vim.api.nvim_win_set_config(self.preview_win, vim.tbl_extend("error", { relative = "editor" }, preview))
  elseif preview then
    self:open_preview(preview)
  end
  if #self.displays > 0 then
    self:append(self.collection, 1, #self.displays)
  end
  self.footer = nil
  self:update(self.collection)
  self:update_preview(true)
end

--- Closes both windows and returns to where the user was. The search goes on unless it is stopped.
function Window:close()
  if self.closed then
    return
  end
  self.closed = true
  open_windows[self.list_buf] = nil
  self.timer:stop()
  self.timer:close()
  vim.api.nvim_del_augroup_by_id(self.group)
  local inside = vim.api.nvim_get_current_win()
  if inside == self.list_win or inside == self.preview_win then
    if vim.api.nvim_win_is_valid(self.origin) then
      vim.api.nvim_set_current_win(self.origin)
    end
  end
  for _, win in pairs({ self.list_win, self.preview_win }) do
    if vim.api.nvim_win_is_valid(win) then
      vim.api.nvim_win_close(win, true)
    end
  end
  for _, buf in ipairs({ self.list_buf, self.preview_buf }) do
    if vim.api.nvim_buf_is_valid(buf) then
      vim.api.nvim_buf_delete(buf, { force = true })
    end
  end
end

---@private
---@param mode indexgrep.OpenMode
function Window:jump(mode)
  local row, index = self:row(), self:row_index()
  if row then
    self:close()
    vim.fn.setqflist({}, "a", { id = self.quickfix.id, idx = index })
    require("indexgrep.jump").open(self.collection.root, row, mode)
  end
end

---@private
---@param key string
function Window:scroll_preview(key)
  if self.preview and self.preview:is_valid() then
    vim.api.nvim_win_call(self.preview_win, function()
      vim.cmd("normal! " .. vim.keycode(key))
    end)
  end
end

---@private
function Window:map_keys()
  local actions = {
    jump = function()
      self:jump("edit")
    end,
    split = function()
      self:jump("split")
    end,
    vsplit = function()
      self:jump("vsplit")
    end,
    tab = function()
      self:jump("tab")
    end,
    quickfix = function()
      local index = self:row_index()
      self:close()
      self.quickfix:open(index)
    end,
    stop = function()
      self.collection:stop()
    end,
    close = function()
      self.collection:stop()
      self:close()
    end,
    preview_down = function()
      self:scroll_preview("<C-d>")
    end,
    preview_up = function()
      self:scroll_preview("<C-u>")
    end,
  }
  for action, run in pairs(actions) do
    local keys = self.config.keys[action]
    for _, key in ipairs(type(keys) == "table" and keys or { keys or nil }) do
      vim.keymap.set("n", key, run, { buffer = self.list_buf, nowait = true, desc = "indexgrep: " .. action })
    end
  end
  vim.keymap.set("n", "<2-LeftMouse>", actions.jump, { buffer = self.list_buf, desc = "indexgrep: jump" })
end

---@private
function Window:watch()
  local function on(event, callback, buf)
    vim.api.nvim_create_autocmd(event, { group = self.group, buffer = buf, callback = callback })
  end
  on("CursorMoved", function()
    if self:row_index() ~= self.previewed then
      self:update_preview(false)
    end
  end, self.list_buf)
  on("VimResized", function()
    self:resize()
  end)
  on("WinClosed", function(event)
    local win = tonumber(event.match)
    if win == self.list_win then
      vim.schedule(function()
        self:close()
      end)
    elseif win == self.preview_win then
      self.preview_win, self.preview = nil, nil
    end
  end)
  on("WinEnter", function()
    -- Another floating window (a question, a notice) may come and go; to stay in a window of the layout
    -- means: elsewhere. The command-line window, in which none can be closed, returns here; it may have done
    -- so before this is looked at.
    vim.schedule(function()
      if vim.api.nvim_win_get_config(0).relative == "" and vim.fn.getcmdwintype() == "" then
        self:close()
      end
    end)
  end)
end

---@param name string
---@return integer
local function scratch_buffer(name)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.bo[buf].bufhidden = "hide"
  vim.bo[buf].modifiable = false
  vim.bo[buf].undolevels = -1
  vim.bo[buf].swapfile = false
  if name ~= "" then
    vim.bo[buf].filetype = name
  end
  return buf
end

--- Opens the window over `collection`, at once and whatever has come so far.
---@param collection indexgrep.Collection
---@param quickfix indexgrep.Quickfix where the same results are
---@param config indexgrep.Config
---@return indexgrep.Window? nil where Neovim allows no window now, or not as it is configured
---@return string? err
function M.open(collection, quickfix, config)
  if vim.fn.getcmdwintype() ~= "" then
    return nil, "E11: Invalid in command-line window"
  end
  require("indexgrep.highlights").define()
  for _, other in pairs(open_windows) do
    other:close()
  end
  local self = setmetatable({
    collection = collection,
    quickfix = quickfix,
    config = config,
    displays = {},
    origin = vim.api.nvim_get_current_win(),
    list_buf = scratch_buffer("indexgrep"),
    preview_buf = scratch_buffer(""),
    timer = assert(vim.uv.new_timer()),
    group = vim.api.nvim_create_augroup("indexgrep_window", { clear = true }),
    closed = false,
    told = false,
    previewed = 0,
  }, Window)
  vim.b[self.list_buf].indexgrep_root = collection.root
  local ok, err = pcall(function()
    local list, preview = layout.compute(layout.screen(), config.window)
    self.list_win = self:open_float(self.list_buf, list, true)
    if preview then
      self:open_preview(preview)
    end
    self:decorate("")
    self:map_keys()
  end)
  if not ok then
    self:close()
    return nil, (tostring(err):gsub("^.-(E%d+:)", "%1"):gsub("^[^%s:]+:%d+: ", ""))
  end
  open_windows[self.list_buf] = self
  self:watch()
  return self
end

return M
