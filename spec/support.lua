-- What the specs share: the table of operations, devices, data, and comparing with the oracle.
local lode = require("lode")
local reference = require("spec.reference")

local M = {}

-- LODE_STRESS=1 (make check STRESS=1): the collector never rests, so that finalizers run in the middle
-- of everything.
if os.getenv("LODE_STRESS") == "1" then
  collectgarbage("setpause", 0)
  collectgarbage("setstepmul", 1000)
end

-- LODE_SPEC_JIT=off: GPUs interpret all programs.
if os.getenv("LODE_SPEC_JIT") then lode.jit = os.getenv("LODE_SPEC_JIT") end

-- ---- the table of operations, read from its one source ------------------------

local function read_ops()
  local text = assert(io.open("csrc/core/ops.def")):read("*a")
  local ops = {}
  for kind, name, rule in text:gmatch("\nLODE_(%u+)[_%u]*%(([%w_]+), (%u+)") do
    if kind ~= "MOMENT" then ops[#ops + 1] = { kind = kind, name = name, rule = rule } end -- no function of Lua's
  end
  return ops
end

M.ops = read_ops()
M.arity = { UNARY = 1, BINARY = 2, TERNARY = 3 }

-- ---- devices --------------------------------------------------------------------

-- Every device that is there; the CUDA cases are counted as skipped without one.
M.devices = { "cpu", "cuda" }

local present = {}
for _, device in ipairs(lode.devices()) do
  if device.available then present[device.name:match("^%a+")] = true end
end

-- For a spec's own `it` and `pending` (busted gives them to spec files alone): a function that
-- registers a case for each device; `body` gets the device's name.
function M.each_device(it, pending)
  return function(name, body)
    for _, device in ipairs(M.devices) do
      it(name .. " on " .. device, function()
        if not present[device] then return pending("no " .. device .. " device") end
        body(device)
      end)
    end
  end
end

-- The same for what only GPUs have.
function M.cuda_only(it, pending)
  return function(name, body)
    it(name .. " on cuda", function()
      if not present.cuda then return pending("no cuda device") end
      body("cuda")
    end)
  end
end

-- The order of a matrix whose product keeps the device busy for as long as order n does a CPU.
function M.busy_order(device, n)
  if device == "cpu" or os.getenv("LODE_EMULATED") then return n end
  return math.min(8 * n, 10000)
end

-- ---- random numbers of the specs' own: the same on every Lua ------------------------

-- Park and Miller's minimal standard generator: exact in doubles.
function M.random(seed)
  local state = seed % 2147483646 + 1
  local function next_value(n) -- an integer in 1..n
    state = state * 16807 % 2147483647
    return state % n + 1
  end
  for _ = 1, 4 do next_value(2) end
  return next_value
end

-- ---- data -----------------------------------------------------------------------------

local huge = 1 / 0
local minus_zero = -1 / huge -- Lua 5.1 takes the constant -0.0 for 0 where it has met 0 before
local special = {
  f32 = {
    0, minus_zero, 1, -1, 0.5, -2.5, huge, -huge, 0 / 0, 2 ^ -149, -2 ^ -140, 2 ^ 127 * (2 - 2 ^ -23),
    2 ^ -126, 3, 1e10, -2 ^ -33, 2147483648, -2147483904, 100.25, 16777216,
  },
  f64 = {
    0, minus_zero, 1, -1, 0.5, -2.5, huge, -huge, 0 / 0, 2 ^ -1074, -2 ^ -1060, 1.7976931348623157e308,
    2 ^ -1022, 3, 1e200, -1e-200, 9007199254740992, -2147483649, 100.1, 1e18,
  },
  i32 = {
    0, 1, -1, 2, -2, 3, 7, -7, 31, 2147483647, -2147483648, 65536, -65537, 100, 10, 5, -3, 46341, 12345, -1,
  },
  i64 = {
    0, 1, -1, 2, -2, 3, 7, -7, 31, 2147483647, -2147483648, 65536, -65537, 100, 10, 5, -3, 4294967296, 12345, -1,
  },
  bool = { 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0 },
}

-- `count` values of a dtype: small random ones, or (kind "special") the difficult ones in an order
-- of the seed's.
function M.data(dtype, count, seed, kind)
  local random, list = M.random(seed), {}
  for i = 1, count do
    if kind == "special" then
      list[i] = special[dtype][random(#special[dtype])]
    elseif dtype == "bool" then
      list[i] = random(2) - 1
    elseif reference.is_float(dtype) then
      list[i] = reference.f32((random(20001) - 10001) / 1024 + (random(1000) - 1) / 65536)
    else
      list[i] = random(41) - 21
    end
  end
  return list
end

-- Exact also for bool, and for values that a table cannot say exactly.
function M.tensor(t, device)
  local values = reference.values(t)
  if t.dtype == "bool" then
    for i, x in ipairs(values) do values[i] = x ~= 0 end
  end
  local flat
  if #values == 0 then
    return lode.zeros(t.shape, { dtype = t.dtype, device = device })
  end
  flat = lode.tensor(values, { dtype = t.dtype, device = device })
  return flat:reshape(t.shape)
end

-- ---- comparing ----------------------------------------------------------------------------

local function flatten(value, list)
  if type(value) == "table" then
    for _, inner in ipairs(value) do flatten(inner, list) end
  elseif type(value) == "boolean" then
    list[#list + 1] = value and 1 or 0
  else
    list[#list + 1] = tonumber(value)
  end
  return list
end

-- The elements of a lode tensor in row-major order, bools as 0 and 1.
function M.values(tensor)
  local size = 1
  for _, n in ipairs(tensor.shape) do size = size * n end
  if size == 0 then return {} end
  return flatten(tensor:totable(), {})
end

-- Fails, saying where and what differs, unless tensor holds what the oracle says.
function M.same(tensor, want, ulps, what)
  local function fail(text) error(("%s: %s"):format(what or "tensor", text), 3) end
  if tensor.dtype ~= want.dtype then fail(("dtype %s, %s expected"):format(tensor.dtype, want.dtype)) end
  local got_shape, want_shape = table.concat(tensor.shape, ","), table.concat(want.shape, ",")
  if got_shape ~= want_shape then fail(("shape [%s], [%s] expected"):format(got_shape, want_shape)) end
  local got, expected = M.values(tensor), reference.values(want)
  if #got ~= #expected then fail(("%d values, %d expected"):format(#got, #expected)) end
  for i = 1, #expected do
    local difference = reference.difference(got[i], expected[i], want.dtype, ulps or 0)
    if difference then fail(("element %d: %s"):format(i, difference)) end
  end
end

-- Fails unless both tensors have the same bytes (all NaNs counting as one).
function M.same_bits(a, b, what)
  local x, y = M.values(a), M.values(b)
  assert(#x == #y, what)
  for i = 1, #x do
    local difference = reference.difference(x[i], y[i], a.dtype, 0)
    if difference then error(("%s: element %d: %s"):format(what, i, difference), 2) end
  end
end

-- Fails unless tensor has this dtype, shape (a list) and these elements (flat, row-major; compared as
-- Lua compares, so that integers beyond 2^53 and booleans are exact).
function M.holds(tensor, dtype, shape, elements, what)
  what = what or "tensor"
  local function fail(text) error(("%s: %s"):format(what, text), 3) end
  if tensor.dtype ~= dtype then fail(("dtype %s, %s expected"):format(tensor.dtype, dtype)) end
  local got_shape, want_shape = table.concat(tensor.shape, ","), table.concat(shape, ",")
  if got_shape ~= want_shape then fail(("shape [%s], [%s] expected"):format(got_shape, want_shape)) end
  local got = {}
  local function flat(value)
    if type(value) ~= "table" then
      got[#got + 1] = value
      return
    end
    for _, inner in ipairs(value) do flat(inner) end
  end
  flat(tensor:totable())
  if #got ~= #elements then fail(("%d elements, %d expected"):format(#got, #elements)) end
  for i, want in ipairs(elements) do
    if got[i] ~= want and (got[i] == got[i] or want == want) then
      fail(("element %d: %s, %s expected"):format(i, tostring(got[i]), tostring(want)))
    end
  end
end

-- Fails unless f raises an error whose text holds every one of the given pieces.
function M.fails(f, ...)
  local ok, text = pcall(f)
  assert(not ok, "an error was expected")
  assert(type(text) == "string", "the error is not a string")
  for _, piece in ipairs({ ... }) do
    if not text:find(piece, 1, true) then error(("%q does not say %q"):format(text, piece), 2) end
  end
  return text
end

-- ---- scripts ------------------------------------------------------------------------------

local compile = loadstring or load -- luacheck: ignore

-- Text as a chunk "script", whose lines errors name; `lode` and `device` are its arguments.
function M.script(text) return assert(compile("local lode, device = ... " .. text, "=script")) end

-- Fails unless the script raises an error whose text begins with "script:LINE: lode: " and holds the pieces.
function M.raises(device, line, text, ...)
  local ok, message = pcall(M.script(text), lode, device)
  if ok then error("no error from: " .. text, 2) end
  if type(message) ~= "string" then error("the error of " .. text .. " is a " .. type(message), 2) end
  local start = ("script:%d: lode: "):format(line)
  if message:sub(1, #start) ~= start then error(("%q does not start with %q"):format(message, start), 2) end
  for _, piece in ipairs({ ... }) do
    if not message:find(piece, 1, true) then error(("%q does not say %q"):format(message, piece), 2) end
  end
  return message
end

-- ---- other processes ------------------------------------------------------------------------

-- The interpreter that runs the specs.
function M.interpreter()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  return arg[first]
end

-- Runs a script in a new interpreter, with variables of the environment ("LODE_ISA=avx2"), for `seconds` (30) at
-- most. Returns all that it wrote, and its exit status (124: it hung).
function M.child(text, variables, seconds)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(text)
  file:close()
  local command = ("env %s timeout %d '%s' '%s' 2>&1; echo \"status $?\""):format(variables or "",
    seconds or 30, M.interpreter(), name)
  local pipe = assert(io.popen(command))
  local output = pipe:read("*a")
  pipe:close()
  os.remove(name)
  local written, status = output:match("^(.*)status (%d+)%s*$")
  return written, tonumber(status)
end

-- The C test host (spec/host/host.c), or nil where it is not built.
function M.host()
  local found, host = pcall(require, "host")
  return found and type(host) == "table" and host.fork and host or nil
end

-- ---- the trajectory cost of examples/cost.lua ------------------------------------

M.ndof = 2

function M.smoothness(x)
  local dim, ndof = x.shape[2], M.ndof
  local function lag(v) return lode.concat({ v[{ {}, { 1, ndof } }], v[{ {}, { 1, dim - ndof } }] }, 2) end
  local x1 = lag(x)
  local k = x + lag(x1) - 2 * x1
  return (k ^ 2):sum(2)
end

return M
