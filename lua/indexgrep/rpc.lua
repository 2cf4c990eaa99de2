--- Sessions with servers, one a root, and the queries that run in them (doc/protocol.md).
---
--- A query has an id that is used once, so that an answer which arrives late, for a query that was cancelled
--- or is over, is dropped. Every query that is not cancelled ends with exactly one `done` or `failed`, also
--- when the server goes away: a query that had no answer yet is then asked again.

local buffers = require("indexgrep.buffers")
local channel = require("indexgrep.channel")
local notify = require("indexgrep.notify")
local server = require("indexgrep.server")

local M = {}

local PROTOCOL = 1
--- How long a server may take to a request that needs no search, before it counts as hung.
local PATIENCE_MS = 3000
--- The same for accepting a search, which waits while a server that has just started opens its index.
--- The search goes on, and is asked again when the server is restarted.
local SEARCH_PATIENCE_MS = 10000
--- Between two attempts to reach a server that was just started.
local RETRY_MS = 20
--- How often a search is asked again whose server went away before it answered. A process that is being
--- killed may take a connection for some milliseconds yet.
local RETRIES = 3

---@alias indexgrep.Event
---| { event: 'results', files: indexgrep.File[] }
---| { event: 'progress', state: table }
---| { event: 'done', summary: table }
---| { event: 'failed', error: indexgrep.Error }

--- One file of an answer; `lines` holds `{number, offset, text, spans, match}` each.
---@class indexgrep.File
---@field path string relative to the root
---@field count integer
---@field matches integer
---@field lines any[][]
---@field binary_offset integer?
---@field error string?
---@field source string? "buffer" where the text is an unsaved buffer's

---@class indexgrep.Session
---@field root string
---@field channel indexgrep.Channel
---@field when_closed fun()?

---@class indexgrep.Query
---@field qid integer
---@field root string
---@field request table
---@field on_event fun(event: indexgrep.Event)
---@field session indexgrep.Session?
---@field answered boolean something came for it
---@field retries integer how often it was asked again
---@field next_seq integer

local sessions = {} ---@type table<string, indexgrep.Session>
local opening = {} ---@type table<string, fun(err: indexgrep.Error?, session: indexgrep.Session?)[]>
local queries = {} ---@type table<integer, indexgrep.Query>
local last_qid = 0

---@param err any what the server sent
---@return indexgrep.Error
local function as_error(err)
  if type(err) == "table" and type(err.message) == "string" then
    return err
  end
  return notify.fault("server", type(err) == "string" and err or vim.inspect(err))
end

---@param query indexgrep.Query
---@param event indexgrep.Event
local function finish(query, event)
  if queries[query.qid] == query then
    queries[query.qid] = nil
    query.on_event(event)
  end
end

---@param query indexgrep.Query
---@param err indexgrep.Error
local function fail(query, err)
  finish(query, { event = "failed", error = err })
end

--- Takes a push of the server. A server that pushes by `nvim_exec_lua` runs this too, with no session.
---@param event string
---@param params any[]
---@param session indexgrep.Session?
function M.on_push(event, params, session)
  if event == "progress" then
    for _, query in pairs(queries) do
      if session == nil or query.session == session then
        query.on_event({ event = "progress", state = params[1] })
      end
    end
    return
  end
  local query = queries[params[1]]
  if not query then
    return
  end
  query.answered = true
  if event == "results" then
    if params[2] ~= query.next_seq then
      local message = ("batch %s of the answer came where %d was due"):format(
        tostring(params[2]),
        query.next_seq
      )
      return fail(query, notify.fault("server", message, "Run the search again."))
    end
    query.next_seq = query.next_seq + 1
    query.on_event({ event = "results", files = params[3] })
  elseif event == "done" then
    finish(query, { event = "done", summary = params[2] })
  elseif event == "failed" then
    fail(query, as_error(params[2]))
  end
end

---@param root string
---@param waited_ms integer
---@return indexgrep.Error
local function silent_fault(root, waited_ms)
  local message = ("the server for %s has not answered for %d s"):format(root, waited_ms / 1000)
  return notify.fault("server", message, "If it stays so, run `:IndexGrepServer restart`.")
