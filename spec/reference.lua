-- The oracle: tensors and operations in plain Lua doubles, sharing no code with lode.
--
-- A reference tensor is { dtype, shape = {...}, stride = {...}, offset, data = flat }, where a
-- dtype is lode's name for it. Values are Lua numbers: exact for i32 and bool, for i64 below
-- 2^53, rounded to f32 by arithmetic alone. Floating operations are done in double and rounded
-- once, which for + - * / and sqrt of f32 operands gives the correctly rounded result
-- (Figueroa 1995), so those are compared bit by bit.
local M = {}

local abs, huge = math.abs, math.huge
local unpack = unpack or table.unpack -- luacheck: ignore
local nan = 0 / 0

-- As C's: a double, and -0.0 stays (math.floor makes integers of both in Lua 5.3).
local function floor(x)
  if x == 0 or abs(x) >= 2 ^ 52 or x ~= x then return x end
  return math.floor(x) + 0.0
end

-- ---- rounding and wrapping -------------------------------------------------

-- x rounded to a multiple of `unit`, a power of two, half to even.
local function to_multiple(x, unit)
  local q = x / unit
  local low = floor(q)
  local rest = q - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
  return low * unit
end

-- The nearest f32, with its overflow and its denormals.
function M.f32(x)
  if x ~= x or x == huge or x == -huge or x == 0 then return x end
  local magnitude = abs(x)
  local unit = 2 ^ -149
  if magnitude >= 2 ^ -126 then
    local exponent = floor(math.log(magnitude) / math.log(2))
    while 2 ^ exponent > magnitude do exponent = exponent - 1 end
    while 2 ^ (exponent + 1) <= magnitude do exponent = exponent + 1 end
    unit = 2 ^ (exponent - 23)
  end
  local rounded = to_multiple(magnitude, unit)
  if rounded >= 2 ^ 128 then rounded = huge end
  if x < 0 then rounded = -rounded end
  return rounded
end

-- The distance between neighbouring values of a floating dtype at x.
function M.ulp(x, dtype)
  local digits, least = 52, 2 ^ -1074
  if dtype == "f32" then digits, least = 23, 2 ^ -149 end
  x = abs(x)
  if x ~= x or x == huge or x == 0 then return least end
  local exponent = floor(math.log(x) / math.log(2))
  while 2 ^ exponent > x do exponent = exponent - 1 end
  while 2 ^ (exponent + 1) <= x do exponent = exponent + 1 end
  return math.max(2 ^ (exponent - digits), least)
end

local function wrap_i32(x)
  if abs(x) == huge then return x end -- the identity of min and max
  x = x % 2 ^ 32
  if x >= 2 ^ 31 then x = x - 2 ^ 32 end
  return x + 0.0 -- integers have one zero
end

-- Products of two i32 do not fit in a double: by halves.
local function multiply_i32(a, b)
  local low, high = a % 65536, floor(a / 65536)
  return wrap_i32(low * b + wrap_i32(high * b % 65536 * 65536))
end

local round_to = {
  f32 = M.f32,
  f64 = function(x) return x end,
  i32 = wrap_i32,
  i64 = function(x) return x + 0.0 end,
  bool = function(x) return x end,
}

-- ---- dtypes ------------------------------------------------------------------

M.dtypes = { "bool", "i32", "i64", "f32", "f64" }
local rank = { bool = 1, i32 = 2, i64 = 3, f32 = 4, f64 = 5 }

function M.is_float(dtype) return dtype == "f32" or dtype == "f64" end

function M.promote(a, b) return rank[a] > rank[b] and a or b end

local function saturate(x, low, high)
  if x ~= x then return 0 end
  if x < low then return low end
  if x > high then return high end
  return (x < 0 and -floor(-x) or floor(x)) + 0.0
end

function M.cast_value(x, from, to)
  if to == "bool" then return x ~= 0 and 1 or 0 end
  if to == "i32" and M.is_float(from) then return saturate(x, -2 ^ 31, 2 ^ 31 - 1) end
  if to == "i64" and M.is_float(from) then return saturate(x, -2 ^ 63, 2 ^ 63) end
  return round_to[to](x)
end

-- ---- tensors --------------------------------------------------------------------

local function size_of(shape)
  local size = 1
  for _, n in ipairs(shape) do size = size * n end
  return size
end

