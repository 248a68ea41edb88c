-- More than one Lua state, thread or process. States run scripts of their own; what they return is compared
-- with what this state computes.
local lode = require("lode")
local support = require("spec.support")

local host = support.host()

-- Runs in any state: a checksum of many kinds of work.
local work = [[
  local lode = require("lode")
  local x = lode.rand({ 300, 200 }, { seed = SEED, dtype = "f64" })
  local A = lode.randn({ 40, 40 }, { seed = SEED, dtype = "f64" }) + 40 * lode.eye(40, { dtype = "f64" })
  local text = {}
  for _ = 1, ROUNDS do
    local y = (x * 2 + x:flip()):sum(1)
    local z = A:matmul(A.T):solve(y[{ { 1, 40 } }])
    local w = lode.concat({ y, z }):max()
    text[1] = ("%.17g %.17g %.17g"):format(y:sum():item(), z:sum():item(), w:item())
    x:upload((x * 0.5 + 0.25):download())
  end
  return text[1]
]]

local function script(seed, rounds) return (work:gsub("SEED", seed):gsub("ROUNDS", rounds)) end

local compile = loadstring or load -- luacheck: ignore
local function here(seed, rounds) return compile(script(seed, rounds))() end

local function it_with_host(name, body)
  it(name, function()
    if not host then return pending("spec/host is not built") end
    body()
  end)
end

describe("Lua states in one process", function()
  it_with_host("do not see each other's tensors and defaults", function()
    local a, b = host.open(), host.open()
    a:run("lode = require('lode') lode.set_default({ dtype = 'f64' }) x = lode.full({ 2 }, 3)")
    b:run("lode = require('lode') x = lode.full({ 2 }, 4)")
    assert.equal("f64", a:run("return x.dtype .. ''"))
    assert.equal("f32", b:run("return x.dtype .. ''"))
    assert.equal("f32", lode.default_dtype)
    assert.equal(3, tonumber(a:run("return x[1]:item()")))
    assert.equal(4, tonumber(b:run("return x[1]:item()")))
    a:close()
    assert.equal(8, tonumber(b:run("return x:sum():item()")))
    b:close()
    support.holds(lode.ones({ 1 }), "f32", { 1 }, { 1 })
  end)

  it_with_host("can be closed in any order, with tensors of every state alive", function()
    for _, order in ipairs({ { 1, 2, 3 }, { 3, 2, 1 }, { 2, 3, 1 } }) do
      local states = {}
      for i = 1, 3 do
        states[i] = host.open()
        states[i]:run(script(i, 1))
        states[i]:run([[
          lode = require("lode")
          local x = lode.rand({ 100 })
          list = { x, x + 1, (x * 2):compute(), x[1], x:reshape(10, 10):lu(), lode.stream(), lode.event():record() }
        ]])
      end
      for _, i in ipairs(order) do
        states[i]:close(i == 2)
        assert.equal(here(7, 1), here(7, 1))
      end
    end
  end)

  it_with_host("are opened and closed fifty times", function()
    local want = here(5, 1)
    local before
    for i = 1, 50 do
      local state = host.open()
      assert.equal(want, state:run(script(5, 1)))
      state:close(i % 2 == 0)
      if i == 10 then before = lode.stats().used end
    end
    assert.equal(before, lode.stats().used) -- a closed state holds nothing
  end)

  it_with_host("compute at the same time in threads of their own", function()
    local states, want = {}, {}
    for i = 1, 4 do
      states[i] = host.open()
      want[i] = here(i, 20)
    end
    for i, state in ipairs(states) do state:start(script(i, 20)) end
    local meanwhile = here(1, 20)
    assert.equal(want[1], meanwhile)
    for i, state in ipairs(states) do assert.equal(want[i], state:wait()) end
    for i, state in ipairs(states) do state:close(i % 2 == 0) end
  end)

  it_with_host("open, compute and close at the same time", function()
    local want = here(3, 1)
    for _ = 1, 5 do
      local states = {}
      for i = 1, 4 do
        states[i] = host.open()
        states[i]:start(script(3, 1))
      end
      for _, state in ipairs(states) do
        assert.equal(want, state:wait())
        state:close(true)
      end
    end
  end)

  it_with_host("raise their errors in themselves", function()
    local state = host.open()
    local ok, text = pcall(state.run, state, "local lode = require('lode') return lode.ones({ 2 }) + lode.ones({ 3 })")
    assert.is_false(ok)
    assert.is_truthy(text:find("add: shapes [2] and [3]", 1, true))
    ok, text = pcall(state.run, state, "local lode = require('lode') return lode.zeros({ 2, 2 }):lu():sync()")
    assert.is_false(ok)
    assert.is_truthy(text:find("lu: matrix is singular", 1, true))
    assert.equal(here(1, 1), state:run(script(1, 1)))
    state:close()
  end)

  it_with_host("may load lode first in a coroutine", function()
    local state = host.open()
    assert.equal("script line", state:run([[
      local co = coroutine.create(function() lode = require("lode") end)
      assert(coroutine.resume(co))
      co = nil
      collectgarbage() collectgarbage()
      local _, text = pcall(function() return lode.ones({ 2 }) + lode.ones({ 3 }) end)
      return text:find(":5: lode: add", 1, true) and "script line" or text
    ]]))
    state:close()
  end)
end)

