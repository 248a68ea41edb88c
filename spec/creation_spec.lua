-- Tensors from Lua values and from nothing, and back to Lua values.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local holds = support.holds
local huge, nan = 1 / 0, 0 / 0
local minus_zero = -1 / huge -- Lua 5.1 takes the constant -0.0 for 0

-- Integers beyond 2^53 in this Lua: int64 cdata, integers, or none (PUC 5.1).
local function big_integer(text)
  if type(jit) == "table" then
    local chunk = loadstring("return " .. text .. "LL") -- luacheck: ignore
    return chunk()
  end
  if math.type then return math.tointeger(tonumber(text)) end -- luacheck: ignore
end

describe("tensor", function()
  each_device("of nested tables", function(device)
    local options = { device = device }
    holds(lode.tensor({ 1, 2.5, -3 }, options), "f32", { 3 }, { 1, 2.5, -3 })
    holds(lode.tensor({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, options), "f32", { 3, 2 }, { 1, 2, 3, 4, 5, 6 })
    holds(lode.tensor({ { { 1 }, { 2 } } }, options), "f32", { 1, 2, 1 }, { 1, 2 })
    holds(lode.tensor({ { { { { { { { 7 } } } } } } } }, options), "f32", { 1, 1, 1, 1, 1, 1, 1, 1 }, { 7 })
    holds(lode.tensor({}, options), "f32", { 0 }, {})
    holds(lode.tensor({ {}, {} }, options), "f32", { 2, 0 }, {})
    holds(lode.tensor({ true, false }, options), "bool", { 2 }, { true, false })
    holds(lode.tensor({ huge, -huge, nan, minus_zero }, options), "f32", { 4 }, { huge, -huge, nan, 0 })
    assert.equal(-huge, 1 / lode.tensor({ minus_zero }, options):item())
  end)

  each_device("of each dtype", function(device)
    for _, dtype in ipairs({ "f32", "f64", "i32", "i64" }) do
      holds(lode.tensor({ 1, 0, -3 }, { dtype = dtype, device = device }), dtype, { 3 }, { 1, 0, -3 })
    end
    holds(lode.tensor({ 1, 0 }, { dtype = "bool", device = device }), "bool", { 2 }, { true, false })
    holds(lode.tensor({ true, false }, { dtype = "i32", device = device }), "i32", { 2 }, { 1, 0 })
    holds(lode.tensor({ 0.1 }, { dtype = "f64", device = device }), "f64", { 1 }, { 0.1 })
    holds(lode.tensor({ 2 ^ 31 - 1, -2 ^ 31 }, { dtype = "i32", device = device }), "i32", { 2 },
      { 2147483647, -2147483648 })
    holds(lode.tensor({ 2 ^ 53, -2 ^ 53 }, { dtype = "i64", device = device }), "i64", { 2 }, { 2 ^ 53, -2 ^ 53 })
  end)

  each_device("of one value", function(device)
    holds(lode.tensor(3.5, { device = device }), "f32", {}, { 3.5 })
    holds(lode.tensor(true, { device = device }), "bool", {}, { true })
    holds(lode.tensor(7, { dtype = "i64", device = device }), "i64", {}, { 7 })
  end)

  each_device("of bytes", function(device)
    local i32 = lode.tensor("\1\0\0\0\255\255\255\255", { shape = { 2 }, dtype = "i32", device = device })
    holds(i32, "i32", { 2 }, { 1, -1 })
    local f32 = lode.tensor("\0\0\128\63\0\0\32\192", { shape = { 2, 1 }, dtype = "f32", device = device })
    holds(f32, "f32", { 2, 1 }, { 1, -2.5 })
    local f64 = lode.tensor("\0\0\0\0\0\0\240\63", { shape = {}, dtype = "f64", device = device })
    holds(f64, "f64", {}, { 1 })
    holds(lode.tensor("", { shape = { 0, 4 }, dtype = "i64", device = device }), "i64", { 0, 4 }, {})
  end)

  each_device("keeps every bit of bytes", function(device)
    local random = support.random(5)
    for _, dtype in ipairs({ "f32", "f64", "i32", "i64" }) do
      local bytes = {}
      for i = 1, 8 * 40 do bytes[i] = string.char(random(256) - 1) end
      bytes = table.concat(bytes)
      local count = dtype:find("64") and 40 or 80
      local x = lode.tensor(bytes, { shape = { count }, dtype = dtype, device = device })
      assert.is_true(bytes == x:download())
      assert.is_true(bytes == x:reshape(2, -1):download())
      local same = x:flip():flip():download()
      assert.is_true(bytes == same, dtype .. " flipped twice")
    end
  end)

  each_device("of integers beyond 2^53", function(device)
    for _, text in ipairs({ "9007199254740993", "-9007199254740995", "9223372036854775807", "-9223372036854775807" }) do
      local n = big_integer(text)
      if n == nil then return pending("this Lua has no such integers") end
      local x = lode.tensor({ n, 1 }, { dtype = "i64", device = device })
      assert.is_true(x[1]:item() == n, text)
      assert.is_true(x:totable()[1] == n, text)
      assert.is_true((x + 0):max():item() == n or (x + 0):min():item() == n, text)
      assert.is_true(lode.full({ 2 }, n, { dtype = "i64", device = device })[2]:item() == n, text)
      assert.is_true((lode.zeros({ 1 }, { dtype = "i64", device = device }) + n)[1]:item() == n, text)
      local y = lode.zeros({}, { dtype = "i64", device = device }):upload(n)
      assert.is_true(y:item() == n, text)
    end
    local least = lode.tensor("\0\0\0\0\0\0\0\128", { shape = {}, dtype = "i64", device = device })
    assert.equal("-9223372036854775808", (tostring(least:item()):gsub("LL", "")))
    assert.is_true(lode.tensor({ least:item() }, { dtype = "i64", device = device })[1]:equal(least):item())
  end)
end)

describe("creation without values", function()
  each_device("zeros, ones, full", function(device)
    holds(lode.zeros({ 2, 2 }, { device = device }), "f32", { 2, 2 }, { 0, 0, 0, 0 })
    holds(lode.zeros(3, { device = device }), "f32", { 3 }, { 0, 0, 0 })
    holds(lode.zeros(1, 2, { device = device }), "f32", { 1, 2 }, { 0, 0 })
    holds(lode.ones({ 2 }, { dtype = "i64", device = device }), "i64", { 2 }, { 1, 1 })
    holds(lode.ones({ 2 }, { dtype = "bool", device = device }), "bool", { 2 }, { true, true })
    holds(lode.full({ 2 }, 2.5, { dtype = "f64", device = device }), "f64", { 2 }, { 2.5, 2.5 })
    holds(lode.full(2, 7, { dtype = "i32", device = device }), "i32", { 2 }, { 7, 7 })
    holds(lode.full({ 2 }, true, { device = device }), "bool", { 2 }, { true, true })
    holds(lode.full({}, -1, { device = device }), "f32", {}, { -1 })
    holds(lode.zeros({ 0, 5 }, { device = device }), "f32", { 0, 5 }, {})
  end)

  each_device("eye", function(device)
    holds(lode.eye(2, { device = device }), "f32", { 2, 2 }, { 1, 0, 0, 1 })
    holds(lode.eye(2, 3, { dtype = "i32", device = device }), "i32", { 2, 3 }, { 1, 0, 0, 0, 1, 0 })
    holds(lode.eye(3, 1, { dtype = "bool", device = device }), "bool", { 3, 1 }, { true, false, false })
    holds(lode.eye(0, { device = device }), "f32", { 0, 0 }, {})
  end)

  each_device("arange", function(device)
    holds(lode.arange(4, { device = device }), "f32", { 4 }, { 0, 1, 2, 3 })
    holds(lode.arange(2, 5, { dtype = "i32", device = device }), "i32", { 3 }, { 2, 3, 4 })
    holds(lode.arange(5, 0, -2, { dtype = "i64", device = device }), "i64", { 3 }, { 5, 3, 1 })
    holds(lode.arange(0, 1, 0.25, { device = device }), "f32", { 4 }, { 0, 0.25, 0.5, 0.75 })
    holds(lode.arange(3, 3, { device = device }), "f32", { 0 }, {})
    holds(lode.arange(5, 2, { device = device }), "f32", { 0 }, {})
    local tenths = lode.arange(0, 1, 0.1, { dtype = "f64", device = device }):totable()
    for i = 1, 10 do assert.equal((i - 1) * 0.1, tenths[i]) end
    assert.equal(99999, lode.arange(100000, { dtype = "i32", device = device })[-1]:item())
  end)

  each_device("linspace", function(device)
    holds(lode.linspace(0, 1, 5, { device = device }), "f32", { 5 }, { 0, 0.25, 0.5, 0.75, 1 })
    holds(lode.linspace(3, 3, 1, { device = device }), "f32", { 1 }, { 3 })
    holds(lode.linspace(2, 9, 1, { dtype = "f64", device = device }), "f64", { 1 }, { 2 })
    holds(lode.linspace(1, 2, 0, { device = device }), "f32", { 0 }, {})
    for _, count in ipairs({ 2, 3, 7, 49, 1000 }) do -- both ends exactly, whatever the rounding of the step
      local x = lode.linspace(-0.1, 0.7, count, { dtype = "f64", device = device })
      assert.equal(-0.1, x[1]:item())
      assert.equal(0.7, x[-1]:item())
    end
  end)
end)

describe("defaults", function()
  it("are the cpu and f32", function()
    assert.equal("cpu", lode.default_device)
    support.fails(function() lode.default_dtype = "f64" end, "set_default{ dtype = ... }")
    assert.equal("f32", lode.default_dtype)
    assert.equal("f32", lode.zeros({ 1 }).dtype)
    assert.equal("cpu", lode.zeros({ 1 }).device)
  end)

  it("change for a scope, also when it raises", function()
    local dtype, inner = lode.with({ dtype = "f64" }, function()
      return lode.ones({ 1 }).dtype, lode.with({ dtype = "f32" }, function() return lode.rand({ 1 }).dtype end)
    end)
    assert.equal("f64", dtype)
    assert.equal("f32", inner)
    assert.is_false(pcall(lode.with, { dtype = "f64" }, function() error("on purpose") end))
    assert.equal("f32", lode.default_dtype)
  end)

  it("change for good, and reach operations that need a floating dtype", function()
    lode.set_default({ dtype = "f64" })
    local ok, dtypes = pcall(function()
      local n = lode.ones({ 1 }, { dtype = "i32" })
      return { lode.tensor({ 1 }).dtype, n:sqrt().dtype, (n / 2).dtype, n:mean().dtype, lode.default_dtype }
    end)
    lode.set_default({ dtype = "f32" })
    assert.is_true(ok)
    assert.same({ "f64", "f64", "f64", "f64", "f64" }, dtypes)
  end)
end)

describe("reading", function()
  each_device("item, totable and download give the same elements", function(device)
    for _, dtype in ipairs({ "bool", "i32", "i64", "f32", "f64" }) do
      local data = support.data(dtype, 24, 9)
      if dtype == "bool" then
        for i, x in ipairs(data) do data[i] = x ~= 0 end
      end
      local x = lode.tensor(data, { dtype = dtype, device = device }):reshape(2, 3, 4)
      local t = x:totable()
      for i = 1, 2 do
        for j = 1, 3 do
          for k = 1, 4 do
            local want = data[(i - 1) * 12 + (j - 1) * 4 + k]
            assert.equal(want, t[i][j][k])
            assert.equal(want, x[i][j][k]:item())
          end
        end
      end
      local back = lode.tensor(x:download(), { shape = { 2, 3, 4 }, dtype = dtype, device = device })
      holds(back, dtype, { 2, 3, 4 }, data)
      holds(lode.tensor(t, { dtype = dtype, device = device }), dtype, { 2, 3, 4 }, data)
    end
  end)

  each_device("views are read dense and in row-major order", function(device)
    local x = lode.arange(6, { dtype = "i32", device = device }):reshape(2, 3):compute()
    assert.is_true(x.T:download() == lode.tensor({ 0, 3, 1, 4, 2, 5 }, { dtype = "i32" }):download())
    assert.is_true(x[{ {}, { 1, 3, 2 } }]:download() == lode.tensor({ 0, 2, 3, 5 }, { dtype = "i32" }):download())
    assert.is_true(x:flip():download() == lode.tensor({ 5, 4, 3, 2, 1, 0 }, { dtype = "i32" }):download())
    assert.equal(12, #x:broadcast_to(2, 2, 3)[1]:sum(1):download() / 2)
  end)

  each_device("an empty tensor is an empty table", function(device)
    assert.same({}, lode.zeros({ 0 }, { device = device }):totable())
    assert.same({ {}, {} }, lode.zeros({ 2, 0 }, { device = device }):totable())
    assert.equal("", lode.zeros({ 2, 0 }, { device = device }):download())
  end)

  each_device("properties", function(device)
    local x = lode.zeros({ 2, 3 }, { device = device })
    assert.same({ 2, 3 }, x.shape)
    assert.equal(2, x.ndim)
    assert.equal(6, x.size)
    assert.equal(2, #x)
    assert.equal(device, x.device:match("^%a+"))
    assert.same({ 3, 2 }, x.T.shape)
    assert.same({}, x[1][1].shape)
    x.shape[1] = 99 -- a table of the script's own
    assert.same({ 2, 3 }, x.shape)
  end)

  each_device("tostring shows what is ready and never waits", function(device)
    local x = lode.tensor({ { 1, 2.5 }, { -3, 4 } }, { device = device })
    local y = x + 1
    assert.is_truthy(tostring(y):find("recorded", 1, true))
    assert.is_truthy(tostring(y):find("f32 [2,2] on " .. device, 1, true))
    y:compute():sync()
    if device == "cpu" then
      assert.is_truthy(tostring(y):find("{{2, 3.5}, {-2, 5}}", 1, true))
      assert.equal("tensor f32 [3] on cpu {nan, nan, inf}", tostring(lode.tensor({ 0 / 0, -(0 / 0), 1 / 0 })))
    end
    assert.is_truthy(tostring(lode.zeros({ 1000 }, { device = device }):compute():sync()):find("ready", 1, true))
  end)
end)
