-- Every operation of ops.def x dtype x device x kind of view, against the oracle.
local reference = require("spec.reference")
local lode = require("lode")
local support = require("spec.support")

local unpack = unpack or table.unpack -- luacheck: ignore
local each_device = support.each_device(it, function(why) pending(why) end)

-- ---- kinds of view: a base shape, and the same view of both sides ------------------

local views = {
  { name = "contiguous", shape = { 3, 17 }, ref = function(t) return t end, view = function(x) return x end },
  {
    name = "sliced", shape = { 5, 23 },
    ref = function(t) return reference.range(reference.range(t, 1, 2, 4), 2, 3, 22, 2) end,
    view = function(x) return x[{ { 2, 4 }, { 3, 22, 2 } }] end,
  },
  {
    name = "transposed", shape = { 9, 4 },
    ref = function(t) return reference.permute(t, { 2, 1 }) end,
    view = function(x) return x.T end,
  },
  {
    name = "broadcast", shape = { 4, 1 },
    ref = function(t) return reference.broadcast(t, { 2, 4, 6 }) end,
    view = function(x) return x:broadcast_to({ 2, 4, 6 }) end,
  },
  {
    name = "reversed", shape = { 3, 18 },
    ref = function(t) return reference.flip(reference.flip(t, 1), 2) end,
    view = function(x) return x[{ { -1, 1, -1 }, { -1, 1, -1 } }] end,
  },
  {
    name = "of one column", shape = { 6, 5 },
    ref = function(t) return reference.select(t, 2, 3) end,
    view = function(x) return x[{ {}, 3 }] end,
  },
  { name = "empty", shape = { 3, 0 }, ref = function(t) return t end, view = function(x) return x end },
  { name = "0-d", shape = {}, ref = function(t) return t end, view = function(x) return x end },
  { name = "of size 1", shape = { 1, 1, 1 }, ref = function(t) return t end, view = function(x) return x end },
  {
    name = "of special values", shape = { 20, 20 }, data = "special",
    ref = function(t) return t end, view = function(x) return x end,
  },
  { name = "long", shape = { 2, 1500 }, ref = function(t) return t end, view = function(x) return x end },
}

-- A base in the oracle and in lode, both viewed.
local function both(view, dtype, seed, device)
  local count = 1
  for _, n in ipairs(view.shape) do count = count * n end
  local base = reference.new(dtype, view.shape, support.data(dtype, count, seed, view.data))
  return view.ref(base), view.view(support.tensor(base, device))
end

-- Where the difficult values would ask of the oracle what a double cannot say.
local function is_beyond_oracle(op, view, dtype)
  if view.data ~= "special" then return false end
  local exact = { add = true, subtract = true, negative = true, abs = true }
  if dtype == "i64" then return not exact[op.name] and op.rule == "NUMERIC" and not op.name:find("imum") end
  if dtype == "i32" then return op.name == "pow" end
  return op.name == "tanh" or op.name == "pow" or op.name == "sin" or op.name == "cos"
end

local function check_elementwise(op, dtype, device)
  local arity = support.arity[op.kind]
  for number, view in ipairs(views) do
    local refs, tensors, dtypes = {}, {}, {}
    for i = 1, arity do
      dtypes[i] = op.rule == "SELECT" and i == 1 and "bool" or dtype
      refs[i], tensors[i] = both(view, dtypes[i], 1000 * number + i, device)
    end
    if op.name == "pow" and not reference.is_float(dtype) then -- exponents whose powers a double can say
      refs[2] = reference.apply("remainder", "NUMERIC", { refs[2], reference.new(dtype, {}, { 4 }) })
      tensors[2] = tensors[2] % 4
    end
    if not is_beyond_oracle(op, view, dtype) then
      local want = reference.apply(op.name, op.rule, refs)
      local round = reference.ops[op.name].round
      if not reference.is_float(want.dtype) then round = 0 end
      local what = ("%s of %s, %s"):format(op.name, dtype, view.name)
      support.same(lode[op.name](unpack(tensors)), want, round, what)
    end
  end
end

local function refused(op, dtype)
  local dtypes = { dtype, dtype, dtype }
  if op.rule == "SELECT" then dtypes[1] = "bool" end
  return reference.rule(op.rule, dtypes, "f32") == nil
end

describe("elementwise operations", function()
  for _, op in ipairs(support.ops) do
    if op.kind ~= "REDUCE" and op.kind ~= "COUNTER" then
      assert(reference.ops[op.name], "spec/reference.lua lacks " .. op.name)
      each_device(op.name, function(device)
        for _, dtype in ipairs(reference.dtypes) do
          if refused(op, dtype) then
            local x = lode.ones({ 2 }, { dtype = dtype, device = device })
            local arguments = { x, x, x }
            local arity = support.arity[op.kind]
            support.fails(function() return lode[op.name](unpack(arguments, 1, arity)) end, op.name, dtype)
          else
            check_elementwise(op, dtype, device)
          end
        end
      end)
    end
  end

  each_device("promotion of every pair of dtypes", function(device)
    for _, a in ipairs(reference.dtypes) do
      for _, b in ipairs(reference.dtypes) do
        local x = reference.new(a, { 4 }, support.data(a, 4, 1))
        local y = reference.new(b, { 3, 1 }, support.data(b, 3, 2))
        local left, right = support.tensor(x, device), support.tensor(y, device)
        support.same(left:equal(right), reference.apply("equal", "COMPARE", { x, y }), 0, a .. " = " .. b)
        if a ~= "bool" or b ~= "bool" then
          support.same(left + right, reference.apply("add", "NUMERIC", { x, y }), 0, a .. " + " .. b)
        end
        support.same(left / right, reference.apply("divide", "FLOATING", { x, y }), 0, a .. " / " .. b)
      end
    end
  end)

  each_device("casts between every pair of dtypes", function(device)
    for _, from in ipairs(reference.dtypes) do
      for _, to in ipairs(reference.dtypes) do
        for _, kind in ipairs({ "plain", "special" }) do
          local x = reference.new(from, { 5, 40 }, support.data(from, 200, 3, kind))
          local beyond = to == "i64" and kind == "special" and reference.is_float(from)
          if not beyond then
            support.same(support.tensor(x, device):to(to), reference.cast(x, to), 0, from .. " to " .. to)
          end
        end
      end
    end
  end)
end)