local function row_major(shape)
  local stride, step = {}, 1
  for d = #shape, 1, -1 do
    stride[d] = step
    step = step * shape[d]
  end
  return stride
end

function M.new(dtype, shape, data)
  assert(#data == size_of(shape))
  for i = 1, #data do data[i] = data[i] * 1.0 end -- doubles on every Lua
  return { dtype = dtype, shape = shape, stride = row_major(shape), offset = 0, data = data }
end

-- Calls f(position in data, index) for each element in row-major order.
local function each(t, f)
  local shape, index = t.shape, {}
  if size_of(shape) == 0 then return end
  for d = 1, #shape do index[d] = 0 end
  while true do
    local at = t.offset
    for d = 1, #shape do at = at + index[d] * t.stride[d] end
    f(at + 1, index)
    local d = #shape
    while d >= 1 do
      index[d] = index[d] + 1
      if index[d] < shape[d] then break end
      index[d] = 0
      d = d - 1
    end
    if d < 1 then return end
  end
end

-- The elements in row-major order.
function M.values(t)
  local list = {}
  each(t, function(at) list[#list + 1] = t.data[at] end)
  return list
end

function M.dense(t) return M.new(t.dtype, t.shape, M.values(t)) end

-- ---- views -------------------------------------------------------------------------

local function view(t, shape, stride, offset)
  return { dtype = t.dtype, shape = shape, stride = stride, offset = offset or t.offset, data = t.data }
end

-- Range first..last (from 1, both included) with a step, along dim d.
function M.range(t, d, first, last, step)
  step = step or 1
  local shape, stride = { unpack(t.shape) }, { unpack(t.stride) }
  local count = math.floor((last - first) / step) + 1
  shape[d] = count
  local offset = t.offset + (count > 0 and (first - 1) * stride[d] or 0)
  stride[d] = stride[d] * step
  return view(t, shape, stride, offset)
end

function M.select(t, d, i)
  local shape, stride = { unpack(t.shape) }, { unpack(t.stride) }
  local offset = t.offset + (i - 1) * stride[d]
  table.remove(shape, d)
  table.remove(stride, d)
  return view(t, shape, stride, offset)
end

function M.permute(t, dims)
  local shape, stride = {}, {}
  for i, d in ipairs(dims) do shape[i], stride[i] = t.shape[d], t.stride[d] end
  return view(t, shape, stride)
end

function M.flip(t, d) return M.range(t, d, t.shape[d], 1, -1) end

function M.broadcast(t, shape)
  local stride = {}
  for d = 1, #shape do
    local own = d - (#shape - #t.shape)
    stride[d] = own >= 1 and t.shape[own] ~= 1 and t.stride[own] or 0
  end
  return view(t, shape, stride)
end

function M.reshape(t, shape) return M.new(t.dtype, shape, M.values(t)) end

function M.concat(list, d)
  local first, total, dtype = list[1], 0, list[1].dtype
  for _, part in ipairs(list) do
    total, dtype = total + part.shape[d], M.promote(dtype, part.dtype)
  end
  local shape = { unpack(first.shape) }
  shape[d] = total
  local result = { dtype = dtype, shape = shape, stride = row_major(shape), offset = 0, data = {} }
  local base = 0
  for _, part in ipairs(list) do
    each(part, function(at, index)
      local to = 0
      for k = 1, #shape do to = to + (index[k] + (k == d and base or 0)) * result.stride[k] end
      result.data[to + 1] = M.cast_value(part.data[at], part.dtype, dtype)
    end)
    base = base + part.shape[d]
  end
  return result
end

function M.broadcast_shape(a, b)
  local shape, ndim = {}, math.max(#a, #b)
  for d = 1, ndim do
    local m, n = a[d - (ndim - #a)] or 1, b[d - (ndim - #b)] or 1
    shape[d] = m == 1 and n or m
  end
  return shape
end

-- ---- elementwise ---------------------------------------------------------------------

local function boolean(x) return x and 1.0 or 0.0 end

local function integer_power(a, n, dtype)
  if n < 0 then return a == 1 and 1 or (a == -1 and (n % 2 == 0 and 1 or -1) or 0) end
  local result = 1
  for _ = 1, n do
    result = dtype == "i32" and multiply_i32(result, a) or result * a
  end
  return result
end

local function float_power(a, b)
  if b == 0 or a == 1 then return 1 end -- C99, also for NaN; some Luas leave it to the C library
  return a ^ b
end

-- exp(x) - 1 for |x| <= 1, without cancellation.
local function expm1_series(x)
  local sum = 0
  for k = 24, 1, -1 do sum = (sum + 1) * x / k end
  return sum
end

local function pick(a, b, take_a) -- minimum and maximum: a NaN wins
  if a ~= a then return a end
  return take_a and a or b
end

-- Each takes doubles and the dtype in which the operands meet; the result is rounded to `round`
-- ("exact": by the caller, bit by bit; a number: within that many ulp).
M.ops = {
  negative = { round = 0, f = function(a) return -a end },
  abs = { round = 0, f = function(a) return abs(a) end },
  square = { round = 0, f = function(a, _, _, t) return t == "i32" and multiply_i32(a, a) or a * a end },
  sqrt = { round = 0, f = function(a) return a == 0 and a or math.sqrt(a) end },
  exp = { round = 4, f = math.exp },
  log = { round = 4, f = function(a) return a < 0 and nan or math.log(a) end },
  sin = { round = 4, f = function(a) return abs(a) == huge and nan or math.sin(a) end },
  cos = { round = 4, f = function(a) return abs(a) == huge and nan or math.cos(a) end },
  tanh = {
    round = 4,
    f = function(a)
      if a ~= a then return a end
      if abs(a) == huge then return a < 0 and -1 or 1 end
      local e = -2 * abs(a)
      if e > -1 then e = expm1_series(e) else e = math.exp(e) - 1 end
      local y = -e / (e + 2)
      return (a < 0 or 1 / a < 0) and -y or y
    end,
  },
  logical_not = { round = 0, f = function(a) return 1 - a end },
  add = { round = 0, f = function(a, b) return a + b end },
  subtract = { round = 0, f = function(a, b) return a - b end },
  multiply = { round = 0, f = function(a, b, _, t) return t == "i32" and multiply_i32(a, b) or a * b end },
  divide = { round = 0, f = function(a, b) return a / b end },
  floor_divide = {
    round = 0,
    f = function(a, b, _, t)
      if M.is_float(t) then
        local q = round_to[t](a / b)
        return (q ~= q or abs(q) == huge or q == 0) and q or floor(q)
      end
      return b == 0 and 0 or floor(a / b)
    end,
  },
  remainder = {
    round = 0,
    f = function(a, b, _, t)
      if not M.is_float(t) then return b == 0 and 0 or a - floor(a / b) * b end
      if a ~= a or b ~= b or abs(a) == huge or b == 0 then return nan end
      if abs(b) == huge then return (a == 0 or (a < 0) == (b < 0)) and a or b end
      local r = math.fmod(a, b)
      if r ~= 0 and (r < 0) ~= (b < 0) then r = r + b end
      return r
    end,
  },
  pow = {
    round = 4,
    f = function(a, b, _, t)
      if M.is_float(t) then return float_power(a, b) end
      return integer_power(a, b, t)
    end,
  },
  minimum = { round = 0, f = function(a, b) return pick(a, b, a < b) end },
  maximum = { round = 0, f = function(a, b) return pick(a, b, a > b) end },
  equal = { round = 0, f = function(a, b) return boolean(a == b) end },
  not_equal = { round = 0, f = function(a, b) return boolean(a ~= b) end },
  less = { round = 0, f = function(a, b) return boolean(a < b) end },
  less_equal = { round = 0, f = function(a, b) return boolean(a <= b) end },
  greater = { round = 0, f = function(a, b) return boolean(a > b) end },
  greater_equal = { round = 0, f = function(a, b) return boolean(a >= b) end },
  logical_and = { round = 0, f = function(a, b) return boolean(a ~= 0 and b ~= 0) end },
  logical_or = { round = 0, f = function(a, b) return boolean(a ~= 0 or b ~= 0) end },
  logical_xor = { round = 0, f = function(a, b) return boolean(a ~= b) end },
  where = { round = 0, f = function(c, a, b) if c ~= 0 then return a end return b end },
}

-- What a rule of ops.def makes of operand dtypes: the dtype they meet in, the result's; or nil
-- where the rule refuses them.
function M.rule(rule, dtypes, default)
  local first = rule == "SELECT" and 2 or 1
  local meet = dtypes[first]
  for i = first + 1, #dtypes do meet = M.promote(meet, dtypes[i]) end
  if rule == "NUMERIC" then return meet ~= "bool" and meet or nil, meet end
  if rule == "FLOATING" then
    if not M.is_float(meet) then meet = default end
    return meet, meet
  end
  if rule == "COMPARE" then return meet, "bool" end
  if rule == "LOGICAL" then return meet == "bool" and meet or nil, "bool" end
  if rule == "SELECT" then return dtypes[1] == "bool" and meet or nil, meet end
  error("no such rule: " .. rule)
end

-- op of tensors (broadcast, promoted): a dense reference tensor.
function M.apply(name, rule, operands, default)
  local dtypes, shape = {}, {}
  for i, t in ipairs(operands) do
    dtypes[i] = t.dtype
    shape = M.broadcast_shape(shape, t.shape)
  end
  local meet, dtype = M.rule(rule, dtypes, default or "f32")
  local columns = {}
  for i, t in ipairs(operands) do
    local values = M.values(M.broadcast(t, shape))
    if not (rule == "SELECT" and i == 1) then
      for k, x in ipairs(values) do values[k] = M.cast_value(x, t.dtype, meet) end
    end
    columns[i] = values
  end
  local f, result, round = M.ops[name].f, {}, round_to[dtype]
  for k = 1, size_of(shape) do
    local a, b, c = columns[1][k], columns[2] and columns[2][k], columns[3] and columns[3][k]
    result[k] = round(f(a, b, c, meet))
  end
  return M.new(dtype, shape, result)
end

function M.cast(t, dtype)
  local values = M.values(t)
  for i, x in ipairs(values) do values[i] = M.cast_value(x, t.dtype, dtype) end
  return M.new(dtype, t.shape, values)
end

-- ---- reductions, in the one order of csrc/core/reduce.h -------------------------------

local CHUNK, LANES = 1024, 16

M.reductions = {
  sum = { start = -0.0, empty = 0.0, f = function(a, b) return a + b end },
  prod = { start = 1.0, empty = 1.0, f = function(a, b, t) return t == "i32" and multiply_i32(a, b) or a * b end },
  min = { start = huge, f = function(a, b) return pick(a, b, a < b) end },
  max = { start = -huge, f = function(a, b) return pick(a, b, a > b) end },
  all = { start = 1.0, empty = 1.0, f = function(a, b) return boolean(a ~= 0 and b ~= 0) end },
  any = { start = 0.0, empty = 0.0, f = function(a, b) return boolean(a ~= 0 or b ~= 0) end },
}

local function reduce_chunk(list, first, last, op, round, dtype)
  local partial = {}
  for k = 1, LANES do partial[k] = op.start end
  for i = first, last do
    local k = (i - first) % LANES + 1
    partial[k] = round(op.f(partial[k], list[i], dtype))
  end
  local half = LANES / 2
  while half >= 1 do
    for k = 1, half do partial[k] = round(op.f(partial[k], partial[k + half], dtype)) end
    half = half / 2
  end
  return partial[1]
end

function M.reduce_list(list, name, dtype)
  local op, round = M.reductions[name], round_to[dtype]
  if #list == 0 then return op.empty end
  local chunks = {}
  for first = 1, #list, CHUNK do
    chunks[#chunks + 1] = reduce_chunk(list, first, math.min(first + CHUNK - 1, #list), op, round, dtype)
  end
  local distance = 1
  while distance < #chunks do
    for k = 1, #chunks - distance, 2 * distance do
      chunks[k] = round(op.f(chunks[k], chunks[k + distance], dtype))
    end
    distance = 2 * distance
  end
  return chunks[1]
end

function M.reduced_dtype(name, dtype)
  if (name == "sum" or name == "prod") and not M.is_float(dtype) then return "i64" end
  return dtype
end

-- ---- m2, by csrc/core/moments.h ----------------------------------------------------------

local BLOCK = 8

local function join(a, b, round)
  if b.n == 0 then return a end
  if a.n == 0 then return b end
  local function per(x, n) return round(x * round(1 / n)) end
  local n = round(a.n + b.n)
  local apart = round(per(b.d, b.n) - per(a.d, a.n))
  local weight = per(round(a.n * b.n), n)
  return { m = round(round(a.m + b.m) + round(round(apart * apart) * weight)), d = round(a.d + b.d), n = n }
end

-- Elements first, first + LANES, ... up to last, less the first of all.
local function m2_lane(list, first, last, round)
  local lane = { n = 0 }
  for start = first, last, LANES * BLOCK do
    local own, block = {}, { n = 0 }
    for i = start, math.min(start + LANES * (BLOCK - 1), last), LANES do own[#own + 1] = round(list[i] - list[1]) end
    block.n = #own
    for k, x in ipairs(own) do block.d = k == 1 and x or round(block.d + x) end
    for k, x in ipairs(own) do
      local off = round(x - round(block.d * round(1 / block.n)))
      block.m = k == 1 and round(off * off) or round(block.m + round(off * off))
    end
    lane = join(lane, block, round)
  end
  return lane
end

local function m2_chunk(list, first, last, round)
  local lanes = {}
  for k = 1, LANES do lanes[k] = m2_lane(list, first + k - 1, last, round) end
  local half = LANES / 2
  while half >= 1 do
    for k = 1, half do lanes[k] = join(lanes[k], lanes[k + half], round) end
    half = half / 2
  end
  return lanes[1]
end

local function m2_list(list, dtype)
  local round, chunks = round_to[dtype], {}
  for first = 1, #list, CHUNK do
    chunks[#chunks + 1] = m2_chunk(list, first, math.min(first + CHUNK - 1, #list), round)
  end
  local distance = 1
  while distance < #chunks do
    for k = 1, #chunks - distance, 2 * distance do chunks[k] = join(chunks[k], chunks[k + distance], round) end
    distance = 2 * distance
  end
  return chunks[1].m
end

-- ---- reductions of tensors ----------------------------------------------------------------

-- dims: a list of dims, from 1; the result keeps them as 1.
function M.reduce(t, name, dims)
  local dtype, reduced, shape = M.reduced_dtype(name, t.dtype), {}, {}
  for _, d in ipairs(dims) do reduced[d] = true end
  for d, n in ipairs(t.shape) do shape[d] = reduced[d] and 1 or n end
  local stride, lists = row_major(shape), {}
  for k = 1, size_of(shape) do lists[k] = {} end
  each(t, function(at, index)
    local to = 1
    for d = 1, #shape do
      if not reduced[d] then to = to + index[d] * stride[d] end
    end
    table.insert(lists[to], M.cast_value(t.data[at], t.dtype, dtype))
  end)
  local result = {}
  for k, list in ipairs(lists) do
    result[k] = name == "m2" and m2_list(list, dtype) or M.reduce_list(list, name, dtype)
  end
  return M.new(dtype, shape, result)
end

-- Rows of up to this many elements are reduced by the sum of their squared deviations, all else by m2.
local ROW_REDUCE_MAX = 4096

local function are_rows(shape, dims)
  local last, reduced = #shape, {}
  while last > 0 and shape[last] == 1 do last = last - 1 end
  for _, d in ipairs(dims) do reduced[d] = shape[d] ~= 1 end
  for d = 1, last - 1 do
    if reduced[d] then return false end
  end
  return not reduced[last] or shape[last] <= ROW_REDUCE_MAX
end

-- t is of floats.
function M.var(t, dims)
  local n = 1
  for _, d in ipairs(dims) do n = n * t.shape[d] end
  local count = M.new(t.dtype, {}, { n })
  local function over(x) return M.apply("divide", "FLOATING", { x, count }) end
  if not are_rows(t.shape, dims) then return over(M.reduce(t, "m2", dims)) end
  local deviation = M.apply("subtract", "NUMERIC", { t, over(M.reduce(t, "sum", dims)) })
  return over(M.reduce(M.apply("square", "NUMERIC", { deviation }), "sum", dims))
end

-- ---- comparing --------------------------------------------------------------------------

-- nil if `got` is `want` within `ulps` of the dtype (0: the same bits, but for the sign and
-- payload of a NaN); else what differs.
function M.difference(got, want, dtype, ulps)
  if want ~= want then return got == got and ("got %.17g, NaN expected"):format(got) or nil end
  if got == want then
    if want == 0 and ulps == 0 and M.is_float(dtype) and 1 / got ~= 1 / want then
      return "got a zero of the other sign"
    end
    return nil
  end
  if ulps > 0 and got == got and abs(got) ~= huge and abs(got - want) <= ulps * M.ulp(want, dtype) then return nil end
  return ("got %.17g, %.17g expected"):format(got, want)
end

return M
