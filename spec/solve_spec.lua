-- Systems of equations: what comes out solves them, for every structure, layout and number of right-hand
-- sides; and a matrix that cannot be solved with raises where its result is first waited for.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local eps = { f32 = 2 ^ -23, f64 = 2 ^ -52 }
local sizes = { 1, 2, 3, 17, 64, 130 }

-- ---- matrices, as flat row-major lists of numbers that are exact in f32 ----------------------

local structures = {}

function structures.general(n, seed)
  local a = support.data("i32", n * n, seed)
  for i = 1, n do
    local j = (i * 7 + seed) % n -- large elements off the diagonal, so that rows are exchanged
    a[(i - 1) * n + j + 1] = a[(i - 1) * n + j + 1] + 8
  end
  return a
end

function structures.spd(n, seed)
  local half, a = support.data("i32", n * n, seed), {}
  for i = 1, n do
    for j = 1, i do
      local sum = 0
      for k = math.max(1, j - 8), j do sum = sum + half[(i - 1) * n + k] * half[(j - 1) * n + k] end
      a[(i - 1) * n + j], a[(j - 1) * n + i] = sum, sum
    end
    a[(i - 1) * n + i] = 4000 + 40 * n * 20 + i
  end
  return a
end

function structures.upper(n, seed)
  local a = support.data("i32", n * n, seed)
  for i = 1, n do
    for j = 1, i - 1 do a[(i - 1) * n + j] = 0 end
    a[(i - 1) * n + i] = 20 * n + i
  end
  return a
end

function structures.lower(n, seed)
  local a = structures.upper(n, seed)
  for i = 1, n do
    for j = 1, i - 1 do
      a[(i - 1) * n + j], a[(j - 1) * n + i] = a[(j - 1) * n + i], 0
    end
  end
  return a
end

local names = { "general", "spd", "upper", "lower" }

-- ---- checking -----------------------------------------------------------------------------------

-- The backward error of x in a x = b, in units of n * eps: |a x - b| / (|a| |x| + |b|), row by row. a is
-- n x n, b and x n x k; flat lists.
local function backward_error(a, b, x, n, k, dtype)
  local worst = 0
  for i = 1, n do
    for j = 1, k do
      local sum, scale = -b[(i - 1) * k + j], math.abs(b[(i - 1) * k + j])
      for p = 1, n do
        local term = a[(i - 1) * n + p] * x[(p - 1) * k + j]
        sum, scale = sum + term, scale + math.abs(term)
      end
      local value = scale == 0 and 0 or math.abs(sum) / scale
      worst = (value ~= value or value > worst) and value or worst
      if value ~= value then return value end
    end
  end
  return worst / (n * eps[dtype])
end

