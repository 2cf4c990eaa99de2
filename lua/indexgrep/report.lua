--- The view of a search that has no window: one message when it fails. The quickfix list says the rest.

local M = {}

---@class indexgrep.Report: indexgrep.View
---@field said boolean
local Report = {}
Report.__index = Report

function Report:append() end

---@param collection indexgrep.Collection
function Report:update(collection)
  if collection.state == "failed" and not self.said then
    self.said = true
    require("indexgrep.notify").error(collection.error)
  end
end

---@return indexgrep.Report
function M.new()
  return setmetatable({ said = false }, Report)
end

return M
