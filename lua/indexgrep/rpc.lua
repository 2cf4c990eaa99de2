--- Sessions with servers, one a root, and the queries that run in them (doc/protocol.md).
---
--- A query has an id that is used once, so that an answer which arrives late, for a query that was cancelled
--- or is over, is dropped. Every query that is not cancelled ends with exactly one `done` or `failed`, also
--- when the server goes away: a query that had no answer yet is then asked once more.

local channel = require("indexgrep.channel")
local notify = require("indexgrep.notify")
local server = require("indexgrep.server")

local M = {}

local PROTOCOL = 1
--- Between two attempts to reach a server that was just started.
local RETRY_MS = 20

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
---@field retried boolean
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

local ask ---@type fun(query: indexgrep.Query)

--- Ends or repeats the queries of a session whose server went away.
---@param session indexgrep.Session
---@param reason string
local function on_close(session, reason)
  if sessions[session.root] == session then
    sessions[session.root] = nil
  end
  for _, qid in ipairs(vim.tbl_keys(queries)) do
    local running = queries[qid]
    if running and running.session == session then
      if running.answered or running.retried then
        local message = ("the indexgrep server went away in the middle of the search (%s)"):format(reason)
        fail(
          running,
          notify.fault("server", message, "Run the search again. `:IndexGrepServer log` shows why.")
        )
      else
        running.retried = true
        ask(running)
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
    sessions[session.root] = nil
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
    session.channel = opened_channel
    greet(session)
    callback(nil, session)
  end)
end

---@param root string
---@param socket string
---@param deadline number of vim.uv.now()
local function connect_started(root, socket, deadline)
  connect(root, socket, function(err, session)
    if session then
      sessions[root] = session
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
      sessions[root] = connected
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

---@param query indexgrep.Query
ask = function(query)
  M.open(query.root, true, function(err, session)
    if queries[query.qid] ~= query then
      return
    elseif not session then
      return fail(query, err or notify.fault("server", "no indexgrep server answers"))
    end
    query.session = session
    session.channel:request("search", { query.qid, query.request }, function(refusal)
      -- A channel that closed is a matter of on_close, which may ask once more.
      if refusal and session.channel:is_open() then
        fail(query, as_error(refusal))
      end
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
    retried = false,
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

--- Ends the server of `root`; `callback` is called when it has closed the connection.
---@param root string
---@param callback fun(err: indexgrep.Error?, was_running: boolean)
function M.shutdown(root, callback)
  M.open(root, false, function(err, session)
    if not session then
      return callback(err, false)
    end
    session.when_closed = function()
      callback(nil, true)
    end
    session.channel:notify("shutdown", {})
  end)
end

return M
