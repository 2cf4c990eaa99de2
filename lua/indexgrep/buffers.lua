--- The unsaved buffers of this editor, as the servers of its open sessions know them (doc/protocol.md).
---
--- A buffer that is modified and has a file below a session's root is searched as it stands. When a query is
--- asked, whatever its server does not know yet goes out on the same connection before it (`publish`). While
--- somebody types, changes are sent after a pause, so that others who ask the server see them; typing starts
--- no server. What is written, renamed or closed is told at once, and nobody waits for an answer.
---
--- A *ledger* is what one session's server holds. Everything that takes time is a *job*: jobs are worked off
--- one after another, in slices, so that the editor is never held.

local buffer_text = require("indexgrep.buffer_text")
local file_path = require("indexgrep.file_path")
local notify = require("indexgrep.notify")

local api = vim.api

local M = {}

--- Texts larger than this (bytes) are not sent while somebody types, but only when a query is asked: to
--- gather one of this size takes 4 ms in slices, and makes as many bytes of garbage.
M.TYPING_MOST = 1024 * 1024
--- The same where the text must be converted, which takes several times as long.
M.TYPING_MOST_CONVERTED = 64 * 1024
--- Texts larger than this are never sent; the server takes none.
M.MOST = 16 * 1024 * 1024
--- A text goes in messages of about so many bytes; the server takes up to 8 MiB.
local PART = 1024 * 1024
--- How long the jobs may hold the editor: when nobody waits for them, and when a query does.
local TYPING_SLICE_NS, QUERY_SLICE_NS = 0.7e6, 4e6
--- How long the editor then has to itself.
local PAUSE_MS = 1
--- While more bytes than this wait for a server, it gets none that no query needs.
local BACKLOG = 1024 * 1024
--- Who types without a pause is heard after so many times the pause.
local LONGEST_PAUSES = 4
--- How often a text is tried to be sent.
local ATTEMPTS = 3

--- What a server holds of one file.
---@class indexgrep.Held
---@field buf integer
---@field stamp string of the text
---@field refused boolean? the server did not take it: it holds nothing

---@class indexgrep.Ledger
---@field session indexgrep.Session
---@field held table<string, indexgrep.Held> by path
---@field paths table<integer, string> the path of each buffer that is held

--- A buffer whose text stands for a file.
---@class indexgrep.Unsaved
---@field buf integer
---@field path string
---@field stamp string

---@class indexgrep.BufferJob
---@field buf integer? to be sent; else the job is to call `done`
---@field done fun()?
---@field typing boolean? no query needs it
---@field reader indexgrep.TextReader?
---@field slice number? nanoseconds
---@field faults integer? how often it failed

local ledgers = {} ---@type table<indexgrep.Session, indexgrep.Ledger>
local jobs = {} ---@type indexgrep.BufferJob[]
local working = false
--- Roots whose server went away. Others may start another at any time, and ask it for the unsaved buffers of
--- all its clients.
local lost = {} ---@type table<string, true>
--- Buffers that changed since they were last looked at.
local touched = {} ---@type table<integer, true>
--- When each buffer was last seen to change, in order: the later of two buffers of one file counts.
local order, moment = {}, 0 ---@type table<integer, integer>, integer
--- Buffers whose changes this module hears of.
local watched = {} ---@type table<integer, true>
--- Real paths by the names of buffers, found out anew for every query.
local resolved = {} ---@type table<string, string>
local group = nil ---@type integer?
local timer = nil ---@type uv.uv_timer_t?
local pause_ms = 0
local touched_since = nil ---@type number?
--- Rises with every text that is sent: the server drops what is older than what it has.
local last_tick = 0

---@param name string
---@return string
local function real(name)
  local path = resolved[name]
  if not path then
    path = file_path.resolve(name)
    resolved[name] = path
  end
  return path
end

---@param buf integer
---@return string? name nil where it is no plain file's
local function file_name(buf)
  if not api.nvim_buf_is_loaded(buf) or api.nvim_get_option_value("buftype", { buf = buf }) ~= "" then
    return nil
  end
  local name = api.nvim_buf_get_name(buf)
  return name ~= "" and not name:find("^%a[%w+.-]*://") and name or nil
