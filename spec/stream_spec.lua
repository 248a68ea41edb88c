-- Streams and events: order across streams, waits that are counted, and results that do not depend on where
-- the work was done.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local holds = support.holds

-- Work of a tenth of a second on a stream, so that what follows finds it pending, also on a busy machine.
local function busy(stream, device)
  local n = support.busy_order(device, 800)
  return stream:run(function()
    local y = lode.rand({ n, n }, { seed = 1, dtype = "f64", device = device })
    for _ = 1, 4 do y = y:matmul(y) end
    return y:sum():compute()
  end)
end

local function waits(device) return lode.stats(device).waits end

describe("a stream", function()
  each_device("computes what the state's own stream computes", function(device)
    local s = lode.stream(device)
    local x = lode.rand({ 1000, 20 }, { seed = 3, device = device })
    local function work(t)
      return { (t * 2 + 1):sum(2), t:flip():max(1), lode.concat({ t, t * 3 }, 2):mean(), t.T:matmul(t) }
    end
    local want, got = work(x), s:run(function() return work(x) end)
    s:run(function() lode.compute((unpack or table.unpack)(got)) end) -- luacheck: ignore
    for i = 1, #want do assert.is_true(want[i]:download() == got[i]:download(), "result " .. i) end
    assert.equal(device, s.device:match("^%a+"))
    assert.equal(s, s:sync())
    s:release()
  end)

  each_device("is left by run, also when it raises, and can be nested", function(device)
    local s, t = lode.stream(device), lode.stream(device)
    local a, b, c = s:run(function(...)
      local ok = pcall(t.run, t, function() error("on purpose") end)
      assert.is_false(ok)
      local x = lode.ones({ 2 }, { device = device }) + 1
      x:compute()
      return x, t:run(function() return x * 2 end), ...
    end, "argument")
    holds(a, "f32", { 2 }, { 2, 2 })
    holds(b, "f32", { 2 }, { 4, 4 })
    assert.equal("argument", c)
    local x = lode.ones({ 2 }, { device = device }) + 1
    x:compute() -- by the state's own stream again, which on the CPU works at once
    if device == "cpu" then assert.is_true(x:ready()) end
  end)

  each_device("waits for what another stream makes", function(device)
    local s, t = lode.stream(device), lode.stream(device)
    for round = 1, 10 do
      busy(s, device)
      local x = s:run(function() return (lode.full({ 500 }, round, { device = device }) * 2):compute() end)
      local y = t:run(function() return (x + 1):compute() end)
      local z = (y * 10):compute() -- on the state's own stream
      local w = s:run(function() return (z + y):compute() end)
      assert.equal((2 * round + 1) * 11 * 500, w:sum():item())
    end
  end)

  each_device("keeps its values while a tensor that it reads is uploaded again", function(device)
    local s = lode.stream(device)
    local x = lode.full({ 1000 }, 1, { device = device }):compute()
    local results = {}
    for i = 1, 30 do
      if i % 10 == 1 then busy(s, device) end
      x:upload(lode.full({ 1000 }, i, { device = device }):download())
      results[i] = s:run(function() return (x * 2):sum():compute() end)
    end
    for i = 1, 30 do assert.equal(2000 * i, results[i]:item()) end
    for i = 1, 30 do -- and blocks that are released while it reads them are not reused too early
      if i % 10 == 1 then busy(s, device) end
      local y = lode.full({ 1000 }, i, { device = device }):compute()
      results[i] = s:run(function() return (y + 1):sum():compute() end)
      y:release()
      lode.full({ 1000 }, -5, { device = device }):compute():release()
    end
    for i = 1, 30 do assert.equal(1000 * (i + 1), results[i]:item()) end
  end)

  each_device("takes uploads too", function(device)
    local s = lode.stream(device)
    local list = s:run(function()
      local made = {}
      busy(s, device)
      for i = 1, 20 do
        local x = lode.tensor({ i, i + 1 }, { device = device })
        made[i] = (x * 2):compute()
        x:upload({ 0, 0 })
        made[i + 20] = (x + made[i]):compute()
      end
      return made
    end)
    for i = 1, 20 do
      holds(list[i], "f32", { 2 }, { 2 * i, 2 * i + 2 })
      holds(list[i + 20], "f32", { 2 }, { 2 * i, 2 * i + 2 })
    end
  end)

  each_device("does its work although it is released at once", function(device)
    local results = {}
    for i = 1, 10 do
      local s = lode.stream(device)
      results[i] = s:run(function()
        local x = lode.rand({ 100, 100 }, { seed = i, device = device })
        return x:matmul(x):sum():compute()
      end)
      if i % 2 == 0 then s:release() end
    end
    collectgarbage()
    for i = 1, 10 do
      local x = lode.rand({ 100, 100 }, { seed = i, device = device })
      assert.equal(x:matmul(x):sum():item(), results[i]:item())
    end
  end)

  each_device("given up by the collector does its work too", function(device)
    local results = {}
    for i = 1, 40 do
      results[i] = lode.stream(device):run(function()
        return (lode.full({ 64 }, i, { device = device }) + 1):sum():compute()
      end)
      if i % 10 == 0 then collectgarbage() end
    end
    collectgarbage()
    collectgarbage()
    for i = 1, 40 do assert.equal(64 * (i + 1), results[i]:item()) end
  end)

  each_device("raises numerical failures where their results are waited for", function(device)
    local s = lode.stream(device)
    local singular = lode.zeros({ 3, 3 }, { device = device })
    local x = s:run(function()
      busy(s, device)
      return singular:solve(lode.ones({ 3 }, { device = device }), { assume = "general" }):compute()
    end)
    local y = (x + 1)
    support.fails(function() y:sync() end, "solve: matrix is singular: pivot 1 of 3", "spec/stream_spec.lua")
    support.fails(function() x:download() end, "solve: matrix is singular")
    holds(s:run(function() return lode.eye(1, { device = device }) end), "f32", { 1, 1 }, { 1 })
    s:sync()
    lode.sync()
  end)

  each_device("of another device than the work is left out", function(device)
    local s = lode.stream(device)
    support.fails(function() lode.with({ stream = 5 }, print) end, "with: ", "stream")
    s:release()
    support.fails(function() lode.with({ stream = s }, print) end, "with: ", "released")
  end)
end)

