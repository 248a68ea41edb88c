-- Values never change: what a script has taken of a tensor stays when the tensor is uploaded again, and
-- a block is reused only where nobody could tell.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local holds = support.holds

local function counter(name, device) return lode.stats(device)[name] end

-- Whether f took a new block.
local function allocates(device, f)
  local before = counter("allocations", device)
  f()
  return counter("allocations", device) > before
end

describe("upload", function()
  each_device("takes tables, numbers, booleans, bytes and tensors", function(device)
    local x = lode.zeros({ 2, 2 }, { device = device })
    holds(x:upload({ { 1, 2 }, { 3, 4 } }), "f32", { 2, 2 }, { 1, 2, 3, 4 })
    holds(x:upload(7), "f32", { 2, 2 }, { 7, 7, 7, 7 })
    holds(x:upload("\0\0\128\63\0\0\32\192\0\0\0\0\0\0\0\64"), "f32", { 2, 2 }, { 1, -2.5, 0, 2 })
    holds(x:upload(lode.eye(2, { device = device })), "f32", { 2, 2 }, { 1, 0, 0, 1 })
    local b = lode.zeros({ 2 }, { dtype = "bool", device = device })
    holds(b:upload(true), "bool", { 2 }, { true, true })
    holds(b:upload({ false, true }), "bool", { 2 }, { false, true })
    holds(lode.zeros({}, { device = device }):upload(3), "f32", {}, { 3 })
    holds(lode.zeros({ 0, 2 }, { device = device }):upload(""), "f32", { 0, 2 }, {})
    holds(lode.zeros({ 2 }, { dtype = "i32", device = device }):upload({ -1, 2 ^ 31 - 1 }), "i32", { 2 },
      { -1, 2147483647 })
  end)

  each_device("returns its tensor, and leaves the source of a copy alone", function(device)
    local x, y = lode.zeros({ 2 }, { device = device }), lode.tensor({ 1, 2 }, { device = device })
    assert.equal(x, x:upload(y))
    x:upload({ 5, 6 })
    holds(y, "f32", { 2 }, { 1, 2 })
    y:upload({ 7, 8 })
    holds(x, "f32", { 2 }, { 5, 6 })
    x:upload(x)
    holds(x, "f32", { 2 }, { 5, 6 })
  end)

  each_device("changes no view, expression, copy or other handle", function(device)
    for _, kind in ipairs({ "computed", "recorded", "filled", "uploaded" }) do
      local x = lode.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, { device = device })
      if kind == "computed" then x = (x + 0):compute() end
      if kind == "recorded" then x = x + 0 end
      if kind == "filled" then x = lode.full({ 2, 3 }, 5, { device = device }) end
      if kind == "uploaded" then x:upload({ { 1, 2, 3 }, { 4, 5, 6 } }) end
      local want = (x:to("f64")):totable()
      local held = {
        row = x[2], columns = x[{ {}, { 1, 3, 2 } }], transposed = x.T, flat = x:reshape(-1), same = x:reshape(2, 3),
        expression = x * 2 + 1, sum = x:sum(2), joined = lode.concat({ x, x }, 1), cast = x:to("f64"),
        computed = (x - 1):compute(), wide = x:broadcast_to(2, 2, 3), flipped = x:flip(),
        other = lode.zeros({ 2, 3 }, { device = device }):upload(x), of_dtype = x:to("f32"), of_device = x:to(device),
      }
      x:upload({ { -1, -2, -3 }, { -4, -5, -6 } })
      local function row(i, f)
        local list = {}
        for k = 1, 3 do list[k] = f and f(want[i][k]) or want[i][k] end
        return list
      end
      local function both(f) return { row(1, f), row(2, f) } end
      assert.same(row(2), held.row:totable(), kind)
      assert.same({ { want[1][1], want[1][3] }, { want[2][1], want[2][3] } }, held.columns:totable(), kind)
      assert.same(both(), held.transposed.T:totable(), kind)
      assert.same(both(), held.flat:reshape(2, 3):totable(), kind)
      assert.same(both(), held.same:totable(), kind)
      assert.same(both(function(v) return v * 2 + 1 end), held.expression:totable(), kind)
      assert.same({ want[1][1] + want[1][2] + want[1][3], want[2][1] + want[2][2] + want[2][3] },
        held.sum:totable(), kind)
      assert.same(both(), held.joined[{ { 3, 4 } }]:totable(), kind)
      assert.same(both(), held.cast:totable(), kind)
      assert.same(both(function(v) return v - 1 end), held.computed:totable(), kind)
      assert.same(both(), held.wide[2]:totable(), kind)
      assert.same(both(), held.flipped:flip():totable(), kind)
      assert.same(both(), held.other:totable(), kind)
      assert.same(both(), held.of_dtype:totable(), kind)
      assert.same(both(), held.of_device:totable(), kind)
      assert.same({ { -1, -2, -3 }, { -4, -5, -6 } }, x:totable(), kind)
    end
  end)

  each_device("to a view leaves its base alone", function(device)
    local x = lode.tensor({ { 1, 2 }, { 3, 4 } }, { device = device })
    local row, transposed, flat = x[1], x.T, x:reshape(4)
    row:upload({ 8, 9 })
    transposed:upload({ { 5, 6 }, { 7, 8 } })
    flat:upload({ 0, 0, 0, 1 })
    holds(x, "f32", { 2, 2 }, { 1, 2, 3, 4 })
    holds(row, "f32", { 2 }, { 8, 9 })
    holds(transposed, "f32", { 2, 2 }, { 5, 6, 7, 8 })
    holds(flat, "f32", { 4 }, { 0, 0, 0, 1 })
  end)

  each_device("to a recorded tensor makes a plain one of it", function(device)
    local x = lode.tensor({ 1, 2 }, { device = device })
    local y = x + 1
    local z = y * 10
    y:upload({ 5, 6 })
    holds(y, "f32", { 2 }, { 5, 6 })
    holds(z, "f32", { 2 }, { 20, 30 })
    holds(y + 1, "f32", { 2 }, { 6, 7 })
    local r = lode.rand({ 3 }, { seed = 1, device = device })
    local before = r * 1
    r:upload({ 1, 2, 3 })
    holds(r, "f32", { 3 }, { 1, 2, 3 })
    assert.is_true(before:download() == lode.rand({ 3 }, { seed = 1, device = device }):download())
  end)

  each_device("reuses the block when nobody else holds it", function(device)
    local x = lode.zeros({ 1000 }, { device = device })
    local bytes = lode.arange(1000, { device = device }):download()
    x:upload(bytes)
    assert.is_false(allocates(device, function()
      for _ = 1, 10 do x:upload(bytes):compute() end
    end))
    assert.is_true(x:download() == bytes)
    local y = (x + 1):compute() -- a computed tensor depends on x no more
    y:sync()
    assert.is_false(allocates(device, function() x:upload(bytes) end))
    local view = x[{ { 1, 10 } }]
    assert.is_true(allocates(device, function() x:upload(bytes) end))
    assert.is_false(allocates(device, function() x:upload(bytes) end)) -- the view holds the old block
    local expression = x * 2
    assert.is_true(allocates(device, function() x:upload(bytes) end))
    local copy = x:to("f32")
    assert.is_true(allocates(device, function() x:upload(bytes) end))
    for _, held in ipairs({ view, expression, copy, y }) do held:release() end
    assert.is_false(allocates(device, function() x:upload(bytes) end))
    local released = x:reshape(10, 100)
    released:release()
    assert.is_false(allocates(device, function() x:upload(bytes) end))
  end)

  each_device("says what does not fit, and changes nothing then", function(device)
    local x = lode.tensor({ 1, 2 }, { device = device })
    local text = "upload"
    support.fails(function() x:upload({ 1, 2, 3 }) end, text, "[3]", "[2]")
    support.fails(function() x:upload({ { 1 }, { 2 } }) end, text, "[2,1]", "[2]")
    support.fails(function() x:upload("123") end, text, "3 bytes", "f32 [2] has 8")
    support.fails(function() x:upload(lode.zeros({ 3 }, { device = device })) end, text, "[3]", "[2]")
    support.fails(function() x:upload(lode.zeros({ 2 }, { dtype = "f64", device = device })) end, text, "f64", "f32")
    support.fails(function() x:upload({ 1, "a" }) end, text, "element {2}", "a string")
    support.fails(function() x:upload() end, text, "argument 2")
    support.fails(function() x:upload(true) end, text, "argument 2", "a boolean")
    support.fails(function() lode.zeros({ 2 }, { dtype = "i32", device = device }):upload(0.5) end, text, "0.5", "i32")
    support.fails(function() lode.zeros({ 2 }, { dtype = "i32", device = device }):upload({ 1, 2 ^ 31 }) end, text,
      "2147483648", "i32", "element {2}")
    holds(x, "f32", { 2 }, { 1, 2 })
  end)
