-- Programs on a GPU in all the ways that its passes are cut (csrc/cuda/layout.h), compiled and interpreted: the same
-- bits as on the CPU.
local lode = require("lode")
local support = require("spec.support")

local on_cuda = support.cuda_only(it, function(why) pending(why) end)

local function lag(x, n)
  local width = x.shape[2]
  return lode.concat({ x[{ {}, { 1, n } }], x[{ {}, { 1, width - n } }] }, 2)
end

-- `expression` is given random tensors of these shapes.
local function case(expression, ...) return { expression = expression, shapes = { ... } } end

local function check(cases)
  return function(device)
    local before = lode.jit
    for _, mode in ipairs({ "wait", "off" }) do
      lode.jit = mode
      for i, c in ipairs(cases) do
        for _, dtype in ipairs({ "f32", "f64" }) do
          local function run(where)
            local inputs = {}
            for k, shape in ipairs(c.shapes) do
              inputs[k] = lode.randn(shape, { dtype = dtype, device = where, seed = k }):compute()
            end
            local outputs = { c.expression((unpack or table.unpack)(inputs)) } -- luacheck: ignore
            lode.compute((unpack or table.unpack)(outputs)) -- luacheck: ignore
            local bytes = {}
            for k, output in ipairs(outputs) do bytes[k] = output:download() end
            return table.concat(bytes)
          end
          local expected, got = run("cpu"), run(device)
          if expected ~= got then
            lode.jit = before
            error(("case %d, %s, jit %s: other bits than the CPU's"):format(i, dtype, mode))
          end
        end
      end
    end
    lode.jit = before
  end
end

-- Without exp: `e` stands for it.
local function softmax(x)
  local last = #x.shape
  local e = (x - x:max(last, { keepdims = true })):abs() + 1
  return e / e:sum(last, { keepdims = true })
end

local function moments(x)
  local mean = x:mean(2, { keepdims = true })
  return mean, ((x - mean) ^ 2):mean(2)
end

