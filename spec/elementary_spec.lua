-- exp, log, sin, cos, tanh and pow: within the ulps that the manual promises of Lua's own functions, in double,
-- for random bits, near the places that are difficult, and at C's special cases; and the same bits alone, among
-- others and in place. (The same bits on every instruction set and device: bits_spec.lua.)
local lode = require("lode")
local reference = require("spec.reference")
local support = require("spec.support")

local unpack = unpack or table.unpack -- luacheck: ignore
local each_device = support.each_device(it, function(why) pending(why) end)
local huge, nan = 1 / 0, 0 / 0
local minus_zero = -1 / huge -- Lua 5.1 takes the constant -0.0 for 0
local abs, exp, log = math.abs, math.exp, math.log

-- The ulps promised. Measured of many more arguments, at most: exp 0.94, log 0.86, sin 2.60, cos 2.68, tanh 2.63,
-- pow 0.92.
local promised = {
  exp = { f32 = 1, f64 = 1 }, log = { f32 = 1, f64 = 1 }, sin = { f32 = 3, f64 = 3 }, cos = { f32 = 3, f64 = 3 },
  tanh = { f32 = 3, f64 = 3 }, pow = { f32 = 1, f64 = 1 },
}
local oracle_error = { f32 = 0, f64 = 1 } -- of the C library's doubles

local formats = {
  f32 = { bytes = 4, least = 2 ^ -149, greatest = 2 ^ 128 - 2 ^ 104, range = { -104, 89 } },
  f64 = { bytes = 8, least = 2 ^ -1074, greatest = 1.7976931348623157e308, range = { -746, 710 } },
}

-- ---- arguments ----------------------------------------------------------------------

-- Elements of random bits: every exponent is as likely, NaNs and subnormals are among them.
local function random_bits(dtype, count, seed)
  local random, list = support.random(seed), {}
  for i = 1, count * formats[dtype].bytes do list[i] = string.char(random(256) - 1) end
  return lode.tensor(table.concat(list), { dtype = dtype, shape = { count } })
end

local function made(dtype, count, seed, f)
  local random, list = support.random(seed), {}
  for i = 1, count do list[i] = f(random(2 ^ 24) / 2 ^ 24, random(2 ^ 24) / 2 ^ 24) end
  return lode.tensor(list, { dtype = dtype })
end

-- For each function, tensors of first arguments (and of second ones).
local function arguments(dtype)
  local low, high = unpack(formats[dtype].range)
  local bits, n = random_bits(dtype, 1200, 7), 600
  local any = made(dtype, n, 1, function(a, b) return exp(20 * a - 10) * (b < 0.5 and -1 or 1) end)
  local turns = made(dtype, n, 2, function(a, b) return math.floor(a * 2 ^ (24 * b)) * (math.pi / 2) end)
  local base = made(dtype, n, 3, function(a, b) return 1 + (a - 0.4) * b * b end)
  local wide = made(dtype, n, 4, function(a) return exp(low * 0.9 + (high - low) * 0.9 * a) end)
  local function exponents(x, seed) -- so that the powers fill the range
    local values, i = x:totable(), 0
    return made(dtype, n, seed, function(a)
      i = i + 1
      return (low + (high - low) * a) / log(values[i])
    end)
  end
  return {
    exp = { { bits }, { made(dtype, n, 5, function(a) return low + (high - low) * a end) } },
    log = { { bits:abs() }, { base }, { wide } },
    sin = { { bits }, { any }, { turns } }, cos = { { bits }, { any }, { turns } },
    tanh = { { bits }, { any } },
    pow = {
      { bits, random_bits(dtype, 1200, 8) }, { base, exponents(base, 5) }, { wide, exponents(wide, 6) },
      { any, made(dtype, n, 7, function(a) return math.floor(13 * a) - 6 end) },
    },
  }
end

-- ---- comparing ---------------------------------------------------------------------

-- How many ulps `got` is from `want`, which is not rounded; huge where they differ in kind.
local function distance(got, want, dtype)
  if want ~= want then return got == got and huge or 0 end
  if abs(want) > formats[dtype].greatest then -- rounded to the greatest, or to infinity
    if abs(want) == huge or abs(got) == huge then return got * want > 0 and abs(got) == huge and 0 or huge end
  elseif abs(got) == huge then -- the greatest may be passed by some ulps
    got = (got < 0 and -1 or 1) * formats[dtype].greatest
  end
  if got == want then return 0 end
  return abs(got - want) / reference.ulp(want, dtype)
end

local function worst_of(name, dtype, device)
  local f, worst, where = reference.ops[name].f, 0, nil
  for _, tensors in ipairs(arguments(dtype)[name]) do
    local there, columns = {}, {}
    for k, x in ipairs(tensors) do there[k], columns[k] = x:to(device), x:totable() end
    local got = lode[name](unpack(there)):totable()
    for i = 1, #got do
      local a, b = columns[1][i], columns[2] and columns[2][i]
      local ulps = distance(got[i], f(a, b, nil, dtype), dtype)
      if ulps > worst then worst, where = ulps, ("%.17g, %.17g: %.17g"):format(a, b or 0, got[i]) end
    end
  end
  return worst, where
end