end

---@param buf integer
---@return indexgrep.Unsaved? nil where the buffer's text stands for no file
local function unsaved(buf)
  local name = file_name(buf)
  if name and api.nvim_get_option_value("modified", { buf = buf }) then
    return { buf = buf, path = real(name), stamp = buffer_text.stamp(buf) }
  end
end

---@param ledger indexgrep.Ledger
---@param path string
---@return boolean
local function concerns(ledger, path)
  return ledger.session.channel:is_open() and file_path.is_below(ledger.session.root, path)
end

--- Tells a server that these buffers are none any more. Their files may have been written, perhaps unheard.
---@param ledger indexgrep.Ledger
---@param paths string[]
local function retract(ledger, paths)
  if #paths == 0 then
    return
  end
  for _, path in ipairs(paths) do
    ledger.paths[ledger.held[path].buf] = nil
    ledger.held[path] = nil
  end
  -- What was refused may have room now.
  for _, held in pairs(ledger.held) do
    if held.refused then
      held.stamp = ""
    end
  end
  ledger.session.channel:notify("changed", { paths })
  ledger.session.channel:notify("buffer_gone", { paths })
end

--- Brings what was told of one buffer in line with what it is now: another file's, say, or nobody's.
---@param buf integer
---@param now indexgrep.Unsaved?
local function review(buf, now)
  for _, ledger in pairs(ledgers) do
    local path = ledger.paths[buf]
    if path and (not now or now.path ~= path) then
      retract(ledger, { path })
    end
  end
end

--- Whether the server lacks a buffer's text.
---@param ledger indexgrep.Ledger
---@param now indexgrep.Unsaved
---@return boolean
local function lacks(ledger, now)
  if not concerns(ledger, now.path) then
    return false
  end
  local held = ledger.held[now.path]
  if not held then
    return true
  elseif held.buf == now.buf then
    return held.stamp ~= now.stamp
  end
  -- Two buffers of one file: the one changed last counts.
  local other = unsaved(held.buf)
  return not other or other.path ~= now.path or (order[now.buf] or 0) >= (order[held.buf] or 0)
end

--- The beginning of the message that carries `size` bytes of text.
---@param path string
---@param tick integer
---@param size integer
---@param more boolean
---@return string
local function head_of(path, tick, size, more)
  local encode = vim.mpack.encode
  local fields = { "path", path, "tick", tick, "more", more, "text" }
  local encoded = vim.tbl_map(encode, fields)
  -- A map of four; the text as `bin`, of a length in four bytes.
  local length = string.char(
    bit.rshift(size, 24),
    bit.band(bit.rshift(size, 16), 255),
    bit.band(bit.rshift(size, 8), 255),
    bit.band(size, 255)
  )
  return "\132" .. table.concat(encoded) .. "\198" .. length
end