end

local ask ---@type fun(query: indexgrep.Query)

---@param session indexgrep.Session
local function forget(session)
  if sessions[session.root] == session then
    sessions[session.root] = nil
  end
  buffers.closed(session)
end

--- Ends or repeats the queries of a session whose server went away.
---@param session indexgrep.Session
---@param reason string
local function on_close(session, reason)
  forget(session)
  for _, qid in ipairs(vim.tbl_keys(queries)) do
    local running = queries[qid]
    if running and running.session == session then
      if running.answered or running.retries == RETRIES then
        local message = ("the indexgrep server went away in the middle of the search (%s)"):format(reason)
        fail(
          running,
          notify.fault("server", message, "Run the search again. `:IndexGrepServer log` shows why.")
        )
      else
        running.retries = running.retries + 1
        running.session = nil
        vim.defer_fn(function()
          ask(running)
        end, RETRY_MS)
      end
    end
  end
  if session.when_closed then
    session.when_closed()
  end
end

---@param root string
---@param err indexgrep.Error?
---@param session indexgrep.Session?
local function opened(root, err, session)
  local callbacks = opening[root] or {}
  opening[root] = nil
  for _, callback in ipairs(callbacks) do
    callback(err, session)
  end
end

---@param session indexgrep.Session
local function greet(session)
  local hello = { client = "neovim", protocol = PROTOCOL, push = "notify" }
  session.channel:request("hello", { hello }, function(err, result)
    if err == nil and type(result) == "table" and result.protocol == PROTOCOL then
      return
    end
    local reason = err and as_error(err).message
      or ("it speaks protocol %s"):format(tostring(result.protocol))
    session.channel:close()
    forget(session)
    for _, query in pairs(vim.tbl_values(queries)) do
      if query.session == session then
        local message = ("the running indexgrep server does not fit this plugin: %s"):format(reason)
        fail(query, notify.fault("server", message, "Run `:IndexGrepServer restart`."))
      end
    end
  end)
end

--- Connects; `callback` gets an error text where nothing answers.
---@param root string
---@param socket string
---@param callback fun(err: string?, session: indexgrep.Session?)
local function connect(root, socket, callback)
  local session = { root = root }
  channel.connect(socket, {
    on_notification = function(event, params)
      M.on_push(event, params, session)
    end,
    on_close = function(reason)
      on_close(session, reason)
    end,
  }, function(err, opened_channel)
    if not opened_channel then
      return callback(err)
    end
    local other = sessions[root]
    if other and other.channel:is_open() then
      -- Somebody else was faster. One connection a root: the server holds the unsaved buffers of each.
      opened_channel:close()
      return callback(nil, other)
    end
    session.channel = opened_channel
    sessions[root] = session
    greet(session)
    buffers.opened(session)
    callback(nil, session)
  end)
end

---@param root string
---@param socket string
---@param deadline number of vim.uv.now()
local function connect_started(root, socket, deadline)
  connect(root, socket, function(err, session)
    if session then
      opened(root, nil, session)
    elseif vim.uv.now() < deadline then
      vim.defer_fn(function()
        connect_started(root, socket, deadline)
      end, RETRY_MS)
    else
      local message = ("the indexgrep server was started but does not answer (%s)"):format(err)
      opened(root, notify.fault("server", message, "`:IndexGrepServer log` shows why."))
    end
  end)
end

--- The session with the server of `root`. The callback gets neither an error nor a session where no server
--- runs and none is to be started.
---@param root string
---@param start boolean start a server where none runs
---@param callback fun(err: indexgrep.Error?, session: indexgrep.Session?)
function M.open(root, start, callback)
  if root == "" then
    return callback(notify.fault("root", "the current directory is gone", "Change to another one: `:cd`."))
  end
  local session = sessions[root]
  if session and session.channel:is_open() then
    return callback(nil, session)
  end
  local socket, err = server.socket_path(root)
  if not socket then
    return callback(err)
  end
  if opening[root] and start then
    table.insert(opening[root], callback)
    return
  elseif start then
    opening[root] = { callback }
  end
  connect(root, socket, function(_, connected)
    if connected then
      if start then
        return opened(root, nil, connected)
      end
      return callback(nil, connected)
    elseif not start then
      return callback()
    end
    server.start(root, function(failure)
      if failure then
        return opened(root, failure)
      end
      local patience = require("indexgrep.config").get().start_timeout_ms
      connect_started(root, socket, vim.uv.now() + patience)
    end)
  end)