describe("waiting", function()
  each_device("is counted; ready never waits", function(device)
    local s = lode.stream(device)
    local x = busy(s, device)
    local before, polls = waits(device), 0
    while not x:ready() do polls = polls + 1 end
    assert.equal(before, waits(device))
    assert.is_true(polls > 0)
    local y = busy(s, device)
    local e = lode.event({ device = device })
    s:run(function() e:record() end)
    before = waits(device)
    assert.is_boolean(e:ready())
    assert.is_boolean(y:ready())
    assert.is_string(tostring(y))
    assert.equal(before, waits(device))
    y:sync()
    assert.is_true(waits(device) <= before + 1)
    before = waits(device)
    y:sync() -- it is ready
    assert.equal(before, waits(device))
  end)

  each_device("is not done by recording, compute and upload", function(device)
    local s = lode.stream(device)
    local x = lode.ones({ 100 }, { device = device }):compute()
    local bytes = x:download()
    x:sync()
    busy(s, device)
    local before = waits(device)
    s:run(function()
      for i = 1, 5 do
        local y = (x * i):sum():compute()
        x:upload(bytes)
        y:ready()
      end
    end)
    assert.equal(before, waits(device))
    s:sync()
  end)

  each_device("is not done by compute, however often a tensor is read by pending work", function(device)
    local s = lode.stream(device)
    local x = lode.ones({ 50, 50 }, { device = device }):compute():sync()
    busy(s, device)
    local before = waits(device)
    local y = s:run(function() -- in one compute
      local z = x
      for _ = 1, 12 do z = x:matmul(z) * 0.02 end
      return z:compute()
    end)
    assert.equal(before, waits(device))
    local list = s:run(function() -- in many
      local made = {}
      for i = 1, 12 do made[i] = (x * i):sum():compute() end
      return made
    end)
    assert.equal(before, waits(device))
    assert(math.abs(y[1][1]:item() - 1) < 1e-5)
    for i = 1, 12 do assert.equal(2500 * i, list[i]:item()) end
  end)

  each_device("by lode.sync is for all work of the state", function(device)
    local s = lode.stream(device)
    local x = busy(s, device)
    lode.with({ stream = s }, function() lode.sync(device) end)
    assert.is_true(x:ready())
    x = busy(s, device)
    s:sync()
    assert.is_true(x:ready())
  end)
end)

describe("an event", function()
  each_device("is reached when the work before it is done", function(device)
    local s = lode.stream(device)
    local x = busy(s, device)
    local e = lode.event({ device = device })
    assert.equal(e, e:record(s))
    assert.is_boolean(e:wait())
    assert.is_true(e:ready())
    assert.is_true(x:ready())
    assert.is_false(e:wait()) -- nothing to wait for any more
    assert.equal(device, e.device:match("^%a+"))
  end)

  each_device("measures the time between two points of a stream", function(device)
    local s = lode.stream(device)
    local function event() return lode.event({ device = device }) end
    local start, stop, last = event(), event(), event()
    local before = lode.clock()
    start:record(s)
    busy(s, device)
    stop:record(s)
    last:record(s)
    last:wait()
    local whole = lode.clock() - before
    local seconds = start:elapsed(stop)
    assert.is_true(seconds > 0 and seconds <= whole, seconds .. " of " .. whole)
    assert.is_true(stop:elapsed(last) >= 0 and stop:elapsed(last) <= whole)
    assert.is_true(math.abs(start:elapsed(last) - seconds - stop:elapsed(last)) < 1e-6)
    assert.equal(-seconds, stop:elapsed(start))
  end)

  each_device("that has not been reached has no time", function(device)
    local s = lode.stream(device)
    local e, f = lode.event({ device = device }):record(s), lode.event({ device = device })
    e:wait()
    local x = busy(s, device)
    f:record(s)
    local ok, text = pcall(e.elapsed, e, f)
    if not ok then assert.is_truthy(text:find("not been reached", 1, true), text) end
    assert.is_true(not ok or f:ready())
    x:sync()
    f:wait()
    assert.is_true(e:elapsed(f) > 0)
  end)

  each_device("can be recorded again, by the current stream too", function(device)
    local e = lode.event({ device = device })
    e:record()
    assert.is_true(e:wait() == true or e:ready())
    local s = lode.stream(device)
    local x = s:run(function()
      local y = busy(s, device)
      e:record()
      return y
    end)
    e:wait()
    assert.is_true(x:ready())
    assert.is_truthy(tostring(e):find("event on " .. device, 1, true))
    assert.is_truthy(tostring(lode.event({ device = device })):find("not recorded", 1, true))
  end)
end)
