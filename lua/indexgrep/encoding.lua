--- Text in the encodings of 'fileencoding', without loss or not at all.
---
--- `vim.iconv` puts question marks in the place of what an encoding lacks, and tells nobody; and where it
--- meets a NUL byte in what is no text of the encoding it reads from, it ends the editor. So it gets only
--- what it can read.

local M = {}

--- Encodings made of units of several bytes: what iconv calls the little-endian one, and how its bytes are
--- then ordered. Without `le` Neovim means the big-endian one, and iconv the machine's.
---@type table<string, { iconv: string, pattern: string?, swapped: string? }>
local UNITS = {
  ["ucs-2"] = { iconv = "ucs-2le", pattern = "(.)(.)", swapped = "%2%1" },
  ["ucs-2le"] = { iconv = "ucs-2le" },
  ["utf-16"] = { iconv = "utf-16le", pattern = "(.)(.)", swapped = "%2%1" },
  ["utf-16le"] = { iconv = "utf-16le" },
  ["ucs-4"] = { iconv = "ucs-4le", pattern = "(.)(.)(.)(.)", swapped = "%4%3%2%1" },
  ["ucs-4le"] = { iconv = "ucs-4le" },
}

--- Byte-order marks; an encoding that is not here has none.
local MARKS = {
  [""] = "\239\187\191",
  ["utf-8"] = "\239\187\191",
  ["ucs-2"] = "\254\255",
  ["ucs-2le"] = "\255\254",
  ["utf-16"] = "\254\255",
  ["utf-16le"] = "\255\254",
  ["ucs-4"] = "\0\0\254\255",
  ["ucs-4le"] = "\255\254\0\0",
}

--- The byte-order mark that 'bomb' puts before a text.
---@param encoding string
---@return string
function M.mark(encoding)
  return MARKS[encoding] or ""
end

--- Everything of ASCII but `\` and `~`, which some encodings have elsewhere.
local ASCII = {}
for byte = 0, 127 do
  table.insert(ASCII, byte ~= 92 and byte ~= 126 and string.char(byte) or "")
end
ASCII = table.concat(ASCII)

--- By encoding: whether ASCII stands for itself in it wherever it stands.
local plain = {} ---@type table<string, boolean>

---@param encoding string
---@return boolean
local function is_plain(encoding)
  if plain[encoding] == nil then
    -- Others shift into a state in which its bytes mean something else.
    local sample = vim.iconv("é€Жα日한中", "utf-8", encoding)
    plain[encoding] = vim.iconv(ASCII, "utf-8", encoding) == ASCII
      and sample ~= nil
      and not sample:find("[\14\15\27~]")
  end
  return plain[encoding]
end

---@param text string
---@param encoding string
---@return string?
local function to_units(text, encoding)
  -- In four bytes everything has its place; what is no UTF-8 leaves less.
  local wide = vim.iconv(text, "utf-8", "ucs-4le")
  if not wide or #wide ~= 4 * vim.str_utfindex(text, "utf-32") then
    return nil
  elseif encoding:find("^ucs%-2") and text:find("[\240-\255]") then
    return nil
  end
  local unit = UNITS[encoding]
  local result = unit.iconv == "ucs-4le" and wide or vim.iconv(text, "utf-8", unit.iconv)
  if result and unit.pattern then
    result = result:gsub(unit.pattern, unit.swapped)
  end
  return result
end

--- UTF-8 text in another encoding; nil where it cannot be said in it, or that cannot be told.
---@param text string whole lines
---@param encoding string as in 'fileencoding'
---@return string?
function M.convert(text, encoding)
  if UNITS[encoding] then
    return to_units(text, encoding)
  elseif not is_plain(encoding) then
    return nil
  end
  local result = vim.iconv(text, "utf-8", encoding)
  return result and vim.iconv(result, encoding, "utf-8") == text and result or nil
end

--- The text of UTF-16, with a replacement character for each half of a surrogate pair that stands alone, and
--- without half a unit at the end.
---@param bytes string
---@param order 'le'|'be'
---@return string
function M.read_utf16(bytes, order)
  bytes = bytes:sub(1, #bytes - #bytes % 2)
  if order == "be" then
    bytes = bytes:gsub("(.)(.)", "%2%1")
  end
  local parts, first = {}, 1
  local at = 2 -- the high byte of a unit
  while at <= #bytes do
    local high, next_high = bytes:byte(at), bytes:byte(at + 2) or 0
    if high >= 0xD8 and high < 0xDC and next_high >= 0xDC and next_high < 0xE0 then
      at = at + 2
    elseif high >= 0xD8 and high < 0xE0 then
      table.insert(parts, bytes:sub(first, at - 2) .. "\253\255")
      first = at + 1
    end
    at = at + 2
  end
  table.insert(parts, bytes:sub(first))
  return vim.iconv(table.concat(parts), "utf-16le", "utf-8") or ""
end

--- The text of bytes in another encoding; nil where that cannot be told.
---@param bytes string
---@param encoding string as in 'fileencoding'
---@return string?
function M.read(bytes, encoding)
  return is_plain(encoding) and vim.iconv(bytes, encoding, "utf-8") or nil
end

return M
