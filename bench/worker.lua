-- The lode side of a comparison: driven over standard input by bench/versus_numpy.py (or _torch.py), so that
-- both sides are timed in turns, in one run. Its argument is the device to work on.
--
-- Each line is a command: "cost SAMPLES DTYPE CALLS FILE" or "solve N KIND CALLS FILE". FILE holds
-- the inputs, little-endian and row-major: several sets of samples one after the other, or a matrix
-- and a right-hand side. The answer is one line: seconds per call, then the path of a file with the
-- result's bytes (for cost: of the last set).
--
-- "resident SAMPLES DTYPE CALLS -", "upload ..." and "read ..." make their own random data on the device, and
-- enqueue costs with one wait at the end; upload fresh samples and read the cost on every call; only read it.
local lode = require("lode")
lode.set_default({ device = arg[1] or "cpu" })

local ndof, dim = 2, 20

local function lag(v)
  return lode.concat({ v[{ {}, { 1, ndof } }], v[{ {}, { 1, dim - ndof } }] }, 2)
end

local function smoothness(x)
  local x1 = lag(x)
  local k = x + lag(x1) - 2 * x1
  return (k ^ 2):sum(2)
end

local sizes = { f32 = 4, f64 = 8 }

local function read_all(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read("*a")
  file:close()
  return bytes
end

local function answer(seconds, path, bytes)
  local file = assert(io.open(path .. ".lode", "wb"))
  file:write(bytes)
  file:close()
  io.write(("%.9g %s.lode\n"):format(seconds, path))
  io.flush()
end

local commands = {}

-- Recorded, computed and waited for on every call, as NumPy's function is called.
function commands.cost(samples, dtype, calls, path)
  samples, calls = tonumber(samples), tonumber(calls)
  local bytes, each = read_all(path), samples * dim * sizes[dtype]
  local sets = {}
  for at = 1, #bytes, each do
    sets[#sets + 1] = lode.tensor(bytes:sub(at, at + each - 1), { shape = { samples, dim }, dtype = dtype })
  end
  bytes = nil -- luacheck: ignore
  local result
  for i = 1, #sets do result = smoothness(sets[i]):compute():sync() end -- warm
  local start = lode.clock()
  for i = 0, calls - 1 do result = smoothness(sets[i % #sets + 1]):compute():sync() end
  local seconds = (lode.clock() - start) / calls
  answer(seconds, path, smoothness(sets[#sets]):download())
  return result
end

-- Several sets, so that the last-level cache does not hold what the next call reads; at most 16.
local function random_sets(samples, dtype)
  local sets = {}
  for i = 1, math.max(2, math.min(16, math.ceil(256e6 / (samples * dim * sizes[dtype])))) do
    sets[i] = lode.rand({ samples, dim }, { dtype = dtype, seed = i }):compute()
  end
  return sets
end

local function timed(calls, call, finish)
  for i = 1, 20 do call(i) end -- warm
  lode.sync()
  local start = lode.clock()
  for i = 1, calls do call(i) end
  if finish then finish() end
  io.write(("%.9g -\n"):format((lode.clock() - start) / calls))
  io.flush()
end

function commands.resident(samples, dtype, calls)
  local sets = random_sets(tonumber(samples), dtype)
  timed(tonumber(calls), function(i) smoothness(sets[i % #sets + 1]):compute() end, lode.sync)
end

function commands.read(samples, dtype, calls)
  local sets = random_sets(tonumber(samples), dtype)
  timed(tonumber(calls), function(i) smoothness(sets[i % #sets + 1]):download() end)
end

function commands.upload(samples, dtype, calls)
  local sets = random_sets(tonumber(samples), dtype)
  local payloads, x = {}, sets[1]
  for i = 1, #sets do payloads[i] = sets[i]:download() end
  timed(tonumber(calls), function(i)
    x:upload(payloads[i % #payloads + 1])
    smoothness(x):download()
  end)
end

function commands.solve(n, kind, calls, path)
  n, calls = tonumber(n), tonumber(calls)
  local bytes, matrix = read_all(path), n * n * 8
  local a = lode.tensor(bytes:sub(1, matrix), { shape = { n, n }, dtype = "f64" })
  local b = lode.tensor(bytes:sub(matrix + 1), { shape = { n }, dtype = "f64" })
  local options = { assume = kind }
  local x = a:solve(b, options):compute():sync() -- warm
  local start = lode.clock()
  for _ = 1, calls do x = a:solve(b, options):compute():sync() end
  answer((lode.clock() - start) / calls, path, x:download())
end

for line in io.lines() do
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  commands[words[1]](words[2], words[3], words[4], words[5])
  collectgarbage()
end
