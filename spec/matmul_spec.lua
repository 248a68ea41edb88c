-- Matrix products: vectors, matrices and batches of every layout, against three loops in plain Lua.
local lode = require("lode")
local reference = require("spec.reference")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local unpack = unpack or table.unpack -- luacheck: ignore
local eps = { f32 = 2 ^ -23, f64 = 2 ^ -52 }

local function make(dtype, shape, seed)
  local size = 1
  for _, n in ipairs(shape) do size = size * n end
  return reference.new(dtype, shape, support.data(dtype, size, seed))
end

-- The product's shape, its elements and the sums of the terms' magnitudes.
local function product(a, b)
  local left, right = { unpack(a.shape) }, { unpack(b.shape) }
  local from_row, from_column = #left == 1, #right == 1
  if from_row then table.insert(left, 1, 1) end
  if from_column then right[2] = 1 end
  local m, k, n = left[#left - 1], left[#left], right[#right]
  local batch = reference.broadcast_shape({ unpack(left, 1, #left - 2) }, { unpack(right, 1, #right - 2) })
  local function stack(t, shape, rows, columns)
    local full = { unpack(batch) }
    full[#full + 1], full[#full + 2] = rows, columns
    return reference.values(reference.broadcast(reference.reshape(t, shape), full))
  end
  local x, y, count = stack(a, left, m, k), stack(b, right, k, n), 1
  for _, extent in ipairs(batch) do count = count * extent end
  local values, magnitudes = {}, {}
  for s = 0, count - 1 do
    for i = 0, m - 1 do
      for j = 1, n do
        local sum, magnitude = 0.0, 0.0
        local at, to = s * m * k + i * k, s * k * n + j
        for p = 1, k do
          local term = x[at + p] * y[to + (p - 1) * n]
          sum, magnitude = sum + term, magnitude + math.abs(term)
        end
        values[#values + 1], magnitudes[#magnitudes + 1] = sum, magnitude
      end
    end
  end
  local shape = batch
  if not from_row then shape[#shape + 1] = m end
  if not from_column then shape[#shape + 1] = n end
  return shape, values, magnitudes, k
end

local function check(got, a, b, what)
  local shape, values, magnitudes, k = product(a, b)
  local dtype = reference.promote(a.dtype, b.dtype)
  assert(got.dtype == dtype, ("%s: dtype %s"):format(what, got.dtype))
  assert.same(shape, got.shape, what)
  local list = support.values(got)
  assert(#list == #values, ("%s: %d elements, %d expected"):format(what, #list, #values))
  for i, want in ipairs(values) do
    local bound = eps[dtype] and (k + 1) * eps[dtype] * magnitudes[i] or 0
    if not (math.abs(list[i] - want) <= bound) then
      error(("%s: element %d: %.17g, %.17g expected"):format(what, i, list[i], want))
    end
  end
end

local dtypes = { "f32", "f64", "i32", "i64" }

describe("matmul", function()
  each_device("of vectors, matrices and batches", function(device)
    local cases = {
      { { 3 }, { 3 } }, { { 3 }, { 3, 4 } }, { { 2, 3 }, { 3 } }, { { 2, 3 }, { 3, 4 } }, { { 1, 1 }, { 1, 1 } },
      { { 5, 2, 3 }, { 5, 3, 4 } }, { { 5, 2, 3 }, { 3, 4 } }, { { 2, 3 }, { 5, 3, 4 } }, { { 5, 2, 3 }, { 1, 3, 4 } },
      { { 4, 1, 2, 3 }, { 5, 3, 2 } }, { { 4, 1, 2, 3 }, { 1, 5, 3, 2 } }, { { 2, 2, 2, 3 }, { 2, 2, 3, 1 } },
      { { 5, 2, 3 }, { 3 } }, { { 3 }, { 5, 3, 2 } }, { { 0, 3 }, { 3, 2 } },
      { { 2, 0 }, { 0, 3 } }, { { 2, 3 }, { 3, 0 } },
      { { 0, 2, 3 }, { 3, 2 } }, { { 0 }, { 0 } }, { { 0, 2, 0 }, { 0, 2 } },
      { { 1, 7 }, { 7, 1 } }, { { 7, 1 }, { 1, 7 } },
    }
    for _, dtype in ipairs(dtypes) do
      for i, case in ipairs(cases) do
        local a, b = make(dtype, case[1], 2 * i), make(dtype, case[2], 2 * i + 1)
        local what = ("%s [%s] x [%s]"):format(dtype, table.concat(case[1], ","), table.concat(case[2], ","))
        local x, y = support.tensor(a, device), support.tensor(b, device)
        check(x:matmul(y), a, b, what)
        check(lode.matmul(x * 1, y * 1), a, b, what .. " recorded")
      end
    end
  end)

  each_device("of many sizes", function(device)
    local sizes = { 1, 2, 3, 17, 64 }
    for _, dtype in ipairs(dtypes) do
      for i, m in ipairs(sizes) do
        for j, n in ipairs(sizes) do
          local k = sizes[(i + 2 * j) % #sizes + 1]
          local a, b = make(dtype, { m, k }, i), make(dtype, { k, n }, 10 + j)
          local got = support.tensor(a, device):matmul(support.tensor(b, device))
          check(got, a, b, ("%s %d %d %d"):format(dtype, m, k, n))
        end
      end
    end
    for _, dtype in ipairs(dtypes) do
      local a, b = make(dtype, { 130, 33 }, 1), make(dtype, { 33, 130 }, 2)
      check(support.tensor(a, device):matmul(support.tensor(b, device)), a, b, dtype .. " 130")
    end
  end)

  each_device("of views of every layout", function(device)
    local R = reference
    -- each makes a [6, 5] operand of a base
    local layouts = {
      { "dense", { 6, 5 }, function(r) return r end, function(x) return x end },
      { "transposed", { 5, 6 }, function(r) return R.permute(r, { 2, 1 }) end, function(x) return x.T end },
      { "of rows", { 9, 5 }, function(r) return R.range(r, 1, 3, 8) end, function(x) return x[{ { 3, 8 } }] end },
      { "of columns", { 6, 9 }, function(r) return R.range(r, 2, 2, 6) end,
        function(x) return x[{ {}, { 2, 6 } }] end },
      { "of every second column", { 6, 9 }, function(r) return R.range(r, 2, 1, 9, 2) end,
        function(x) return x[{ {}, { 1, 9, 2 } }] end },
      { "of every second row", { 11, 5 }, function(r) return R.range(r, 1, 1, 11, 2) end,
        function(x) return x[{ { 1, 11, 2 } }] end },
      { "flipped", { 6, 5 }, function(r) return R.flip(r, 1) end, function(x) return x:flip(1) end },
      { "flipped by columns", { 6, 5 }, function(r) return R.flip(r, 2) end, function(x) return x:flip(2) end },
      { "one row repeated", { 1, 5 }, function(r) return R.broadcast(r, { 6, 5 }) end,
        function(x) return x:broadcast_to(6, 5) end },
      { "one column repeated", { 6, 1 }, function(r) return R.broadcast(r, { 6, 5 }) end,
        function(x) return x:broadcast_to(6, 5) end },
      { "of a batch", { 6, 2, 5 }, function(r) return R.select(r, 2, 2) end, function(x) return x[{ {}, 2 }] end },
    }
    for _, dtype in ipairs({ "f32", "f64", "i32" }) do
      for i, left in ipairs(layouts) do
        for j, right in ipairs(layouts) do
          local p, q = make(dtype, left[2], i), make(dtype, right[2], 20 + j)
          local a, b = left[3](p), R.permute(right[3](q), { 2, 1 })
          local x = left[4](support.tensor(p, device):compute())
          local y = right[4](support.tensor(q, device):compute()).T
          check(x:matmul(y), a, b, ("%s %s x %s"):format(dtype, left[1], right[1]))
        end
      end
    end
    local p = make("f64", { 4, 3, 5 }, 1)
    local x = support.tensor(p, device):compute()
    local turned = R.permute(p, { 1, 3, 2 })
    check(x:matmul(x:permute_dims(1, 3, 2)), p, turned, "a batch with its transpose")
    check(x:flip(1):matmul(x:permute_dims(1, 3, 2)), R.flip(p, 1), turned, "a batch backwards")
    local column = x[{ 1, {}, 2 }]
    local strided = R.select(R.select(p, 1, 1), 2, 2)
    check(column:matmul(column), strided, strided, "strided vectors")
  end)

  each_device("promotes its operands", function(device)
    for _, pair in ipairs({ { "i32", "f32" }, { "f32", "f64" }, { "i64", "i32" }, { "bool", "f32" } }) do
      local a, b = make(pair[1], { 2, 3 }, 1), make(pair[2], { 3, 2 }, 2)
      check(support.tensor(a, device):matmul(support.tensor(b, device)), a, b, pair[1] .. " x " .. pair[2])
    end
  end)

  each_device("of integers wraps", function(device)
    local x = lode.full({ 2, 3 }, 2 ^ 30, { dtype = "i32", device = device })
    local y = lode.full({ 3, 2 }, 4, { dtype = "i32", device = device })
    support.holds(x:matmul(y), "i32", { 2, 2 }, { 0, 0, 0, 0 })
    y:upload(3) -- 3 * 3 * 2^30 = 2^33 + 2^30
    support.holds(x:matmul(y), "i32", { 2, 2 }, { 2 ^ 30, 2 ^ 30, 2 ^ 30, 2 ^ 30 })
    support.holds(x:to("i64"):matmul(y:to("i64")), "i64", { 2, 2 }, { 9 * 2 ^ 30, 9 * 2 ^ 30, 9 * 2 ^ 30, 9 * 2 ^ 30 })
  end)

  each_device("passes NaN and infinity on", function(device)
    local x = lode.tensor({ { 1, 0 / 0 }, { 1, 1 } }, { device = device })
    local y = lode.tensor({ { 1, 2 }, { 0, 1 } }, { device = device })
    support.holds(x:matmul(y), "f32", { 2, 2 }, { 0 / 0, 0 / 0, 1, 3 })
    x:upload({ { 1, 1 / 0 }, { 0, 0 } })
    support.holds(x:matmul(y), "f32", { 2, 2 }, { 0 / 0, 1 / 0, 0, 0 })
  end)

  each_device("fuses with what is around it", function(device)
    local a, b = make("f64", { 8, 8 }, 1), make("f64", { 8, 8 }, 2)
    local x, y = support.tensor(a, device), support.tensor(b, device)
    local got = ((x + 1):matmul(y * 2) - x):sum(2)
    local plus = reference.apply("add", "NUMERIC", { a, reference.new("f64", {}, { 1 }) })
    local twice = reference.apply("multiply", "NUMERIC", { b, reference.new("f64", {}, { 2 }) })
    local _, values = product(plus, twice)
    local list = got:totable()
    for i = 1, 8 do
      local sum = 0
      for j = 1, 8 do sum = sum + values[(i - 1) * 8 + j] - a.data[(i - 1) * 8 + j] end
      assert(math.abs(list[i] - sum) < 1e-9)
    end
  end)

  each_device("says what does not match", function(device)
    local function zeros(shape, dtype) return lode.zeros(shape, { device = device, dtype = dtype }) end
    local x = zeros({ 2, 3 })
    support.fails(function() return x:matmul(x) end, "matmul: ", "[2,3] and [2,3]", "3 columns, 2 rows")
    support.fails(function() return x:matmul(zeros({ 2 })) end, "matmul: ", "[2,3] and [2]")
    support.fails(function() return zeros({ 3 }):matmul(zeros({ 4 })) end, "matmul: ", "[3] and [4]")
    support.fails(function() return x:matmul(zeros({})) end, "matmul: ", "[2,3] and []")
    support.fails(function() return zeros({ 2, 2, 3 }):matmul(zeros({ 3, 3, 2 })) end, "matmul: ", "broadcast")
    support.fails(function() return x:matmul(5) end, "matmul: ", "argument 2 is a number")
    support.fails(function() return zeros({ 2, 2 }, "bool"):matmul(zeros({ 2, 2 }, "bool")) end, "matmul: ", "bool")
    local eight = zeros({ 1, 1, 1, 1, 1, 1, 2, 3 })
    assert.same({ 1, 1, 1, 1, 1, 1, 2, 2 }, eight:matmul(eight:permute_dims(1, 2, 3, 4, 5, 6, 8, 7)).shape)
    support.fails(function() return zeros({ 2 ^ 31, 0 }):matmul(zeros({ 0, 2 ^ 31 })) end, "matmul: ", "64 bits")
  end)
end)
