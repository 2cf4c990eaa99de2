--- Highlight groups, each linked to a standard one unless the user or a colour scheme has set it.

local M = {}

--- Group → the group it is linked to.
M.groups = {
  IndexGrepNormal = "NormalFloat",
  IndexGrepBorder = "FloatBorder",
  IndexGrepTitle = "FloatTitle",
  IndexGrepFooter = "FloatFooter",
  IndexGrepCursorLine = "CursorLine",
  IndexGrepPath = "Directory",
  IndexGrepUnsaved = "WarningMsg",
  IndexGrepPosition = "LineNr",
  IndexGrepMatch = "Search",
  IndexGrepPreviewMatch = "Search",
  IndexGrepPreviewCurrent = "CurSearch",
  IndexGrepNote = "Comment",
  IndexGrepError = "DiagnosticError",
}

function M.define()
  for group, link in pairs(M.groups) do
    vim.api.nvim_set_hl(0, group, { default = true, link = link })
  end
end

return M