describe("lua_close", function()
  it_with_host("under the threads of streams and of the pool", function()
    for i = 1, 6 do
      local state = host.open()
      state:run([[
        local lode = require("lode")
        lode.set_threads(2)
        local x = lode.rand({ 600, 600 }, { seed = 1 }):compute()
        for i = 1, 3 do
          local s = lode.stream()
          s:run(function()
            for k = 1, 4 do (x:matmul(x) + k):compute() end
            kept = (x:exp():sum(1)):compute()
            recorded = x:solve(x)
          end)
          _G["stream" .. i] = s
        end
        (x:sin() + x):sum():compute()
      ]])
      state:close(i % 2 == 0)
    end
    assert.equal(here(2, 1), here(2, 1))
  end)

  it_with_host("runs finalizers that make tensors", function()
    local before = lode.stats().used
    for _ = 1, 3 do
      local state = host.open()
      state:run([[
        local lode = require("lode")
        local x = lode.rand({ 1000 }):compute()
        local function finalize()
          pcall(function()
            kept = (x + lode.ones({ 1000 })):compute()
            kept2 = lode.rand({ 1000 }):compute()
          end)
        end
        for _ = 1, 5 do
          if newproxy then
            local p = newproxy(true)
            getmetatable(p).__gc = finalize
            _G[p] = p
          else
            local p = setmetatable({}, { __gc = finalize })
            _G[p] = p
          end
        end
      ]])
      state:close()
    end
    assert.equal(before, lode.stats().used)
  end)
end)

describe("require 'lode', again in the same state,", function()
  it("finds the same state: tensors of before go with those of after", function()
    local x = lode.full({ 2 }, 3)
    lode.set_default({ dtype = "f64" })
    local before, core = package.loaded["lode"], package.loaded["lode.core"]
    package.loaded["lode"], package.loaded["lode.core"] = nil, nil
    local ok, again = pcall(require, "lode")
    package.loaded["lode"], package.loaded["lode.core"] = before, core
    lode.set_default({ dtype = "f32" })
    assert.is_true(ok)
    local y = again.full({ 2 }, 4, { dtype = "f32" })
    support.holds(x + y, "f32", { 2 }, { 7, 7 })
    support.holds(again.concat({ x, y }), "f32", { 4 }, { 3, 3, 4, 4 })
    support.holds(y:matmul(x), "f32", {}, { 24 })
    support.fails(function()
      local z = again.add(x, again.ones({ 3 }, { dtype = "f32" }))
      return z
    end, "spec/state_spec.lua")
  end)

  it_with_host("many times costs nothing", function()
    local state = host.open()
    local grown = state:run([[
      local function kib()
        collectgarbage() collectgarbage()
        return collectgarbage("count")
      end
      local function again()
        package.loaded["lode"], package.loaded["lode.core"] = nil, nil
        require("lode")
      end
      for _ = 1, 5 do again() end
      local before = kib()
      for _ = 1, 100 do again() end
      return kib() - before
    ]])
    assert.is_true(tonumber(grown) < 64, grown .. " KiB")
    state:close()
  end)
end)

describe("after fork", function()
  local function it_forks(name, body)
    it_with_host(name, function()
      if os.getenv("TSAN_OPTIONS") then return pending("the thread sanitizer does not follow a fork") end
      body()
    end)
  end

  it_forks("the child computes, with its own threads", function()
    local want = here(4, 3)
    for _ = 1, 3 do
      assert.equal(want, host.fork(function() return here(4, 3) end))
      assert.equal(want, here(4, 3))
    end
  end)

  it_forks("the child uses tensors and streams of the parent", function()
    local x = lode.arange(1000, { dtype = "f64" })
    local y = x * 2
    local s = lode.stream()
    s:run(function() (x + 2):compute() end)
    local text = host.fork(function()
      local sum = y:sum():item()
      local on_stream = s:run(function() return (x + 1):sum():compute() end):item()
      x:upload(x:flip():download())
      return ("%.17g %.17g %.17g"):format(sum, on_stream, x[1]:item())
    end)
    assert.equal(("%.17g %.17g %.17g"):format(999000, 500500, 999), text)
    assert.equal(0, x[1]:item())
  end)

  -- In a process of its own: what it pins was a hang. OpenBLAS ends its threads before a fork, and products
  -- that a stream's worker still had to do waited for them for ever.
  it_forks("work pending on a stream is done, in the parent and in the child", function()
    local text, status = support.child([[
      local lode, host = require("lode"), require("host")
      local A = lode.randn({ 200, 200 }, { seed = 1, dtype = "f64" }):compute()
      local want = A:matmul(A):matmul(A):sum():item()
      local s = lode.stream()
      for _ = 1, 5 do
        local sum = s:run(function() return lode.compute(A:matmul(A):matmul(A):sum()) end)
        assert(host.fork(function() return ("%.17g"):format(sum:item()) end) == ("%.17g"):format(want))
        assert(sum:item() == want)
      end
      io.write("done")
    ]])
    assert.equal("done", text)
    assert.equal(0, status)
  end)

  it_forks("errors and closing work in the child", function()
    local state = host.open()
    state:run(script(1, 1))
    local text = host.fork(function()
      local ok, e = pcall(function() return lode.zeros({ 2, 2 }):lu():sync() end)
      assert(not ok and e:find("singular"))
      state:close()
      collectgarbage()
      return "closed"
    end)
    assert.equal("closed", text)
    assert.equal(here(1, 1), state:run(script(1, 1)))
    state:close()
  end)
end)
