-- The same bits whatever computes them: one script in interpreters with other numbers of threads, other instruction
-- sets, on other devices and with other ways to run a program there prints the same checksum of many results.
local lode = require("lode")
local support = require("spec.support")

local on_cuda = support.cuda_only(it, function(why) pending(why) end)

local script = [[
local lode = require("lode")
lode.set_default({ device = os.getenv("LODE_SPEC_DEVICE") })
lode.jit = os.getenv("LODE_SPEC_JIT") or "wait"

-- Two sums of bytes: order counts (Fletcher's checksum, 32 bits).
local a, b, count = 0, 0, 0
local function add(bytes)
  for i = 1, #bytes do
    a = (a + bytes:byte(i)) % 65521
    b = (b + a) % 65521
  end
  count = count + #bytes
end

local function results(x, dtype)
  add(x:sum():download())
  add(x:max():download())
  add(x:min():download())
  add(x:mean():download())
  add(x:expand_dims(2):broadcast_to(x.size, 3):var(1):download())
  add((x * 0.001 + 1):prod():download())
  add(((x * 1.7 - 0.3) / (x + 2)):sum():download())
  add(x:less(0.5):to(dtype):sum():download())
end

for _, dtype in ipairs({ "f32", "f64" }) do
  for _, make in ipairs({ "rand", "randn" }) do
    local long = lode[make]({ 5000 }, { dtype = dtype, seed = 11 }):compute()
    for n = 1, 5000 do
      if n < 70 or n % 97 == 0 or n > 4990 or n % 1024 < 2 then results(long[{ { 1, n } }], dtype) end
    end
    add((long * 3 + 1):download())
    add((long / 3 - long):abs():sqrt():download())
    local even, odd = long[{ { 1, -1, 2 } }], long[{ { 2, -1, 2 } }]
    add((((0.5 - even * odd):minimum(odd) * 3 + even):square() - odd):maximum(-0.1):download())
    add((1 / lode.where((even - 0.5 * odd):less(odd), even, 2)):download())
    add(long:reshape(50, 100):sum(1):download())
    add(long:reshape(50, 100):sum(2):download())
    add(long:reshape(50, 100).T:sum(1):download())
    add(long:reshape(5, 10, 100):flip():max({ 1, 3 }):download())
    add(lode.where(long:greater(0), long, -long):clip(0.1, 0.9):sum():download())
  end
  local x = lode.rand({ 200000, 20 }, { dtype = dtype, seed = 5 }):compute()
  local function lag(v) return lode.concat({ v[{ {}, { 1, 2 } }], v[{ {}, { 1, 18 } }] }, 2) end
  local x1 = lag(x)
  local cost = ((x + lag(x1) - 2 * x1) ^ 2):sum(2):compute()
  add(cost[{ { 1, -1, 97 } }]:download())
  add(cost:sum():download())
  add(x:sum(1):download())
  add(x:sum():download())
  add(x:max(1):download())
  local mean, variance = x:mean(1), x:var(1)
  lode.compute(mean, variance)
  add(mean:download() .. variance:download())
  add(x:var():download() .. x:reshape(2000, 2000):var(1):download() .. (x * 3 + 1):var():download())
  add((x * 2):min():download())
  add(x.T:sum(2):download())
  local seven = x[{ { 1, 7000 } }]
  local any = ((x[{ { 1, 200 } }] - 0.5) * 40):compute()
  local wide = any * any:abs() * any:abs() -- far for sin and cos of f32
  add((any * 3):exp():download() .. seven:log():sum(1):download() .. wide:tanh():download())
  add(wide:sin():download() .. (wide * 1000):cos():download() .. (any:abs() ^ any):download())
end
for _, dtype in ipairs({ "i32", "i64" }) do
  local x = (lode.rand({ 30000 }, { dtype = "f64", seed = 9 }) * 1000 - 500):to(dtype):compute()
  add((x * 7 + x % 13):download())
  add(x:sum():download() .. x:max():download() .. x:min():download() .. (x * 2 + 1):prod():download())
  add(x:floor_divide(x % 7):sum():download())
  add(x:less(0):any():download() .. x:less(0):all():download() .. x:less(0):sum():download())
end
io.write(("%04x%04x of %d bytes"):format(b, a, count))
]]

local function supports(flag)
  local file = io.open("/proc/cpuinfo")
  if not file then return false end
  local text = file:read("*a")
  file:close()
  for _, name in ipairs(flag) do
    if not text:find("[%s:]" .. name .. "[%s\n]") then return false end
  end
  return true
end

local flags = {
  baseline = {}, avx2 = { "avx2" },
  avx512 = { "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl" },
}

-- What a child uses in fact: lode.devices() says it.
local asks = [[
local lode = require("lode")
for _, device in ipairs(lode.devices()) do
  if device.name == "cpu" then
    for _, p in ipairs(device.properties) do io.write(p[1], "=", p[2], "\n") end
  end
end
io.write("threads ", lode.get_threads(), "\n")
]]

describe("results", function()
  local want, status = support.child(script, "LODE_NUM_THREADS=1 LODE_ISA=baseline")

  it("are there", function()
    assert.equal(0, status, want)
    assert.is_truthy(want:find("^%x+ of %d+ bytes$"), want)
  end)

  for _, isa in ipairs({ "baseline", "avx2", "avx512" }) do
    for threads = 1, 2 do
      if isa ~= "baseline" or threads > 1 then
        it(("have the same bits with %d threads and %s"):format(threads, isa), function()
          if not supports(flags[isa]) then return pending("this CPU has no " .. isa) end
          local variables = ("LODE_NUM_THREADS=%d LODE_ISA=%s"):format(threads, isa)
          assert.equal(want, (support.child(script, variables)))
        end)
      end
    end
  end

  for _, jit in ipairs({ "wait", "background", "off" }) do
    on_cuda("have the same bits with lode.jit = " .. jit, function(device)
      local variables = ("LODE_SPEC_DEVICE=%s LODE_SPEC_JIT=%s"):format(device, jit)
      assert.equal(want, (support.child(script, variables, 300)))
    end)
  end

  it("come from what the variables ask for", function()
    for isa, needed in pairs(flags) do
      if supports(needed) then
        local text = support.child(asks, "LODE_NUM_THREADS=1 LODE_ISA=" .. isa)
        assert.is_truthy(text:find("=" .. isa .. "\n", 1, true), text)
        assert.is_truthy(text:find("threads 1\n", 1, true), text)
      end
    end
    local text = support.child(asks, "LODE_NUM_THREADS=x LODE_ISA=mmx") -- nonsense is not asked for
    assert.is_truthy(text:find("threads %d+\n$"), text)
  end)

  it("have the same bits reduced where they lie and where they are computed", function()
    for _, dtype in ipairs({ "f32", "f64", "i32" }) do
      local x = (lode.rand({ 70000 }, { dtype = "f64", seed = 3 }) * 1000):to(dtype):compute()
      for _, n in ipairs({ 15, 1023, 1024, 1025, 4095, 5121, 16384, 16400, 40000, 70000 }) do
        local part = x[{ { 1, n } }]
        local made = part * 1
        for _, name in ipairs({ "sum", "max", "prod" }) do
          assert.is_true(part[name](part):download() == made[name](made):download(), name .. " " .. n)
        end
      end
    end
  end)

  -- What the CPU keeps in registers from operation to operation, in lengths around those of its strips.
  local steps = {
    function(v, x) return v - x end,
    function(v) return 0.25 - v end,
    function(v, _, y) return y * v end,
    function(v, _, y) return v:minimum(y) end,
    function(v) return 1 / v end, -- tells zeros apart
    function(v, _, y) return v:maximum(y) end,
    function(v) return v + -1 / math.huge end, -- minus zero
    function(v) return 1 / v end,
    function(v) return v:abs() end,
    function(v) return v:sqrt() end,
    function(v, x, y) return lode.where(v:greater(y), x, y) end,
    function(v) return -v end,
    function(v, x) return x / (v + 3) end,
    function(v, x) return lode.where(v:less_equal(0.1), 1, x) end,
    function(v, _, y) return y - v end,
    function(v) return v:square() * 4 end,
    function(v) return v:maximum(-0.5) + 0.125 end,
    function(v, _, y) return lode.where(v:not_equal(0.125), v, y) end,
    function(v) return 2 / (v - 7) end,
  }

  local function in_turn(first, last, x, y, each)
    local v = x
    for s = first, last do v = each(steps[s](v, x, y)) end
    return v:compute():download()
  end

  it("have the same bits in one pass and operation by operation", function()
    local function leave(v) return v end
    local function compute(v) return v:compute() end
    for _, dtype in ipairs({ "f32", "f64" }) do
      local x, y = lode.rand({ 3000 }, { dtype = dtype, seed = 4 }), lode.rand({ 3000 }, { dtype = dtype, seed = 5 })
      local zero, equal = x:less(0.1), y:less(0.1)
      x = lode.where(equal, 0.1, lode.where(zero, 0, x - 0.5)):compute()
      y = lode.where(equal, 0.1, lode.where(zero, -x, y - 0.5)):compute()
      for _, n in ipairs({ 1, 15, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 1000, 1025, 3000 }) do
        local xn, yn = x[{ { 1, n } }], y[{ { 1, n } }]
        for first = 1, #steps do
          for last = first + 1, math.min(first + 5, #steps) do
            assert.is_true(in_turn(first, last, xn, yn, leave) == in_turn(first, last, xn, yn, compute),
              ("%s, %d elements, steps %d to %d"):format(dtype, n, first, last))
          end
        end
        assert.is_true(in_turn(1, #steps, xn, yn, leave) == in_turn(1, #steps, xn, yn, compute), dtype .. " " .. n)
      end
    end
  end)

  it("have the same bits after lode.set_threads", function()
    local x = lode.rand({ 100000, 7 }, { seed = 2 }):compute()
    local before = lode.get_threads()
    local bits = {}
    for i, threads in ipairs({ 1, 2, 3, 0 }) do
      lode.set_threads(threads) -- no more than there are processors; 0: as many
      assert.is_true(lode.get_threads() >= 1 and (threads == 0 or lode.get_threads() <= threads))
      bits[i] = x:sum():download() .. x:sum(1):download() .. (x * 3):sum(2):download() .. (x + 1):sqrt():download()
        .. x:var():download() .. x:var(1):download()
    end
    lode.set_threads(before)
    for i = 2, #bits do assert.is_true(bits[i] == bits[1]) end
  end)
end)
