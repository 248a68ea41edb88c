-- Timing that can be believed: warm-up, repeats calibrated to the clock, quartiles.
--
-- Work on a device is enqueued, so the end of a call says nothing about the end of
-- its work. A measured call therefore waits itself (a download does), or `finish`
-- waits at the end of each sample, inside the time.
--
-- The collector is left alone: a script's garbage is part of what its calls cost.

local lode = require("lode")

local bench = {}

local SAMPLE_SECONDS = 1e-3 -- a sample is at least so long: the clock's own cost (~50 ns) vanishes
local WARM_SECONDS = 0.05 -- pools, clocks and traces have settled by then
local LEAST_SAMPLES = 5 -- fewer have no quartiles worth printing

local function quantile(sorted, q)
  local at = 1 + q * (#sorted - 1)
  local low = math.floor(at)
  local high = math.min(low + 1, #sorted)
  return sorted[low] + (at - low) * (sorted[high] - sorted[low])
end

-- Times `calls` calls with one `finish`; `first` numbers the calls, so that they
-- can take turns among prepared inputs. Returns seconds.
local function sample(call, finish, first, calls)
  local start = lode.clock()
  for i = first, first + calls - 1 do
    call(i)
  end
  finish()
  return lode.clock() - start
end

local function nothing() end

-- Doubles the number of calls until a sample is long enough, and warms up on the
-- way: caches, kernels, pools and traces are made here. Returns calls in a sample,
-- seconds of the last one, and calls done.
local function calibrate(call, finish)
  local calls, done, spent = 1, 1, sample(call, finish, 1, 1)
  while true do
    local seconds = sample(call, finish, done + 1, calls)
    done, spent = done + calls, spent + seconds
    if seconds < SAMPLE_SECONDS then
      calls = calls * 2
    elseif spent >= WARM_SECONDS then
      return calls, seconds, done
    end
  end
end

-- bench.measure(call, options): times call(i), i = 1, 2, 3, ...
--   finish   called at the end of a sample, inside its time (waits for the device)
--   repeats  samples to take; without it, as many as fit in `seconds` (at least 5)
--   seconds  1
-- Returns { median, low, high (the quartiles; seconds for one call), repeats, calls
-- (in one sample) }.
function bench.measure(call, options)
  options = options or {}
  local finish = options.finish or nothing
  local calls, seconds, done = calibrate(call, finish)
  local fit = math.floor((options.seconds or 1) / seconds)
  local repeats = options.repeats or math.max(LEAST_SAMPLES, math.min(fit, 1000))
  local times = {}
  for i = 1, repeats do
    times[i] = sample(call, finish, done + 1, calls) / calls
    done = done + calls
  end
  table.sort(times)
  return {
    median = quantile(times, 0.5),
    low = quantile(times, 0.25),
    high = quantile(times, 0.75),
    repeats = repeats,
    calls = calls,
  }
end

return bench