end

--- Asks a query whose session is open and whose server knows the unsaved buffers.
---@param query indexgrep.Query
---@param session indexgrep.Session
local function send(query, session)
  if queries[query.qid] ~= query or query.session ~= session then
    return
  end
  local accepted = false
  vim.defer_fn(function()
    if not accepted and queries[query.qid] == query and session.channel:is_open() then
      notify.error(silent_fault(query.root, SEARCH_PATIENCE_MS))
    end
  end, SEARCH_PATIENCE_MS)
  session.channel:request("search", { query.qid, query.request }, function(refusal)
    accepted = true
    -- A channel that closed is a matter of on_close, which may ask again.
    if refusal and session.channel:is_open() then
      fail(query, as_error(refusal))
    end
  end)
end

---@param query indexgrep.Query
ask = function(query)
  if queries[query.qid] ~= query then
    return
  end
  M.open(query.root, true, function(err, session)
    if queries[query.qid] ~= query then
      return
    elseif not session then
      return fail(query, err or notify.fault("server", "no indexgrep server answers"))
    end
    query.session = session
    if (query.request.buffers or "none") == "none" then
      return send(query, session)
    end
    buffers.publish(session, function()
      send(query, session)
    end)
  end)
end

--- Asks the server of `root`, which is started where none runs.
---@param root string
---@param request table
---@param on_event fun(event: indexgrep.Event)
---@return integer qid
function M.search(root, request, on_event)
  last_qid = last_qid + 1
  local query = {
    qid = last_qid,
    root = root,
    request = request,
    on_event = on_event,
    answered = false,
    retries = 0,
    next_seq = 0,
  }
  queries[query.qid] = query
  ask(query)
  return query.qid
end

--- Forgets a query: nothing is called for it any more, and the server stops its work.
---@param qid integer
function M.cancel(qid)
  local query = queries[qid]
  queries[qid] = nil
  if query and query.session then
    query.session.channel:notify("cancel", { qid })
  end
end

--- Sends a request that is answered with one result.
---@param root string
---@param start boolean start a server where none runs
---@param method string
---@param params any[]
---@param callback fun(err: indexgrep.Error?, result: any) both nil where no server runs and none is wanted
function M.request(root, start, method, params, callback)
  M.open(root, start, function(err, session)
    if not session then
      return callback(err)
    end
    session.channel:request(method, params, function(refusal, result)
      callback(refusal ~= nil and as_error(refusal) or nil, result)
    end)
  end)
end

--- The state of the server of `root`, within a few seconds.
---@param root string
---@param callback fun(err: indexgrep.Error?, status: table?) both nil where no server runs
function M.status(root, callback)
  local answered = false
  local function answer(err, status)
    if not answered then
      answered = true
      callback(err, status)
    end
  end
  M.request(root, false, "status", {}, answer)
  vim.defer_fn(function()
    answer(silent_fault(root, PATIENCE_MS))
  end, PATIENCE_MS)
end

--- Ends the server of `root`, by force where it does not listen; `callback` is called when it is gone.
---@param root string
---@param callback fun(err: indexgrep.Error?, was_running: boolean)
function M.shutdown(root, callback)
  M.open(root, false, function(err, session)
    if not session then
      return callback(err, false)
    end
    local closed = false
    session.when_closed = function()
      closed = true
      callback(nil, true)
    end
    session.channel:notify("shutdown", {})
    vim.defer_fn(function()
      if closed then
        return
      end
      session.when_closed = nil
      -- The backend knows the process and ends it.
      server.run({ "server", "stop", root }, function(failure)
        callback(failure, failure == nil)
      end)
    end, PATIENCE_MS)
  end)
end

return M