--- `pieces` in groups of about a part's size.
---@param pieces string[]
---@return { size: integer, [integer]: string }[] one at least
local function parts_of(pieces)
  local parts = { { size = 0 } }
  local function add(piece)
    local part = parts[#parts]
    if part.size > 0 and part.size + #piece > PART then
      part = { size = 0 }
      table.insert(parts, part)
    end
    table.insert(part, piece)
    part.size = part.size + #piece
  end
  for _, piece in ipairs(pieces) do
    for from = 1, #piece, PART do
      add(#piece <= PART and piece or piece:sub(from, from + PART - 1))
    end
  end
  return parts
end

---@param ledger indexgrep.Ledger
---@param path string
---@param buf integer
---@param stamp string
---@param err any what the server says
local function on_refusal(ledger, path, buf, stamp, err)
  local held = ledger.held[path]
  if held and held.buf == buf and held.stamp == stamp and ledger.session.channel:is_open() then
    held.refused = true
    local reason = type(err) == "table" and err.message or tostring(err)
    notify.once(("unsaved changes are not searched: %s"):format(reason))
  end
end

---@param ledger indexgrep.Ledger
---@param path string
---@param buf integer
---@param reader indexgrep.TextReader
local function send(ledger, path, buf, reader)
  local other = ledger.held[path]
  if other then
    ledger.paths[other.buf] = nil
  end
  local stamp = reader.stamp
  ledger.held[path] = { buf = buf, stamp = stamp }
  ledger.paths[buf] = path
  last_tick = last_tick + 1
  local parts = parts_of(reader.pieces)
  for number, part in ipairs(parts) do
    local more = number < #parts
    local param = vim.list_extend({ head_of(path, last_tick, part.size, more) }, part)
    if more then
      ledger.session.channel:notify_encoded("buffer", param)
    else
      ledger.session.channel:request_encoded("buffer", param, function(err)
        if err ~= nil then
          on_refusal(ledger, path, buf, stamp, err)
        end
      end)
    end
  end
end

--- Whether a text of so many bytes is too large for any server. The user is told, once for each file.
---@param path string
---@param size integer
---@return boolean
local function is_too_large(path, size)
  if size <= M.MOST then
    return false
  end
  notify.once(
    ("%s has more than %d MiB: it is searched as it is on disk, without its unsaved changes"):format(
      path,
      M.MOST / 1024 / 1024
    )
  )
  return true
end

--- Looks at the buffer of a job and begins to read it where a server needs that.
---@param job indexgrep.BufferJob
---@return boolean begun
local function begin(job)
  local buf = job.buf --[[@as integer]]
  local now = unsaved(buf)
  review(buf, now)
  if not now then
    return false
  end
  local needed = false
  for _, ledger in pairs(ledgers) do
    needed = needed or lacks(ledger, now)
  end
  if not needed then
    return false
  end
  local size = buffer_text.size(buf)
  local typing_most = buffer_text.is_converted(buf) and M.TYPING_MOST_CONVERTED or M.TYPING_MOST
  if is_too_large(now.path, size) or (job.typing and size > typing_most) then
    -- Rather the file on disk than a text that has been moved on from.
    review(buf, nil)
    return false
  end
  job.reader = buffer_text.reader(buf)
  return true
end

---@param job indexgrep.BufferJob
local function deliver(job)
  local buf = job.buf --[[@as integer]]
  local now = unsaved(buf)
  if not now or is_too_large(now.path, job.reader.size) then
    return review(buf, nil)
  end
  for _, ledger in pairs(ledgers) do
    if lacks(ledger, now) then
      send(ledger, now.path, buf, job.reader)
    end
  end
end

--- Goes on with a job.
---@param job indexgrep.BufferJob
---@param deadline number of vim.uv.hrtime()
---@return boolean finished
local function advance(job, deadline)
  if job.done then
    job.done()
    return true
  elseif not job.reader and not begin(job) then
    return true
  end
  local state = job.reader:step(deadline)
  if state == "more" then
    return false
  elseif state == "done" then
    deliver(job)
    return true
  end
  -- The buffer was changed under the reader. That is heard of anyway; but a query waits for a text, and he
  -- who goes on typing must not keep it waiting: each new attempt gets more time at once.
  job.reader = nil
  job.slice = (job.slice or QUERY_SLICE_NS) * 2
  return job.typing or false
end

--- Goes on with a job whatever happens: the queries that come after it must be asked. What fails is tried
--- again, for it may have been interrupted (by CTRL-C, say); in the end the file on disk is searched, and not
--- an old text.
---@param job indexgrep.BufferJob
---@param deadline number
---@return boolean finished
local function try_to_advance(job, deadline)
  local ok, result = pcall(advance, job, deadline)
  if ok then
    return result
  end
  job.reader = nil
  job.faults = (job.faults or 0) + 1
  if job.buf and job.faults < ATTEMPTS then
    return false
  end
  if job.buf then
    review(job.buf, nil)
  end
  notify.once(("unsaved changes are not searched: %s"):format(result), vim.log.levels.ERROR)
  return true
end

local function work()
  working = true
  local waited_for = vim.iter(jobs):any(function(job)
    return job.done ~= nil
  end)
  local slice = waited_for and (jobs[1].slice or QUERY_SLICE_NS) or TYPING_SLICE_NS
  local deadline = vim.uv.hrtime() + slice
  while jobs[1] do
    if try_to_advance(jobs[1], deadline) then
      table.remove(jobs, 1)
    end
    if jobs[1] and vim.uv.hrtime() >= deadline then
      return vim.defer_fn(work, PAUSE_MS)
    end
  end
  working = false
end

local function start_work()
  if not working and jobs[1] then
    work()
  end
end

local function retract_all()
  for _, ledger in pairs(ledgers) do
    retract(ledger, vim.tbl_keys(ledger.held))
  end
end

local listen ---@type fun()

--- Sends what changed since the last pause.
local function on_pause()
  touched_since = nil
  for root in pairs(lost) do
    -- Starts none; where one runs, `M.opened` sends it everything.
    require("indexgrep.rpc").open(root, false, function() end)
  end
  if next(ledgers) == nil then
    touched = {}
    return
  end
  local config = require("indexgrep.config").get()
  pause_ms = config.unsaved_debounce_ms
  if not config.unsaved then
    touched = {}
    return retract_all()
  end
  for session in pairs(ledgers) do
    if session.channel:pending() > BACKLOG then
      return listen()
    end
  end
  for buf in pairs(touched) do
    table.insert(jobs, { buf = buf, typing = true })
  end
  touched = {}
  start_work()
end

--- Waits for the next pause.
listen = function()
  local now = vim.uv.now()
  touched_since = touched_since or now
  local longest = touched_since + LONGEST_PAUSES * pause_ms - now
  timer = timer or assert(vim.uv.new_timer())
  timer:start(math.max(0, math.min(pause_ms, longest)), 0, vim.schedule_wrap(on_pause))
end

---@param buf integer
local function touch(buf)
  moment = moment + 1
  order[buf] = moment
  touched[buf] = true
  listen()
end

--- The buffer is on its way out.
---@param buf integer
local function forget(buf)
  review(buf, nil)
  touched[buf], order[buf] = nil, nil
end

--- Hears of every change of a buffer from now on, also of those that raise no event for autocommands because
--- they are made from Lua while another buffer is current.
---@param buf integer
local function watch(buf)
  if watched[buf] or not file_name(buf) then
    return
  end
  watched[buf] = api.nvim_buf_attach(buf, false, {
    on_lines = function()
      touch(buf)
    end,
    on_reload = function()
      touch(buf)
    end,
    on_detach = function()
      watched[buf] = nil
      forget(buf)
    end,
  }) or nil
end

--- Tells the servers of a file that was just written or read anew.
---@param name string
local function announce(name)
  if name == "" or name:find("^%a[%w+.-]*://") then
    return
  end
  local path = file_path.resolve(vim.fs.abspath(name))
  for _, ledger in pairs(ledgers) do
    if concerns(ledger, path) then
      ledger.session.channel:notify("changed", { { path } })
    end
  end
end

local function create_autocommands()
  group = api.nvim_create_augroup("indexgrep_buffers", { clear = true })
  local function on(events, callback, pattern)
    api.nvim_create_autocmd(events, { group = group, pattern = pattern, callback = callback })
  end
  on({ "BufReadPost", "BufNewFile", "BufEnter" }, function(event)
    watch(event.buf)
  end)
  on({ "BufWritePost", "FileWritePost", "FileAppendPost", "FileChangedShellPost" }, function(event)
    announce(event.match)
    if api.nvim_buf_is_valid(event.buf) then
      review(event.buf, unsaved(event.buf))
    end
  end)
  on("BufFilePost", function(event)
    watch(event.buf)
    review(event.buf, unsaved(event.buf))
    touch(event.buf)
  end)
  on({ "BufUnload", "BufWipeout" }, function(event)
    forget(event.buf)
  end)
  -- What is modified by its options, or is no more.
  on("BufModifiedSet", function(event)
    touch(event.buf)
  end)
  on("OptionSet", function()
    local buf = api.nvim_get_current_buf()
    watch(buf)
    touch(buf)
  end, vim.list_extend({ "buftype", "modified" }, buffer_text.OPTIONS))
end

--- Buffers in the order of their last use, which is what is known of changes that nobody watched.
---@param bufs integer[]
---@return integer[]
local function by_use(bufs)
  local current = api.nvim_get_current_buf()
  local used = {}
  for _, buf in ipairs(bufs) do
    used[buf] = buf == current and math.huge or vim.fn.getbufinfo(buf)[1].lastused
  end
  table.sort(bufs, function(a, b)
    if used[a] ~= used[b] then
      return used[a] < used[b]
    end
    return a < b
  end)
  return bufs
end

--- A session with a server has begun: it gets the unsaved buffers, and hears of all that becomes of them.
---@param session indexgrep.Session
function M.opened(session)
  if not group then
    pause_ms = require("indexgrep.config").get().unsaved_debounce_ms
    create_autocommands()
  end
  lost[session.root] = nil
  ledgers[session] = { session = session, held = {}, paths = {} }
  local modified = {}
  for _, buf in ipairs(api.nvim_list_bufs()) do
    if api.nvim_buf_is_loaded(buf) then
      watch(buf)
      if api.nvim_get_option_value("modified", { buf = buf }) then
        table.insert(modified, buf)
      end
    end
  end
  for _, buf in ipairs(by_use(modified)) do
    if order[buf] then
      touched[buf] = true
      listen()
    else
      touch(buf)
    end
  end
end

--- The session is over: its server knows nothing of this editor any more. The next is told at the next pause
--- in typing, if it runs by then, else before the next search.
---@param session indexgrep.Session
function M.closed(session)
  ledgers[session] = nil
  lost[session.root] = true
end

--- All unsaved buffers by the paths of their files.
---@return table<string, indexgrep.Unsaved>
local function all_unsaved()
  resolved = {}
  local found = {}
  for _, buf in ipairs(api.nvim_list_bufs()) do
    local now = unsaved(buf)
    if now then
      local other = found[now.path]
      if not other or (order[buf] or 0) > (order[other.buf] or 0) then
        found[now.path] = now
      end
    end
  end
  return found
end

--- Brings the server of a session up to date, then calls `done`: whatever is asked there sees the buffers as
--- they are now, or as they became since. `done` is called at once where there is little to send.
---@param session indexgrep.Session
---@param done fun()
function M.publish(session, done)
  local ledger = ledgers[session]
  if ledger then
    local found = all_unsaved()
    retract(
      ledger,
      vim.tbl_filter(function(path)
        return found[path] == nil
      end, vim.tbl_keys(ledger.held))
    )
    for _, now in pairs(found) do
      if lacks(ledger, now) then
        watch(now.buf)
        table.insert(jobs, { buf = now.buf })
      end
    end
  end
  table.insert(jobs, { done = done })
  start_work()
end

--- The buffer that this editor published for a file, if any.
---@param root string
---@param path string relative to the root
---@return integer?
function M.holder(root, path)
  for session, ledger in pairs(ledgers) do
    if session.root == root then
      local held = ledger.held[file_path.resolve(vim.fs.joinpath(root, path))]
      return held and api.nvim_buf_is_loaded(held.buf) and held.buf or nil
    end
  end
end

--- What the servers hold of this editor's unsaved buffers.
---@return { root: string, count: integer, refused: integer }[]
function M.report()
  local lines = {}
  for session, ledger in pairs(ledgers) do
    local refused = 0
    for _, held in pairs(ledger.held) do
      refused = refused + (held.refused and 1 or 0)
    end
    table.insert(lines, {
      root = session.root,
      count = vim.tbl_count(ledger.held) - refused,
      refused = refused,
    })
  end
  table.sort(lines, function(a, b)
    return a.root < b.root
  end)
  return lines
end

return M
