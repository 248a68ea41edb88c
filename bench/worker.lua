-- The lode side of a comparison: a process driven over standard input by bench/harness.py, so that lode and its
-- peers are timed in turns, in one run. Its argument is the device to work on.
--
-- A line is a command and its words; the answer is one line, "ok" with what was asked, or "error" with the message.
-- The first line is "ok" without a question.
--
--   load PROGRAM DTYPE SETS FILE SHAPE...   inputs for a program of bench/programs.lua: FILE holds the sets one after
--                                           another, of each its inputs ("1000x20"), row-major, in native byte order
--   time MODE CALLS WARM                    median and mean of the seconds that a call takes, of CALLS after WARM that
--                                           are not counted; sets in turn
--   result FILE                             writes what the program gives for the last set, its results one by one
--
-- The mode "empty" times no program but an empty kernel.
local lode = require("lode")
local unpack = unpack or table.unpack -- luacheck: ignore
lode.set_default({ device = arg[1] or "cpu" })

local here = arg[0]:match("^(.*/)") or ""
local programs = dofile(here .. "programs.lua")
local program, sets, graph, empty_kernel

local bytes_of = { f32 = 4, f64 = 8 }
local piece = 2 ^ 22 -- elements: strings stay small where Lua's own memory is

-- One input: read in pieces, and joined on the device.
local function read(file, dtype, shape)
  local left, parts = 1, {}
  for _, extent in ipairs(shape) do left = left * extent end
  while left > 0 do
    local count = math.min(left, piece)
    local bytes = assert(file:read(count * bytes_of[dtype]), "the file is too short")
    parts[#parts + 1] = lode.tensor(bytes, { shape = { count }, dtype = dtype })
    left = left - count
  end
  return lode.concat(parts):reshape(shape):compute():sync()
end

local function write(file, x)
  x = x:compute():reshape(-1)
  for first = 1, x.size, piece do
    file:write(x[{ { first, math.min(first + piece - 1, x.size) } }]:download())
    collectgarbage()
  end
end

local function run(set)
  local a, b = program(set[1], set[2])
  if b then return lode.compute(a, b) end
  return a:compute()
end

-- What a call is. Some rows compare lode with itself: a result that is read, with resident or uploaded inputs.
local modes = {}

function modes.wait(set)
  local a, b = run(set)
  a:sync()
  if b then b:sync() end
  return a, b
end

modes.enqueue = run

-- As `wait`, with the program recorded once.
function modes.replayed(set)
  graph = graph or lode.graph(program, unpack(set, 1, #set))
  local a, b = graph(unpack(set, 1, #set))
  a:sync()
  if b then b:sync() end
  return a, b
end

function modes.read(set) return run(set):download() end

function modes.upload(set)
  set.bytes = set.bytes or set[1]:download()
  set[1]:upload(set.bytes)
  return run(set):download()
end

function modes.empty()
  empty_kernel = empty_kernel or dofile(here .. "empty_kernel.lua")
  empty_kernel()
end

local commands = {}

function commands.load(name, dtype, count, path, ...)
  program, sets = assert(programs[name], "no such program"), nil
  graph = nil
  collectgarbage()
  lode.trim()
  local file = assert(io.open(path, "rb"))
  local loaded = {}
  for i = 1, tonumber(count) do
    loaded[i] = {}
    for j, words in ipairs({ ... }) do
      local shape = {}
      for extent in words:gmatch("%d+") do shape[#shape + 1] = tonumber(extent) end
      loaded[i][j] = read(file, dtype, shape)
    end
  end
  file:close()
  sets = loaded
  collectgarbage()
end

function commands.time(mode, calls, warm)
  local call, count, times, result, other = modes[mode], #sets, {}, nil, nil
  for i = 1, tonumber(warm) do result, other = call(sets[i % count + 1]) end
  lode.sync()
  for i = 1, tonumber(calls) do
    local start = lode.clock()
    result, other = call(sets[i % count + 1])
    times[i] = lode.clock() - start
  end
  lode.sync()
  local total = 0
  for i = 1, #times do total = total + times[i] end
  table.sort(times)
  return ("%.9g %.9g"):format(times[math.ceil(#times / 2)], total / #times), result, other
end

function commands.result(path)
  local file = assert(io.open(path, "wb"))
  for _, x in ipairs({ program(sets[#sets][1], sets[#sets][2]) }) do write(file, x) end
  file:close()
end

io.write("ok\n")
io.flush()
for line in io.lines() do
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local done, answer = pcall(commands[words[1]], unpack(words, 2))
  io.write(done and "ok " or "error ", (tostring(answer or ""):gsub("%s+", " ")), "\n")
  io.flush()
end
