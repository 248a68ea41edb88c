-- How many passes over memory recipes take (the counter `programs`), and that LODE_TRACE says so. What they
-- compute is compared elsewhere: graph_spec.lua, programs_spec.lua.
local lode = require("lode")
local support = require("spec.support")

local unpack = unpack or table.unpack -- luacheck: ignore
local each_device = support.each_device(it, function(why) pending(why) end)

-- Passes that computing these takes.
local function passes(device, ...)
  local before = lode.stats(device).programs
  lode.compute(...)
  return lode.stats(device).programs - before
end

local keep = { keepdims = true }

local function softmax(x)
  local e = (x - x:max(2, keep)):exp()
  return e / e:sum(2, keep)
end

describe("one pass", function()
  local function rows(device, width) return lode.rand({ 7, width }, { device = device, seed = 3 }):compute() end

  each_device("makes a softmax, a normalization, and logsumexp of rows", function(device)
    for _, width in ipairs({ 2, 20, 64, 1000, 4096 }) do
      local x = rows(device, width)
      assert.equal(1, passes(device, softmax(x)))
      local d = x - x:mean(2, keep)
      assert.equal(1, passes(device, d / (d:square():mean(2, keep) + 1e-5):sqrt()))
      local high = x:max(2, keep)
      assert.equal(1, passes(device, (x - high):exp():sum(2, keep):log() + high))
    end
  end)

  each_device("makes several results of one shape, or of the same rows", function(device)
    local x, y = rows(device, 20), rows(device, 20)
    assert.equal(1, passes(device, x + y, x * y, x:less(y)))
    local mean = x:mean(2, keep)
    assert.equal(1, passes(device, mean, (x - mean):square():mean(2)))
    assert.equal(1, passes(device, x:min(2), x:max(2), x * 2))
    assert.equal(1, passes(device, x:sum(2), x:std(2), x:mean(2)))
    assert.equal(1, passes(device, x:max(2, keep), softmax(x)))
    assert.equal(1, passes(device, softmax(x), x:sum(2)))
  end)

  each_device("makes several reductions over the same dims, whatever they are of", function(device)
    local x = lode.rand({ 3, 40, 7, 30 }, { device = device, seed = 1 }):compute()
    local y = lode.rand({ 3, 40, 7, 30 }, { device = device, seed = 2, dtype = "f64" }):compute()
    local function list(dims)
      return x:sum(dims), (x * y):max(dims), lode.where(x:less(0.5), x, 0):sum(dims), x:less(0.5):sum(dims)
    end
    for _, dims in ipairs({ { 1 }, { 2 }, { 2, 3 }, { 1, 3, 4 }, { 1, 2, 3, 4 } }) do
      local together, alone = { list(dims) }, { list(dims) }
      assert.equal(1, passes(device, unpack(together)))
      for i, tensor in ipairs(together) do
        assert.equal(1, passes(device, alone[i]))
        support.same_bits(tensor, alone[i], ("reduction %d over %d dims"):format(i, #dims))
      end
    end
    assert.equal(2, passes(device, x:sum(1), x:sum(2))) -- other dims
    assert.equal(2, passes(device, x:sum(1), x:prod(1), x:min(1), x:max(1), y:sum(1))) -- more than a pass stores
  end)

  each_device("over what is read makes means and variances, and a small one their divisions", function(device)
    for _, shape in ipairs({ { 40, 30 }, { 3, 5000 }, { 2, 3000, 3 } }) do
      local x = lode.rand(shape, { device = device, seed = 1 }):compute()
      for _, dims in ipairs({ { 1 }, { #shape }, { 1, 2 } }) do
        local of_rows = #dims == 1 and dims[1] == #shape and shape[#shape] <= 4096
        assert.equal(of_rows and 1 or 2, passes(device, x:mean(dims), x:var(dims), x:std(dims, { correction = 1 })))
      end
    end
  end)

  each_device("makes distances of all pairs, and no tensor of their differences", function(device)
    local function points(n, seed) return lode.rand({ n, 3 }, { device = device, seed = seed }):compute() end
    local x, y = points(30, 1), points(40, 2)
    local function squares() return (x:expand_dims(2) - y:expand_dims(1)):square() end
    assert.equal(1, passes(device, squares():sum(3)))
    assert.equal(1, passes(device, squares():sum(3):sqrt() + 1))
    for _, name in ipairs({ "sum", "prod", "min", "max" }) do
      local whole, pieces = squares(), squares():compute()
      support.same_bits(whole[name](whole, 3), pieces[name](pieces, 3), name)
    end
  end)

  each_device("makes what is recorded twice alike, also many views of one value", function(device)
    local y = lode.rand({ 40, 50 }, { device = device, seed = 3 }):compute() * 2
    local list = {}
    for i = 1, 40 do list[i] = y[i]:sum() + y[i]:sum() * 2 end
    assert.equal(10, passes(device, unpack(list)))
  end)

  each_device("makes what is recorded twice alike", function(device)
    local x = rows(device, 20)
    assert.equal(1, passes(device, (x + 1):exp() / (x + 1):exp():sum(2, keep)))
    local function deviation(t) return t - t:mean() end
    assert.equal(2, passes(device, deviation(x) * deviation(x))) -- the mean of all of it, once
    assert.equal(1, passes(device, x:sum() * 1, x:sum() + 1) - 1) -- one sum of all; then two results of it
  end)
end)

describe("more than one pass", function()
  each_device("is taken where rows are too long, or a reduction is across them", function(device)
    local long = lode.rand({ 2, 4097 }, { device = device, seed = 3 }):compute()
    assert.equal(3, passes(device, softmax(long)))
    local x = lode.rand({ 30, 20 }, { device = device, seed = 3 }):compute()
    assert.equal(2, passes(device, x - x:mean(1, keep)))
    local mean = x:mean(1, keep)
    assert.equal(4, passes(device, mean, (x - mean):square():mean(1))) -- two sums, and what each is divided by
  end)

  each_device("is taken by short reductions of one another", function(device)
    local count = {}
    for i = 1, 128 do count[i] = i end
    local x = lode.tensor(count, { device = device }):reshape({ 2, 1, 4, 4, 4 }):compute()
    local y = x:broadcast_to({ 2, 256, 4, 4, 4 })
    assert.equal(2080, y:sum(5):sum(4):sum(3)[1][1]:item())
    assert.equal(128, y:max(5):max(4):max(3):max(2):max():item())
    assert.equal(61, y:min(5):max(4):max(3):max(2):min():item())
  end)

  each_device("is taken where a value is dear to make again", function(device)
    local list = {}
    for i = 1, 4 do list[i] = lode.rand({ 40, 50 }, { device = device, seed = i }):compute() end
    local cheap = list[1] * 2
    assert.equal(2, passes(device, cheap / cheap:sum())) -- made again in the second
    local dear = list[1] * list[2] + list[3] * list[4]
    assert.equal(3, passes(device, dear / dear:sum())) -- stored: four inputs would be read twice
  end)

  each_device("makes no value twice that two of them need, where one has to be halved", function(device)
    local leaves = {}
    for i = 1, 63 do leaves[i] = lode.rand({ 100, 100 }, { seed = i, device = device }):compute() end
    local function sum(from, to)
      local s = leaves[from]
      for i = from + 1, to do s = s + leaves[i] end
      return s
    end
    collectgarbage()
    collectgarbage()
    local before = lode.stats(device).used
    lode.scope(function()
      local shared = sum(61, 63) -- three inputs: it is stored for two passes
      lode.compute(sum(1, 30) + shared * sum(31, 60), shared[{ { 1, 50 } }] * 2)
    end)
    collectgarbage()
    collectgarbage()
    lode.sync(device)
    assert.is_true(lode.stats(device).used <= before)
  end)

  each_device("gives each result the failures of what it depends on, and no others", function(device)
    local options = { device = device, dtype = "f64" }
    local bad = lode.zeros({ 3, 3 }, options):solve(lode.ones({ 3 }, options))
    local good = lode.ones({ 3 }, options):compute()
    local a, b = bad + 1, good + 1
    lode.compute(bad)
    assert.equal(1, passes(device, a, b))
    assert.same({ 2, 2, 2 }, b:totable())
    support.fails(function() a:sync() end, "singular")
  end)
end)

describe("LODE_TRACE", function()
  it("tells what was fused into a pass, and what ended one", function()
    local text = support.child([[
      local lode = require("lode")
      local x = lode.ones({ 30, 20 }):compute()
      local e = (x - x:max(2, { keepdims = true })):exp()
      lode.compute(e / e:sum(2, { keepdims = true }))
      lode.compute(x - x:mean(1, { keepdims = true }))
      lode.compute(x:sum(1), x:max(1), (x * x):sum(1))
      x:matmul(x.T):compute()
    ]], "LODE_TRACE=1")
    local fused = "cpu: a pass over 30 x 20 by rows: exp, subtract, divide, sum of rows, max of rows"
    assert.is_truthy(text:find(fused, 1, true), text)
    assert.is_truthy(text:find("sum [1,20] is stored: it is not along the last dim", 1, true), text)
    assert.is_truthy(text:find("cpu: a pass over 30 x 20: multiply, sum x 2, max; reads 1, stores 3", 1, true), text)
    assert.is_truthy(text:find("cpu: a product [1,30,30]", 1, true), text)
    local quiet = support.child([[require("lode").ones({ 3 }):compute()]], "LODE_TRACE=0")
    assert.is_nil(quiet:find("a pass"))
  end)
end)
