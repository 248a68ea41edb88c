-- Memory: what a loop of a script holds, budgets, and what happens where there is none left.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local on_cuda = support.cuda_only(it, function(why) pending(why) end)

local function used(device) return lode.stats(device).used end

-- What earlier specs left is freed, and memory kept for reuse is given back.
local function settle(device)
  collectgarbage()
  collectgarbage()
  lode.zeros({ 1 }, { device = device }):compute():release()
  lode.trim(device)
  return used(device)
end

local smoothness = support.smoothness

local function resident() -- bytes of this process in memory, nil where the system does not say
  -- a sanitizer keeps freed memory apart for a while: what is resident then is its own affair
  if os.getenv("ASAN_OPTIONS") or os.getenv("TSAN_OPTIONS") then return nil end
  local file = io.open("/proc/self/statm")
  if not file then return nil end
  local pages = file:read("*a"):match("%d+ (%d+)")
  file:close()
  return tonumber(pages) * 4096
end

describe("a loop of uploads and costs, with no collector calls,", function()
  each_device("never holds more than 4 blocks of the size that it uploads", function(device)
    local before = settle(device)
    local samples, dim = 100000, 20
    local block = samples * dim * 4
    local x = lode.rand({ samples, dim }, { seed = 1, device = device })
    local bytes = x:download()
    local most = 0
    for i = 1, 60 do
      x:upload(bytes)
      local cost = smoothness(x)
      cost:compute()
      if i % 3 == 0 then cost:sync() end
      most = math.max(most, used(device) - before)
    end
    assert.is_true(most <= 4 * block * 1.07, ("%.2f blocks"):format(most / block)) -- 1.07: size classes
  end)

  -- Less than 32 MB held on a GPU do not drive the collector (binding/collector.c): 8 of these blocks.
  each_device("with views and expressions left behind, holds little more", function(device)
    local before = settle(device)
    local block = 1000 * 1000 * 4
    local x = lode.rand({ 1000, 1000 }, { seed = 1, device = device }):compute()
    local bytes, most = x:download(), 0
    for i = 1, 60 do
      x:upload(bytes)
      local held = { x[{ { 1, 10 } }], x.T, (x * i)[5], x:sum() }
      held[3]:compute()
      held[4]:compute()
      most = math.max(most, used(device) - before)
    end
    assert.is_true(most <= 10 * block * 1.07, ("%.2f blocks"):format(most / block))
  end)

  each_device("that makes new tensors all the time is bounded too", function(device)
    local before = settle(device)
    local block = 1000 * 1000 * 4
    local most = 0
    for i = 1, 100 do
      local x = lode.full({ 1000, 1000 }, i, { device = device }):compute()
      local y = (x + 1):compute()
      if i % 10 == 0 then assert.equal(i + 1, y[1][1]:item()) end
      most = math.max(most, used(device) - before)
    end
    assert.is_true(most <= 16 * block, ("%.2f blocks"):format(most / block))
  end)
end)

