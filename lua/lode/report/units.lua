-- Numbers with natural units, as short texts: "12.3 µs", "80.0 MB", "21.4 GB/s".

local units = {}

-- Three significant digits, without an exponent.
local function digits(x)
  if x >= 100 then return ("%.0f"):format(x) end
  if x >= 10 then return ("%.1f"):format(x) end
  return ("%.2f"):format(x)
end

-- `scales`: { { factor, unit }, ... } from the largest to the smallest.
local function scaled(x, scales)
  if x ~= x or x == math.huge then return tostring(x) end
  for i, scale in ipairs(scales) do
    if x >= scale[1] * 0.9995 or i == #scales then return digits(x / scale[1]) .. " " .. scale[2] end
  end
end

local TIME = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "µs" }, { 1e-9, "ns" } }
local BYTES = { { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" }, { 1, "B" } }

function units.time(seconds)
  return scaled(seconds, TIME)
end

-- Two times in the unit that the larger one asks for: "11.9 – 12.8 µs".
function units.time_range(low, high)
  for i, scale in ipairs(TIME) do
    if high >= scale[1] * 0.9995 or i == #TIME then
      return ("%s – %s %s"):format(digits(low / scale[1]), digits(high / scale[1]), scale[2])
    end
  end
end

function units.bytes(bytes)
  return scaled(bytes, BYTES)
end

-- Always in GB/s and GFLOP/s, so that the rows of a column can be compared.
function units.bandwidth(bytes_per_second)
  return digits(bytes_per_second / 1e9) .. " GB/s"
end

function units.flops(operations_per_second)
  return digits(operations_per_second / 1e9) .. " GFLOP/s"
end

return units
