-- A dense linear system A x = b, timed three ways on each device: by LU, by Cholesky
-- where A is symmetric positive definite, and with a factor that is reused.
--
-- The questions are whether the matrix's structure was used, whether it had to
-- travel, and whether it had to be factored again.
--
--   lua examples/solve.lua --size=1000 --dtype=f64 --kind=all

local lode = require("lode")
local bench = require("lode.bench")
local parse = require("lode.bench.options").parse
local report = require("lode.report")
local units = report.units

local options, problem = parse(arg, {
  { "size", 1000 },
  { "dtype", "f64" },
  { "kind", "all" }, -- general, spd or all
  { "device", false, "cpu" },
  { "repeats", false, 1 },
})
local KINDS = { general = { "general" }, spd = { "spd" }, all = { "general", "spd" } }
if options and not KINDS[options.kind] then problem = "--kind is general, spd or all" end
if problem then
  io.stderr:write(problem, "\n")
  os.exit(2)
end
local n, dtype = options.size, options.dtype
local item = dtype == "f64" and 8 or 4
local EPSILON = 0.01 -- what is added to the diagonal of A A^T / n, whose values lie in (0, 4)

local METHODS = {
  general = { title = "LU", factor = "lu", operations = 2 / 3 * n ^ 3 },
  spd = { title = "Cholesky", factor = "cholesky", operations = 1 / 3 * n ^ 3 },
}

-- Several matrices and right-hand sides, made once, so that no call sees the values
-- of the call before: at most 256 MB of matrices.
local count = math.max(2, math.min(4, math.floor(256e6 / (n * n * item))))
local function turn(i)
  return (i - 1) % count + 1
end

local function matrix(kind, seed)
  local a = lode.randn({ n, n }, { seed = seed, dtype = dtype, device = "cpu" })
  if kind == "general" then return a end
  return lode.matmul(a, a.T) / n + EPSILON * lode.eye(n, { dtype = dtype, device = "cpu" })
end

local function prepare(kind)
  local data = { a = {}, b = {} }
  for i = 1, count do
    data.a[i] = matrix(kind, i):download()
    data.b[i] = lode.randn({ n }, { seed = 100 + i, dtype = dtype, device = "cpu" }):download()
  end
  return data
end

-- |A x - b| / (|A| |x|) in Frobenius and 2-norms, computed in double precision, in
-- units of n times the dtype's rounding (2^-53 or 2^-24): below 1 is as good as it gets.
local function residual(a, x, b)
  local function norm(v)
    return ((v * v):sum() ^ 0.5):item()
  end
  local a64, x64, b64 = a:to("f64"), x:to("f64"), b:to("f64")
  local unit = dtype == "f64" and 2 ^ -53 or 2 ^ -24
  return norm(lode.matmul(a64, x64) - b64) / (norm(a64) * norm(x64) * n * unit)
end

local function resident(data, device)
  local there = { a = {}, b = {} }
  for i = 1, count do
    there.a[i] = lode.tensor(data.a[i], { shape = { n, n }, dtype = dtype, device = device })
    there.b[i] = lode.tensor(data.b[i], { shape = { n }, dtype = dtype, device = device })
  end
  return there
end

-- { name, call, finish, operations }: call(i) solves system turn(i).
local function ways(kind, data, there, device)
  local method = METHODS[kind]
  local a = lode.tensor(data.a[1], { shape = { n, n }, dtype = dtype, device = device })
  local b = lode.tensor(data.b[1], { shape = { n }, dtype = dtype, device = device })
  local factors = {}
  for i = 1, count do
    factors[i] = there.a[i][method.factor](there.a[i])
  end
  local function solve(i)
    return there.a[turn(i)]:solve(there.b[turn(i)], { assume = kind })
  end
  local function wait()
    lode.sync(device)
  end
  local function nothing() end
  return {
    {
      method.title .. ", uploaded, x downloaded",
      function(i)
        a:upload(data.a[turn(i)])
        b:upload(data.b[turn(i)])
        a:solve(b, { assume = kind }):download()
      end,
      nothing,
      method.operations,
    },
    {
      method.title .. ", resident, x downloaded",
      function(i)
        solve(i):download()
      end,
      nothing,
      method.operations,
    },
    {
      method.title .. ", resident, x left there",
      function(i)
        solve(i):compute()
      end,
      wait,
      method.operations,
    },
    {
      method.title .. " factor reused, x left there",
      function(i)
        factors[turn(i)]:solve(there.b[turn(i)]):compute()
      end,
      wait,
      2 * n ^ 2,
    },
    -- What is checked: both forms of the solution.
    solutions = function(i)
      return { solve(i), factors[turn(i)]:solve(there.b[turn(i)]) }
    end,
  }
end

-- The largest residual of all prepared systems.
local function worst_residual(list, there)
  local worst = 0
  for i = 1, count do
    for _, x in ipairs(list.solutions(i)) do
      worst = math.max(worst, residual(there.a[i], x, there.b[i]))
    end
  end
  if not (worst < 10) then error(("the residual is %.3g times n eps"):format(worst)) end
  return worst
end

local function measure(kind, device, rows)
  local data = prepare(kind)
  local there = resident(data, device)
  local list = ways(kind, data, there, device)
  local worst = ("%.1e"):format(worst_residual(list, there))
  for _, way in ipairs(list) do
    local time = bench.measure(way[2], { finish = way[3], repeats = options.repeats })
    rows[#rows + 1] = {
      way[1],
      units.time(time.median),
      units.time_range(time.low, time.high),
      ("%d x %d"):format(time.repeats, time.calls),
      units.flops(way[4] / time.median),
      worst,
    }
  end
end

-- LAPACK is loaded by the first solve: after it the device lines can say which one,
-- or that there is none.
local solves, why = pcall(function()
  lode.eye(1, { device = "cpu" }):solve(lode.ones({ 1 }, { device = "cpu" })):sync()
end)

print(("solve: A x = b, n = %d, %s"):format(n, dtype))
local devices, absent = report.devices.print(lode.devices(), options.device)
if not devices then
  io.stderr:write(absent, "\n")
  os.exit(2)
end
if not solves then
  print("\n" .. why)
  return
end
for _, device in ipairs(devices) do
  local rows = { { device, "median", "p25 – p75", "repeats", "rate", "residual" } }
  for _, kind in ipairs(KINDS[options.kind]) do
    measure(kind, device, rows)
  end
  print()
  report.grid.print(rows)
end
print("\nrepeats: samples x calls in one; median and quartiles are those of the samples, for one call")
print("rate: 2/3 n^3 operations for LU, 1/3 n^3 for Cholesky, 2 n^2 for a reused factor, by the median")
print("residual: |A x - b| / (|A| |x| n u) in double precision, u = the dtype's rounding; the largest of all")
