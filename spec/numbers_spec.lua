-- Arithmetic at its edges: integers wrap and never trap, and floating-point results do not depend on the
-- control word that a host has set.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local holds = support.holds
local host = support.host()
local huge, nan = 1 / 0, 0 / 0
local minus_zero = -1 / huge -- Lua 5.1 takes the constant -0.0 for 0

describe("integers", function()
  local least, most = -2 ^ 31, 2 ^ 31 - 1

  local function i32(list, device) return lode.tensor(list, { dtype = "i32", device = device }) end

  -- i64 by bytes: the least and the most are no doubles.
  local bytes = {
    least = "\0\0\0\0\0\0\0\128", most = "\255\255\255\255\255\255\255\127", minus_one = ("\255"):rep(8),
  }
  local function i64(name, device)
    return lode.tensor(bytes[name], { shape = { 1 }, dtype = "i64", device = device })
  end

  each_device("INT_MIN / -1 wraps, and kills nobody", function(device)
    local a, b = i32({ least, least, 7, -7 }, device), i32({ -1, 1, -1, -1 }, device)
    holds(a:floor_divide(b), "i32", { 4 }, { least, least, -7, 7 })
    holds(a:remainder(b), "i32", { 4 }, { 0, 0, 0, 0 })
    holds(a:floor_divide(-1), "i32", { 4 }, { least, least, -7, 7 })
    holds(a % -1, "i32", { 4 }, { 0, 0, 0, 0 })
    local x, y = i64("least", device), i64("minus_one", device)
    assert.is_true(x:floor_divide(y):download() == bytes.least)
    holds(x:remainder(y), "i64", { 1 }, { 0 })
  end)

  each_device("division by zero gives 0", function(device)
    local a = i32({ 5, -5, 0, least }, device)
    holds(a:floor_divide(0), "i32", { 4 }, { 0, 0, 0, 0 })
    holds(a % 0, "i32", { 4 }, { 0, 0, 0, 0 })
    holds(a:to("i64"):floor_divide(a:to("i64") * 0), "i64", { 4 }, { 0, 0, 0, 0 })
    holds(a:to("i64"):remainder(0), "i64", { 4 }, { 0, 0, 0, 0 })
  end)

  each_device("floor_divide and remainder round down, as Lua's", function(device)
    local a, b = {}, {}
    for x = -7, 7 do
      for y = -4, 4 do
        if y ~= 0 then a[#a + 1], b[#b + 1] = x, y end
      end
    end
    local quotient, rest = {}, {}
    for i = 1, #a do quotient[i], rest[i] = math.floor(a[i] / b[i]), a[i] % b[i] end
    for _, dtype in ipairs({ "i32", "i64", "f32", "f64" }) do
      local x = lode.tensor(a, { dtype = dtype, device = device })
      local y = lode.tensor(b, { dtype = dtype, device = device })
      holds(x:floor_divide(y), dtype, { #a }, quotient)
      holds(x % y, dtype, { #a }, rest)
    end
  end)

  each_device("wrap", function(device)
    local a = i32({ most, least, most, 65536 }, device)
    holds(a + i32({ 1, -1, most, 0 }, device), "i32", { 4 }, { least, most, -2, 65536 })
    holds(a - i32({ -1, 1, least, 0 }, device), "i32", { 4 }, { least, most, -1, 65536 })
    holds(a * i32({ 2, -1, most, 65536 }, device), "i32", { 4 }, { -2, least, 1, 0 })
    holds(-a, "i32", { 4 }, { -most, least, -most, -65536 })
    holds(a:abs(), "i32", { 4 }, { most, least, most, 65536 })
    holds(a:square(), "i32", { 4 }, { 1, 0, 1, 0 })
    assert.is_true((i64("most", device) + 1):download() == bytes.least)
    assert.is_true((i64("least", device) - 1):download() == bytes.most)
    assert.is_true((-i64("least", device)):download() == bytes.least)
    assert.is_true(i64("least", device):abs():download() == bytes.least)
    assert.is_true((i64("least", device) * -1):download() == bytes.least)
  end)

  each_device("powers are by squaring, and wrap", function(device)
    holds(i32({ 2, 3, -2, 0, 10, -1 }, device):pow(5), "i32", { 6 }, { 32, 243, -32, 0, 100000, -1 })
    holds(i32({ 2, 2, 2, 3, 7 }, device) ^ i32({ 30, 31, 32, 20, 0 }, device), "i32", { 5 },
      { 2 ^ 30, least, 0, 3486784401 - 2 ^ 32, 1 })
    holds(i32({ 1, -1, -1, 2, 0, -3 }, device) ^ i32({ -5, -5, -4, -1, -1, -2 }, device), "i32", { 6 },
      { 1, -1, 1, 0, 0, 0 })
    holds(i32({ 0, 5 }, device) ^ 0, "i32", { 2 }, { 1, 1 })
    for n = 1, 12 do -- those that are recorded as products, and those that are not
      local want = {}
      for x = -3, 3 do
        local power = 1
        for _ = 1, n do power = power * x end
        want[x + 4] = power
      end
      for _, dtype in ipairs({ "i32", "i64" }) do
        local x = lode.tensor({ -3, -2, -1, 0, 1, 2, 3 }, { dtype = dtype, device = device })
        holds(x ^ n, dtype, { 7 }, want)
      end
    end
    local x = i32({ 7 }, device)
    holds(x ^ -1, "i32", { 1 }, { 0 })
    assert.is_true((i64("least", device) ^ 1):download() == bytes.least)
  end)

  each_device("sums and products of i32 and bool are i64, and wrap", function(device)
    holds(i32({ most, most, 1 }, device):sum(), "i64", {}, { 2 ^ 32 - 1 })
    holds(lode.full({ 100 }, 2, { dtype = "i32", device = device }):prod(), "i64", {}, { 0 })
    holds(lode.full({ 5 }, true, { device = device }):sum(), "i64", {}, { 5 })
    assert.is_true(lode.concat({ i64("most", device), i64("most", device) }):sum():equal(-2):item())
  end)

  each_device("saturate when they come from floats", function(device)
    local x = lode.tensor({ 1e10, -1e10, huge, -huge, nan, 2.9, -2.9, minus_zero }, { dtype = "f64", device = device })
    holds(x:to("i32"), "i32", { 8 }, { most, least, most, least, 0, 2, -2, 0 })
    holds(x:to("bool"), "bool", { 8 }, { true, true, true, true, true, true, true, false })
    assert.is_true(lode.tensor({ 1e19 }, { device = device }):to("i64"):download() == bytes.most)
    assert.is_true(lode.tensor({ -1e19 }, { device = device }):to("i64"):download() == bytes.least)
    holds(lode.tensor({ 2 ^ 32 + 5 }, { dtype = "i64", device = device }):to("i32"), "i32", { 1 }, { 5 })
  end)
end)

describe("floats", function()
  each_device("keep denormals", function(device)
    for _, case in ipairs({ { "f32", 2 ^ -149, 2 ^ -126 }, { "f64", 2 ^ -1074, 2 ^ -1022 } }) do
      local dtype, tiny, normal = case[1], case[2], case[3]
      local options = { dtype = dtype, device = device }
      holds(lode.tensor({ tiny, -tiny, normal }, options) * 1, dtype, { 3 }, { tiny, -tiny, normal })
      holds(lode.tensor({ normal, normal }, options) / 2, dtype, { 2 }, { normal / 2, normal / 2 })
      holds(lode.full({ 40 }, tiny, options):sum(), dtype, {}, { 40 * tiny })
      holds(lode.full({ 3 }, tiny, options):less(normal), "bool", { 3 }, { true, true, true })
      holds(lode.full({ 2 }, tiny, options):equal(0), "bool", { 2 }, { false, false })
      local product = lode.full({ 2, 2 }, tiny, options):matmul(lode.eye(2, options))
      holds(product, dtype, { 2, 2 }, { tiny, tiny, tiny, tiny })
    end
    holds(lode.tensor({ 2 ^ -149 }, { dtype = "f64", device = device }):to("f32"):to("f64"), "f64", { 1 }, { 2 ^ -149 })
  end)

  each_device("powers by small numbers have the special values of C's pow", function(device)
    local x = lode.tensor({ 0, minus_zero, huge, -huge, nan, 2, -2 }, { dtype = "f64", device = device })
    holds(x ^ 0, "f64", { 7 }, { 1, 1, 1, 1, 1, 1, 1 })
    holds(x ^ 1, "f64", { 7 }, { 0, 0, huge, -huge, nan, 2, -2 })
    holds(x ^ 2, "f64", { 7 }, { 0, 0, huge, huge, nan, 4, 4 })
    holds(x ^ 3, "f64", { 7 }, { 0, 0, huge, -huge, nan, 8, -8 })
    holds(x ^ -1, "f64", { 7 }, { huge, -huge, 0, 0, nan, 0.5, -0.5 })
    holds(x ^ -2, "f64", { 7 }, { huge, huge, 0, 0, nan, 0.25, 0.25 })
    holds((x ^ 0.5)[{ { 1, 3 } }], "f64", { 3 }, { 0, 0, huge })
  end)
end)

describe("the control word of the caller", function()
  local modes = { "flush", "up", "down", "zero" }

  -- Numbers in scripts are exact in f32 here: Lua computes with the caller's control word.
  local function many(device, operands)
    local text = {}
    for dtype, o in pairs(operands) do
      local x, y, small = o.x, o.y, o.small
      local options = { dtype = dtype, device = device, seed = 3 }
      for _, value in ipairs({
        x + y, x * y, x / y, x - y / 3, (x * 3):sqrt(), small * 0.75, small + small, small:less(o.tiny),
        y:exp(), x:log(), y:tanh(), y:sin(), (y * 3):to("i32"), x:floor_divide(0.125), x % 0.125, x ^ 2.5, x:sum(),
        y:sum(1), y:sum(2), small:sum(), x:prod(1), y:mean(), y:max(), small:max(), x:to("f32"),
        lode.randn({ 300 }, options), lode.rand({ 300 }, options),
        lode.arange(0, 9, 0.125, { dtype = dtype, device = device }),
        small:to("f64"),
      }) do
        text[#text + 1] = dtype .. value:download()
      end
    end
    table.sort(text)
    return table.concat(text)
  end

  each_device("changes no result, and is left as it was", function(device)
    if not host then return pending("spec/host is not built") end
    local operands = {}
    for dtype, scale in pairs({ f32 = 2 ^ -130, f64 = 2 ^ -1030 }) do
      local options = { dtype = dtype, device = device, seed = 3 }
      local x, y = lode.rand({ 500, 9 }, options):compute(), lode.randn({ 500, 9 }, options):compute()
      local tiny = lode.full({}, scale / 4, { dtype = dtype, device = device }):compute()
      operands[dtype] = { x = x, y = y, small = (x * scale):compute(), tiny = tiny }
    end
    local want = many(device, operands)
    for _, mode in ipairs(modes) do
      local got, kept = host.control(mode, function() return many(device, operands) end)
      assert.is_true(got == want, "rounding or flushing: " .. mode)
      assert.is_true(kept, mode)
    end
  end)

  each_device("does not reach large work, streams and systems", function(device)
    if not host then return pending("spec/host is not built") end
    local options = { dtype = "f32", device = device, seed = 1 }
    local x = lode.rand({ 200000, 4 }, options):compute()
    local A = (lode.rand({ 64, 64 }, options) + 8 * lode.eye(64, { device = device })):compute()
    local b = lode.rand({ 64 }, options):compute()
    local function work()
      local s = lode.stream(device)
      local on_stream = s:run(function() return ((x * 3 + x) ^ 2):sum(2):compute() end)
      local bits = { ((x / 3 + x) ^ 2):sum():download(), on_stream:download(), A:matmul(A):download() }
      bits[4], bits[5] = A:solve(b):download(), A:lu():solve(b):download()
      return table.concat(bits)
    end
    local want = work()
    for _, mode in ipairs(modes) do assert.is_true(host.control(mode, work) == want, mode) end
  end)

  each_device("does not reach what becomes of a script's numbers", function(device)
    if not host then return pending("spec/host is not built") end
    local numbers, tiny, f32 = { 0.1, -0.1, 1 / 3, 1e-40, 2 ^ -149 }, 1e-40, { device = device }
    local x = lode.ones({ 3 }, f32):compute()
    local cases = {
      table = function() return lode.tensor(numbers, f32) end,
      number = function() return lode.tensor(0.1, f32) end,
      full = function() return lode.full({ 2 }, -0.1, f32) end,
      denormal = function() return lode.full({ 2 }, tiny, f32) end,
      scalar = function() return x * 0.1 end,
      upload = function() return lode.zeros({ 3 }, f32):upload(0.1) end,
      upload_table = function() return lode.zeros({ 5 }, f32):upload(numbers) end,
      linspace = function() return lode.linspace(0, 1, 77, { dtype = "f64", device = device }) end,
      arange = function() return lode.arange(0, 3, 0.1, f32) end,
    }
    local failures = {}
    for name, case in pairs(cases) do
      local want = case():download()
      for _, mode in ipairs(modes) do
        local got = host.control(mode, function() return case():download() end)
        if got ~= want then failures[#failures + 1] = name .. " (" .. mode .. ")" end
      end
    end
    table.sort(failures)
    assert.equal("", table.concat(failures, ", "))
  end)
end)

describe("var and std", function()
  each_device("are those of the deviations, far from 0 too", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local x = lode.rand({ 7, 90 }, { dtype = dtype, device = device, seed = 5 }) + 10000
      x = x:compute()
      for d = 1, 2 do
        local rows = d == 2 and x:totable() or x.T:totable()
        local got = x:var(d, { correction = 1 }):totable()
        local root = x:std(d):totable()
        for i, row in ipairs(rows) do
          local mean, sum = 0, 0
          for _, value in ipairs(row) do mean = mean + value / #row end
          for _, value in ipairs(row) do sum = sum + (value - mean) ^ 2 end
          local bound = dtype == "f32" and 2e-2 or 1e-9 -- the mean itself is rounded: 10000 has 3 digits to spare
          assert(math.abs(got[i] - sum / (#row - 1)) <= bound * sum / #row, ("%s: %.9g"):format(dtype, got[i]))
          assert(math.abs(root[i] - math.sqrt(sum / #row)) <= bound * math.sqrt(sum / #row))
        end
      end
      local rows = x:mean(2, { keepdims = true })
      support.same_bits(x:var(2), (x - rows):square():sum(2) / 90, "of rows")
      support.same_bits(x:std(), x:var():sqrt(), "of everything")
    end
  end)

  each_device("take integers, keep dims, and are NaN where nothing is left to divide by", function(device)
    local options = { dtype = "i32", device = device }
    local n = lode.tensor({ { 1, 3 }, { 5, 5 } }, options)
    assert.same({ { 1 }, { 0 } }, n:var(2, { keepdims = true }):totable())
    assert.equal("f32", n:std().dtype)
    assert.equal(0, lode.ones({ 1 }, options):var():item())
    assert.equal(math.huge, n:var({ correction = 4 }):item())
    for _, x in ipairs({ lode.ones({ 1 }, options):var({ correction = 1 }),
      lode.ones({ 2 }, options):std({ correction = 3 }), lode.zeros({ 0 }, options):var() }) do
      assert.is_true(x:item() ~= x:item())
    end
  end)
end)

describe("a script's -0.0", function()
  each_device("keeps its sign as a scalar", function(device)
    local zero = -1 / math.huge
    for _, dtype in ipairs({ "f32", "f64" }) do
      local options = { dtype = dtype, device = device }
      local one = lode.ones({ 1 }, options)
      local x = lode.ones({}, options)
      x:upload(zero)
      for name, got in pairs({
        divisor = one / zero, tensor = 1 / lode.tensor(zero, options), full = 1 / lode.full({ 1 }, zero, options),
        product = 1 / (one * zero), where = 1 / lode.where(one:greater(0), zero, one), upload = 1 / x,
      }) do
        assert(got:item() == -math.huge, dtype .. ": " .. name)
      end
      assert.equal(1, (lode.ones({ 1 }, { dtype = "i32", device = device }) + zero):item())
    end
  end)
end)