end)

describe("computing", function()
  local smoothness, ndof = support.smoothness, support.ndof

  each_device("runs the recorded cost as exactly one program", function(device)
    local x = lode.rand({ 1000, 20 }, { device = device, seed = 7 }):compute()
    for _ = 1, 3 do
      local cost = smoothness(x)
      local before = lode.stats(device)
      cost:compute()
      local after = lode.stats(device)
      assert.equal(1, after.programs - before.programs)
      if lode.jit ~= "off" then assert.equal(1, after.allocations - before.allocations) end -- an interpreter needs more
      assert.equal(0, after.waits - before.waits)
      assert.equal(0, after.uploads - before.uploads)
      assert.equal(0, after.downloads - before.downloads)
      cost:release()
      x:upload(x:download())
    end
  end)

  each_device("gives the cost that a plain loop gives", function(device)
    local x = lode.rand({ 6, 20 }, { device = device, dtype = "f64", seed = 7 })
    local got, t = smoothness(x):totable(), x:totable()
    for i, row in ipairs(t) do
      local function at(j, steps) return row[j > steps * ndof and j - steps * ndof or (j - 1) % ndof + 1] end
      local sum = 0
      for j = 1, 20 do sum = sum + (row[j] + at(j, 2) - 2 * at(j, 1)) ^ 2 end
      assert(math.abs(got[i] - sum) < 1e-12)
    end
  end)

  each_device("does nothing for what has been computed", function(device)
    local x = (lode.ones({ 4 }, { device = device }) + 1):compute()
    local before = counter("programs", device)
    x:compute():sync()
    lode.compute(x, x)
    assert.equal(before, counter("programs", device))
    holds(x, "f32", { 4 }, { 2, 2, 2, 2 })
  end)

  each_device("keeps an intermediate that is still held, and needed again", function(device)
    local x = lode.rand({ 500 }, { device = device, seed = 1 }):compute()
    local middle = (x * 3 + 1):sqrt()
    local sums = {}
    for i = 1, 4 do sums[i] = (middle + i):sum():compute() end
    local before = counter("programs", device)
    local read = middle:download()
    assert.equal(before, counter("programs", device)) -- kept: nothing to compute
    assert.is_true(read == (x * 3 + 1):sqrt():download())
    for i = 1, 4 do
      local whole = ((x * 3 + 1):sqrt() + i):sum():item()
      assert.equal(whole, sums[i]:item())
    end
  end)

  each_device("of several tensors is one compute, and returns them", function(device)
    local x = lode.arange(10, { device = device })
    local a, b = x + 1, x * 2
    local before = lode.stats(device).computes
    local p, q = lode.compute(a, b)
    assert.equal(before + 1, lode.stats(device).computes)
    assert.equal(a, p)
    assert.equal(b, q)
    a:sync()
    assert.is_true(a:ready() and b:ready()) -- both are stored by one program
    assert.equal(55, a:sum():item())
    assert.equal(90, b:sum():item())
  end)

  -- What is the same in all tiles is made in the first one, and read again in all others.
  each_device("of several tensors reads a row's values again in each tile", function(device)
    for _, shape in ipairs({ { 40, 64 }, { 300, 16 }, { 300, 64 }, { 2000, 130 }, { 33, 500 } }) do
      for _, dtype in ipairs({ "f32", "f64", "i32" }) do
        local a = lode.arange(1, shape[2] + 1, { device = device, dtype = dtype }):compute():expand_dims(1)
        local b = lode.zeros(shape, { device = device, dtype = dtype }):compute()
        local p, q = lode.compute(a * 2 + b, a - b)
        assert.is_true(q:equal(a + b):all():item() and p:equal(a + a + b):all():item())
      end
    end
  end)

  each_device("bounds a graph that a loop grows", function(device)
    local x = lode.zeros({ 3 }, { dtype = "f64", device = device })
    local total = x
    for i = 1, 5000 do total = total + (x + i) end
    assert.equal(5000 * 5001 / 2, total[2]:item())
    local deep = lode.ones({ 2 }, { device = device })
    for _ = 1, 3000 do deep = lode.concat({ deep[{ { 2, 2 } }], deep[{ { 1, 1 } }] }, 1):flip() * 1 end
    holds(deep, "f32", { 2 }, { 1, 1 })
  end)
end)

describe("a tensor's state", function()
  each_device("goes from recorded to ready", function(device)
    local x = lode.arange(5, { device = device }) + 1
    assert.is_false(x:ready())
    assert.equal(x, x:compute())
    assert.equal(x, x:sync())
    assert.is_true(x:ready())
    local y = x + 1
    assert.equal(y, y:sync()) -- sync computes what is only recorded
    assert.is_true(y:ready())
    assert.is_true(y[1]:ready()) -- a view of what is ready
    assert.is_false((y * 2):ready())
  end)
end)