describe("elementary functions", function()
  for _, name in ipairs({ "exp", "log", "sin", "cos", "tanh", "pow" }) do
    each_device(name .. " is within its ulps", function(device)
      for dtype, ulps in pairs(promised[name]) do
        local worst, where = worst_of(name, dtype, device)
        local limit = ulps + oracle_error[dtype]
        assert.is_true(worst <= limit, ("%s: %g ulp, %g promised: %s"):format(dtype, worst, limit, where))
      end
    end)
  end

  -- The results of arguments that need no rounding, in C99's words (annex F) where it has some.
  local function special_cases(dtype)
    local least, greatest = formats[dtype].least, formats[dtype].greatest
    local odd, even = 2 ^ 24 - 1, 2 ^ 24 -- of f32 the last odd one; 2^53 - 1 of f64
    if dtype == "f64" then odd, even = 2 ^ 53 - 1, 2 ^ 53 end
    return {
      exp = {
        { 0, 1 }, { minus_zero, 1 }, { huge, huge }, { -huge, 0 }, { nan, nan }, { 1e4, huge }, { -1e4, 0 },
        { greatest, huge }, { -greatest, 0 }, { least, 1 }, { -least, 1 },
      },
      log = {
        { 0, -huge }, { minus_zero, -huge }, { 1, 0 }, { huge, huge }, { -huge, nan }, { nan, nan }, { -1, nan },
        { -least, nan }, { -greatest, nan },
      },
      sin = {
        { 0, 0 }, { minus_zero, minus_zero }, { huge, nan }, { -huge, nan }, { nan, nan }, { least, least },
        { -least, -least },
      },
      cos = { { 0, 1 }, { minus_zero, 1 }, { huge, nan }, { -huge, nan }, { nan, nan }, { -least, 1 } },
      tanh = {
        { 0, 0 }, { minus_zero, minus_zero }, { huge, 1 }, { -huge, -1 }, { nan, nan }, { 50, 1 }, { -50, -1 },
        { greatest, 1 }, { least, least }, { -least, -least },
      },
      pow = {
        { 0, -1, huge }, { minus_zero, -1, -huge }, { 0, -odd, huge }, { minus_zero, -odd, -huge }, { 0, -2, huge },
        { minus_zero, -2, huge }, { minus_zero, -even, huge }, { minus_zero, -1.5, huge }, { 0, -huge, huge },
        { minus_zero, -huge, huge }, { 0, 3, 0 }, { minus_zero, 3, minus_zero }, { minus_zero, odd, minus_zero },
        { minus_zero, even, 0 }, { minus_zero, 2, 0 }, { minus_zero, 0.5, 0 }, { minus_zero, huge, 0 },
        { -1, huge, 1 }, { -1, -huge, 1 }, { 1, nan, 1 }, { 1, huge, 1 }, { 1, -huge, 1 }, { nan, 0, 1 },
        { nan, minus_zero, 1 }, { huge, 0, 1 }, { 0, 0, 1 }, { minus_zero, minus_zero, 1 }, { nan, 1, nan },
        { nan, -huge, nan }, { 2, nan, nan }, { 0, nan, nan }, { huge, nan, nan }, { minus_zero, nan, nan },
        { -2, 0.5, nan }, { -2, -1.5, nan }, { -least, 1 / 3, nan }, { -2, 3, -8 }, { -2, -3, -0.125 }, { -2, 2, 4 },
        { -1, odd, -1 }, { -1, even, 1 }, { -1, -odd, -1 }, { -1, 1e30, 1 }, { 0.5, -huge, huge },
        { -0.5, -huge, huge }, { 2, -huge, 0 }, { -2, -huge, 0 }, { 0.5, huge, 0 }, { -0.5, huge, 0 },
        { 2, huge, huge }, { -2, huge, huge }, { -huge, -3, minus_zero }, { -huge, -2, 0 }, { -huge, -0.5, 0 },
        { -huge, 3, -huge }, { -huge, 2, huge }, { -huge, 0.5, huge }, { -huge, -huge, 0 }, { -huge, huge, huge },
        { huge, -1, 0 }, { huge, -huge, 0 }, { huge, 1, huge }, { huge, huge, huge }, { huge, least, huge },
        { greatest, 1, greatest }, { -greatest, 1, -greatest }, { least, 1, least }, { -least, 1, -least },
        { greatest, 2, huge }, { -greatest, 3, -huge }, { least, 2, 0 }, { -least, 3, minus_zero },
        { least, -2, huge }, { 1 + 2 ^ -20, greatest, huge }, { 1 - 2 ^ -20, greatest, 0 }, { 4, 0.5, 2 },
        { 1.5, least, 1 }, { greatest, -least, 1 }, { 10, 2, 100 },
      },
    }
  end

  each_device("have C's special cases", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      for name, cases in pairs(special_cases(dtype)) do
        local columns = { {}, {}, {} }
        for i, case in ipairs(cases) do
          for k = 1, 3 do columns[k][i] = case[k] or 0 end
        end
        local operands, count = {}, name == "pow" and 2 or 1
        for k = 1, count do operands[k] = lode.tensor(columns[k], { dtype = dtype, device = device }) end
        local want = reference.new(dtype, { #cases }, columns[count + 1])
        support.same(lode[name](unpack(operands)), want, 0, name .. " of " .. dtype)
      end
    end
  end)

  -- Vectors and what is left over of them, far arguments of sin and cos among near ones, results in the operand's
  -- place: no element depends on where it stands.
  each_device("have the same bits wherever an element stands", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local x = made(dtype, 389, 9, function(a, b) return b < 0.1 and 1e9 * a - 3e8 or 40 * a - 20 end):to(device)
      local y = x:abs() * 0.1
      local function apply(name, a, b)
        if name == "pow" then return a:pow(b) end
        return lode[name](a)
      end
      for _, name in ipairs({ "exp", "log", "sin", "cos", "tanh", "pow" }) do
        local together = apply(name, x, y)
        for _, range in ipairs({ { 1, 1 }, { 2, 4 }, { 5, 132 }, { 7, 389 }, { 389, 389 } }) do
          support.same_bits(apply(name, x[{ range }], y[{ range }]), together[{ range }], name .. " of some " .. dtype)
        end
        support.same_bits(apply(name, x + 0, y), together, name .. " in place, " .. dtype)
      end
    end
  end)
end)