local function check(a, b, x, n, k, dtype, what)
  local list = support.values(x)
  assert(#list == n * k, what)
  local e = backward_error(a, b, list, n, k, dtype)
  assert(e <= 8, ("%s: backward error of %g n eps"):format(what, e)) -- partial pivoting may grow elements
end


-- Long lists do not fit on Lua's stack.
local function matrix(list, shape, dtype, device)
  return lode.tensor(list, { dtype = dtype, device = device }):reshape(shape)
end

describe("solve", function()
  each_device("of every structure, size and number of right-hand sides", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      for _, structure in ipairs(names) do
        for _, n in ipairs(sizes) do
          local a = structures[structure](n, n)
          local A = matrix(a, { n, n }, dtype, device)
          for _, k in ipairs({ 0, 1, 5 }) do -- 0: a vector
            local b = support.data("i32", n * math.max(k, 1), 100 + k)
            local B = matrix(b, k == 0 and { n } or { n, k }, dtype, device)
            local what = ("%s %s, n = %d, k = %d"):format(dtype, structure, n, k)
            local x = A:solve(B)
            assert.same(B.shape, x.shape, what)
            assert.equal(dtype, x.dtype)
            check(a, b, x, n, math.max(k, 1), dtype, what)
            check(a, b, lode.solve(A, B, { assume = structure }), n, math.max(k, 1), dtype, what .. " assumed")
            check(a, b, A:solve(B, { assume = "general" }), n, math.max(k, 1), dtype, what .. " as general")
          end
        end
      end
    end
  end)

  each_device("of matrices and right-hand sides of every layout", function(device)
    local n, k = 20, 3
    for _, dtype in ipairs({ "f32", "f64" }) do
      local a, b = structures.general(n, 5), support.data("i32", n * k, 6)
      local A, B = matrix(a, { n, n }, dtype, device), matrix(b, { n, k }, dtype, device)
      local wide = lode.concat({ A * 0, A, A * 0 }, 2):compute()
      local apart = lode.stack({ A, A * 0 }, 3):compute()
      local layouts = {
        recorded = A * 1, turned = (A.T * 1):compute().T, columns = wide[{ {}, { n + 1, 2 * n } }],
        apart = apart[{ {}, {}, 1 }], flipped = (A:flip() * 1):compute():flip(),
      }
      for name, M in pairs(layouts) do check(a, b, M:solve(B), n, k, dtype, dtype .. " " .. name) end
      local sides = {
        recorded = B * 1, turned = (B.T * 1):compute().T, flipped = (B:flip(1) * 1):compute():flip(1),
        apart = lode.stack({ B, B * 0 }, 3):compute()[{ {}, {}, 1 }],
      }
      for name, R in pairs(sides) do check(a, b, A:solve(R), n, k, dtype, dtype .. " side " .. name) end
      local ones = {}
      for i = 1, n * k do ones[i] = 1 end
      check(a, ones, A:solve(lode.ones({ n, k }, { dtype = dtype, device = device })), n, k, dtype, "ones")
      check(a, ones, A:solve(lode.ones({ 1, 1 }, { dtype = dtype, device = device }):broadcast_to(n, k)), n, k, dtype,
        "one repeated")
    end
  end)

  each_device("leaves the matrix and the right-hand side as they were", function(device)
    local A = matrix(structures.general(9, 1), { 9, 9 }, "f64", device)
    local b = matrix(support.data("i32", 9, 2), { 9 }, "f64", device)
    local before, right = A:download(), b:download()
    A:solve(b):sync()
    A:solve(b, { assume = "general" }):sync()
    A:lu():solve(b):sync()
    assert.is_true(before == A:download())
    assert.is_true(right == b:download())
  end)

  each_device("reads only the triangle that is assumed", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local n = 12
      local b = support.data("i32", n, 3)
      local B = matrix(b, { n }, dtype, device)
      for _, structure in ipairs({ "upper", "lower", "spd" }) do
        local a = structures[structure](n, 4)
        local spoiled = {}
        for i = 1, n do
          for j = 1, n do
            local other = structure == "upper" and j < i or structure ~= "upper" and j > i
            spoiled[(i - 1) * n + j] = other and 0 / 0 or a[(i - 1) * n + j]
          end
        end
        check(a, b, matrix(spoiled, { n, n }, dtype, device):solve(B, { assume = structure }), n, 1, dtype, structure)
      end
    end
  end)

  each_device("finds a symmetric matrix that is not positive definite to be general", function(device)
    local a = { 1, 2, 3, 2, 1, 4, 3, 4, 1 }
    local A = matrix(a, { 3, 3 }, "f64", device)
    local b = lode.tensor({ 1, 2, 3 }, { dtype = "f64", device = device })
    check(a, { 1, 2, 3 }, A:solve(b), 3, 1, "f64", "indefinite")
  end)

  each_device("of integers takes the default dtype", function(device)
    local A = lode.tensor({ { 2, 0 }, { 0, 4 } }, { dtype = "i32", device = device })
    local b = lode.tensor({ 2, 2 }, { dtype = "i64", device = device })
    support.holds(A:solve(b), "f32", { 2 }, { 1, 0.5 })
    support.holds(lode.with({ dtype = "f64" }, function() return A:solve(b) end), "f64", { 2 }, { 1, 0.5 })
    -- the matrix says the dtype
    local c = lode.tensor({ 2, 2 }, { dtype = "f64", device = device })
    assert.equal("f32", A:to("f32"):solve(c).dtype)
  end)

  each_device("of batches", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local n, k, count = 7, 2, 6
      local all, sides, list = {}, {}, {}
      for s = 1, count do
        list[s] = structures[names[s % 4 + 1]](n, s)
        for _, value in ipairs(list[s]) do all[#all + 1] = value end
      end
      sides = support.data("i32", count * n * k, 50)
      local A = matrix(all, { 2, 3, n, n }, dtype, device)
      local B = matrix(sides, { 2, 3, n, k }, dtype, device)
      local function part(from, length)
        local values = {}
        for i = 1, length do values[i] = sides[from + i] end
        return values
      end
      for _, assume in ipairs({ "auto", "general" }) do
        local x = A:solve(B, { assume = assume })
        assert.same({ 2, 3, n, k }, x.shape)
        for s = 1, count do
          check(list[s], part((s - 1) * n * k, n * k), x:reshape(count, n, k)[s], n, k, dtype, "system " .. s)
        end
      end
      local V = matrix(part(0, count * n), { 2, 3, n }, dtype, device) -- a vector each
      local x = A:solve(V)
      assert.same({ 2, 3, n }, x.shape)
      for s = 1, count do
        check(list[s], part((s - 1) * n, n), x:reshape(count, n)[s], n, 1, dtype, "vector " .. s)
      end
      local y = A:solve(B[1][1]) -- the same sides for all
      assert.same({ 2, 3, n, k }, y.shape)
      for s = 1, count do
        check(list[s], part(0, n * k), y:reshape(count, n, k)[s], n, k, dtype, "shared " .. s)
      end
    end
  end)

  each_device("of nothing", function(device)
    local function zeros(...) return lode.zeros({ ... }, { dtype = "f64", device = device }) end
    support.holds(zeros(0, 0):solve(zeros(0)), "f64", { 0 }, {})
    support.holds(zeros(0, 0):solve(zeros(0, 3)), "f64", { 0, 3 }, {})
    support.holds(lode.eye(3, { dtype = "f64", device = device }):solve(zeros(3, 0)), "f64", { 3, 0 }, {})
    support.holds(zeros(0, 2, 2):solve(zeros(0, 2, 1)), "f64", { 0, 2, 1 }, {})
    support.holds(zeros(0, 0):lu():solve(zeros(0)), "f64", { 0 }, {})
  end)

  each_device("says what does not match", function(device)
    local function zeros(...) return lode.zeros({ ... }, { device = device }) end
    support.fails(function() return zeros(2, 3):solve(zeros(2)) end, "solve: ", "[2,3]", "not a square matrix")
    support.fails(function() return zeros(4):solve(zeros(4)) end, "solve: ", "[4]", "not a square matrix")
    support.fails(function() return zeros(3, 3):solve(zeros(4)) end, "solve: ", "[3,3]", "[4]", "3 rows")
    support.fails(function() return zeros(3, 3):solve(zeros(4, 1)) end, "solve: ", "[4,1]", "3 rows")
    support.fails(function() return zeros(3, 3):solve(zeros()) end, "solve: ", "[]")
    support.fails(function() return zeros(5, 3, 3):solve(zeros(4, 3, 1)) end, "solve: ", "broadcast")
    support.fails(function() return zeros(3, 3):solve(zeros(2, 3, 1)) end, "solve: ", "[2,3,1]")
    support.fails(function() return zeros(3, 3):solve(5) end, "solve: ", "argument 2 is a number")
    support.fails(function() return zeros(3, 3):solve(zeros(3), { assume = "magic" }) end, "solve: ", "'magic'", "spd")
    support.fails(function() return zeros(3, 3):solve(zeros(3), { assumes = "spd" }) end, "unknown option 'assumes'")
    support.fails(function() return zeros(2, 3):lu() end, "lu: ", "[2,3]", "not a square matrix")
    support.fails(function() return zeros(2, 3):cholesky() end, "cholesky: ", "[2,3]")
    support.fails(function() return zeros(3, 3):lu():solve(zeros(4)) end, "solve: ", "3 rows")
  end)
end)

describe("a factor", function()
  each_device("solves for many right-hand sides, and is made once", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local n = 40
      for _, case in ipairs({ { "lu", "general" }, { "cholesky", "spd" } }) do
        local a = structures[case[2]](n, 3)
        local A = matrix(a, { n, n }, dtype, device)
        local before = lode.stats(device).factors
        local F = A[case[1]](A)
        for seed = 1, 4 do
          local b = support.data("i32", n, seed)
          check(a, b, F:solve(matrix(b, { n }, dtype, device)), n, 1, dtype, case[1])
        end
        local b = support.data("i32", 3 * n, 9)
        check(a, b, F:solve(matrix(b, { n, 3 }, dtype, device)), n, 3, dtype, case[1] .. " of 3")
        assert.equal(1, lode.stats(device).factors - before)
        assert.equal(n, F.n)
        assert.equal(dtype, F.dtype)
        assert.equal(device, F.device:match("^%a+"))
        assert.equal(0, F:info():item())
        A:release()
        check(a, b, F:solve(matrix(b, { n, 3 }, dtype, device)), n, 3, dtype, case[1] .. " without its matrix")
        F:release()
        local B = lode.zeros({ n }, { device = device })
        support.fails(function() return F:solve(B) end, "solve: ", "a released factor")
      end
    end
  end)

  each_device("keeps the matrix that it was made of", function(device)
    local A = lode.tensor({ { 2, 0 }, { 0, 2 } }, { device = device })
    local b = lode.tensor({ 2, 4 }, { device = device })
    local recorded = A:lu()
    local computed = A:lu():compute()
    local x = A:solve(b)
    A:upload({ { 1, 0 }, { 0, 1 } })
    b:upload({ 7, 7 })
    support.holds(x, "f32", { 2 }, { 1, 2 })
    support.holds(recorded:solve(b), "f32", { 2 }, { 3.5, 3.5 })
    support.holds(computed:solve(b), "f32", { 2 }, { 3.5, 3.5 })
  end)

  each_device("of a batch", function(device)
    local a, b = {}, support.data("i32", 4 * 5, 1)
    local each = {}
    for s = 1, 4 do
      each[s] = structures.general(5, s + 3)
      for _, value in ipairs(each[s]) do a[#a + 1] = value end
    end
    local F = matrix(a, { 4, 5, 5 }, "f64", device):lu()
    local x = F:solve(matrix(b, { 4, 5 }, "f64", device))
    for s = 1, 4 do
      local side = {}
      for i = 1, 5 do side[i] = b[(s - 1) * 5 + i] end
      check(each[s], side, x[s], 5, 1, "f64", "system " .. s)
    end
    support.holds(F:info(), "i32", { 4 }, { 0, 0, 0, 0 })
  end)
end)

-- ---- matrices that cannot be solved with -------------------------------------------------------------

describe("a singular matrix", function()
  -- A script whose line 3 records the solve of a matrix whose second pivot is zero.
  local function script(rest)
    return "local A = lode.tensor({ { 1, 2 }, { 2, 4 } }, { dtype = 'f64', device = device })\n" ..
      "local b = lode.tensor({ 1, 1 }, { dtype = 'f64', device = device })\n" ..
      "local x = A:solve(b, { assume = 'general' })\n" .. rest
  end
  local singular = "solve: matrix is singular: pivot 2 of 2 is exactly zero (recorded at script:3)"

  each_device("is raised where its result is first waited for, naming the line of the solve", function(device)
    for _, wait in ipairs({
      "x:sync()", "x:totable()", "x:download()", "x[1]:item()", "(x + 1):sync()", "x:sum():item()",
      "lode.concat({ x, b }):download()", "A:matmul(x):sync()", "A:upload(1) and x:sync()",
    }) do
      support.raises(device, 5, script("x:compute()\nlocal _ = " .. wait), singular)
      support.raises(device, 4, script("local _ = " .. wait), singular)
    end
  end)

  each_device("is not raised by compute, ready, tostring, or by what does not depend on it", function(device)
    support.script(script([[
      x:compute()
      local _ = x:ready(), tostring(x), x.shape
      local y = (b + 1):sync()
      assert(y[1]:item() == 2)
      A:sync(); b:sync()
      lode.sync()
      assert(not pcall(x.sync, x))
      assert(not pcall(x.sync, x)) -- each time
      x:upload({ 3, 4 }):sync() -- new contents have no failure
      assert(x[2]:item() == 4)
      local z = A:solve(b, { assume = "general" }) -- released unseen
      z:compute():release()
    ]]))(lode, device)
  end)

  each_device("names the function, the batch and the pivot", function(device)
    local options = { dtype = "f64", device = device }
    local A = lode.tensor({ { { 1, 0 }, { 0, 1 } }, { { 3, 0 }, { 0, 3 } }, { { 0, 0 }, { 0, 0 } } }, options)
    local b = lode.ones({ 3, 2 }, options)
    support.fails(function() A:solve(b, { assume = "general" }):sync() end, "solve: matrix 3 is singular: pivot 1 of 2")
    support.fails(function() A:solve(b):sync() end, "solve: matrix 3 is singular: pivot 1 of 2")
    for _, assume in ipairs({ "upper", "lower" }) do
      local T = lode.tensor({ { 1, 0, 0 }, { 0, 0, 0 }, { 0, 0, 2 } }, options)
      support.fails(function() T:solve(lode.ones({ 3 }, options), { assume = assume }):sync() end,
        "solve: matrix is singular: pivot 2 of 3")
    end
    local S = lode.tensor({ { 4, 2, 0 }, { 2, 1, 0 }, { 0, 0, 1 } }, options)
    support.fails(function() S:solve(lode.ones({ 3 }, options), { assume = "spd" }):sync() end,
      "solve: matrix is not positive definite (leading minor of order 2) (recorded at ")
    support.fails(function() S:cholesky():sync() end, "cholesky: matrix is not positive definite",
      "order 2", "recorded at")
    support.fails(function() lode.zeros({ 2, 2 }, options):lu():sync() end, "lu: matrix is singular: pivot 1 of 2")
    local F = lode.zeros({ 2, 2 }, options):lu():compute()
    local x = F:solve(lode.ones({ 2 }, options)):compute()
    support.fails(function() x:sync() end, "matrix is singular: pivot 1 of 2", "recorded at")
  end)

  each_device("leaves the other systems of a batch, and everything else, usable", function(device)
    local options = { dtype = "f64", device = device }
    local A = lode.tensor({ { { 2, 0 }, { 0, 1 } }, { { 1, 1 }, { 1, 1 } }, { { 4, 0 }, { 0, 1 } } }, options)
    local b = lode.tensor({ 4, 1 }, options)
    local x, info = A:solve_ex(b:expand_dims(2))
    support.holds(info, "i32", { 3 }, { 0, 2, 0 })
    support.holds(x:squeeze(3), "f64", { 3, 2 }, { 2, 1, 0 / 0, 0 / 0, 1, 1 })
    for _ = 1, 50 do
      local y = A:solve(b:expand_dims(2))
      assert(not pcall(y.sync, y))
    end
    support.holds(A[1]:solve(b), "f64", { 2 }, { 2, 1 })
    support.holds(A[3]:solve(b), "f64", { 2 }, { 1, 1 })
  end)

  each_device("is data with solve_ex", function(device)
    local options = { dtype = "f64", device = device }
    local A = lode.tensor({ { 1, 2 }, { 2, 4 } }, options)
    local x, info = A:solve_ex(lode.ones({ 2 }, options), { assume = "general" })
    assert.equal(2, info:item())
    support.holds(x:sync(), "f64", { 2 }, { 0 / 0, 0 / 0 })
    support.holds(x + 1, "f64", { 2 }, { 0 / 0, 0 / 0 })
    local y, well = lode.solve_ex(lode.eye(2, options), lode.ones({ 2 }, options))
    assert.equal(0, well:item())
    support.holds(y, "f64", { 2 }, { 1, 1 })
    local indefinite = lode.tensor({ { 1, 0 }, { 0, -1 } }, options)
    local _, minor = indefinite:solve_ex(lode.ones({ 2 }, options), { assume = "spd" })
    assert.equal(2, minor:item())
    local F = lode.eye(2, options):lu()
    local z, good = F:solve_ex(lode.ones({ 2 }, options))
    assert.equal(0, good:item())
    support.holds(z, "f64", { 2 }, { 1, 1 })
  end)

  each_device("of NaN is not singular, and never a hang", function(device)
    local options = { dtype = "f64", device = device }
    for _, assume in ipairs({ "auto", "general", "upper", "lower" }) do
      local A = lode.full({ 3, 3 }, 0 / 0, options)
      local x = A:solve(lode.ones({ 3 }, options), { assume = assume })
      local ok, list = pcall(x.totable, x)
      if ok then assert(list[3] ~= list[3], assume) end
    end
  end)

  each_device("raises once many solves depend on each other", function(device)
    local options = { dtype = "f64", device = device }
    local good, bad = lode.eye(3, options) * 2, lode.zeros({ 3, 3 }, options)
    local x = lode.ones({ 3 }, options)
    for _ = 1, 200 do x = good:solve(x) + 1 end
    support.holds(x, "f64", { 3 }, { 2, 2, 2 })
    for i = 1, 40 do x = (i == 20 and bad or good):solve(x) + 1 end
    support.fails(function() x:sync() end, "solve: matrix is singular: pivot 1 of 3")
  end)
end)
