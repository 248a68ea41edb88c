-- lode: tensors on the device. This file is the module: the functions of the C
-- core, and those that read better in Lua. Nothing is global.

local core = require "lode.core"
local lode = core.lode

lode._VERSION = "lode scm-1"

core.hide() -- errors point to the script's line, not into this file

-- LuaJIT's int64 and uint64 have no C interface: they go to and from C as two numbers of 32 bits.
if type(jit) == "table" then
  local found, ffi = pcall(require, "ffi")
  if found then
    local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
    local high = 2 ^ 32

    -- value = first * 2^32 + second; nothing for what is no int64 or does not fit one
    local function split(value)
      local unsigned = ffi.istype(uint64, value)
      if not unsigned and not ffi.istype(int64, value) then return end
      local unit = unsigned and uint64(high) or int64(high)
      local first, second = tonumber(value / unit), tonumber(value % unit)
      if first < high / 2 then return first, second end
    end

    local function join(first, second)
      return int64(first) * int64(high) + int64(second)
    end

    core.int64(split, join)
  end
end

-- ---- for a while ------------------------------------------------------------
-- Both functions below call `fn` under pcall, so that they end what they began
-- also when it raises; the error is passed on as it is. (On PUC 5.1 a coroutine
-- cannot yield across pcall.)

local function check_function(who, position, fn)
  if type(fn) ~= "function" then
    core.raise(who, ("argument %d is a %s, a function is needed"):format(position, type(fn)))
  end
end

local function leave(before, device, stream, ok, ...)
  lode.set_default(before)
  if device then core.choose(device, stream) end
  if not ok then error((...), 0) end
  return ...
end

local with_options = { device = true, dtype = true, stream = true }

--- Calls fn(...) with other defaults: options.device, options.dtype, and options.stream for the work on
-- its device. Returns what fn returns.
function lode.with(options, fn, ...)
  if type(options) ~= "table" then
    core.raise("with", ("argument 1 is a %s, a table of options is needed"):format(type(options)))
  end
  for name in pairs(options) do
    if not with_options[name] then
      core.raise("with", ("unknown option '%s' (there are device, dtype, stream)"):format(tostring(name)))
    end
  end
  check_function("with", 2, fn)
  local stream, device, previous = options.stream, nil, nil
  if stream ~= nil then
    local valid
    valid, device = pcall(core.device_of, stream)
    if not valid then core.raise("with", "option stream is no stream, or a released one") end
  end
  local before = lode.get_default()
  core.set_default("with", { device = options.device, dtype = options.dtype })
  if device then previous = core.choose(device, stream) end
  return leave(before, device, previous, pcall(fn, ...))
end

--- Calls fn(...) with this stream for the work on its device.
function core.stream_methods.run(stream, fn, ...)
  return lode.with({ stream = stream }, fn, ...)
end

local function close(scope, ok, ...)
  if ok then core.scope_keep(scope, ...) end
  core.scope_close(scope)
  if not ok then error((...), 0) end
  return ...
end

--- Calls fn(keep, ...) and releases the tensors and factors made meanwhile, but for those that it returns
-- (or that are in a table which it returns) and those passed to keep, which returns its arguments. Tensors
-- made by another coroutine meanwhile are not of this scope.
function lode.scope(fn, ...)
  check_function("scope", 1, fn)
  local scope = core.scope_open()
  local function keep(...)
    core.scope_keep(scope, ...)
    return ...
  end
  return close(scope, pcall(fn, keep, ...))
end

-- ---- graphs -------------------------------------------------------------------

local function recorded(graph, ok, ...)
  local message = ...
  if ok then ok, message = pcall(core.graph_end, graph, ...) end
  if ok then return graph end
  core.graph_cancel(graph)
  error(message, 0)
end

local function record(fn, graph, ...) return recorded(graph, pcall(fn, ...)) end

--- Calls fn(...) once, with other tensors in the place of those among its arguments, and returns a graph: called with
-- as many tensors, it does what fn did, without calling it, and returns what fn returned of them.
function lode.graph(fn, ...)
  check_function("graph", 1, fn)
  return record(fn, core.graph_begin(...))
end

-- lode.default_device and lode.default_dtype, to read, and lode.jit, to read and write. A name that another library
-- has for a function of lode's is an error that says so; any other absent name is nil, as in every table (rawget
-- never raises).
return setmetatable(lode, {
  __index = function(_, name)
    if name == "default_device" then return lode.get_default().device end
    if name == "default_dtype" then return lode.get_default().dtype end
    if name == "jit" then return core.jit() end
    local hint = core.hint(name)
    if hint then error(("lode: there is no function '%s' (%s)"):format(name, hint), 2) end
  end,
  __newindex = function(_, name, value)
    if name == "jit" then return core.jit(value) end
    if name == "default_device" or name == "default_dtype" then
      error(("lode: lode.%s is set by lode.set_default{ %s = ... }"):format(name, name:sub(9)), 2)
    end
    rawset(lode, name, value)
  end,
})