-- ---- reductions ------------------------------------------------------------------------

local reduced = {
  { shape = { 3, 17 }, dims = { 2 } },
  { shape = { 17, 3 }, dims = { 1 } },
  { shape = { 3, 17 }, dims = { 1, 2 } },
  { shape = { 4, 5, 6 }, dims = { 2 } },
  { shape = { 4, 5, 6 }, dims = { 1, 3 } },
  { shape = { 4, 1, 6, 1 }, dims = { 2, 4 } },
  { shape = { 70, 20 }, dims = { 2 } },
  { shape = { 2, 2500 }, dims = { 2 } },
  { shape = { 2500, 3 }, dims = { 1 } },
  { shape = { 3, 50, 40 }, dims = { 1, 2, 3 } },
  { shape = { 2, 1100, 3 }, dims = { 2, 3 } },
  { shape = { 1030, 2, 2 }, dims = { 1, 2 } },
  { shape = { 3, 300 }, dims = { 1 } },
  { shape = { 1, 1 }, dims = { 1, 2 } },
  { shape = { 0, 3 }, dims = { 1 } },
  { shape = { 0, 3 }, dims = { 2 } },
}

local function check_reduction(name, dtype, device, case, kind)
  local count = 1
  for _, n in ipairs(case.shape) do count = count * n end
  local base = reference.new(dtype, case.shape, support.data(dtype, count, count + 7, kind))
  local x = support.tensor(base, device)
  local want = reference.reduce(base, name, case.dims)
  local what = ("%s of %s [%s]"):format(name, dtype, table.concat(case.shape, ","))
  support.same(x[name](x, case.dims, { keepdims = true }), want, 0, what)
  -- the same order whatever the layout: reversed in memory, transposed in memory
  local last = #case.shape
  local reversed = support.tensor(reference.flip(base, last), device):flip(last)
  support.same(reversed[name](reversed, case.dims, { keepdims = true }), want, 0, what .. " reversed")
  if last == 2 and count > 0 then
    local turned = support.tensor(reference.permute(base, { 2, 1 }), device).T
    support.same(turned[name](turned, case.dims, { keepdims = true }), want, 0, what .. " transposed")
  end
end

local function allows(op, dtype)
  if op.rule == "LOGICAL" then return dtype == "bool" end
  return dtype ~= "bool" or op.name == "sum" or op.name == "prod"
end

describe("reductions", function()
  for _, op in ipairs(support.ops) do
    if op.kind == "REDUCE" then
      each_device(op.name, function(device)
        for _, dtype in ipairs(reference.dtypes) do
          if not allows(op, dtype) then
            local x = lode.ones({ 2 }, { dtype = dtype, device = device })
            support.fails(function() return lode[op.name](x) end, op.name, dtype)
          else
            for _, case in ipairs(reduced) do
              local is_empty = case.shape[case.dims[1]] == 0
              local product_of_many = op.name == "prod" and not reference.is_float(dtype) and dtype ~= "bool"
              if not (is_empty and reference.reductions[op.name].empty == nil) and not product_of_many then
                check_reduction(op.name, dtype, device, case)
              end
            end
            if reference.is_float(dtype) and op.name ~= "prod" then
              check_reduction(op.name, dtype, device, { shape = { 9, 40 }, dims = { 2 } }, "special")
              check_reduction(op.name, dtype, device, { shape = { 40, 9 }, dims = { 1 } }, "special")
            end
          end
        end
      end)
    end
  end

  each_device("mean", function(device)
    local base = reference.new("f32", { 5, 30 }, support.data("f32", 150, 11))
    local want = reference.reduce(base, "sum", { 2 })
    for i, x in ipairs(want.data) do want.data[i] = reference.f32(x / 30) end
    support.same(support.tensor(base, device):mean(2, { keepdims = true }), want, 0, "mean")
    assert.equal("f32", lode.ones({ 3 }, { dtype = "i32", device = device }):mean().dtype)
  end)

  each_device("of nothing", function(device)
    local x = lode.zeros({ 0, 3 }, { device = device })
    support.same(x:sum(1), reference.new("f32", { 3 }, { 0, 0, 0 }), 0, "sum")
    support.same(x:prod(1), reference.new("f32", { 3 }, { 1, 1, 1 }), 0, "prod")
    support.fails(function() return x:min(1) end, "min", "[0,3]")
    support.fails(function() return x:max() end, "max", "[0,3]")
    support.same(x:sum(2), reference.new("f32", { 0 }, {}), 0, "no rows")
  end)
end)