describe("a loop behind a large upload", function()
  -- As much garbage as is live at most, and some tens of megabytes (a GPU's: those of binding/collector.c by 8).
  local function held_by_loop(device, count, before)
    local x, most = lode.rand({ 250000 }, { seed = 1, device = device }):compute(), 0
    for i = 1, count do
      local y = (x * i):compute()
      most = math.max(most, lode.stats(device).collector.held - before)
      assert(y)
    end
    return most / 1e6
  end

  each_device("holds little more than what was uploaded", function(device)
    settle(device)
    local before = lode.stats(device).collector.held
    local large = lode.tensor(("\0"):rep(64e6), { shape = { 16e6 }, dtype = "f32", device = device })
    local most = held_by_loop(device, 400, before)
    assert.is_true(most < 200, ("%d MB"):format(most))
    large:release()
  end)

  each_device("that failed holds little", function(device)
    settle(device)
    local before = lode.stats(device).collector.held
    lode.set_budget(32e6, device)
    local ok = pcall(lode.tensor, ("\0"):rep(256e6), { shape = { 64e6 }, dtype = "f32", device = device })
    lode.set_budget(0, device)
    assert.is_false(ok)
    collectgarbage() -- with the bytes in Lua's heap less would be driven (binding/collector.c)
    collectgarbage()
    local most = held_by_loop(device, 250, before)
    assert.is_true(most < 120, ("%d MB"):format(most))
  end)
end)

describe("the collector", function()
  each_device("is not driven by what a released graph held", function(device)
    local large = lode.zeros({ 16e6 }, { device = device }):compute() -- so much held that others are driven by
    local two = lode.ones({ 2 }, { device = device }):compute()
    local function once()
      local held = lode.rand({ 100000 }, { seed = 1, device = device }):compute()
      local graph = lode.graph(function(x)
        local part = held[{ { 1, 2 } }]
        local sum = x + part
        part:release()
        return sum
      end, two)
      held:release()
      local before = lode.stats(device).collector.held
      assert.is_true(graph:release())
      assert.equal(4e5, before - lode.stats(device).collector.held)
    end
    once()
    local before = lode.stats(device).collector.steps
    for _ = 1, 60 do once() end
    assert.is_true(lode.stats(device).collector.steps - before <= 1) -- 1: by what was there before the loop
    large:release()
  end)
end)

describe("memory", function()
  each_device("is flat over thousands of small iterations", function(device)
    local x = lode.rand({ 1000, 20 }, { seed = 1, device = device }):compute()
    local bytes = x:download()
    local A, b = lode.eye(8, { device = device }) * 3, lode.ones({ 8 }, { device = device })
    local function iterate(count)
      for i = 1, count do
        x:upload(bytes)
        local cost = smoothness(x)
        cost:compute()
        if i % 5 == 0 then cost:sum():item() end
        if i % 20 == 0 then A:solve(b):sync() end
        if i % 50 == 0 then pcall(function() return x + b end) end
      end
    end
    iterate(1500)
    settle(device)
    local held, in_memory = used(device), resident()
    local objects = collectgarbage("count")
    iterate(4000)
    settle(device)
    assert.is_true(used(device) <= held, ("%d bytes more"):format(used(device) - held))
    assert.is_true(collectgarbage("count") - objects < 256, "the Lua heap grew")
    -- a block of the cost kept in every twentieth iteration would be as much
    local more = in_memory and resident() - in_memory or 0
    assert.is_true(more < 16e6, ("%d bytes more in memory"):format(more))
  end)

  each_device("statistics add up", function(device)
    settle(device)
    local before = lode.stats(device)
    local x = lode.zeros({ 1000 }, { device = device }):compute()
    local after = lode.stats(device)
    assert.equal(1, after.allocations - before.allocations)
    assert.is_true(after.used - before.used >= 4000)
    assert.is_true(after.reserved >= after.used)
    assert.is_true(after.peak_used >= after.used and after.peak_reserved >= after.reserved)
    assert.is_true(after.collector.held >= 4000)
    assert.is_true(after.collector.allocated - before.collector.allocated >= 4000)
    x:release()
    assert.equal(before.used, used(device))
    x = lode.zeros({ 1000 }, { device = device }):compute() -- from the pool
    assert.equal(after.system_allocations, lode.stats(device).system_allocations)
    x:release()
    for _, name in ipairs({ "programs", "products", "factors", "solves", "uploads", "downloads", "waits", "retries",
      "system_allocations", "budget", "computes", "available" }) do
      assert.equal("number", type(before[name]), name)
    end
  end)

  on_cuda("that is kept in small blocks is 32 MiB at most", function(device)
    lode.trim()
    for class = 0, 7 do -- 16 MiB of each
      local list = {}
      for i = 1, 2 ^ (15 - class) do list[i] = lode.zeros({ 128 * 2 ^ class }, { device = device }):compute() end
      for _, x in ipairs(list) do x:release() end
      lode.sync()
    end
    local kept = lode.stats(device).reserved - lode.stats(device).used
    assert(kept <= 2 ^ 20 * (32 + 32), kept) -- and a piece of the pool's own
  end)
end)

describe("memory that cannot be had", function()
  -- Calls f with a budget of so many bytes more than are there. (A GPU's pool takes memory in pieces of 32 MiB:
  -- there the budget bounds what is used.)
  local function within(bytes, device, f)
    settle(device)
    local budget = lode.stats(device)[device == "cpu" and "reserved" or "used"] + bytes
    lode.set_budget(budget, device)
    local ok, text = pcall(f, budget)
    lode.set_budget(0, device)
    if not ok then error(text, 0) end
  end

  each_device("is an error with numbers, and everything is usable afterwards", function(device)
    within(4e6, device, function(budget)
      local x = lode.zeros({ 100000 }, { device = device })
      local text = support.fails(function() lode.zeros({ 3000, 1000 }, { device = device }):compute() end,
        "compute: ", "12000000 bytes", "used ", "reserved ", ("budget %.0f"):format(budget))
      assert.is_truthy(text:find("spec/memory_spec.lua:%d+: lode: "))
      support.fails(function() return lode.rand({ 3000, 1000 }, { device = device }):sum(2):sync() end, "budget")
      support.fails(function() return (lode.ones({ 3000, 1 }, { device = device }) + lode.ones({ 1, 1000 },
        { device = device })):download() end, "budget")
      support.fails(function() return lode.tensor(("x"):rep(12e6), { shape = { 12e6 / 4 }, dtype = "f32",
        device = device }) end, "tensor: ", "12000000 bytes")
      assert.equal(100000, (x + 1):sum():item())
      local y = lode.rand({ 500, 1000 }, { seed = 1, device = device }):compute()
      assert.is_true(y:max():item() < 1)
    end)
    assert.equal(0, lode.stats(device).budget)
    if device == "cpu" then support.fails(function() lode.rand({ 2 ^ 45 }):compute() end, "no budget") end
    assert.equal(3e6, lode.ones({ 3000, 1000 }, { device = device }):compute():sum():item())
  end)

  each_device("is had by collecting Lua's garbage, which is counted", function(device)
    collectgarbage("stop") -- nothing is collected before
    -- below what drives the collector by itself, which 5.1 does also when it is stopped
    local ok, text = pcall(within, 3.3e6, device, function()
      collectgarbage("stop")
      local before = lode.stats(device)
      for i = 1, 12 do -- 1 MB each, and only garbage holds the ones of before
        local x = lode.full({ 500, 500 }, i, { device = device }):compute()
        assert.equal(i, x[7][8]:item())
      end
      local after = lode.stats(device)
      assert.is_true(after.retries > before.retries)
      assert.is_true(after.collector.cycles > before.collector.cycles)
    end)
    collectgarbage("restart")
    if not ok then error(text) end
  end)

  each_device("leaves what was recorded as it was", function(device)
    within(6e6, device, function()
      local x = lode.full({ 1000, 1000 }, 2, { device = device }):compute() -- 4 MB
      local y = x * 3
      local z = y:matmul(x)
      for _ = 1, 3 do
        support.fails(function() z:compute() end, "budget")
        support.fails(function() y:sync() end, "budget")
      end
      assert.equal(6, y[1][1]:item())
      lode.set_budget(0, device)
      assert.equal(12000, z[5][5]:item())
      assert.equal(6, y[1000][1000]:item())
    end)
  end)

  each_device("and uploads that fail leave the old contents", function(device)
    within(5e6, device, function()
      local x = lode.full({ 1000, 1000 }, 2, { device = device }):compute()
      local view = x[1]
      local bytes = ("\0\0\0\64"):rep(1e6)
      support.fails(function() x:upload(bytes) end, "upload: ", "4000000 bytes")
      assert.equal(2, x[3][3]:item())
      assert.equal(2000, view:sum():item())
      view:release()
      x:upload(bytes) -- the block is x's alone again
      assert.equal(2, x[1000][1000]:item())
    end)
  end)

  each_device("is refused at once in absurd sizes", function(device)
    for _, shape in ipairs({ { 2 ^ 50 }, { 2 ^ 25, 2 ^ 25 }, { 2 ^ 53, 16 }, { 2 ^ 20, 2 ^ 20, 2 ^ 15 } }) do
      local big = lode.zeros(shape, { device = device }) -- recorded: no memory yet
      support.fails(function() big:compute() end, "bytes", "used ")
      support.fails(function() return (big + 1):sync() end, "bytes")
      big:release()
    end
    local row, column = lode.ones({ 2 ^ 28 }, { device = device }), lode.ones({ 2 ^ 28, 1 }, { device = device })
    local sum = row + column -- [2^28, 2^28]
    support.fails(function() sum:compute() end, "bytes")
    assert.equal(2, sum[1][5]:item())
    support.holds(lode.ones({ 2 }, { device = device }), "f32", { 2 }, { 1, 1 })
  end)
end)
