--- Opening a row's place in a window.

local notify = require("indexgrep.notify")

local M = {}

---@alias indexgrep.OpenMode 'edit'|'split'|'vsplit'|'tab'

--- What to do about a swap file, asked once and answered to |SwapExists|, so that opening never ends in E325.
---@param path string
---@return string choice for v:swapchoice
local function ask_about_swap(path)
  if #vim.api.nvim_list_uis() == 0 then
    return "o"
  end
  local question = ("A swap file of %s exists: it may be open elsewhere, or a crash left it."):format(path)
  local answer = vim.fn.confirm(question, "&Open read-only\n&Edit anyway\n&Recover\n&Cancel", 1, "Warning")
  return ({ "o", "e", "r" })[answer] or "q"
end

---@param open fun()
---@return boolean ok
---@return string? err
local function with_swap_answer(open)
  local group = vim.api.nvim_create_augroup("indexgrep_swap", { clear = true })
  vim.api.nvim_create_autocmd("SwapExists", {
    group = group,
    callback = function(event)
      -- Neovim's own rule (the swap file is this editor's) or the user's comes first.
      if vim.v.swapchoice == "" then
        vim.v.swapchoice = ask_about_swap(event.file)
      end
    end,
  })
  local ok, err = pcall(open)
  vim.api.nvim_del_augroup_by_id(group)
  return ok, err
end

--- Leaves a window that is not for files (a quickfix list, say) for one that is.
local function leave_special_window()
  if vim.bo.buftype == "" then
    return
  end
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local plain = vim.api.nvim_win_get_config(win).relative == ""
    if plain and vim.bo[vim.api.nvim_win_get_buf(win)].buftype == "" then
      return vim.api.nvim_set_current_win(win)
    end
  end
  if vim.bo.buftype == "quickfix" then
    vim.cmd("aboveleft split")
  end
end

---@param mode indexgrep.OpenMode
local function make_window(mode)
  if mode == "split" then
    vim.cmd.split()
  elseif mode == "vsplit" then
    vim.cmd.vsplit()
  elseif mode == "tab" then
    -- Not `:tabnew`, which would leave an empty buffer behind.
    vim.cmd("tab split")
  end
end

--- The buffer of the file of `row`, made where there is none; nil where there is neither file nor buffer.
---@param root string
---@param row indexgrep.Row
---@return integer?
local function buffer_of(root, row)
  if row.buf and vim.api.nvim_buf_is_loaded(row.buf) then
    return row.buf
  end
  local path = vim.fs.joinpath(root, row.path)
  if vim.uv.fs_stat(path) then
    return vim.fn.bufadd(path)
  end
  local text = row.unsaved and not row.buf and "%s is another editor's, who has not written it yet"
    or "%s is gone since it was searched"
  notify.say(text:format(path), vim.log.levels.WARN)
end

--- Opens the file of `row` in the current window (or one split from it) with the cursor on the match.
---@param root string
---@param row indexgrep.Row
---@param mode indexgrep.OpenMode
---@return boolean opened
function M.open(root, row, mode)
  local buf = buffer_of(root, row)
  if not buf then
    return false
  end
  leave_special_window()
  vim.cmd("normal! m'")
  make_window(mode)
  vim.bo[buf].buflisted = true
  local ok, err = with_swap_answer(function()
    -- Not `:edit`: a name is data here, and a changed buffer may stay behind hidden or not at all.
    vim.cmd.buffer(buf)
  end)
  if vim.api.nvim_get_current_buf() ~= buf then
    if not ok then
      notify.say((tostring(err):gsub("^.-(E%d+:)", "%1")), vim.log.levels.ERROR)
    end
    return false
  end
  if row.lnum > 0 then
    local place = require("indexgrep.place").of(buf, row)
    local lnum = math.min(place.lnum, vim.api.nvim_buf_line_count(buf))
    vim.api.nvim_win_set_cursor(0, { lnum, place.col })
    vim.cmd("normal! zvzz")
  end
  return true
end

return M
