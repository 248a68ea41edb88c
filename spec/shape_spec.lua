-- Indexing and the functions that give the same elements another order or shape, against the oracle, of
-- tensors in memory and of recorded ones; and what they say to arguments that are wrong.
local lode = require("lode")
local reference = require("spec.reference")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local unpack = unpack or table.unpack -- luacheck: ignore

-- A tensor of 1, 2, ... in the oracle; in memory, with gaps in memory, and as a recorded expression.
local function counting(shape, device)
  local size, data = 1, {}
  for _, n in ipairs(shape) do size = size * n end
  for i = 1, size do data[i] = i end
  local ref = reference.new("i32", shape, data)
  local tensor = support.tensor(ref, device):compute()
  local every = {}
  for d = 1, #shape do every[d] = {} end
  every[#shape + 1] = 2
  local pairs_of = lode.stack({ tensor * 0, tensor }, -1):compute()
  return ref, { memory = tensor, gaps = pairs_of[every], recorded = tensor * 1 }
end

-- Checks view(tensor) of every form of a tensor against want(reference).
local function check(what, shape, device, view, want)
  local ref, forms = counting(shape, device)
  for form, tensor in pairs(forms) do support.same(view(tensor), want(ref), 0, what .. " of one " .. form) end
end

describe("indexing", function()
  local R = reference

  each_device("by integers", function(device)
    for _, shape in ipairs({ { 4, 5 }, { 3, 2, 4 }, { 6 } }) do
      for i = 1, shape[1] do
        check("[i]", shape, device, function(x) return x[i] end, function(r) return R.select(r, 1, i) end)
        check("[-i]", shape, device, function(x) return x[-i] end,
          function(r) return R.select(r, 1, shape[1] + 1 - i) end)
        check("[{i}]", shape, device, function(x) return x[{ i }] end, function(r) return R.select(r, 1, i) end)
      end
    end
    check("[{i, j}]", { 4, 5 }, device, function(x) return x[{ 2, -1 }] end,
      function(r) return R.select(R.select(r, 1, 2), 1, 5) end)
    check("[i][j][k]", { 2, 3, 4 }, device, function(x) return x[2][-1][3] end,
      function(r) return R.select(R.select(R.select(r, 1, 2), 1, 3), 1, 3) end)
    check("[{{}, j}]", { 3, 4, 2 }, device, function(x) return x[{ {}, 3 }] end,
      function(r) return R.select(r, 2, 3) end)
    check("[{}]", { 3, 4 }, device, function(x) return x[{}] end, function(r) return r end)
    check("[{}] of 0-d", {}, device, function(x) return x[{}] end, function(r) return r end)
  end)

  each_device("by ranges", function(device)
    local n = 7
    for first = 1, n do
      for last = 1, n do
        for step = -3, 3 do
          if step ~= 0 and (last - first) * step >= 0 then
            check(("{%d,%d,%d}"):format(first, last, step), { n, 2 }, device,
              function(x) return x[{ { first, last, step } }] end,
                function(r) return R.range(r, 1, first, last, step) end)
          end
        end
      end
    end
    check("{-3,-1}", { 2, 5 }, device, function(x) return x[{ {}, { -3, -1 } }] end,
      function(r) return R.range(r, 2, 3, 5) end)
    check("{-1,1,-1}", { 2, 5 }, device, function(x) return x[{ {}, { -1, 1, -1 } }] end,
      function(r) return R.flip(r, 2) end)
    check("{1,-1,2}", { 5, 5 }, device, function(x) return x[{ 2, { 1, -1, 2 } }] end,
      function(r) return R.range(R.select(r, 1, 2), 1, 1, 5, 2) end)
    check("a step beyond the end", { 5 }, device, function(x) return x[{ { 2, 5, 2 ^ 40 } }] end,
      function(r) return R.range(r, 1, 2, 2) end)
    check("ranges of ranges", { 20 }, device,
      function(x) return x[{ { 2, 20, 3 } }][{ { -1, 1, -2 } }][{ { 2, 3 } }] end,
      function(r) return R.range(R.range(R.range(r, 1, 2, 20, 3), 1, 7, 1, -2), 1, 2, 3) end)
  end)

  each_device("by the empty range {a, a - 1}", function(device)
    for a = 1, 5 do
      check("{a,a-1}", { 4, 3 }, device, function(x) return x[{ { a, a - 1 } }] end,
        function() return R.new("i32", { 0, 3 }, {}) end)
    end
    check("backwards", { 4 }, device, function(x) return x[{ { 2, 3, -1 } }] end,
      function() return R.new("i32", { 0 }, {}) end)
    check("of nothing", { 0, 3 }, device, function(x) return x[{ { 1, 0 }, 2 }] end,
      function() return R.new("i32", { 0 }, {}) end)
    check("whole of nothing", { 0, 3 }, device, function(x) return x[{ {}, 2 }] end,
      function() return R.new("i32", { 0 }, {}) end)
  end)

  each_device("says what is out of range or no index", function(device)
    local x = lode.zeros({ 4, 5 }, { device = device })
    local function fails(index, ...) support.fails(function() return x[index] end, "index: ", ...) end
    fails(5, "5 in dim 1, which has 4")
    fails(0, "0 in dim 1, which has 4")
    fails(-5, "-5 in dim 1, which has 4")
    fails({ 1, 6 }, "6 in dim 2, which has 5")
    fails({ 1, 2, 3 }, "3 indices for shape [4,5]")
    fails({ { 1, 5 } }, "{1, 5, 1} in dim 1, which has 4")
    fails({ { 0, 2 } }, "starts at 0")
    fails({ { 3, 1 } }, "{3, 1, 1} in dim 1, which has 4")
    fails({ { 1, 3, -1 } }, "{1, 3, -1} in dim 1, which has 4")
    fails({ { 1, 2, 0 } }, "step 0")
    fails({ { 1 } }, "entry 1 has 1 element;")
    fails({ { 1, 2, 3, 4 } }, "entry 1 has 4 elements")
    fails({ { 1, 1.5 } }, "entry 1", "integers")
    fails({ "a" }, "entry 1", "a string")
    fails({ 1.5 }, "entry 1")
    fails({ a = 1 }, "an index is a list")
    fails(1.5, "a fraction")
    fails(true, "a boolean")
    fails(2 ^ 70, "index")
    fails({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "9 indices")
    support.fails(function() return x.colour end, "no field 'colour'")
    support.fails(function() x[1] = 3 end, "not assigned to")
    support.fails(function() x.shape = {} end, "no fields to set")
    support.fails(function() return x[1][1][1] end, "1 index for shape []")
    support.fails(function() return lode.zeros({ 0 }, { device = device })[1] end, "1 in dim 1, which has 0")
    support.fails(function() return #x[1][1] end, "no length")
  end)
end)

describe("order and shape", function()
  local R = reference

  each_device("permute_dims and T", function(device)
    check("T", { 3, 5 }, device, function(x) return x.T end, function(r) return R.permute(r, { 2, 1 }) end)
    check("T.T", { 3, 5 }, device, function(x) return x.T.T end, function(r) return r end)
    for _, dims in ipairs({ { 1, 2, 3 }, { 1, 3, 2 }, { 2, 1, 3 }, { 2, 3, 1 }, { 3, 1, 2 }, { 3, 2, 1 } }) do
      check("permute", { 2, 3, 4 }, device, function(x) return x:permute_dims(dims) end,
        function(r) return R.permute(r, dims) end)
      check("permute", { 2, 3, 4 }, device, function(x) return lode.permute_dims(x, unpack(dims)) end,
        function(r) return R.permute(r, dims) end)
    end
    check("negative", { 2, 3, 4 }, device, function(x) return x:permute_dims(-1, 1, -2) end,
      function(r) return R.permute(r, { 3, 1, 2 }) end)
    local x = lode.zeros({ 2, 3, 4 }, { device = device })
    support.fails(function() return x.T end, "T: ", "[2,3,4]", "2 are needed")
    support.fails(function() return x:permute_dims(1, 2) end, "permute_dims: ", "2 dims given", "3")
    support.fails(function() return x:permute_dims(1, 2, 2) end, "permute_dims: ", "dim 2 is given twice")
    support.fails(function() return x:permute_dims(1, 2, 4) end, "permute_dims: ", "dim 4")
    support.fails(function() return x:permute_dims(0, 2, 1) end, "permute_dims: ", "dim 0")
    support.fails(function() return x:permute_dims("a") end, "permute_dims: ", "a string")
  end)

  each_device("reshape", function(device)
    local shapes = { { 24 }, { 4, 6 }, { 2, 12 }, { 2, 3, 4 }, { 1, 24, 1 }, { 24, 1, 1, 1 }, { 3, 2, 2, 2 } }
    for _, from in ipairs(shapes) do
      for _, to in ipairs(shapes) do
        check("reshape", from, device, function(x) return x:reshape(to) end, function(r) return R.reshape(r, to) end)
        check("of a range", { 30, unpack(from) }, device,
          function(x) return x[{ { 3, 29, 26 } }]:reshape({ 2, unpack(to) }) end,
          function(r) return R.reshape(R.range(r, 1, 3, 29, 26), { 2, unpack(to) }) end)
      end
    end
    check("of the transpose", { 4, 6 }, device, function(x) return x.T:reshape(3, 8) end,
      function(r) return R.reshape(R.permute(r, { 2, 1 }), { 3, 8 }) end)
    check("of a flip", { 4, 6 }, device, function(x) return x:flip(2):reshape(24) end,
      function(r) return R.reshape(R.flip(r, 2), { 24 }) end)
    check("of a broadcast", { 4, 1 }, device, function(x) return x:broadcast_to(4, 3):reshape(-1) end,
      function(r) return R.reshape(R.broadcast(r, { 4, 3 }), { 12 }) end)
    check("-1", { 4, 6 }, device, function(x) return x:reshape(3, -1) end,
      function(r) return R.reshape(r, { 3, 8 }) end)
    check("-1", { 4, 6 }, device, function(x) return x:reshape(-1) end, function(r) return R.reshape(r, { 24 }) end)
    check("-1 of 1", { 4, 6 }, device, function(x) return x:reshape(24, -1) end,
      function(r) return R.reshape(r, { 24, 1 }) end)
    check("0-d", { 1, 1 }, device, function(x) return x:reshape({}) end, function(r) return R.reshape(r, {}) end)
    check("from 0-d", {}, device, function(x) return x:reshape(1, 1) end, function(r) return R.reshape(r, { 1, 1 }) end)
    check("empty", { 0, 3 }, device, function(x) return x:reshape(5, 0) end,
      function(r) return R.reshape(r, { 5, 0 }) end)
    check("empty -1", { 0, 3 }, device, function(x) return x:reshape(-1, 3) end,
      function(r) return R.reshape(r, { 0, 3 }) end)
    local x = lode.zeros({ 4, 6 }, { device = device })
    support.fails(function() return x:reshape(5, 5) end, "reshape: ", "[4,6] with 24 elements", "[5,5]")
    support.fails(function() return x:reshape(5, -1) end, "reshape: ", "[4,6] with 24 elements")
    support.fails(function() return x:reshape(-1, -1) end, "reshape: ", "both -1")
    support.fails(function() return x:reshape(-2, 12) end, "reshape: ", "-2")
    support.fails(function() return x:reshape(-1, 0) end, "reshape: ", "[4,6]")
    support.fails(function() return x:reshape(1, 1, 1, 1, 1, 1, 1, 4, 6) end, "reshape: ", "8")
    support.fails(function() return x:reshape(2 ^ 40, 2 ^ 40) end, "reshape: ", "64 bits")
  end)

  each_device("broadcast_to", function(device)
    check("rows", { 3 }, device, function(x) return x:broadcast_to(4, 3) end,
      function(r) return R.broadcast(r, { 4, 3 }) end)
    check("columns", { 4, 1 }, device, function(x) return x:broadcast_to({ 4, 3 }) end,
      function(r) return R.broadcast(r, { 4, 3 }) end)
    check("0-d", {}, device, function(x) return x:broadcast_to(2, 2) end,
      function(r) return R.broadcast(r, { 2, 2 }) end)
    check("itself", { 4 }, device, function(x) return x:broadcast_to(4) end, function(r) return r end)
    check("to nothing", { 1, 3 }, device, function(x) return x:broadcast_to(0, 3) end,
      function() return R.new("i32", { 0, 3 }, {}) end)
    local x = lode.zeros({ 4, 3 }, { device = device })
    support.fails(function() return x:broadcast_to(4, 4) end, "broadcast_to: ", "[4,3]", "[4,4]")
    support.fails(function() return x:broadcast_to(3) end, "broadcast_to: ", "[4,3]", "[3]")
    support.fails(function() return x:broadcast_to(1, 3) end, "broadcast_to: ", "[4,3]", "[1,3]")
  end)

  each_device("expand_dims and squeeze", function(device)
    for d = 1, 3 do
      local shape = { 3, 4 }
      table.insert(shape, d, 1)
      check("expand_dims", { 3, 4 }, device, function(x) return x:expand_dims(d) end,
        function(r) return R.reshape(r, shape) end)
      check("expand_dims from the end", { 3, 4 }, device, function(x) return x:expand_dims(d - 4) end,
        function(r) return R.reshape(r, shape) end)
      check("squeeze", shape, device, function(x) return x:squeeze(d) end,
        function(r) return R.reshape(r, { 3, 4 }) end)
    end
    check("squeeze all", { 1, 3, 1, 1 }, device, function(x) return x:squeeze() end,
      function(r) return R.reshape(r, { 3 }) end)
    check("squeeze some", { 1, 3, 1, 1 }, device, function(x) return x:squeeze({ 1, -1 }) end,
      function(r) return R.reshape(r, { 3, 1 }) end)
    local x = lode.zeros({ 3, 1 }, { device = device })
    support.fails(function() return x:squeeze(1) end, "squeeze: ", "dim 1 has 3")
    support.fails(function() return x:squeeze(3) end, "squeeze: ", "dim 3")
    support.fails(function() return x:squeeze({ 2, 2 }) end, "squeeze: ", "twice")
    support.fails(function() return x:expand_dims(4) end, "expand_dims: ", "dim 4")
    support.fails(function() return x:expand_dims() end, "expand_dims: ", "argument 2")
    local full = lode.zeros({ 1, 1, 1, 1, 1, 1, 1, 1 }, { device = device })
    support.fails(function() return full:expand_dims(1) end, "expand_dims: ", "8")
  end)

  each_device("flip", function(device)
    check("one", { 3, 4 }, device, function(x) return x:flip(1) end, function(r) return R.flip(r, 1) end)
    check("all", { 3, 4 }, device, function(x) return x:flip() end, function(r) return R.flip(R.flip(r, 1), 2) end)
    check("both", { 3, 4 }, device, function(x) return x:flip({ 1, -1 }) end,
      function(r) return R.flip(R.flip(r, 1), 2) end)
    check("empty", { 0, 2 }, device, function(x) return x:flip() end, function(r) return r end)
    check("0-d", {}, device, function(x) return x:flip() end, function(r) return r end)
    support.fails(function() return lode.zeros({ 2 }, { device = device }):flip(2) end, "flip: ", "dim 2")
    support.fails(function() return lode.zeros({ 2 }, { device = device }):flip({ 1, 1 }) end, "flip: ", "twice")
  end)
end)

describe("joining", function()
  local R = reference

  each_device("concat", function(device)
    for d = 1, 3 do
      check("with itself", { 2, 3, 4 }, device, function(x) return lode.concat({ x, x, x }, d) end,
        function(r) return R.concat({ r, r, r }, d) end)
      check("from the end", { 2, 3, 4 }, device, function(x) return lode.concat({ x, x }, d - 4) end,
        function(r) return R.concat({ r, r }, d) end)
    end
    check("views of one", { 4, 6 }, device,
      function(x) return lode.concat({ x[{ {}, { 5, 6 } }], x, x[{ {}, { 1, 1 } }] }, 2) end,
      function(r) return R.concat({ R.range(r, 2, 5, 6), r, R.range(r, 2, 1, 1) }, 2) end)
    check("of one", { 4 }, device, function(x) return lode.concat({ x }) end, function(r) return r end)
    check("with nothing", { 4, 2 }, device, function(x) return lode.concat({ x[{ { 1, 0 } }], x, x[{ { 3, 2 } }] }) end,
      function(r) return r end)
    check("of nothing", { 0, 2 }, device, function(x) return lode.concat({ x, x }, 2) end,
      function() return R.new("i32", { 0, 4 }, {}) end)
    local mixed = lode.concat({ lode.ones({ 2 }, { dtype = "i32", device = device }),
      lode.full({ 1 }, 0.5, { dtype = "f64", device = device }), lode.full({ 1 }, true, { device = device }) })
    support.holds(mixed, "f64", { 4 }, { 1, 1, 0.5, 1 })
    local many = {}
    for i = 1, 300 do many[i] = lode.full({ 2 }, i, { dtype = "i32", device = device }) end
    local joined = lode.concat(many)
    assert.equal(600, joined.size)
    assert.equal(300 * 301, joined:sum():item())
    assert.equal(150, joined[300]:item())
  end)

  each_device("stack", function(device)
    for d = 1, 3 do
      local shape = { 2, 3 }
      table.insert(shape, d, 1)
      check("stack", { 2, 3 }, device, function(x) return lode.stack({ x, x }, d) end,
        function(r) return R.concat({ R.reshape(r, shape), R.reshape(r, shape) }, d) end)
    end
    check("of 0-d", {}, device, function(x) return lode.stack({ x, x, x }) end, function(r)
      return R.new("i32", { 3 }, { r.data[1], r.data[1], r.data[1] })
    end)
  end)

  each_device("says what does not fit together", function(device)
    local x, y = lode.zeros({ 2, 3 }, { device = device }), lode.zeros({ 2, 4 }, { device = device })
    support.fails(function() return lode.concat({ x, y }, 1) end, "concat: ", "dim 2 of input 2 is 4", "3")
    support.fails(function() return lode.concat({ x, x[1] }) end, "concat: ", "input 2 has 1 dim, input 1 has 2")
    support.fails(function() return lode.concat({}) end, "concat: ", "no inputs")
    support.fails(function() return lode.concat({ x, 5 }) end, "concat: ", "element 2 is a number")
    support.fails(function() return lode.concat(x) end, "concat: ", "argument 1", "a list of tensors")
    support.fails(function() return lode.concat({ x }, 3) end, "concat: ", "dim 3")
    support.fails(function() return lode.concat({ x[1][1] }) end, "concat: ", "0 dims")
    support.fails(function() return lode.concat({ x, y }, "rows") end, "concat: ", "a string")
    support.fails(function() return lode.stack({ x, y }) end, "stack: ", "[2,4]", "[2,3]")
    support.fails(function() return lode.stack({}) end, "stack: ", "no inputs")
    support.fails(function() return lode.stack({ x }, 4) end, "stack: ", "dim 4")
  end)
end)

describe("broadcasting of operands", function()
  each_device("matches dims from the last", function(device)
    for _, case in ipairs({
      { { 3, 4 }, { 4 } }, { { 3, 1 }, { 1, 4 } }, { { 2, 1, 4 }, { 3, 1 } }, { {}, { 2, 2 } }, { { 1 }, { 0 } },
      { { 5, 1, 3 }, { 5, 4, 1 } }, { { 0, 3 }, { 1 } },
    }) do
      local a, forms = counting(case[1], device)
      local b, others = counting(case[2], device)
      support.same(forms.memory + others.recorded, reference.apply("add", "NUMERIC", { a, b }), 0, "add")
      support.same(others.memory * forms.recorded, reference.apply("multiply", "NUMERIC", { b, a }), 0, "multiply")
    end
    local x, y = lode.zeros({ 1000, 20 }, { device = device }), lode.zeros({ 19 }, { device = device })
    support.fails(function() return x + y end, "add: shapes [1000,20] and [19] do not broadcast (dim 2: 20 and 19)")
    support.fails(function() return lode.where(x:less(1), x, y) end, "where: ", "[19]")
  end)
end)
