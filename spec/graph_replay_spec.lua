-- lode.graph: a replay gives what recording anew gives, to the bit, for new inputs, in every layout and state.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)

local function data(shape, seed, device, dtype)
  return lode.randn(shape, { seed = seed, device = device, dtype = dtype }):compute()
end

-- Compares every result of graph(...) with fn(...), which records anew.
local function check(what, graph, fn, ...)
  local got, want = { graph(...) }, { fn(...) }
  assert.equal(#want, #got, what)
  for i = 1, #want do
    assert.same(want[i].shape, got[i].shape, what)
    assert.equal(want[i].dtype, got[i].dtype, what)
    support.same_bits(got[i], want[i], ("%s, result %d"):format(what, i))
  end
end

local function counted(device, names, f)
  local before = lode.stats(device)
  local results = { f() }
  local after, list = lode.stats(device), {}
  for i, name in ipairs(names) do list[i] = after[name] - before[name] end
  return list, results
end

-- Collects until the collector has nothing left to give.
local function collect()
  for _ = 1, 3 do collectgarbage() end
  lode.zeros({ 1 }):compute()
end

describe("a replay", function()
  each_device("gives what recording anew gives", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      local x = data({ 50, 20 }, 1, device, dtype)
      local graph = lode.graph(support.smoothness, x)
      for seed = 2, 4 do
        check("smoothness " .. dtype, graph, support.smoothness, data({ 50, 20 }, seed, device, dtype))
      end
    end
  end)

  each_device("is one program, one allocation and no wait", function(device)
    local x, y = data({ 1000, 20 }, 1, device), data({ 1000, 20 }, 2, device)
    local graph = lode.graph(support.smoothness, x)
    graph(y):sync()
    lode.sync()
    local names = { "programs", "allocations", "waits", "products", "uploads", "downloads", "compiles" }
    local list, results = counted(device, names, function() return graph(x) end)
    assert.same({ 1, 1, 0, 0, 0, 0, 0 }, list)
    support.same_bits(results[1], support.smoothness(x), "the result")
  end)

  each_device("takes one block for temporaries, where those that are dead lie under others", function(device)
    local function chain(x)
      for i = 1, 12 do x = (x * 0.5 + i):compute() end
      return x
    end
    local x = data({ 1000 }, 1, device, "f64")
    local graph = lode.graph(chain, x)
    lode.sync()
    collect()
    local list = counted(device, { "programs", "allocations" }, function() return graph(x) end)
    assert.same({ 12, 2 }, list)
    check("a chain", graph, chain, data({ 1000 }, 2, device, "f64"))
    lode.sync()
    collect()
    local used, most = lode.stats(device).used, 0
    for _ = 1, 5 do
      local result = graph(x):sync()
      most = math.max(most, lode.stats(device).used - used)
      result:release()
    end
    assert.is_true(most < 4 * 8192, "temporaries are given back")
  end)

  each_device("calls no Lua, and makes only what a result needs", function(device)
    local calls = 0
    local x = data({ 10 }, 1, device)
    local graph = lode.graph(function(v)
      calls = calls + 1
      lode.compute((v * 3):sum())
      return v + 1
    end, x)
    assert.same({ 1, 1 }, counted(device, { "programs", "allocations" }, function() return graph(x) end))
    assert.equal(1, calls)
  end)

  each_device("of random programs", function(device)
    local unary = { "abs", "sqrt", "cos", "negative", "square" }
    local binary = { "add", "subtract", "multiply", "maximum", "less" }
    -- A list of what to do, drawn once, so that the function does the same whenever it is called.
    local function draw(random, constant)
      local steps = {}
      for i = 1, 3 + random(12) do steps[i] = { random(8), random(100), random(100), random(100) } end
      return function(x, y)
        local pool = { x, y, constant }
        for _, step in ipairs(steps) do
          local kind, a, b = step[1], pool[step[2] % #pool + 1], pool[step[3] % #pool + 1]
          local made
          if kind == 1 then made = a[unary[step[4] % #unary + 1]](a)
          elseif kind <= 3 then made = a[binary[step[4] % #binary + 1]](a, b):to("f32")
          elseif kind == 4 then made = a - a:mean(step[4] % 2 + 1, { keepdims = true })
          elseif kind == 5 then made = lode.concat({ a[{ { 3, 6 } }], b[{ { 1, 2 } }] }, 1)
          elseif kind == 6 then made = lode.concat({ a[{ {}, { 2, 6 } }], b[{ {}, { 1, 1 } }] }, 2)
          elseif kind == 7 then made = a.T
          else made = a:reshape(-1):flip():reshape(6, 6) end
          if step[4] % 7 == 0 then made:compute() end
          if step[4] % 5 == 0 then made = made:matmul(x:square()):clip(-100, 100) end
          pool[#pool + 1] = made
        end
        return pool[#pool], pool[#pool - 1]:sum(1), pool[#pool - 2]
      end
    end
    local function tensor(seed) return data({ 6, 6 }, seed, device) end
    for seed = 1, 40 do
      local fn = draw(support.random(seed), tensor(3))
      local graph = lode.graph(fn, tensor(1), tensor(2))
      for k = 1, 3 do check("seed " .. seed, graph, fn, tensor(100 * seed + k), tensor(100 * seed + 50 + k)) end
    end
  end)

  each_device("of more operations than one graph holds", function(device)
    local function long(x)
      local sum = x
      for i = 1, 400 do sum = sum * 0.99 + x * (i % 7) end
      return sum
    end
    local graph = lode.graph(long, data({ 30 }, 1, device))
    check("long", graph, long, data({ 30 }, 2, device))
  end)

  each_device("of products", function(device)
    local function product(a, b, c) return (a + 1):matmul(b.T), c:matmul(a), a[1]:matmul(b[2]) end
    local function inputs(seed)
      return data({ 4, 5 }, seed, device), data({ 6, 5 }, seed + 1, device), data({ 3, 7, 4 }, seed + 2, device)
    end
    local graph = lode.graph(product, inputs(1))
    check("products", graph, product, inputs(10))
    assert.equal(3, counted(device, { "products" }, function() return graph(inputs(20)) end)[1])
  end)

  each_device("of integers and bools", function(device)
    local function mixed(n, b) return lode.where(b, n * 2, n - 1), n:sum(), b:any(1) end
    local function inputs(seed)
      local r = lode.rand({ 4, 9 }, { seed = seed, device = device })
      return (r * 100):to("i64"):compute(), r:greater(0.5):compute()
    end
    check("mixed", lode.graph(mixed, inputs(1)), mixed, inputs(2))
  end)
end)

describe("the inputs of a replay", function()
  each_device("may lie in any way, be recorded, or have an offset", function(device)
    local function fn(x, y) return x * 2 + y, (x - y):sum(2), x:matmul(y.T) end
    local graph = lode.graph(fn, data({ 6, 5 }, 1, device), data({ 6, 5 }, 2, device))
    local wide, one = data({ 12, 10 }, 3, device), data({ 5 }, 4, device)
    local y = data({ 6, 5 }, 5, device)
    check("rows further down", graph, fn, data({ 9, 5 }, 6, device)[{ { 4, 9 } }], y)
    check("every second", graph, fn, wide[{ { 1, 12, 2 }, { 1, 10, 2 } }], y)
    check("backwards", graph, fn, y:flip(), y)
    check("transposed", graph, fn, data({ 5, 6 }, 7, device).T, y)
    check("broadcast", graph, fn, one:broadcast_to({ 6, 5 }), y)
    check("recorded", graph, fn, y * 3 + 1, y - 1)
    check("fills", graph, fn, lode.full({ 6, 5 }, 0.5, { device = device }), lode.zeros({ 6, 5 }, { device = device }))
    check("the same twice", graph, fn, y, y)
  end)

  each_device("are told apart where one tensor is recorded as two", function(device)
    local x, y = data({ 20 }, 1, device), data({ 20 }, 2, device)
    local function fn(a, b) return a - b, x * a end -- x is also captured
    local graph = lode.graph(fn, x, x)
    check("x, y", graph, fn, x, y)
    check("y, x", graph, fn, y, x)
  end)

  each_device("may be the result of another replay, and be uploaded to after it", function(device)
    local graph = lode.graph(function(x) return x * 2 end, lode.ones({ 100 }, { device = device }))
    local x = lode.ones({ 100 }, { device = device }):compute()
    local last = x
    for _ = 1, 10 do last = graph(last) end
    assert.equal(1024, last:max():item())
    local twice = graph(x)
    x:upload(lode.full({ 100 }, 7, { device = device }))
    assert.equal(2, twice:min():item())
    assert.equal(14, graph(x):max():item())
    local bytes = ("\0"):rep(400)
    twice = graph(x)
    x:upload(bytes)
    assert.equal(14, twice:min():item())
    assert.equal(0, graph(x):max():item())
  end)

  each_device("without elements", function(device)
    local function fn(x) return x + 1, x:sum(1), x:sum() end
    local graph = lode.graph(fn, lode.zeros({ 0, 3 }, { device = device }))
    check("empty", graph, fn, lode.zeros({ 0, 3 }, { device = device }):compute())
  end)

  each_device("without dims", function(device)
    local function fn(x) return x * 2, x end
    local graph = lode.graph(fn, lode.full({}, 1, { device = device }))
    check("0-d", graph, fn, lode.full({}, 21, { device = device }):compute())
  end)

  each_device("come with numbers and tables that are the graph's own", function(device)
    local options = { keepdims = true }
    local function fn(x, factor, kept, y) return (x * factor):sum(1, kept) + y end
    local x = data({ 4, 3 }, 1, device)
    local graph = lode.graph(fn, x, 3, options, x)
    local y = data({ 4, 3 }, 2, device)
    support.same_bits(graph(y, x), fn(y, 3, options, x), "constants")
  end)
end)

describe("the results of a replay", function()
  each_device("keep their values while later ones come", function(device)
    local function fn(x) return (x * 2):compute() + 1, x:sum() end
    local graph = lode.graph(fn, data({ 100 }, 1, device))
    local inputs, held = {}, {}
    for i = 1, 8 do
      inputs[i] = data({ 100 }, i, device)
      held[i] = { graph(inputs[i]) }
      if i % 3 == 0 then held[i - 1][1]:release() end
    end
    for i = 1, 8 do
      local want = { fn(inputs[i]) }
      if i ~= 2 and i ~= 5 then support.same_bits(held[i][1], want[1], "held") end
      support.same_bits(held[i][2], want[2], "held")
    end
  end)

  each_device("may be inputs, views, constants, and the same twice", function(device)
    local constant = data({ 3, 4 }, 9, device)
    local function fn(x, y)
      local z = (x + y):compute()
      return x, x.T, x[{ { 2, 3 }, { 1, 4, 2 } }], constant, constant:reshape(-1), z, z, z[2], z.T, y:sum(), y[1]
    end
    local graph = lode.graph(fn, data({ 3, 4 }, 1, device), data({ 3, 4 }, 2, device))
    local long = data({ 9, 4 }, 3, device)
    check("views", graph, fn, data({ 3, 4 }, 4, device), long[{ { 4, 6 } }])
    check("strided", graph, fn, long[{ { 1, 9, 3 } }], data({ 4, 3 }, 5, device).T)
    -- An upload to one of them leaves its twin, the input and the next replay alone.
    local x, y = data({ 3, 4 }, 6, device), data({ 3, 4 }, 7, device)
    local r = { graph(x, y) }
    r[1]:upload(lode.zeros({ 3, 4 }, { device = device }))
    r[4]:upload(("\0"):rep(48))
    r[6]:upload(("\0"):rep(48))
    local want = { fn(x, y) }
    support.same_bits(r[2], want[2], "the input's view")
    support.same_bits(r[5], want[5], "the constant's view")
    support.same_bits(r[7], want[7], "the twin")
    check("again", graph, fn, x, y)
  end)

  each_device("outlive the graph", function(device)
    local x = data({ 10 }, 1, device)
    local graph = lode.graph(function(v) return v * x end, x)
    local result = graph(x)
    assert.is_true(graph:release())
    graph = nil -- luacheck: ignore
    collect()
    support.same_bits(result, x * x, "result")
  end)
end)

describe("what the function captures", function()
  each_device("is held as it was", function(device)
    local c = data({ 30 }, 1, device)
    local copy = (c + 0):compute()
    local function fn(x) return x * c end
    local x = data({ 30 }, 2, device)
    local graph = lode.graph(fn, x)
    c:upload(("\0"):rep(120))
    support.same_bits(graph(x), x * copy, "after an upload")
    c:release()
    collect()
    lode.ones({ 30 }, { device = device }):compute()
    support.same_bits(graph(x), x * copy, "after a release")
  end)

  each_device("and what is made of it alone is computed once", function(device)
    local c = data({ 40, 40 }, 1, device)
    local function fn(x)
      local table_ = c:matmul(c):compute()
      local twice = (table_:sum(1) * 2):compute()
      return x + twice, table_
    end
    local x = data({ 40 }, 2, device)
    local graph = lode.graph(fn, x)
    local list = counted(device, { "programs", "products", "allocations" }, function() return graph(x) end)
    assert.same({ 1, 0, 1 }, list)
    check("constants", graph, fn, data({ 40 }, 3, device))
  end)

  each_device("also random numbers, which every replay has alike", function(device)
    local zeros = lode.zeros({ 5 }, { device = device })
    local graph = lode.graph(function(x) return x + lode.rand({ 5 }, { device = device }) end, zeros)
    support.same_bits(graph(zeros), graph(zeros), "rand")
  end)

  each_device("in one part of a result whose other part varies", function(device)
    local c = data({ 4, 3 }, 1, device)
    local function fn(x) return lode.concat({ c * 2, x + 1, c }, 1), lode.stack({ c, x }, 1) end
    check("concat", lode.graph(fn, data({ 4, 3 }, 2, device)), fn, data({ 4, 3 }, 3, device))
  end)

  each_device("may be read while recording, as may what is made of it", function(device)
    local c = data({ 4 }, 1, device)
    local function fn(x) return x * c:max():item() end
    check("item", lode.graph(fn, data({ 4 }, 2, device)), fn, data({ 4 }, 3, device))
  end)

  each_device("is not the input where that is uploaded to in the function", function(device)
    local x = data({ 4 }, 1, device)
    local graph = lode.graph(function(v)
      local before, made = (v * 1):compute(), (v * 2):compute()
      v:upload(("\0"):rep(16))
      made:upload(("\0"):rep(16)) -- nor is what was made of it
      return before, v + 1, made + 1
    end, x)
    local y, ones = data({ 4 }, 2, device), lode.ones({ 4 }, { device = device })
    local before, after, made = graph(y)
    support.same_bits(before, y, "before")
    support.same_bits(after, ones, "after")
    support.same_bits(made, ones, "made")
  end)
end)

describe("solves in a graph", function()
  local function spd(n, seed, device)
    local a = data({ n, n }, seed, device, "f64")
    return (a:matmul(a.T) + n * lode.eye(n, { dtype = "f64", device = device })):compute()
  end

  each_device("of every kind", function(device)
    local b = data({ 5, 2 }, 1, device, "f64")
    local methods = {
      general = function(A, r) return A:solve(r, { assume = "general" }) end,
      spd = function(A, r) return A:solve(r, { assume = "spd" }) end,
      auto = function(A, r) return A:solve(r) + 1 end,
      upper = function(A, r) return A:solve(r, { assume = "upper" }) end,
      lower = function(A, r) return A:solve(r:sum(2), { assume = "lower" }) end,
      factor = function(A, r)
        local F = A:cholesky()
        return F:solve(r), F:solve(2 * r[{ {}, 1 }]), A:lu():solve(r), F:info()
      end,
      ex = function(A, r) return A:solve_ex(r, { assume = "spd" }) end,
    }
    for name, fn in pairs(methods) do
      local graph = lode.graph(fn, spd(5, 2, device), b)
      for seed = 3, 5 do check(name, graph, fn, spd(5, seed, device), data({ 5, 2 }, seed, device, "f64")) end
    end
  end)

  each_device("of batches, and of what is not contiguous", function(device)
    local function fn(A, b) return (A + 0):solve(b, { assume = "general" }), A:solve(b + 1, { assume = "general" }) end
    local function A(seed)
      return data({ 3, 4, 4 }, seed, device, "f64") + 4 * lode.eye(4, { dtype = "f64", device = device })
    end
    local graph = lode.graph(fn, A(1), data({ 3, 4, 2 }, 2, device, "f64"))
    check("batch", graph, fn, A(3), data({ 3, 4, 2 }, 4, device, "f64"))
    local wide = data({ 3, 2, 4 }, 5, device, "f64")
    check("transposed", graph, fn, A(3):permute_dims({ 1, 3, 2 }), wide:permute_dims({ 1, 3, 2 }))
  end)

  each_device("with a captured factor factor nothing", function(device)
    local F = spd(6, 1, device):cholesky():compute()
    local function fn(b) return F:solve(b) end
    local graph = lode.graph(fn, data({ 6 }, 2, device, "f64"))
    local b = data({ 6 }, 3, device, "f64")
    check("captured", graph, fn, b)
    assert.same({ 0, 1 }, counted(device, { "factors", "solves" }, function() return graph(b) end))
    F:release()
    F = spd(6, 1, device):cholesky()
    collect()
    check("released", graph, fn, b)
  end)

  each_device("raise by the first read of what depends on them, naming the recorded line", function(device)
    local text = [[
      local A, b = lode.eye(3, { device = device }), lode.ones({ 3 }, { device = device })
      local graph = lode.graph(function(M, r, z)
        return M:solve(r, { assume = "general" }) * 2, r + 1, z + 1
      end, A, b, b)
      return graph, A, b]]
    local graph, A, b = support.script(text)(lode, device)
    local singular = lode.zeros({ 3, 3 }, { device = device })
    local x, fine = graph(singular, b, b)
    assert.equal(2, fine:max():item())
    for _ = 1, 2 do
      support.fails(function() x:sync() end, "solve: matrix is singular: pivot 1 of 3", "recorded at script:3")
    end
    local next_x = graph(A, b, b)
    assert.equal(2, next_x:max():item())
    support.fails(function() x:totable() end, "singular")
    -- A failure that comes with an input is in what depends on that input.
    local failed = graph(singular, b, b)
    local y, sum, other = graph(A, failed, b)
    support.fails(function() y:item() end, "item")
    support.fails(function() y:totable() end, "singular")
    support.fails(function() sum:sync() end, "singular")
    assert.equal(2, other:max():item())
  end)

  each_device("raise what a captured tensor brings", function(device)
    local bad = lode.zeros({ 3, 3 }, { device = device }):solve(lode.ones({ 3 }, { device = device }))
    local graph = lode.graph(function(x) return x + bad, x * 2 end, lode.ones({ 3 }, { device = device }))
    local x, y = graph(lode.ones({ 3 }, { device = device }))
    support.fails(function() x:sync() end, "singular")
    assert.equal(2, y:max():item())
  end)
end)

describe("a graph and streams", function()
  each_device("are in order", function(device)
    local n = support.busy_order(device, 200)
    local function fn(a) return a:matmul(a):sum(1), a[1] + 1 end
    local s, t = lode.stream(device), lode.stream(device)
    local x = data({ n, n }, 1, device)
    local graph = s:run(function() return lode.graph(fn, x) end)
    local want = { fn(x) }
    for _, place in ipairs({ false, s, t }) do
      for _ = 1, 3 do
        local function replay() return graph((x * 1):compute()) end
        local got
        if place then got = { place:run(replay) } else got = { replay() } end
        local after = t:run(function() return (got[1] + got[2]):compute() end)
        support.same_bits(after, want[1] + want[2], "ordered")
      end
    end
    -- Chained over two streams, with what is given up in between.
    local square = lode.graph(function(a) return (a * 0.5):compute() + 1 end, x)
    local last, plain = square(x), (x * 0.5):compute() + 1
    for i = 1, 20 do
      local from = last
      last = (i % 2 == 0 and s or t):run(function() return square(from) end)
      from:release()
      plain = (plain * 0.5):compute() + 1
    end
    support.same_bits(last, plain, "chained")
  end)

  each_device("enqueue without a wait", function(device)
    local n = support.busy_order(device, 300)
    local s = lode.stream(device)
    local x = data({ n, n }, 1, device):sync()
    local graph = lode.graph(function(a) return a:matmul(a):matmul(a) end, x)
    lode.sync()
    local waits = counted(device, { "waits" }, function() return s:run(function() return graph(x) end) end)
    assert.same({ 0 }, waits)
    lode.sync()
  end)
end)

describe("memory of graphs", function()
  each_device("goes with them", function(device)
    collect()
    local before = lode.stats(device).used
    do
      local c = lode.ones({ 1000, 100 }, { device = device }):compute()
      local graph = lode.graph(function(x) return x * c end, c)
      graph(c):release()
      assert.equal("graph of 1 step on " .. c.device .. ", inputs: 1, results: 1", tostring(graph))
      assert.equal(c.device, graph.device)
      assert.is_true(graph:release())
      assert.is_false(graph:release())
      assert.equal("graph (released)", tostring(graph))
      c:release()
    end
    collect()
    lode.sync()
    collect()
    assert.is_true(lode.stats(device).used - before < 300000)
  end)

  each_device("is collected while others are replayed", function(device)
    local x = data({ 64 }, 1, device)
    for i = 1, 60 do
      local function fn(v) return (v * i):compute() + x, v:sum() end
      local graph = lode.graph(fn, x)
      for _ = 1, 5 do graph(x) end
      if i % 10 == 0 then
        collectgarbage()
        check("collected", graph, fn, x)
      end
    end
  end)

  each_device("that cannot be had is an error, and the graph stays usable", function(device)
    collect()
    local function fn(x)
      return (x:broadcast_to({ 64, 4096 }) * 2):compute():sum(1, { keepdims = true }):compute():flip()
    end
    local x = data({ 1, 4096 }, 1, device)
    local graph = lode.graph(function(v) return fn(v), fn(v + 1) end, x)
    lode.sync()
    collect()
    lode.trim(device)
    lode.set_budget(lode.stats(device).used + 100000, device)
    local ok, message = pcall(function()
      local held = {}
      for i = 1, 200 do held[i] = { graph(x) } end
      return held
    end)
    lode.set_budget(0, device)
    assert.is_false(ok)
    assert.is_truthy(message:find("lode: graph: ", 1, true), message)
    local got = { graph(x) }
    support.same_bits(got[1], fn(x), "after")
  end)
end)

describe("errors of graphs", function()
  local setup = [[
    local x, y = lode.zeros({ 2, 3 }, { device = device }), lode.zeros({ 4 }, { device = device, dtype = "f64" })
    local g = lode.graph(function(a, b) return a + 1, b end, x, y) ]]

  each_device("say what is wrong with an input", function(device)
    local function raises(text, ...) support.raises(device, 3, setup .. "\n" .. text, ...) end
    raises("g(x, x)", "graph: input 2 is f32 [2,3], the graph was recorded with f64 [4]")
    raises("g(x:to('f64'), y)", "graph: input 1 is f64 [2,3], the graph was recorded with f32 [2,3]")
    raises("g(x)", "graph: 1 input, the graph was recorded with 2")
    raises("g()", "graph: 0 inputs, the graph was recorded with 2")
    raises("g(x, y, y)", "graph: 3 inputs, the graph was recorded with 2")
    raises("g(x, 1)", "graph: input 2 is a number, a tensor is needed")
    raises("y:release() g(x, y)", "graph: input 2 is a released tensor")
    raises("g:release() g(x, y)", "graph: the graph has been released")
    raises("local _ = g.shape", "a graph has no field 'shape'")
  end)

  each_device("say what is wrong with the function", function(device)
    local function raises(text, ...)
      support.raises(device, 2, "local x = lode.zeros({ 2, 3 }, { device = device })\n" .. text, ...)
    end
    local cannot = "the value depends on an input of the graph that is being recorded"
    raises("lode.graph(function(a) return a * a:sum():item() end, x)", "item: " .. cannot)
    raises("lode.graph(function(a) return a, (a + 1):sync() end, x)", "sync: " .. cannot)
    raises("lode.graph(function(a) a:totable() end, x)", "totable: " .. cannot)
    raises("lode.graph(function(a) a.T:download() end, x)", "download: " .. cannot)
    raises("lode.graph(function(a) a[{ {}, { 1, 2 } }][{ { 1, 2 } }]:lu():sync() end, x)", "sync: " .. cannot)
    raises("lode.graph(function(a) return a, 2 end, x)", "graph: result 2 of the function is a number")
    raises("lode.graph(function(a) a:release() return a end, x)", "graph: result 1 of the function is a released")
    raises("lode.graph(function() end, x)", "graph: the function returns nothing")
    raises("lode.graph(function() return x end)", "graph: no argument is a tensor")
    raises("lode.graph(function() return x end, 1, 'a')", "graph: no argument is a tensor")
    raises("lode.graph(x)", "graph: argument 1 is a userdata, a function is needed")
    raises("x:release() lode.graph(function(a) return a end, x)", "graph: argument 2 is a released tensor")
    raises("lode.graph(function(a) return lode.graph(function(b) return b end, a) end, x)", "graph: another graph is")
    raises("local g = lode.graph(function(a) return a end, x) lode.graph(function(a) return g(a) end, x)",
      "graph: a graph is being recorded")
  end)

  each_device("end the recording and are passed on", function(device)
    local x = data({ 4 }, 1, device)
    local mark = {}
    local _, raised = pcall(lode.graph, function(a) (a * 2):compute() error(mark) end, x)
    assert.equal(mark, raised)
    assert.is_number((x + 1):sum():item())
    check("next", lode.graph(function(a) return a * 3 end, x), function(a) return a * 3 end, x)
    pcall(lode.graph, function() return 1 end, x)
    assert.is_number(x:compute():max():item())
  end)

  each_device("come from a coroutine that is dropped", function(device)
    local x = data({ 4 }, 1, device)
    if _VERSION == "Lua 5.1" and not jit then return end -- luacheck: ignore (it cannot yield across pcall)
    local thread = coroutine.wrap(function()
      return lode.graph(function(a) coroutine.yield() return a end, x)
    end)
    thread()
    assert.is_false(pcall(lode.graph, function(a) return a end, x))
    thread = nil -- luacheck: ignore
    for _ = 1, 4 do collectgarbage() end
    check("next", lode.graph(function(a) return a * 3 end, x), function(a) return a * 3 end, x)
  end)

  it("name two devices", function()
    local other
    for _, device in ipairs(lode.devices()) do
      if device.available and device.name ~= "cpu" then other = device.name end
    end
    if not other then return pending("no second device") end
    local x, y = lode.ones({ 3 }, { device = "cpu" }), lode.ones({ 3 }, { device = other })
    support.fails(function() lode.graph(function(a, b) return a, b end, x, y) end, "graph: inputs on cpu and " .. other)
    local graph = lode.graph(function(a) return a + 1, y end, x)
    support.fails(function() graph(y) end, ("graph: input 1 is on %s, the graph was recorded on cpu"):format(other))
    support.fails(function() lode.graph(function(a) return a:to(other) end, x) end, "to: the value depends on an input")
    local a, b = graph(x)
    assert.equal(2, a:max():item())
    assert.equal(other, b.device)
    assert.equal(1, b:max():item())
  end)
end)
