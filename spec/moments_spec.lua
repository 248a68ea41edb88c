-- Variances of what is not rows: one reduction, m2 (csrc/core/moments.h). Its bits against the oracle's, and how exact
-- it is against sums in doubles.
local lode = require("lode")
local reference = require("spec.reference")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)

local keep = { keepdims = true }
local EPSILON = { f32 = 2 ^ -24, f64 = 2 ^ -53 }
local lengths = { 1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 1023, 1024, 1025, 5000 }

local function size_of(shape)
  local size = 1
  for _, n in ipairs(shape) do size = size * n end
  return size
end

describe("var's bits", function()
  local function check(device, dtype, shape, dims)
    local ref = reference.new(dtype, shape, support.data(dtype, size_of(shape), size_of(shape) + #dims))
    local x = support.tensor(ref, device):compute()
    local what = ("%s %s over %s"):format(dtype, table.concat(shape, "x"), table.concat(dims, ","))
    local variance, mean, alone = x:var(dims, keep), x:mean(dims, keep), x:var(dims, keep)
    lode.compute(variance, mean)
    support.same(variance, reference.var(ref, dims), 0, what)
    support.same_bits(alone, variance, what .. ", alone")
    support.same_bits(mean, x:sum(dims, keep) / (size_of(shape) / size_of(mean.shape)), what .. ", the mean")
  end

  each_device("are the oracle's for every length, along every dim", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      for _, n in ipairs(lengths) do
        check(device, dtype, { n, 3 }, { 1 })
        check(device, dtype, { 2, n, 3 }, { 2 })
        check(device, dtype, { 2, n }, { 1, 2 })
        if n < 2000 then check(device, dtype, { n, 70 }, { 1 }) end
      end
      check(device, dtype, { 3, 5000 }, { 2 }) -- rows that are too long to be kept
      check(device, dtype, { 30000 }, { 1 })
      check(device, dtype, { 20, 1500 }, { 1 })
      check(device, dtype, { 150, 600 }, { 1 })
      check(device, dtype, { 6, 5, 7 }, { 2, 3 })
      check(device, dtype, { 2, 3, 4, 5 }, { 1, 3 })
      check(device, dtype, { 4, 3000, 3 }, { 1, 2 })
    end
  end)

  each_device("are those of computed values, and of views, stored or not", function(device)
    local x = lode.randn({ 40, 3, 50 }, { device = device, seed = 1 }):compute()
    for _, dims in ipairs({ { 1 }, { 2 }, { 1, 2 }, { 1, 3 }, { 1, 2, 3 } }) do
      for name, of in pairs({
        product = function() return x * x + 1 end,
        transpose = function() return x:permute_dims({ 3, 1, 2 }) end,
        window = function() return (x * 2)[{ { 3, 30 }, {}, { 5, 45 } }] end,
        lag = function() return lode.concat({ x[{ {}, {}, { 1, 9 } }], x[{ {}, {}, { 1, 41 } }] + 1 }, 3) end,
      }) do
        local fused, stored = of(), of():compute()
        local what = ("%s over %s"):format(name, table.concat(dims, ","))
        support.same_bits(fused:var(dims), stored:var(dims), what)
      end
    end
  end)
end)

-- The last block of columns, or the last tile, is narrower than the others, and as many bytes are there for it.
describe("var's memory", function()
  each_device("is enough for every number of columns", function(device)
    for n = 65, 130 do
      local x = lode.rand({ n, 1000 }, { device = device, seed = n }):compute()
      support.same_bits(x.T:var(1), (x.T + 0):compute():var(1), n .. " columns")
    end
  end)

  it("is enough for every number of columns that threads share", function()
    local before, one = lode.get_threads(), {}
    local function each(f)
      for n = 513, 560 do
        local x = lode.rand({ 1500, n }, { dtype = "f64", seed = n }):compute()
        for _ = 1, 4 do f(n, x:var(1):compute()) end
        x:release()
      end
    end
    lode.set_threads(1)
    each(function(n, got) one[n] = got end)
    lode.set_threads(2)
    each(function(n, got) assert.is_true(got:download() == one[n]:download(), n .. " columns") end)
    lode.set_threads(before)
  end)
end)

-- The sum of f(x), with what each addition rounds away (Kahan 1965).
local function sum_of(list, f)
  local sum, lost = 0, 0
  for _, x in ipairs(list) do
    local next = f(x) - lost
    local new = sum + next
    sum, lost = new, (new - sum) - next
  end
  return sum
end

-- The variance of doubles, by two sums.
local function exact(list)
  local mean = sum_of(list, function(x) return x end) / #list
  return sum_of(list, function(x) return (x - mean) ^ 2 end) / #list
end

describe("var's error", function()
  -- Columns of numbers with deviation 1 or so, of which `change` makes others.
  local function worst(device, dtype, n, change)
    local noise = lode.randn({ n, 4 }, { dtype = "f64", seed = n }):totable()
    local data, columns = {}, { {}, {}, {}, {} }
    for i = 1, n do
      for j = 1, 4 do
        local x = change(noise[i][j], i)
        x = dtype == "f32" and reference.f32(x) or x
        data[#data + 1], columns[j][i] = x, x
      end
    end
    local x = lode.tensor(data, { dtype = dtype, device = device }):reshape({ n, 4 })
    local got, error = x:var(1):totable(), 0
    for j = 1, 4 do error = math.max(error, math.abs(got[j] / exact(columns[j]) - 1)) end
    return error
  end

  each_device("is a few roundings, far from 0 too", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      for _, n in ipairs({ 2, 9, 130, 1025, 5000 }) do
        for what, change in pairs({
          ["around 0"] = function(x) return x end,
          ["around 1e6"] = function(x) return x + 1e6 end,
          ["far from the first"] = function(x, i) return i == 1 and 1e6 or x end,
          ["with one far out"] = function(x, i) return i == 2 and -1e6 or x end,
          ["rising"] = function(x, i) return x + 1000 * i end,
        }) do
          local error = worst(device, dtype, n, change)
          local bound = 16 * EPSILON[dtype]
          assert(error <= bound, ("%s, %d numbers %s: %.3g"):format(dtype, n, what, error))
        end
      end
    end
  end)

  each_device("is none where all are equal; NaN and infinity are not hidden", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local same = lode.full({ 3000, 5 }, 0.1, { dtype = dtype, device = device }):compute()
      assert.equal(0, same:var():item())
      assert.equal(0, same:var(1):max():item())
      for _, at in ipairs({ 1, 2, 1500, 3000 }) do
        for _, x in ipairs({ 0 / 0, math.huge, -math.huge }) do
          local rows = lode.arange(1, 3001, { device = device }):expand_dims(2):equal(at)
          local got = lode.where(rows, x, same):var(1):totable()
          for j = 1, 5 do assert.is_true(got[j] ~= got[j]) end
        end
      end
      local large = lode.tensor({ { 0, 1e30 }, { 1e30, 0 } }, { dtype = "f32", device = device })
      assert.equal(math.huge, large:var():item())
      local most = dtype == "f32" and 3e38 or 1.7e308 -- twice that is infinity
      local apart = lode.tensor({ { most, 1 }, { -most, 2 } }, { dtype = dtype, device = device })
      local got = apart:var(1):totable()
      assert.is_true(got[1] ~= got[1] and got[2] == 0.25)
      assert.equal(math.huge, apart[{ {}, { 1, 1 } }].T:var(2):item()) -- rows: from a mean
    end
  end)
end)