describe("programs", function()
  on_cuda("store elements, in vectors where they can", check({
    -- long rows, several of which a thread has
    case(function(x, y) return x - y end, { 41, 1 }, { 3000 }),
    case(function(x, y) return x * y + 1, x:less(y) end, { 18, 4096 }, { 4096 }),
    case(function(x) return x[{ { 1, -3 }, { 2, -2 } }] + x[{ { 3, -1 }, { 2, -2 } }] * x[{ { 2, -2 }, { 3, -1 } }] end,
      { 39, 2503 }),
    case(function(x, y) return x + y end, { 5, 7, 2100 }, { 7, 1 }),
    case(function(x, y) return (x:expand_dims(2) - y:expand_dims(1)):square():sum(3) end, { 23, 3 }, { 1031, 3 }),
    case(function(x, y) return x * y + 1 end, { 1001 }, { 1001 }),
    case(function(x, y) return x[{ { 2, 1000 } }] - y[{ { 1, 999 } }] end, { 1001 }, { 1001 }),
    case(function(x, y) return x + y end, { 57, 20 }, { 20 }),
    case(function(x, y) return (x + y):less(x * y) end, { 57, 20 }, { 57, 1 }),
    case(function(x, y) return x.T * y end, { 33, 70 }, { 70, 33 }),
    case(function(x, y) return x:flip() + y:to("i32"):to("f64") end, { 3, 5, 7 }, { 5, 7 }),
  }))

  on_cuda("work on rows in registers", check({
    case(function(x) return ((x + lag(lag(x, 4), 4) - 2 * lag(x, 4)) ^ 2):sum(2) end, { 1000, 20 }),
    case(function(x) return x + lag(x * 2, 4) end, { 1000, 20 }),
    case(function(x, y) return lag(x, 3) * y end, { 129, 19 }, { 19 }),
    case(function(x, y) return lag(x + y, 1) end, { 131, 32 }, { 131, 1 }),
    case(function(x) return x:sum(2) end, { 1000, 7 }),
    case(function(x) return (x.T * 2):max(2) end, { 18, 300 }),
    case(function(x) return lag(x[{ {}, { 3, 14 } }], 2):prod(2) end, { 77, 20 }),
  }))

  on_cuda("work on wide rows in shared memory", check({
    case(function(x) return x + lag(x * 3, 40) end, { 99, 200 }),
    case(function(x) return (lag(lag(x * 3, 40) * x, 7) - x):sum(2) end, { 99, 256 }),
    case(function(x, y) return lag(x * y, 1):min(2) end, { 3, 33 }, { 3, 1 }),
    case(function(a, b, c, d, e, f) -- too many at a time for registers
      local s = (a * b + c * d + e * f):sum(2, { keepdims = true })
      return (a - s) * (b + s) + (c - s) * (d + s) + (e - s) * (f + s)
    end, { 3, 1000 }, { 3, 1000 }, { 3, 1000 }, { 3, 1000 }, { 3, 1000 }, { 3, 1000 }),
  }))

  on_cuda("use what rows reduce to with the rows", check({
    case(softmax, { 1000, 20 }),
    case(softmax, { 33, 7, 32 }),
    case(softmax, { 70, 64 }),
    case(softmax, { 3, 1000 }),
    case(softmax, { 2, 4096 }),
    case(softmax, { 3000 }),
    case(softmax, { 2, 5000 }), -- too long for one pass
    case(moments, { 129, 20 }),
    case(moments, { 9, 1025 }),
    case(moments, { 2, 3000 }),
    case(function(x) return (x - lag(x, 3)):sum(2):abs():sqrt() + x[{ {}, 1 }], x:max(2) end, { 57, 20 }),
    case(function(x) return lag(softmax(x), 40) * 2 end, { 11, 100 }),
    case(function(x) -- a row of one column
      local y = x * 2
      return lag(y, 40):sum(2) + y[{ {}, { 3, 3 } }]:broadcast_to({ 11, 100 }):sum(2)
    end, { 11, 100 }),
  }))

  on_cuda("spread rows of any length over threads", check((function()
    local cases = {}
    for _, width in ipairs({ 33, 63, 64, 65, 100, 256, 512, 513, 1000, 1023, 1024, 1025, 2048, 2049, 3072, 4096 }) do
      cases[#cases + 1] = case(softmax, { 1, width })
      cases[#cases + 1] = case(function(x) local mean, variance = moments(x) return x - mean, mean, variance end,
        { width < 300 and 67 or 5, width })
      cases[#cases + 1] = case(function(x) return x:prod(2), x:min(2), x:max(2), x:greater(0):all(2) end, { 9, width })
    end
    return cases
  end)()))

  on_cuda("spread rows of all kinds over threads", check({
    case(function(x, y) return softmax(x.T) * y end, { 130, 70 }, { 130 }), -- columns, and a row for all
    case(function(x, y) return softmax(x + y), y:sum(2) end, { 7, 9, 300 }, { 7, 9, 1 }),
    case(function(x, y) return softmax(x[{ {}, { 700, 1, -1 } }] * y) end, { 11, 700 }, { 11, 700 }),
    case(function(x) return softmax(x[{ {}, { 3, 203 } }]) end, { 40, 300 }),
    case(function(x) -- integers, booleans
      local i = (x * 1000):to("i32")
      local j, b = i:to("i64") * 1000003, x:greater(-2)
      return i - i:max(2, { keepdims = true }), j * j:sum(2, { keepdims = true }),
        b:logical_and(b:all(2, { keepdims = true })), i:prod(2)
    end, { 21, 1500 }),
    case(function(x) -- NaN in some rows, signed zeros in all; the bits of a NaN are not promised
      local function known(y) return lode.where(y:equal(y), y, 7) end
      local y = x:greater(2.5):where(x * 0 / 0, x:abs():less(1):where(x * 0, x))
      local z = x * 0
      return known(y:min(2)), known(y - y:max(2, { keepdims = true })), 1 / z:min(2), 1 / z:max(2)
    end, { 37, 600 }),
    case(function(x, y) -- what the first level reads is used by the last one too
      local d = x - x:mean(2, { keepdims = true })
      return d / d:square():sum(2, { keepdims = true }):sqrt() * y + x, d:max(2)
    end, { 50, 200 }, { 200 }),
  }))

  on_cuda("have several outputs", check({
    case(function(x, y) return x + y, x * y, x:less(y), (x - y):to("f32") end, { 1001 }, { 1001 }),
    case(function(x, y) return x + y, x - y end, { 57, 20 }, { 20 }),
    case(function(x, y) return x + y, lag(x, 4) - y end, { 300, 20 }, { 300, 20 }),
    case(function(x) return x * 2, (x * 2):sum(2), x:max(2) end, { 300, 20 }),
    case(function(x) return x * 2, (x * 2):sum(2), x:max(2) end, { 30, 300 }),
  }))

  on_cuda("reduce rows that are stored first", check({
    case(function(x) return (x - lag(x, 4)):sum() end, { 3001, 20 }),
    case(function(x) return (x - lag(x, 4)):sum(1) end, { 3001, 20 }),
    case(function(x) return (x - lag(x, 40)):max(1) end, { 51, 100 }),
    case(function(x) return softmax(x):sum(1), softmax(x):sum() end, { 51, 100 }),
  }))

  on_cuda("reduce sequences of any length", check({
    case(function(x) return x:sum() end, { 300007 }),
    case(function(x) return x:sum(2) end, { 3, 40001 }),
    case(function(x) return x:sum(2) end, { 300, 40 }),
    case(function(x) return x:sum(1) end, { 40001, 3 }),
    case(function(x) return x:sum(1) end, { 2500, 70 }),
    case(function(x) return x:sum(1) end, { 1100, 900 }),
    case(function(x) return x:sum(1) end, { 5, 900 }),
    case(function(x) return x.T:sum(2) end, { 300, 2000 }),
    case(function(x) return (x * 2):sum(2) end, { 5, 3000, 11 }),
    case(function(x) return x:sum({ 1, 3 }) end, { 7, 3, 500, 11 }),
    case(function(x) return x:sum({ 2, 4 }) end, { 7, 3, 50, 11 }),
    case(function(x) return x:greater(3):any(2) end, { 20, 1500 }),
    case(function(x) return x:to("i32"):sum(1) end, { 5000, 4 }),
  }))

  on_cuda("reduce long columns side by side, where there are many", function(device)
    if os.getenv("LODE_EMULATED") and os.getenv("LODE_LONG") ~= "1" then return pending("34 million elements") end
    local function run(where)
      local x = lode.rand({ 1030, 32800 }, { seed = 1, device = where }):compute()
      local sum, max = x:sum(1), x:max(1)
      lode.compute(sum, max)
      return sum:download() .. max:download()
    end
    assert.is_true(run("cpu") == run(device))
  end)
end)
