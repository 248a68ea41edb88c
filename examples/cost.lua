-- The smoothness cost of many trajectories, timed three ways on each device.
--
-- A row of x is one trajectory of `dim` numbers: `ndof` joints, step after step. Its
-- cost is the sum of squared second differences, the first step being repeated
-- before the start. The question is where the time goes: into the transfers, the
-- waits, or the arithmetic.
--
--   lua examples/cost.lua --samples=1000 --dim=20 --ndof=2 --dtype=f32

local lode = require("lode")
local bench = require("lode.bench")
local parse = require("lode.bench.options").parse
local report = require("lode.report")
local units = report.units

local options, problem = parse(arg, {
  { "samples", 1000 },
  { "dim", 20 },
  { "ndof", 2 },
  { "dtype", "f32" },
  { "device", false, "cpu" },
  { "repeats", false, 1 },
})
if options and options.ndof >= options.dim then problem = "--ndof must be less than --dim" end
if problem then
  io.stderr:write(problem, "\n")
  os.exit(2)
end
local samples, dim, ndof, dtype = options.samples, options.dim, options.ndof, options.dtype

local function smoothness(x) -- [samples, dim] -> [samples]
  local function lag(v)
    return lode.concat({ v[{ {}, { 1, ndof } }], v[{ {}, { 1, dim - ndof } }] }, 2)
  end
  local x1 = lag(x)
  local k = x + lag(x1) - 2 * x1
  return (k ^ 2):sum(2)
end

-- The same for one trajectory, in plain Lua and double precision.
local function plain(row)
  local cost = 0
  local function lagged(j)
    return j > ndof and j - ndof or j
  end
  for j = 1, dim do
    local once = lagged(j)
    cost = cost + (row[j] + row[lagged(once)] - 2 * row[once]) ^ 2
  end
  return cost
end

-- Different values for every call, made once: at most 256 MB of them.
local item = dtype == "f64" and 8 or 4
local count = math.max(2, math.min(8, math.floor(256e6 / (samples * dim * item))))
local payloads, expected = {}, {}
for i = 1, count do
  local values = lode.rand({ samples, dim }, { seed = i, dtype = dtype, device = "cpu" })
  payloads[i] = values:download()
  expected[i] = plain(values[1]:totable())
end

local function turn(i) -- which payload call i uses
  return (i - 1) % count + 1
end

-- Each way computes the cost of payload `turn(i)` and returns it.
local function ways(device)
  local place = { shape = { samples, dim }, dtype = dtype, device = device }
  local x = lode.tensor(payloads[1], place)
  local resident = {}
  for i = 1, count do
    resident[i] = lode.tensor(payloads[i], place)
  end
  return {
    {
      "uploaded, cost downloaded",
      function(i)
        x:upload(payloads[turn(i)])
        local cost = smoothness(x)
        cost:download()
        return cost
      end,
    },
    {
      "resident, cost downloaded",
      function(i)
        local cost = smoothness(resident[turn(i)])
        cost:download()
        return cost
      end,
    },
    {
      "resident, cost left there",
      function(i)
        return smoothness(resident[turn(i)]):compute()
      end,
      function()
        lode.sync(device)
      end,
    },
  }
end

-- Compares the first value with the plain Lua loop's; rounding of the dtype alone may differ.
local function check(call)
  local worst = 0
  for i = 1, count do
    local got = call(i)[1]:item()
    worst = math.max(worst, math.abs(got - expected[i]) / math.abs(expected[i]))
  end
  local limit = dtype == "f64" and 1e-13 or 1e-5
  if not (worst <= limit) then error(("the first value differs from the plain Lua loop's by %.3g"):format(worst)) end
  return worst
end

print(("smoothness cost: %d trajectories of %d numbers (%d joints), %s"):format(samples, dim, ndof, dtype))
local devices, absent = report.devices.print(lode.devices(), options.device)
if not devices then
  io.stderr:write(absent, "\n")
  os.exit(2)
end

local bytes = (samples * dim + samples) * item
for _, device in ipairs(devices) do
  local rows = { { device, "median", "p25 – p75", "repeats", "throughput" } }
  local worst = 0
  for _, way in ipairs(ways(device)) do
    local name, call, finish = way[1], way[2], way[3]
    worst = math.max(worst, check(call))
    local time = bench.measure(call, { finish = finish, repeats = options.repeats })
    rows[#rows + 1] = {
      name,
      units.time(time.median),
      units.time_range(time.low, time.high),
      ("%d x %d"):format(time.repeats, time.calls),
      units.bandwidth(bytes / time.median),
    }
  end
  print()
  report.grid.print(rows)
  print(("first value %.9g; a plain Lua loop gives %.9g (largest relative difference of %d: %.1e)"):format(
    smoothness(lode.tensor(payloads[1], { shape = { samples, dim }, dtype = dtype, device = device }))[1]:item(),
    expected[1], count, worst))
end
print("\nrepeats: samples x calls in one; median and quartiles are those of the samples, for one call")
print(("throughput: bytes of the trajectories and of their cost (%s) by the median"):format(units.bytes(bytes)))
